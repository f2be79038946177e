// Flops and bytes as written: every multiply-add is two, every pointwise op one an element, every op reads its operands
// and writes its result once. Ops that only look at memory differently cost nothing.
#include "algebra/rewriter/cost.h"

#include <algorithm>
#include <cmath>

#include "algebra/lattice/lags.h"

namespace transfuse {

namespace {

double elements(const Type& type) {
    double count = 1;
    for (int64_t extent : type.shape) count *= static_cast<double>(extent);
    return count;
}

double size_in_bytes(const Node& node) {
    return node.op == Op::scalar || node.op == Op::full
               ? 0
               : elements(node.type) * static_cast<double>(bytes(node.type.dtype));
}

double product(const Sizes& sizes) {
    double result = 1;
    for (int64_t size : sizes) result *= static_cast<double>(size);
    return result;
}

// 2 · N · Cin · Cout/G · Π (pairs of output and tap that meet an input)
double convolution_flops(const Node& node, OperandNodes args) {
    const Type &x = args[0]->type, &w = args[1]->type;
    const int64_t tap_axis = node.op == Op::lattice ? 3 : node.op == Op::correlate ? 0 : 2;
    double flops = 2;
    int64_t d = 0;
    for (const Lattice& axis : lattices(node, x, tap_axis, w)) {
        // Counting goes tap by tap; of very long kernels an upper bound will do.
        flops *= axis.taps <= (1 << 20)
                     ? static_cast<double>(axis.products())
                     : static_cast<double>(axis.taps) * static_cast<double>(std::min(axis.in, axis.out));
        ++d;
    }
    const int64_t groups = node.attributes.integer(Key::groups);
    const bool batched = x.rank() == d + 2;
    const double batch = batched ? static_cast<double>(x.shape[0]) : 1;
    const double in = static_cast<double>(x.shape[batched ? 1 : 0]);
    const double out = static_cast<double>(node.op == Op::correlate ? w.shape[1] : node.type.shape[batched ? 1 : 0]);
    flops *= batch * in * out / static_cast<double>(groups);
    if (node.op != Op::correlate && args.size() == 3) flops += elements(node.type);
    return flops;
}

// Each product of two inputs some lag apart once, two flops.
double covariance_flops(const Node& node, const Type& x) {
    const Lattices axes = lattices(node, x, 0, Type{});
    const int64_t groups = node.attributes.integer(Key::groups);
    return 2 * elements(x) / static_cast<double>(x.shape[1]) * static_cast<double>(groups) *
           lag_products(axes, x.shape[1] / groups);
}

double window(const Node& node) {
    return node.attributes.has(Key::kernel) ? product(node.attributes.integers(Key::kernel)) : 1;
}

double flops(const Node& node, OperandNodes args) {
    const double out = elements(node.type);
    const double in = args.empty() ? 0 : elements(args[0]->type);
    switch (node.op) {
        case Op::conv:
        case Op::conv_transpose:
        case Op::lattice:
        case Op::correlate:
            return convolution_flops(node, args);
        case Op::covariance:
            return covariance_flops(node, args[0]->type);
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
            return out * window(node);
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
            return in;
        case Op::max_pool_grad:
            return elements(args[1]->type) * window(node) + out;
        case Op::avg_pool_grad:
            return in * window(node) + out;
        case Op::interpolate:
            return out * std::exp2(static_cast<double>(node.type.rank() - 1));
        case Op::interpolate_grad:
            return in * std::exp2(static_cast<double>(node.type.rank() - 1));
        case Op::cast:
            return 0;
        case Op::sum:
        case Op::mean:
        case Op::amax:
        case Op::amin:
            return in;
        case Op::logsumexp:
            return 3 * in;
        case Op::var:
            return 4 * in;
        case Op::softmax:
        case Op::log_softmax:
            return 5 * in;
        case Op::batch_norm:
            return (node.attributes.flag(Key::training) ? 8 : 4) * in;
        case Op::group_norm:
        case Op::layer_norm:
        case Op::instance_norm:
            return 8 * in;
        case Op::weight_norm:
            return 4 * in;
        case Op::taps: {
            const auto& matrix = node.attributes.numbers(Key::matrix);
            const auto used = std::count_if(matrix.begin(), matrix.end(), [](double entry) { return entry != 0; });
            const int64_t extent = args[0]->type.shape[static_cast<size_t>(node.attributes.integer(Key::axis))];
            return extent == 0 ? 0 : 2 * static_cast<double>(used) * in / static_cast<double>(extent);
        }
        case Op::box_sums:
            return in + out;
        case Op::box_spread:
            return out + in;
        default:
            return is_pointwise(node.op) && node.op != Op::identity && node.op != Op::detach ? out : 0;
    }
}

// Views are free: reading through them is charged to the reader.
bool moves_no_memory(Op op) {
    switch (op) {
        case Op::reshape:
        case Op::permute:
        case Op::expand:
        case Op::slice:
        case Op::flip:
        case Op::identity:
        case Op::detach:
            return true;
        default:
            return is_leaf(op) || is_constant(op);
    }
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
}

Cost node_cost(const Node& node, OperandNodes args) {
    Cost result;
    if (moves_no_memory(node.op)) return result;
    result.flops = flops(node, args);
    result.bytes = size_in_bytes(node);
    for (const Node* arg : args) result.bytes += size_in_bytes(*arg);
    return result;
}

Cost cost(const Graph& graph, ValueId id) { return node_cost(graph, graph[id]); }

Cost cost(const Graph& graph) {
    Cost total;
    for (const Node& node : graph.nodes()) total += node_cost(graph, node);
    return total;
}

}  // namespace transfuse
