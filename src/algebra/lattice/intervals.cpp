// Which inputs a tap meets over all outputs, and what follows from it: counts of products, cut borders, collapse.
#include <algorithm>

#include "algebra/lattice/integer.h"
#include "transfuse/lattice.h"

namespace transfuse {

// { i : 0 ≤ i < in, 0 ≤ o < out, down·o = up·i + dil·k − offset }. Each i belongs to exactly one o, so the interval
// counts products as well. Only the class of i with up·i ≡ offset − dil·k (mod down) is met.
Interval Lattice::interval(int64_t k) const {
    const int64_t target = offset - dil * k;  // up·i − down·o
    const Congruence residue = solve_congruence(up, target, down);
    if (!residue.solvable || in <= 0 || out <= 0) return {};
    int64_t lo = std::max<int64_t>(0, ceil_div(target, up));
    int64_t hi = std::min(in - 1, floor_div(down * (out - 1) + target, up));
    lo += floor_mod(residue.first - lo, residue.step);
    hi -= floor_mod(hi - residue.first, residue.step);
    if (hi < lo) return {};
    return {lo, hi, lo == hi ? 1 : residue.step};
}

int64_t Lattice::products() const {
    int64_t total = 0;
    for (int64_t k = 0; k < taps; ++k) total += interval(k).size();
    return total;
}

bool Lattice::never_cut() const {
    for (int64_t k = 0; k < taps; ++k) {
        // The outputs whose phase has tap k: down·o ≡ dil·k − offset (mod up).
        const Congruence residue = solve_congruence(down, dil * k - offset, up);
        if (!residue.solvable || out <= residue.first) continue;
        const int64_t outputs = (out - 1 - residue.first) / residue.step + 1;
        if (interval(k).size() != outputs) return false;
    }
    return true;
}

IntervalSet intervals(const Lattice& lattice) {
    IntervalSet set;
    set.of_tap.reserve(static_cast<size_t>(lattice.taps));
    for (int64_t k = 0; k < lattice.taps; ++k) {
        const Interval interval = lattice.interval(k);
        if (interval.empty()) {
            set.of_tap.push_back(-1);
            continue;
        }
        const auto known = std::find(set.intervals.begin(), set.intervals.end(), interval);
        set.of_tap.push_back(known - set.intervals.begin());
        if (known == set.intervals.end()) set.intervals.push_back(interval);
    }
    return set;
}

std::vector<int64_t> cell_edges(const std::vector<Interval>& intervals, int64_t in) {
    std::vector<int64_t> edges = {0, in};
    for (const Interval& interval : intervals) {
        if (interval.empty()) continue;
        edges.push_back(interval.lo);
        edges.push_back(interval.hi + 1);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    return edges;
}

}  // namespace transfuse
