// The lattice convolution of one spatial axis: the integer relation
//
//     down·o + offset = up·i + dil·k        0 ≤ o < out,  0 ≤ i < in,  0 ≤ k < taps
//
// between output index o, input index i and tap k. Convolution, transposed convolution, average pooling and nearest
// upsampling are instances; the family is closed under transposition and composition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transfuse/few.h"

namespace transfuse {

// One residue class of outputs, o = period·u + residue. All its taps read the input with unit structure:
// i = advance·u + shift. (period = up/g, advance = down/g, g = gcd(up, down).)
struct PhaseTap {
    int64_t tap;    // k
    int64_t shift;  // i = advance·u + shift
    bool operator==(const PhaseTap&) const = default;
};
struct Phase {
    int64_t residue;  // r
    int64_t count;    // number of u with 0 ≤ period·u + r < out
    std::vector<PhaseTap> taps;
    bool operator==(const Phase&) const = default;
};

// {lo, lo+step, …, ≤ hi}; empty when hi < lo. The inputs that one tap meets over all outputs.
struct Interval {
    int64_t lo = 0;
    int64_t hi = -1;
    int64_t step = 1;
    bool operator==(const Interval&) const = default;
    bool empty() const { return hi < lo; }
    int64_t size() const { return empty() ? 0 : (hi - lo) / step + 1; }
    bool contains(int64_t i) const { return i >= lo && i <= hi && (i - lo) % step == 0; }
};

struct Lattice {
    int64_t up = 1, down = 1, dil = 1, offset = 0;
    int64_t in = 1, out = 1, taps = 1;
    bool operator==(const Lattice&) const = default;

    // Constructors from the framework ops; they check their arguments and throw Error. `in` is the input extent.
    static Lattice conv_transpose(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t output_padding,
                                  int64_t dilation);
    static Lattice conv(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);  // flipped taps
    static Lattice avg_pool(int64_t in, int64_t kernel, int64_t stride, int64_t padding);  // weight 1/kernel per tap
    static Lattice upsample(int64_t in, int64_t scale);                                    // nearest; taps = scale, ones

    // The input index that output o meets through tap k, if there is one inside [0, in).
    std::optional<int64_t> input(int64_t o, int64_t k) const;

    // Swaps the roles of i and o and flips k (tap k of the result is tap taps−1−k here): the gradient's lattice.
    Lattice transposed() const;

    int64_t period() const;   // up / gcd(up, down)
    int64_t advance() const;  // down / gcd(up, down)
    std::vector<Phase> phases() const;  // one per residue 0 ≤ r < period, residues without taps included

    // Σ_o y[o] = Σ_k w[k] · Σ_{i ∈ interval(k)} x[i]
    Interval interval(int64_t k) const;

    // Multiply-adds per (channel pair, batch): the number of (o, k) that meet an input inside.
    int64_t products() const;
    // True when every output meets, through every tap of its phase, an input inside [0, in): no border is cut.
    bool never_cut() const;
    bool trivial() const { return in == 1 && out == 1 && taps == 1 && offset == 0; }
};
using Lattices = Few<Lattice, 3>;  // one an axis
std::string to_string(const Lattice& lattice);

// Divides by g = gcd(up, down, dil·k structure): drops taps that can never contribute and normalises the relation.
// kept[j] is the old tap of new tap j.
struct Reduced {
    Lattice lattice;
    std::vector<int64_t> kept;
    bool operator==(const Reduced&) const = default;
};
Reduced reduce(const Lattice& lattice);

// `second` after `first` (first.out == second.in). weights: w[k] = Σ over (k1, k2) with position[k1][k2] == k of
// w1[k1]·w2[k2]; a position of −1 never contributes. nullopt where composition is not exact: an intermediate index that
// `second` reads outside [0, first.out) would not have been zero there, or, with `first_has_bias`, any read lies outside.
struct Composed {
    Lattice lattice;
    std::vector<std::vector<int64_t>> position;  // [first.taps][second.taps]
};
std::optional<Composed> compose(const Lattice& first, const Lattice& second, bool first_has_bias);

// The distinct non-empty intervals of all taps, in order of first appearance, and for each tap its interval (−1: empty).
struct IntervalSet {
    std::vector<Interval> intervals;
    std::vector<int64_t> of_tap;
};
IntervalSet intervals(const Lattice& lattice);

// The cut points that partition [0, in) into cells such that every interval is a union of (residue classes of) cells.
std::vector<int64_t> cell_edges(const std::vector<Interval>& intervals, int64_t in);

}  // namespace transfuse
