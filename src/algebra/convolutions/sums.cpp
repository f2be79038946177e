// Sums of convolutions.
//
//     A(x) + B(x) = (A + B)(x)                   one input: weights are added, on common taps
//     f·A(x) + g·A(x') = A(f·x + g·x')           one weight, f and g numbers: inputs are added
//
// with the scales and shifts of each by parameters; a pool, or x itself, is a convolution too.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>

#include "algebra/convolutions/rules.h"
#include "algebra/lattice/aligned.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

namespace transfuse {

namespace {

struct Term {
    ValueId v;
    bool negative;
    Channelwise chain;
    bool flipped = false;  // over the batch, which commutes with all of it, before the chain: y is what was flipped
    double apart = -1;     // what it takes as it stands, where y is not as it stands
};

constexpr size_t most_terms = 16;
constexpr int most_inner = 3;  // convolutions in a row that are one as a term

Term term_of(const Rewriter& r, ValueId v, bool negative) {
    Term term{v, negative, channelwise(r, v)};
    const ValueId y = term.chain.y;
    if (term.chain.alone && r.is(y, Op::flip) && r.is(r.arg(y), Op::lattice) && r.uses(r.arg(y)) == 1 &&
        r[y].attributes.integers(Key::dims) == Sizes{0}) {
        term.flipped = true;
        term.chain.y = r.arg(y);
    }
    return term;
}

void collect(const Rewriter& r, ValueId v, bool negative, bool root, std::vector<Term>& terms) {
    const Node& node = r[v];
    const bool parts = (node.op == Op::add || node.op == Op::sub) && (root || r.uses(v) == 1) &&
                       r[node.args[0]].type == node.type && r[node.args[1]].type == node.type &&
                       !r.is_parameter(node.args[0]) && !r.is_parameter(node.args[1]);
    if (!parts) {
        terms.push_back(term_of(r, v, negative));
        return;
    }
    collect(r, node.args[0], negative, false, terms);
    collect(r, node.args[1], negative != (node.op == Op::sub), false, terms);
}

// A term as a convolution of x. Its weight is of parameters; a weight of −1 stands for the identity.
struct Branch {
    ValueId x = -1, w = -1;
    Lattices axes;
    int64_t groups = 1;
};

// Terms that are exact as long as they are no part of a product: PyTorch multiplies f32 in TF32, where it may, and adds
// in f32. An average of at least four has as small an error all the same; 16 bits are rounded either way.
bool may_be_multiplied(const Rewriter& r, const Term& term, const Branch& branch) {
    if (r.dtype(term.v) != DType::f32) return true;
    if (branch.w < 0) return false;
    if (!separable(r, term.chain.y)) return true;
    double products = 1;
    for (const Lattice& axis : branch.axes)
        products *= static_cast<double>(axis.products()) / static_cast<double>(std::max<int64_t>(axis.out, 1));
    return products > 3.5;
}

std::optional<Branch> branch(const Rewriter& r, const Term& term) {
    const ValueId y = term.chain.y;
    if (r.is(y, Op::lattice)) {
        const ValueId x = r.arg(y), w = r.arg(y, 1);
        if (!term.chain.alone || !r.is_parameter(w) || r.is_parameter(x) || r.dtype(y) != r.dtype(x))
            return std::nullopt;
        return Branch{x, w, axes_of(r, y), r.shape(w)[0]};
    }
    if (r.rank(y) < 3 || r.is_parameter(y)) return std::nullopt;
    Branch identity{y, -1, {}, r.shape(y)[1]};
    for (int64_t axis = 2; axis < r.rank(y); ++axis) {
        const int64_t extent = r.shape(y)[static_cast<size_t>(axis)];
        identity.axes.push_back({.in = extent, .out = extent});
    }
    return identity;
}

double flops_of(const Rewriter& r, const Branch& branch, const Sizes& out) {
    const Sizes& in = r.shape(branch.x);
    return product_flops(branch.axes, in[0], in[1], out[1], branch.groups);
}

ValueId weight_of(Rewriter& r, const Term& term, const Branch& branch, const ScaleAndShift& chain) {
    ValueId w = branch.w;
    if (w < 0) {
        Sizes shape(branch.axes.size() + 3, 1);
        shape[0] = branch.groups;
        w = full(r, wide(r.dtype(term.v)), std::move(shape), 1);
    }
    w = unrounded(r, w);
    if (chain.scale >= 0) w = times(r, w, against_weight(r, chain.scale, w, true));
    return w;
}

// u ± v, u of −1 nothing.
ValueId joined(Rewriter& r, ValueId u, ValueId v, bool negative) {
    if (v < 0) return u;
    if (u < 0) return negative ? negate(r, v) : v;
    return negative ? minus(r, u, v) : plus(r, u, v);
}

ValueId of_one_input(Rewriter& r, const Term& one, const Term& two) {
    const std::optional<Branch> a = branch(r, one), b = branch(r, two);
    if (!a || !b || one.flipped || two.flipped || a->x != b->x || one.chain.y == two.chain.y || (a->w < 0 && b->w < 0))
        return -1;
    if (!may_be_multiplied(r, one, *a) || !may_be_multiplied(r, two, *b)) return -1;
    if (has_long_taps(a->axes) || has_long_taps(b->axes)) return -1;
    const Lattices both[] = {a->axes, b->axes};
    const std::optional<Aligned> common = aligned(both);
    const int64_t groups = std::gcd(a->groups, b->groups);
    if (!common || has_long_taps(common->axes)) return -1;
    const Sizes out = r.shape(one.v), in = r.shape(a->x);
    Branch sum{a->x, -1, common->axes, groups};
    double weights = static_cast<double>(in[1] * out[1] / groups);
    for (const Lattice& axis : common->axes) weights *= static_cast<double>(axis.taps);
    const double element = static_cast<double>(bytes(r.dtype(one.v)));
    const double apart = (one.apart < 0 ? flops_of(r, *a, out) : one.apart) +
                         (two.apart < 0 ? flops_of(r, *b, out) : two.apart) + 8 * element * product(in);
    if (!pays(r, flops_of(r, sum, out), weights, apart)) return -1;

    const DType dtype = r.dtype(one.v);
    ValueId w = -1, bias = -1, image = -1;
    for (const auto& [term, own, tap] :
         {std::tuple(&one, &*a, &common->tap[0]), std::tuple(&two, &*b, &common->tap[1])}) {
        const ScaleAndShift chain = scale_and_shift(r, term->chain);
        const ValueId made = weight_of(r, *term, *own, chain);
        w = joined(r, w, on_taps(r, in_groups(r, made, groups), *tap, common->axes), term->negative);
        bias = joined(r, bias, chain.shift, term->negative);
        image = joined(r, image, chain.image, term->negative);
    }
    r.say("a sum of two convolutions of ", r[a->x].type, " is one");
    const ValueId one_ = lattice(r, a->x, cast(r, w, dtype), bias, common->axes);
    return image < 0 ? one_ : plus(r, one_, cast(r, image, dtype));
}

// A weight without the numbers it is multiplied by.
struct Scaled {
    ValueId w;
    std::vector<std::pair<Op, ValueId>> by;  // innermost first
};
Scaled without_numbers(const Rewriter& r, ValueId w) {
    Scaled result{w, {}};
    while ((r.is(result.w, Op::mul) || r.is(result.w, Op::div)) && r.rank(r.arg(result.w, 1)) == 0) {
        result.by.emplace(result.by.begin(), r.op(result.w), r.arg(result.w, 1));
        result.w = r.arg(result.w);
    }
    return result;
}

// Whether the scales of a chain are numbers: then they commute with the product.
bool by_numbers(const Rewriter& r, const Channelwise& chain) {
    return std::all_of(chain.links.begin(), chain.links.end(), [&](const auto& link) {
        return (link.op != Op::mul && link.op != Op::div) || numel(r.shape(link.operand)) == 1;
    });
}

ValueId of_one_weight(Rewriter& r, const Term& one, const Term& two) {
    const ValueId y = one.chain.y, z = two.chain.y;
    if (!r.is(y, Op::lattice) || !r.is(z, Op::lattice) || y == z || r.is_parameter(y) || r.is_parameter(z)) return -1;
    const Scaled w = without_numbers(r, r.arg(y, 1));
    if (one.chain.image >= 0 || two.chain.image >= 0) return -1;
    if (w.w != without_numbers(r, r.arg(z, 1)).w || r[r.arg(y)].type != r[r.arg(z)].type ||
        r[y].attributes != r[z].attributes || !one.chain.alone || !two.chain.alone || !by_numbers(r, one.chain) ||
        !by_numbers(r, two.chain))
        return -1;
    const Lattices axes = axes_of(r, y);
    const Type type = r[r.arg(y)].type;
    ValueId x = -1, bias = -1;
    for (const Term* term : {&one, &two}) {
        const ScaleAndShift chain = scale_and_shift(r, term->chain);
        ValueId input = r.arg(term->chain.y);
        for (const auto& [op, by] : without_numbers(r, r.arg(term->chain.y, 1)).by) input = binary(r, op, input, by);
        if (chain.scale >= 0)
            input = times(r, input, r.rank(chain.scale) > 0 ? reshape(r, chain.scale, {}) : chain.scale);
        if (term->flipped) input = r.add(Op::flip, {input}, {{Key::dims, Sizes{0}}});
        if (r[input].type != type) return -1;
        x = joined(r, x, input, term->negative);
        bias = joined(r, bias, chain.shift, term->negative);
    }
    r.say("a sum of two convolutions by one weight of ", type, " is one of the sum");
    return lattice(r, x, w.w, bias, axes);
}

// A term whose convolution became one with the one before it, whether or not that pays by itself: a branch by way of
// few channels is part of the sum all the same.
std::optional<Term> with_inner(Rewriter& r, const Term& term) {
    const ValueId y = term.chain.y;
    if (!r.is(y, Op::lattice) || !term.chain.alone || term.flipped || term.chain.image >= 0) return std::nullopt;
    const Channelwise inner = channelwise(r, r.arg(y));
    if (!r.is(inner.y, Op::lattice)) return std::nullopt;
    const auto flops = [&](ValueId v) {
        const Sizes& in = r.shape(r.arg(v));
        return product_flops(axes_of(r, v), in[0], in[1], r.shape(v)[1], r.shape(r.arg(v, 1))[0]);
    };
    const double element = static_cast<double>(bytes(r.dtype(y)));
    const double weights = 2 * product(r.shape(r.arg(y, 1))) * product(r.shape(r.arg(inner.y, 1))) /
                           static_cast<double>(r.shape(inner.y)[1]);
    Term result = term;
    result.apart = (term.apart < 0 ? flops(y) : term.apart) +
                   (inner.alone ? flops(inner.y) + 16 * element * product(r.shape(inner.y)) : 0);
    result.apart -= 64 * weights;
    const ValueId made = lattice_with_inner(r, y);
    if (made < 0) return std::nullopt;
    const Channelwise both = channelwise(r, made);
    if (!r.is(both.y, Op::lattice) || !both.links.empty()) return std::nullopt;
    result.chain.y = both.y, result.chain.image = both.image;
    return result;
}

// A term that is some of a convolution's channels, as a convolution of its own.
std::optional<Term> of_channels(Rewriter& r, const Term& term) {
    const ValueId slice = term.chain.y;
    if (!r.is(slice, Op::slice) || r[slice].attributes.integer(Key::axis) != 1 || !r.is(r.arg(slice), Op::lattice) ||
        !term.chain.alone || term.flipped)
        return std::nullopt;
    Term result = term;
    result.chain.y = slice_of_lattice(r, slice);
    return result.chain.y < 0 ? std::nullopt : std::optional(result);
}

// Terms as they are first, then as convolutions that they are not written as.
ValueId of_one_input_by_way(Rewriter& r, const Term& one, const Term& two) {
    const auto forms = [&](const Term& term) {
        std::vector<Term> all = {term};
        if (std::optional<Term> some = of_channels(r, term)) all.push_back(std::move(*some));
        std::optional<Term> inner = with_inner(r, term);
        for (int depth = 0; inner && depth < most_inner; ++depth, inner = with_inner(r, *inner)) all.push_back(*inner);
        return all;
    };
    const std::vector<Term> first = forms(one), second = forms(two);
    for (const Term& a : first)
        for (const Term& b : second)
            if (const ValueId made = of_one_input(r, a, b); made >= 0) return made;
    return -1;
}

// Two terms of a sum that are one. The others stay as they are.
template <ValueId (*merge)(Rewriter&, const Term&, const Term&)>
ValueId merge_terms(Rewriter& r, ValueId id) {
    if (r.is_parameter(id) || r.rank(id) < 3) return -1;
    std::vector<Term> terms;
    collect(r, id, false, true, terms);
    if (terms.size() < 2 || terms.size() > most_terms) return -1;
    for (size_t i = 0; i < terms.size(); ++i)
        for (size_t j = i + 1; j < terms.size(); ++j) {
            const ValueId one = merge(r, terms[i], terms[j]);
            if (one < 0 || r[one].type != r[id].type) continue;
            ValueId sum = one;
            for (size_t k = 0; k < terms.size(); ++k)
                if (k != i && k != j) sum = joined(r, sum, terms[k].v, terms[k].negative);
            return sum;
        }
    return -1;
}

}  // namespace

std::span<const Rule> sum_rules() {
    static const std::vector<Rule> rules = {
        {"sum_of_one_weight", Family::compose, {Op::add, Op::sub}, merge_terms<of_one_weight>},
        {"sum_of_one_input", Family::compose, {Op::add, Op::sub}, merge_terms<of_one_input>},
        {"sum_by_way", Family::compose, {Op::add, Op::sub}, merge_terms<of_one_input_by_way>},
    };
    return rules;
}

}  // namespace transfuse
