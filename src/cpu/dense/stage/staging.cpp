#include "cpu/dense/stage/staging.h"

#include <algorithm>

#include "algebra/lattice/integer.h"

namespace transfuse::cpu {
namespace {

template <class T>
constexpr Storage storage_of = sizeof(T) == 8 ? Storage::f64 : Storage::f32;

// Columns q with 0 ≤ base + advance·q + residue < in, clipped to [0, columns).
struct Range {
    int64_t begin, end;
    Range(int64_t base, int64_t advance, int64_t residue, int64_t in, int64_t columns) {
        begin = std::clamp<int64_t>(ceil_div(-base - residue, advance), 0, columns);
        end = std::clamp<int64_t>(ceil_div(in - base - residue, advance), begin, columns);
    }
};

constexpr int64_t channels_at_once = 16;  // staged before they are paired: what a transposing load takes

}  // namespace

template <class T>
Stager<T>::Stager(const DenseGeometry& geometry, const Placed& x, const TileProgram* prologue,
                  const BoundProgram* bound, int prologue_slot, Scratch& scratch)
    : geometry_(geometry), x_(x), slot_(prologue_slot) {
    if (geometry.paired) {
        const int64_t channels = std::min(channels_at_once, geometry.chunk);
        staged_ = scratch.acquire<T>(channels * geometry.staged_channel_stride + 2 * row_padding);
        if (geometry.planes_paired)
            waiting_ = scratch.acquire<T>(geometry.patch[0] * geometry.plane_stride + row_padding);
    }
    if (!prologue) return;
    const int64_t longest = std::min(geometry.x[4], geometry.advance[2] * geometry.patch[2]);
    const Box box = Box::of(0, {0, 0, 0}, {1, 1, longest});
    run_ = std::make_unique<TileRun<T>>(*prologue, *bound, scratch, box, box, 0, 1);
    whole_row_ = scratch.acquire<T>(padded(longest));
}

template <class T>
void Stager<T>::stage(T* patch, const Box& tile, int64_t first, int64_t count) {
    const DenseGeometry& g = geometry_;
    if (!g.paired) return stage_rows(patch, g.plane_stride, g.channel_stride, tile, first, count);
    for (int64_t c = 0; c < count; c += channels_at_once) {
        const int64_t channels = std::min(channels_at_once, count - c);
        stage_rows(staged_, g.staged_plane_stride, g.staged_channel_stride, tile, first + c, channels);
        for (int64_t i = 0; i < channels; ++i) {
            T* to = patch + (c + i) * g.channel_stride;
            pair_rows(g.planes_paired ? waiting_ : to, staged_ + i * g.staged_channel_stride, tile);
            if (g.planes_paired) pair_planes(to, tile);
        }
    }
}

template <class T>
int64_t Stager<T>::input_planes(const Box& tile) const {
    int64_t u = ceil_div(tile.extent[0], geometry_.period[0]);
    if (geometry_.planes_paired) u += u % 2;
    return geometry_.advance[0] * (u - 1) + geometry_.span[0] + 1;
}

// a + sign·b, or a alone, of `count` elements.
template <class T>
static void combine(T* to, const PairRow& pair, const T* a, const T* b, int64_t count) {
    const RowOp op = pair.sign == 0 ? RowOp::copy : pair.sign > 0 ? RowOp::add : RowOp::sub;
    kernels<T>().row(op, {to, {a, b, nullptr}, {false, false, false}, {0, 0}, count});
}

template <class T>
void Stager<T>::pair_rows(T* planes, const T* rows, const Box& tile) const {
    const DenseGeometry& g = geometry_;
    const int64_t u = ceil_div(tile.extent[1], g.period[1]);
    const int64_t elements = (u + 1) / 2 * g.row_stride + g.overhang;
    for (int64_t p1 = 0; p1 < input_planes(tile); ++p1) {
        const T* from = rows + p1 * g.staged_plane_stride;
        T* to = planes + p1 * g.plane_stride;
        for (const PairRow& row : g.pair_rows) {
            combine(to, row, from + g.staged_row(row.a), from + g.staged_row(row.b), elements);
            std::fill(to + elements, to + g.pair_row_stride, T(0));
            to += g.pair_row_stride;
        }
        std::fill_n(to, row_padding, T(0));
    }
}

template <class T>
void Stager<T>::pair_planes(T* patch, const Box& tile) const {
    const DenseGeometry& g = geometry_;
    const int64_t u = ceil_div(tile.extent[0], g.period[0]);
    for (const PairRow& pair : g.pair_planes) {
        for (int64_t s = 0; 2 * s < u; ++s)
            combine(patch + s * g.plane_stride, pair, waiting_ + (2 * s + pair.a) * g.plane_stride,
                    waiting_ + (2 * s + pair.b) * g.plane_stride, g.plane_stride);
        std::fill_n(patch + (u + 1) / 2 * g.plane_stride, row_padding, T(0));
        patch += g.pair_plane_stride;
    }
}

template <class T>
void Stager<T>::stage_rows(T* patch, int64_t plane_stride, int64_t channel_stride, const Box& tile, int64_t first,
                           int64_t count) {
    const DenseGeometry& g = geometry_;
    const Kernels<T>& k = kernels<T>();
    std::array<int64_t, 3> base, extent;
    for (size_t a = 0; a < 3; ++a) {
        int64_t u = ceil_div(tile.extent[a], g.period[a]);
        if ((a == 1 && g.paired) || (a == 0 && g.planes_paired)) u += u % 2;
        base[a] = g.advance[a] * (tile.origin[a] / g.period[a]) + g.shift[a];
        extent[a] = a < 2 ? g.advance[a] * (u - 1) + g.span[a] + 1 : u + g.span[a] / g.advance[a];
    }
    const int64_t advance = g.advance[2], pitch = g.row_stride / advance, columns = extent[2];
    // Products read whole vectors: beyond the columns of a row, and so into the row that follows. Behind the last row
    // of each run of rows nothing follows.
    const int64_t behind = std::max(columns, g.paired ? pitch : std::min(pitch, columns + row_padding));
    for (int64_t c = 0; c < count; ++c)
        for (int64_t p1 = 0; p1 < extent[0]; ++p1)
            for (int64_t p2 = extent[1] - (g.paired ? 2 : 1); p2 < extent[1]; ++p2)
                std::fill_n(
                    patch + c * channel_stride + p1 * plane_stride + g.staged_row(p2) + g.row_stride + g.overhang,
                    row_padding, T(0));
    const bool transposed = x_.channels_innermost() && count > 1 && !run_;
    for (int64_t p1 = 0; p1 < extent[0]; ++p1)
        for (int64_t p2 = 0; p2 < extent[1]; ++p2) {
            const int64_t i1 = base[0] + p1, i2 = base[1] + p2;
            T* first_row = patch + p1 * plane_stride + g.staged_row(p2);
            const bool outside = i1 < 0 || i1 >= g.x[2] || i2 < 0 || i2 >= g.x[3];
            for (int64_t residue = 0; residue < advance; ++residue) {
                T* rows = first_row + residue * pitch;
                const Range inside(base[2], advance, residue, g.x[4], outside ? 0 : columns);
                const int64_t n = inside.end - inside.begin, i3 = base[2] + advance * inside.begin + residue;
                for (int64_t c = 0; c < count; ++c) {
                    T* row = rows + c * channel_stride;
                    std::fill(row, row + inside.begin, T(0));
                    std::fill(row + inside.end, row + behind, T(0));
                    if (n == 0 || transposed || run_) continue;
                    k.load(row + inside.begin, x_.at(tile.n, first + c, i1, i2, i3), x_.storage,
                           advance * x_.strides[4], n);
                }
                if (n > 0 && transposed)
                    k.load_transposed(rows + inside.begin, channel_stride, count, x_.at(tile.n, first, i1, i2, i3),
                                      x_.storage, advance * x_.strides[4], n);
            }
            if (!run_ || outside) continue;
            // The prologue sees the row as it lies in x; its result is then dealt out to the residues.
            const int64_t begin = std::max<int64_t>(0, base[2]);
            const int64_t end = std::min(g.x[4], base[2] + advance * columns);
            if (begin >= end) continue;
            const Box box = Box::of(tile.n, {i1, i2, begin}, {1, 1, end - begin});
            for (int64_t c = 0; c < count; ++c) {
                k.load(whole_row_, x_.at(tile.n, first + c, i1, i2, begin), x_.storage, x_.strides[4], end - begin);
                clear_padding(whole_row_, end - begin);
                const T* result = run_->row(box, first + c, whole_row_, slot_);
                for (int64_t residue = 0; residue < advance; ++residue) {
                    const Range inside(base[2], advance, residue, g.x[4], columns);
                    const int64_t i3 = base[2] + advance * inside.begin + residue;
                    k.load(first_row + residue * pitch + c * channel_stride + inside.begin, result + (i3 - begin),
                           storage_of<T>, advance, inside.end - inside.begin);
                }
            }
        }
}

template class Stager<float>;
template class Stager<double>;

}  // namespace transfuse::cpu
