// A convolution of few output channels by col2im. Channels alone would leave most of a tensor core's 64 rows
// empty, in the product of every window; instead each channel and tap, of all axes or some, is a row of one product
// with the inputs as they lie along those axes. What each tap makes of each input is stored, and whoever reads the
// convolution adds up the products that meet in an output (Place::col2im).
#pragma once

#include "cuda/dense/read/tile_program.h"
#include "cuda/general/emitter.h"

namespace transfuse::cuda {

// The axes whose taps shall be rows: those that a rough count of products and bytes says, none where channels fill the
// rows.
Col2imAxes col2im_axes(const Problem& problem, const Machine& machine);

// Whether whoever stores the pass's values may add up the products: behind the convolution there is nothing but a chain
// on each pixel.
bool chain_can_gather(const Surroundings& around);

// The product alone, a row for each channel and tap of those axes.
void to_col2im(TileProgram& program, Problem& problem, Col2imAxes axes);

int64_t col2im_products(const Problem& problem);  // elements that are stored
Place col2im_place(const Surroundings& around, const Problem& problem, int64_t at);
double col2im_seconds(const Surroundings& around,
                      const Problem& problem);  // an estimate: adding up, and the launch for it

}  // namespace transfuse::cuda
