#include "cpu/dense/cut/row_pairs.h"

#include <algorithm>

namespace transfuse::cpu {

std::vector<PairTerm> pair_terms(std::vector<PhaseTap> taps, int64_t least, std::vector<PairRow>& rows) {
    std::sort(taps.begin(), taps.end(), [](const PhaseTap& l, const PhaseTap& r) { return l.shift < r.shift; });
    std::vector<PairTerm> terms;
    const auto add = [&](PairPart part, const PairRow& row, std::vector<PairTerm::Share> weight) {
        const auto at = std::find(rows.begin(), rows.end(), row);
        terms.push_back({part, at - rows.begin(), std::move(weight)});
        if (at == rows.end()) rows.push_back(row);
    };
    for (size_t i = 0; i < taps.size();) {
        // Four neighbours are two and two: 3 + 3 products, where three and one would take 4 + 2 and one more row.
        size_t run = 1;
        while (i + run < taps.size() && taps[i + run].shift == taps[i].shift + static_cast<int64_t>(run)) ++run;
        const size_t group = run == 4 ? 2 : std::min<size_t>(run, 3);
        const int64_t x = taps[i].shift - least, g0 = taps[i].tap;
        if (group == 3) {
            const int64_t g1 = taps[i + 1].tap, g2 = taps[i + 2].tap;
            add(PairPart::first, {x, x + 2, -1}, {{g0, 1}});
            add(PairPart::both, {x + 1, x + 2, 1}, {{g0, 0.5}, {g1, 0.5}, {g2, 0.5}});
            add(PairPart::opposite, {x + 2, x + 1, -1}, {{g0, 0.5}, {g1, -0.5}, {g2, 0.5}});
            add(PairPart::second, {x + 1, x + 3, -1}, {{g2, 1}});
        } else if (group == 2) {
            const int64_t g1 = taps[i + 1].tap;
            add(PairPart::first, {x, x + 1, -1}, {{g0, 1}});
            add(PairPart::both, {x + 1}, {{g0, 1}, {g1, 1}});
            add(PairPart::second, {x + 1, x + 2, -1}, {{g1, 1}});
        } else {
            add(PairPart::first, {x}, {{g0, 1}});
            add(PairPart::second, {x + 1}, {{g0, -1}});
        }
        i += group;
    }
    return terms;
}

}  // namespace transfuse::cpu
