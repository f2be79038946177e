// Flips of an image around convolutions flip their taps. With o = O − 1 − o', i = I − 1 − i' and k = K − 1 − k',
//
//     down·o + offset = up·i + dil·k
//     down·o' + up·(I − 1) + dil·(K − 1) − down·(O − 1) − offset = up·i' + dil·k'
#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

Lattice flipped(const Lattice& l) {
    Lattice result = l;
    result.offset = l.up * (l.in - 1) + l.dil * (l.taps - 1) - l.down * (l.out - 1) - l.offset;
    return result;
}

// Values between two flips over the same axes, made without them.
class Unflipped {
public:
    Unflipped(Rewriter& r, Sizes dims) : r_(r), dims_(std::move(dims)) {}

    // What v is before it is flipped; −1 where that is not known. A convolution is made once more only where nobody
    // else needs it.
    ValueId of(ValueId v, int depth = 0) {
        const Node node = r_[v];
        if (node.op == Op::flip && node.attributes.integers(Key::dims) == dims_) return node.args[0];
        if (depth > most_steps || r_.uses(v) != 1) return -1;
        if (node.op == Op::lattice) return lattice_of(v, node, depth);
        if (!is_pointwise(node.op) || node.op == Op::detach) return -1;
        Operands args;
        bool any = false;
        for (const ValueId arg : node.args) {
            const bool whole = r_[arg].type.shape == node.type.shape;
            args.push_back(whole ? of(arg, depth + 1) : arg);
            if (args.back() < 0 || (!whole && !constant_along(r_, arg, node.type.rank(), dims_))) return -1;
            any = any || whole;
        }
        return any ? r_.add(node.op, std::move(args), node.attributes) : -1;
    }

private:
    static constexpr int most_steps = 64;

    ValueId lattice_of(ValueId v, const Node& node, int depth) {
        if (r_.is_parameter(v)) return -1;
        const ValueId x = of(node.args[0], depth + 1);
        if (x < 0) return -1;
        Lattices axes = axes_of(r_, v);
        Sizes taps;
        for (const int64_t axis : dims_) {
            if (axis < 2) continue;
            Lattice& along = axes[static_cast<size_t>(axis) - 2];
            along = flipped(along);
            if (along.taps > 1) taps.push_back(axis + 1);
        }
        const ValueId w =
            taps.empty() ? node.args[1] : r_.add(Op::flip, {node.args[1]}, {{Key::dims, std::move(taps)}});
        return lattice(r_, x, w, bias_of(r_, v), axes);
    }

    Rewriter& r_;
    const Sizes dims_;
};

// flip(f(flip(x))) = f'(x): convolutions with their taps flipped, ops element by element.
ValueId flip_undone(Rewriter& r, ValueId id) {
    const Sizes dims = r[id].attributes.integers(Key::dims);
    if (r.rank(id) < 3 || r.is_parameter(id) || std::find(dims.begin(), dims.end(), 1) != dims.end()) return -1;
    const ValueId result = Unflipped(r, dims).of(r.arg(id));
    if (result < 0 || r[result].type != r[id].type) return -1;
    r.say("what lies between two flips is done without them");
    return result;
}

// The sum of a flipped tensor over the flipped axes.
ValueId flip_reduced(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!r.is(x, Op::flip)) return -1;
    const Sizes &over = r[id].attributes.integers(Key::dims), &dims = r[x].attributes.integers(Key::dims);
    if (!std::includes(over.begin(), over.end(), dims.begin(), dims.end())) return -1;
    const Node node = r[id];
    r.say(name(node.op), " does not see the order of what it takes");
    return r.add(node.op, {r.arg(x)}, node.attributes);
}

}  // namespace

std::span<const Rule> flip_rules() {
    static const std::vector<Rule> rules = {
        {"flip_undone", Family::simplify, {Op::flip}, flip_undone, true},
        {"flip_reduced",
         Family::simplify,
         {Op::sum, Op::mean, Op::amax, Op::amin, Op::logsumexp, Op::var},
         flip_reduced,
         true},
    };
    return rules;
}

}  // namespace transfuse
