// The register-tiled product: rows of packed weights times vectors of staged pixels.
//
//     out[m][spot] (+)= Σ_k panel[k][m] · patch[spot.in + offsets[k] …]        m < rows, one vector of pixels per spot
//
// offsets[k] is the place of (input channel, tap) number k relative to a pixel, so one loop serves every lattice: taps,
// dilation, phases and dimensions all live in the table.
#pragma once

#include <type_traits>

#include "cpu/kernels/kernels.h"
#include "cpu/level/simd.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

// Weights of one block stay in the first-level cache while every spot of the tile passes by.
inline constexpr int64_t block_terms = 260;

// sum[m][v] += Σ_k weight[k][m] · pixel[v][offset[k]]. The offset of a term is fetched ahead, so that the loads never
// wait for it; both tables are readable two terms past their end.
template <class T, int rows, int vectors>
[[gnu::always_inline]] inline void accumulate(Vec<T> (&sum)[rows][vectors], const T* weight, const int32_t* offset,
                                              int64_t terms, const char* const (&pixel)[vectors]) {
    using V = Vec<T>;
    const auto at = [&](int v, int64_t bytes) { return load(reinterpret_cast<const T*>(pixel[v] + bytes)); };
    int64_t next = offset[0];
    for (int64_t k = 0; k < terms; ++k, weight += rows) {
        V b[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) b[v] = at(v, next);
        next = offset[k + 1];
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) {
            const V a = splat<T>(weight[m]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) sum[m][v] += a * b[v];
        }
    }
}

#if defined(__ARM_NEON) && !defined(__ARM_FEATURE_SVE_BITS)
template <int vectors>
[[gnu::always_inline]] inline void add_four(f32v (*sum)[vectors], f32v a, f32v b, int v) {
    // Multiply by a lane: one load brings four weights, no broadcast occupies a multiply pipe.
    sum[0][v] = vfmaq_laneq_f32(sum[0][v], b, a, 0);
    sum[1][v] = vfmaq_laneq_f32(sum[1][v], b, a, 1);
    sum[2][v] = vfmaq_laneq_f32(sum[2][v], b, a, 2);
    sum[3][v] = vfmaq_laneq_f32(sum[3][v], b, a, 3);
}

// The same, software-pipelined: each operand of the next term is loaded right after its last use in this one, so the
// multiply queue never fills with instructions that wait for a load. Measured on Neoverse-V1: 79 of 83 GFLOP/s, 58
// without. What the next group of spots will read is fetched meanwhile: rows of short images are too short for the
// machine to see that coming (8 % on 36 columns).
template <int vectors>
[[gnu::always_inline]] inline void accumulate(f32v (&sum)[8][vectors], const float* weight, const int32_t* offset,
                                              int64_t terms, const char* const (&pixel)[vectors]) {
    const auto at = [&](int v, int64_t bytes) { return load(reinterpret_cast<const float*>(pixel[v] + bytes)); };
    f32v low = load(weight), high = load(weight + 4), b[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) b[v] = at(v, offset[0]);
    int64_t next = offset[1];
    for (int64_t k = 0; k < terms; ++k) {
        const int64_t bytes = next;
        next = offset[k + 2];
        weight += 8;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) add_four<vectors>(sum, low, b[v], v);
        low = load(weight);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            add_four<vectors>(sum + 4, high, b[v], v);
            b[v] = at(v, bytes);
        }
        __builtin_prefetch(pixel[vectors - 1] + bytes + vectors * vector_bytes);
        high = load(weight + 4);
    }
}
template <int vectors>
[[gnu::always_inline]] inline void accumulate(f32v (&sum)[4][vectors], const float* weight, const int32_t* offset,
                                              int64_t terms, const char* const (&pixel)[vectors]) {
    for (int64_t k = 0; k < terms; ++k, weight += 4) {
        const f32v a = load(weight);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v)
            add_four<vectors>(sum, a, load(reinterpret_cast<const float*>(pixel[v] + offset[k])), v);
    }
}
#endif

