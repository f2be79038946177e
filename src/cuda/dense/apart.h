// A convolution of few output channels with its taps apart. Channels alone would leave most of a tensor core's 64 rows
// empty, in the product of every window; instead each (channel, tap) is a row of one product with the inputs as they
// lie. What each tap makes of each input is stored, and whoever reads the convolution adds up the products that meet in
// an output (Place::taps_apart).
#pragma once

#include "cuda/dense/tile_program.h"
#include "cuda/emitter.h"

namespace transfuse::cuda {

// Whether the pass may be made so: fp32 (16-bit products leave nothing to gain), and behind it nothing but a chain on
// each pixel.
bool can_lie_apart(const Surroundings& around);

// The product alone, a row for each channel and tap.
void take_apart(TileProgram& program, Problem& problem);

int64_t products_apart(const Problem& problem);  // elements that are stored
Place place_apart(const Surroundings& around, const Problem& problem, int64_t at);
double gather_seconds(const Surroundings& around,
                      const Problem& problem);  // an estimate: adding up, and the launch for it

}  // namespace transfuse::cuda
