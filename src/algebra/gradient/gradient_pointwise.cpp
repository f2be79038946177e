// Derivatives of pointwise ops, with PyTorch's choices where there is a kink.
#include <cmath>
#include <numbers>

#include "algebra/gradient/gradient.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

// gelu, tanh form: ½(1 + t) + ½·x·(1 − t²)·√(2/π)·(1 + 3·0.044715·x²), t = tanh(√(2/π)(x + 0.044715·x³))
ValueId gelu_tanh_slope(Adjoints& a, ValueId x) {
    const double c = std::sqrt(2 / std::numbers::pi);
    const ValueId squared = a.add(Op::square, {x});
    const ValueId t = a.add(Op::tanh, {a.scaled(a.mul(x, a.shifted(a.scaled(squared, 0.044715), 1)), c)});
    const ValueId inner = a.scaled(a.shifted(a.scaled(squared, 3 * 0.044715), 1), c);
    const ValueId rise = a.mul(a.mul(x, a.one_minus(a.add(Op::square, {t}))), inner);
    return a.scaled(a.plus(a.shifted(t, 1), rise), 0.5);
}

// Φ(x) + x·φ(x)
ValueId gelu_slope(Adjoints& a, ValueId x) {
    const ValueId cdf = a.scaled(a.shifted(a.add(Op::erf, {a.scaled(x, 1 / std::numbers::sqrt2)}), 1), 0.5);
    const ValueId density =
        a.scaled(a.add(Op::exp, {a.scaled(a.add(Op::square, {x}), -0.5)}), 1 / std::sqrt(2 * std::numbers::pi));
    return a.plus(cdf, a.mul(x, density));
}

// tanh(s) + x·(1 − tanh²(s))·σ(x), s = softplus(x)
ValueId mish_slope(Adjoints& a, ValueId x) {
    const ValueId t = a.add(Op::tanh, {a.add(Op::softplus, {x})});
    const ValueId rise = a.mul(x, a.mul(a.one_minus(a.add(Op::square, {t})), a.add(Op::sigmoid, {x})));
    return a.plus(t, rise);
}

}  // namespace

void differentiate_unary(Adjoints& a, ValueId y, ValueId g) {
    const Node node = a[y];
    const ValueId x = node.args[0];
    if (!a.needs(x)) return;
    auto number = [&](Key key) { return node.attributes.number(key); };
    auto result = [&]() -> ValueId {
        switch (node.op) {
            case Op::neg:
                return a.add(Op::neg, {g});
            case Op::abs:
                return a.mul(g, a.add(Op::sign, {x}));
            case Op::exp:
                return a.mul(g, y);
            case Op::log:
                return a.add(Op::div, {g, x});
            case Op::sqrt:
                return a.add(Op::div, {g, a.scaled(y, 2)});
            case Op::rsqrt:
                return a.mul(g, a.scaled(a.mul(a.add(Op::square, {y}), y), -0.5));
            case Op::reciprocal:
                return a.add(Op::neg, {a.mul(g, a.add(Op::square, {y}))});
            case Op::square:
                return a.scaled(a.mul(g, x), 2);
            case Op::sin:
                return a.mul(g, a.add(Op::cos, {x}));
            case Op::cos:
                return a.add(Op::neg, {a.mul(g, a.add(Op::sin, {x}))});
            case Op::erf:
                return a.mul(g, a.scaled(a.add(Op::exp, {a.add(Op::neg, {a.add(Op::square, {x})})}),
                                         2 / std::sqrt(std::numbers::pi)));
            case Op::tanh:
                return a.mul(g, a.one_minus(a.add(Op::square, {y})));
            case Op::sigmoid:
                return a.mul(g, a.mul(y, a.one_minus(y)));
            case Op::relu:
                // Its result tells as well as its operand, and is what the next one reads. A nan passes it on.
                return a.zero_or(a.at_most(y, 0), g);
            case Op::leaky_relu:
                return a.where(a.greater(number(Key::negative_slope) >= 0 ? y : x, 0), g,
                               a.scaled(g, number(Key::negative_slope)));
            case Op::elu:
                return a.where(a.greater(x, 0), g, a.mul(g, a.scaled(a.add(Op::exp, {x}), number(Key::alpha))));
            case Op::selu: {
                constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
                return a.where(a.greater(x, 0), a.scaled(g, scale),
                               a.mul(g, a.scaled(a.add(Op::exp, {x}), scale * alpha)));
            }
            case Op::gelu:
                return a.mul(g, node.attributes.flag(Key::approximate) ? gelu_tanh_slope(a, x) : gelu_slope(a, x));
            case Op::silu: {
                const ValueId s = a.add(Op::sigmoid, {x});
                return a.mul(g, a.mul(s, a.shifted(a.mul(x, a.one_minus(s)), 1)));
            }
            case Op::mish:
                return a.mul(g, mish_slope(a, x));
            case Op::softplus: {
                const ValueId scaled = a.scaled(x, number(Key::beta));
                return a.where(a.greater(scaled, number(Key::threshold)), g, a.mul(g, a.add(Op::sigmoid, {scaled})));
            }
            case Op::hardsigmoid: {  // open interval
                const ValueId inside = a.zero_or(a.at_least(x, 3), a.greater(x, -3));
                return a.or_zero(inside, a.scaled(g, 1.0 / 6));
            }
            case Op::hardswish: {
                const ValueId slope = a.mul(g, a.shifted(a.scaled(x, 1.0 / 3), 0.5));
                return a.where(a.at_least(x, 3), g, a.zero_or(a.at_most(x, -3), slope));
            }
            case Op::hardtanh: {  // open interval
                const double lo = number(Key::lo), hi = number(Key::hi);
                const ValueId above = std::isfinite(lo) ? a.or_zero(a.greater(x, lo), g) : g;
                if (!std::isfinite(hi)) return above;
                if (std::isfinite(lo)) return a.zero_or(a.at_least(x, hi), above);
                return a.or_zero(a.add(Op::greater, {a.builder().scalar(hi), x}), g);  // of nan zero, too
            }
            case Op::clamp: {  // closed interval
                ValueId inside = g;
                if (std::isfinite(number(Key::lo))) inside = a.or_zero(a.at_least(x, number(Key::lo)), inside);
                if (std::isfinite(number(Key::hi))) inside = a.or_zero(a.at_most(x, number(Key::hi)), inside);
                return inside;
            }
            case Op::sign:
                return -1;
            default:
                fail("gradient: ", name(node.op), " has no derivative here");
        }
    }();
    if (result >= 0) a.accumulate(x, result);
}

