// Channels that depend on one input channel each. Planes: rows of the input are loaded once for all taps above one
// another, sums of a block of rows stay in registers. Channels side by side: a few pixels of a few vectors of channels.
#pragma once

#include "cpu/kernels/kernels.h"
#include "cpu/level/simd.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

// sum[r][v] += Σ_n weight[n] · x[r + n][v]
template <class T, int rows, int vectors, int taps>
[[gnu::always_inline]] inline void add_run(Vec<T> (&sum)[rows][vectors], const T* weight, const T* x, int64_t row) {
    Vec<T> w[taps];
#pragma GCC unroll 4
    for (int n = 0; n < taps; ++n) w[n] = splat<T>(weight[n]);
#pragma GCC unroll 16
    for (int i = 0; i < rows + taps - 1; ++i, x += row)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            const Vec<T> b = load(x + v * lanes<T>);
#pragma GCC unroll 4
            for (int n = 0; n < taps; ++n)
                if (i >= n && i - n < rows) sum[i - n][v] += w[n] * b;
        }
}

template <class T, int rows, int vectors>
void channel_block(const ChannelRows<T>& c, const T* x, T* out) {
    Vec<T> sum[rows][vectors] = {};
    const T* weight = c.weights;
    const int64_t row = c.row;
    for (const TapRun *run = c.runs, *end = run + c.run_count; run != end; weight += run->taps, ++run) {
        const T* from = x + run->offset;
        switch (run->taps) {
            case 1:
                add_run<T, rows, vectors, 1>(sum, weight, from, row);
                break;
            case 2:
                add_run<T, rows, vectors, 2>(sum, weight, from, row);
                break;
            case 3:
                add_run<T, rows, vectors, 3>(sum, weight, from, row);
                break;
            default:
                add_run<T, rows, vectors, 4>(sum, weight, from, row);
        }
    }
    const Vec<T> bias = splat<T>(c.bias);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r, out += c.pitch)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) store(out + v * lanes<T>, sum[r][v] + bias);
}

// So many sums wait for no product to end, and leave registers for a run of weights.
inline constexpr int channel_sums = panel_rows == 8 ? 16 : 8;

template <class T, int rows, int most>
void channel_columns(const ChannelRows<T>& c, const T* x, T* out, int64_t vectors) {
    for (; vectors >= most; vectors -= most, x += most * lanes<T>, out += most * lanes<T>)
        channel_block<T, rows, most>(c, x, out);
    if constexpr (most > 1)
        if (vectors > 0) channel_columns<T, rows, most / 2>(c, x, out, vectors);
}

template <class T, int most>
void channel_rows_of(const ChannelRows<T>& c, int64_t first, int64_t rows) {
    if constexpr (most > 1)
        if (rows < most) return channel_rows_of<T, most - 1>(c, first, rows);
    constexpr int share = channel_sums / most;
    channel_columns<T, most,
                    (share >= 8   ? 8
                     : share >= 4 ? 4
                     : share >= 2 ? 2
                                  : 1)>(c, c.x + first * c.row, c.out + first * c.pitch, c.vectors);
}

template <class T>
void channel_rows(const ChannelRows<T>& given) {
    const ChannelRows<T> c = given;
    const int32_t most = c.vectors == 1 || channel_sums >= 16 ? 8 : 4, all = static_cast<int32_t>(c.rows);
    if (all <= most) return channel_rows_of<T, 8>(c, 0, all);
    const int32_t pieces = (all + most - 1) / most;
    for (int32_t i = 0, first = 0; i < pieces; ++i) {
        const int32_t rows = (all - first + pieces - i - 1) / (pieces - i);  // as even as can be
        channel_rows_of<T, 8>(c, first, rows);
        first += rows;
    }
}

// Pixels from u on, channels from c on; of the last vector of channels `n`. `inside`: every tap meets the row.
template <int pixels, int vectors, bool inside, bool whole>
inline void pixel_block(const PixelRow& p, int64_t u, int64_t c, int64_t n) {
    constexpr int all = lanes<float>;
    const auto at = [n](const float* from) { return whole ? load(from) : load_first(from, n); };
    f32v sum[pixels][vectors] = {};
    const int64_t step = p.advance * p.pixel;
    for (int64_t t = 0; t < p.count; ++t) {
        const PixelTap tap = p.taps[t];
        const int64_t column = p.advance * u + tap.column;
        if (!inside && (column < 0 || column >= p.columns)) continue;
        const float *x = p.x + tap.row + column * p.pixel + c, *weight = p.weights + tap.weight * p.weight_pitch + c;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            const f32v w = load(weight + v * all);
#pragma GCC unroll 8
            for (int i = 0; i < pixels; ++i) sum[i][v] += w * at(x + i * step + v * all);
        }
    }
    float* out = p.out + u * p.channels + c;
#pragma GCC unroll 8
    for (int i = 0; i < pixels; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            const f32v y = p.bias ? sum[i][v] + load(p.bias + c + v * all) : sum[i][v];
            float* to = out + i * p.channels + v * all;
            whole ? store(to, y) : store_first(to, y, n);
        }
}

template <int vectors, bool whole>
void pixel_columns(const PixelRow& p, int64_t first, int64_t last, int64_t c, int64_t n) {
    constexpr int most = channel_sums / vectors > 8 ? 8 : channel_sums / vectors;
    int64_t u = 0;
    for (; u < first; ++u) pixel_block<1, vectors, false, whole>(p, u, c, n);
    for (; u + most <= last; u += most) pixel_block<most, vectors, true, whole>(p, u, c, n);
    for (; u < last; ++u) pixel_block<1, vectors, true, whole>(p, u, c, n);
    for (; u < p.pixels; ++u) pixel_block<1, vectors, false, whole>(p, u, c, n);
}

inline void pixel_row(const PixelRow& given) {
    const PixelRow p = given;
    // Pixels that every tap meets: first … last.
    int64_t first = 0, last = p.pixels;
    for (int64_t t = 0; t < p.count; ++t) {
        const int64_t column = p.taps[t].column;
        while (first < p.pixels && p.advance * first + column < 0) ++first;
        while (last > 0 && p.advance * (last - 1) + column >= p.columns) --last;
    }
    if (last < first) last = first;
    constexpr int64_t all = lanes<float>;
    int64_t c = 0;
    for (; c + 4 * all <= p.channels; c += 4 * all) pixel_columns<4, true>(p, first, last, c, all);
    for (; c + all <= p.channels; c += all) pixel_columns<1, true>(p, first, last, c, all);
    if (c < p.channels) pixel_columns<1, false>(p, first, last, c, p.channels - c);
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
