// Convolutions, as PyTorch defines them, and the lattice convolution, as its relation defines it.
#include "reference/interpret.h"

namespace transfuse::reference {

namespace {

using Triple = std::array<int64_t, 3>;

// The bias of each output channel, or zero, everywhere.
Tensor bias_everywhere(const Operation& operation, const Image& y) {
    Tensor result = zeros(operation.node.type);
    if (operation.args.size() < 3) return result;
    const auto& bias = operation.arg(2).data;
    const auto per_channel = static_cast<size_t>(y.extent[0] * y.extent[1] * y.extent[2]);
    for (size_t i = 0; i < result.data.size(); ++i) result.data[i] = bias[i / per_channel % bias.size()];
    return result;
}

// y[n, co, i·stride - padding + k·dilation] += x[n, ci, i] · w[ci, co within its group, k]
Tensor conv_transpose(const Operation& operation) {
    const size_t d = operation.shape(1).size() - 2;
    const Image x = Image::of(operation.shape(0), d), y = Image::of(operation.node.type.shape, d);
    const Image w = Image::of(operation.shape(1), d);  // [Cin, Cout/G, K…]
    const Triple stride = three_axes(operation.list(Key::stride), 1),
                 padding = three_axes(operation.list(Key::padding), 0),
                 dilation = three_axes(operation.list(Key::dilation), 1);
    const int64_t groups = operation.integer(Key::groups), in_group = x.c / groups;
    Tensor result = bias_everywhere(operation, y);
    for (int64_t n = 0; n < x.n; ++n)
        for (int64_t ci = 0; ci < x.c; ++ci)
            for (int64_t j = 0; j < w.c; ++j) {
                const int64_t co = ci / in_group * w.c + j;
                for_each_position(x.extent, [&](const Triple& i) {
                    const double element = operation.arg(0).data[x.at(n, ci, i)];
                    for_each_position(w.extent, [&](const Triple& k) {
                        Triple o;
                        for (size_t a = 0; a < 3; ++a) o[a] = i[a] * stride[a] - padding[a] + k[a] * dilation[a];
                        if (y.inside(o)) result.data[y.at(n, co, o)] += element * operation.arg(1).data[w.at(ci, j, k)];
                    });
                });
            }
    return result;
}

// y[n, co, o] = Σ w[co, ci within its group, k] · x[n, ci, o·stride - padding + k·dilation]
Tensor conv(const Operation& operation) {
    const size_t d = operation.shape(1).size() - 2;
    const Image x = Image::of(operation.shape(0), d), y = Image::of(operation.node.type.shape, d);
    const Image w = Image::of(operation.shape(1), d);  // [Cout, Cin/G, K…]
    const Triple stride = three_axes(operation.list(Key::stride), 1),
                 padding = three_axes(operation.list(Key::padding), 0),
                 dilation = three_axes(operation.list(Key::dilation), 1);
    const int64_t out_group = y.c / operation.integer(Key::groups);
    Tensor result = bias_everywhere(operation, y);
    for (int64_t n = 0; n < x.n; ++n)
        for (int64_t co = 0; co < y.c; ++co)
            for (int64_t j = 0; j < w.c; ++j) {
                const int64_t ci = co / out_group * w.c + j;
                for_each_position(y.extent, [&](const Triple& o) {
                    double sum = 0;
                    for_each_position(w.extent, [&](const Triple& k) {
                        Triple i;
                        for (size_t a = 0; a < 3; ++a) i[a] = o[a] * stride[a] - padding[a] + k[a] * dilation[a];
                        if (x.inside(i))
                            sum += operation.arg(0).data[x.at(n, ci, i)] * operation.arg(1).data[w.at(co, j, k)];
                    });
                    result.data[y.at(n, co, o)] += sum;
                });
            }
    return result;
}

// y[o] = x[⌊o / scale⌋]
Tensor upsample(const Operation& operation) {
    const size_t d = operation.list(Key::scale).size();
    const Image x = Image::of(operation.shape(0), d), y = Image::of(operation.node.type.shape, d);
    const Triple scale = three_axes(operation.list(Key::scale), 1);
    Tensor result = zeros(operation.node.type);
    for (int64_t n = 0; n < y.n; ++n)
        for (int64_t c = 0; c < y.c; ++c)
            for_each_position(y.extent, [&](const Triple& o) {
                const Triple i{o[0] / scale[0], o[1] / scale[1], o[2] / scale[2]};
                result.data[y.at(n, c, o)] = operation.arg(0).data[x.at(n, c, i)];
            });
    return result;
}

// The relation of one lattice convolution on three axes: down·o + offset = up·i + dil·k.
struct Relation {
    Triple up, down, dil, offset;

    explicit Relation(const Operation& operation)
        : up(three_axes(operation.list(Key::up), 1)),
          down(three_axes(operation.op() == Op::covariance ? Sizes{} : operation.list(Key::down), 1)),
          dil(three_axes(operation.list(Key::dil), 1)),
          offset(three_axes(operation.list(Key::offset), 0)) {}

