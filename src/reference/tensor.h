// What the reference engine computes with: contiguous tensors of doubles.
#pragma once

#include <array>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse::reference {

struct Tensor {
    Type type;
    std::vector<double> data;  // row-major
};

inline Tensor zeros(const Type& type) { return {type, std::vector<double>(static_cast<size_t>(numel(type.shape)))}; }

// Calls visit(index) for every index of the shape, in row-major order.
template <class Visit>
void for_each_index(const Sizes& shape, const Visit& visit) {
    const int64_t count = numel(shape);
    Sizes index(shape.size());
    for (int64_t step = 0; step < count; ++step) {
        visit(static_cast<const Sizes&>(index));
        for (size_t axis = shape.size(); axis-- > 0;) {
            if (++index[axis] < shape[axis]) break;
            index[axis] = 0;
        }
    }
}

// Where an index lies in memory; strides may be longer than the index is needed (leading axes first).
inline size_t at(const Sizes& index, const Sizes& strides) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * strides[axis];
    return static_cast<size_t>(offset);
}

// Strides that read a tensor of this shape as if it were expanded to `to`: 0 on axes of extent 1 and on new ones.
inline Sizes broadcast_strides(const Sizes& shape, const Sizes& to) {
    const Sizes own = contiguous_strides(shape);
    Sizes strides(to.size(), 0);
    const size_t lead = to.size() - shape.size();
    for (size_t axis = 0; axis < shape.size(); ++axis) strides[lead + axis] = shape[axis] == 1 ? 0 : own[axis];
    return strides;
}

// An image tensor seen as [N, C, D, H, W]: a missing batch and missing leading spatial axes have extent 1.
struct Image {
    int64_t n = 1, c = 1;
    std::array<int64_t, 3> extent{1, 1, 1};

    // `spatial` = number of spatial axes.
    static Image of(const Sizes& shape, size_t spatial);
    size_t at(int64_t batch, int64_t channel, const std::array<int64_t, 3>& i) const {
        return static_cast<size_t>((((batch * c + channel) * extent[0] + i[0]) * extent[1] + i[1]) * extent[2] + i[2]);
    }
    bool inside(const std::array<int64_t, 3>& i) const {
        return i[0] >= 0 && i[0] < extent[0] && i[1] >= 0 && i[1] < extent[1] && i[2] >= 0 && i[2] < extent[2];
    }
};

// A per-axis attribute seen over three axes; missing leading ones get `standard`.
std::array<int64_t, 3> three_axes(const Sizes& list, int64_t standard);

template <class Visit>
void for_each_position(const std::array<int64_t, 3>& extent, const Visit& visit) {
    std::array<int64_t, 3> i;
    for (i[0] = 0; i[0] < extent[0]; ++i[0])
        for (i[1] = 0; i[1] < extent[1]; ++i[1])
            for (i[2] = 0; i[2] < extent[2]; ++i[2]) visit(static_cast<const std::array<int64_t, 3>&>(i));
}

}  // namespace transfuse::reference
