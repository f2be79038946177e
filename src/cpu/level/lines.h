// Lines of pixels (line_geometry.h): from a channel of the input, and into planes of the result; their weights.
#pragma once

#include "cpu/kernels/kernels.h"
#include "cpu/level/convert.h"
#include "cpu/level/simd.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

// to[i] = a[i] + sign·b[i] for whole vectors that cover n, in `rows` rows.
template <class T, int sign>
inline void combine_signed(T* to, const T* a, const T* b, int64_t n, int64_t rows, int64_t pitch, int64_t between) {
    const auto put = [](T* out, const T* p, const T* q) {
        store(out, sign == 0 ? load(p) : sign > 0 ? load(p) + load(q) : load(p) - load(q));
    };
    if (n <= lanes<T>)
        for (int64_t r = 0; r < rows; ++r) put(to + r * pitch, a + r * between, b + r * between);
    else
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < n; i += lanes<T>) put(to + r * pitch + i, a + r * between + i, b + r * between + i);
}
template <class T>
inline void combine_rows(T* to, const T* a, const T* b, int sign, int64_t n, int64_t rows, int64_t pitch,
                         int64_t between) {
    if (sign == 0)
        combine_signed<T, 0>(to, a, b, n, rows, pitch, between);
    else if (sign > 0)
        combine_signed<T, 1>(to, a, b, n, rows, pitch, between);
    else
        combine_signed<T, -1>(to, a, b, n, rows, pitch, between);
}

// The lines of one plane of x, for all t1: rows are combined first, then their columns.
template <class T>
inline void expand_plane(const Expand<T>& e, const T* plane, T* out, T* room) {
    const int64_t width = e.extent[2];
    for (int64_t l1 = 0; l1 < e.count[1]; ++l1) {
        const PairRow of = e.lines[1][l1];
        const T* rows = plane + of.a * e.row;
        int64_t between = e.step[1] * e.row;
        if (of.sign != 0) {
            combine_rows(room, rows, plane + of.b * e.row, of.sign, e.row, e.extent[1], e.row, between);
            rows = room;
            between = e.row;
        }
        for (int64_t l2 = 0; l2 < e.count[2]; ++l2, out += e.pitch) {
            const PairRow column = e.lines[2][l2];
            combine_rows(out, rows + column.a, rows + column.b, column.sign, width, e.extent[1], width, between);
        }
    }
}

template <class T>
void expand(const Expand<T>& given) {
    const Expand<T> e = given;
    const int64_t pixels = e.extent[1] * e.extent[2];
    T* rows = e.room + e.plane + row_padding;
    for (int64_t l0 = 0; l0 < e.count[0]; ++l0)
        for (int64_t t0 = 0; t0 < e.extent[0]; ++t0) {
            const PairRow of = e.lines[0][l0];
            const T* plane = e.x + (e.step[0] * t0 + of.a) * e.plane;
            if (of.sign != 0) {
                combine_rows(e.room, plane, e.x + (e.step[0] * t0 + of.b) * e.plane, of.sign, e.plane, 1, 0, 0);
                plane = e.room;
            }
            expand_plane(e, plane, e.out + l0 * e.count[1] * e.count[2] * e.pitch + t0 * pixels, rows);
        }
}

template <class T>
void spread(const Spread<T>& given) {
    const Spread<T> s = given;
    const int64_t period = s.period[2], whole = s.size[2] / period, rest = s.size[2] % period;
    T* out = s.out;
    // Output o = period·t + residue of an axis; a division for every row would take longer than the row.
    for (int64_t o0 = 0, r0 = 0, t0 = 0; o0 < s.size[0]; ++o0) {
        for (int64_t o1 = 0, r1 = 0, t1 = 0; o1 < s.size[1]; ++o1, out += s.row) {
            const T* in = s.lines + (r0 * s.period[1] + r1) * period * s.pitch + (t0 * s.extent[1] + t1) * s.extent[2];
            interleave(out, in, s.pitch, period, whole);
            for (int64_t r = 0; r < rest; ++r) out[period * whole + r] = in[r * s.pitch + whole];
            if (++r1 == s.period[1]) r1 = 0, ++t1;
        }
        if (++r0 == s.period[0]) r0 = 0, ++t0;
    }
}

// Sums of weights are formed in fp64: they are rounded once, as the weights themselves were.
template <class T, int rows>
inline void mix_rows(const MixTaps<T>& m) {
    T* out = m.out;
    for (int64_t c = 0; c < m.channels; ++c) {
        const T* in = m.in + c * m.taps * rows;
        for (int64_t t = 0; t < m.terms; ++t, out += rows) {
            const int32_t begin = m.first[t], end = m.first[t + 1];
            if (end - begin == 1 && m.factor[begin] == 1) {
                for (int r = 0; r < rows; ++r) out[r] = in[m.tap[begin] * rows + r];
                continue;
            }
            double sum[rows] = {};
            for (int32_t s = begin; s < end; ++s)
                for (int r = 0; r < rows; ++r) sum[r] += m.factor[s] * static_cast<double>(in[m.tap[s] * rows + r]);
            for (int r = 0; r < rows; ++r) out[r] = static_cast<T>(sum[r]);
        }
    }
}
template <class T>
void mix_taps(const MixTaps<T>& given) {
    const MixTaps<T> m = given;
    switch (m.rows) {
        case 8:
            return mix_rows<T, 8>(m);
        case 4:
            return mix_rows<T, 4>(m);
        case 2:
            return mix_rows<T, 2>(m);
        default:
            return mix_rows<T, 1>(m);
    }
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