    // Sets i to the input that o meets through k; false where there is none.
    bool input(const Triple& o, const Triple& k, const Image& x, Triple& i) const {
        for (size_t a = 0; a < 3; ++a) {
            const int64_t position = down[a] * o[a] + offset[a] - dil[a] * k[a];
            if (position % up[a] != 0) return false;
            i[a] = position / up[a];
        }
        return x.inside(i);
    }
};

}  // namespace

Tensor interpret_conv(const Operation& operation) {
    if (operation.op() == Op::conv_transpose) return conv_transpose(operation);
    return operation.op() == Op::conv ? conv(operation) : upsample(operation);
}

// lattice:    y[n, co, o] = Σ_{ci, k} w[g, ci, co, k] · x[n, ci, i]     over all (i, k) that o meets
// correlate: dw[g, ci, co, k] = Σ_{n, o} x[n, ci, i] · dy[n, co, o]     over all (i, o) that k joins
Tensor interpret_lattice(const Operation& operation) {
    const bool gradient = operation.op() == Op::correlate;
    const size_t d = operation.shape(0).size() - 2;
    const Image x = Image::of(operation.shape(0), d);
    const Image y = Image::of(gradient ? operation.shape(1) : operation.node.type.shape, d);
    const Sizes& weight_shape = gradient ? operation.node.type.shape : operation.shape(1);  // [G, Cin/G, Cout/G, K…]
    const int64_t in_group = weight_shape[1], out_group = weight_shape[2];
    const Image w = Image::of(Sizes(weight_shape.begin() + 1, weight_shape.end()), d);  // n, c: within one group
    const Relation relation(operation);

    Tensor result = gradient ? zeros(operation.node.type) : bias_everywhere(operation, y);
    const double* const inputs = operation.arg(0).data.data();
    const double* const others = operation.arg(1).data.data();  // weights, or dy
    struct Met {
        size_t input, tap;  // places within their channels
    };
    std::vector<Met> met;  // by one o, whatever the channels
    for (int64_t n = 0; n < x.n; ++n)
        for_each_position(y.extent, [&](const Triple& o) {
            met.clear();
            for_each_position(w.extent, [&](const Triple& k) {
                Triple i;
                if (relation.input(o, k, x, i)) met.push_back({x.at(0, 0, i), w.at(0, 0, k)});
            });
            for (int64_t co = 0; co < y.c; ++co)
                for (int64_t j = 0; j < in_group; ++j) {
                    const int64_t ci = co / out_group * in_group + j;
                    const size_t x_at = x.at(n, ci, {0, 0, 0}), y_at = y.at(n, co, o);
                    const size_t w_at = w.at(ci, co % out_group, {0, 0, 0});
                    if (gradient)
                        for (const Met& m : met) result.data[w_at + m.tap] += inputs[x_at + m.input] * others[y_at];
                    else
                        for (const Met& m : met) result.data[y_at] += others[w_at + m.tap] * inputs[x_at + m.input];
                }
        });
    return result;
}

// With p[a] what output (n, o) meets through a = (channel of the group, taps), 0 where there is nothing:
// the mean of p[a]·p[b] over all (n, o), less the product of the means; in a last row the means.
Tensor interpret_covariance(const Operation& operation) {
    const Image x = Image::of(operation.shape(0), operation.shape(0).size() - 2);
    const Triple taps = three_axes(operation.list(Key::taps), 1), out = three_axes(operation.list(Key::out), 1);
    const int64_t patch = operation.node.type.shape[0] - 1, columns = operation.node.type.shape[1];
    const int64_t groups = columns / patch, channels = x.c / groups, points = patch / channels;
    const double count = static_cast<double>(x.n * out[0] * out[1] * out[2]);
    const Relation relation(operation);
    Tensor result = zeros(operation.node.type);
    for (int64_t group = 0; group < groups; ++group) {
        const auto at = [&](int64_t a, int64_t b) { return static_cast<size_t>(a * columns + group * patch + b); };
        std::vector<double> sum(static_cast<size_t>(patch), 0.0);
        for (int64_t n = 0; n < x.n; ++n)
            for_each_position(out, [&](const Triple& o) {
                std::vector<std::pair<int64_t, double>> met;
                int64_t tap = 0;
                for_each_position(taps, [&](const Triple& k) {
                    Triple i;
                    if (relation.input(o, k, x, i))
                        for (int64_t c = 0; c < channels; ++c)
                            met.emplace_back(c * points + tap, operation.arg(0).data[x.at(n, group * channels + c, i)]);
                    ++tap;
                });
                for (const auto& [a, value] : met) {
                    sum[static_cast<size_t>(a)] += value;
                    for (const auto& [b, other] : met) result.data[at(a, b)] += value * other;
                }
            });
        for (int64_t a = 0; a < patch; ++a) {
            result.data[at(patch, a)] = sum[static_cast<size_t>(a)] / count;
            for (int64_t b = 0; b < patch; ++b)
                result.data[at(a, b)] = result.data[at(a, b)] / count -
                                        sum[static_cast<size_t>(a)] / count * (sum[static_cast<size_t>(b)] / count);
        }
    }
    return result;
}

}  // namespace transfuse::reference
