#include "cpu/dense/stage/line_staging.h"

#include <algorithm>

#include "algebra/lattice/integer.h"

namespace transfuse::cpu {
namespace {
constexpr int64_t channels_at_once = 16;  // that become lines together
constexpr int64_t shared_at_once = 64;    // that go to their places: a pixel's follow one another in channels_last
}  // namespace

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
    in.inside = true;
    for (size_t a = 0; a < 3; ++a) in.inside = in.inside && in.base[a] >= 0 && in.base[a] + in.extent[a] <= g.x[a + 2];
    return in;
}

template <class T>
int64_t LineStager<T>::place(const Input& in, size_t axis, int64_t i) const {
    const LineGeometry& g = geometry_;
    const int64_t step = g.in_step[axis];
    if (!g.shared) return axis == 0 ? i * in.plane : axis == 1 ? i * in.row : i % step * in.columns + i / step;
    const std::vector<PairRow>& lines = g.lines[axis];
    const int64_t line = std::find(lines.begin(), lines.end(), PairRow{i % step}) - lines.begin();
    int64_t place = i / step, lines_within = 1;
    for (size_t a = axis + 1; a < 3; ++a) {
        place *= g.room[a];
        lines_within *= static_cast<int64_t>(g.lines[a].size());
    }
    return line * lines_within * g.line_pitch + place;
}

