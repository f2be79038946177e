// A rule: what it is called, where it is tried, what it does.
#pragma once

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
    bool competes = false;  // with itself and others for the same values: the driver weighs other orders
    // A linear map moves before what it reads: where others read that, too, this is dearer until all have moved.
    bool moves = false;
};

}  // namespace transfuse
