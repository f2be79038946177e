#include "cuda/dense/schedule/serpentine.h"

namespace transfuse::cuda {

bool serpentine(const Problem& problem, const Config& c, const Schedule& s) {
    return c.exit == Exit::swap_ab && c.slab_tiles == 0 && c.k_steps == 1 && !c.resident && !c.skips &&
           (problem.load == LoadMode::boxes || problem.load == LoadMode::operand) && s.k_stages <= 2 * c.slabs &&
           c.slabs <= s.k_stages;
}

void serpentine_places(Hooks& places) {
    places["fields"] += ", round";
    places["round"] = "\n    at.round = tile / (int)gridDim.x;";
    places["turn"] = "const int turn = 0;";
    places["steps"] = R"cuda(   // round: which of the block's tiles
static __device__ __forceinline__ int step_of(int k, int round) { return round % 2 ? KSTEPS - 1 - k : k; }
constexpr int BOXES_A_STAGE = LOAD == LOAD_OPERAND ? 1 : PIECES;
static __device__ __forceinline__ int box_of(int box, int round) { return step_of(box / BOXES_A_STAGE, round) * BOXES_A_STAGE + box % BOXES_A_STAGE; })cuda";
}

// Of the ring's slabs some hold one step all the time; the others one in the first half of a tile, another in the
// second.
Hooks serpentine_loads(const Schedule& s) {
    // A step's slab of weights: of each variant as many tiles, as a rule.
    bool even = true;
    for (size_t v = 0; v < s.slabs.size(); ++v)
        even = even && s.slabs[v][0] == static_cast<int>(v) * s.slabs[0][1] &&
               s.slabs[v][1] == static_cast<int>(v + 1) * s.slabs[0][1];
    const std::string part =
        even ? "w_at.variant * (OPERAND_TILES / VARIANTS), bytes = OPERAND_TILES / VARIANTS * TILE_BYTES;"
             : "slab_first(w_at.variant, 0), bytes = (slab_first(w_at.variant, 1) - first) * TILE_BYTES;";
    return {{"box", "box_of(box, at.round)"},
            {"slabs", ""},
            {"slab", R"cuda(const int now = step_of(step, w_at.round), place = now % SLABS;
            if (w_at.round == 0 || step >= SLABS) {
                const int before = place < KSTEPS - SLABS ? w_at.round + (step >= SLABS) : 0;   // loads of this slab
                if (before > 0 && !barrier_done(shared_address(&b.weights_empty[place]), (before - 1) & 1)) break;
                const int first = )cuda" +
                         part + R"cuda(
                copy_weights(shared_address(shared + WEIGHTS_AT + place * SLAB_BYTES), packed + (((long long)w_at.fixed * KSTEPS + now) * OPERAND_TILES + first) * TILE_BYTES, bytes, shared_address(&b.weights_full[place]), 0);
            })cuda"},
            {"step", "++step"}};
}

}  // namespace transfuse::cuda
