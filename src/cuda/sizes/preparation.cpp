#include "cuda/sizes/preparation.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "cuda/kernel/key_text.h"
#include "transfuse/recent.h"

namespace transfuse::cuda {

struct Preparations::Ground {
    std::vector<bool> parameters, views;
    std::vector<ValueId> reads;  // of the plan's first pass
    std::vector<Sizes> leaf_strides;
    Target target;
    bool aligned, beside;
    struct Found {
        std::shared_ptr<const Program> program;
        std::vector<std::shared_ptr<const ExtraJob>> extras;  // they live as long, so that no other has their addresses
        Graph graph;
        std::vector<ValueId>
            made_of;  // what is stored and packed, and all below; scalars that sizes decide are not, mostly
    };
    Recent<std::string, std::shared_ptr<const Found>> found =
        Recent<std::string, std::shared_ptr<const Found>>(64);  // so many, by what is stored and packed
};

namespace {

size_t at(ValueId value) { return static_cast<size_t>(value); }

bool same_node(const Node& a, const Node& b) {
    return a.op == b.op && a.args == b.args && a.type == b.type && a.attributes.same(b.attributes);
}

bool same_nodes(const Graph& a, const Graph& b, const std::vector<ValueId>& values) {
    return std::ranges::all_of(values, [&](ValueId v) { return same_node(a[v], b[v]); });
}

// Equal nodes here have equal operands, so that nothing else is below them in a graph where all of these are the same.
std::vector<ValueId> made_of(const Preparation& asked) {
    std::vector<bool> met(asked.parameters.size());
    std::vector<ValueId> values;
    const auto meet = [&](ValueId v) {
        if (!met[at(v)]) met[at(v)] = true, values.push_back(v);
    };
    for (const ValueId v : asked.stored) meet(v);
    for (const auto& extra : asked.extras) meet(extra->root);
    for (size_t next = 0; next < values.size(); ++next)
        for (const ValueId arg : asked.plan.graph[values[next]].args) meet(arg);
    return values;
}

const std::vector<ValueId>& reads(const Plan& plan) {
    static const std::vector<ValueId> none;
    return !plan.passes.empty() && plan.passes[0].kind == PassKind::prepare ? plan.passes[0].reads : none;
}

// Of the leaves that are parameters; those of others do not matter.
template <class Each>
void each_parameter_leaf(const Preparation& asked, const Each& each) {
    for (const ValueId leaf : asked.plan.graph.leaves())
        if (asked.parameters[at(leaf)]) each(asked.strides[at(leaf)]);
}

bool same_strides(const Preparation& asked, const std::vector<Sizes>& leaves) {
    size_t met = 0;
    bool same = true;
    each_parameter_leaf(asked, [&](const Sizes& strides) { same = same && strides == leaves[met], ++met; });
    return same;
}

std::string wanted(const Preparation& asked) {
    KeyText key;
    key.add(asked.stored.size());
    for (const ValueId v : asked.stored) key.add(v, asked.strides[at(v)]);
    for (const auto& extra : asked.extras) key.add(reinterpret_cast<uintptr_t>(extra.get()));
    return key.take();
}

}  // namespace

Preparations::Ground* Preparations::ground_of(const Preparation& asked) const {
    for (const auto& ground : grounds_)
        if (ground->aligned == asked.aligned && ground->beside == asked.beside && ground->target == asked.target &&
            ground->parameters == asked.parameters && ground->views == asked.plan.views &&
            ground->reads == reads(asked.plan) && same_strides(asked, ground->leaf_strides))
            return ground.get();
    return nullptr;
}

std::shared_ptr<const Program> Preparations::find(const Preparation& asked) const {
    const Ground* ground = ground_of(asked);
    if (!ground) return nullptr;
    const auto* const found = ground->found.find(wanted(asked));
    if (found == nullptr) return nullptr;
    return same_nodes((*found)->graph, asked.plan.graph, (*found)->made_of) ? (*found)->program : nullptr;
}

void Preparations::remember(const Preparation& asked, std::shared_ptr<const Program> program) {
    Ground* ground = ground_of(asked);
    if (!ground) {
        std::vector<Sizes> leaves;
        each_parameter_leaf(asked, [&](const Sizes& strides) { leaves.push_back(strides); });
        if (grounds_.size() == most) grounds_.erase(grounds_.begin());
        grounds_.push_back(
            std::make_shared<Ground>(Ground{asked.parameters, asked.plan.views, reads(asked.plan), std::move(leaves),
                                            asked.target, asked.aligned, asked.beside}));
        ground = grounds_.back().get();
    }
    // The last to want these stays: another one was made of other values.
    const std::string key = wanted(asked);
    std::ignore = ground->found.take_if([&](const std::string& other, const auto&) { return other == key; });
    auto fresh = std::make_shared<Ground::Found>(
        Ground::Found{std::move(program), asked.extras, asked.plan.graph, made_of(asked)});
    std::ignore = ground->found.put(key, std::move(fresh), 1);
}

}  // namespace transfuse::cuda
