#include "algebra/lattice/lags.h"

#include <algorithm>
#include <numeric>

#include "algebra/lattice/integer.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

// Taps of one phase lie a multiple of this apart.
int64_t period(const Lattice& axis) { return axis.up / std::gcd(axis.up, axis.dil); }

}  // namespace

AxisLags lags(const Lattice& axis, bool borders) {
    require(axis.down == 1, "lags: down must be 1, got ", axis.down);
    AxisLags result;
    result.step = axis.dil / std::gcd(axis.up, axis.dil);
    result.most = (axis.taps - 1) / period(axis);
    result.taps = axis.taps;
    result.pairs.resize(static_cast<size_t>(axis.taps * axis.taps));
    struct Range {
        int64_t lo = 0, hi = -1;
    };
    std::vector<Range> ranges(result.pairs.size()), inner(result.pairs.size());
    result.edges = {0, axis.in};
    for (int64_t k = 0; k < axis.taps; ++k) {
        // The inputs that o = 0 … out − 1 meet: up·i = o + offset − dil·k.
        const int64_t first = ceil_div(axis.offset - axis.dil * k, axis.up);
        const int64_t last = floor_div(axis.out - 1 + axis.offset - axis.dil * k, axis.up);
        for (int64_t other = 0; other < axis.taps; ++other) {
            if ((k - other) % period(axis) != 0) continue;
            TapPair& pair = result.pairs[static_cast<size_t>(k * axis.taps + other)];
            pair.lag = (k - other) / period(axis);
            const int64_t delta = pair.lag * result.step;
            const int64_t least = std::max<int64_t>(0, -delta), most = std::min(axis.in, axis.in - delta) - 1;
            Range range{std::max(first, least), std::min(last, most)};
            pair.meets = range.lo <= range.hi;
            if (!pair.meets) continue;
            pair.count = range.hi - range.lo + 1;
            inner[static_cast<size_t>(k * axis.taps + other)] = range;
            if (borders) result.edges.insert(result.edges.end(), {range.lo, range.hi + 1});
            if (range.lo == least) range.lo = 0;
            if (range.hi == most) range.hi = axis.in - 1;
            ranges[static_cast<size_t>(k * axis.taps + other)] = range;
            result.edges.push_back(range.lo);
            result.edges.push_back(range.hi + 1);
        }
    }
    std::sort(result.edges.begin(), result.edges.end());
    result.edges.erase(std::unique(result.edges.begin(), result.edges.end()), result.edges.end());
    const auto segment = [&](int64_t edge) {
        return std::lower_bound(result.edges.begin(), result.edges.end(), edge) - result.edges.begin();
    };
    for (size_t p = 0; p < result.pairs.size(); ++p)
        if (result.pairs[p].meets)
            result.pairs[p].first = segment(ranges[p].lo), result.pairs[p].beyond = segment(ranges[p].hi + 1),
            result.pairs[p].inner = segment(inner[p].lo), result.pairs[p].inner_beyond = segment(inner[p].hi + 1);
    return result;
}

double lag_products(const Lattices& axes, int64_t channels) {
    double count = static_cast<double>(channels) * static_cast<double>(channels);
    for (const Lattice& axis : axes) count *= static_cast<double>(2 * ((axis.taps - 1) / period(axis)) + 1);
    return (count + static_cast<double>(channels)) / 2;
}

}  // namespace transfuse
