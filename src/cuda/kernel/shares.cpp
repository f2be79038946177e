#include "cuda/kernel/shares.h"

#include <algorithm>
#include <array>
#include <utility>

namespace transfuse::cuda {

namespace {

struct Softmax {  // of x: y = e / sum, e = exp(z), z = x - top
    ValueId top, z, e, sum, y;
    std::array<ValueId, 5> values() const { return {top, z, e, sum, y}; }
};

std::optional<Softmax> softmax_of(const Graph& graph, ValueId y) {
    if (graph[y].op != Op::div) return std::nullopt;
    const ValueId e = graph[y].args[0], sum = graph[y].args[1];
    if (graph[e].op != Op::exp || graph[sum].op != Op::sum || graph[sum].args[0] != e) return std::nullopt;
    const ValueId z = graph[e].args[0];
    if (graph[z].op != Op::sub) return std::nullopt;
    const ValueId top = graph[z].args[1];
    if (graph[top].op != Op::amax || graph[top].args[0] != graph[z].args[0]) return std::nullopt;
    if (graph[top].type != graph[sum].type || !graph[top].attributes.same(graph[sum].attributes)) return std::nullopt;
    return Softmax{top, z, e, sum, y};
}

// Whether every pass that makes one of its values makes all of them for a tile, and nobody reads any but the last.
bool is_at_hand(const Plan& plan, const Softmax& softmax) {
    const auto values = softmax.values();
    const auto among = [&](ValueId v) { return std::find(values.begin(), values.end(), v) != values.end(); };
    for (const Pass& pass : plan.passes) {
        size_t made = 0;
        for (const TileStep& step : pass.steps) {
            if (among(step.value)) {
                if (step.scope != Scope::tile) return false;
                ++made;
                continue;
            }
            for (ValueId arg : plan.graph[step.value].args)
                if (arg != softmax.y && among(arg)) return false;
        }
        if (made != 0 && made != values.size()) return false;
        for (const Store& store : pass.stores)
            if (store.value != softmax.y && among(store.value)) return false;
    }
    return true;
}

}  // namespace

std::optional<Plan> with_shares(const Plan& plan) {
    std::vector<std::pair<ValueId, Node>> others;
    std::vector<Softmax> found;
    for (ValueId y = 0; y < plan.graph.size(); ++y) {
        const auto softmax = softmax_of(plan.graph, y);
        if (!softmax || !is_at_hand(plan, *softmax)) continue;
        Node sum = plan.graph[softmax->top], share = plan.graph[y];
        sum.op = Op::logsumexp;
        sum.attributes.set(Key::finite, int64_t{1});  // a row with ∞ in it is NaN, all of it
        share.op = Op::exp;
        share.args = {softmax->z};
        others.emplace_back(softmax->top, std::move(sum));
        others.emplace_back(y, std::move(share));
        found.push_back(*softmax);
    }
    if (found.empty()) return std::nullopt;
    Plan result = plan;
    result.graph = plan.graph.with_nodes(std::move(others));
    for (Pass& pass : result.passes)
        for (const Softmax& softmax : found) {
            std::erase_if(pass.steps,
                          [&](const TileStep& step) { return step.value == softmax.e || step.value == softmax.sum; });
            if (pass.anchor == softmax.e || pass.anchor == softmax.sum) pass.anchor = softmax.y;
        }
    return result;
}

}  // namespace transfuse::cuda
