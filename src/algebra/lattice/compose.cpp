// Two lattices in sequence as one, where that is exact, and the normal form of a lattice.
#include <algorithm>

#include "algebra/lattice/integer.h"
#include "transfuse/error.h"
#include "transfuse/lattice.h"
#include "transfuse/tensor.h"

namespace transfuse {

namespace {

// The lattice of taps first, first + stride, … (count of them).
Lattice with_taps(const Lattice& l, int64_t first, int64_t stride, int64_t count) {
    Lattice result = l;
    result.offset = l.offset - l.dil * first;
    result.dil = l.dil * stride;
    result.taps = count;
    return result;
}

// The lattice through which nothing flows. A weight needs a tap all the same: one that always reads just past the end.
Lattice nothing(int64_t in, int64_t out) {
    return {.up = 1, .down = 1, .dil = 1, .offset = in, .in = in, .out = out, .taps = 1};
}

// True if `lattice` meets input m through some tap from some output.
bool reads(const Lattice& lattice, int64_t m) {
    for (int64_t k = 0; k < lattice.taps; ++k) {
        const int64_t position = lattice.up * m + lattice.dil * k - lattice.offset;  // = down·o
        if (position >= 0 && position % lattice.down == 0 && position / lattice.down < lattice.out) return true;
    }
    return false;
}

// True if output m, inside or not, would meet an input.
bool meets_input(const Lattice& lattice, int64_t m) {
    for (int64_t k = 0; k < lattice.taps; ++k)
        if (lattice.input(m, k)) return true;
    return false;
}

// Every index m outside [0, first.out) that `second` reads as zero must be zero in `first` extended beyond its borders.
// Only the m that one may be nonzero at and the other reads are looked at.
bool outside_is_zero(const Lattice& first, const Lattice& second) {
    const int64_t lowest = std::max(ceil_div(-first.offset, first.down),
                                    ceil_div(second.offset - second.dil * (second.taps - 1), second.up));
    const int64_t highest =
        std::min(floor_div(first.up * (first.in - 1) + first.dil * (first.taps - 1) - first.offset, first.down),
                 floor_div(second.down * (second.out - 1) + second.offset, second.up));
    for (int64_t m = lowest; m < 0; ++m)
        if (reads(second, m) && meets_input(first, m)) return false;
    for (int64_t m = std::max<int64_t>(first.out, lowest); m <= highest; ++m)
        if (reads(second, m) && meets_input(first, m)) return false;
    return true;
}

}  // namespace

Reduced reduce(const Lattice& lattice) {
    // Taps that contribute, modulo g = gcd(up, down): dil·k ≡ offset (mod g), an arithmetic progression.
    const int64_t g = std::gcd(lattice.up, lattice.down);
    const Congruence kept = solve_congruence(lattice.dil, lattice.offset, g);
    Reduced result;
    int64_t first = kept.solvable ? kept.first : lattice.taps;
    int64_t last = first < lattice.taps ? first + (lattice.taps - 1 - first) / kept.step * kept.step : -1;
    // Trim taps at either end that meet only the outside.
    while (first <= last && lattice.interval(first).empty()) first += kept.step;
    while (first <= last && lattice.interval(last).empty()) last -= kept.step;
    if (first > last) {
        result.lattice = nothing(lattice.in, lattice.out);
        result.kept = {0};
        return result;
    }
    for (int64_t k = first; k <= last; k += kept.step) result.kept.push_back(k);
    result.lattice = with_taps(lattice, first, kept.step, static_cast<int64_t>(result.kept.size()));
    result.lattice.up /= g;
    result.lattice.down /= g;
    result.lattice.offset = floor_div(result.lattice.offset, g);  // exact: dil·first ≡ offset (mod g)
    result.lattice.dil = result.lattice.taps == 1 ? 1 : result.lattice.dil / g;
    return result;
}

// A: d1·m + c1 = u1·i + e1·k1.  B: d2·o + c2 = u2·m + e2·k2.  With gcd(d1, u2) = 1 eliminating m is an equivalence:
// d1·d2·o + (d1·c2 + u2·c1) = u1·u2·i + (u2·e1·k1 + d1·e2·k2).
std::optional<Composed> compose(const Lattice& first, const Lattice& second, bool first_has_bias) {
    require(first.out == second.in, "compose: the first lattice gives ", first.out, " but the second takes ",
            second.in);
    if (first_has_bias && !second.never_cut()) return std::nullopt;
    const Reduced ra = reduce(first), rb = reduce(second);
    const Lattice &a = ra.lattice, &b = rb.lattice;
    Composed result;
    result.position.assign(static_cast<size_t>(first.taps), std::vector<int64_t>(static_cast<size_t>(second.taps), -1));
    if (a.interval(0).empty() || b.interval(0).empty()) {  // in normal form the first tap contributes, or none does
        result.lattice = nothing(first.in, second.out);
        return result;
    }
    if (std::gcd(a.down, b.up) != 1) return std::nullopt;
    if (!outside_is_zero(a, b)) return std::nullopt;

    const char* op = "compose";
    const int64_t step1 = checked_mul(b.up, a.dil, op), step2 = checked_mul(a.down, b.dil, op);
    Lattice whole;
    whole.up = checked_mul(a.up, b.up, op);
    whole.down = checked_mul(a.down, b.down, op);
    whole.offset = checked_add(checked_mul(a.down, b.offset, op), checked_mul(b.up, a.offset, op), op);
    whole.in = first.in;
    whole.out = second.out;
    const int64_t extent = checked_add(checked_mul(step1, a.taps - 1, op), checked_mul(step2, b.taps - 1, op), op);
    whole.dil = std::gcd(a.taps > 1 ? step1 : 0, b.taps > 1 ? step2 : 0);
    if (whole.dil == 0) whole.dil = 1;
    whole.taps = extent / whole.dil + 1;

    const Reduced reduced = reduce(whole);
    std::vector<int64_t> new_tap(static_cast<size_t>(whole.taps), -1);
    for (size_t j = 0; j < reduced.kept.size(); ++j)
        new_tap[static_cast<size_t>(reduced.kept[j])] = static_cast<int64_t>(j);

    result.lattice = reduced.lattice;
    for (size_t j1 = 0; j1 < ra.kept.size(); ++j1)
        for (size_t j2 = 0; j2 < rb.kept.size(); ++j2) {
            const int64_t at = (step1 * static_cast<int64_t>(j1) + step2 * static_cast<int64_t>(j2)) / whole.dil;
            result.position[static_cast<size_t>(ra.kept[j1])][static_cast<size_t>(rb.kept[j2])] =
                new_tap[static_cast<size_t>(at)];
        }
    return result;
}

}  // namespace transfuse
