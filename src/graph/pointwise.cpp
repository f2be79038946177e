#include "graph/pointwise.h"

#include <cmath>
#include <numbers>

#include "transfuse/error.h"

namespace transfuse {

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// min(max(x, lo), hi); a NaN stays.
double clamp(double x, double lo, double hi) {
    if (x < lo) x = lo;
    return x > hi ? hi : x;
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }

double gelu_tanh(double x) {
    const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
}

double selu(double x) {
    constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
    return scale * (x > 0 ? x : alpha * std::expm1(x));
}

}  // namespace

// clang-format off: one op a line
PointwiseFunction pointwise_function(Op op, const Attributes& attributes) {
    auto number = [&](Key key) { return attributes.number(key); };
    switch (op) {
        case Op::identity:
        case Op::detach:
        case Op::cast:
            return [](double x, double, double) { return x; };
        case Op::neg:
            return [](double x, double, double) { return -x; };
        case Op::abs:
            return [](double x, double, double) { return std::fabs(x); };
        case Op::sign:
            return [](double x, double, double) { return static_cast<double>((x > 0) - (x < 0)); };
        case Op::exp:
            return [](double x, double, double) { return std::exp(x); };
        case Op::log:
            return [](double x, double, double) { return std::log(x); };
        case Op::sqrt:
            return [](double x, double, double) { return std::sqrt(x); };
        case Op::rsqrt:
            return [](double x, double, double) { return 1 / std::sqrt(x); };
        case Op::reciprocal:
            return [](double x, double, double) { return 1 / x; };
        case Op::square:
            return [](double x, double, double) { return x * x; };
        case Op::sin:
            return [](double x, double, double) { return std::sin(x); };
        case Op::cos:
            return [](double x, double, double) { return std::cos(x); };
        case Op::erf:
            return [](double x, double, double) { return std::erf(x); };
        case Op::tanh:
            return [](double x, double, double) { return std::tanh(x); };
        case Op::sigmoid:
            return [](double x, double, double) { return sigmoid(x); };
        case Op::relu:
            return [](double x, double, double) { return x <= 0 ? 0.0 : x; };
        case Op::leaky_relu:
            return [slope = number(Key::negative_slope)](double x, double, double) { return x > 0 ? x : slope * x; };
        case Op::elu:
            return [alpha = number(Key::alpha)](double x, double, double) { return x > 0 ? x : alpha * std::expm1(x); };
        case Op::selu:
            return [](double x, double, double) { return selu(x); };
        case Op::gelu:
            if (attributes.flag(Key::approximate)) return [](double x, double, double) { return gelu_tanh(x); };
            return [](double x, double, double) { return gelu(x); };
        case Op::silu:
            return [](double x, double, double) { return x * sigmoid(x); };
        case Op::mish:
            return [](double x, double, double) { return x * std::tanh(std::log1p(std::exp(x))); };
        case Op::softplus:
            return [beta = number(Key::beta), threshold = number(Key::threshold)](double x, double, double) {
                return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
            };
        case Op::hardsigmoid:
            return [](double x, double, double) { return clamp(x + 3, 0, 6) / 6; };
        case Op::hardswish:
            return [](double x, double, double) { return x * clamp(x + 3, 0, 6) / 6; };
        case Op::hardtanh:
        case Op::clamp:
            return [lo = number(Key::lo), hi = number(Key::hi)](double x, double, double) { return clamp(x, lo, hi); };

        case Op::add:
            return [](double a, double b, double) { return a + b; };
        case Op::sub:
            return [](double a, double b, double) { return a - b; };
        case Op::mul:
            return [](double a, double b, double) { return a * b; };
        case Op::div:
            return [](double a, double b, double) { return a / b; };
        case Op::pow:
            return [](double a, double b, double) { return std::pow(a, b); };
        case Op::minimum:
            return [](double a, double b, double) { return a < b || std::isnan(a) ? a : b; };
        case Op::maximum:
            return [](double a, double b, double) { return a > b || std::isnan(a) ? a : b; };
        case Op::prelu:
            return [](double x, double weight, double) { return x > 0 ? x : weight * x; };
        case Op::greater:
            return [](double a, double b, double) { return a > b ? 1.0 : 0.0; };
        case Op::greater_equal:
            return [](double a, double b, double) { return a >= b ? 1.0 : 0.0; };
        case Op::equal:
            return [](double a, double b, double) { return a == b ? 1.0 : 0.0; };
        case Op::select:
            return [](double condition, double a, double b) { return condition != 0 ? a : b; };
        default:
            fail(name(op), ": not a pointwise op");
    }
}
// clang-format on

}  // namespace transfuse
