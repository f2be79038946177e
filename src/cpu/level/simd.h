// Vectors of one instruction-set level. Every file in level/ is compiled once per level, with TRANSFUSE_LEVEL naming
// the namespace; nothing here may instantiate templates of the standard library (the linker would merge them across
// levels, and a baseline machine could end up in AVX-512 code).
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef TRANSFUSE_LEVEL
#error "compile the files of level/ with -DTRANSFUSE_LEVEL=<namespace>"
#endif

namespace transfuse::cpu::TRANSFUSE_LEVEL {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__) || (defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 256)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

// Registers the product kernel may fill: 32 wide ones let it hold an 8×3 tile of accumulators, 16 a 4×3 tile.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int panel_rows = 8;
#else
inline constexpr int panel_rows = 4;
#endif
inline constexpr int panel_vectors = 3;

typedef float f32v __attribute__((vector_size(vector_bytes)));
typedef double f64v __attribute__((vector_size(vector_bytes)));
typedef int32_t i32v __attribute__((vector_size(vector_bytes)));
typedef uint32_t u32v __attribute__((vector_size(vector_bytes)));
typedef int64_t i64v __attribute__((vector_size(vector_bytes)));

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
    using type = f32v;
    using mask = i32v;
};
template <>
struct VectorOf<double> {
    using type = f64v;
    using mask = i64v;
};
template <class T>
using Vec = typename VectorOf<T>::type;
template <class T>
inline constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

// Unaligned, and allowed to alias: a plain dereference keeps the value in a vector register (a memcpy need not).
typedef float f32u __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
typedef double f64u __attribute__((vector_size(vector_bytes), aligned(8), may_alias));
inline f32v load(const float* p) { return *reinterpret_cast<const f32u*>(p); }
inline f64v load(const double* p) { return *reinterpret_cast<const f64u*>(p); }
inline void store(float* p, f32v v) { *reinterpret_cast<f32u*>(p) = v; }
inline void store(double* p, f64v v) { *reinterpret_cast<f64u*>(p) = v; }
template <class T>
inline Vec<T> splat(T x) {
    return x - Vec<T>{};
}

// The first n of a vector's numbers, 0 ≤ n ≤ lanes: nothing behind them is touched. What is not loaded is zero.
#if defined(__AVX512F__)
inline __mmask16 first_of(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
inline f32v load_first(const float* p, int64_t n) { return (f32v)_mm512_maskz_loadu_ps(first_of(n), p); }
inline void store_first(float* p, f32v v, int64_t n) { _mm512_mask_storeu_ps(p, first_of(n), (__m512)v); }
#elif defined(__AVX2__)
inline __m256i first_of(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline f32v load_first(const float* p, int64_t n) { return (f32v)_mm256_maskload_ps(p, first_of(n)); }
inline void store_first(float* p, f32v v, int64_t n) { _mm256_maskstore_ps(p, first_of(n), (__m256)v); }
#else
inline f32v load_first(const float* p, int64_t n) {
    f32v v{};
    for (int i = 0; i < lanes<float>; ++i)
        if (i < n) v[i] = p[i];
    return v;
}
inline void store_first(float* p, f32v v, int64_t n) {
    for (int i = 0; i < lanes<float>; ++i)
        if (i < n) p[i] = v[i];
}
#endif

inline f32v select(i32v mask, f32v a, f32v b) { return mask ? a : b; }
inline f64v select(i64v mask, f64v a, f64v b) { return mask ? a : b; }
// A cast between vectors keeps the bits.
inline i32v bits(f32v v) { return (i32v)v; }
inline f32v as_float(i32v v) { return (f32v)v; }
inline i64v bits(f64v v) { return (i64v)v; }
inline f32v to_float(i32v v) { return __builtin_convertvector(v, f32v); }
inline i32v to_int(f32v v) { return __builtin_convertvector(v, i32v); }

inline f32v abs(f32v v) { return as_float(bits(v) & 0x7fffffff); }
inline f64v abs(f64v v) { return (f64v)(bits(v) & 0x7fffffffffffffff); }
// PyTorch's: a NaN on either side is kept.
template <class V>
inline V maximum(V a, V b) {
    return select((a > b) | (a != a), a, b);
}
template <class V>
inline V minimum(V a, V b) {
    return select((a < b) | (a != a), a, b);
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