// Sums become results, or are added to what these are so far.
template <class T, int rows, int vectors>
[[gnu::always_inline]] inline void put_sums(const Vec<T> (&sum)[rows][vectors], T* const (&row)[vectors], int64_t pitch,
                                            bool adds, const T* bias) {
    const auto put = [&](auto begins, auto shifts) {
#pragma GCC unroll 8
        for (int m = 0; m < rows; ++m) {
            const Vec<T> shift = splat<T>(shifts ? bias[m] : T(0));
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                T* out = row[v] + m * pitch;
                const Vec<T> total = begins ? sum[m][v] : sum[m][v] + load(out);
                store(out, shifts ? total + shift : total);
            }
        }
    };
    using Yes = std::true_type;
    using No = std::false_type;
    if (adds)
        bias ? put(No{}, Yes{}) : put(No{}, No{});
    else
        bias ? put(Yes{}, Yes{}) : put(Yes{}, No{});
}

template <class T, int rows, int vectors>
inline void product_spots(const Product<T>& p, const Spot* spots, int64_t first, int64_t terms) {
    using V = Vec<T>;
    const char* pixel[vectors];
    T* row[vectors];  // of the result; kept here, as a store might change what `p` holds
    const int64_t pitch = p.pitch;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
        row[v] = p.out + spots[v].out;
        pixel[v] = reinterpret_cast<const char*>(p.patch + spots[v].in);
        asm(""
            : "+r"(
                pixel[v]));  // one register each: the address of a load is then one addition, done by the load itself
    }
    // What the sums are added to is fetched while they are formed: between two chunks of input channels it may have
    // left the cache.
    if (p.accumulate || first > 0)
        for (int m = 0; m < rows; ++m) {
            __builtin_prefetch(row[0] + m * pitch, 1);
            __builtin_prefetch(row[vectors - 1] + m * pitch, 1);
        }
    const int64_t chunks = (terms + p.chain - 1) / p.chain;
    const int64_t length = (terms + chunks - 1) / chunks;
    for (int64_t begin = 0; begin < terms; begin += length) {
        const int64_t end = begin + length < terms ? begin + length : terms;
        V sum[rows][vectors] = {};
        accumulate(sum, p.panel + (first + begin) * rows, p.offsets + first + begin, end - begin, pixel);
        // The bias comes last: next to a large one every chunk would be rounded as coarsely as the result.
        put_sums(sum, row, pitch, p.accumulate || first + begin > 0, first + end == p.terms ? p.bias : nullptr);
    }
}

template <class T, int rows>
void product_rows(const Product<T>& p) {
    using V = Vec<T>;
    constexpr int vectors = rows >= 4 ? panel_vectors : rows == 2 ? 4 : 8;
    if (p.terms == 0) {  // a phase without taps: the bias alone
        if (p.accumulate && !p.bias) return;
        for (int m = 0; m < rows; ++m)
            for (int64_t s = 0; s < p.spots_count; ++s) {
                T* out = p.out + m * p.pitch + p.spots[s].out;
                const V bias = splat<T>(p.bias ? p.bias[m] : T(0));
                store(out, p.accumulate ? load(out) + bias : bias);
            }
        return;
    }
    const int64_t blocks = (p.terms + block_terms - 1) / block_terms;
    const int64_t length = (p.terms + blocks - 1) / blocks;
    for (int64_t first = 0; first < p.terms; first += length) {
        const int64_t terms = first + length < p.terms ? length : p.terms - first;
        // The weights of the next block are fetched meanwhile, a few lines with every group of spots.
        constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(T));
        const bool last = first + terms == p.terms;
        const T* ahead = last ? p.next : p.panel + (first + terms) * rows;
        const int64_t wanted =
            last ? (p.next_count < block_terms * rows ? p.next_count : block_terms * rows) : length * rows;
        const T* const ahead_end = ahead + wanted;
        const int64_t groups = p.spots_count / vectors + 1, share = (wanted / line + groups - 1) / groups;
        const auto fetch = [&] {
            for (int64_t i = 0; i < share && ahead < ahead_end; ++i, ahead += line) __builtin_prefetch(ahead, 0, 2);
        };
        int64_t s = 0;
        // A last group of one vector would run at a third of the speed: end with two pairs instead.
        for (; s + vectors <= p.spots_count && p.spots_count - s != vectors + 1; s += vectors) {
            fetch();
            product_spots<T, rows, vectors>(p, p.spots + s, first, terms);
        }
        for (; s + 2 <= p.spots_count; s += 2) product_spots<T, rows, 2>(p, p.spots + s, first, terms);
        for (; s < p.spots_count; ++s) product_spots<T, rows, 1>(p, p.spots + s, first, terms);
    }
}

