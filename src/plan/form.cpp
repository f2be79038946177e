#include "plan/form.h"

#include <algorithm>
#include <limits>

#include "plan/settle.h"

namespace transfuse {

namespace {

// Whether a plan may look at other attributes of a node than its type tells: those of these ops are lists of extents
// and of places, or numbers.
bool is_of_sizes(Op op) {
    switch (op) {
        case Op::scalar:
        case Op::full:
        case Op::reshape:
        case Op::expand:
        case Op::slice:
        case Op::box_sums:
        case Op::box_spread:
            return true;
        default:
            return false;
    }
}

// All but the extents of what a lattice makes, which types tell.
bool same_taps(const Attributes& a, const Attributes& b) {
    const auto &left = a.items(), &right = b.items();
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const auto& x, const auto& y) {
        return x.first == y.first && (x.first == Key::out || x.second == y.second);
    });
}

bool same_attributes(const Node& a, const Node& b) {
    if (a.attributes.same(b.attributes) || is_of_sizes(a.op)) return true;
    const bool product = a.op == Op::lattice || a.op == Op::correlate || a.op == Op::covariance;
    return product && same_taps(a.attributes, b.attributes);
}

Sizes start_of(const Graph& graph, ValueId concat, size_t operand) {
    const Node& node = graph[concat];
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    Sizes start(node.type.shape.size(), 0);
    for (size_t i = 0; i < operand; ++i) start[axis] += graph[node.args[i]].type.shape[axis];
    return start;
}

}  // namespace

Form::Form(const Graph& graph, const Machine& machine)
    : graph_(graph), machine_(machine), facts_(graph_, machine_, &questions_), plan_(planned(facts_)) {
    if (!lasts()) return;
    find_classes();
    find_pieces();
}

void Form::find_classes() {
    for (const Node& node : graph_.nodes())
        for (const int64_t extent : node.type.shape)
            if (const auto at = std::lower_bound(extents_.begin(), extents_.end(), extent);
                at == extents_.end() || *at != extent)
                extents_.insert(at, extent);
    many_ = extents_.size() > std::numeric_limits<uint8_t>::max();
    if (many_) return;
    for (const Node& node : graph_.nodes())
        for (const int64_t extent : node.type.shape)
            classes_.push_back(
                static_cast<uint8_t>(std::lower_bound(extents_.begin(), extents_.end(), extent) - extents_.begin()));
}

void Form::find_pieces() {
    for (size_t p = 0; p < plan_.passes.size(); ++p)
        for (size_t s = 0; s < plan_.passes[p].stores.size(); ++s) {
            const Store& store = plan_.passes[p].stores[s];
            if (store.start.empty()) continue;
            const Operands& operands = graph_[store.target].args;
            for (size_t i = 0; i < operands.size(); ++i)
                if (operands[i] == store.value && start_of(graph_, store.target, i) == store.start) {
                    pieces_.push_back({p, s, i});
                    break;
                }
        }
}

// Whether the graph has the same nodes, and extents that are equal where those of this form are, and nowhere else: all
// of a class become one, different classes different ones, 0 and 1 themselves.
bool Form::alike(const Graph& graph, std::vector<bool>& changed, Extents& extents) const {
    const Graph& own = graph_;
    if (many_ || graph.size() != own.size() || graph.outputs() != own.outputs() || graph.leaves() != own.leaves())
        return false;
    constexpr int64_t unknown = -1;
    extents.assign(extents_.size(), unknown);
    changed.assign(static_cast<size_t>(own.size()), false);
    std::vector<bool> grown(changed);  // values of another shape
    const uint8_t* next = classes_.data();
    for (ValueId v = 0; v < own.size(); ++v) {
        const Node &a = own[v], &b = graph[v];
        const size_t rank = a.type.shape.size();
        if (a.op != b.op || a.args != b.args || a.type.dtype != b.type.dtype || b.type.shape.size() != rank)
            return false;
        bool differs = false;
        for (size_t axis = 0; axis < rank; ++axis) {
            const int64_t extent = b.type.shape[axis];
            int64_t& known = extents[*next++];
            if (known == unknown) known = extent;
            if (known != extent) return false;
            differs = differs || extent != a.type.shape[axis];
        }
        grown[Facts::at(v)] = differs;
        if (!a.attributes.same(b.attributes)) {
            if (!same_attributes(a, b)) return false;
            differs = true;
        }
        for (const ValueId arg : a.args) differs = differs || grown[Facts::at(arg)];
        changed[Facts::at(v)] = differs;
    }
    for (size_t c = 0; c < extents_.size(); ++c)
        if ((extents_[c] <= 1 || extents[c] <= 1) && extents[c] != extents_[c]) return false;
    Extents sorted(extents);
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

// Sizes that some value has, as the other graph has them.
Sizes Form::at(const Sizes& sizes, const Extents& extents) const {
    Sizes result;
    for (const int64_t extent : sizes)
        result.push_back(extents[static_cast<size_t>(std::lower_bound(extents_.begin(), extents_.end(), extent) -
                                                     extents_.begin())]);
    return result;
}

bool Form::same_answers(const Facts& facts, const Extents& extents) const {
    const Questions& asked = questions_;
    return facts.smalls() == facts_.smalls() && facts.ordinary == facts_.ordinary &&
           std::ranges::all_of(asked.at_most,
                               [&](const auto& q) { return (numel(at(q.extents, extents)) <= q.most) == q.answer; }) &&
           std::ranges::all_of(
               asked.splits,
               [&](const auto& q) { return splits_only(at(q.from, extents), at(q.to, extents)) == q.answer; }) &&
           std::ranges::all_of(
               asked.pools, [&](const auto& q) { return tile_pool(facts.graph, q.value).has_value() == q.answer; }) &&
           std::ranges::all_of(asked.gains, [&](const auto& q) { return (facts.gain(q.moved) > 0) == q.answer; });
}

std::optional<Plan> Form::again(const Graph& graph, const Machine& machine) const {
    std::vector<bool> changed;
    Extents extents;
    if (machine != machine_ || !alike(graph, changed, extents)) return std::nullopt;
    const Facts facts(facts_, graph, changed);
    if (!same_answers(facts, extents)) return std::nullopt;
    Plan plan = plan_;
    plan.graph = graph;
    plan.seconds = 0;
    for (Pass& pass : plan.passes) pass.cost = {};
    for (const auto& [pass, store, operand] : pieces_) {
        Store& piece = plan.passes[pass].stores[store];
        piece.start = start_of(graph, piece.target, operand);
    }
    estimate(facts, plan);
    return plan;
}

Plan Forms::plan(const Graph& rewritten, const Machine& machine) {
    std::vector<std::shared_ptr<const Form>> known;
    {
        const std::lock_guard lock(mutex_);
        known = forms_;
    }
    for (size_t i = 0; i < known.size(); ++i) {
        auto plan = known[i]->again(rewritten, machine);
        if (!plan) continue;
        if (i > 0) {
            const std::lock_guard lock(mutex_);
            const auto at = std::find(forms_.begin(), forms_.end(), known[i]);
            if (at != forms_.end()) std::rotate(forms_.begin(), at, at + 1);
        }
        return std::move(*plan);
    }
    const auto form = std::make_shared<Form>(rewritten, machine);
    const std::lock_guard lock(mutex_);
    ++made_;
    if (!form->lasts()) return form->take();
    if (forms_.size() == most) forms_.pop_back();
    forms_.insert(forms_.begin(), form);
    return form->plan();
}

int64_t Forms::made() const {
    const std::lock_guard lock(mutex_);
    return made_;
}

}  // namespace transfuse
