// Inference of parameter expressions and of the collapse: weight_norm, taps, box_sums, box_spread.
#include "graph/infer.h"

namespace transfuse {

Type infer_taps(const Inference& node) {
    const Type& w = node.type(0);
    if (w.rank() == 0) node.refuse(node.op() == Op::taps ? "w" : "v", " must have at least one axis");
    const int64_t axis = node.axis(node.attributes.integer(Key::axis), w.rank());
    node.attributes.set(Key::axis, axis);
    const int64_t extent = w.shape[static_cast<size_t>(axis)];
    Type result = w;
    if (node.op() == Op::weight_norm) {
        Sizes norms(w.shape.size(), 1);
        norms[static_cast<size_t>(axis)] = extent;
        if (node.shape(1) != norms)
            node.refuse("g must have shape ", to_string(norms), ", got ", to_string(node.type(1)));
        if (node.type(1).dtype != w.dtype)
            node.refuse("g must have the dtype of v, ", name(w.dtype), ", got ", name(node.type(1).dtype));
        return result;
    }
    const int64_t rows = node.attributes.integer(Key::rows);
    if (rows < 0) node.refuse("rows must not be negative, got ", rows);
    const int64_t size = checked_mul(rows, extent, "taps: matrix size");
    if (static_cast<int64_t>(node.attributes.numbers(Key::matrix).size()) != size)
        node.refuse("matrix must have rows * extent = ", rows, " * ", extent, " elements, got ",
                    node.attributes.numbers(Key::matrix).size());
    result.shape[static_cast<size_t>(axis)] = rows;
    return result;
}

Type infer_box(const Inference& node) {
    const bool spread = node.op() == Op::box_spread;
    const Type& x = node.type(0);
    if (x.rank() < 3) node.refuse("the operand must be [N, C, ...] with spatial axes, got ", to_string(x));
    const Sizes dims = node.dims(x.rank(), false);
    if (dims.empty() || dims.front() < 2) node.refuse("dims must name spatial axes (2 and up), got ", to_string(dims));
    const auto axes = static_cast<int64_t>(dims.size());
    node.per_axis(Key::counts, axes, 0);
    if (spread) node.per_axis(Key::sizes, axes, 0);
    const Sizes &counts = node.attributes.integers(Key::counts), &los = node.attributes.integers(Key::los),
                &his = node.attributes.integers(Key::his), &steps = node.attributes.integers(Key::steps);

    int64_t boxes = 1, intervals = 0;
    for (int64_t count : counts) {
        boxes = checked_mul(boxes, count, "number of boxes");
        intervals = checked_add(intervals, count, "number of intervals");
    }
    for (Key key : {Key::los, Key::his, Key::steps})
        if (static_cast<int64_t>(node.attributes.integers(key).size()) != intervals)
            node.refuse(name(key), " must have one entry for each of ", intervals, " intervals, got ",
                        to_string(node.attributes.integers(key)));
    Type result = x;
    size_t at = 0;
    for (size_t j = 0; j < dims.size(); ++j) {
        int64_t& reduced = result.shape[static_cast<size_t>(dims[j])];
        const int64_t extent = spread ? node.attributes.integers(Key::sizes)[j] : reduced;
        if (spread && reduced != 1) node.refuse("axis ", dims[j], " of h must have extent 1, got ", to_string(x));
        for (int64_t i = 0; i < counts[j]; ++i, ++at) {
            if (steps[at] < 1) node.refuse("steps must be at least 1, got ", to_string(steps));
            if (his[at] >= los[at] && (los[at] < 0 || his[at] >= extent))
                node.refuse("interval [", los[at], ", ", his[at], "] must lie in [0, ", extent, ") on axis ", dims[j]);
        }
        reduced = spread ? extent : 1;
    }
    int64_t& channels = result.shape[1];
    if (spread) {
        if (boxes == 0 || channels % boxes)
            node.refuse("the channels of h, ", channels, ", must be a multiple of the number of boxes, ", boxes);
        channels /= boxes;
    } else {
        channels = checked_mul(channels, boxes, "box_sums channels");
        result.dtype = x.dtype == DType::f64 ? DType::f64 : DType::f32;  // sums are never rounded to 16 bits
    }
    return result;
}

}  // namespace transfuse
