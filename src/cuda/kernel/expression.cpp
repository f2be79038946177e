#include "cuda/kernel/expression.h"

#include <cmath>
#include <cstdio>

#include "transfuse/error.h"

namespace transfuse::cuda {

Real real_of(DType dtype) { return dtype == DType::f64 ? Real::f64 : Real::f32; }

std::string_view real_name(Real real) { return real == Real::f64 ? "double" : "float"; }

std::string_view storage_name(DType dtype) {
    switch (dtype) {
        case DType::f64:
            return "double";
        case DType::f32:
            return "float";
        case DType::f16:
            return "tf_half";
        case DType::bf16:
            return "tf_bfloat";
    }
    fail("no CUDA type for dtype ", static_cast<int>(dtype));
}

std::string literal(double value, Real real) {
    const bool f64 = real == Real::f64;
    if (std::isnan(value)) return f64 ? "__longlong_as_double(0x7ff8000000000000LL)" : "__int_as_float(0x7fc00000)";
    if (!f64) value = static_cast<double>(static_cast<float>(value));
    if (std::isinf(value)) {
        const bool negative = value < 0;
        if (f64)
            return negative ? "__longlong_as_double(0xfff0000000000000LL)"
                            : "__longlong_as_double(0x7ff0000000000000LL)";
        return negative ? "__int_as_float(0xff800000)" : "__int_as_float(0x7f800000)";
    }
    if (value == std::trunc(value) && std::abs(value) < 1e6 && !std::signbit(value))  // most: printf takes long
        return std::to_string(static_cast<int64_t>(value)) + (f64 ? ".0" : ".0f");
    char text[40];
    std::snprintf(text, sizeof text, f64 ? "%.17g" : "%.9g", value);
    std::string result = text;
    if (result.find_first_of(".en") == std::string::npos) result += ".0";
    if (!f64) result += "f";
    return value < 0 || std::signbit(value) ? "(" + result + ")" : result;
}

namespace {

// pow with a literal exponent PyTorch also treats apart.
std::string power(const std::string& x, const std::string& y, Real real) {
    auto is = [&](double e) { return y == literal(e, real); };
    if (is(1)) return x;
    if (is(2)) return x + " * " + x;
    if (is(3)) return x + " * " + x + " * " + x;
    if (is(0.5)) return "tf_sqrt(" + x + ")";
    if (is(-0.5)) return "tf_rsqrt(" + x + ")";
    if (is(-1)) return literal(1, real) + " / " + x;
    if (is(-2)) return literal(1, real) + " / (" + x + " * " + x + ")";
    return "tf_pow(" + x + ", " + y + ")";
}

}  // namespace

std::string expression(const Node& node, std::span<const std::string> operands, Real real) {
    const std::string& a = operands[0];
    const std::string b = operands.size() > 1 ? operands[1] : std::string();
    auto call = [&](std::string_view function) { return std::string(function) + "(" + a + ")"; };
    auto call2 = [&](std::string_view function) { return std::string(function) + "(" + a + ", " + b + ")"; };
    auto number = [&](Key key) { return literal(node.attributes.number(key), real); };
    const std::string zero = literal(0, real), one = literal(1, real);
    switch (node.op) {
        case Op::identity:
        case Op::detach:
            return a;
        case Op::cast: {
            const DType to = node.type.dtype;
            if (to == DType::f16 || to == DType::bf16)
                return "tf_round<" + std::string(storage_name(to)) + ">(" + a + ")";
            return std::string("(") + std::string(real_name(real)) + ")(" + a + ")";
        }
        case Op::neg:
            return "-" + a;
        case Op::abs:
            return call("tf_abs");
        case Op::sign:
            return call("tf_sign");
        case Op::exp:
            return call("tf_exp");
        case Op::log:
            return call("tf_log");
        case Op::sqrt:
            return call("tf_sqrt");
        case Op::rsqrt:
            return call("tf_rsqrt");
        case Op::reciprocal:
            return one + " / " + a;
        case Op::square:
            return a + " * " + a;
        case Op::sin:
            return call("tf_sin");
        case Op::cos:
            return call("tf_cos");
        case Op::erf:
            return call("tf_erf");
        case Op::tanh:
            return call("tf_tanh");
        case Op::sigmoid:
            return call("tf_sigmoid");
        case Op::relu:
            return call("tf_relu");
        case Op::leaky_relu:
            return "(" + a + " > " + zero + " ? " + a + " : " + a + " * " + number(Key::negative_slope) + ")";
        case Op::elu:
            return "tf_elu(" + a + ", " + number(Key::alpha) + ")";
        case Op::selu:
            return call("tf_selu");
        case Op::gelu:
            return call(node.attributes.flag(Key::approximate) ? "tf_gelu_tanh" : "tf_gelu");
        case Op::silu:
            return call("tf_silu");
        case Op::mish:
            return call("tf_mish");
        case Op::softplus:
            return "tf_softplus(" + a + ", " + number(Key::beta) + ", " + number(Key::threshold) + ")";
        case Op::hardsigmoid:
            return call("tf_hardsigmoid");
        case Op::hardswish:
            return call("tf_hardswish");
        case Op::hardtanh:
        case Op::clamp: {
            std::string text = a;
            const double lo = node.attributes.number(Key::lo), hi = node.attributes.number(Key::hi);
            if (!(std::isinf(lo) && lo < 0)) text = "tf_max(" + text + ", " + literal(lo, real) + ")";
            if (!(std::isinf(hi) && hi > 0)) text = "tf_min(" + text + ", " + literal(hi, real) + ")";
            return text;
        }
        case Op::add:
            return a + " + " + b;
        case Op::sub:
            return a + " - " + b;
        case Op::mul:
            return a + " * " + b;
        case Op::div:
            return a + " / " + b;
        case Op::pow:
            return power(a, b, real);
        case Op::minimum:
            return call2("tf_min");
        case Op::maximum:
            return call2("tf_max");
        case Op::prelu:
            return "(" + a + " > " + zero + " ? " + a + " : " + a + " * " + b + ")";
        case Op::greater:
            return "(" + a + " > " + b + " ? " + one + " : " + zero + ")";
        case Op::greater_equal:
            return "(" + a + " >= " + b + " ? " + one + " : " + zero + ")";
        case Op::equal:
            return "(" + a + " == " + b + " ? " + one + " : " + zero + ")";
        case Op::select:
            return "(" + a + " != " + zero + " ? " + b + " : " + operands[2] + ")";
        default:
            fail("CUDA: ", name(node.op), " is not a pointwise op");
    }
}

}  // namespace transfuse::cuda
