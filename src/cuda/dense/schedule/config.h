// How a dense kernel is cut: runs of pixels, what the warpgroups divide, stages, weights, chunks. A plain value that
// prints itself; autotuning remembers it by its text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cuda/dense/schedule/exit.h"

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
    Exit exit = Exit::store;
    bool strip = false;  // a run is eight columns wide: each row of the patch is a block of the operand's pixels
    bool shared_padding = false;  // one tile takes the whole width: the zeros right of a row are those left of the next
    bool flat = false;            // and rows, which lie one after another in memory, come as one box
    bool alternates = false;      // the store role takes a chunk of one warpgroup, then one of the other
    bool skips = false;           // slabs whose windows lie outside the image, for a tile, are left out
    int threads() const { return 384 + 128 * store_groups; }
    void share_registers();  // among the roles: never more than the launch allocates
    bool operator==(const Config&) const = default;
};

// visit(name, field) of every field, in order: keys and words are made by it. A field that is not listed does not
// compile.
template <class C, class Visit>
void each_field(C& config, const Visit& visit) {
    auto& [run, runs, split, bundles, w_phases, k_steps, stages, raw, piece, resident, slab_tiles, slabs, chunk_width,
           buffers, store_groups, load_registers, store_registers, product_registers, exit, strip, shared_padding, flat,
           alternates, skips] = config;
    visit("run", run), visit("runs", runs), visit("split", split), visit("bundles", bundles);
    visit("w_phases", w_phases), visit("k_steps", k_steps), visit("stages", stages), visit("raw", raw);
    visit("piece", piece), visit("resident", resident), visit("slab_tiles", slab_tiles), visit("slabs", slabs);
    visit("chunk_width", chunk_width), visit("buffers", buffers), visit("store_groups", store_groups);
    visit("load_registers", load_registers), visit("store_registers", store_registers);
    visit("product_registers", product_registers), visit("exit", exit), visit("strip", strip);
    visit("shared_padding", shared_padding), visit("flat", flat), visit("alternates", alternates);
    visit("skips", skips);
}

// The names of fields, each with its number; of a flag its name alone, where it is set.
std::string to_string(const Config& config);
std::optional<Config> config_named(const std::string& text);  // the inverse; nullopt for anything else

}  // namespace transfuse::cuda
