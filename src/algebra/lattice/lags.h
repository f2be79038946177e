// Which products of an axis with itself the covariance of a lattice's taps is made of.
//
// Two taps k, k' that one output meets read inputs i and i' = i + δ. The sum over outputs of x[i]·x'[i'] is a sum over
// i inside an interval that padding may cut; with x zero outside, an end that only i or i' would leave cuts nothing. So
// few distinct edges remain, which divide the axis into segments: sums of x[i]·x'[i + δ] over each segment, for each δ
// once, give every pair of taps.
#pragma once

#include <vector>

#include "transfuse/graph.h"
#include "transfuse/lattice.h"

namespace transfuse {

struct TapPair {
    bool meets = false;             // some output meets both taps
    int64_t lag = 0;                // δ / step
    int64_t first = 0, beyond = 0;  // segments of i
    // With edges at borders: the segments where i and i' both lie inside x, and how many i those are.
    int64_t inner = 0, inner_beyond = 0, count = 0;
};

struct AxisLags {
    int64_t step = 1;            // every δ is a multiple of it
    int64_t most = 0;            // |δ| <= most·step
    std::vector<int64_t> edges;  // segment s is [edges[s], edges[s + 1])
    int64_t taps = 1;
    std::vector<TapPair> pairs;  // [k][k'], i being the input of k

    int64_t segments() const { return static_cast<int64_t>(edges.size()) - 1; }
    int64_t count() const { return 2 * most + 1; }
    const TapPair& pair(int64_t k, int64_t other) const { return pairs[static_cast<size_t>(k * taps + other)]; }
};

AxisLags lags(const Lattice& axis,
              bool borders = false);  // down must be 1; borders: edges where a partner leaves x, too

// Multiply-adds for each sample and input position of a group: lags and pairs of channels, each counted once.
double lag_products(const Lattices& axes, int64_t channels);

}  // namespace transfuse
