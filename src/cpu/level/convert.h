// Rows between memory (any dtype, any stride, channels_last included) and numbers.
#pragma once

#include "cpu/kernels/kernels.h"
#include "cpu/level/simd.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

struct Half {
    uint16_t bits;
};
struct Brain {
    uint16_t bits;
};
inline uint32_t float_bits(float x) {
    uint32_t b;
    __builtin_memcpy(&b, &x, 4);
    return b;
}
inline float float_of(uint32_t b) {
    float x;
    __builtin_memcpy(&x, &b, 4);
    return x;
}
inline float widen(Brain x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }
inline float widen(Half x) {
    const uint32_t magnitude = x.bits & 0x7fffu;
    // Exponent and fraction in place, then the bias by a multiplication, which also normalises subnormals.
    const float finite = float_of(magnitude << 13) * 0x1p112f;
    const uint32_t b = magnitude >= 0x7c00u ? (magnitude << 13) | 0x7f800000u : float_bits(finite);
    return float_of(b | (static_cast<uint32_t>(x.bits & 0x8000u) << 16));
}
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }

inline Brain to_bfloat16(float x) {  // to nearest, ties to even
    const uint32_t b = float_bits(x);
    const uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16, nan = (b >> 16) | 0x40u;
    return {static_cast<uint16_t>(x != x ? nan : rounded)};
}
inline Half to_float16(float x) {
    const uint32_t b = float_bits(x), sign = (b >> 16) & 0x8000u, magnitude = b & 0x7fffffffu;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t small =
        float_bits(float_of(magnitude) + 0.5f) - 0x3f000000u;  // the sum with ½ rounds at the right bit
    uint32_t h = magnitude < 0x38800000u ? small : normal;
    h = magnitude >= 0x477ff000u ? 0x7c00u : h;  // 65520 and above round to infinity
    h = magnitude > 0x7f800000u ? 0x7e00u : h;
    return {static_cast<uint16_t>(sign | h)};
}
template <class S>
inline S narrow(double x) {
    if constexpr (__is_same(S, Half))
        return to_float16(static_cast<float>(x));
    else if constexpr (__is_same(S, Brain))
        return to_bfloat16(static_cast<float>(x));
    else
        return static_cast<S>(x);
}
template <class S>
inline S narrow(float x) {
    if constexpr (__is_same(S, Half))
        return to_float16(x);
    else if constexpr (__is_same(S, Brain))
        return to_bfloat16(x);
    else
        return static_cast<S>(x);
}

template <class F>
inline void with_storage(Storage storage, F f) {
    switch (storage) {
        case Storage::f64:
            return f(double{});
        case Storage::f32:
            return f(float{});
        case Storage::f16:
            return f(Half{});
        case Storage::bf16:
            return f(Brain{});
    }
}

// Vectors of fp16 numbers, where instructions convert them.
#if defined(__AVX512F__)
#define TRANSFUSE_CONVERTS_HALF
inline f32v load(const Half* p) {
    return (f32v)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store(Half* p, f32v v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
#define TRANSFUSE_CONVERTS_HALF
inline f32v load(const Half* p) { return (f32v)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline void store(Half* p, f32v v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__ARM_NEON) && !defined(__ARM_FEATURE_SVE_BITS)
#define TRANSFUSE_CONVERTS_HALF
inline f32v load(const Half* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(p))));
}
inline void store(Half* p, f32v v) { vst1_u16(reinterpret_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(v))); }
#endif

