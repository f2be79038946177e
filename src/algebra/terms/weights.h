// Weights [G, Cin/G, Cout/G, K…] as rules combine them.
#pragma once

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// A parameter in the type that weights are combined in: f32 for 16 bits, and without the rounding to 16 bits where it
// was combined before.
ValueId unrounded(Rewriter& r, ValueId w);

// A number, or a vector [C] as [G, 1, C/G, 1…] (output channels) or [G, C/G, 1, 1…] (input channels).
ValueId against_weight(Rewriter& r, ValueId vector, ValueId w, bool output_channels);

// y[n, o] = Σ_m x[n, m]·w[m, o] within groups, as the lattice on one element that it is: [rows, columns, 1].
ValueId matrix_product(Rewriter& r, ValueId x, ValueId w, int64_t rows, int64_t groups);

// Σ over the channels between of first[…, m, k₁…]·second[m, …, k₂…], and over the pairs (k₁, k₂) that meet at one tap
// of the composition: position[axis][k₁][k₂], −1 where a pair meets nothing. The groups of one divide those of the
// other.
using Positions = std::vector<std::vector<std::vector<int64_t>>>;
ValueId weights_in_sequence(Rewriter& r, ValueId first, ValueId second, const Positions& position, const Sizes& taps);
// Multiply-adds of that.
double products_in_sequence(const Sizes& first, const Sizes& second);

// The same convolution in fewer groups, which divide those of w: zeros between channels that were apart.
ValueId in_groups(Rewriter& r, ValueId w, int64_t groups);
// w with its taps where `tap` says, [axis][own tap], of so many; −1: nowhere.
ValueId on_taps(Rewriter& r, ValueId w, const std::vector<std::vector<int64_t>>& tap, const Lattices& axes);

// Some tap axes as input channels: [G, Cin/G·ΠK, Cout/G, …], with taps of 1 there.
ValueId taps_as_channels(Rewriter& r, ValueId w, const Sizes& tap_axes);

// vector[m]·w[m, …, k…], summed over m: [1, Cout, K…].
ValueId vector_through(Rewriter& r, ValueId vector, ValueId w);

}  // namespace transfuse
