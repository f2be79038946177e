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

Sizes at(const Sizes& classes, const Ground::Extents& extents) {
    Sizes result;
    for (const int64_t c : classes) result.push_back(extents[static_cast<size_t>(c)]);
    return result;
}

LentPlan made_anew(Plan plan) { return {std::make_unique<Plan>(std::move(plan)), nullptr}; }

Plan of_a_form(Plan plan) {
    plan.form = std::make_shared<const char>();
    return plan;
}

void to_classes(Sizes& sizes, const Ground::Extents& extents) {
    for (int64_t& extent : sizes) extent = std::find(extents.begin(), extents.end(), extent) - extents.begin();
}

}  // namespace

Ground::Ground(const Graph& graph, const Machine& machine)
    : graph_(graph), machine_(machine), facts_(graph_, machine_, &questions_) {
    for (const Node& node : graph_.nodes())
        for (const int64_t extent : node.type.shape)
            if (const auto at = std::lower_bound(extents_.begin(), extents_.end(), extent);
                at == extents_.end() || *at != extent)
                extents_.insert(at, extent);
    many_ = extents_.size() > std::numeric_limits<uint8_t>::max();
    if (many_) return;
    of_parameters_.assign(extents_.size(), unknown);
    for (ValueId v = 0; v < graph_.size(); ++v) {
        first_.push_back(static_cast<uint32_t>(classes_.size()));
        for (const int64_t extent : graph_[v].type.shape) {
            const auto at = std::lower_bound(extents_.begin(), extents_.end(), extent) - extents_.begin();
            classes_.push_back(static_cast<uint8_t>(at));
            if (facts_.parameter[Facts::at(v)]) of_parameters_[static_cast<size_t>(at)] = extent;
        }
    }
}

bool Ground::alike(ValueId v, const Node& b, bool kin, std::vector<bool>& changed, std::vector<bool>& grown,
                   Extents& extents) const {
    const Node& a = graph_[v];
    const size_t rank = a.type.shape.size();
    if (a.type.dtype != b.type.dtype || b.type.shape.size() != rank) return false;
    if (!kin && (a.op != b.op || a.args != b.args)) return false;
    bool differs = false;
    const uint8_t* const classes = classes_.data() + first_[Facts::at(v)];
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t extent = b.type.shape[axis];
        int64_t& known = extents[classes[axis]];
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
    return true;
}

