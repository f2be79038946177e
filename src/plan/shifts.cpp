#include "plan/shifts.h"

#include <algorithm>

#include "graph/has.h"

namespace transfuse {

namespace {

// ± a value that is constant over the image.
struct Term {
    ValueId value;
    bool minus;
};

// A lattice and how it is shifted.
struct Run {
    ValueId lattice = -1;
    std::vector<Term> terms;  // the bias is the last, where there is one
};

// The operand that v shifts by the other one; −1: v is no shift, or by something that varies over the image.
ValueId shifted_by(const Graph& graph, ValueId v, Term& by) {
    const Node& node = graph[v];
    if (node.op != Op::add && node.op != Op::sub) return -1;
    for (size_t side = 0; side < (node.op == Op::add ? 2 : 1); ++side) {
        const ValueId u = node.args[side], s = node.args[1 - side];
        const Sizes& shape = graph[s].type.shape;
        const auto space = static_cast<size_t>(std::max<int64_t>(0, graph[s].type.rank() - node.type.rank() + 2));
        const bool constant = std::all_of(shape.begin() + static_cast<int64_t>(std::min(space, shape.size())),
                                          shape.end(), [](int64_t extent) { return extent == 1; });
        if (graph[u].type != node.type || !constant) continue;
        if (graph[s].op != Op::scalar && graph[s].type.dtype != node.type.dtype) continue;
        by = {s, node.op == Op::sub};
        return u;
    }
    return -1;
}

Run run_of(const Graph& graph, ValueId v) {
    Run run;
    Term term{};
    for (ValueId u; (u = shifted_by(graph, v, term)) >= 0; v = u) run.terms.push_back(term);
    if (graph[v].op != Op::lattice) return {};
    run.lattice = v;
    if (graph[v].args.size() > 2) run.terms.push_back({graph[v].args[2], false});
    return run;
}

// Collects the terms of sums and differences; true if one met its opposite, and both are gone.
bool add_up(const Graph& graph, const Term& term, std::vector<Term>& terms) {
    const Node& node = graph[term.value];
    const auto opposite = std::find_if(terms.begin(), terms.end(), [&](const Term& other) {
        return other.value == term.value && other.minus != term.minus;
    });
    if (opposite != terms.end()) return terms.erase(opposite), true;
    if (node.op == Op::neg) return add_up(graph, {node.args[0], !term.minus}, terms);
    if (node.op == Op::add || node.op == Op::sub) {
        const bool met = add_up(graph, {node.args[0], term.minus}, terms);
        return add_up(graph, {node.args[1], term.minus != (node.op == Op::sub)}, terms) || met;
    }
    terms.push_back(term);
    return false;
}

// A graph that is built from another one.
struct Gathering {
    const Graph& graph;
    const std::vector<bool> parameter = parameter_values(graph);
    Builder builder{graph.name()};
    std::vector<ValueId> now = {};  // what stands for each value

    ValueId at(ValueId old) const { return now[static_cast<size_t>(old)]; }

    void copy(ValueId v) {
        Operands args = graph[v].args;
        for (ValueId& arg : args) arg = at(arg);
        now.push_back(builder.again(graph[v], std::move(args)));
    }

    // lattice − t. What changes from call to call leads, so that no part of t is a value of parameters alone.
    void shift_once(const Run& run) {
        const Node& lattice = graph[run.lattice];
        const ValueId bias = lattice.args.size() > 2 ? lattice.args[2] : -1;
        Sizes channels(lattice.type.shape.size(), 1);
        channels[1] = lattice.type.shape[1];
        std::vector<Term> terms = run.terms, parts;
        bool met = false;
        for (Term term : terms) {
            const bool reshaped = term.value == bias && graph[bias].op == Op::reshape;
            if (reshaped && graph[graph[bias].args[0]].type.shape == channels) term.value = graph[bias].args[0];
            met = add_up(graph, term, parts) || met;
        }
        if (met) terms = std::move(parts);
        std::stable_sort(terms.begin(), terms.end(), [&](const Term& a, const Term& b) {
            return parameter[static_cast<size_t>(a.value)] < parameter[static_cast<size_t>(b.value)];
        });
        const auto first = std::find_if(terms.begin(), terms.end(), [](const Term& term) { return term.minus; });
        const bool minus = first != terms.end();
        if (minus) std::rotate(terms.begin(), first, first + 1);
        ValueId t = -1;
        for (const Term& term : terms) {
            const ValueId s = term.value == bias ? builder.reshape(at(bias), channels) : at(term.value);
            t = t < 0 ? s : builder.binary(term.minus == minus ? Op::add : Op::sub, t, s);
        }
        const ValueId y = builder.add(Op::lattice, {at(lattice.args[0]), at(lattice.args[1])}, lattice.attributes);
        now.push_back(t < 0 ? y : builder.binary(minus ? Op::sub : Op::add, y, t));
    }
};

// The step of the pass that alone goes on with v, which is not stored; −1: there is none.
ValueId next_of(const Plan& plan, const Pass& pass, ValueId v) {
    ValueId next = -1;
    for (const Store& store : pass.stores)
        if (store.value == v) return -1;
    for (const TileStep& step : pass.steps) {
        if (!has(plan.graph[step.value].args, v)) continue;
        if (next >= 0) return -1;
        next = step.value;
    }
    return next;
}

bool computes(const Pass& pass, ValueId v) {
    return std::any_of(pass.steps.begin(), pass.steps.end(), [&](const TileStep& step) { return step.value == v; });
}

}  // namespace

std::vector<ValueId> shifted_again(const Plan& plan) {
    std::vector<ValueId> values;
    for (size_t i = 1; i < plan.passes.size(); ++i) {
        const Pass& pass = plan.passes[i];
        const auto first = std::find_if(plan.passes.begin(), plan.passes.end(),
                                        [&](const Pass& other) { return other.anchor == pass.anchor; });
        if (pass.kind != PassKind::dense || &*first == &pass || first->kind != PassKind::dense) continue;
        if (plan.graph[pass.anchor].type.dtype != DType::f32) continue;
        ValueId v = pass.anchor;
        Term by{};
        for (ValueId next; (next = next_of(plan, pass, v)) >= 0 && shifted_by(plan.graph, next, by) == v;) v = next;
        if (run_of(plan.graph, v).terms.size() > 1 && !computes(*first, v)) values.push_back(v);
    }
    return values;
}

Graph gather_shifts(const Graph& graph, const std::vector<ValueId>& values) {
    if (values.empty()) return graph;
    Gathering gathering{graph};
    for (ValueId v = 0; v < graph.size(); ++v) {
        if (has(values, v))
            gathering.shift_once(run_of(graph, v));
        else
            gathering.copy(v);
    }
    std::vector<ValueId> outputs;
    for (ValueId v : graph.outputs()) outputs.push_back(gathering.at(v));
    return gathering.builder.finish(std::move(outputs), graph.output_names());
}

}  // namespace transfuse
