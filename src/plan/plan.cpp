#include <algorithm>
#include <set>

#include "graph/has.h"
#include "plan/facts.h"
#include "plan/figures.h"
#include "plan/settle.h"
#include "plan/shifts.h"

namespace transfuse {

namespace {

struct Attempt {
    Plan plan;
    std::vector<Decision> decisions;
};

// Pools whose pass stores or reduces a value before them, or reduces its channels.
std::vector<ValueId> early_sinks(const Graph& graph, const Plan& plan) {
    std::vector<ValueId> pools;
    for (const Pass& pass : plan.passes) {
        if (pass.kind != PassKind::dense) continue;
        Few<ValueId, 16> before{pass.anchor};
        ValueId pool = -1;
        bool early = false;
        for (const TileStep& step : pass.steps) {
            const Node& node = graph[step.value];
            if (step.scope != Scope::tile || step.value == pass.anchor) continue;
            const bool continues =
                std::any_of(node.args.begin(), node.args.end(), [&](ValueId a) { return has(before, a); });
            if (!continues) continue;
            if (is_pointwise(node.op) || is_reduction(node.op)) {
                before.push_back(step.value);
                early = early || is_reduction(node.op);
            } else {
                pool = step.value;
            }
        }
        if (pool < 0) continue;
        for (const TileStep& step : pass.steps)
            early = early || (step.scope == Scope::grid && has(before, graph[step.value].args[0]));
        for (const Store& store : pass.stores) early = early || has(before, store.value);
        if (early) pools.push_back(pool);
    }
    return pools;
}

Attempt attempt(const Facts& facts, const std::set<ValueId>& twice, std::set<ValueId>& apart) {
    for (;;) {
        Draft draft(facts, twice, apart);
        draft.assign();
        draft.absorb();
        Attempt result{settle(draft), draft.decisions};
        if (facts.machine.sinks_before_pool) return result;
        const std::vector<ValueId> pools = early_sinks(facts.graph, result.plan);
        if (pools.empty()) return result;
        apart.insert(pools.begin(), pools.end());
    }
}

std::string milliseconds(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g ms", seconds * 1e3);
    return text;
}

// The reason stands on the passes the choice made: the second computation of v, or the loop that reads what was stored.
void explain_choice(Plan& plan, ValueId v, const std::string& why) {
    for (Pass& pass : plan.passes)
        for (const TileStep& step : pass.steps)
            if (step.value == v) {
                pass.why += (pass.why.empty() ? "" : "; ") + why;
                return;
            }
}

// Each choice between storing and computing twice made by cost.
Plan weighed(const Facts& facts) {
    std::set<ValueId> twice, apart;
    Attempt best = attempt(facts, twice, apart);
    // One decision at a time, in the order they come up; a different choice may bring up others.
    std::vector<std::pair<ValueId, std::string>> reasons;
    for (size_t k = 0; k < best.decisions.size(); ++k) {
        const ValueId v = best.decisions[k].value;
        if (!best.decisions[k].reason.empty()) {
            reasons.emplace_back(v, best.decisions[k].reason);
            continue;
        }
        twice.insert(v);
        Attempt other = attempt(facts, twice, apart);
        const double stored = best.plan.seconds, again = other.plan.seconds;
        if (again < stored) {
            best = std::move(other);
            reasons.emplace_back(
                v, "computed twice: " + milliseconds(again) + " in all, " + milliseconds(stored) + " if stored");
        } else {
            twice.erase(v);
            reasons.emplace_back(v, "stored and read again: " + milliseconds(stored) + " in all, " +
                                        milliseconds(again) + " if computed twice");
        }
    }
    for (const auto& [v, why] : reasons) explain_choice(best.plan, v, why);
    best.plan.graph = facts.graph;
    best.plan.machine = facts.machine;
    return std::move(best.plan);
}

// The same passes with shifts gathered. They read and write a table of their own, which costs next to nothing.
void gather_shifts(Plan& chosen) {
    const std::vector<ValueId> values = shifted_again(chosen);
    if (values.empty()) return;
    const Graph graph = gather_shifts(chosen.graph, values);
    Plan gathered = weighed(Facts(graph, chosen.machine));
    const bool same_passes =
        std::equal(gathered.passes.begin(), gathered.passes.end(), chosen.passes.begin(), chosen.passes.end(),
                   [](const Pass& a, const Pass& b) { return a.kind == b.kind; });
    if (!same_passes || gathered.seconds > figures::plan::as_quick * chosen.seconds) return;
    for (size_t i = 0; i < chosen.passes.size(); ++i) gathered.passes[i].why = chosen.passes[i].why;
    gathered.gathered = values;
    chosen = std::move(gathered);
}

}  // namespace

Plan plan(const Graph& rewritten, const Machine& machine) {
    Plan chosen = weighed(Facts(rewritten, machine));
    gather_shifts(chosen);
    return chosen;
}

std::vector<ValueId> Plan::buffers() const {
    std::vector<ValueId> result;
    for (const Pass& pass : passes)
        for (const Store& store : pass.stores)
            if (std::find(graph.outputs().begin(), graph.outputs().end(), store.target) == graph.outputs().end())
                result.push_back(store.target);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

size_t Plan::bytes() const {
    constexpr size_t of_attributes = 256;
    size_t all = sizeof *this + views.size() / 8 + gathered.size() * sizeof(ValueId);
    for (const Node& node : graph.nodes())
        all += sizeof node + node.name.size() + (node.attributes.items().empty() ? 0 : of_attributes);
    for (const Pass& pass : passes)
        all += sizeof pass + pass.steps.size() * sizeof(TileStep) + pass.reads.size() * sizeof(ValueId) +
               pass.stores.size() * sizeof(Store) + pass.why.size();
    return all;
}

}  // namespace transfuse
