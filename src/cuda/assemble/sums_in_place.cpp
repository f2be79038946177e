#include "cuda/assemble/sums_in_place.h"

#include <algorithm>
#include <vector>

#include "graph/has.h"

namespace transfuse::cuda {

namespace {

// The views from what lies in memory to v, in their order; empty where one is more than another order.
std::vector<ValueId> reorderings(const Plan& plan, ValueId v) {
    std::vector<ValueId> chain;
    for (; plan.views[static_cast<size_t>(v)]; v = plan.graph[v].args[0]) {
        const Op op = plan.graph[v].op;
        if (op != Op::permute && op != Op::reshape && op != Op::flip) return {};
        chain.insert(chain.begin(), v);
    }
    return chain;
}

bool is_copy(const Pass& pass) {
    return pass.kind == PassKind::pointwise && pass.steps.empty() && pass.reads.size() == 1 &&
           pass.stores.size() == 1 && pass.stores[0] == Store{pass.reads[0], pass.reads[0], {}};
}

// Whether a pass reads the value's memory.
bool reads(const Plan& plan, const Pass& pass, ValueId root) {
    return std::ranges::any_of(pass.reads, [&](ValueId v) { return view_root(plan, v) == root; });
}

}  // namespace

std::optional<Plan> with_sums_in_place(const Plan& plan) {
    std::optional<Plan> result;
    for (size_t c = plan.passes.size(); c-- > 0 && is_copy(plan.passes[c]);) {
        const ValueId v = plan.passes[c].anchor;
        const std::vector<ValueId> chain = reorderings(plan, v);
        if (chain.empty()) continue;
        const ValueId root = plan.graph[chain[0]].args[0];
        if (std::ranges::count_if(plan.passes, [&](const Pass& pass) { return reads(plan, pass, root); }) != 1)
            continue;
        if (has(plan.graph.outputs(), root) || std::ranges::count(plan.graph.outputs(), v) != 1) continue;
        const auto maker = std::ranges::find_if(plan.passes, [&](const Pass& pass) {
            return pass.kind == PassKind::correlate && std::ranges::count(pass.stores, Store{root, root, {}}) == 1;
        });
        if (maker == plan.passes.end()) continue;
        if (!result) result = plan;
        Pass& pass = result->passes[static_cast<size_t>(maker - plan.passes.begin())];
        *std::ranges::find(pass.stores, Store{root, root, {}}) = {v, v, {}};
        for (ValueId view : chain) {
            pass.steps.push_back({view, Scope::tail});
            result->views[static_cast<size_t>(view)] = false;
        }
        result->passes.erase(result->passes.begin() + static_cast<ptrdiff_t>(c));
    }
    return result;
}

}  // namespace transfuse::cuda
