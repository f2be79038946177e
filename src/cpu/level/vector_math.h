// Elementary functions on vectors of fp32: within about 2 units in the last place of the true value over the whole
// range, subnormals, infinities and NaN included. Polynomials are weighted minimax fits on the reduced ranges; fp64
// goes to libm.
//
// All are inlined into the loop over a row, so that their constants stay in registers from vector to vector.
#pragma once

#include "cpu/level/simd.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

template <class V, class... C>
[[gnu::always_inline]] inline V polynomial(V x, float first, C... rest) {
    if constexpr (sizeof...(rest) == 0)
        return V{} + first;
    else
        return polynomial(x, rest...) * x + first;
}

// To the nearest integer (even on ties), for |v| < 2²²: the sum with 1.5·2²³ has no fraction bits left.
[[gnu::always_inline]] inline f32v round(f32v v) { return (v + 12582912.f) - 12582912.f; }

[[gnu::always_inline]] inline i32v wrapping_difference(i32v a, uint32_t b) { return (i32v)((u32v)a - b); }
[[gnu::always_inline]] inline f32v power_of_two(i32v n) { return as_float((n + 127) << 23); }  // −126 ≤ n ≤ 127

struct Exponent {  // x = n·ln2 + r
    f32v r, n;
};
[[gnu::always_inline]] inline Exponent split_exponent(f32v x) {
    const f32v n = round(x * 1.44269504f);
    // ln 2 in three parts; the first two have 15 bits, so their products with n are exact.
    const f32v r = ((x - n * 0x1.62e4p-1f) - n * 0x1.7f7cp-20f) - n * 0x1.1cf79ap-36f;
    return {r, n};
}
// e^r − 1 − r on |r| ≤ ln2/2
[[gnu::always_inline]] inline f32v exponential_rest(f32v r) {
    return r * r * polynomial(r, 0.5000000099f, 0.1666651289f, 0.04166619147f, 0.008369597036f, 0.001395147549f);
}

[[gnu::always_inline]] inline f32v exp(f32v x) {
    const f32v inside = select(x > 89.f, f32v{} + 89.f, select(x < -104.f, f32v{} - 104.f, x));
    const Exponent e = split_exponent(inside);
    const i32v n = to_int(e.n), half = n >> 1;  // two factors: 2^n itself may be subnormal or overflow
    const f32v y = (1.f + (e.r + exponential_rest(e.r))) * power_of_two(half) * power_of_two(n - half);
    return select(x != x, x, y);
}

[[gnu::always_inline]] inline f32v expm1(f32v x) {
    const f32v inside = select(x > 89.f, f32v{} + 89.f, select(x < -18.f, f32v{} - 18.f, x));
    const Exponent e = split_exponent(inside);
    const i32v n = to_int(e.n), half = n >> 1;
    const f32v low = power_of_two(half), high = power_of_two(n - half);
    const f32v y = ((e.r + exponential_rest(e.r)) * low + (low - power_of_two(half - n))) * high;
    return select(x != x, x, y);
}

[[gnu::always_inline]] inline f32v log(f32v x) {
    const i32v tiny = x < 0x1p-126f;
    const f32v scaled = select(tiny, x * 0x1p23f, x);
    // scaled = 2^k·m with m in [√½, √2)
    const i32v offset = wrapping_difference(bits(scaled), 0x3f3504f3);
    const f32v k = to_float((offset >> 23) - (tiny & 23));
    const f32v f = as_float((offset & 0x007fffff) + 0x3f3504f3) - 1.f;
    const f32v p = polynomial(f, 0.3333331261f, -0.2500000966f, 0.2000211813f, -0.1666799259f, 0.1421956165f,
                              -0.1240564839f, 0.118881471f, -0.1167529722f, 0.0674625345f);
    const f32v square = f * f;
    f32v y = f * square * p + k * 0x1.7f7cp-20f;
    y = (y - 0.5f * square) + f + k * 0x1.62e4p-1f;
    const f32v infinity = f32v{} + __builtin_inff();
    y = select(x == infinity, x, y);
    y = select(x == 0.f, -infinity, y);
    return select((x < 0.f) | (x != x), f32v{} + __builtin_nanf(""), y);
}

[[gnu::always_inline]] inline f32v log1p(f32v x) {
    const f32v u = 1.f + x;
    const f32v lost = x - (u - 1.f);  // what the sum 1 + x rounded away
    const f32v y = log(u) + lost / u;
    return select((u == __builtin_inff()) | (x == -1.f), log(u), y);
}

[[gnu::always_inline]] inline f32v tanh(f32v x) {
    const f32v a = abs(x), s = x * x;
    const f32v small =
        x + x * s * polynomial(s, -0.3333328022f, 0.1333138371f, -0.05373400794f, 0.02061815773f, -0.005679352442f);
    const f32v large = 1.f - 2.f / (exp(2.f * a) + 1.f);
    return select(a < 0.625f, small, select(x < 0.f, -large, large));
}

[[gnu::always_inline]] inline f32v sigmoid(f32v x) {
    const f32v e = exp(-abs(x));
    return select(x < 0.f, e, f32v{} + 1.f) / (1.f + e);
}

