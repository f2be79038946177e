#include "plan/settle.h"

#include <algorithm>
#include <iterator>

#include "graph/has.h"
#include "plan/order.h"

namespace transfuse {

namespace {

void estimate(const Facts& facts, Pass& pass) {
    double product = 0, other = 0;
    for (const TileStep& step : pass.steps) {
        const size_t i = Facts::at(step.value);
        pass.cost.flops += facts.flops[i];
        // Covariances are summed in fp64, not by the units that multiply matrices.
        if (facts.product[i] && facts.graph[step.value].op != Op::covariance && step.scope != Scope::tail)
            product += facts.flops[i] * facts.padding[i];
        else
            other += facts.work(step.value);
    }
    for (ValueId v : pass.reads) pass.cost.bytes += facts.read_bytes(v);
    for (const Store& store : pass.stores) pass.cost.bytes += facts.bytes(store.value);
    const Machine& machine = facts.machine;
    // Where no tile is stored, the chain runs on the product's own registers.
    const bool stores_tiles = std::any_of(pass.steps.begin(), pass.steps.end(), [&](const TileStep& step) {
        return step.scope == Scope::tile && std::any_of(pass.stores.begin(), pass.stores.end(),
                                                        [&](const Store& store) { return store.value == step.value; });
    });
    const bool ordinary = pass.kind == PassKind::dense && facts.ordinary[Facts::at(pass.anchor)];
    const bool beside = pass.kind == PassKind::dense && stores_tiles && machine.tile_flops > 0 && !ordinary;
    const double rate = beside ? machine.tile_flops : machine.pointwise_flops;
    if (ordinary) other += product * rate / machine.flops, product = 0;  // one after the other
    pass.seconds =
        machine.launch + std::max({product / machine.flops, other / rate, pass.cost.bytes / machine.bandwidth});
}

class Settling {
public:
    explicit Settling(const Draft& draft)
        : draft_(draft), facts_(draft.facts), n_(static_cast<size_t>(facts_.graph.size())), needed_(n_), prepared_(n_) {
        live_.resize(draft.passes.size() * n_);
        values_.resize(draft.passes.size());
        stores_.resize(draft.passes.size());
    }

    Plan run() {
        for (ValueId v : facts_.graph.outputs()) need_output(v);
        for (Few<ValueId, 12>& list : values_) std::sort(list.begin(), list.end());
        Plan plan;
        plan.views = draft_.view;
        prepare_pass(plan);
        const std::vector<int> ordered = order();
        plan.passes.reserve(plan.passes.size() + ordered.size() + copied_outputs_.size());
        for (int p : ordered) plan.passes.push_back(pass(p));
        // Outputs that lie somewhere else already are copied last.
        for (ValueId v : copied_outputs_) {
            Pass copy;
            copy.kind = PassKind::pointwise;
            copy.anchor = v;
            copy.reads = {v};
            copy.stores = {{v, v, {}}};
            plan.passes.push_back(std::move(copy));
        }
        estimate(facts_, plan);
        return plan;
    }

private:
    void need_output(ValueId v) {
        const Op op = facts_.graph[v].op;
        if (is_leaf(op) || draft_.view[Facts::at(v)]) {
            if (std::find(copied_outputs_.begin(), copied_outputs_.end(), v) != copied_outputs_.end()) return;
            copied_outputs_.push_back(v);
        }
        if (!facts_.literal[Facts::at(v)]) return need(v);
        if (!prepared_[Facts::at(v)]) prepare(v, true);
    }

    // v must lie in memory.
    void need(ValueId v) {
        const size_t i = Facts::at(v);
        const Node& node = facts_.graph[v];
        if (facts_.literal[i] || is_leaf(node.op) || needed_[i]) return;
        needed_[i] = true;
        if (draft_.view[i]) return need(node.args[0]);
        if (draft_.gathered[i]) return gather(v);
        if (facts_.parameter[i]) return prepare(v, true);
        const int p = draft_.home[i];
        stores_[static_cast<size_t>(p)].push_back({v, v, {}});
        compute(p, v);
    }

    // Each piece goes straight into its region.
    void gather(ValueId v) {
        const Node& node = facts_.graph[v];
        Sizes start;
        size_t axis = 0;
        if (node.op == Op::concat) {
            start.assign(node.type.shape.size(), 0);
            axis = static_cast<size_t>(node.attributes.integer(Key::axis));
        }
        for (ValueId a : node.args) {
            int p = draft_.home[Facts::at(a)];
            if (p < 0)
                for (const Draft::Copy& copy : draft_.copies)
                    if (copy.piece == a && copy.target == v) p = copy.pass;
            stores_[static_cast<size_t>(p)].push_back({a, v, start});
            if (draft_.home[Facts::at(a)] >= 0)
                compute(p, a);
            else
                need(a);
            if (node.op == Op::concat) start[axis] += facts_.shape(a)[axis];
        }
    }

    void compute(int p, ValueId v) {
        const size_t at = static_cast<size_t>(p) * n_ + Facts::at(v);
        if (live_[at]) return;
        live_[at] = true;
        values_[static_cast<size_t>(p)].push_back(v);
        for (ValueId a : facts_.graph[v].args) {
            if (draft_.slot(p, a) != Slot::absent)
                compute(p, a);
            else
                need(a);
        }
    }

    void prepare(ValueId v, bool stored) {
        const size_t i = Facts::at(v);
        if (stored) prepare_stores_.push_back({v, v, {}});
        if (prepared_[i]) return;
        prepared_[i] = true;
        for (ValueId a : facts_.graph[v].args) prepare_operand(a);
    }
    void prepare_operand(ValueId a) {
        const Node& node = facts_.graph[a];
        if (facts_.literal[Facts::at(a)] || is_leaf(node.op) || draft_.view[Facts::at(a)]) return;
        prepare(a, false);
    }