void differentiate_binary(Adjoints& a, ValueId y, ValueId g) {
    const Node node = a[y];
    const ValueId p = node.args[0], q = node.args[1];
    auto give = [&](ValueId operand, auto&& term) {
        if (a.needs(operand)) a.accumulate(operand, term());
    };
    switch (node.op) {
        case Op::add:
            give(p, [&] { return g; });
            give(q, [&] { return g; });
            return;
        case Op::sub:
            give(p, [&] { return g; });
            give(q, [&] { return a.add(Op::neg, {g}); });
            return;
        case Op::mul:
            give(p, [&] { return a.mul(g, q); });
            give(q, [&] { return a.mul(g, p); });
            return;
        case Op::div:
            give(p, [&] { return a.add(Op::div, {g, q}); });
            give(q, [&] { return a.add(Op::neg, {a.add(Op::div, {a.mul(g, y), q})}); });
            return;
        case Op::pow:
            give(p, [&] {  // g·q·p^(q−1), zero where q is zero
                if (a[q].op == Op::scalar && a[q].attributes.number(Key::value) == 2) return a.scaled(a.mul(g, p), 2);
                auto power = [&] {  // as PyTorch has it, whose powers of ±½ are roots
                    const double rest = a[q].op == Op::scalar ? a[q].attributes.number(Key::value) - 1 : 0;
                    if (rest == 0.5) return a.add(Op::sqrt, {p});
                    if (rest == -0.5) return a.add(Op::rsqrt, {p});
                    return a.add(Op::pow, {p, a.shifted(q, -1)});
                };
                const ValueId slope = a.mul(q, power());
                return a.zero_or(a.add(Op::equal, {q, a.builder().scalar(0)}), a.mul(g, slope));
            });
            give(q, [&] {  // g·y·log p, zero where y is zero
                const ValueId slope = a.mul(g, a.mul(y, a.add(Op::log, {p})));
                return a.zero_or(a.add(Op::equal, {p, a.builder().scalar(0)}), slope);
            });
            return;
        case Op::minimum:
        case Op::maximum: {  // ties share, and beside a nan both get all
            auto share = [&](ValueId own, ValueId other) {
                const ValueId loses =
                    node.op == Op::maximum ? a.add(Op::greater, {other, own}) : a.add(Op::greater, {own, other});
                return a.where(a.add(Op::equal, {own, other}), a.scaled(g, 0.5), a.zero_or(loses, g));
            };
            give(p, [&] { return share(p, q); });
            give(q, [&] { return share(q, p); });
            return;
        }
        case Op::prelu:
            give(p, [&] { return a.where(a.greater(p, 0), g, a.mul(g, q)); });
            give(q, [&] { return a.zero_or(a.greater(p, 0), a.mul(g, p)); });
            return;
        case Op::select: {
            const ValueId otherwise = node.args[2];
            give(q, [&] { return a.or_zero(p, g); });
            give(otherwise, [&] { return a.zero_or(p, g); });
            return;
        }
        default:
            return;  // comparisons: no gradient
    }
}

}  // namespace transfuse
