// Scales and shifts by parameters, one a channel, between two linear maps.
#pragma once

#include <vector>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// A value and the scales and shifts through which it is made of another, y (itself where there are none).
struct Channelwise {
    struct Link {
        Op op;
        ValueId operand;
        bool left;  // v op operand; else operand op v
    };
    ValueId v = -1, y = -1;
    std::vector<Link> links;  // outermost first
    bool alone = true;        // nobody else uses what lies between v and y, nor y
};
Channelwise channelwise(const Rewriter& r, ValueId v);

// v = s·y + t (−1: none), in f32 for 16 bits: s a number or a vector [C], t a vector. The bias of a lattice y is part
// of t.
struct ScaleAndShift {
    ValueId scale = -1, shift = -1;
};
ScaleAndShift scale_and_shift(Rewriter& r, const Channelwise& chain);
bool has_shift(const Rewriter& r, const Channelwise& chain);

// Flops of a convolution: two for each product that meets an input.
double product_flops(const Lattices& axes, int64_t batch, int64_t in, int64_t out, int64_t groups);

// The lattices of one input that `concat` puts one behind the other along the channels, as one of all of them, whatever
// that costs; −1 where they are none.
ValueId concatenated_lattice(Rewriter& r, ValueId concat);

// Whether what takes `together` is worth that in place of `apart`. Weights are made at every call by general routines,
// at a small part of the rate of a product: what is done to them counts 64 times.
bool pays(const Rewriter& r, double together, double weights, double apart);

}  // namespace transfuse
