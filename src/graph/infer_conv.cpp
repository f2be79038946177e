// Inference of convolutions, nearest upsampling, the lattice convolution and its weight gradient.
#include <algorithm>

#include "graph/infer.h"

namespace transfuse {

namespace {

// (in - 1)·stride - 2·padding + dilation·(kernel - 1) + output_padding + 1
int64_t conv_transpose_extent(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t output_padding,
                              int64_t dilation) {
    constexpr std::string_view what = "conv_transpose output size";
    int64_t spread = checked_mul(in - 1, stride, what);
    int64_t reach = checked_mul(dilation, kernel - 1, what);
    int64_t cut = checked_mul(2, padding, what);
    return checked_add(checked_add(checked_add(spread, -cut, what), reach, what), output_padding + 1, what);
}

// ⌊(in + 2·padding - dilation·(kernel - 1) - 1) / stride⌋ + 1
int64_t conv_extent(const Inference& node, int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                    int64_t dilation) {
    constexpr std::string_view what = "conv output size";
    int64_t padded = checked_add(in, checked_mul(2, padding, what), what);
    int64_t reach = checked_add(checked_mul(dilation, kernel - 1, what), 1, what);
    if (reach > padded) node.refuse("the kernel reaches over ", reach, " elements, the padded input has ", padded);
    return (padded - reach) / stride + 1;
}

void check_bias(const Inference& node, int64_t channels) {
    if (node.count() == 3) node.require_vector(2, "bias", channels);
}

Type infer_upsample(const Inference& node) {
    const Type& x = node.type(0);
    const Sizes& given = node.attributes.integers(Key::scale);
    int64_t d = given.size() == 1 ? std::max<int64_t>(x.rank() - 2, 1) : static_cast<int64_t>(given.size());
    if (x.rank() != d + 2 && x.rank() != d + 1)
        node.refuse("x must have rank ", d + 2, " (or ", d + 1, " without a batch) for ", d, " scales, got ",
                    to_string(x));
    const Sizes& scale = node.per_axis(Key::scale, d, 1);
    Type result = x;
    for (int64_t j = 0; j < d; ++j) {
        int64_t& extent = result.shape[static_cast<size_t>(x.rank() - d + j)];
        extent = checked_mul(extent, scale[static_cast<size_t>(j)], "upsample output size");
    }
    return result;
}

}  // namespace

Type infer_conv(const Inference& node) {
    if (node.op() == Op::upsample) return infer_upsample(node);
    const bool transposed = node.op() == Op::conv_transpose;
    const Type& x = node.type(0);
    const Type& w = node.type(1);
    const int64_t d = w.rank() - 2;
    if (d < 1 || d > 3) node.refuse("w must have 1 to 3 axes after its channels, got ", to_string(w));
    if (x.rank() != d + 2 && x.rank() != d + 1)
        node.refuse("x must have rank ", d + 2, " (or ", d + 1, " without a batch) for w ", to_string(w), ", got ",
                    to_string(x));
    for (size_t i = 1; i < node.count(); ++i)
        if (node.type(i).dtype != x.dtype)
            node.refuse(i == 1 ? "w" : "bias", " must have the dtype of x, ", name(x.dtype), ", got ",
                        name(node.type(i).dtype));

    const auto channel_axis = static_cast<size_t>(x.rank() - d - 1);
    const int64_t groups = node.attributes.integer(Key::groups);
    const int64_t channels = x.shape[channel_axis];
    if (groups < 1) node.refuse("groups must be at least 1, got ", groups);
    if (channels % groups) node.refuse("groups = ", groups, " must divide the ", channels, " channels of x");
    int64_t out_channels;
    if (transposed) {
        if (w.shape[0] != channels)
            node.refuse("w ", to_string(w), " expects ", w.shape[0], " input channels, x ", to_string(x), " has ",
                        channels);
        out_channels = checked_mul(w.shape[1], groups, "conv_transpose output channels");
    } else {
        if (w.shape[0] % groups)
            node.refuse("groups = ", groups, " must divide the ", w.shape[0], " output channels of w");
        if (w.shape[1] != channels / groups)
            node.refuse("w ", to_string(w), " expects ", w.shape[1], " input channels a group, x ", to_string(x),
                        " has ", channels / groups);
        out_channels = w.shape[0];
    }
    check_bias(node, out_channels);

    const Sizes& s = node.per_axis(Key::stride, d, 1);
    const Sizes& p = node.per_axis(Key::padding, d, 0);
    const Sizes& l = node.per_axis(Key::dilation, d, 1);
    const Sizes* output_padding = transposed ? &node.per_axis(Key::output_padding, d, 0) : nullptr;

    Type result = x;
    result.shape[channel_axis] = out_channels;
    for (size_t j = 0; j < static_cast<size_t>(d); ++j) {
        int64_t& extent = result.shape[channel_axis + 1 + j];
        const int64_t in = extent, kernel = w.shape[2 + j];
        if (in < 1) node.refuse("spatial extents of x must be at least 1, got ", to_string(x));
        if (kernel < 1) node.refuse("the kernel must have at least 1 tap an axis, got w ", to_string(w));
        if (!transposed) {
            extent = conv_extent(node, in, kernel, s[j], p[j], l[j]);
            continue;
        }
        const int64_t more = (*output_padding)[j];
        if (more >= std::max(s[j], l[j]))
            node.refuse("output_padding must be smaller than stride or dilation, got output_padding ", more,
                        ", stride ", s[j], ", dilation ", l[j]);
        extent = conv_transpose_extent(in, kernel, s[j], p[j], more, l[j]);
        if (extent < 0)
            node.refuse("the result would have extent ", extent, " on spatial axis ", j, " for x ", to_string(x));
    }
    return result;
}

Type infer_lattice(const Inference& node) {
    const bool gradient = node.op() == Op::correlate;
    const Type& x = node.type(0);
    const Type& w = node.type(1);  // correlate: g, shaped like the result of the lattice convolution
    const int64_t d = x.rank() - 2;
    if (d < 0) node.refuse("x must be [N, C, ...], got ", to_string(x));
    if (w.dtype != x.dtype)
        node.refuse(gradient ? "g" : "w", " must have the dtype of x, ", name(x.dtype), ", got ", name(w.dtype));
    for (Key key : {Key::up, Key::down, Key::dil}) node.per_axis(key, d, 1);
    node.per_axis(Key::offset, d);
    const Sizes& extents = node.per_axis(gradient ? Key::taps : Key::out, d, 0);

    if (gradient) {
        const int64_t groups = node.attributes.integer(Key::groups);
        if (w.rank() != x.rank() || w.shape[0] != x.shape[0])
            node.refuse("g must have the batch and rank of x ", to_string(x), ", got ", to_string(w));
        if (groups < 1 || x.shape[1] % groups || w.shape[1] % groups)
            node.refuse("groups = ", groups, " must divide the channels of x, ", x.shape[1], ", and of g, ",
                        w.shape[1]);
        Type result{x.dtype, {groups, x.shape[1] / groups, w.shape[1] / groups}};
        result.shape.insert(result.shape.end(), extents.begin(), extents.end());
        return result;
    }
    if (w.rank() != d + 3) node.refuse("w must be [G, Cin/G, Cout/G, K...] with ", d, " tap axes, got ", to_string(w));
    const int64_t groups = w.shape[0];
    if (!node.attributes.has(Key::groups)) node.attributes.set(Key::groups, groups);
    if (node.attributes.integer(Key::groups) != groups)
        node.refuse("groups = ", node.attributes.integer(Key::groups), " must be the first extent of w ", to_string(w));
    if (checked_mul(groups, w.shape[1], "lattice input channels") != x.shape[1])
        node.refuse("w ", to_string(w), " expects ", groups * w.shape[1], " input channels, x ", to_string(x), " has ",
                    x.shape[1]);
    Type result{x.dtype, {x.shape[0], checked_mul(groups, w.shape[2], "lattice output channels")}};
    check_bias(node, result.shape[1]);
    const Sizes& out = node.attributes.integers(Key::out);
    result.shape.insert(result.shape.end(), out.begin(), out.end());
    return result;
}

Type infer_covariance(const Inference& node) {
    const Type& x = node.type(0);
    const int64_t d = x.rank() - 2, groups = node.attributes.integer(Key::groups);
    if (d < 0) node.refuse("x must be [N, C, ...], got ", to_string(x));
    for (Key key : {Key::up, Key::dil}) node.per_axis(key, d, 1);
    node.per_axis(Key::offset, d);
    node.per_axis(Key::out, d, 1);
    if (x.shape[0] < 1) node.refuse("there must be at least one sample, got ", to_string(x));
    if (groups < 1 || x.shape[1] < 1 || x.shape[1] % groups)
        node.refuse("groups = ", groups, " must divide the channels of x, ", x.shape[1]);
    int64_t patch = x.shape[1] / groups;
    for (int64_t taps : node.per_axis(Key::taps, d, 1)) patch = checked_mul(patch, taps, "covariance taps");
    return {DType::f64, {patch + 1, checked_mul(groups, patch, "covariance columns"), 1}};
}

}  // namespace transfuse