// `whole`: zeros are written behind the numbers, up to the end of the vector.
template <bool whole = false>
inline void copy_row(float* to, const float* from, int64_t n) {
    for (; n >= lanes<float>; n -= lanes<float>, to += lanes<float>, from += lanes<float>) store(to, load(from));
    if (n <= 0) return;
    whole ? store(to, load_first(from, n)) : store_first(to, load_first(from, n), n);
}
// Every second number of two vectors.
template <class V>
inline V even(V a, V b) {
    if constexpr (sizeof(V) == 64)
        return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    else if constexpr (sizeof(V) == 32)
        return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    else
        return __builtin_shufflevector(a, b, 0, 2, 4, 6);
}
// to[i] = from[2i]
template <bool whole = false>
inline void copy_even(float* to, const float* from, int64_t n) {
    constexpr int64_t all = lanes<float>;
    for (; n > all; n -= all, to += all, from += 2 * all) store(to, even(load(from), load(from + all)));
    if (n <= 0) return;
    const int64_t last = 2 * n - 1;
    const f32v a = load_first(from, last < all ? last : all),
               b = last > all ? load_first(from + all, last - all) : f32v{};
    whole ? store(to, even(a, b)) : store_first(to, even(a, b), n);
}

// A stride known to the compiler becomes shuffles of whole vectors. Rows of few numbers are many: the compiler's own
// loops take longer to begin and to end than they take.
template <class T, class S>
inline void load_row_of(T* __restrict out, const S* p, int64_t stride, int64_t n) {
    if constexpr (__is_same(T, float) && __is_same(S, float)) {
        if (stride == 1) return copy_row(out, p, n);
        if (stride == 2) return copy_even(out, p, n);
    }
#if defined(TRANSFUSE_CONVERTS_HALF)
    if constexpr (__is_same(T, float) && __is_same(S, Half))
        for (; stride == 1 && n >= lanes<float>; n -= lanes<float>, out += lanes<float>, p += lanes<float>)
            store(out, load(p));
#endif
    if (stride == 1)
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(widen(p[i]));
    else if (stride == 2)
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(widen(p[2 * i]));
    else
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(widen(p[i * stride]));
}
template <class T, class S>
inline void store_row_of(S* p, int64_t stride, const T* __restrict in, int64_t n) {
    if constexpr (__is_same(T, float) && __is_same(S, float))
        if (stride == 1) return copy_row(p, in, n);
#if defined(TRANSFUSE_CONVERTS_HALF)
    if constexpr (__is_same(T, float) && __is_same(S, Half))
        for (; stride == 1 && n >= lanes<float>; n -= lanes<float>, in += lanes<float>, p += lanes<float>)
            store(p, load(in));
#endif
    if (stride == 1)
        for (int64_t i = 0; i < n; ++i) p[i] = narrow<S>(in[i]);
    else
        for (int64_t i = 0; i < n; ++i) p[i * stride] = narrow<S>(in[i]);
}

template <class T>
void load_row(T* out, const void* in, Storage storage, int64_t stride, int64_t n) {
    with_storage(storage, [&](auto tag) { load_row_of(out, static_cast<const decltype(tag)*>(in), stride, n); });
}
template <class T>
void store_row(void* out, Storage storage, int64_t stride, const T* in, int64_t n) {
    with_storage(storage, [&](auto tag) { store_row_of(static_cast<decltype(tag)*>(out), stride, in, n); });
}

