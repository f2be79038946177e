#include "algebra/rewriter/rewriter.h"

#include <algorithm>

#include "algebra/rewriter/cost.h"
#include "transfuse/error.h"

namespace transfuse {

static double objective(bool pointwise, const Cost& cost) { return cost.flops + (pointwise ? 0.0625 : 8) * cost.bytes; }
double objective(Op op, const Cost& cost) { return objective(is_pointwise(op), cost); }

double objective(const Graph& graph) {
    double sum = 0;
    for (ValueId id = 0; id < graph.size(); ++id) sum += objective(graph[id].op, cost(graph, id));
    return sum;
}

int64_t convolutions(const Graph& graph) {
    const std::vector<bool> parameter = parameter_values(graph);
    std::vector<bool> number(graph.nodes().size());
    int64_t count = 0;
    for (ValueId id = 0; id < graph.size(); ++id) {
        const Node& node = graph[id];
        number[static_cast<size_t>(id)] =
            !is_leaf(node.op) && std::all_of(node.args.begin(), node.args.end(),
                                             [&](ValueId arg) { return number[static_cast<size_t>(arg)]; });
        const bool convolves = node.op == Op::lattice || node.op == Op::conv || node.op == Op::conv_transpose;
        count += convolves && !parameter[static_cast<size_t>(id)] && !number[static_cast<size_t>(node.args[1])];
    }
    return count;
}

namespace {

// True if a reduction takes all spatial axes.
bool covers_space(const Node& node, int64_t rank) {
    const Sizes& dims = node.attributes.integers(Key::dims);
    for (int64_t axis = 2; axis < rank; ++axis)
        if (std::find(dims.begin(), dims.end(), axis) == dims.end()) return false;
    return true;
}

// Scales, shifts and sums: linear in what they are made of, but for parameters.
bool adds_or_scales(const Node& node, size_t fed) {
    switch (node.op) {
        case Op::add:
        case Op::sub:
        case Op::neg:
        case Op::cast:
            return true;
        case Op::mul:
        case Op::div:
            return fed == 1;
        case Op::batch_norm:
            return fed == 1 && !node.attributes.flag(Key::training);
        default:
            return false;
    }
}

void mark_for_each(const Graph& graph, std::vector<Survey::Value>& values) {
    const auto at = [](ValueId id) { return static_cast<size_t>(id); };
    std::vector<bool> linear(values.size(), true);  // linear maps alone read it
    std::vector<bool> passes(values.size()), product(values.size());
    for (ValueId output : graph.outputs()) linear[at(output)] = false;
    for (size_t id = values.size(); id-- > 0;) {
        const Node& node = graph.nodes()[id];
        linear[id] = linear[id] && values[id].uses > 0 && !values[id].parameter;
        size_t fed = 0;
        for (ValueId arg : node.args) fed += !values[at(arg)].parameter;
        passes[id] = adds_or_scales(node, fed);
        product[id] = node.op == Op::conv || node.op == Op::conv_transpose || node.op == Op::lattice;
        const bool reads = product[id] || node.op == Op::sum || node.op == Op::mean || node.op == Op::box_sums;
        for (size_t i = 0; i < node.args.size(); ++i)
            if (!(reads && i == 0) && !(passes[id] && linear[id])) linear[at(node.args[i])] = false;
    }
    std::vector<bool> made(values.size());  // by a product
    for (size_t id = 0; id < values.size(); ++id) {
        const Operands& args = graph.nodes()[id].args;
        const auto any = [&](auto holds) { return passes[id] && std::ranges::any_of(args, holds); };
        made[id] = product[id] || any([&](ValueId arg) { return bool(made[at(arg)]); });
        values[id].for_each = linear[id] && made[id] &&
                              (values[id].uses > 1 || any([&](ValueId arg) { return values[at(arg)].for_each; }));
    }
}

}  // namespace

Survey::Survey(const Graph& graph) : values(graph.nodes().size()) {
    const auto at = [](ValueId id) { return static_cast<size_t>(id); };
    const size_t count = values.size();
    for (size_t id = 0; id < count; ++id) {
        const Node& node = graph.nodes()[id];
        Value& value = values[id];
        value.leaf = is_leaf(node.op), value.pointwise = is_pointwise(node.op);
        value.parameter = node.op != Op::input, value.number = !value.leaf;
        for (ValueId arg : node.args) {
            ++values[at(arg)].uses;
            value.parameter = value.parameter && values[at(arg)].parameter;
            value.number = value.number && values[at(arg)].number;
        }
        value.convolution = node.op == Op::lattice && !value.parameter && !values[at(node.args[1])].number;
    }
    for (ValueId output : graph.outputs()) ++values[at(output)].uses;
    // E[d] that stands beside an E[d²] over the same axes, or beside the variance of single rows.
    for (const Node& node : graph.nodes()) {
        ValueId d = -1;
        if (node.op == Op::mean && graph[node.args[0]].op == Op::square) d = graph[node.args[0]].args[0];
        if (node.op == Op::var && !covers_space(node, graph[node.args[0]].type.rank())) d = node.args[0];
        for (size_t id = 0; d >= 0 && id < count; ++id) {
            const Node& other = graph.nodes()[id];
            if (other.op == Op::mean && other.args[0] == d &&
                other.attributes.integers(Key::dims) == node.attributes.integers(Key::dims))
                values[id].moment = true;
        }
    }
    std::vector<bool> otherwise(count);  // used in another way than convolutions do
    for (ValueId output : graph.outputs()) otherwise[at(output)] = true;
    for (size_t id = count; id-- > 0;) {
        const Node& node = graph.nodes()[id];
        const bool loaded = values[id].loaded = values[id].uses > 0 && !otherwise[id];
        const bool product = node.op == Op::conv || node.op == Op::conv_transpose || node.op == Op::lattice;
        for (size_t i = 0; i < node.args.size(); ++i)
            if (!(product && i == 0) && !(values[id].pointwise && loaded)) otherwise[at(node.args[i])] = true;
    }
    std::vector<bool> alone(count, true);  // used as what is composed alone
    for (ValueId output : graph.outputs()) alone[at(output)] = false;
    for (size_t id = count; id-- > 0;) {
        const Node& node = graph.nodes()[id];
        const bool composed = values[id].composed = values[id].uses > 0 && alone[id];
        const bool product = node.op == Op::conv || node.op == Op::conv_transpose || node.op == Op::lattice;
        const bool affine = node.op == Op::mul || node.op == Op::div || node.op == Op::add || node.op == Op::sub ||
                            node.op == Op::neg || node.op == Op::cast ||
                            (node.op == Op::batch_norm && !node.attributes.flag(Key::training));
        size_t fed = 0;  // operands that depend on inputs
        for (ValueId arg : node.args) fed += !values[at(arg)].parameter;
        for (size_t i = 0; i < node.args.size(); ++i)
            if (!(product && i == 0) && !(affine && composed && fed == 1)) alone[at(node.args[i])] = false;
    }
    mark_for_each(graph, values);
    for (ValueId c = 0; c < graph.size(); ++c) {
        if (graph[c].op != Op::covariance) continue;
        for (size_t id = 0; id < count; ++id) {
            const Node& mean = graph.nodes()[id];
            if (mean.op == Op::mean && graph[mean.args[0]].op == Op::box_sums &&
                graph[mean.args[0]].args[0] == graph[c].args[0])
                values[id].covariance = c;
        }
    }
}

Rewriter::Rewriter(const Graph& graph, const RewriteOptions& options)
    : graph_(graph),
      inference_(options.inference),
      differentiated_(options.differentiated),
      forks_(options.forks),
      heeds_cost_(options.heed_cost),
      for_each_(options.for_each),
      outer_first_(options.outer_first),
      prices_(options.prices),
      builder_(graph.name()),
      now_(graph.nodes().size(), -1),
      old_(graph) {
    known_.reserve(graph.nodes().size());
}

void Rewriter::append(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    remark_ += text;
}

void Rewriter::charge(const Known& value, double sign) {
    live_.cost.flops += sign * value.cost.flops;
    live_.cost.bytes += sign * value.cost.bytes;
    live_.objective += sign * value.objective;
    live_.nodes += sign > 0 ? 1 : -1;
    if (value.convolution) live_.convolutions += sign > 0 ? 1 : -1;
}

// A value the builder made just now.
void Rewriter::learn(ValueId id) { learn(id, node_cost(builder_, builder_[id])); }

void Rewriter::learn(ValueId id, const Cost& cost) {
    const Node& node = this->node(id);
    Known value{.cost = cost, .objective = objective(node.op, cost)};
    value.parameter = node.op != Op::input;
    value.number = !is_leaf(node.op);
    for (ValueId arg : node.args) {
        value.parameter = value.parameter && known_[at(arg)].parameter;
        value.number = value.number && known_[at(arg)].number;
    }
    value.convolution = node.op == Op::lattice && !value.parameter && !known_[at(node.args[1])].number;
    known_.push_back(value);
}

void Rewriter::revive(ValueId id) {
    Known& value = known_[at(id)];
    if (value.alive) return;
    value.alive = true;
    charge(value, 1);
    born_.push_back(id);
    for (ValueId arg : node(id).args) {
        ++known_[at(arg)].uses;
        revive(arg);
    }
}

void Rewriter::bury(ValueId id) {
    Known& value = known_[at(id)];
    if (!value.alive || value.uses > 0) return;
    value.alive = false;
    charge(value, -1);
    for (ValueId arg : node(id).args) {
        --known_[at(arg)].uses;
        bury(arg);
    }
}

void Rewriter::copy() {
    if (copied_) return;
    copied_ = true;
    builder_.expect(2 * graph_.nodes().size());
    known_.reserve(3 * graph_.nodes().size());
    for (ValueId id = 0; id < static_cast<ValueId>(known_.size()); ++id)
        if (builder_.again(graph_[id], graph_[id].args) != id) fail("rewrite: two values of the graph are the same");
}

ValueId Rewriter::add(Op op, Operands args, Attributes attributes, std::string name) {
    copy();
    const ValueId id = builder_.add(op, std::move(args), std::move(attributes), std::move(name));
    while (static_cast<ValueId>(known_.size()) < builder_.size()) learn(static_cast<ValueId>(known_.size()));
    revive(id);
    return id;
}

// Types and costs depend on the operands' types, and on which of them are numbers.
bool Rewriter::stands_for(ValueId id, ValueId old) const {
    const Node &now = node(id), &before = graph_[old];
    return (now.op == before.op || (!is_constant(now.op) && !is_constant(before.op))) && now.type == before.type;
}

void Rewriter::begin_with(const Survey::Value& seen, const Cost& cost, int uses) {
    known_.push_back({.cost = cost,
                      .objective = objective(seen.pointwise, cost),
                      .uses = uses,
                      .alive = true,
                      .parameter = seen.parameter,
                      .number = seen.number,
                      .convolution = seen.convolution});
    charge(known_.back(), 1);
}

ValueId Rewriter::rebuild(ValueId old, const Cost& cost) {
    const Node& node = graph_[old];
    const Survey::Value& seen = old_.values[at(old)];
    candidate_is_moment_ = seen.moment;
    candidate_is_loaded_ = seen.loaded;
    candidate_is_composed_ = seen.composed;
    candidate_is_one_of_readers_ = !node.args.empty() && old_.values[at(node.args[0])].for_each;
    candidate_covariance_ = seen.covariance < 0 ? nullptr : &graph_[seen.covariance].attributes;
    ValueId id = old;
    if (!copied_) {  // what follows, said shortly: its operands are alive, and for each the use that was kept is this
                     // one
        begin_with(seen, cost, seen.leaf ? 2 : 1);
        return id;
    }
    if (is_leaf(node.op)) {
        id = builder_.again(node, {});
        learn(id, cost);
        revive(id);
        hold(id);  // leaves stay, used or not
    } else {
        Operands args;
        args.reserve(node.args.size());
        bool alike = true;
        for (ValueId arg : node.args) {
            args.push_back(now_[at(arg)]);
            alike = alike && stands_for(args.back(), arg);
        }
        if (alike) {
            id = builder_.again(node, std::move(args));
            if (id == static_cast<ValueId>(known_.size())) learn(id, cost);
            revive(id);
        } else {
            id = add(node.op, std::move(args), node.attributes, node.name);
        }
    }
    hold(id);
    for (ValueId arg : node.args) release(now_[at(arg)]);  // the use that was kept for `old`
    return id;
}

void Rewriter::begin() {
    born_.clear();
    remark_.clear();
}

void Rewriter::drop_unused() {
    for (size_t i = born_.size(); i-- > 0;) bury(born_[i]);
}

void Rewriter::hold(ValueId id) {
    ++known_[at(id)].uses;
    revive(id);
}

void Rewriter::release(ValueId id) {
    --known_[at(id)].uses;
    bury(id);
}

void Rewriter::settle(ValueId old, ValueId id) {
    if (id != old) copy();
    now_[at(old)] = id;
    known_[at(id)].uses += old_.values[at(old)].uses;
    release(id);
}

Graph Rewriter::finish(const std::vector<std::string>& output_names, std::vector<Cost>& costs) {
    copy();
    std::vector<ValueId> outputs;
    for (ValueId output : graph_.outputs()) outputs.push_back(now_[at(output)]);
    Graph graph = builder_.finish(std::move(outputs), output_names);
    costs.clear();  // what the builder drops is what is dead
    costs.reserve(graph.nodes().size());
    for (const Known& value : known_)
        if (value.alive) costs.push_back(value.cost);
    if (costs.size() != graph.nodes().size()) fail("rewrite: what is alive is not what is needed");
    return graph;
}

}  // namespace transfuse
