#include "cuda/dense/choose/runs.h"

#include <algorithm>
#include <set>

#include "algebra/lattice/integer.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/schedule/scheduler.h"

namespace transfuse::cuda {

using namespace figures;

namespace {

class RunFinder {
public:
    RunFinder(const Problem& problem, const Needs& needs, bool tight, bool several)
        : problem_(problem), needs_(needs), tight_(tight), several_(several), u_(u_extents(problem)) {
        for (size_t a = 0; a < 4; ++a)
            step_[a] = static_cast<int>(std::max<int64_t>(1, needs.pool[a] / problem.axes[a].period()));
        w_grain_ = rounded_up(std::max(problem.grain(), needs.vector), step_[3]);
    }

    // Which of them fits depends on how many accumulators stand side by side.
    std::vector<Run> best() const {
        std::vector<Run> runs = of_rows();
        std::sort(runs.begin(), runs.end(), by_score);
        std::set<std::array<int, 4>> seen;  // a long row is cut into thousands of numbers of pieces
        std::erase_if(runs, [&](const Run& r) { return !seen.insert(r.config.run).second; });
        keep_of_each_length(runs, {120, 80, 48}, runs_of_a_length);
        if (!tries_strips()) return runs;
        std::vector<Run> strips;
        add(strips, strip_width, problem_.longest_strip(needs_.has_store_role()), true);
        std::erase_if(strips, [](const Run& r) { return r.pixels < 2 * strip_width; });
        std::stable_sort(strips.begin(), strips.end(), by_score);
        keep_of_each_length(strips, {192, 96, 48}, strips_of_a_length);
        runs.insert(runs.end(), strips.begin(), strips.end());
        return runs;
    }

private:
    static bool by_score(const Run& a, const Run& b) { return a.score > b.score; }

    static void keep_of_each_length(std::vector<Run>& runs, const std::array<int, 3>& lengths, int most) {
        std::array<int, 4> taken{};
        std::erase_if(runs, [&](const Run& r) {
            size_t length = 0;
            while (length < lengths.size() && r.pixels <= lengths[length]) ++length;
            return ++taken[length] > most;
        });
    }

    // Rows, whole or cut into pieces of one length.
    std::vector<Run> of_rows() const {
        std::vector<Run> runs;
        const int longest = problem_.longest_run();  // strict keeps its sums beside the accumulators
        for (int64_t pieces = 1; pieces <= u_[3]; ++pieces) {
            const int w = rounded_up((u_[3] + pieces - 1) / pieces, w_grain_);
            if (w > longest) continue;
            if (pieces > 1 && w < (tight_ ? shortest_tight_run : shortest_run) && u_[3] > narrow_image) break;
            add(runs, w, longest, false);
            if (w <= w_grain_) break;
        }
        return runs;
    }

    // All boxes of one width. Runs are whole windows of a pool.
    void add(std::vector<Run>& to, int w, int most, bool strip) const {
        for (int h = step_[2]; h <= last(2); h += step_[2]) {
            if (static_cast<int64_t>(h) * w > most) break;
            for (int d = step_[1]; d <= last(1); d += step_[1]) {
                if (static_cast<int64_t>(d) * h * w > most) break;
                if (d > step_[1] && h < u_[2]) break;
                for (int n = 1; n <= u_[0]; ++n) {
                    if (static_cast<int64_t>(n) * d * h * w > most) break;
                    if (n > 1 && (d < u_[1] || h < u_[2] || w < u_[3] || needs_.one_image)) break;
                    to.push_back(run({n, d, h, w}, strip));
                }
            }
        }
    }
    int64_t last(size_t axis) const { return std::max<int64_t>(u_[axis] + step_[axis] - 1, step_[axis]); }
    Run run(const std::array<int, 4>& extents, bool strip) const {
        Config c;
        c.run = extents, c.strip = strip, c.exit = needs_.exit;
        double useful = 1;
        for (size_t a = 0; a < 4; ++a)
            useful *= static_cast<double>(u_[a]) / static_cast<double>(round_up(u_[a], c.run[a]));
        return {c, useful * (1 - 4.0 / (extents[3] + 4.0)), extents[0] * extents[1] * extents[2] * extents[3]};
    }

    // Measured: in TF32 any, but see strips_cut_rows; channels last long sums, and in 16 bits any of images without
    // phases. Elsewhere for results that go directly, or to be measured.
    bool tries_strips() const {
        const bool leave_in_boxes =
            needs_.exit == Exit::tma && !needs_.all_channels && problem_.load == LoadMode::operand &&
            (problem_.sums_are_long() || (problem_.lanes() == 8 && !problem_.has_phases() && !problem_.has_planes()));
        return problem_.family == Family::wgmma && strip_width % w_grain_ == 0 && !tight_ &&
               (needs_.exit == Exit::direct || leave_in_boxes || problem_.arithmetic == Arithmetic::tf32 || several_);
    }

    const Problem& problem_;
    const Needs& needs_;
    const bool tight_, several_;
    const std::array<int64_t, 4> u_;
    std::array<int, 4> step_{};
    int w_grain_ = 1;
};

}  // namespace

std::vector<Run> runs_of(const Problem& problem, const Needs& needs, bool tight, bool several) {
    return RunFinder(problem, needs, tight, several).best();
}

std::array<int64_t, 4> u_extents(const Problem& problem) {
    std::array<int64_t, 4> u;
    for (size_t a = 0; a < 4; ++a) u[a] = u_extent(problem.axes[a]);
    return u;
}

// Then few tiles alone are worth it (D, of many: 1.45 -> 1.95 ms).
bool strips_cut_rows(const Problem& problem, const Needs& needs) {
    return needs.exit != Exit::direct && problem.load != LoadMode::operand && u_extent(problem.axes[3]) > strip_width;
}

}  // namespace transfuse::cuda