// Rows that follow one another on both sides are one row.
template <class T>
void load_rows(T* out, int64_t pitch, const void* in, Storage storage, int64_t row_stride, int64_t stride, int64_t rows,
               int64_t n) {
    if (pitch == n && row_stride == n * stride) n *= rows, rows = 1;
    with_storage(storage, [&](auto tag) {
        const auto* p = static_cast<const decltype(tag)*>(in);
        for (int64_t r = 0; r < rows; ++r) load_row_of(out + r * pitch, p + r * row_stride, stride, n);
    });
}
template <class T>
void stage_planes(T* out, int64_t plane_pitch, int64_t pitch, const void* in, Storage storage, int64_t plane_stride,
                  int64_t row_stride, int64_t stride, int64_t planes, int64_t rows, int64_t n) {
    if (pitch == n && row_stride == n * stride) n *= rows, rows = 1;
    with_storage(storage, [&](auto tag) {
        using S = decltype(tag);
        const auto* p = static_cast<const S*>(in);
        const auto each = [&](auto row) {
            for (int64_t i = 0; i < planes; ++i)
                for (int64_t r = 0; r < rows; ++r)
                    row(out + i * plane_pitch + r * pitch, p + i * plane_stride + r * row_stride);
        };
        if constexpr (__is_same(T, float) && __is_same(S, float)) {
            if (stride == 1) return each([n](T* to, const S* from) { copy_row<true>(to, from, n); });
            if (stride == 2) return each([n](T* to, const S* from) { copy_even<true>(to, from, n); });
        }
        each([n, stride](T* to, const S* from) {
            load_row_of(to, from, stride, n);
            for (int64_t i = n; i % lanes<T>; ++i) to[i] = 0;
        });
    });
}
template <class T>
void store_planes(void* out, Storage storage, int64_t plane_stride, int64_t row_stride, int64_t stride, const T* in,
                  int64_t plane_pitch, int64_t pitch, int64_t planes, int64_t rows, int64_t n) {
    if (pitch == n && row_stride == n * stride) n *= rows, rows = 1;
    with_storage(storage, [&](auto tag) {
        using S = decltype(tag);
        for (int64_t i = 0; i < planes; ++i) {
            S* to = static_cast<S*>(out) + i * plane_stride;
            const T* from = in + i * plane_pitch;
            int64_t r = 0;
            if constexpr (__is_same(T, float) && __is_same(S, float)) {
                // What is written behind a row is the next one's place.
                if (stride == 1 && row_stride == n)
                    for (const int64_t last = rows * n - (n + lanes<T> - 1) / lanes<T> * lanes<T>; r * n <= last; ++r)
                        for (int64_t c = 0; c < n; c += lanes<T>) store(to + r * n + c, load(from + r * pitch + c));
            }
            for (; r < rows; ++r) store_row_of(to + r * row_stride, stride, from + r * pitch, n);
        }
    });
}

// Four rows of four numbers become columns.
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4u __attribute__((vector_size(16), aligned(4), may_alias));
inline void transpose_four(float* out, int64_t pitch, const float* in, int64_t stride) {
    const auto row = [&](int64_t i) -> f32x4 { return *reinterpret_cast<const f32x4u*>(in + i * stride); };
    const auto put = [&](int64_t i, f32x4 v) { *reinterpret_cast<f32x4u*>(out + i * pitch) = v; };
    const f32x4 a = row(0), b = row(1), c = row(2), d = row(3);
    const f32x4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const f32x4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    put(0, __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5));
    put(1, __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7));
    put(2, __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5));
    put(3, __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7));
}
// out[r·pitch + i] = in[i·stride + r]
inline void transpose(float* out, int64_t pitch, int64_t rows, const float* in, int64_t stride, int64_t n) {
    for (int64_t r = 0; r < rows; r += 4) {
        const int64_t block = rows - r < 4 ? rows - r : 4;
        int64_t i = 0;
        if (block == 4)
            for (; i + 4 <= n; i += 4) transpose_four(out + r * pitch + i, pitch, in + i * stride + r, stride);
        for (; i < n; ++i)
            for (int64_t b = 0; b < block; ++b) out[(r + b) * pitch + i] = in[i * stride + r + b];
    }
}

