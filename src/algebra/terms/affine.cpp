#include "algebra/terms/affine.h"

#include <algorithm>

#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

bool commutes(const Rewriter& r, ValueId v, const Sizes& dims, size_t& side) {
    const Node& node = r[v];
    if (node.op == Op::neg) return side = 0, true;
    if (node.op != Op::mul && node.op != Op::div && node.op != Op::add && node.op != Op::sub) return false;
    const int64_t rank = node.type.rank();
    for (side = 0; side < 2; ++side) {
        if (node.op == Op::div && side == 1) return false;
        const ValueId u = node.args[side], other = node.args[1 - side];
        if (r.dtype(u) != node.type.dtype || r.rank(u) != rank || !constant_along(r, other, rank, dims)) continue;
        const bool covers = std::all_of(dims.begin(), dims.end(), [&](int64_t axis) {
            return r.shape(u)[static_cast<size_t>(axis)] == node.type.shape[static_cast<size_t>(axis)];
        });
        if (covers) return true;
    }
    return false;
}

}  // namespace

AffineChain affine_chain(const Rewriter& r, ValueId v, const Sizes& dims) {
    AffineChain chain;
    chain.value = v;
    for (size_t side = 0; commutes(r, chain.value, dims, side);) {
        chain.steps.push_back({chain.value, side});
        chain.value = r.arg(chain.value, side);
    }
    return chain;
}

ValueId reapply(Rewriter& r, const AffineChain& chain, ValueId value, double shift_factor) {
    for (size_t i = chain.steps.size(); i-- > 0;) {
        const auto [step, side] = chain.steps[i];
        const Op op = r.op(step);
        if (op == Op::neg) {
            value = negate(r, value);
            continue;
        }
        ValueId other = r.arg(step, 1 - side);
        if (op == Op::add || op == Op::sub) other = scaled(r, other, shift_factor);
        value = side == 0 ? binary(r, op, value, other) : binary(r, op, other, value);
    }
    return value;
}

}  // namespace transfuse
