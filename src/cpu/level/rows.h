// Pointwise ops on padded rows: each op is one line on vectors, the loop around it is shared (and compiled once per
// op).
#pragma once

#include "cpu/kernels/kernels.h"
#include "cpu/level/convert.h"
#include "cpu/level/vector_math.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

// Everything the loop needs is copied into locals first: a store may alias anything the compiler can see.
template <class T, class F>
[[gnu::noinline]] void each_vector(const RowArgs<T>& r, F given) {
    const F f = given;
    const T* a = r.in[0];
    T* const out = r.out;
    const int64_t n = r.count;
    if (r.uniform[0]) {
        const Vec<T> y = f(splat<T>(*a));
        for (int64_t i = 0; i < n; i += lanes<T>) store(out + i, y);
        return;
    }
    // Two vectors at a time: their chains of dependent operations run side by side.
    int64_t i = 0;
    for (; i + 2 * lanes<T> <= n; i += 2 * lanes<T>) {
        const Vec<T> y = f(load(a + i)), z = f(load(a + i + lanes<T>));
        store(out + i, y);
        store(out + i + lanes<T>, z);
    }
    for (; i < n; i += lanes<T>) store(out + i, f(load(a + i)));
}

template <class T, class F>
[[gnu::noinline]] void each_pair(const RowArgs<T>& r, F given) {
    const F f = given;
    const T *a = r.in[0], *b = r.in[1];
    T* const out = r.out;
    const int64_t n = r.count;
    if (r.uniform[1]) {
        const Vec<T> y = splat<T>(*b);
        if (r.uniform[0]) {
            const Vec<T> z = f(splat<T>(*a), y);
            for (int64_t i = 0; i < n; i += lanes<T>) store(out + i, z);
            return;
        }
        for (int64_t i = 0; i < n; i += lanes<T>) store(out + i, f(load(a + i), y));
    } else if (r.uniform[0]) {
        const Vec<T> x = splat<T>(*a);
        for (int64_t i = 0; i < n; i += lanes<T>) store(out + i, f(x, load(b + i)));
    } else {
        int64_t i = 0;
        for (; i + 2 * lanes<T> <= n; i += 2 * lanes<T>) {
            const Vec<T> y = f(load(a + i), load(b + i)), z = f(load(a + i + lanes<T>), load(b + i + lanes<T>));
            store(out + i, y);
            store(out + i + lanes<T>, z);
        }
        for (; i < n; i += lanes<T>) store(out + i, f(load(a + i), load(b + i)));
    }
}

template <class T, class F>
[[gnu::noinline]] void each_triple(const RowArgs<T>& r, F given) {
    const F f = given;
    const RowArgs<T> args = r;
    const auto at = [&](int64_t i) {
        const auto operand = [&](int n) { return args.uniform[n] ? splat<T>(*args.in[n]) : load(args.in[n] + i); };
        return f(operand(0), operand(1), operand(2));
    };
    int64_t i = 0;
    for (; i + 2 * lanes<T> <= args.count; i += 2 * lanes<T>) {
        const Vec<T> y = at(i), z = at(i + lanes<T>);
        store(args.out + i, y);
        store(args.out + i + lanes<T>, z);
    }
    for (; i < args.count; i += lanes<T>) store(args.out + i, at(i));
}

template <class T>
bool merge_pair(T* even, T* odd, const T* const (&parts)[4], T bias, int64_t n) {
    static constexpr T zeros[lanes<T>] = {};
    const T *first = parts[0], *both = parts[1], *opposite = parts[2], *second = parts[3];
    // A missing part is read from one vector of zeros again and again.
    const int64_t a = first != nullptr, b = both != nullptr, c = opposite != nullptr, d = second != nullptr;
    if (!a) first = zeros;
    if (!b) both = zeros;
    if (!c) opposite = zeros;
    if (!d) second = zeros;
    const Vec<T> start = splat<T>(bias);
    Vec<T> trace{};  // stays zero while all is finite
    const auto pair = [&](int64_t i) {
        const Vec<T> s = load(both + b * i) + start, t = load(opposite + c * i);
        const Vec<T> e = load(first + a * i) + s + t, o = s - t - load(second + d * i);
        if (even) store(even + i, e);
        if (odd) store(odd + i, o);
        return odd ? (e - e) + (o - o) : e - e;
    };
    const int64_t whole = n - n % lanes<T>;
    for (int64_t i = 0; i < whole; i += lanes<T>) trace += pair(i);
    if (whole < n) {
        const Vec<T> last = pair(whole);  // what lies behind the row is anything
        for (int64_t j = 0; j < n - whole; ++j) trace[j] += last[j];
    }
    bool finite = true;
    for (int64_t j = 0; j < lanes<T>; ++j) finite = finite && trace[j] == 0;
    return finite;
}

