// Inference of pools, adaptive pools and their gradients.
#include <algorithm>

#include "graph/infer.h"

namespace transfuse {

namespace {

// How many windows a pool has on one axis. With ceil_mode the last must begin inside the input or its left padding.
int64_t pool_extent(const Inference& node, int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                    int64_t dilation, bool ceil_mode) {
    constexpr std::string_view what = "pool output size";
    int64_t reach = checked_add(checked_mul(dilation, kernel - 1, what), 1, what);
    if (padding > kernel / 2) node.refuse("padding must be at most half of the kernel, ", kernel, ", got ", padding);
    int64_t room = checked_add(checked_add(in, checked_mul(2, padding, what), what), -reach, what);
    if (room < 0 && !(ceil_mode && checked_add(room, stride, what) > 0))
        node.refuse("the kernel reaches over ", reach, " elements, the padded input has ", in + 2 * padding);
    int64_t out = (ceil_mode ? checked_add(room, stride - 1, what) : room) / stride + 1;
    if (ceil_mode && checked_mul(out - 1, stride, what) >= checked_add(in, padding, what)) --out;
    if (out < 1) node.refuse("the result would be empty for an input extent of ", in);
    return out;
}

// The number of pooled axes, from a list with one entry an axis or a list of one to be spread.
int64_t pooled_axes(const Inference& node, Key key, const Type& x) {
    auto listed = static_cast<int64_t>(node.attributes.integers(key).size());
    int64_t d = listed == 1 ? std::max<int64_t>(x.rank() - 2, 1) : listed;
    if (d < 1 || (x.rank() != d + 2 && x.rank() != d + 1))
        node.refuse("the tensor must have rank ", d + 2, " (or ", d + 1, " without a batch) for ", d,
                    " pooled axes, got ", to_string(x));
    return d;
}

// The shape of the pooled tensor, for an input of this type; completes kernel, stride, ….
Sizes windows(const Inference& node, const Type& x) {
    const int64_t d = pooled_axes(node, Key::kernel, x);
    const auto first = static_cast<size_t>(x.rank() - d);
    const bool dilates = find(node.schema, Key::dilation) != nullptr;
    node.per_axis(Key::kernel, d, 1);
    if (!node.attributes.has(Key::stride)) node.attributes.set(Key::stride, node.attributes.integers(Key::kernel));
    node.per_axis(Key::stride, d, 1);
    node.per_axis(Key::padding, d, 0);
    if (dilates) node.per_axis(Key::dilation, d, 1);
    const Sizes &kernel = node.attributes.integers(Key::kernel), &stride = node.attributes.integers(Key::stride),
                &padding = node.attributes.integers(Key::padding);
    Sizes shape = x.shape;
    for (size_t j = 0; j < static_cast<size_t>(d); ++j)
        shape[first + j] =
            pool_extent(node, x.shape[first + j], kernel[j], stride[j], padding[j],
                        dilates ? node.attributes.integers(Key::dilation)[j] : 1, node.attributes.flag(Key::ceil_mode));
    return shape;
}

// The shape of the adaptively pooled tensor; an output size of -1 keeps the extent.
Sizes adaptive_windows(const Inference& node, const Type& x) {
    const int64_t d = pooled_axes(node, Key::output_size, x);
    const Sizes& size = node.per_axis(Key::output_size, d, -1);
    Sizes shape = x.shape;
    for (size_t j = 0; j < static_cast<size_t>(d); ++j) {
        int64_t& extent = shape[static_cast<size_t>(x.rank() - d) + j];
        if (extent < 1) node.refuse("pooled extents must be at least 1, got ", to_string(x));
        if (size[j] >= 0) extent = size[j];
    }
    return shape;
}

Sizes pooled(const Inference& node, const Type& x) {
    const bool adaptive = node.attributes.has(Key::output_size);
    if (adaptive == node.attributes.has(Key::kernel)) node.refuse("give either kernel or output_size");
    return adaptive ? adaptive_windows(node, x) : windows(node, x);
}

// avg_pool_grad(g) sizes=[extents of the pooled axes of x]: the pool is linear, x itself is not needed.
Type infer_avg_grad(const Inference& node) {
    const Type& g = node.type(0);
    const auto d = static_cast<int64_t>(node.attributes.integers(Key::sizes).size());
    if (d < 1 || (g.rank() != d + 2 && g.rank() != d + 1))
        node.refuse("g must have rank ", d + 2, " (or ", d + 1, " without a batch) for sizes ",
                    to_string(node.attributes.integers(Key::sizes)), ", got ", to_string(g));
    node.per_axis(Key::sizes, d, 1);
    Type x = g;
    std::copy_n(node.attributes.integers(Key::sizes).begin(), d, x.shape.end() - d);
    Sizes expected = pooled(node, x);
    if (expected != g.shape)
        node.refuse("g must have shape ", to_string(expected), " for these windows, got ", to_string(g));
    return x;
}

}  // namespace

Type infer_pool(const Inference& node) {
    const Type& x = node.type(0);
    switch (node.op()) {
        case Op::avg_pool_grad:
            return infer_avg_grad(node);
        case Op::max_pool_grad: {
            const Type& g = node.type(1);
            Sizes expected = pooled(node, x);
            if (expected != g.shape || g.dtype != x.dtype)
                node.refuse("g must be ", to_string(Type{x.dtype, expected}), ", got ", to_string(g));
            return x;
        }
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
            return {x.dtype, adaptive_windows(node, x)};
        default:
            return {x.dtype, windows(node, x)};
    }
}

}  // namespace transfuse
