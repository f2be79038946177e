// Reshapes sink towards the outputs, and a lattice loses the axes on which nothing happens, so that a convolution whose
// depth was reduced away is a 2-d one.
#include <algorithm>

#include "algebra/simplify/rules.h"
#include "algebra/terms/blocks.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

// The shape of an operand before the reshape x -> y: along each block of axes it is constant or whole. None where it is
// not.
std::optional<Sizes> shape_before(const Rewriter& r, ValueId operand, const Sizes& x, const Sizes& y,
                                  const std::vector<AxisBlock>& blocks) {
    Sizes shape(x.size(), 1);
    for (const AxisBlock& block : blocks) {
        int64_t own = 1, whole = 1;
        for (size_t axis = block.y0; axis < block.y1; ++axis) {
            own *= extent_on(r, operand, static_cast<int64_t>(y.size()), static_cast<int64_t>(axis));
            whole *= y[axis];
        }
        if (own != 1 && own != whole) return std::nullopt;
        if (own == whole)
            for (size_t axis = block.x0; axis < block.x1; ++axis) shape[axis] = x[axis];
    }
    return shape;
}

// f(reshape(v), other) = reshape(f(v, other')). Another operand of full size must be such a reshape itself, or the
// reshape would only change sides; so each firing leaves fewer of them before f.
ValueId sink_reshape(Rewriter& r, ValueId id) {
    bool any = false;
    for (ValueId arg : r[id].args) any = any || (r.is(arg, Op::reshape) && r.shape(arg) == r.shape(id));
    if (!any) return -1;
    const Node node = r[id];
    for (size_t side = 0; side < node.args.size(); ++side) {
        const ValueId x = node.args[side];
        if (!r.is(x, Op::reshape) || r.shape(x) != node.type.shape) continue;
        const ValueId v = r.arg(x);
        if (r.rank(v) == 0 || r.rank(x) == 0 || r.is_parameter(v)) continue;  // rank 0 promotes differently
        const Sizes inner = r.shape(v);
        const auto blocks = reshape_blocks(inner, r.shape(x));
        if (!blocks) continue;
        Operands args = node.args;
        args[side] = v;
        bool moves_on = true;
        for (size_t i = 0; i < args.size(); ++i) {
            if (i == side || r.rank(args[i]) == 0) continue;
            std::optional<Sizes> shape = shape_before(r, args[i], inner, node.type.shape, *blocks);
            moves_on = moves_on && shape;
            if (!moves_on) break;
            const bool whole = *shape == inner && !r.is_parameter(args[i]);
            args[i] = reshape(r, args[i], std::move(*shape));
            moves_on = !(whole && r.is(args[i], Op::reshape));
        }
        if (!moves_on) continue;
        const ValueId result = r.add(node.op, std::move(args), node.attributes);
        if (r.shape(result) != inner || r.dtype(result) != node.type.dtype) continue;
        r.say("a reshape sinks below ", name(node.op));
        return reshape(r, result, node.type.shape);
    }
    return -1;
}

// Pools without a batch axis: x is [1, C, …] taken apart.
ValueId pool_before_reshape(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::reshape)) return -1;
    const Node node = r[id];
    const ValueId v = r.arg(x);
    if (r.rank(v) != r.rank(x) + 1 ||
        r.rank(v) != static_cast<int64_t>(node.attributes.integers(Key::kernel).size()) + 2)
        return -1;
    Sizes batched = r.shape(x);
    batched.insert(batched.begin(), 1);
    if (r.shape(v) != batched) return -1;
    r.say(name(node.op), " of a batch of one");
    return reshape(r, r.add(node.op, {v}, node.attributes), node.type.shape);
}

Sizes without_axes(const Sizes& shape, const Sizes& axes, int64_t first) {
    Sizes kept;
    for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis)
        if (std::find(axes.begin(), axes.end(), axis - first) == axes.end()) kept.push_back(shape[at(axis)]);
    return kept;
}

ValueId drop_trivial_axes(Rewriter& r, ValueId id) {
    if (std::find(r.shape(id).begin() + 2, r.shape(id).end(), 1) == r.shape(id).end()) return -1;
    const Lattices axes = axes_of(r, id);
    Sizes trivial;
    Lattices kept;
    for (size_t a = 0; a < axes.size(); ++a) {
        if (axes[a].trivial())
            trivial.push_back(static_cast<int64_t>(a));
        else
            kept.push_back(axes[a]);
    }
    if (trivial.empty() || kept.empty()) return -1;
    const Node node = r[id];
    const ValueId x = reshape(r, node.args[0], without_axes(r.shape(node.args[0]), trivial, 2));
    const ValueId w = reshape(r, node.args[1], without_axes(r.shape(node.args[1]), trivial, 3));
    r.say("nothing happens on ", static_cast<int64_t>(trivial.size()), " of ", static_cast<int64_t>(axes.size()),
          " axes of ", node.type);
    return reshape(r, lattice(r, x, w, bias_of(r, id), kept), node.type.shape);
}

}  // namespace

std::span<const Rule> finish_rules() {
    static const std::vector<Rule> rules = {
        {"sink_reshape", Family::simplify, elementwise_ops(), sink_reshape, true},
        {"pool_before_reshape", Family::simplify, {Op::max_pool, Op::min_pool}, pool_before_reshape, true},
        {"drop_trivial_axes", Family::finish, {Op::lattice}, drop_trivial_axes, true},
    };
    return rules;
}

}  // namespace transfuse
