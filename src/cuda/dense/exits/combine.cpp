#include "cuda/dense/exits/combine.h"

#include <array>

namespace transfuse::cuda {

namespace {

// Extents of the value a reduction is of: n, c, d, h, w.
std::array<int64_t, 5> extents_of(const Epilogue& epilogue, ValueId value) {
    std::array<int64_t, 5> extents;
    extents.fill(1);
    const Sizes& shape = epilogue.graph()[value].type.shape;
    for (size_t k = 0; k < shape.size(); ++k)
        extents[k < 2 ? k : k + 3 - static_cast<size_t>(epilogue.program().spatial)] = shape[k];
    return extents;
}

int64_t statistic_at(const Epilogue& epilogue, const Partial& p, int64_t partial_at, const PartialRows& rows) {
    return partial_at + static_cast<int64_t>(p.first_stat) * rows.rows * epilogue.channels() * epilogue.real_bytes();
}

}  // namespace

Place kept_place(const Epilogue& epilogue, ValueId value, int64_t at) {
    Place place;
    place.base = Argument::of_scratch(at);
    place.storage = epilogue.real() == Real::f64 ? DType::f64 : DType::f32;
    place.strides = contiguous_strides(epilogue.graph()[value].type.shape);
    place.aligned = at % 16 == 0;
    place.read_only = false;
    return place;
}

Place partial_place(const Epilogue& epilogue, const Partial& p, int64_t partial_at, const PartialRows& rows) {
    const GridReduction& r = p.reduction;
    const std::array<int64_t, 5> extents = extents_of(epilogue, r.of);
    const int64_t channels = epilogue.channels(), per_image = rows.rows / rows.images;
    const bool images = !r.reduced[0] && rows.images > 1, channels_joined = r.reduced[1] && extents[1] > 1;
    Place place = kept_place(epilogue, r.value, statistic_at(epilogue, p, partial_at, rows));
    place.partials = Partials{images ? per_image : rows.rows, channels, rows.rows * channels};
    place.partials->moments = r.op == Op::var;
    if (channels_joined)
        place.partials->slots *= channels, place.partials->slot_stride = 1;  // rows of channels, one after another
    const Node& node = epilogue.graph()[r.value];
    const bool keepdim = node.attributes.flag(Key::keepdim);
    place.strides.clear();
    for (size_t k = 0; k < epilogue.graph()[r.of].type.shape.size(); ++k) {
        const size_t axis = k < 2 ? k : k + 3 - static_cast<size_t>(epilogue.program().spatial);
        if (r.reduced[axis] && !keepdim) continue;
        const int64_t step = axis == 0 ? per_image * channels : 1;  // beyond the channels nothing is left
        place.strides.push_back(r.reduced[axis] || extents[axis] == 1 ? 0 : step);
    }
    return place;
}

}  // namespace transfuse::cuda
