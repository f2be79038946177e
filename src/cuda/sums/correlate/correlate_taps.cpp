#include "cuda/sums/correlate/correlate_taps.h"

#include <algorithm>
#include <map>

#include "algebra/lattice/integer.h"

namespace transfuse::cuda {

namespace {

// Turns, in ascending order, cut into runs of at most `most` that span at most `span`.
std::vector<std::vector<Turn>> runs_of(const std::vector<Turn>& turns, size_t most, int64_t span) {
    std::vector<std::vector<Turn>> runs;
    for (const Turn& turn : turns) {
        if (runs.empty() || runs.back().size() == most || turn.turn - runs.back()[0].turn > span) runs.emplace_back();
        runs.back().push_back(turn);
    }
    return runs;
}

// Planes that meet one turned plane, in bundles of `planes`; empty places are filled up with planes not stored.
void bundle(std::vector<Plane> all, size_t planes, int64_t turned_residue, std::vector<Bundle>& into) {
    while (all.size() % planes) {
        all.push_back(all.back());
        for (Turn& turn : all.back().turns) turn.tap = -1;
    }
    for (size_t first = 0; first < all.size(); first += planes) {
        Bundle bundle;
        bundle.turned_residue = turned_residue;
        bundle.planes.assign(all.begin() + static_cast<std::ptrdiff_t>(first),
                             all.begin() + static_cast<std::ptrdiff_t>(first + planes));
        bundle.least_turn = bundle.planes[0].turns[0].turn;
        for (const Plane& plane : bundle.planes)
            for (const Turn& turn : plane.turns) bundle.least_turn = std::min(bundle.least_turn, turn.turn);
        into.push_back(std::move(bundle));
    }
}

}  // namespace

size_t TapBundles::turns() const {
    size_t count = 0;
    for (const Plane& plane : bundles[0].planes) count += plane.turns.size();
    return count;
}

TapBundles tap_bundles(const Lattice& row, size_t taps, size_t planes, int64_t span) {
    TapBundles result;
    result.turns_x = row.advance() == 1 || row.period() != 1;
    result.still_step = result.turns_x ? row.period() : row.advance();
    result.turned_step = result.turns_x ? row.advance() : row.period();
    std::map<int64_t, std::map<int64_t, std::vector<Turn>>> by_plane;  // turned residue, still residue
    for (const Phase& phase : row.phases())
        for (const PhaseTap& tap : phase.taps) {
            const int64_t v = floor_div(tap.shift, row.advance()), x_residue = tap.shift - v * row.advance();
            const int64_t turn = result.turns_x ? v : -v;
            result.least_turn = std::min(result.least_turn, turn), result.most_turn = std::max(result.most_turn, turn);
            by_plane[result.turns_x ? x_residue : phase.residue][result.turns_x ? phase.residue : x_residue].push_back(
                {tap.tap, turn});
        }
    size_t most = 1, all = 0;
    int64_t least_turn = 0, most_turn = 0;
    for (auto& [turned, planes_of] : by_plane)
        for (auto& [still, turns] : planes_of) {
            std::sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) { return a.turn < b.turn; });
            if (all == 0) least_turn = turns.front().turn, most_turn = turns.back().turn;
            least_turn = std::min(least_turn, turns.front().turn), most_turn = std::max(most_turn, turns.back().turn);
            most = std::max(most, turns.size()), all += turns.size();
        }
    if (by_plane.size() == 1 && all <= taps && by_plane.begin()->second.size() <= planes &&
        most_turn - least_turn <= span) {  // all in one, as they are
        std::vector<Plane> list;
        for (auto& [still, turns] : by_plane.begin()->second) list.push_back({still, turns});
        const size_t count = list.size();
        bundle(std::move(list), count, by_plane.begin()->first, result.bundles);
    } else {
        // Equal runs of turns, and as many of them as a bundle holds.
        const size_t runs = static_cast<size_t>(ceil_div(static_cast<int64_t>(most), static_cast<int64_t>(taps)));
        const size_t length = static_cast<size_t>(ceil_div(static_cast<int64_t>(most), static_cast<int64_t>(runs)));
        std::map<int64_t, std::vector<Plane>> lists;
        size_t longest = 1;
        for (auto& [turned, planes_of] : by_plane) {
            for (auto& [still, turns] : planes_of)
                for (std::vector<Turn>& run : runs_of(turns, length, span)) {
                    while (run.size() < length) run.push_back({-1, run[0].turn});
                    lists[turned].push_back({still, std::move(run)});
                }
            longest = std::max(longest, lists[turned].size());
        }
        size_t together = std::min(planes, taps / length);
        if (most_turn - least_turn > span) together = 1;  // turns of different planes may lie far apart
        const int64_t parts =
            ceil_div(static_cast<int64_t>(longest), static_cast<int64_t>(std::max<size_t>(1, together)));
        together = static_cast<size_t>(ceil_div(static_cast<int64_t>(longest), parts));
        for (auto& [turned, list] : lists) bundle(std::move(list), together, turned, result.bundles);
    }
    for (const Bundle& bundle : result.bundles)
        for (const Plane& plane : bundle.planes)
            for (const Turn& turn : plane.turns) result.span = std::max(result.span, turn.turn - bundle.least_turn);
    return result;
}

}  // namespace transfuse::cuda