template <class T>
void product(const Product<T>& p) {
    switch (p.rows) {
        case 8:
            if constexpr (panel_rows == 8)
                return product_rows<T, 8>(p);
            else
                __builtin_unreachable();
        case 4:
            return product_rows<T, 4>(p);
        case 2:
            return product_rows<T, 2>(p);
        default:
            return product_rows<T, 1>(p);
    }
}

template <class T, int rows, int vectors>
void line_vectors(const LineProduct<T>& p, int64_t first) {
    const char* pixel[vectors];
    T* row[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
        row[v] = p.out + (first + v) * lanes<T>;
        pixel[v] = reinterpret_cast<const char*>(p.pixels + (first + v) * lanes<T>);
        if (rows >= 4) asm("" : "+r"(pixel[v]));  // as in product_spots
    }
    const T *weight = p.weight, *bias = p.bias;
    const int64_t terms = p.terms, pitch = p.pitch;
    const int64_t share = p.far && first + vectors < p.vectors ? (terms + p.panels - 1) / p.panels : 0;
    for (int64_t panel = 0, ahead = 0; panel < p.panels; ++panel, weight += terms * rows) {
        for (int64_t end = ahead + share < terms ? ahead + share : terms; ahead < end && share > 0; ++ahead)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v)
                __builtin_prefetch(pixel[v] + vectors * vector_bytes + p.offsets[ahead], 0, 2);
        if (p.accumulate)
            for (int m = 0; m < rows; ++m) {
                __builtin_prefetch(row[0] + m * pitch, 1);
                __builtin_prefetch(row[vectors - 1] + m * pitch, 1);
            }
        Vec<T> sum[rows][vectors] = {};
        accumulate(sum, weight, p.offsets, terms, pixel);
        put_sums(sum, row, pitch, p.accumulate, bias);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) row[v] += rows * pitch;
        if (bias) bias += rows;
    }
}

// `count` vectors from `first` on, of at most `most`.
template <class T, int rows, int most>
void line_vectors_of(const LineProduct<T>& p, int64_t first, int64_t count) {
    if constexpr (most > 1)
        if (count < most) return line_vectors_of<T, rows, most - 1>(p, first, count);
    line_vectors<T, rows, most>(p, first);
}

template <class T, int rows>
void line_rows(const LineProduct<T>& p) {
    constexpr int64_t most = rows >= panel_rows ? panel_vectors : rows == 4 ? 2 * panel_vectors : 8;
    // As even as can be: a last vector by itself would run at a third of the speed.
    const int64_t pieces = (p.vectors + most - 1) / most;
    int64_t first = 0;
    for (int64_t i = 0; i < pieces; ++i) {
        const int64_t count = (p.vectors - first + pieces - i - 1) / (pieces - i);
        line_vectors_of<T, rows, most>(p, first, count);
        first += count;
    }
}

template <class T>
void line_product(const LineProduct<T>& p) {
    switch (p.rows) {
        case 8:
            if constexpr (panel_rows == 8)
                return line_rows<T, 8>(p);
            else
                __builtin_unreachable();
        case 4:
            return line_rows<T, 4>(p);
        case 2:
            return line_rows<T, 2>(p);
        default:
            return line_rows<T, 1>(p);
    }
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