[[gnu::always_inline]] inline f32v erf(f32v x) {
    const f32v t = abs(x), s = x * x;
    const f32v small = x + x * polynomial(s, 0.1283791666f, -0.376126337f, 0.1128369393f, -0.02685927038f,
                                          0.005200633463f, -0.0008137429292f, 8.345194243e-5f);
    const f32v inside = select(t > 4.f, f32v{} + 4.f, t);
    // −log(erfc t)
    const f32v q = polynomial(inside, -0.0001758567603f, 1.129520733f, 0.6333348423f, 0.108293734f, -0.0251284867f,
                              0.004174591569f, -0.0004352086931f, 2.116108326e-5f);
    const f32v large = 1.f - exp(-q);
    const f32v y = select(t < 0.925f, small, select(x < 0.f, -large, large));
    return select(x != x, x, y);
}

// sin(x + quarter·π/2)
[[gnu::always_inline]] inline f32v sine(f32v x, int quarter) {
    const f32v n = round(x * 0.636619772f);
    // π/2 in four parts, three of 10 bits: exact products with n up to 2¹³.
    const f32v r = (((x - n * 0x1.92p+0f) - n * 0x1.fbp-12f) - n * 0x1.51p-22f) - n * 0x1.0b4612p-34f;
    const f32v s = r * r;
    const f32v sin = r + r * s * polynomial(s, -0.1666666664f, 0.008333329144f, -0.0001983925662f, 2.717564663e-6f);
    const f32v cos =
        (1.f - 0.5f * s) + s * s * polynomial(s, 0.04166666662f, -0.001388888344f, 2.479943672e-5f, -2.720332695e-7f);
    const i32v q = to_int(n) + quarter;
    const f32v y = select((q & 1) != 0, cos, sin);
    return select((q & 2) != 0, -y, y);
}
[[gnu::always_inline]] inline f32v with_large_arguments(f32v x, f32v y, float (*exact)(float)) {
    for (int i = 0; i < lanes<float>; ++i)
        if (!(__builtin_fabsf(x[i]) <= 12000.f)) y[i] = exact(x[i]);
    return y;
}
[[gnu::always_inline]] inline f32v sin(f32v x) {
    return with_large_arguments(x, sine(select(abs(x) <= 12000.f, x, f32v{}), 0),
                                [](float v) { return __builtin_sinf(v); });
}
[[gnu::always_inline]] inline f32v cos(f32v x) {
    return with_large_arguments(x, sine(select(abs(x) <= 12000.f, x, f32v{}), 1),
                                [](float v) { return __builtin_cosf(v); });
}

// log(1 + e^x)
[[gnu::always_inline]] inline f32v softplus(f32v x) { return maximum(x, f32v{}) + log1p(exp(-abs(x))); }

template <class V, class F>
[[gnu::always_inline]] inline V each(V x, F f) {
    for (unsigned i = 0; i < sizeof(V) / sizeof(x[0]); ++i) x[i] = f(x[i]);
    return x;
}
[[gnu::always_inline]] inline f32v sqrt(f32v x) {
    return each(x, [](float v) { return __builtin_sqrtf(v); });
}
[[gnu::always_inline]] inline f64v sqrt(f64v x) {
    return each(x, [](double v) { return __builtin_sqrt(v); });
}
[[gnu::always_inline]] inline f64v exp(f64v x) {
    return each(x, [](double v) { return __builtin_exp(v); });
}
[[gnu::always_inline]] inline f64v expm1(f64v x) {
    return each(x, [](double v) { return __builtin_expm1(v); });
}
[[gnu::always_inline]] inline f64v log(f64v x) {
    return each(x, [](double v) { return __builtin_log(v); });
}
[[gnu::always_inline]] inline f64v log1p(f64v x) {
    return each(x, [](double v) { return __builtin_log1p(v); });
}
[[gnu::always_inline]] inline f64v tanh(f64v x) {
    return each(x, [](double v) { return __builtin_tanh(v); });
}
[[gnu::always_inline]] inline f64v erf(f64v x) {
    return each(x, [](double v) { return __builtin_erf(v); });
}
[[gnu::always_inline]] inline f64v sin(f64v x) {
    return each(x, [](double v) { return __builtin_sin(v); });
}
[[gnu::always_inline]] inline f64v cos(f64v x) {
    return each(x, [](double v) { return __builtin_cos(v); });
}
[[gnu::always_inline]] inline f64v sigmoid(f64v x) { return 1.0 / (1.0 + exp(-x)); }
[[gnu::always_inline]] inline f64v softplus(f64v x) { return maximum(x, f64v{}) + log1p(exp(-abs(x))); }

[[gnu::always_inline]] inline f32v pow(f32v x, f32v y) {
    for (int i = 0; i < lanes<float>; ++i) x[i] = __builtin_powf(x[i], y[i]);
    return x;
}
[[gnu::always_inline]] inline f64v pow(f64v x, f64v y) {
    for (int i = 0; i < lanes<double>; ++i) x[i] = __builtin_pow(x[i], y[i]);
    return x;
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
