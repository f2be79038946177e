#include "cuda/dense/shared_weights.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view weights =
#include "cuda/device/shared_weights.cuh"
    ;
constexpr std::string_view tiles =
#include "cuda/device/paired_tiles.cuh"
    ;

// Behind the loop over a CTA's tiles: those that only the other one has.
constexpr std::string_view passed_by =
    R"cuda(    for (int tile = blockIdx.x / 2; tile < streamed_tiles(s); tile = next_tile(tile)) {
        if (tile < s.total) continue;
        const Place at = place_of(tile, s);
        for (int step = 0; step < KSTEPS; step++)
            for (int part = 0; part < slab_count(at.variant); part++) {
                if (!slab_meets(part, at, s)) continue;
                barrier_wait(shared_address(&b.weights_full[slab]), slab_turn & 1);
                release_weights(shared_address(&b.weights_empty[slab]));
                if (++slab == SLABS) { slab = 0; slab_turn++; }
            }
    }
)cuda";

// Slabs are the pair's: what either needs, both take.
constexpr std::string_view other_place = R"cuda(
    int there = tile / PARTS + (1 - rank_in_pair()) * first_half(s);
    there /= s.tiles[3];
    at.other[1] = there % s.tiles[2] * TILE_H, at.other[0] = there / s.tiles[2] % s.tiles[1] * TILE_D;)cuda";
constexpr std::string_view either_meets = R"cuda(auto meets = [&](int d, int h) {
        return ADVANCE_D * (d + reach[0]) < s.in[1] && d + TILE_D - 1 + reach[1] >= 0 &&
               ADVANCE_H * (h + reach[2]) < s.in[2] && h + TILE_H - 1 + reach[3] >= 0;
    };
    return meets(at.u[1], at.u[2]) || meets(at.other[0], at.other[1]);)cuda";

const std::map<std::string_view, std::string_view> texts{{"weights", weights},
                                                         {"first", "blockIdx.x / 2"},
                                                         {"streamed", "streamed_tiles(s)"},
                                                         {"let_go", "release_weights"},
                                                         {"passed_by", passed_by}};

}  // namespace

Hooks for_pairs(const Config& config, std::initializer_list<std::string_view> names) {
    Hooks hooks;
    for (const std::string_view name : names)
        if (config.shared_weights) hooks.emplace(name, texts.at(name));
    return hooks;
}

void place_pairs(Hooks& places, const Config& config) {
    if (!config.shared_weights) return;
    places["first"] = texts.at("first"), places["grid"] = "(gridDim.x / 2)";
    places["half"] = " + rank_in_pair() * first_half(s)";
    places["turn"] = "int turn = gridDim.x / 2 % PARTS == 0 ? tile / (int)(gridDim.x / 2) : 0;";
    if (!config.skips) return;
    places["fields"] += ", other[2]", places["start"] += other_place, places["meets"] = either_meets;
}

std::string_view paired_tiles(const Config& config) { return config.shared_weights ? tiles : ""; }
std::string first_tile(const Config& config) {
    return std::string(config.shared_weights ? texts.at("first") : "blockIdx.x");
}
std::string all_tiles(const Config& config) { return config.shared_weights ? "all_tiles(s)" : "s.total"; }
std::string tile_number(const Config& config) { return config.shared_weights ? "tile_number(tile, s)" : "tile"; }

}  // namespace transfuse::cuda
