// The adjoint of what a norm makes of a value, taken whole.
#include <algorithm>

#include "algebra/gradient/gradient.h"

namespace transfuse {

namespace {

// y = (x − E[x])·s with s = rsqrt(Var[x] + eps) or that times a weight which is constant over the axes of E.
struct Normalised {
    ValueId x = -1, centred = -1, scale = -1, deviation = -1, weight = -1;  // deviation: rsqrt(Var[x] + eps)
    Sizes dims;
};

bool reduces(const Node& node, Op op, ValueId x, const Sizes& dims) {
    return node.op == op && node.args[0] == x && node.attributes.flag(Key::keepdim) &&
           node.attributes.integers(Key::dims) == dims;
}

bool is_deviation(const Adjoints& a, ValueId id, const Normalised& of) {
    if (a[id].op != Op::rsqrt) return false;
    const Node& shifted = a[a[id].args[0]];
    if (shifted.op != Op::add || a[shifted.args[1]].op != Op::scalar) return false;
    const Node& variance = a[shifted.args[0]];
    return reduces(variance, Op::var, of.x, of.dims) && variance.attributes.integer(Key::correction) == 0;
}

bool find_scale(const Adjoints& a, ValueId scale, Normalised& found) {
    found.scale = scale;
    if (is_deviation(a, scale, found)) {
        found.deviation = scale;
        return true;
    }
    const Node& node = a[scale];
    if (node.op != Op::mul) return false;
    for (const size_t i : {size_t{0}, size_t{1}})
        if (is_deviation(a, node.args[i], found) && a[node.args[i]].type == node.type) {
            found.deviation = node.args[i], found.weight = node.args[1 - i];
            return true;
        }
    return false;
}

bool find(const Adjoints& a, const Node& node, Normalised& found) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
        const Node& centred = a[node.args[i]];
        if (centred.op != Op::sub || centred.type != node.type) continue;
        const Node& mean = a[centred.args[1]];
        if (mean.op != Op::mean || mean.attributes.integers(Key::dims).empty()) continue;
        found.x = centred.args[0], found.centred = node.args[i], found.dims = mean.attributes.integers(Key::dims);
        if (a[found.x].type == node.type && reduces(mean, Op::mean, found.x, found.dims) &&
            find_scale(a, node.args[1 - i], found))
            return true;
    }
    return false;
}

}  // namespace

// dx = s·(g − E[g] − (x − E[x])·rsqrt²·E[g·(x − E[x])]): the terms are rounded before they are scaled, so that their
// sum, which is zero, stays so.
bool differentiate_norm(Adjoints& a, ValueId y, ValueId g) {
    const Node node = a[y];
    Normalised norm;
    if (!find(a, node, norm)) return false;
    const auto sum = [&](ValueId of) { return a.builder().reduce(Op::sum, of, norm.dims, true); };
    const ValueId projected = sum(a.mul(g, norm.centred));
    if (norm.weight >= 0 && a.needs(norm.weight)) a.accumulate(norm.weight, a.mul(projected, norm.deviation));
    if (!a.needs(norm.x)) return true;
    double count = 1;
    for (const int64_t axis : norm.dims) count *= static_cast<double>(node.type.shape[static_cast<size_t>(axis)]);
    const ValueId slope = a.scaled(a.mul(projected, a.add(Op::square, {norm.deviation})), 1 / count);
    const ValueId rest = a.minus(a.minus(g, a.scaled(sum(g), 1 / count)), a.mul(norm.centred, slope));
    a.accumulate(norm.x, a.mul(rest, norm.scale));
    return true;
}

}  // namespace transfuse
