// Reshapes of reshapes, permutations of permutations, taps of taps.
#include <algorithm>
#include <numeric>

#include "algebra/simplify/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

ValueId reshape_of_reshape(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (r.shape(x) == r.shape(id)) {
        r.say("reshape to its own shape");
        return x;
    }
    if (!r.is(x, Op::reshape) && !r.is(x, Op::full)) return -1;
    r.say("reshape of ", name(r.op(x)));
    return reshape(r, x, r.shape(id));
}

ValueId permute_of_permute(Rewriter& r, ValueId id) {
    Sizes order = r[id].attributes.integers(Key::order);
    const ValueId x = r.arg(id);
    if (std::is_sorted(order.begin(), order.end())) {
        r.say("permute to its own order");
        return x;
    }
    if (r.is(x, Op::full)) {
        r.say("permute of full");
        return full(r, r.dtype(x), r.shape(id), *number(r, x));
    }
    if (r.is(x, Op::permute)) {
        const Sizes& first = r[x].attributes.integers(Key::order);
        for (int64_t& axis : order) axis = first[static_cast<size_t>(axis)];
        r.say("permute of permute");
        return permute(r, r.arg(x), std::move(order));
    }
    if (!moves_no_element(r.shape(x), order)) return -1;
    r.say("permute of axes of extent 1 is a reshape");
    return reshape(r, x, r.shape(id));
}

ValueId expand_of_expand(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (r.shape(x) == r.shape(id)) {
        r.say("expand to its own shape");
        return x;
    }
    if (!r.is(x, Op::expand) && !r.is(x, Op::full)) return -1;
    r.say("expand of ", name(r.op(x)));
    return expand(r, r.is(x, Op::expand) ? r.arg(x) : x, r.shape(id));
}

ValueId flip_of_flip(Rewriter& r, ValueId id) {
    Sizes dims;
    for (int64_t axis : r[id].attributes.integers(Key::dims))
        if (r.shape(id)[static_cast<size_t>(axis)] > 1) dims.push_back(axis);
    ValueId x = r.arg(id);
    if (r.is(x, Op::full)) dims.clear();
    if (r.is(x, Op::flip)) {
        Sizes both;
        const Sizes& first = r[x].attributes.integers(Key::dims);
        std::set_symmetric_difference(dims.begin(), dims.end(), first.begin(), first.end(), std::back_inserter(both));
        dims = std::move(both);
        x = r.arg(x);
    }
    if (dims == r[id].attributes.integers(Key::dims)) return -1;
    r.say("flip of flip, or of axes of extent 1");
    return dims.empty() ? x : r.add(Op::flip, {x}, {{Key::dims, std::move(dims)}});
}

// matrix₂·(matrix₁·w)
ValueId taps_of_taps(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const int64_t axis = node.attributes.integer(Key::axis), rows = node.attributes.integer(Key::rows);
    const ValueId x = node.args[0];
    const std::vector<double>& second = node.attributes.numbers(Key::matrix);
    if (r.is(x, Op::full)) {
        const ValueId simpler = taps(r, x, axis, rows, second);
        r.say("taps of a uniform weight");
        return r.is(simpler, Op::taps) ? -1 : simpler;
    }
    if (r.is(x, Op::taps) && r[x].attributes.integer(Key::axis) == axis) {
        const std::vector<double>& first = r[x].attributes.numbers(Key::matrix);
        const int64_t inner = r[x].attributes.integer(Key::rows);
        const int64_t extent = r.shape(r.arg(x))[static_cast<size_t>(axis)];
        std::vector<double> product(static_cast<size_t>(rows * extent), 0.0);
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t j = 0; j < inner; ++j)
                for (int64_t k = 0; k < extent; ++k)
                    product[static_cast<size_t>(row * extent + k)] +=
                        second[static_cast<size_t>(row * inner + j)] * first[static_cast<size_t>(j * extent + k)];
        r.say("taps of taps on axis ", axis);
        return taps(r, r.arg(x), axis, rows, std::move(product));
    }
    if (!is_identity(second, rows, r.shape(x)[static_cast<size_t>(axis)])) return -1;
    r.say("taps by the identity");
    return x;
}

ValueId whole_slice(Rewriter& r, ValueId id) {
    if (r.shape(id) != r.shape(r.arg(id))) return -1;
    r.say("slice of everything");
    return r.arg(id);
}

ValueId no_pad(Rewriter& r, ValueId id) {
    if (r.shape(id) != r.shape(r.arg(id))) return -1;
    for (Key key : {Key::start, Key::end})
        for (int64_t amount : r[id].attributes.integers(key))
            if (amount != 0) return -1;
    r.say("pad by nothing");
    return r.arg(id);
}

ValueId single_concat(Rewriter& r, ValueId id) {
    if (r[id].args.size() != 1) return -1;
    r.say("concat of one");
    return r.arg(id);
}

// A broadcasting op needs no expanded operand, if the other already has the full shape.
ValueId broadcast_unexpanded(Rewriter& r, ValueId id) {
    if (!r.is(r.arg(id, 0), Op::expand) && !r.is(r.arg(id, 1), Op::expand)) return -1;
    const Node node = r[id];
    for (size_t i = 0; i < 2; ++i) {
        const ValueId e = node.args[i], other = node.args[1 - i];
        if (!r.is(e, Op::expand) || r.shape(other) != node.type.shape) continue;
        ValueId x = r.arg(e);
        if (r.rank(x) == 0 && r.rank(e) > 0) x = reshape(r, x, {1});  // rank 0 would promote differently
        Operands args = node.args;
        args[i] = x;
        r.say(name(node.op), " broadcasts by itself");
        return r.add(node.op, std::move(args), node.attributes);
    }
    return -1;
}

}  // namespace

std::span<const Rule> shape_rules() {
    static const std::vector<Rule> rules = {
        {"reshape_of_reshape", Family::simplify, {Op::reshape}, reshape_of_reshape},
        {"permute_of_permute", Family::simplify, {Op::permute}, permute_of_permute, true},
        {"expand_of_expand", Family::simplify, {Op::expand}, expand_of_expand},
        {"flip_of_flip", Family::simplify, {Op::flip}, flip_of_flip},
        {"taps_of_taps", Family::simplify, {Op::taps}, taps_of_taps},
        {"whole_slice", Family::simplify, {Op::slice}, whole_slice},
        {"no_pad", Family::simplify, {Op::pad}, no_pad},
        {"single_concat", Family::simplify, {Op::concat}, single_concat},
        {"broadcast_unexpanded",
         Family::simplify,
         {Op::add, Op::sub, Op::mul, Op::div, Op::minimum, Op::maximum, Op::greater, Op::greater_equal, Op::equal},
         broadcast_unexpanded},
    };
    return rules;
}

}  // namespace transfuse