template <class T>
void row(RowOp op, const RowArgs<T>& r) {
    using V = Vec<T>;
    const T p = r.parameter[0], q = r.parameter[1];
    const V zero{}, one = splat<T>(1);
    const auto clamped = [](V x, T lo, T hi) {
        x = select(x < lo, splat<T>(lo), x);
        return select(x > hi, splat<T>(hi), x);
    };
    switch (op) {
        case RowOp::copy:
            return each_vector(r, [=](V x) { return x; });
        case RowOp::neg:
            return each_vector(r, [=](V x) { return -x; });
        case RowOp::abs:
            return each_vector(r, [=](V x) { return abs(x); });
        case RowOp::sign:
            return each_vector(r, [=](V x) { return select(x > zero, one, select(x < zero, -one, zero)); });
        case RowOp::exp:
            return each_vector(r, [=](V x) { return exp(x); });
        case RowOp::log:
            return each_vector(r, [=](V x) { return log(x); });
        case RowOp::sqrt:
            return each_vector(r, [=](V x) { return sqrt(x); });
        case RowOp::rsqrt:
            return each_vector(r, [=](V x) { return T(1) / sqrt(x); });
        case RowOp::reciprocal:
            return each_vector(r, [=](V x) { return T(1) / x; });
        case RowOp::square:
            return each_vector(r, [=](V x) { return x * x; });
        case RowOp::sin:
            return each_vector(r, [=](V x) { return sin(x); });
        case RowOp::cos:
            return each_vector(r, [=](V x) { return cos(x); });
        case RowOp::erf:
            return each_vector(r, [=](V x) { return erf(x); });
        case RowOp::tanh:
            return each_vector(r, [=](V x) { return tanh(x); });
        case RowOp::sigmoid:
            return each_vector(r, [=](V x) { return sigmoid(x); });
        case RowOp::relu:
            return each_vector(r, [=](V x) { return select(x <= zero, zero, x); });
        case RowOp::leaky_relu:
            return each_vector(r, [=](V x) { return select(x > zero, x, x * p); });
        case RowOp::elu:
            return each_vector(r, [=](V x) { return select(x > zero, x, p * expm1(x)); });
        case RowOp::selu:
            return each_vector(
                r, [=](V x) { return T(1.0507009873554805) * select(x > zero, x, T(1.6732632423543772) * expm1(x)); });
        case RowOp::gelu:
            return each_vector(r, [=](V x) { return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752))); });
        case RowOp::gelu_tanh:
            return each_vector(r, [=](V x) {
                return T(0.5) * x * (T(1) + tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x)));
            });
        case RowOp::silu:
            return each_vector(r, [=](V x) { return x * sigmoid(x); });
        case RowOp::mish:
            return each_vector(r, [=](V x) { return x * tanh(softplus(x)); });
        case RowOp::softplus:
            return each_vector(r, [=](V x) { return select(x * p > q, x, log1p(exp(x * p)) / p); });
        case RowOp::hardsigmoid:
            return each_vector(r, [=](V x) { return clamped(x + T(3), 0, 6) / T(6); });
        case RowOp::hardswish:
            return each_vector(r, [=](V x) { return x * clamped(x + T(3), 0, 6) / T(6); });
        case RowOp::clamp:
            return each_vector(r, [=](V x) { return clamped(x, p, q); });
        case RowOp::round_f16:
            return each_vector(r, [=](V x) { return each(x, [](T v) { return T(widen(to_float16(float(v)))); }); });
        case RowOp::round_bf16:
            return each_vector(r, [=](V x) { return each(x, [](T v) { return T(widen(to_bfloat16(float(v)))); }); });
        case RowOp::add:
            return each_pair(r, [=](V a, V b) { return a + b; });
        case RowOp::sub:
            return each_pair(r, [=](V a, V b) { return a - b; });
        case RowOp::mul:
            return each_pair(r, [=](V a, V b) { return a * b; });
        case RowOp::div:
            return each_pair(r, [=](V a, V b) { return a / b; });
        case RowOp::pow:
            return each_pair(r, [=](V a, V b) { return pow(a, b); });
        case RowOp::minimum:
            return each_pair(r, [=](V a, V b) { return minimum(a, b); });
        case RowOp::maximum:
            return each_pair(r, [=](V a, V b) { return maximum(a, b); });
        case RowOp::prelu:
            return each_pair(r, [=](V a, V b) { return select(a > zero, a, a * b); });
        case RowOp::greater:
            return each_pair(r, [=](V a, V b) { return select(a > b, one, zero); });
        case RowOp::greater_equal:
            return each_pair(r, [=](V a, V b) { return select(a >= b, one, zero); });
        case RowOp::equal:
            return each_pair(r, [=](V a, V b) { return select(a == b, one, zero); });
        case RowOp::add_exp:
            return each_triple(r, [=](V a, V b, V c) { return a + exp(b - c); });
        case RowOp::select:
            return each_triple(r, [=](V a, V b, V c) { return select(a != zero, b, c); });
    }
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
