// The gradient of a graph as a graph: the forward nodes it needs, then the adjoint of each in reverse order.
#include "algebra/gradient/gradient.h"

#include <algorithm>

#include "algebra/gradient/differentiable.h"
#include "algebra/rewriter/rewriter.h"
#include "transfuse/error.h"

namespace transfuse {

ValueId Adjoints::cast(ValueId x, DType dtype) {
    if (b_[x].type.dtype == dtype && b_[x].op != Op::scalar) return x;
    return add(Op::cast, {x}, {{Key::dtype, static_cast<int64_t>(dtype)}});
}

ValueId Adjoints::expand(ValueId x, const Sizes& shape) {
    return b_[x].type.shape == shape ? x : add(Op::expand, {x}, {{Key::shape, shape}});
}

ValueId Adjoints::reshape(ValueId x, const Sizes& shape) {
    return b_[x].type.shape == shape ? x : b_.reshape(x, shape);
}

ValueId Adjoints::sum_to(ValueId g, const Sizes& shape) {
    const Sizes from = b_[g].type.shape;
    if (from == shape) return g;
    Sizes dims;
    const size_t lead = from.size() - std::min(from.size(), shape.size());
    for (size_t axis = 0; axis < from.size(); ++axis)
        if (axis < lead || (shape[axis - lead] == 1 && from[axis] != 1)) dims.push_back(static_cast<int64_t>(axis));
    if (!dims.empty()) g = b_.reduce(Op::sum, g, dims, true);
    Sizes own = b_[g].type.shape;
    own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(lead));
    if (own == shape || numel(own) == numel(shape)) return reshape(g, shape);
    return expand(reshape(g, own), shape);  // g was smaller than the value
}

void Adjoints::accumulate(ValueId id, ValueId g) {
    if (!needs(id)) return;
    const Type type = b_[id].type;
    if (is_constant(b_[g].op) && b_[g].op == Op::scalar) g = b_.full(type, b_[g].attributes.number(Key::value));
    g = cast(sum_to(g, type.shape), type.dtype);
    ValueId& adjoint = adjoint_[static_cast<size_t>(id)];
    adjoint = adjoint < 0 ? g : plus(adjoint, g);
}

bool is_primitive(Op op) {
    switch (op) {
        case Op::conv:
        case Op::conv_transpose:
        case Op::upsample:
        case Op::batch_norm:
        case Op::group_norm:
        case Op::layer_norm:
        case Op::instance_norm:
        case Op::weight_norm:
        case Op::identity:
            return false;
        default:
            return true;
    }
}

namespace {

void differentiate(Adjoints& a, ValueId id, ValueId g) {
    const Op op = a[id].op;
    if (op == Op::mul && differentiate_norm(a, id, g)) return;
    if (is_unary(op)) return differentiate_unary(a, id, g);
    if (is_binary(op) || op == Op::select) return differentiate_binary(a, id, g);
    if (is_reduction(op)) return differentiate_reduction(a, id, g);
    if (op == Op::softmax || op == Op::log_softmax) return differentiate_softmax(a, id, g);
    switch (op) {
        case Op::covariance:
            fail("gradient: covariance has none; rewrite the graph with `differentiated`");
        case Op::lattice:
        case Op::correlate:
        case Op::taps:
        case Op::box_sums:
        case Op::box_spread:
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
        case Op::max_pool_grad:
        case Op::avg_pool_grad:
        case Op::interpolate:
        case Op::interpolate_grad:
            return differentiate_linear(a, id, g);
        default:
            return differentiate_shape(a, id, g);
    }
}

// Values a gradient must pass through to reach a wanted leaf. detach lets nothing pass, numbers and comparisons have
// none.
std::vector<bool> on_the_way(const Graph& graph, const std::vector<ValueId>& wanted) {
    std::vector<bool> needed(graph.nodes().size(), false);
    for (ValueId leaf : wanted) needed[static_cast<size_t>(leaf)] = true;
    for (ValueId id = 0; id < graph.size(); ++id) {
        const Node& node = graph[id];
        if (node.op == Op::detach || node.op == Op::sign || node.op == Op::greater || node.op == Op::greater_equal ||
            node.op == Op::equal)
            continue;
        for (ValueId arg : node.args)
            if (needed[static_cast<size_t>(arg)]) needed[static_cast<size_t>(id)] = true;
    }
    return needed;
}

}  // namespace