// All of a class become one, different classes different ones, 0 and 1 themselves.
bool Ground::alike(const Graph& graph, std::vector<bool>& changed, Extents& extents) const {
    const Graph& own = graph_;
    if (many_) return false;
    changed.assign(static_cast<size_t>(own.size()), false);
    std::vector<bool> grown(changed);  // values of another shape
    if (const Kin* const kin = own.kin(); kin && graph.kin() == kin) {
        extents = of_parameters_;
        for (const ValueId v : kin->fed)
            if (!alike(v, graph[v], true, changed, grown, extents)) return false;
    } else {
        if (graph.size() != own.size() || graph.outputs() != own.outputs() || graph.leaves() != own.leaves())
            return false;
        extents.assign(extents_.size(), unknown);
        for (ValueId v = 0; v < own.size(); ++v)
            if (!alike(v, graph[v], false, changed, grown, extents)) return false;
    }
    for (size_t c = 0; c < extents_.size(); ++c)
        if ((extents_[c] <= 1 || extents[c] <= 1) && extents[c] != extents_[c]) return false;
    Extents sorted(extents);
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

std::unique_ptr<const Ground::Seen> Ground::see(const Graph& graph, const Machine& machine) const {
    std::vector<bool> changed;
    Extents extents;
    if (machine != machine_ || !alike(graph, changed, extents)) return nullptr;
    return std::make_unique<const Seen>(Seen{Facts(facts_, graph, changed), std::move(extents)});
}

Form::Form(std::shared_ptr<const Ground> on, Plan made, const Facts& facts, Questions asked,
           const Ground::Extents& extents)
    : ground(std::move(on)),
      plan(of_a_form(std::move(made))),
      questions_(std::move(asked)),
      small_(facts.smalls()),
      ordinary_(facts.ordinary) {
    for (auto& question : questions_.at_most) to_classes(question.extents, extents);
    for (auto& question : questions_.splits) to_classes(question.from, extents), to_classes(question.to, extents);
    for (size_t p = 0; p < plan.passes.size(); ++p)
        for (size_t s = 0; s < plan.passes[p].stores.size(); ++s) {
            const Store& store = plan.passes[p].stores[s];
            if (store.start.empty()) continue;
            const Operands& operands = plan.graph[store.target].args;
            for (size_t i = 0; i < operands.size(); ++i)
                if (operands[i] == store.value && start_of(plan.graph, store.target, i) == store.start) {
                    pieces_.push_back({p, s, i});
                    break;
                }
        }
}

bool Form::same_answers(const Ground::Seen& seen) const {
    const auto& [facts, extents] = seen;
    return facts.smalls() == small_ && facts.ordinary == ordinary_ &&
           std::ranges::all_of(questions_.at_most,
                               [&](const auto& q) { return (numel(at(q.extents, extents)) <= q.most) == q.answer; }) &&
           std::ranges::all_of(
               questions_.splits,
               [&](const auto& q) { return splits_only(at(q.from, extents), at(q.to, extents)) == q.answer; }) &&
           std::ranges::all_of(
               questions_.pools,
               [&](const auto& q) { return tile_pool(facts.graph, q.value).has_value() == q.answer; }) &&
           std::ranges::all_of(questions_.gains, [&](const auto& q) { return (facts.gain(q.moved) > 0) == q.answer; });
}

std::unique_ptr<Plan> Form::take_spare() const {
    const std::lock_guard lock(mutex_);
    return std::move(spare_);
}

void Form::give_back(std::unique_ptr<Plan> spare) const {
    spare->graph = {};
    const std::lock_guard lock(mutex_);
    if (!spare_) spare_ = std::move(spare);
}

std::unique_ptr<Plan> Form::again(const Ground::Seen& seen) const {
    if (!same_answers(seen)) return nullptr;
    std::unique_ptr<Plan> anew = take_spare();
    if (!anew) anew = std::make_unique<Plan>(plan);
    Plan& other = *anew;
    other.graph = seen.facts.graph;
    other.seconds = 0;
    for (Pass& pass : other.passes) pass.cost = {};
    for (const auto& [pass, store, operand] : pieces_) {
        Store& piece = other.passes[pass].stores[store];
        piece.start = start_of(other.graph, piece.target, operand);
    }
    estimate(seen.facts, other);
    return anew;
}

LentPlan Forms::lend(const Graph& rewritten, const Machine& machine) {
    std::vector<std::shared_ptr<const Form>> known;
    {
        const std::lock_guard lock(mutex_);
        known = forms_;
    }
    std::shared_ptr<const Ground> ground;
    std::unique_ptr<const Ground::Seen> seen;  // from there: no other ground would see the graph
    for (const auto& form : known) {
        if (!seen && form->ground != ground) ground = form->ground, seen = ground->see(rewritten, machine);
        if (!seen || form->ground != ground) continue;
        auto plan = form->again(*seen);
        if (!plan) continue;
        if (form != known.front()) {
            const std::lock_guard lock(mutex_);
            const auto at = std::find(forms_.begin(), forms_.end(), form);
            if (at != forms_.end()) std::rotate(forms_.begin(), at, at + 1);
        }
        return {std::move(plan), form};
    }
    if (!seen) {
        const auto fresh = std::make_shared<Ground>(rewritten, machine);
        Plan plan = planned(fresh->facts());
        return made_anew(keep(fresh, std::move(plan), fresh->facts(), fresh->take_questions(), fresh->extents()));
    }
    Questions asked;
    const Facts facts(rewritten, machine, &asked);
    Plan plan = planned(facts);
    return made_anew(keep(ground, std::move(plan), facts, std::move(asked), seen->extents));
}

Plan Forms::keep(std::shared_ptr<const Ground> ground, Plan plan, const Facts& facts, Questions asked,
                 const Ground::Extents& extents) {
    const bool lasts = !asked.others;  // all that was asked is known
    auto form =
        lasts ? std::make_shared<const Form>(std::move(ground), plan, facts, std::move(asked), extents) : nullptr;
    const std::lock_guard lock(mutex_);
    ++made_;
    if (!lasts) return plan;
    if (forms_.size() == most) forms_.pop_back();
    forms_.insert(forms_.begin(), std::move(form));
    return plan;
}

int64_t Forms::made() const {
    const std::lock_guard lock(mutex_);
    return made_;
}

}  // namespace transfuse
