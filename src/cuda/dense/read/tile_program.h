// The tile program of a dense pass: what the store role computes on the accumulators, read off the pass's steps.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cuda/dense/schedule/schedule.h"
#include "cuda/kernel/kernel.h"
#include "plan/fusion.h"

namespace transfuse::cuda {

// A tensor in memory as the kernel meets it: strides of the axes n, c, d, h, w; 0 where it is broadcast.
struct Operand {
    ValueId value = -1;  // what is read or stored
    ValueId root = -1;   // whose memory it lies in
    int64_t offset = 0;  // elements
    DType dtype = DType::f32;
    std::array<int64_t, 5> strides{};
    std::array<bool, 5> depends{};  // n, c, d, h, w: the value varies along the axis
    bool per_channel() const { return depends[1] && !depends[0] && !depends[2] && !depends[3] && !depends[4]; }
    bool constant() const { return !depends[0] && !depends[1] && !depends[2] && !depends[3] && !depends[4]; }
};

struct GridReduction {
    ValueId value = -1, of = -1;
    Op op = Op::sum;
    std::array<bool, 5> reduced{};  // n, c, d, h, w
    bool whole = false;  // every spatial axis is reduced: partial sums per tile; else the value itself is kept
};

// Lists of a pass: short ones mostly, made for every size and every kernel that is weighed.
using Values = Few<ValueId, 8>;
using OperandList = Few<Operand, 4>;

struct TileProgram {
    const Surroundings* around = nullptr;
    int spatial = 2;
    Operand input;        // streamed by the load role
    ValueId weight = -1;  // canonical [G, Cin/G, Cout/G, K…]
    Values prologue;      // steps
    Values steps;         // tile steps after the anchor
    std::optional<TilePool> pool;
    ValueId pool_value = -1;
    OperandList reads;  // of the prologue and the tile steps, bias included
    ValueId bias = -1;
    OperandList stores;
    Few<GridReduction, 2> grid;
    std::array<int64_t, 5> grid_shape{};  // of the values after the pool: n, c, d, h, w
    bool channel_reductions = false;
    bool row_reductions = false;  // along w: a warp of the store role has whole rows
    bool pixel_major = false;
    int vector = 1;              // outputs along w of a store thread
    int chain_instructions = 1;  // of the steps for one value, roughly
    Needs needs(int phases_w) const;
};

// nullopt with a sentence when the pass asks for something this family does not do.
std::optional<TileProgram> read_tile_program(const Surroundings& around, std::string* why_not);
std::optional<Problem> read_problem(const Surroundings& around, const TileProgram& program, Family family,
                                    std::string* why_not);
// Elements from the first of an image's vector of channels to its last, of an input whose rows begin anywhere.
int64_t unaligned_rows_extent(const Problem& problem, const Operand& input);
// Whether fp32 products are made in TF32: at this size, or at sizes many times larger.
bool tf32_pays(const Surroundings& around, const Problem& problem, bool at_larger_sizes);

}  // namespace transfuse::cuda
