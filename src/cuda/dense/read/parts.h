// Products whose parts are stored, and added up by whoever reads the convolution (Place::col2im and slices), where what
// a tile would add up itself leaves tensor cores idle:
//
// col2im: few output channels leave most of a tensor core's 64 rows empty, in the product of every window. Instead each
// channel and tap, of all axes or some, is a row of one product with the inputs as they lie along those axes.
//
// split-K: many channels in and few outputs make few tiles with long sums. Slices of the channels are groups of their
// own, each with tiles of its own.
#pragma once

#include "cuda/dense/read/tile_program.h"
#include "cuda/general/emit/emitter.h"

namespace transfuse::cuda {

struct SumParts {
    Col2imAxes taps = 0;  // rows
    int64_t slices = 1;   // of each group's channels
    explicit operator bool() const { return taps != 0 || slices > 1; }
};

// What is worth an estimate, of a pass that takes so many seconds made whole: the axes that a rough count of
// products and bytes says, and slices that give a machine with idle multiprocessors something to do.
Few<SumParts, 4> parts_worth_trying(const Problem& problem, const Surroundings& around, double seconds);

// Whether whoever stores the pass's values may add up the parts: behind the convolution there is nothing but a chain on
// each pixel.
bool chain_can_gather(const Surroundings& around);

// The product alone, a row for each channel and tap of those axes, a group for each slice.
void make_in_parts(TileProgram& program, Problem& problem, const SumParts& parts);

int64_t parts_stored(const Problem& problem);  // elements
Place place_of_parts(const Surroundings& around, const Problem& problem, int64_t at);
double seconds_to_add_up(const Surroundings& around, const Problem& problem);  // an estimate, with the launch for it

// What a pass with parts says of them: "the products of each tap".
std::string name_of_parts(const SumParts& parts);

}  // namespace transfuse::cuda
