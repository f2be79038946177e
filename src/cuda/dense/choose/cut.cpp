#include "cuda/dense/choose/cut.h"

#include <algorithm>

#include "cuda/dense/choose/choose_swap_ab.h"
#include "cuda/dense/exits/store/store_map.h"
#include "cuda/dense/schedule/figures.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

Cut cut_of(Choice choice) { return {choice.config, std::make_shared<const Schedule>(std::move(choice.schedule))}; }

// The best estimate.
std::optional<Cut> best_cut(const Problem& problem, const Needs& needs, const Target& target, int larger) {
    auto choices = choose(problem, needs, target, 1, larger);
    return choices.empty() ? std::nullopt : std::optional(cut_of(std::move(choices[0])));
}

// Nothing where the configuration does not fit.
std::optional<Cut> cut_by(const Config& config, const Surroundings& around, const Problem& problem,
                          const Needs& needs) {
    const auto make = [&]() -> std::shared_ptr<const Schedule> {
        auto s = schedule(problem, needs, config, around.target);
        return s ? std::make_shared<const Schedule>(std::move(*s)) : nullptr;
    };
    Cut cut{config, nullptr, around.text_cache != nullptr};
    cut.schedule = around.text_cache
                       ? around.text_cache->schedules.get(schedule_key(problem, needs, config, around.target), make)
                       : make();
    return cut.schedule ? std::optional(std::move(cut)) : std::nullopt;
}

// Where results go directly to memory unless another configuration is asked for: as far as it was measured (in TF32, of
// planes without stride: long sums, and rows of results that begin on 16 bytes).
bool stores_directly(const Problem& problem, const Needs& needs) {
    return (problem.sums_are_long() || problem.axes[3].out * needs.element_bytes % 16 == 0) &&
           problem.arithmetic == Arithmetic::tf32 && !problem.strided() &&
           (problem.load == LoadMode::boxes || problem.load == LoadMode::rows || problem.load == LoadMode::planar);
}

// Results that go directly to memory, where that is estimated faster than the choice.
std::optional<Cut> direct_rival(const Request& request, const std::optional<Cut>& choice, const Target& target,
                                int larger) {
    if (!request.exits.direct || !stores_directly(request.problem, request.needs)) return std::nullopt;
    const Needs needs = request.needs_by(Exit::direct);
    auto rivals = choose(request.problem, needs, target, 1, larger);
    if (rivals.empty()) return std::nullopt;
    // Tiles of long sums take alike: rounds that are not full cost as much as others.
    auto seconds = [&](const Needs& of, const Config& config, const Schedule& s) {
        return estimate(request.problem, of, config, s, tiles_a_round(target, larger), true);
    };
    if (choice && seconds(needs, rivals[0].config, rivals[0].schedule) >=
                      seconds(request.needs, choice->config, *choice->schedule))
        return std::nullopt;
    return cut_of(std::move(rivals[0]));
}

// What swap-AB products may be estimated to take, of the choice's time, to be taken; 0: they are not.
double swap_ab_pays(const Request& request) {
    const bool words = request.needs.element_bytes == 4;
    if (request.epilogue.program().pixel_major) return words ? figures::swap_ab_last_words : figures::swap_ab_last;
    return request.problem.cout <= 64 ? 0 : words ? figures::swap_ab_planes_words : figures::swap_ab_planes;
}

// Chains that reduce over channels, on swap-AB products.
std::optional<Cut> swap_ab_rival(const Request& request, const std::optional<Cut>& choice, const Target& target,
                                 int larger) {
    if (!request.exits.swap_ab || (choice && swap_ab_pays(request) == 0)) return std::nullopt;
    auto rival = choose_swap_ab(request.problem, request.needs_by(Exit::swap_ab), target, larger);
    if (!rival || (choice && rival->seconds >= swap_ab_pays(request) * estimate(request.problem, request.needs,
                                                                                choice->config, *choice->schedule,
                                                                                tiles_a_round(target, larger))))
        return std::nullopt;
    return cut_of(std::move(*rival));
}

}  // namespace

std::optional<Cut> chosen(Request& request, const Surroundings& around, const TextOptions& options) {
    const auto config = options.spec ? std::optional(options.spec->config) : config_named(around.config);
    if (config && request.exits.has(config->exit)) {
        Needs needs = request.needs_by(config->exit);
        auto cut = cut_by(*config, around, request.problem, needs);
        if (!cut && needs.ahead > 0) {
            needs.ahead = 0;
            cut = cut_by(*config, around, request.problem, needs);
        }
        if (cut) {
            request.leave_by(config->exit);
            request.needs.ahead = needs.ahead;
            return cut;
        }
    }
    if (options.spec) return std::nullopt;
    const Target& target = around.target;
    const int larger = std::max(1, options.larger);
    auto choice = best_cut(request.problem, request.needs, target, larger);
    while (!choice && request.relax()) choice = best_cut(request.problem, request.needs, target, larger);
    if (auto swap_ab = swap_ab_rival(request, choice, target, larger)) {
        request.leave_by(Exit::swap_ab);
        return swap_ab;
    }
    if (auto direct = direct_rival(request, choice, target, larger)) {
        request.leave_by(Exit::direct);
        return direct;
    }
    return choice;
}

std::vector<Choice> choices_of(Request& request, const Target& target, size_t most) {
    auto find = [&](const Needs& needs) { return choose(request.problem, needs, target, most); };
    auto choices = find(request.needs);
    while (choices.empty() && request.relax()) choices = find(request.needs);
    if (request.exits.direct && most > 1)
        for (Choice& choice : find(request.needs_by(Exit::direct))) choices.push_back(std::move(choice));
    if (request.exits.swap_ab && most > 1)
        if (auto swap_ab = choose_swap_ab(request.problem, request.needs_by(Exit::swap_ab), target))
            choices.push_back(std::move(*swap_ab));
    return choices;
}

}  // namespace transfuse::cuda