// Other types sixteen channels at a time: a block of pixels then stays in the first-level cache on both sides.
template <class T>
void load_transposed(T* __restrict out, int64_t pitch, int64_t rows, const void* in, Storage storage, int64_t stride,
                     int64_t n) {
    with_storage(storage, [&](auto tag) {
        const auto* p = static_cast<const decltype(tag)*>(in);
        if constexpr (__is_same(T, float) && __is_same(decltype(tag), float)) {
            // Pixels whose channels, far from one another as they may lie, stay in the first-level cache.
            for (int64_t i = 0; i < n; i += 16)
                transpose(out + i, pitch, rows, p + i * stride, stride, n - i < 16 ? n - i : 16);
            return;
        }
        for (int64_t r = 0; r < rows; r += 16) {
            const int64_t block = rows - r < 16 ? rows - r : 16;
            int64_t i = 0;
            if (block == 16) {
                for (; i + 4 <= n; i += 4)
                    for (int64_t b = 0; b < 16; ++b)
                        for (int64_t j = 0; j < 4; ++j)
                            out[(r + b) * pitch + i + j] = static_cast<T>(widen(p[(i + j) * stride + r + b]));
            }
            for (; i < n; ++i)
                for (int64_t b = 0; b < block; ++b)
                    out[(r + b) * pitch + i] = static_cast<T>(widen(p[i * stride + r + b]));
        }
    });
}

template <class T>
void store_transposed(void* out, Storage storage, int64_t stride, const T* __restrict in, int64_t pitch, int64_t rows,
                      int64_t n) {
    with_storage(storage, [&](auto tag) {
        using S = decltype(tag);
        S* p = static_cast<S*>(out);
        if constexpr (__is_same(T, float) && __is_same(S, float)) {
            transpose(p, stride, n, in, pitch, rows);  // a pixel's channels one behind the other
            return;
        }
        for (int64_t r = 0; r < rows; r += 16) {
            const int64_t block = rows - r < 16 ? rows - r : 16;
            if (block == 16) {
                for (int64_t i = 0; i < n; ++i)
                    for (int64_t b = 0; b < 16; ++b) p[i * stride + r + b] = narrow<S>(in[(r + b) * pitch + i]);
            } else {
                for (int64_t i = 0; i < n; ++i)
                    for (int64_t b = 0; b < block; ++b) p[i * stride + r + b] = narrow<S>(in[(r + b) * pitch + i]);
            }
        }
    });
}

// A period known to the compiler becomes one store of interleaved vectors.
template <class T, int period>
inline void interleave_by(T* __restrict out, const T* __restrict in, int64_t step, int64_t n) {
    for (int64_t u = 0; u < n; ++u)
        for (int r = 0; r < period; ++r) out[period * u + r] = in[r * step + u];
}
// Of x0 y0 x1 y1 …, the first and the second vector.
template <class V>
inline void zip(V x, V y, V& low, V& high) {
    if constexpr (sizeof(V) == 64) {
        low = __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        high = __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    } else if constexpr (sizeof(V) == 32) {
        low = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
        high = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
    } else {
        low = __builtin_shufflevector(x, y, 0, 4, 1, 5);
        high = __builtin_shufflevector(x, y, 2, 6, 3, 7);
    }
}
inline void interleave_pair(float* out, const float* a, const float* b, int64_t n) {
    constexpr int64_t all = lanes<float>;
    f32v low, high;
    for (; n >= all; n -= all, a += all, b += all, out += 2 * all) {
        zip(load(a), load(b), low, high);
        store(out, low);
        store(out + all, high);
    }
    if (n <= 0) return;
    zip(load_first(a, n), load_first(b, n), low, high);
    store_first(out, low, 2 * n < all ? 2 * n : all);
    if (2 * n > all) store_first(out + all, high, 2 * n - all);
}
template <class T>
void interleave(T* __restrict out, const T* __restrict in, int64_t step, int64_t period, int64_t n) {
    if constexpr (__is_same(T, float)) {
        if (period == 1) return copy_row(out, in, n);
        if (period == 2) return interleave_pair(out, in, in + step, n);
    }
    switch (period) {
        case 1:
            return interleave_by<T, 1>(out, in, step, n);
        case 2:
            return interleave_by<T, 2>(out, in, step, n);
        case 3:
            return interleave_by<T, 3>(out, in, step, n);
        case 4:
            return interleave_by<T, 4>(out, in, step, n);
        default:
            for (int64_t r = 0; r < period; ++r)
                for (int64_t u = 0; u < n; ++u) out[period * u + r] = in[r * step + u];
    }
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
