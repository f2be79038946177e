// Lines of pixels (line_geometry.h): from a channel of the input, and into planes of the result; their weights.
#pragma once

#include "cpu/kernels/kernels.h"
#include "cpu/level/convert.h"
#include "cpu/level/simd.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

// to[i] = a[i] + sign·b[i] for whole vectors that cover n.
template <class T>
inline void combine_line(T* to, const T* a, const T* b, int sign, int64_t n) {
    if (sign == 0)
        for (int64_t i = 0; i < n; i += lanes<T>) store(to + i, load(a + i));
    else if (sign > 0)
        for (int64_t i = 0; i < n; i += lanes<T>) store(to + i, load(a + i) + load(b + i));
    else
        for (int64_t i = 0; i < n; i += lanes<T>) store(to + i, load(a + i) - load(b + i));
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
            for (int64_t t1 = 0; t1 < e.extent[1]; ++t1)
                combine_line(room + t1 * e.row, rows + t1 * between, plane + of.b * e.row + t1 * between, of.sign,
                             e.row);
            rows = room;
            between = e.row;
        }
        for (int64_t l2 = 0; l2 < e.count[2]; ++l2, out += e.pitch) {
            const PairRow column = e.lines[2][l2];
            const T* a = rows + column.a % e.step[2] * e.residue + column.a / e.step[2];
            const T* b = rows + column.b % e.step[2] * e.residue + column.b / e.step[2];
            for (int64_t t1 = 0; t1 < e.extent[1]; ++t1)
                combine_line(out + t1 * width, a + t1 * between, b + t1 * between, column.sign, width);
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
                combine_line(e.room, plane, e.x + (e.step[0] * t0 + of.b) * e.plane, of.sign, e.plane);
                plane = e.room;
            }
            expand_plane(e, plane, e.out + l0 * e.count[1] * e.count[2] * e.pitch + t0 * pixels, rows);
        }
}

template <class T>
void spread(const Spread<T>& given) {
    const Spread<T> s = given;
    const int64_t period = s.period[2], whole = s.size[2] / period;
    T* out = s.out;
    for (int64_t o0 = 0; o0 < s.size[0]; ++o0)
        for (int64_t o1 = 0; o1 < s.size[1]; ++o1, out += s.row) {
            const int64_t line = (o0 % s.period[0] * s.period[1] + o1 % s.period[1]) * period;
            const T* in = s.lines + line * s.pitch + (o0 / s.period[0] * s.extent[1] + o1 / s.period[1]) * s.extent[2];
            interleave(out, in, s.pitch, period, whole);
            for (int64_t r = 0; r < s.size[2] % period; ++r) out[period * whole + r] = in[r * s.pitch + whole];
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
