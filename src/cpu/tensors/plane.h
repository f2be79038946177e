// Planes: the spatial box of one channel that a tile holds, and where tensors lie under it.
//
// Every grid is brought to five axes [N, C, S1, S2, S3] (spatial axes right-aligned, missing ones of extent 1). A plane
// stores its box row by row, each row `pitch` elements long, so that kernels may run over the whole of it as one long
// row; what lies between the rows, and behind the last, is never read back, but computed on (clear_padding).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/tensors/element.h"
#include "transfuse/tensor.h"

namespace transfuse::cpu {

using Five = std::array<int64_t, 5>;

// [N, C, S…] of rank 2 to 5 → five axes; `missing` is what an absent axis gets.
inline Five to_five(const Sizes& sizes, int64_t missing) {
    Five five{sizes[0], sizes[1], missing, missing, missing};
    for (size_t axis = 2; axis < sizes.size(); ++axis) five[axis + 5 - sizes.size()] = sizes[axis];
    return five;
}

struct Box {
    int64_t n = 0;
    std::array<int64_t, 3> origin{0, 0, 0}, extent{1, 1, 1};
    int64_t pitch = 0;

    int64_t rows() const { return extent[0] * extent[1]; }
    int64_t width() const { return extent[2]; }
    int64_t elements() const { return padded(rows() * pitch); }
    // Rows without gaps.
    Box closed() const { return {n, origin, extent, extent[2]}; }
    static Box of(int64_t n, const std::array<int64_t, 3>& origin, const std::array<int64_t, 3>& extent) {
        return {n, origin, extent, padded(extent[2])};
    }
};

// A tensor under a grid: strides zero where it is repeated.
struct Placed {
    char* data = nullptr;
    Storage storage = Storage::f32;
    int64_t size = 4;  // bytes of an element
    Five strides{};

    static Placed under(const TensorView& view, const Sizes& grid) {
        return {static_cast<char*>(view.data), static_cast<Storage>(view.dtype), bytes(view.dtype),
                to_five(broadcast_strides(view, grid), 0)};
    }
    char* at(int64_t n, int64_t c, int64_t s1, int64_t s2, int64_t s3) const {
        return data + size * (n * strides[0] + c * strides[1] + s1 * strides[2] + s2 * strides[3] + s3 * strides[4]);
    }
    char* row(const Box& box, int64_t c, int64_t r) const {
        return at(box.n, c, box.origin[0] + r / box.extent[1], box.origin[1] + r % box.extent[1], box.origin[2]);
    }
    // Neighbouring channels lie side by side, neighbouring pixels do not: channels_last.
    bool channels_innermost() const { return strides[1] == 1 && strides[4] != 1; }
};

// `planes` neighbouring planes, each row of which holds its numbers already.
template <class T>
void clear_padding(T* out, const Box& box, int64_t planes = 1) {
    for (int64_t i = 0; i < planes; ++i, out += box.elements()) {
        for (int64_t r = 0; r < box.rows() && box.pitch > box.width(); ++r)
            std::fill(out + r * box.pitch + box.width(), out + (r + 1) * box.pitch, T(0));
        clear_padding(out, box.rows() * box.pitch);
    }
}
// Rows of a plane that follow one another in memory and in the plane are one row: body(row, rows, from row to row).
template <class F>
void each_plane(const Placed& placed, const Box& box, const F& body) {
    if (box.rows() == 0) return;
    const bool one = placed.strides[2] == box.extent[1] * placed.strides[3];
    const int64_t planes = one ? 1 : box.extent[0], rows = one ? box.rows() : box.extent[1];
    for (int64_t p = 0; p < planes; ++p) body(p * rows, rows, rows > 1 ? placed.strides[3] : 0);
}
template <class T>
void load_plane(T* out, const Placed& from, const Box& box, int64_t c) {
    each_plane(from, box, [&](int64_t r, int64_t rows, int64_t stride) {
        kernels<T>().load_rows(out + r * box.pitch, box.pitch, from.row(box, c, r), from.storage, stride,
                               from.strides[4], rows, box.width());
    });
    clear_padding(out, box);
}
// Channels c … c + count, whose planes lie `pitch` apart.
template <class T>
void store_planes(const Placed& to, const T* in, int64_t pitch, const Box& box, int64_t c, int64_t count) {
    if (to.channels_innermost() && count > 1) {
        for (int64_t r = 0; r < box.rows(); ++r)
            kernels<T>().store_transposed(to.row(box, c, r), to.storage, to.strides[4], in + r * box.pitch, pitch,
                                          count, box.width());
    } else {
        each_plane(to, box, [&](int64_t r, int64_t rows, int64_t stride) {
            kernels<T>().store_planes(to.row(box, c, r), to.storage, to.strides[1], stride, to.strides[4],
                                      in + r * box.pitch, pitch, box.pitch, count, rows, box.width());
        });
    }
}
template <class T>
void store_plane(const Placed& to, const T* in, const Box& box, int64_t c) {
    store_planes(to, in, 0, box, c, 1);
}

}  // namespace transfuse::cpu
