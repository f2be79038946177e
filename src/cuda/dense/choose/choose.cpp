#include "cuda/dense/choose/choose.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "cuda/dense/choose/cost.h"
#include "cuda/dense/choose/memory_plans.h"
#include "cuda/dense/choose/runs.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/runtime/side_by_side.h"

namespace transfuse::cuda {

using namespace figures;

namespace {

// How the two product warpgroups divide a tile.
struct Division {
    Split split;
    int bundles, w_phases, k_steps;
};

class Search {
public:
    Search(const Problem& problem, const Needs& needs, const Target& target, size_t most, int larger, bool tight)
        : problem_(problem),
          needs_(needs),
          target_(target),
          most_(most),
          larger_(larger),
          tight_(tight),
          u_(u_extents(problem)),
          runs_(runs_of(problem, needs, tight, most > 1)) {}

    std::vector<Choice> choices() const {
        std::vector<Choice> found = all();
        drop_short_runs(found);
        if (most_ == 1) prefer_divided_channels(found);
        std::stable_sort(found.begin(), found.end(),
                         [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
        if (most_ > 1) found = varied(std::move(found));
        return with_schedules(std::move(found));
    }

private:
    std::vector<Division> divisions() const {
        const int64_t period = problem_.axes[3].period();
        std::vector<std::pair<int, int>> bundlings{{4, 0}, {2, 0}, {1, 0}};  // bundles, and residues along w in each
        for (int64_t part = period / 2; part > 0 && period >= 2 && period % part == 0; part /= 2)
            for (int bundles : {2, 1}) bundlings.push_back({bundles, static_cast<int>(part)});
        const int blocks = static_cast<int>((problem_.cout + 63) / 64);
        std::vector<Division> list;
        for (Split split : {Split::channels, Split::phases, Split::pixels}) {
            if (split == Split::channels && (blocks < 2 || (blocks % 2 && !needs_.all_channels && blocks < 5)))
                continue;
            for (const auto& [bundles, w_phases] : bundlings)
                for (int k_steps : {4, 2, 1})
                    if (k_steps == 1 || problem_.cin > problem_.lanes() * k_steps)
                        list.push_back({split, bundles, w_phases, k_steps});
        }
        return list;
    }

    std::vector<Choice> all() const {
        const std::vector<Division> divided = divisions();
        std::vector<std::vector<Choice>> found(divided.size());
        side_by_side(
            divided.size(), [&](size_t number) { found[number] = divided_by(divided[number]); }, 2);
        std::vector<Choice> choices;
        for (auto& some : found) std::move(some.begin(), some.end(), std::back_inserter(choices));
        return choices;
    }

    std::vector<Choice> divided_by(const Division& division) const {
        std::vector<Choice> found;
        std::optional<Schedule> like;  // steps do not depend on the run
        for (const Run& run : runs_) {
            if (division.w_phases && problem_.axes[3].period() < 4 && !run.config.strip) continue;
            Config c = config_of(run, division);
            const std::optional<Schedule> s = shape(c, like ? &*like : nullptr);
            if (!s) continue;
            if (!like) like = s;
            // More bundles than there are: only empty work.
            const int groups = division.split == Split::phases ? 2 : 1;
            if (division.bundles > 1 && (division.bundles - 1) * groups >= s->bundle_count) continue;
            double tiles = static_cast<double>(s->fixed) * s->variants, useful = 1;
            for (size_t a = 0; a < 4; ++a) {
                const double along = std::ceil(static_cast<double>(u_[a]) / static_cast<double>(s->tile[a]));
                tiles *= along, useful *= static_cast<double>(u_[a]) / (along * static_cast<double>(s->tile[a]));
            }
            const double waves = tiles / tiles_a_round(target_, larger_);
            if (c.strip && most_ == 1 && !strip_pays(*s, waves)) continue;
            for (const MemoryPlan& plan :
                 memory_plans(problem_, needs_, *s, c, {target_.shared_bytes, most_ > 1, tight_, waves})) {
                Choice choice;
                choice.config = plan.config;
                choice.pixels = s->blocks * run.pixels * useful;
                choice.waves = waves, choice.variants = s->variants;
                choice.seconds = seconds_of(waves, plan.cycles);
                found.push_back(std::move(choice));
            }
        }
        return found;
    }

    // With little memory: only to see the shape.
    Config config_of(const Run& run, const Division& division) const {
        Config c = run.config;
        c.split = division.split, c.bundles = division.bundles, c.w_phases = division.w_phases;
        c.k_steps = division.k_steps;
        c.chunk_width = needs_.folded || needs_.whole_rows ? 192 : 8;
        c.piece = 1, c.slab_tiles = 1, c.slabs = 2, c.raw = 3;
        if (c.split == Split::pixels) c.runs[axis_of_two_runs(c)] = 2;
        return c;
    }
    size_t axis_of_two_runs(const Config& c) const {
        for (size_t a : {size_t{2}, size_t{1}, size_t{0}, size_t{3}})
            if (u_[a] > c.run[a] && (a != 0 || !needs_.one_image)) return a;
        return 2;
    }

    // Rows come as one where they can, and share padding where they can.
    std::optional<Schedule> shape(Config& c, const Schedule* like) const {
        Target roomy = target_;
        roomy.shared_bytes = 1 << 30;
        const bool one_row = c.run[0] * c.run[1] * c.run[2] == 1;
        const bool may_be_flat = problem_.rows_adjoin && needs_.has_store_role() && needs_.ahead == 0;
        for (const bool flat : {true, false})
            for (const bool shared : {true, false}) {
                if ((flat && !may_be_flat) || ((flat || shared) && one_row)) continue;
                c.flat = flat, c.shared_padding = shared;
                if (auto s = schedule(problem_, needs_, c, roomy, like)) return s;
            }
        return std::nullopt;
    }

    bool strip_pays(const Schedule& s, double waves) const {
        const bool chain = needs_.epilogue_flops > 1;
        if (needs_.exit == Exit::tma && chain && s.accumulators > longest_tma) return false;
        return waves < few_waves || (!strips_cut_rows(problem_, needs_) && s.blocks * s.run_pixels >= shortest_strips);
    }

    bool few_tiles(const Choice& c) const { return most_ == 1 && c.waves < few_waves; }

    // Long runs are better than estimated. Where weights stay, short ones read them no more often; where outputs are
    // stored one by one, a run that fills its chunks is worth more. Tensors that come in boxes leave long runs little
    // room for weights.
    void drop_short_runs(std::vector<Choice>& choices) const {
        double most_pixels = 0;
        for (const Choice& c : choices)
            if (!c.config.strip) most_pixels = std::max(most_pixels, c.pixels);
        const double share = most_ == 1 && !needs_.added ? long_enough : long_enough_beside_others;
        double best_long = 1e30;
        for (const Choice& c : choices)
            if (c.pixels >= share * most_pixels && !c.config.strip) best_long = std::min(best_long, c.seconds);
        const bool alone = needs_.one_by_one && needs_.has_store_role() && problem_.cin >= 2 * problem_.lanes();
        const auto pays = [&](const Choice& c) {
            return alone && c.config.resident && c.seconds < clearly_better * best_long;
        };
        std::erase_if(choices, [&](const Choice& c) {
            return c.pixels < share * most_pixels && !few_tiles(c) && !pays(c) && !c.config.strip;
        });
    }

    // Warpgroups divide channels where they can unless another division is estimated far better, or loads the patch for
    // fewer parts of the phases.
    void prefer_divided_channels(std::vector<Choice>& choices) const {
        const Choice* channels = nullptr;
        for (const Choice& c : choices)
            if (c.config.split == Split::channels && (!channels || c.seconds < channels->seconds)) channels = &c;
        if (!channels) return;
        const auto rival = [this, variants = channels->variants](const Choice& c) {
            return c.config.split != Split::channels && c.variants >= variants && !few_tiles(c);
        };
        double best = 1e30;
        for (const Choice& c : choices)
            if (rival(c)) best = std::min(best, c.seconds);
        if (channels->seconds < far_better * best) std::erase_if(choices, rival);
    }

    // For measuring, of choices in order of their estimates: first the best of each division of the work and length of
    // run, but no more than half for the sake of variety; then what else is estimated well, of one run and division two
    // memory plans only.
    std::vector<Choice> varied(std::vector<Choice> choices) const {
        std::map<std::tuple<Split, int, int, int>, int> seen_class;
        std::map<std::tuple<std::array<int, 4>, Split, int, int>, int> seen_run;
        const auto rank = [&](const Config& c) {
            const int length = c.run[0] * c.run[1] * c.run[2] * c.run[3];
            if (seen_class[{c.split, c.bundles, c.k_steps, length / 40}]++ == 0) return 0;
            return ++seen_run[{c.run, c.split, c.bundles, c.k_steps}] <= 2 ? 1 : 2;
        };
        std::vector<std::pair<int, size_t>> order;
        for (size_t i = 0; i < choices.size(); ++i) order.push_back({rank(choices[i].config), i});
        std::sort(order.begin(), order.end());
        size_t firsts = 0;
        for (auto& [kind, i] : order)
            if (kind == 0 && ++firsts > most_ / 2) kind = 1;
        std::sort(order.begin(), order.end());
        std::vector<Choice> sorted;
        for (auto& [kind, i] : order)
            if (kind < 2) sorted.push_back(std::move(choices[i]));
        return sorted;
    }

    std::vector<Choice> with_schedules(std::vector<Choice> choices) const {
        std::vector<Choice> kept;
        for (Choice& choice : choices) {
            if (kept.size() == most_) break;
            auto s = schedule(problem_, needs_, choice.config, target_);
            if (!s) continue;
            choice.schedule = std::move(*s);
            kept.push_back(std::move(choice));
        }
        return kept;
    }

    const Problem& problem_;
    const Needs& needs_;
    const Target& target_;
    const size_t most_;
    const int larger_;
    const bool tight_;  // short rows, thin slabs and small pieces as well
    const std::array<int64_t, 4> u_;
    const std::vector<Run> runs_;
};

}  // namespace

std::vector<Choice> choose(const Problem& problem, const Needs& needs, const Target& target, size_t most, int larger) {
    auto choices = Search(problem, needs, target, most, larger, false).choices();
    return choices.empty() ? Search(problem, needs, target, most, larger, true).choices() : choices;
}

double estimate(const Problem& problem, const Needs& needs, const Config& config, const Schedule& s, int tiles_a_round,
                bool whole) {
    Cost cost{problem, needs, s, config};
    double tiles = static_cast<double>(s.fixed) * s.variants;
    for (size_t a = 0; a < 4; ++a) tiles *= static_cast<double>(s.tiles_along(a, problem.axes[a]));
    const double waves = tiles / tiles_a_round;
    if (config.skips) cost.met = cost.share_met(waves);
    return seconds_of(waves, cost.cycles(), whole);
}

}  // namespace transfuse::cuda
