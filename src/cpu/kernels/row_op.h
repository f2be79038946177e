// The row kernel of a pointwise node.
#pragma once

#include "cpu/kernels/kernels.h"
#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse::cpu {

struct RowFunction {
    RowOp op = RowOp::copy;
    double parameter[2] = {0, 0};
};

inline RowFunction row_function(const Node& node) {
    const Attributes& a = node.attributes;
    const auto plain = [](RowOp op) { return RowFunction{op, {0, 0}}; };
    switch (node.op) {
        case Op::identity:
        case Op::detach:
            return plain(RowOp::copy);
        case Op::cast:
            return plain(node.type.dtype == DType::f16    ? RowOp::round_f16
                         : node.type.dtype == DType::bf16 ? RowOp::round_bf16
                                                          : RowOp::copy);
        case Op::neg:
            return plain(RowOp::neg);
        case Op::abs:
            return plain(RowOp::abs);
        case Op::sign:
            return plain(RowOp::sign);
        case Op::exp:
            return plain(RowOp::exp);
        case Op::log:
            return plain(RowOp::log);
        case Op::sqrt:
            return plain(RowOp::sqrt);
        case Op::rsqrt:
            return plain(RowOp::rsqrt);
        case Op::reciprocal:
            return plain(RowOp::reciprocal);
        case Op::square:
            return plain(RowOp::square);
        case Op::sin:
            return plain(RowOp::sin);
        case Op::cos:
            return plain(RowOp::cos);
        case Op::erf:
            return plain(RowOp::erf);
        case Op::tanh:
            return plain(RowOp::tanh);
        case Op::sigmoid:
            return plain(RowOp::sigmoid);
        case Op::relu:
            return plain(RowOp::relu);
        case Op::leaky_relu:
            return {RowOp::leaky_relu, {a.number(Key::negative_slope), 0}};
        case Op::elu:
            return {RowOp::elu, {a.number(Key::alpha), 0}};
        case Op::selu:
            return plain(RowOp::selu);
        case Op::gelu:
            return plain(a.flag(Key::approximate) ? RowOp::gelu_tanh : RowOp::gelu);
        case Op::silu:
            return plain(RowOp::silu);
        case Op::mish:
            return plain(RowOp::mish);
        case Op::softplus:
            return {RowOp::softplus, {a.number(Key::beta), a.number(Key::threshold)}};
        case Op::hardsigmoid:
            return plain(RowOp::hardsigmoid);
        case Op::hardswish:
            return plain(RowOp::hardswish);
        case Op::hardtanh:
        case Op::clamp:
            return {RowOp::clamp, {a.number(Key::lo), a.number(Key::hi)}};
        case Op::add:
            return plain(RowOp::add);
        case Op::sub:
            return plain(RowOp::sub);
        case Op::mul:
            return plain(RowOp::mul);
        case Op::div:
            return plain(RowOp::div);
        case Op::pow:
            return plain(RowOp::pow);
        case Op::minimum:
            return plain(RowOp::minimum);
        case Op::maximum:
            return plain(RowOp::maximum);
        case Op::prelu:
            return plain(RowOp::prelu);
        case Op::greater:
            return plain(RowOp::greater);
        case Op::greater_equal:
            return plain(RowOp::greater_equal);
        case Op::equal:
            return plain(RowOp::equal);
        case Op::select:
            return plain(RowOp::select);
        default:
            fail("the CPU engine has no row kernel for ", name(node.op));
    }
}

}  // namespace transfuse::cpu
