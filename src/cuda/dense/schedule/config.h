// How a dense kernel is cut: runs of pixels, what the warpgroups divide, stages, weights, chunks. A plain value that
// prints itself; autotuning remembers it by its text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace transfuse::cuda {

enum class Split : uint8_t { channels, pixels, phases };  // what the two product warpgroups divide

struct Config {
    std::array<int, 4> run{1, 1, 1, 8};   // u extents of one run of pixels (one accumulator's N)
    std::array<int, 4> runs{1, 1, 1, 1};  // runs per tile (2 on one axis when pixels are split)
    Split split = Split::pixels;
    int bundles = 1;   // phase bundles a warpgroup holds at once
    int w_phases = 0;  // residues along w in a bundle; 0: all of them
    int k_steps = 1;   // K steps (8 or 16 channels) a stage
    int stages = 2, raw = 3;
    int piece = 1;  // of the raw patch: vectors of channels in a box, else pixels a load thread
    bool resident = false;
    int slab_tiles = 0, slabs = 2;      // streamed weights: operand tiles a slab, slabs in the ring
    int chunk_width = 64, buffers = 2;  // columns of a chunk; of a swap-AB product's results, channels
    int store_groups = 1;               // store warpgroups; 2 for heavy chains, 0 where the products run the chain
    int load_registers = 64, store_registers = 96, product_registers = 176;
    bool swap_ab = false;  // pixels are the rows of a product, all channels its columns (swap_ab_stores.h)
    bool direct = false;   // results go from the accumulators directly to memory (direct_stores.h)
    bool strip = false;    // a run is eight columns wide: each row of the patch is a block of the operand's pixels
    bool shared_padding = false;  // one tile takes the whole width: the zeros right of a row are those left of the next
    bool flat = false;            // and rows, which lie one after another in memory, come as one box
    bool alternates = false;      // the store role takes a chunk of one warpgroup, then one of the other
    bool skips = false;           // slabs whose windows lie outside the image, for a tile, are left out
    int threads() const { return 384 + 128 * store_groups; }
    void share_registers();  // among the roles: never more than the launch allocates
    bool operator==(const Config&) const = default;
};
std::string to_string(const Config& config);
std::optional<Config> config_named(const std::string& text);  // the inverse; nullopt for anything else

}  // namespace transfuse::cuda
