#include "cpu/dense/dense_rows.h"

#include "algebra/lattice/integer.h"
#include "cpu/kernels/kernels.h"

namespace transfuse::cpu {
namespace {

// One channel of one residue.
template <class T>
struct Merge {
    const DenseGeometry& g;
    const DenseGeometry::Parts& parts;
    T* sums;
    T* to;
    const Box& box;
    int64_t phase_pitch;
    T bias;
    std::array<int64_t, 3> count;

    T* place(int64_t u1, int64_t u2) const {
        if (u1 >= count[0] || u2 >= count[1]) return nullptr;
        const int64_t row = g.row_of(parts.residue, u1, u2, box);
        return to + (g.period[2] > 1 ? (parts.residue[2] * box.rows() + row) * phase_pitch : row * box.pitch);
    }
    // Products whose vectors run across the ends of rows may end before the last vector of the last row does.
    void clear_behind_sums() const {
        const int64_t lanes = kernels<T>().lanes, last = ((count[1] + 1) / 2 - 1) * g.sum_row_stride;
        const int64_t written = round_up(last + count[2], lanes), read = last + round_up(count[2], lanes);
        const int64_t planes = g.planes_paired ? (count[0] + 1) / 2 : count[0];
        for (const auto& of_plane : parts.phase)
            for (int64_t phase : of_plane)
                for (int64_t s = 0; phase >= 0 && s < planes; ++s)
                    for (int64_t i = written; i < read; ++i)
                        sums[phase * g.product_stride + s * g.sum_plane_stride + i] = 0;
    }
    // The two rows of pair t that play `plane` among the planes of pair s (or lie in plane s).
    bool merge_rows(size_t plane, int64_t s, int64_t t, T* even, T* odd, T added) const {
        const T* of_part[pair_parts];
        for (size_t i = 0; i < pair_parts; ++i)
            of_part[i] = parts.phase[plane][i] < 0 ? nullptr
                                                   : sums + parts.phase[plane][i] * g.product_stride +
                                                         s * g.sum_plane_stride + t * g.sum_row_stride;
        return kernels<T>().merge_pair(even, odd, of_part, added, count[2]);
    }
    // Rows first, into `rows`; then the planes that these rows play parts of.
    bool merge_planes(int64_t s, int64_t t, T* rows) const {
        const int64_t width = padded(count[2]);
        for (size_t plane = 0; plane < pair_parts; ++plane) {
            T* even = rows + 2 * static_cast<int64_t>(plane) * width;
            merge_rows(plane, s, t, even, even + width, T(0));
        }
        bool finite = true;
        for (int64_t u2 = 2 * t; u2 < std::min(2 * t + 2, count[1]); ++u2) {
            const T* of_part[pair_parts];
            for (size_t i = 0; i < pair_parts; ++i) of_part[i] = rows + (2 * static_cast<int64_t>(i) + u2 % 2) * width;
            finite &= kernels<T>().merge_pair(place(2 * s, u2), place(2 * s + 1, u2), of_part, bias, count[2]);
        }
        return finite;
    }
};

}  // namespace

template <class T>
bool merge_pairs(const DenseGeometry& g, const Destination<T>& from, const Destination<T>& to, const Box& box,
                 int64_t phase_pitch, const T* bias, int64_t channels, T* rows) {
    bool finite = true;
    for (int64_t c = 0; c < channels; ++c)
        for (const DenseGeometry::Parts& parts : g.parts) {
            Merge<T> merge{g,   parts,       from.data + c * from.pitch, to.data + c * to.pitch,
                           box, phase_pitch, bias ? bias[c] : T(0),      {}};
            for (size_t a = 0; a < 3; ++a) merge.count[a] = g.u_count(a, box.extent[a], parts.residue[a]);
            if (g.flat) merge.clear_behind_sums();
            for (int64_t t = 0; 2 * t < merge.count[1]; ++t) {
                if (g.planes_paired)
                    for (int64_t s = 0; 2 * s < merge.count[0]; ++s) finite &= merge.merge_planes(s, t, rows);
                else
                    for (int64_t u1 = 0; u1 < merge.count[0]; ++u1)
                        finite &=
                            merge.merge_rows(0, u1, t, merge.place(u1, 2 * t), merge.place(u1, 2 * t + 1), merge.bias);
            }
        }
    return finite;
}

template <class T>
void interleave_phases(const DenseGeometry& g, const Destination<T>& from, T* planes, const Box& box,
                       int64_t phase_pitch, int64_t channels) {
    const int64_t period = g.period[2];
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t row = 0; row < box.rows(); ++row) {
            T* out = planes + c * box.elements() + row * box.pitch;
            const T* in = from.data + c * from.pitch + row * phase_pitch;
            const int64_t step = box.rows() * phase_pitch;  // from residue to residue
            const int64_t whole = box.width() / period;
            kernels<T>().interleave(out, in, step, period, whole);
            for (int64_t r = 0; r < box.width() % period; ++r) out[period * whole + r] = in[r * step + whole];
        }
}

template bool merge_pairs(const DenseGeometry&, const Destination<float>&, const Destination<float>&, const Box&,
                          int64_t, const float*, int64_t, float*);
template bool merge_pairs(const DenseGeometry&, const Destination<double>&, const Destination<double>&, const Box&,
                          int64_t, const double*, int64_t, double*);
template void interleave_phases(const DenseGeometry&, const Destination<float>&, float*, const Box&, int64_t, int64_t);
template void interleave_phases(const DenseGeometry&, const Destination<double>&, double*, const Box&, int64_t,
                                int64_t);

}  // namespace transfuse::cpu
