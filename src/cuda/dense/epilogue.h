// The text of the prologue and of the store role, and the arguments they bring with them.
#pragma once

#include <string>
#include <vector>

#include "cuda/dense/tile_program.h"
#include "cuda/expression.h"

namespace transfuse::cuda {

// How the 128 store threads lie over a chunk. Channel-major: `columns` lanes along w, each with `vector` neighbouring
// outputs, `rows` of them along channels. Pixel-major: lanes along channels, each with `vector` neighbouring channels.
struct StoreMap {
    bool vectors = false;   // a thread's outputs are whole pixels with all their w phases
    int vector = 1, pixels = 1;
    int lanes = 32, rows = 4, turns = 1;
    bool warps_along_w = false;   // channel reductions: a warp has all channels of its pixels
    int channels = 64;      // rows of a phase in the chunk
    int items = 16, batch = 16;
};

// Lines is appended line by line with the indentation of the enclosing braces.
class Lines {
public:
    void line(const std::string& text);
    void blank() { body_ += "\n"; }
    const std::string& str() const { return body_; }

private:
    std::string body_;
    int depth_ = 0;
};

struct Partial {            // of a grid reduction
    GridReduction reduction;
    int first_stat = 0, stats = 1;
    int store = -1;         // not whole: the store that keeps the value itself
};

class Epilogue {
public:
    Epilogue(const TileProgram& program, const Problem& problem);

    int table_bytes() const { return slots_at_; }
    int group_bytes() const { return exchange_at_ + 4096; }    // per store group: slots of partials, exchange of channel reductions
    const std::vector<Partial>& partials() const { return partials_; }
    int stats() const { return stats_; }
    Real real() const { return problem_.real_bytes() == 8 ? Real::f64 : Real::f32; }   // REAL in the text
    int real_bytes() const { return problem_.real_bytes(); }
    int64_t channels() const { return channels_; }
    bool per_tile() const { return per_tile_; }        // partials per tile (the batch is kept), else per CTA

    StoreMap map(const Schedule& s, const Config& c) const;
    std::string operands() const;                      // struct Operands
    std::string prologue() const;
    std::string tables() const;                        // fills the per-channel tables, run by all threads
    std::string store_role(const Schedule& s, const Config& c) const;
    std::string parameters() const;                    // of the kernel, and how Operands is made of them
    std::string operands_made() const;
    // Matching `parameters`; scratch addresses: of partial sums, and of each kept value.
    std::vector<Argument> arguments(int64_t partial_at, const std::vector<int64_t>& kept_at) const;
    const std::vector<Operand>& stores() const { return stores_; }

private:
    struct Kind { bool c = false, x = false; };
    struct Emit;
    const TileProgram& program_;
    const Problem& problem_;
    const Graph& graph_;
    std::vector<Operand> reads_, stores_;
    std::vector<int> table_of_;                        // per read: its per-channel table, −1
    std::vector<Partial> partials_;
    int tables_ = 0, stats_ = 0;
    int64_t channels_ = 0;
    int slots_at_ = 0, exchange_at_ = 0;
    bool per_tile_ = false;
};

}  // namespace transfuse::cuda
