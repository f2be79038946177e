#include <algorithm>
#include <set>

#include "plan/settle.h"

namespace transfuse {

namespace {

struct Attempt {
    Plan plan;
    std::vector<Decision> decisions;
};

Attempt attempt(const Facts& facts, const std::set<ValueId>& twice) {
    Draft draft(facts, twice);
    draft.assign();
    draft.absorb();
    Attempt result{settle(draft), draft.decisions};
    return result;
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

}  // namespace

Plan plan(const Graph& rewritten, const Machine& machine) {
    const Facts facts(rewritten, machine);
    std::set<ValueId> twice;
    Attempt best = attempt(facts, twice);
    // One decision at a time, in the order they come up; a different choice may bring up others.
    std::vector<std::pair<ValueId, std::string>> reasons;
    for (size_t k = 0; k < best.decisions.size(); ++k) {
        const ValueId v = best.decisions[k].value;
        if (!best.decisions[k].reason.empty()) {
            reasons.emplace_back(v, best.decisions[k].reason);
            continue;
        }
        twice.insert(v);
        Attempt other = attempt(facts, twice);
        const double stored = best.plan.seconds, again = other.plan.seconds;
        if (again < stored) {
            best = std::move(other);
            reasons.emplace_back(v, "computed twice: " + milliseconds(again) + " in all, " + milliseconds(stored) + " if stored");
        } else {
            twice.erase(v);
            reasons.emplace_back(v, "stored and read again: " + milliseconds(stored) + " in all, " + milliseconds(again) +
                                        " if computed twice");
        }
    }
    for (const auto& [v, why] : reasons) explain_choice(best.plan, v, why);
    best.plan.graph = rewritten;
    best.plan.machine = machine;
    return std::move(best.plan);
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

}  // namespace transfuse
