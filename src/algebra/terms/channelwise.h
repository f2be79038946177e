// Scales and shifts by parameters, one a channel, between two linear maps.
#pragma once

#include <vector>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// A value and the scales and shifts through which it is made of another, y (itself where there are none). What is made
// of a lattice by an image of parameters alone, as borders are, is made of that lattice, and the image comes first.
struct Channelwise {
    struct Link {
        Op op;
        ValueId operand;
        bool left;  // v op operand; else operand op v
    };
    ValueId v = -1, y = -1;
    std::vector<Link> links;  // outermost first
    ValueId image = -1;       // [1, C, …], added to y before all links; −1: none
    bool alone = true;        // nobody else uses what lies between v and y, nor y
};
Channelwise channelwise(const Rewriter& r, ValueId v);

// v = s·y + t + image (−1: none), in f32 for 16 bits: s a number or a vector [C], t a vector. The bias of a lattice y
// is part of t; the image is scaled, and of all of v's places.
struct ScaleAndShift {
    ValueId scale = -1, shift = -1, image = -1;
};
ScaleAndShift scale_and_shift(Rewriter& r, const Channelwise& chain);
bool has_shift(const Rewriter& r, const Channelwise& chain);
// v + image, the image that is added to v already made one with it.
ValueId plus_image(Rewriter& r, ValueId v, ValueId image);

// Flops of a convolution: two for each product that meets an input.
double product_flops(const Lattices& axes, int64_t batch, int64_t in, int64_t out, int64_t groups);

// Lattices of one input that nobody else uses, as one of all their channels, one behind the other, whatever that costs;
// −1 where they are none.
ValueId concatenated_lattice(Rewriter& r, const Operands& lattices);

// The lattice `id` and what its input is made by, another lattice or what resamples, as one, whatever that costs; −1
// where they cannot be. (A border that differs is added to it.)
ValueId lattice_with_inner(Rewriter& r, ValueId id);
// With another lattice, where that pays; `alone`: nobody else uses what id stands for.
ValueId lattice_in_sequence(Rewriter& r, ValueId id, bool alone);
ValueId lattice_with_resampling(Rewriter& r, ValueId id);
// A slice of a lattice, as the lattice that makes nothing else. −1 where it is none.
ValueId slice_of_lattice(Rewriter& r, ValueId slice);
// A lattice of single pixels behind what makes more of them, done before that; −1 where it is none, or does not pay.
ValueId pixelwise_before(Rewriter& r, ValueId id);
// The lattice `id` of what repeats itself along axes, as what broadcasts to it; −1 where it is none.
ValueId lattice_of_repeated(Rewriter& r, ValueId id);
// The same, expanded to its type.
ValueId lattice_on_constant_axes(Rewriter& r, ValueId id);

// Whether what takes `together` is worth that in place of `apart`. Weights are made at every call by general routines,
// at a small part of the rate of a product: what is done to them counts 64 times.
bool pays(const Rewriter& r, double together, double weights, double apart);

}  // namespace transfuse
