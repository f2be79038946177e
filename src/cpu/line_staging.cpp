#include "cpu/line_staging.h"

#include <algorithm>

#include "algebra/integer.h"

namespace transfuse::cpu {
namespace {
constexpr int64_t channels_at_once = 16;  // what a transposing load takes
}

template <class T>
typename LineStager<T>::Input LineStager<T>::input(const Box& tile) const {
    const LineGeometry& g = geometry_;
    const std::array<int64_t, 3> t = g.extent(tile);
    Input in;
    for (size_t a = 0; a < 3; ++a) {
        in.base[a] = g.in_step[a] * (tile.origin[a] / g.out_step[a]) + g.least[a];
        in.extent[a] = g.input_extent(a, t[a]);
    }
    in.columns = ceil_div(in.extent[2], g.in_step[2]);
    in.row = in.columns * g.in_step[2];
    in.plane = in.extent[1] * in.row;
    return in;
}

template <class T>
LineStager<T>::LineStager(const LineGeometry& geometry, const Placed& x, const TileProgram* prologue,
                          const BoundProgram* bound, int prologue_slot, Scratch& scratch)
    : geometry_(geometry), x_(x), slot_(prologue_slot) {
    const Input in = input(geometry.tiling.box(0));  // a full tile
    if (!geometry.copies()) {
        input_ = scratch.acquire<T>(channels_at_once * in.extent[0] * in.plane + row_padding);
        const int64_t room = 2 * (in.plane + row_padding) + row_padding;
        room_ = scratch.acquire<T>(room);
        std::fill_n(room_, room, T(0));
    }
    if (!prologue) return;
    std::array<int64_t, 3> inside;
    for (size_t a = 0; a < 3; ++a) inside[a] = std::min(geometry.x[a + 2], in.extent[a]);
    const Box box = Box::of(0, {0, 0, 0}, inside);
    run_ = std::make_unique<TileRun<T>>(*prologue, *bound, scratch, box, box, 0, 1);
    inside_ = scratch.acquire<T>(box.elements());
}

template <class T>
void LineStager<T>::stage(T* patch, const Box& tile, int64_t images, int64_t first, int64_t count) {
    const LineGeometry& g = geometry_;
    const Input in = input(tile);
    const std::array<int64_t, 3> t = g.extent(tile);
    const int64_t image = t[0] * t[1] * t[2], pixels = images * image, lines = g.all_lines();
    for (int64_t c = 0; c < count; c += channels_at_once) {
        const int64_t channels = std::min(channels_at_once, count - c);
        for (int64_t i = 0; i < images; ++i) {
            if (g.copies()) {
                load(patch + c * g.line_pitch + i * image, g.line_pitch, in, tile.n + i, first + c, channels);
                continue;
            }
            const int64_t size = in.extent[0] * in.plane;
            load(input_, size, in, tile.n + i, first + c, channels);
            std::fill_n(input_ + channels * size, row_padding, T(0));
            for (int64_t j = 0; j < channels; ++j) {
                Expand<T> e{input_ + j * size,
                            in.plane,
                            in.row,
                            in.columns,
                            {},
                            {},
                            {},
                            {},
                            patch + (c + j) * lines * g.line_pitch + i * image,
                            g.line_pitch,
                            room_};
                for (size_t a = 0; a < 3; ++a) {
                    e.step[a] = g.in_step[a];
                    e.extent[a] = t[a];
                    e.lines[a] = g.lines[a].data();
                    e.count[a] = static_cast<int64_t>(g.lines[a].size());
                }
                kernels<T>().expand(e);
            }
        }
    }
    for (int64_t line = 0; line < count * lines; ++line) clear_padding(patch + line * g.line_pitch, pixels);
}

template <class T>
void LineStager<T>::load(T* to, int64_t pitch, const Input& in, int64_t n, int64_t first, int64_t count) {
    const LineGeometry& g = geometry_;
    const Kernels<T>& k = kernels<T>();
    // What lies inside the image; the rest is zero.
    std::array<int64_t, 3> begin, end;
    bool all_inside = g.in_step == std::array<int64_t, 3>{1, 1, 1}, none = false;
    for (size_t a = 0; a < 3; ++a) {
        begin[a] = std::clamp<int64_t>(-in.base[a], 0, in.extent[a]);
        end[a] = std::clamp<int64_t>(g.x[a + 2] - in.base[a], begin[a], in.extent[a]);
        all_inside = all_inside && end[a] - begin[a] == in.extent[a];
        none = none || begin[a] == end[a];
    }
    for (int64_t c = 0; !all_inside && c < count; ++c) std::fill_n(to + c * pitch, in.extent[0] * in.plane, T(0));
    if (none) return;
    const int64_t step = g.in_step[2];
    // Rows of `count` channels from any memory; x or what the prologue made of it.
    struct Rows {
        const char* data;
        Storage storage;
        int64_t bytes, channel, plane, row, column;  // size of an element; strides
    };
    const auto deal = [&](T* out, const Rows& from, int64_t channels, bool transposed) {
        const int64_t step1 = g.in_step[1];
        for (int64_t i0 = begin[0]; i0 < end[0]; ++i0)
            for (int64_t i1 = begin[1]; i1 < std::min(begin[1] + step1, end[1]); ++i1)  // and every step1-th after it
                for (int64_t residue = 0; residue < step; ++residue) {
                    if (!g.reads(0, i0) || !g.reads(1, i1) || !g.reads(2, residue)) continue;
                    const int64_t q = ceil_div(begin[2] - residue, step);
                    const int64_t columns = ceil_div(end[2] - residue, step) - q, rows = ceil_div(end[1] - i1, step1);
                    if (columns <= 0) continue;
                    const int64_t skipped = (i0 - begin[0]) * from.plane + (i1 - begin[1]) * from.row +
                                            (q * step + residue - begin[2]) * from.column;
                    const char* data = from.data + skipped * from.bytes;
                    T* place = out + i0 * in.plane + i1 * in.row + residue * in.columns + q;
                    for (int64_t r = 0; transposed && r < rows; ++r)
                        k.load_transposed(place + r * step1 * in.row, pitch, channels,
                                          data + r * step1 * from.row * from.bytes, from.storage, step * from.column,
                                          columns);
                    for (int64_t c = 0; !transposed && c < channels; ++c)
                        k.load_rows(place + c * pitch, step1 * in.row, data + c * from.channel * from.bytes,
                                    from.storage, step1 * from.row, step * from.column, rows, columns);
                }
    };
    const auto at = [&](int64_t c) {
        return x_.at(n, first + c, in.base[0] + begin[0], in.base[1] + begin[1], in.base[2] + begin[2]);
    };
    const Five& s = x_.strides;
    if (!run_)
        return deal(to, {at(0), x_.storage, x_.size, s[1], s[2], s[3], s[4]}, count,
                    x_.channels_innermost() && count > 1);
    const Box box = Box::of(n, {in.base[0] + begin[0], in.base[1] + begin[1], in.base[2] + begin[2]},
                            {end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]});
    constexpr Storage own = sizeof(T) == 8 ? Storage::f64 : Storage::f32;
    for (int64_t c = 0; c < count; ++c) {
        load_plane(inside_, x_, box, first + c);
        const T* result = run_->row(box, first + c, inside_, slot_);
        deal(to + c * pitch,
             {reinterpret_cast<const char*>(result), own, sizeof(T), 0, box.extent[1] * box.pitch, box.pitch, 1}, 1,
             false);
    }
}

template class LineStager<float>;
template class LineStager<double>;

}  // namespace transfuse::cpu