Graph gradient(const Graph& given, const GradientRequest& request) {
    Graph lowered;
    if (!std::all_of(given.nodes().begin(), given.nodes().end(),
                     [](const Node& node) { return is_primitive(node.op); })) {
        RewriteOptions expansions;
        expansions.inference = false;
        expansions.differentiated = true;
        expansions.only = {"expand_conv"};
        lowered = rewrite(given, expansions).rewritten;
    } else {
        lowered = given;
    }
    const Graph& forward = lowered;
    std::vector<ValueId> wanted;
    for (ValueId position : request.wrt) {
        require(position >= 0 && position < static_cast<ValueId>(forward.leaves().size()), "gradient: wrt names leaf ",
                position, " of ", forward.leaves().size());
        wanted.push_back(forward.leaves()[static_cast<size_t>(position)]);
    }
    require(!wanted.empty(), "gradient: wrt names no leaf");

    // The same leaves, then one input for each incoming gradient, then the forward values.
    Builder b(forward.name() + "_gradient");
    std::vector<ValueId> now(forward.nodes().size(), -1);
    const std::vector<bool> needed = on_the_way(forward, wanted);
    for (ValueId leaf : forward.leaves()) {
        const Node& node = forward[leaf];
        now[static_cast<size_t>(leaf)] =
            node.op == Op::input ? b.input(node.name, node.type) : b.param(node.name, node.type);
    }
    std::vector<std::pair<ValueId, ValueId>> seeds;  // forward value, its incoming gradient
    for (ValueId position : request.outputs) {
        require(position >= 0 && position < static_cast<ValueId>(forward.outputs().size()),
                "gradient: outputs names output ", position, " of ", forward.outputs().size());
        const ValueId output = forward.outputs()[static_cast<size_t>(position)];
        seeds.emplace_back(
            output, b.input("grad_" + forward.output_names()[static_cast<size_t>(position)], forward[output].type));
    }
    for (ValueId id = 0; id < forward.size(); ++id) {
        const Node& node = forward[id];
        if (is_leaf(node.op)) continue;
        Operands args;
        for (ValueId arg : node.args) args.push_back(now[static_cast<size_t>(arg)]);
        now[static_cast<size_t>(id)] = b.add(node.op, std::move(args), node.attributes, node.name);
    }
    std::vector<bool> needed_now(static_cast<size_t>(b.size()), false);
    for (ValueId id = 0; id < forward.size(); ++id)
        if (needed[static_cast<size_t>(id)]) needed_now[static_cast<size_t>(now[static_cast<size_t>(id)])] = true;

    Adjoints adjoints(b, needed_now);
    for (const auto& [output, seed] : seeds) adjoints.accumulate(now[static_cast<size_t>(output)], seed);
    for (ValueId id = forward.size() - 1; id >= 0; --id) {
        const ValueId value = now[static_cast<size_t>(id)];
        if (is_leaf(forward[id].op) || !adjoints.needs(value) || adjoints.of(value) < 0) continue;
        differentiate(adjoints, value, adjoints.of(value));
    }

    std::vector<ValueId> outputs;
    std::vector<std::string> names;
    for (ValueId leaf : wanted) {
        const ValueId value = now[static_cast<size_t>(leaf)];
        outputs.push_back(adjoints.of(value) >= 0 ? adjoints.of(value) : b.full(forward[leaf].type, 0));
        names.push_back("grad_" + forward[leaf].name);
    }
    return b.finish(std::move(outputs), std::move(names));
}

Differentiable differentiable(const Graph& written, const GradientRequest& request, const Prices& prices) {
    RewriteOptions options;
    options.inference = false;
    options.differentiated = true;
    options.prices = prices;
    Differentiable first{.forward = rewrite(written, options).rewritten};
    if (convolutions(first.forward) <= convolutions(written)) return first;
    options.forks = false;
    Differentiable second{.forward = rewrite(written, options).rewritten};
    if (convolutions(second.forward) > convolutions(written)) {
        options.only = {"expand_conv"};
        second.forward = rewrite(written, options).rewritten;
    }
    second.options.forks = false;
    // With the dense form gone altogether the first is many times cheaper; with both of them in it, never by half.
    const auto work = [&](const Differentiable& form) {
        return objective(rewrite(gradient(form.forward, request), form.options).rewritten);
    };
    return 2 * work(first) < work(second) ? first : second;
}

Derivation derive_gradient(const Graph& written, const GradientRequest& request) {
    const Differentiable form = differentiable(written, request);
    return rewrite(gradient(form.forward, request), form.options);
}

}  // namespace transfuse
