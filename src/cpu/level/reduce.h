// Reductions of rows. Lanes add in the row's own precision over a block of a few hundred elements; blocks add in fp64.
#pragma once

#include <type_traits>

#include "cpu/kernels/kernels.h"
#include "cpu/level/convert.h"
#include "cpu/level/vector_math.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

template <class V>
inline double total(V v) {
    double sum = 0;
    for (unsigned i = 0; i < sizeof(V) / sizeof(v[0]); ++i) sum += v[i];
    return sum;
}

// Σ term(x[i]): four chains of lanes, each at most 16 long before it goes to fp64.
template <class T, class F>
inline double sum_of(const T* x, int64_t n, F term) {
    constexpr int64_t L = lanes<T>, block = 64 * L;
    double sum = 0;
    int64_t i = 0;
    while (i + 4 * L <= n) {
        Vec<T> s[4] = {};
        const int64_t end = i + block < n ? i + block : n;
        for (; i + 4 * L <= end; i += 4 * L)
            for (int64_t j = 0; j < 4; ++j) s[j] += term(load(x + i + j * L));
        sum += total((s[0] + s[1]) + (s[2] + s[3]));
    }
    for (; i + L <= n; i += L) sum += total(term(load(x + i)));
    if (i < n) {
        T rest[L] = {};
        for (int64_t j = 0; i + j < n; ++j) rest[j] = x[i + j];
        const Vec<T> last = term(load(static_cast<const T*>(rest)));
        for (int64_t j = 0; i + j < n; ++j) sum += last[j];
    }
    return sum;
}
template <class T>
double sum(const T* x, int64_t n) {
    return sum_of(x, n, [](Vec<T> v) { return v; });
}
template <class T>
double sum_square(const T* x, double centre, int64_t n) {
    return sum_of(x, n, [c = static_cast<T>(centre)](Vec<T> v) { return (v - c) * (v - c); });
}
template <class T>
double sum_exp(const T* x, T shift, int64_t n) {
    return sum_of(x, n, [shift](Vec<T> v) { return exp(v - shift); });
}

template <class T, class F>
inline T extreme(const T* x, int64_t n, F better) {
    T best = x[0];
    int64_t i = 0;
    if (n >= 4 * lanes<T>) {
        Vec<T> chain[4];
        for (int j = 0; j < 4; ++j) chain[j] = load(x + j * lanes<T>);
        for (i = 4 * lanes<T>; i + 4 * lanes<T> <= n; i += 4 * lanes<T>)
            for (int j = 0; j < 4; ++j) chain[j] = better(load(x + i + j * lanes<T>), chain[j]);
        Vec<T> b = better(better(chain[0], chain[1]), better(chain[2], chain[3]));
        best = b[0];
        for (int j = 1; j < lanes<T>; ++j) best = better(splat<T>(b[j]), splat<T>(best))[0];
    }
    for (; i < n; ++i) best = better(splat<T>(x[i]), splat<T>(best))[0];
    return best;
}
template <class T>
T max(const T* x, int64_t n) {
    return extreme(x, n, [](Vec<T> a, Vec<T> b) { return maximum(a, b); });
}
template <class T>
T min(const T* x, int64_t n) {
    return extreme(x, n, [](Vec<T> a, Vec<T> b) { return minimum(a, b); });
}

template <class T>
void add_to(double* __restrict sums, const T* __restrict x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(x[i]);
}

// s[j] += p[i + j] of every whole group of lanes. What is left of a row is read as its last group, the elements already
// added being masked: a lane's index that varies would push all of them out of their registers.
template <class S>
[[gnu::always_inline]] inline void add_whole_lanes(double (&s)[sum_lanes], const S* p, int64_t n) {
    for (int64_t i = 0; i + sum_lanes <= n; i += sum_lanes)
        for (int64_t j = 0; j < sum_lanes; ++j) s[j] += static_cast<double>(widen(p[i + j]));
}
template <class S, class Bits>
[[gnu::always_inline]] inline void add_last_lanes(double (&s)[sum_lanes], const S* last,
                                                  const Bits (&mask)[sum_lanes]) {
    for (int64_t j = 0; j < sum_lanes; ++j) {
        auto value = widen(last[j]);
        Bits bits;
        __builtin_memcpy(&bits, &value, sizeof bits);
        bits &= mask[j];
        __builtin_memcpy(&value, &bits, sizeof bits);
        s[j] += static_cast<double>(value);
    }
}
template <class S>
inline void add_lanes_of(double* __restrict lanes, const S* p, int64_t n, int64_t rows, int64_t pitch) {
    if (rows > 1 && pitch == n)  // one long row
        return add_lanes_of(lanes, p, rows * n, 1, 0);
    if (n < sum_lanes) {  // short rows side by side, so that no lane waits for itself
        for (int64_t r = 0, first = 0; r < rows; ++r) {
            for (int64_t i = 0; i < n; ++i) lanes[first + i] += static_cast<double>(widen(p[r * pitch + i]));
            first = first + 2 * n <= sum_lanes ? first + n : 0;
        }
        return;
    }
    const int64_t rest = n % sum_lanes;
    using Bits = std::conditional_t<__is_same(S, double), uint64_t, uint32_t>;
    Bits mask[sum_lanes];
    for (int64_t j = 0; j < sum_lanes; ++j) mask[j] = j >= sum_lanes - rest ? ~Bits{0} : 0;
    double s[sum_lanes];
    for (int j = 0; j < sum_lanes; ++j) s[j] = lanes[j];
    for (int64_t r = 0; r < rows; ++r) {
        add_whole_lanes(s, p + r * pitch, n);
        if (rest > 0) add_last_lanes(s, p + r * pitch + n - sum_lanes, mask);
    }
    for (int j = 0; j < sum_lanes; ++j) lanes[j] = s[j];
}
inline void add_lanes(double* lanes, const void* memory, Storage storage, int64_t n, int64_t rows, int64_t pitch) {
    with_storage(storage,
                 [&](auto tag) { add_lanes_of(lanes, static_cast<const decltype(tag)*>(memory), n, rows, pitch); });
}
inline double sum_memory(const void* memory, Storage storage, int64_t n) {
    double s[sum_lanes] = {};
    add_lanes(s, memory, storage, n, 1, 0);
    for (int64_t width = sum_lanes / 2; width > 0; width /= 2)
        for (int64_t j = 0; j < width; ++j) s[j] += s[j + width];
    return s[0];
}

template <class T>
void combine(double* __restrict sums, const T* __restrict x, const T* __restrict w, int64_t pitch, int64_t terms,
             int64_t outs) {
    for (int64_t k = 0; k < terms; ++k) {
        const double factor = x[k];
        const T* __restrict row = w + k * pitch;
        for (int64_t co = 0; co < outs; ++co) sums[co] += factor * static_cast<double>(row[co]);
    }
}

template <class T>
void pool_row(T* __restrict out, const T* __restrict in, int64_t window, int kind, int64_t n) {
    const auto loop = [&](auto better) {
        if (window == 2) {
            for (int64_t i = 0; i < n; ++i) out[i] = better(in[2 * i], in[2 * i + 1]);
            return;
        }
        for (int64_t i = 0; i < n; ++i) {
            T best = in[i * window];
            for (int64_t j = 1; j < window; ++j) best = better(in[i * window + j], best);
            out[i] = best;
        }
    };
    if (kind == 0)
        loop([](T a, T b) { return a + b; });
    else if (kind == 1)
        loop([](T a, T b) { return a > b || a != a ? a : b; });
    else
        loop([](T a, T b) { return a < b || a != a ? a : b; });
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
