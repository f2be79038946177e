// Convolutions and transposed ones of every stride, padding, dilation, output_padding and grouping, as text.
#pragma once

#include <optional>
#include <string>

#include "rules.h"

namespace transfuse::tests {

inline std::string list(const Sizes& sizes) {
    std::string text = "[";
    for (size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + std::to_string(sizes[i]);
    return text + "]";
}

// A convolution or a transposed one of `in` channels to `out`, as text.
struct Layer {
    bool transposed;
    int64_t groups;
    Sizes kernel, stride, padding, dilation, output_padding;

    static Layer random(Random& random, size_t d, int64_t groups) {
        Layer layer{random.chance(0.5), groups, {}, {}, {}, {}, {}};
        for (size_t a = 0; a < d; ++a) {
            layer.kernel.push_back(random.between(1, 3));
            layer.stride.push_back(random.between(1, 3));
            layer.dilation.push_back(random.between(1, 2));
            const int64_t reach = layer.dilation.back() * (layer.kernel.back() - 1);
            layer.padding.push_back(random.chance(0.5) ? 0 : random.between(0, std::min<int64_t>(2, reach)));
            layer.output_padding.push_back(random.chance(0.7) ? 0 : random.between(0, layer.stride.back() - 1));
        }
        return layer;
    }
    // Another of the same strides whose results have the same extents; none where padding cannot make it so.
    std::optional<Layer> beside(Random& random, int64_t groups) const {
        Layer other = Layer::random(random, kernel.size(), groups);
        other.transposed = transposed;
        other.stride = stride;
        for (size_t a = 0; a < kernel.size(); ++a) {
            const int64_t cut = 2 * padding[a] - (transposed ? output_padding[a] : 0) +
                                other.dilation[a] * (other.kernel[a] - 1) - dilation[a] * (kernel[a] - 1);
            const int64_t more = cut < 0 ? -cut : cut % 2;
            if (more > 0 && (!transposed || more >= std::max(stride[a], other.dilation[a]))) return std::nullopt;
            other.padding[a] = (cut + more) / 2;
            other.output_padding[a] = more;
        }
        return other;
    }
    std::string weight(int64_t in, int64_t out) const {
        Sizes shape = transposed ? Sizes{in, out / groups} : Sizes{out, in / groups};
        shape.insert(shape.end(), kernel.begin(), kernel.end());
        return "param f64" + list(shape);
    }
    std::string call(const std::string& operands) const {
        return std::string(transposed ? "conv_transpose(" : "conv(") + operands + ") stride=" + list(stride) +
               " padding=" + list(padding) + " dilation=" + list(dilation) + " groups=" + std::to_string(groups) +
               (transposed ? " output_padding=" + list(output_padding) : "");
    }
};

// What stands between the braces of a graph, or none where its sizes do not fit.
inline std::optional<Graph> valid(const std::string& text) {
    try {
        return graph_of(text);
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace transfuse::tests
