// Rules that make of convolutions, and of what stands beside them, one convolution.
#pragma once

#include <span>

#include "algebra/rewriter/rule.h"

namespace transfuse {

std::span<const Rule> fold_rules();              // scales and shifts into weight and bias
std::span<const Rule> compose_rules();           // with pools, slices and padding
std::span<const Rule> sequence_rules();          // one after another
std::span<const Rule> sum_rules();               // added
std::span<const Rule> distribution_rules();      // of a sum, or of concatenated channels
std::span<const Rule> pixelwise_rules();         // of single pixels, beside what resamples
std::span<const Rule> concat_rules();            // of one input, concatenated
std::span<const Rule> constant_axes_rules();     // inputs that repeat themselves along axes
std::span<const Rule> constant_channel_rules();  // channels that do not vary over the image
std::span<const Rule> gate_rules();              // parts of the channels that meet again
std::span<const Rule> rearrange_rules();         // with rearrangements of channels and places
std::span<const Rule> place_rules();             // slices that are read, stacks that are written
std::span<const Rule> flip_rules();              // flips of the image are flips of the taps

}  // namespace transfuse
