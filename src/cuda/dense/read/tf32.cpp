// Whether a dense product takes TF32.
#include <algorithm>
#include <optional>

#include "cuda/dense/read/tile_program.h"

namespace transfuse::cuda {

namespace {

// The axis of a lattice that an axis of weights became: reshapes drop and add axes of one tap, the others keep their
// order.
std::optional<size_t> lattice_axis(const Sizes& weights, size_t axis, const Lattices& axes) {
    const auto first = weights.begin() + 3;
    auto before =
        std::count_if(first, weights.begin() + static_cast<ptrdiff_t>(axis), [](int64_t taps) { return taps > 1; });
    for (size_t a = 0; a < axes.size(); ++a)
        if (axes[a].taps > 1 && before-- == 0) return a;
    return std::nullopt;
}

// True where an output sums what PyTorch multiplies one by one: a pool became part of the convolution, and a tap meets
// several inputs. What nearest upsampling repeats meets each tap once: its weights are added, their roundings with
// them.
bool sums_products(const Graph& graph, ValueId w, const Lattices& axes) {
    const Node& node = graph[w];
    if (node.op == Op::taps && node.attributes.integer(Key::rows) > 1) {
        const std::vector<double>& matrix = node.attributes.numbers(Key::matrix);
        const int64_t rows = node.attributes.integer(Key::rows);
        const size_t columns = matrix.size() / static_cast<size_t>(rows);
        const auto axis = lattice_axis(node.type.shape, static_cast<size_t>(node.attributes.integer(Key::axis)), axes);
        if (!axis || axes[*axis].taps != rows)
            return true;  // mixed once more on the way: nothing is known of who meets whom
        for (const Phase& phase : axes[*axis].phases())
            for (size_t tap = 0; tap < columns; ++tap)
                if (std::count_if(phase.taps.begin(), phase.taps.end(), [&](const PhaseTap& to) {
                        return matrix[static_cast<size_t>(to.tap) * columns + tap] != 0;
                    }) > 1)
                    return true;
    }
    return std::any_of(node.args.begin(), node.args.end(),
                       [&](ValueId arg) { return sums_products(graph, arg, axes); });
}

// True where a sum over channels became one of their weights. (The norm of weights is a sum as well, but of squares,
// and no weight.)
bool sums_weights(const Graph& graph, ValueId w) {
    const Node& node = graph[w];
    switch (node.op) {
        case Op::sum:
        case Op::mean:
            return true;
        case Op::reshape:
        case Op::permute:
        case Op::cast:
        case Op::slice:
        case Op::taps:
        case Op::mul:
        case Op::add:
            return std::any_of(node.args.begin(), node.args.end(),
                               [&](ValueId arg) { return sums_weights(graph, arg); });
        default:
            return false;
    }
}

// Whether two convolutions multiply the same; what they are shifted by may differ.
bool same_product(const Graph& graph, ValueId one, ValueId other) {
    const Node &a = graph[one], &b = graph[other];
    return one == other || (a.op == b.op && a.args[0] == b.args[0] && a.args[1] == b.args[1] && a.type == b.type &&
                            a.attributes == b.attributes);
}

// TF32 is taken where PyTorch would take it and it buys time. Not where cuDNN multiplies in fp32 though TF32 is
// allowed: with few channels in one or two dimensions and in small problems. Not where a sum or an average moved before
// the product, of inputs or of weights: PyTorch's roundings average out there, one rounding of the sum would not. Not
// where the three products of strict fp32 hide behind memory, in less than half its time (at sizes many times larger
// they do as well), or behind two launches. What is multiplied twice is rounded both times or not at all, as it pays in
// one of the passes: a mean taken from products that were rounded otherwise would leave of each channel what the
// roundings of its weights add up to, which no average takes away.
bool tf32_allowed(const Surroundings& around, const Problem& problem) {
    if (around.precision != Fp32Precision::tf32) return false;
    const Graph& graph = around.plan.graph;
    const Node& anchor = graph[around.pass.anchor];
    const Lattices axes = lattices(graph, around.pass.anchor);
    if (axes.size() < 3 && (problem.cout <= 8 || problem.cin <= 4)) return false;
    ValueId x = anchor.args[0];
    if (graph[x].type.dtype != DType::f32) return false;
    while (graph[x].op == Op::reshape || graph[x].op == Op::permute || graph[x].op == Op::cast) x = graph[x].args[0];
    const ValueId w = anchor.args[1];
    return graph[x].op != Op::box_sums && !sums_products(graph, w, axes) && !sums_weights(graph, w);
}

}  // namespace

bool tf32_pays(const Surroundings& around, const Problem& problem, bool at_larger_sizes) {
    if (!tf32_allowed(around, problem)) return false;
    const Graph& graph = around.plan.graph;
    const Machine& machine = around.plan.machine;
    const Type& w = graph[graph[around.pass.anchor].args[1]].type;
    // Larger sizes have the same weights, and a launch is nothing to them.
    const double weights = at_larger_sizes ? static_cast<double>(numel(w.shape) * bytes(w.dtype)) : 0;
    const double launches = at_larger_sizes ? 0 : 2 * machine.launch;
    const auto pays = [&](const Pass& pass) {
        const double products = 3 * pass.cost.flops / machine.flops;
        return products > std::max(0.5 * (pass.cost.bytes - weights) / machine.bandwidth, launches);
    };
    // Statistics of few channels are made in ordinary fp32 (plain/cells.h): they decide nothing.
    const auto decides = [&](const Pass& pass) {
        return pass.kind == PassKind::dense && same_product(graph, pass.anchor, around.pass.anchor) &&
               (problem.cin > 4 ||
                std::ranges::none_of(pass.steps, [](const TileStep& step) { return step.scope == Scope::grid; })) &&
               pays(pass);
    };
    return pays(around.pass) || std::ranges::any_of(around.plan.passes, decides);
}

}  // namespace transfuse::cuda
