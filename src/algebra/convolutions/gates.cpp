// Gates: halves of a convolution's channels that meet again, a·sigmoid(b) or tanh(a)·sigmoid(b). Each half becomes a
// convolution of its own: the last one takes the others while it is in registers, and its own channels are never
// stored.
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/terms/terms.h"
#include "graph/infer.h"

namespace transfuse {

namespace {

struct Parts {
    ValueId whole = -1;           // the convolution
    std::vector<ValueId> slices;  // of its channels
};

// The slices of one convolution's channels that v is computed from element by element; false where it is computed from
// anything else of its size, or from a step that others use as well.
bool collect(const Rewriter& r, ValueId v, Parts& parts, int depth) {
    if (r.is(v, Op::slice) && r.is(r.arg(v), Op::lattice) && r[v].attributes.integer(Key::axis) == 1) {
        if (parts.whole >= 0 && parts.whole != r.arg(v)) return false;
        parts.whole = r.arg(v);
        if (std::find(parts.slices.begin(), parts.slices.end(), v) == parts.slices.end()) parts.slices.push_back(v);
        return true;
    }
    if (!is_pointwise(r.op(v)) || depth == 0) return false;
    for (ValueId arg : r[v].args)
        if (r.shape(arg) == r.shape(v) && (r.uses(arg) != 1 || !collect(r, arg, parts, depth - 1))) return false;
    return true;
}

// v with each slice replaced.
ValueId replaced(Rewriter& r, ValueId v, const Parts& parts, const std::vector<ValueId>& by) {
    const auto found = std::find(parts.slices.begin(), parts.slices.end(), v);
    if (found != parts.slices.end()) return by[static_cast<size_t>(found - parts.slices.begin())];
    const Node node = r[v];
    Operands args = node.args;
    for (ValueId& arg : args)
        if (r.shape(arg) == node.type.shape) arg = replaced(r, arg, parts, by);
    return r.add(node.op, std::move(args), node.attributes);
}

// f(y[:, :c], y[:, c:]) with y = lattice(x, w): f(lattice(x, w[:c]), lattice(x, w[c:])). Reads x once more, stores and
// reads again one part of y less: so x must be the smaller. Where only a convolution reads f, it makes f of both parts
// while it loads, and nothing is gained. No rule joins them again.
ValueId parts_of_lattice(Rewriter& r, ValueId id) {
    Parts parts;
    if (!r.forks() || r.is_loaded() || !collect(r, id, parts, 6) || parts.slices.size() < 2) return -1;
    const ValueId y = parts.whole;
    if (r.uses(y) != static_cast<int>(parts.slices.size()) || r.shape(r.arg(y, 1))[0] != 1) return -1;
    if (product(r.shape(r.arg(y, 0))) >= product(r.shape(y))) return -1;
    const Lattices axes = axes_of(r, y);
    std::vector<ValueId> made;
    for (ValueId s : parts.slices) {
        const Node slice = r[s];
        auto part_of = [&](ValueId value, int64_t axis) {
            Attributes attributes = slice.attributes;
            attributes.set(Key::axis, axis);
            return r.add(Op::slice, {value}, std::move(attributes));
        };
        const ValueId bias = bias_of(r, y);
        made.push_back(lattice(r, r.arg(y, 0), part_of(r.arg(y, 1), 2), bias < 0 ? -1 : part_of(bias, 0), axes));
    }
    r.say("the parts of ", r[y].type, " that meet in ", name(r.op(id)), " are convolutions of their own");
    return replaced(r, id, parts, made);
}

}  // namespace

std::span<const Rule> gate_rules() {
    static const std::vector<Rule> rules = {
        {"parts_of_lattice", Family::compose, elementwise_ops(), parts_of_lattice, true},
    };
    return rules;
}

}  // namespace transfuse