template <class T>
LineStager<T>::LineStager(const LineGeometry& geometry, const Placed& x, const TileProgram* prologue,
                          const BoundProgram* bound, int prologue_slot, Scratch& scratch)
    : geometry_(geometry), x_(x), slot_(prologue_slot) {
    const Input in = input(geometry.tiling.box(0));  // a full tile
    if (!geometry.shared) {
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
    const Input& in = in_;
    const std::array<int64_t, 3> t = g.extent(tile);
    const int64_t image = g.image_places(t), pixels = images * image, lines = g.all_lines();
    const int64_t at_once = g.shared ? shared_at_once : channels_at_once;
    for (int64_t c = 0; c < count; c += at_once) {
        const int64_t channels = std::min(at_once, count - c);
        for (int64_t i = 0; i < images; ++i) {
            if (g.shared) {
                load(patch + c * lines * g.line_pitch + i * image, lines * g.line_pitch, tile.n + i, first + c,
                     channels);
                continue;
            }
            const int64_t size = in.extent[0] * in.plane;
            load(input_, size, tile.n + i, first + c, channels);
            std::fill_n(input_ + channels * size, row_padding, T(0));
            for (int64_t j = 0; j < channels; ++j) {
                Expand<T> e{input_ + j * size,
                            in.plane,
                            in.row,
                            {},
                            {},
                            {},
                            {},
                            patch + (c + j) * lines * g.line_pitch + i * image,
                            g.line_pitch,
                            room_};
                for (size_t a = 0; a < 3; ++a) {
                    if (a < 2) e.step[a] = g.in_step[a];
                    e.extent[a] = t[a];
                    e.lines[a] = a < 2 ? g.lines[a].data() : columns_.data();
                    e.count[a] = static_cast<int64_t>(g.lines[a].size());
                }
                kernels<T>().expand(e);
            }
        }
    }
    if (g.shared && !(g.room == t && in.inside)) return;
    for (int64_t line = 0; line < count * lines; ++line) clear_padding(patch + line * g.line_pitch, pixels);
}

template <class T>
void LineStager<T>::begin(T* patch, const Box& tile, int64_t channels) {
    const LineGeometry& g = geometry_;
    in_ = input(tile);
    columns_.clear();
    for (const PairRow& line : g.lines[2])
        if (!g.shared) columns_.push_back({place(in_, 2, line.a), place(in_, 2, line.b), line.sign});
    // Zeros between shared lines stay where they are from channel to channel.
    const bool filled = g.room == g.extent(tile) && in_.inside;
    const int64_t all = elements(g, channels), kept = g.shared && !filled ? 0 : all - row_padding;
    std::fill(patch + kept, patch + all, T(0));

    std::array<int64_t, 3> end;
    for (size_t a = 0; a < 3; ++a) {
        begin_[a] = std::clamp<int64_t>(-in_.base[a], 0, in_.extent[a]);
        end[a] = std::clamp<int64_t>(g.x[a + 2] - in_.base[a], begin_[a], in_.extent[a]);
        inside_extent_[a] = end[a] - begin_[a];
    }
    runs_.clear();
    if (inside_extent_[0] * inside_extent_[1] * inside_extent_[2] == 0) return;
    const int64_t step1 = g.in_step[1], step2 = g.in_step[2];
    for (int64_t i0 = begin_[0]; i0 < end[0]; ++i0)
        for (int64_t i1 = begin_[1]; i1 < std::min(begin_[1] + step1, end[1]); ++i1)  // and every step1-th after it
            for (int64_t residue = 0; residue < step2; ++residue) {
                if (!g.reads(0, i0) || !g.reads(1, i1) || !g.reads(2, residue)) continue;
                const int64_t i2 = residue + step2 * ceil_div(begin_[2] - residue, step2);
                if (i2 >= end[2]) continue;
                runs_.push_back({{i0 - begin_[0], i1 - begin_[1], i2 - begin_[2]},
                                 ceil_div(end[1] - i1, step1),
                                 ceil_div(end[2] - i2, step2),
                                 place(in_, 0, i0) + place(in_, 1, i1) + place(in_, 2, i2)});
            }
}

template <class T>
void LineStager<T>::load(T* to, int64_t pitch, int64_t n, int64_t first, int64_t count) {
    const LineGeometry& g = geometry_;
    const Kernels<T>& k = kernels<T>();
    const bool filled = in_.inside && g.in_step == std::array<int64_t, 3>{1, 1, 1};
    for (int64_t c = 0; !g.shared && !filled && c < count; ++c)
        std::fill_n(to + c * pitch, in_.extent[0] * in_.plane, T(0));
    if (runs_.empty()) return;
    // Rows of `count` channels from any memory; x or what the prologue made of it.
    struct Rows {
        const char* data;
        Storage storage;
        int64_t bytes, channel, plane, row, column;  // size of an element; strides
    };
    const auto deal = [&](T* out, const Rows& from, int64_t channels, bool transposed) {
        const int64_t step1 = g.in_step[1], step2 = g.in_step[2], row = g.shared ? g.room[2] : step1 * in_.row;
        for (const Run& run : runs_) {
            const char* data =
                from.data + (run.at[0] * from.plane + run.at[1] * from.row + run.at[2] * from.column) * from.bytes;
            T* place = out + run.place;
            for (int64_t r = 0; transposed && r < run.rows; ++r)
                k.load_transposed(place + r * row, pitch, channels, data + r * step1 * from.row * from.bytes,
                                  from.storage, step2 * from.column, run.columns);
            if (g.shared && !transposed)
                k.stage_planes(place, pitch, row, data, from.storage, from.channel, step1 * from.row,
                               step2 * from.column, channels, run.rows, run.columns);
            for (int64_t c = 0; !g.shared && !transposed && c < channels; ++c)
                k.load_rows(place + c * pitch, row, data + c * from.channel * from.bytes, from.storage,
                            step1 * from.row, step2 * from.column, run.rows, run.columns);
        }
    };
    const auto at = [&](int64_t c) {
        return x_.at(n, first + c, in_.base[0] + begin_[0], in_.base[1] + begin_[1], in_.base[2] + begin_[2]);
    };
    const Five& s = x_.strides;
    if (!run_)
        return deal(to, {at(0), x_.storage, x_.size, s[1], s[2], s[3], s[4]}, count,
                    x_.channels_innermost() && count > 1);
    const Box box =
        Box::of(n, {in_.base[0] + begin_[0], in_.base[1] + begin_[1], in_.base[2] + begin_[2]}, inside_extent_);
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