    void prepare_pass(Plan& plan) {
        Pass pass;
        pass.kind = PassKind::prepare;
        for (ValueId v = 0; v < facts_.graph.size(); ++v)
            if (prepared_[Facts::at(v)]) pass.steps.push_back({v, Scope::tail});
        if (pass.steps.empty()) return;
        pass.stores = prepare_stores_;
        std::sort(pass.stores.begin(), pass.stores.end(),
                  [](const Store& a, const Store& b) { return a.value < b.value; });
        pass.anchor = pass.steps.back().value;
        collect_reads(pass);
        plan.passes.push_back(std::move(pass));
    }

    void collect_reads(Pass& pass) {
        here_.assign(n_, false);
        Few<ValueId, 32> reads;
        for (const TileStep& step : pass.steps) here_[Facts::at(step.value)] = true;
        auto read = [&](ValueId a) {
            if (facts_.literal[Facts::at(a)] || here_[Facts::at(a)]) return;
            here_[Facts::at(a)] = true;
            reads.push_back(a);
        };
        for (const TileStep& step : pass.steps)
            for (ValueId a : facts_.graph[step.value].args) read(a);
        for (const Store& store : pass.stores) read(store.value);
        std::sort(reads.begin(), reads.end());
        pass.reads = reads;
    }

    Pass pass(int p) {
        const DraftPass& draft = draft_.passes[static_cast<size_t>(p)];
        Pass pass;
        pass.kind = draft.kind;
        pass.anchor = draft.anchor;
        pass.why = draft.why;
        pass.stores = std::move(stores_[static_cast<size_t>(p)]);
        Few<TileStep, 16> steps;
        for (ValueId v : values_[static_cast<size_t>(p)]) steps.push_back({v, scope_of(draft_.slot(p, v))});
        for (const Store& store : pass.stores)
            if (facts_.literal[Facts::at(store.value)]) steps.push_back({store.value, Scope::tile});
        pass.steps.reserve(steps.size());
        for (const Scope scope : {Scope::prologue, Scope::tile, Scope::grid, Scope::tail})
            std::copy_if(steps.begin(), steps.end(), std::back_inserter(pass.steps),
                         [&](const TileStep& step) { return step.scope == scope; });
        std::sort(pass.stores.begin(), pass.stores.end(), [](const Store& a, const Store& b) {
            return a.value != b.value     ? a.value < b.value
                   : a.target != b.target ? a.target < b.target
                                          : a.start < b.start;
        });
        collect_reads(pass);
        fix_anchor(pass, draft);
        return pass;
    }

    // The anchor of a moments pass or a loop must be one of its live values.
    void fix_anchor(Pass& pass, const DraftPass& draft) const {
        auto has = [&](ValueId v) {
            return std::any_of(pass.steps.begin(), pass.steps.end(),
                               [&](const TileStep& step) { return step.value == v; }) ||
                   std::find(pass.reads.begin(), pass.reads.end(), v) != pass.reads.end();
        };
        if (pass.anchor >= 0 && has(pass.anchor) &&
            (draft.kind != PassKind::pointwise || draft.small || facts_.shape(pass.anchor) == draft.domain))
            return;
        if (draft.kind == PassKind::moments) {
            for (const TileStep& step : pass.steps)
                if (facts_.graph[step.value].op == Op::box_sums && step.scope == Scope::grid) {
                    pass.anchor = step.value;
                    return;
                }
        }
        for (const TileStep& step : pass.steps)
            if (draft.small || facts_.shape(step.value) == draft.domain) {
                pass.anchor = step.value;
                return;
            }
        for (ValueId v : pass.reads)
            if (facts_.shape(v) == draft.domain) {
                pass.anchor = v;
                return;
            }
    }

    // Live passes in the order in which they run.
    std::vector<int> order() const {
        const auto count = static_cast<size_t>(draft_.count());
        std::vector<Running> passes(count);
        for (size_t p = 0; p < count; ++p) {
            Running& pass = passes[p];
            pass.live = !stores_[p].empty();
            if (!pass.live) continue;
            const auto read = [&](ValueId a) {
                draft_.each_source(a, [&](int of) {
                    const auto q = static_cast<size_t>(of);
                    if (q != p && !stores_[q].empty() && std::ranges::find(pass.sources, q) == pass.sources.end())
                        pass.sources.push_back(q);
                });
            };
            for (ValueId v : values_[p])
                for (ValueId a : facts_.graph[v].args)
                    if (draft_.slot(static_cast<int>(p), a) == Slot::absent) read(a);
            for (const Store& store : stores_[p]) {
                if (draft_.home[Facts::at(store.value)] != static_cast<int>(p)) read(store.value);
                if (!has(facts_.graph.outputs(), store.target)) pass.held += facts_.bytes(store.value);
            }
        }
        return in_order(passes);
    }
    const Draft& draft_;
    const Facts& facts_;
    size_t n_;
    std::vector<bool> needed_, prepared_;
    std::vector<bool> here_;                  // made or read by the pass at hand
    std::vector<bool> live_;                  // [pass][value]
    std::vector<Few<ValueId, 12>> values_;    // [pass]: those that are live, ascending
    std::vector<std::vector<Store>> stores_;  // [pass]
    std::vector<Store> prepare_stores_;
    std::vector<ValueId> copied_outputs_;
};

}  // namespace

void estimate(const Facts& facts, Plan& plan) {
    for (Pass& pass : plan.passes) estimate(facts, pass), plan.seconds += pass.seconds;
}

Plan settle(const Draft& draft) { return Settling(draft).run(); }

}  // namespace transfuse
