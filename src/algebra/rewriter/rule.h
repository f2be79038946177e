// Rules: what they are called, where they are tried, what they do. One table a family, each in its own file.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

enum class Family : uint8_t {
    simplify,    // structure: identities, shapes, numbers
    expand,      // lowerings to primitives; exempt from the cost check, each removes an op nothing creates
    fold,        // scale and shift into weights and bias, constants merged
    collapse,    // linear reductions move before the convolution
    compose,     // pools, slices and padding become part of the lattice
    cancel,      // what a subtraction takes away again
    monotone,    // monotone ops after max and min
    statistics,  // variances of a convolution's result
    finish,      // the form the planner likes; tried when the others have nothing left to do
};

struct Rule {
    std::string_view name;
    Family family;
    std::vector<Op> ops;                        // tried on values of these ops
    ValueId (*apply)(Rewriter& r, ValueId id);  // the replacement, or −1
    bool any_cost = false;                      // fires whatever the cost model says; must say why it ends
    // Of a value: no extent of an input decides whether the rule applies to it, what it makes, and that this is
    // cheaper. Null: of none.
    bool (*at_any_size)(const Rewriter& r, ValueId id) = nullptr;
    bool competes = false;  // with itself and others for the same values: other orders are weighed (rewrite.cpp)
};

// Every op that works element by element, cast and detach included.
const std::vector<Op>& elementwise_ops();

std::span<const Rule> simplify_rules();
std::span<const Rule> shape_rules();
std::span<const Rule> expand_conv_rules();
std::span<const Rule> expand_pool_rules();
std::span<const Rule> expand_norm_rules();
std::span<const Rule> expand_interpolate_rules();
std::span<const Rule> expand_pointwise_rules();
std::span<const Rule> fold_rules();
std::span<const Rule> constant_rules();
std::span<const Rule> reduction_rules();
std::span<const Rule> centred_rules();
std::span<const Rule> collapse_rules();
std::span<const Rule> box_rules();
std::span<const Rule> compose_rules();
std::span<const Rule> sequence_rules();
std::span<const Rule> sum_rules();
std::span<const Rule> constant_channel_rules();
std::span<const Rule> concat_rules();
std::span<const Rule> cancel_rules();
std::span<const Rule> monotone_rules();
std::span<const Rule> statistics_rules();
std::span<const Rule> gate_rules();
std::span<const Rule> rearrange_rules();
std::span<const Rule> flip_rules();
std::span<const Rule> permutation_rules();
std::span<const Rule> finish_rules();

// All of them, in the order they are tried.
const std::vector<const Rule*>& all_rules();

}  // namespace transfuse
