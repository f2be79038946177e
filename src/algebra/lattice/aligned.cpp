// down·o + offset = up·i + dil·k says that o and i meet through the position p = dil·k − offset = down·o − up·i.
// Lattices with the same up and down differ in the positions of their taps alone: those of all of them lie on one
// progression.
#include "algebra/lattice/aligned.h"

#include <algorithm>
#include <numeric>

namespace transfuse {

namespace {

struct Progression {
    int64_t first, last, step;
};

}  // namespace

std::optional<Aligned> aligned(std::span<const Lattices> lattices) {
    Aligned result;
    result.tap.resize(lattices.size());
    for (size_t a = 0; a < lattices[0].size(); ++a) {
        std::vector<Reduced> reduced;
        for (const Lattices& axes : lattices) reduced.push_back(reduce(axes[a]));
        const Lattice& like = reduced[0].lattice;
        Progression all{-like.offset, -like.offset, 0};
        for (const Reduced& one : reduced) {
            const Lattice& l = one.lattice;
            if (l.up != like.up || l.down != like.down || l.in != like.in || l.out != like.out) return std::nullopt;
            if (l.interval(0).empty()) return std::nullopt;
            all.step = std::gcd(all.step, std::abs(l.offset - like.offset));
            if (l.taps > 1) all.step = std::gcd(all.step, l.dil);
            all.first = std::min(all.first, -l.offset);
            all.last = std::max(all.last, l.dil * (l.taps - 1) - l.offset);
        }
        all.step = std::max<int64_t>(all.step, 1);
        Lattice axis = like;
        axis.offset = -all.first;
        axis.dil = all.step;
        axis.taps = (all.last - all.first) / all.step + 1;
        result.axes.push_back(axis);
        for (size_t i = 0; i < lattices.size(); ++i) {
            const Lattice& l = reduced[i].lattice;
            std::vector<int64_t> tap(static_cast<size_t>(lattices[i][a].taps), -1);
            for (size_t j = 0; j < reduced[i].kept.size(); ++j)
                tap[static_cast<size_t>(reduced[i].kept[j])] =
                    (l.dil * static_cast<int64_t>(j) - l.offset - all.first) / all.step;
            result.tap[i].push_back(std::move(tap));
        }
    }
    return result;
}

}  // namespace transfuse
