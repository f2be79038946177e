// One node, from the values of its operands: plain loops in float64, straight from the definition of each op. Nothing
// of the algebra is used here, so the two can be held against each other.
#pragma once

#include <span>

#include "reference/tensor.h"

namespace transfuse::reference {

struct Operation {
    const Node& node;
    std::span<const Tensor* const> args;

    Op op() const { return node.op; }
    const Tensor& arg(size_t i) const { return *args[i]; }
    const Sizes& shape(size_t i) const { return args[i]->type.shape; }
    const Sizes& list(Key key) const { return node.attributes.integers(key); }
    int64_t integer(Key key) const { return node.attributes.integer(key); }
    double number(Key key) const { return node.attributes.number(key); }
};

Tensor interpret(const Operation& operation);

Tensor interpret_conv(const Operation& operation);     // conv_transpose, conv, upsample
Tensor interpret_lattice(const Operation& operation);  // lattice, correlate
Tensor interpret_covariance(const Operation& operation);
Tensor interpret_pool(const Operation& operation);         // pools and their gradients
Tensor interpret_interpolate(const Operation& operation);  // interpolate, interpolate_grad
Tensor interpret_pointwise(const Operation& operation);
Tensor interpret_reduction(const Operation& operation);  // sum … var
Tensor interpret_softmax(const Operation& operation);    // softmax, log_softmax
Tensor interpret_norm(const Operation& operation);       // batch, group, layer, instance norm, weight_norm
Tensor interpret_shape(const Operation& operation);      // reshape … flip
Tensor interpret_box(const Operation& operation);        // taps, box_sums, box_spread

}  // namespace transfuse::reference
