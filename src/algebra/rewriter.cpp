#include "algebra/rewriter.h"

#include <algorithm>

#include "algebra/cost.h"
#include "transfuse/error.h"

namespace transfuse {

double objective(Op op, const Cost& cost) { return cost.flops + (is_pointwise(op) ? 0.0625 : 8) * cost.bytes; }

double objective(const Graph& graph) {
    double sum = 0;
    for (ValueId id = 0; id < graph.size(); ++id) sum += objective(graph[id].op, cost(graph, id));
    return sum;
}

int64_t convolutions(const Graph& graph) {
    std::vector<bool> number(graph.nodes().size());
    int64_t count = 0;
    for (ValueId id = 0; id < graph.size(); ++id) {
        const Node& node = graph[id];
        number[static_cast<size_t>(id)] =
            !is_leaf(node.op) && std::all_of(node.args.begin(), node.args.end(),
                                             [&](ValueId arg) { return number[static_cast<size_t>(arg)]; });
        const bool convolves = node.op == Op::lattice || node.op == Op::conv || node.op == Op::conv_transpose;
        count += convolves && !number[static_cast<size_t>(node.args[1])];
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

}  // namespace

Rewriter::Rewriter(const Graph& graph, const RewriteOptions& options)
    : graph_(graph),
      inference_(options.inference),
      differentiated_(options.differentiated),
      forks_(options.forks),
      prices_(options.prices),
      builder_(graph.name()) {
    const size_t count = graph.nodes().size();
    now_.assign(count, -1);
    old_uses_.assign(count, 0);
    moment_.assign(count, false);
    for (const Node& node : graph.nodes())
        for (ValueId arg : node.args) ++old_uses_[at(arg)];
    for (ValueId output : graph.outputs()) ++old_uses_[at(output)];
    // E[d] that stands beside an E[d²] over the same axes, or beside the variance of single rows.
    for (const Node& node : graph.nodes()) {
        ValueId d = -1;
        if (node.op == Op::mean && graph[node.args[0]].op == Op::square) d = graph[node.args[0]].args[0];
        if (node.op == Op::var && !covers_space(node, graph[node.args[0]].type.rank())) d = node.args[0];
        for (size_t id = 0; d >= 0 && id < count; ++id) {
            const Node& other = graph.nodes()[id];
            moment_[id] = moment_[id] || (other.op == Op::mean && other.args[0] == d &&
                                          other.attributes.integers(Key::dims) == node.attributes.integers(Key::dims));
        }
    }
    std::vector<bool> otherwise(count);  // used in another way
    for (ValueId output : graph.outputs()) otherwise[at(output)] = true;
    loaded_.assign(count, false);
    for (size_t id = count; id-- > 0;) {
        const Node& node = graph.nodes()[id];
        loaded_[id] = old_uses_[id] > 0 && !otherwise[id];
        const bool product = node.op == Op::conv || node.op == Op::conv_transpose || node.op == Op::lattice;
        for (size_t i = 0; i < node.args.size(); ++i)
            if (!(product && i == 0) && !(is_pointwise(node.op) && loaded_[id])) otherwise[at(node.args[i])] = true;
    }
    uses_.reserve(2 * count);
    price_.reserve(2 * count);
}

void Rewriter::append(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    remark_ += text;
}

void Rewriter::charge(const Price& price, double sign) {
    live_.cost.flops += sign * price.cost.flops;
    live_.cost.bytes += sign * price.cost.bytes;
    live_.objective += sign * price.objective;
    live_.nodes += sign > 0 ? 1 : -1;
    if (price.convolution) live_.convolutions += sign > 0 ? 1 : -1;
}

// A value the builder made just now.
void Rewriter::learn(ValueId id) { learn(id, node_cost(builder_, builder_[id])); }

void Rewriter::learn(ValueId id, const Cost& cost) {
    const Node& node = this->node(id);
    bool parameter = node.op != Op::input, number = !is_leaf(node.op);
    for (ValueId arg : node.args) {
        parameter = parameter && parameter_[at(arg)];
        number = number && number_[at(arg)];
    }
    uses_.push_back(0);
    alive_.push_back(false);
    parameter_.push_back(parameter);
    number_.push_back(number);
    price_.push_back({cost, objective(node.op, cost), node.op == Op::lattice && !number_[at(node.args[1])]});
}

void Rewriter::revive(ValueId id) {
    if (alive_[at(id)]) return;
    alive_[at(id)] = true;
    charge(price_[at(id)], 1);
    born_.push_back(id);
    for (ValueId arg : node(id).args) {
        ++uses_[at(arg)];
        revive(arg);
    }
}

void Rewriter::bury(ValueId id) {
    if (!alive_[at(id)] || uses_[at(id)] > 0) return;
    alive_[at(id)] = false;
    charge(price_[at(id)], -1);
    for (ValueId arg : node(id).args) {
        --uses_[at(arg)];
        bury(arg);
    }
}

void Rewriter::copy() {
    if (copied_) return;
    copied_ = true;
    for (ValueId id = 0; id < static_cast<ValueId>(uses_.size()); ++id)
        if (builder_.again(graph_[id], graph_[id].args) != id) fail("rewrite: two values of the graph are the same");
}

ValueId Rewriter::add(Op op, std::vector<ValueId> args, Attributes attributes, std::string name) {
    copy();
    const ValueId id = builder_.add(op, std::move(args), std::move(attributes), std::move(name));
    while (static_cast<ValueId>(uses_.size()) < builder_.size()) learn(static_cast<ValueId>(uses_.size()));
    revive(id);
    return id;
}

// Types and costs depend on the operands' types, and on which of them are numbers.
bool Rewriter::stands_for(ValueId id, ValueId old) const {
    const Node &now = node(id), &before = graph_[old];
    return (now.op == before.op || (!is_constant(now.op) && !is_constant(before.op))) && now.type == before.type;
}

ValueId Rewriter::rebuild(ValueId old, const Cost& cost) {
    const Node& node = graph_[old];
    candidate_is_moment_ = moment_[at(old)];
    candidate_is_loaded_ = loaded_[at(old)];
    ValueId id = old;
    if (!copied_ || is_leaf(node.op)) {
        if (copied_) id = builder_.again(node, {});
        learn(id, cost);
        revive(id);
        if (is_leaf(node.op)) hold(id);  // leaves stay, used or not
    } else {
        std::vector<ValueId> args;
        args.reserve(node.args.size());
        bool alike = true;
        for (ValueId arg : node.args) {
            args.push_back(now_[at(arg)]);
            alike = alike && stands_for(args.back(), arg);
        }
        if (alike) {
            id = builder_.again(node, std::move(args));
            if (id == static_cast<ValueId>(uses_.size())) learn(id, cost);
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
    ++uses_[at(id)];
    revive(id);
}

void Rewriter::release(ValueId id) {
    --uses_[at(id)];
    bury(id);
}

void Rewriter::settle(ValueId old, ValueId id) {
    if (id != old) copy();
    now_[at(old)] = id;
    uses_[at(id)] += old_uses_[at(old)];
    release(id);
}

Graph Rewriter::finish(const std::vector<std::string>& output_names) {
    copy();
    std::vector<ValueId> outputs;
    for (ValueId output : graph_.outputs()) outputs.push_back(now_[at(output)]);
    return builder_.finish(std::move(outputs), output_names);
}

}  // namespace transfuse
