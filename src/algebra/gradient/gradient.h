// Reverse-mode differentiation of primitives, as terms appended to a builder.
#pragma once

#include <vector>

#include "transfuse/algebra.h"

namespace transfuse {

// False for ops that are said with others before anything is differentiated (the family `expand`).
bool is_primitive(Op op);

// The gradient of one node: given g = ∂L/∂(its result), adds ∂L/∂(operand) for each operand that needs one.
class Adjoints {
public:
    Adjoints(Builder& builder, std::vector<bool> needed)
        : b_(builder), needed_(std::move(needed)), adjoint_(needed_.size(), -1) {}

    Builder& builder() { return b_; }
    const Node& operator[](ValueId id) const { return b_[id]; }
    bool needs(ValueId id) const {
        return static_cast<size_t>(id) < needed_.size() && needed_[static_cast<size_t>(id)];
    }
    ValueId of(ValueId id) const { return adjoint_[static_cast<size_t>(id)]; }
    // Adds g, which broadcasts or is broadcast to the value's shape, in whatever dtype.
    void accumulate(ValueId id, ValueId g);

    // Terms.
    ValueId add(Op op, Operands args, Attributes attributes = {}) {
        return b_.add(op, std::move(args), std::move(attributes));
    }
    ValueId mul(ValueId a, ValueId c) { return add(Op::mul, {a, c}); }
    ValueId scaled(ValueId a, double c) { return c == 1 ? a : add(Op::mul, {a, b_.scalar(c)}); }
    ValueId plus(ValueId a, ValueId c) { return add(Op::add, {a, c}); }
    ValueId shifted(ValueId a, double c) { return add(Op::add, {a, b_.scalar(c)}); }
    ValueId minus(ValueId a, ValueId c) { return add(Op::sub, {a, c}); }
    ValueId one_minus(ValueId a) { return add(Op::sub, {b_.scalar(1), a}); }
    ValueId where(ValueId condition, ValueId a, ValueId c) { return add(Op::select, {condition, a, c}); }
    ValueId or_zero(ValueId condition, ValueId a) { return where(condition, a, b_.scalar(0)); }  // a where it holds
    ValueId zero_or(ValueId condition, ValueId a) { return where(condition, b_.scalar(0), a); }  // a where it does not
    ValueId greater(ValueId a, double c) { return add(Op::greater, {a, b_.scalar(c)}); }
    ValueId at_least(ValueId a, double c) { return add(Op::greater_equal, {a, b_.scalar(c)}); }
    ValueId at_most(ValueId a, double c) { return add(Op::greater_equal, {b_.scalar(c), a}); }
    ValueId cast(ValueId x, DType dtype);
    ValueId expand(ValueId x, const Sizes& shape);
    ValueId reshape(ValueId x, const Sizes& shape);
    ValueId sum_to(ValueId g, const Sizes& shape);  // the transpose of broadcasting

private:
    Builder& b_;
    std::vector<bool> needed_;
    std::vector<ValueId> adjoint_;
};

// One function a family; `id` is the node in the builder, g its gradient in its own type.
void differentiate_unary(Adjoints& a, ValueId id, ValueId g);
void differentiate_binary(Adjoints& a, ValueId id, ValueId g);  // and select
bool differentiate_norm(Adjoints& a, ValueId id, ValueId g);    // false: a product, but not of a norm
void differentiate_reduction(Adjoints& a, ValueId id, ValueId g);
void differentiate_softmax(Adjoints& a, ValueId id, ValueId g);  // and log_softmax
void differentiate_shape(Adjoints& a, ValueId id, ValueId g);    // reshape … cast
void differentiate_linear(Adjoints& a, ValueId id, ValueId g);   // lattice, correlate, taps, boxes, pools

}  // namespace transfuse
