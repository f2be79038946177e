#include "cuda/dense/to_and_fro.h"

#include "cuda/dense/replaced.h"

namespace transfuse::cuda {

bool to_and_fro(const Problem& problem, const Config& c, const Schedule& s) {
    return c.turned && c.slab_tiles == 0 && c.k_steps == 1 && !c.resident && !c.skips &&
           (problem.load == LoadMode::boxes || problem.load == LoadMode::operand) && s.k_stages <= 2 * c.slabs &&
           c.slabs <= s.k_stages;
}

// Of the ring's slabs some hold one step all the time; the others one in the first half of a tile, another in the
// second.
void go_to_and_fro(std::string& body) {
    replace(
        body, "u[4], start; };",
        "u[4], start, round; };   // round: which of the block's tiles\n"
        "static __device__ __forceinline__ int step_of(int k, int round) { return round % 2 ? KSTEPS - 1 - k : k; }");
    replace(body, "    at.fixed = part % FIXED;\n",
            "    at.fixed = part % FIXED;\n    at.round = tile / (int)gridDim.x;\n");
    replace(body, "int turn = gridDim.x % PARTS == 0 ? tile / (int)gridDim.x : 0;", "const int turn = 0;");
}

void load_to_and_fro(std::string& loads) {
    const std::string_view begin = "            if (slab_meets(slab, w_at, s)) {\n",
                           end = "            if (step == KSTEPS)";
    const size_t from = loads.find(begin), to = loads.find(end);
    require(from != std::string::npos && from < to && to != std::string::npos, "the text of boxes has no slabs");
    loads.replace(from, to - from,
                  "            const int now = step_of(step, w_at.round), place = now % SLABS;\n"
                  "            if (w_at.round == 0 || step >= SLABS) {\n"
                  "                const int before = place < KSTEPS - SLABS ? w_at.round + (step >= SLABS) : 0;   // "
                  "loads of this slab\n"
                  "                if (before > 0 && !barrier_done(shared_address(&b.weights_empty[place]), (before - "
                  "1) & 1)) break;\n"
                  "                const int first = slab_first(w_at.variant, 0), bytes = (slab_first(w_at.variant, 1) "
                  "- first) * TILE_BYTES;\n"
                  "                copy_weights(shared_address(shared + WEIGHTS_AT + place * SLAB_BYTES), packed + "
                  "(((long long)w_at.fixed * KSTEPS + now) * OPERAND_TILES + first) * TILE_BYTES, bytes, "
                  "shared_address(&b.weights_full[place]), 0);\n"
                  "            }\n"
                  "            step++;\n");
    replace(loads, ", step = 0, slab = 0, w_slot = 0, w_turn = 0;", ", step = 0;");
    replace(loads, "// Asks for boxes and weights",
            "constexpr int BOXES_A_STAGE = LOAD == LOAD_OPERAND ? 1 : PIECES;\n"
            "static __device__ __forceinline__ int box_of(int box, int round) { return step_of(box / BOXES_A_STAGE, "
            "round) * BOXES_A_STAGE + box % BOXES_A_STAGE; }\n"
            "// Asks for boxes and weights");
    replace(loads, "(box * STAGE_CHANNELS", "(box_of(box, at.round) * STAGE_CHANNELS");
    replace(loads, "+ box * STAGE_CHANNELS", "+ box_of(box, at.round) * STAGE_CHANNELS");
    replace(loads, "+ box * (PIECE * LANES)", "+ box_of(box, at.round) * (PIECE * LANES)");
    replace(loads, "box / PIECES * STAGE_CHANNELS", "box_of(box, at.round) / PIECES * STAGE_CHANNELS");
}

}  // namespace transfuse::cuda
