// Streamed weights that two neighbouring CTAs, a cluster, share (src/cuda/device/shared_weights.cuh): each fetches half
// of a slab, for both, so that half as many bytes leave the L2. Tiles of the two have the same channels and phases, in
// the same order, at places half of all apart: of an even number of images the borders are alike.
#pragma once

#include <initializer_list>

#include "cuda/dense/hooks.h"
#include "cuda/dense/schedule.h"

namespace transfuse::cuda {

// What the texts of src/cuda/device have at these hooks; nothing where weights are not shared.
Hooks for_pairs(const Config& config, std::initializer_list<std::string_view> names);
void place_pairs(Hooks& places, const Config& config);

// Functions of the CTAs' tiles, behind the text of sizes.
std::string_view paired_tiles(const Config& config);

// Words of texts: a CTA's first tile, the number of all tiles, and a tile's among them.
std::string first_tile(const Config& config);
std::string all_tiles(const Config& config);
std::string tile_number(const Config& config);

}  // namespace transfuse::cuda
