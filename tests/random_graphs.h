// Random well-formed graphs, and random data for their leaves: chains and small DAGs around convolutions in 1 to 3
// dimensions, with the parameters that break things (padding larger than the kernel, axes of size 1, dilation > stride,
// groups, output_padding, ceil_mode, broadcasting of every kind). The same seed gives the same graph on every machine.
//
//     for (uint64_t seed = 0; seed < 200; ++seed) {
//         Graph graph = random_graph(seed);
//         auto leaves = random_leaves(graph, seed);
//         auto expected = evaluate(graph, leaves);
//     }
//
// Values stay tame: logarithms, roots and divisors only see positive numbers (leaves whose name begins with "positive"
// are drawn from [0.5, 1.5), all others from [-1, 1)), so results are finite and well conditioned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse {

// splitmix64: the standard distributions differ between libraries, this does not.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567) {}
    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    int64_t between(int64_t lo, int64_t hi) {  // both included
        return lo + static_cast<int64_t>(next() % static_cast<uint64_t>(hi - lo + 1));
    }
    bool chance(double probability) { return uniform() < probability; }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
    double uniform(double lo, double hi) { return lo + (hi - lo) * uniform(); }
    template <class List>
    typename List::value_type pick(const List& list) {
        return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
    }

private:
    uint64_t state_;
};

struct RandomGraphOptions {
    DType dtype = DType::f64;
    int spatial = 0;  // dimensions, 1 to 3; 0: any
    int min_steps = 1, max_steps = 6;
    int64_t max_extent = 7;  // of the input, per spatial axis
    int64_t max_extent_3d = 5;
    int64_t max_channels = 6;
    double convolution = 0.25;  // how often a later step is one more convolution
    bool norms = true, pools = true, reductions = true, softmax = true, shapes = true, detach = true, branches = true;
    bool discontinuous = false;  // sign, greater, … of computed values: a rounding may flip the result
    bool smooth_only = false;    // nothing with kinks (relu, clamp, max pools, amax …): for finite differences
    bool ample =
        false;  // empty and larger batches, rows of whole vectors, long strides, depthwise, skip connections as well
};

class RandomGraphMaker {
public:
    RandomGraphMaker(uint64_t seed, const RandomGraphOptions& options)
        : random_(seed), options_(options), builder_("random" + std::to_string(seed)) {}

    Graph make() {
        const int64_t d = options_.spatial ? options_.spatial : random_.between(1, 3);
        Sizes shape{random_.between(1, 3), random_.between(1, options_.max_channels)};
        const int64_t longest = d == 3 ? std::min(options_.max_extent, options_.max_extent_3d) : options_.max_extent;
        for (int64_t j = 0; j < d; ++j) shape.push_back(random_.chance(0.1) ? 1 : random_.between(1, longest));
        if (options_.ample) {
            if (random_.chance(0.2)) shape[0] = random_.between(4, 9);
            if (random_.chance(0.5)) shape.back() = (shape.back() + 7) / 8 * 8;
            if (random_.chance(0.03)) {  // the mean of nothing is no number
                shape[0] = 0;
                options_.norms = options_.reductions = options_.softmax = options_.shapes = options_.pools = false;
            }
        }
        ValueId value = builder_.input("x", {options_.dtype, shape});
        while (random_.chance(0.3)) value = pointwise(value);  // before the convolution
        value = convolution(value);
        values_.push_back(value);
        const int64_t steps = random_.between(options_.min_steps, options_.max_steps);
        for (int64_t i = 0; i < steps; ++i) {
            value = step(value);
            values_.push_back(value);
        }
        std::vector<ValueId> outputs{value};
        if (options_.branches && random_.chance(0.25)) outputs.push_back(random_.pick(values_));
        return builder_.finish(std::move(outputs));
    }

    // One more op of any kind that suits the value.
    ValueId step(ValueId x) {
        const bool image = rank(x) >= 3 && rank(x) <= 5;
        if (options_.ample && image && small(x) && random_.chance(0.1)) return convolution(beside_a_skip(x));
        if (image && small(x) && random_.chance(options_.convolution)) return convolution(x);
        for (;;) switch (random_.between(0, 11)) {
                case 0:
                case 1:
                    return pointwise(x);
                case 2:
                case 3:
                    return combine(x);
                case 4:
                    if (!options_.pools || !image) break;
                    return pool(x);
                case 5:
                    if (!options_.norms || !image) break;
                    return norm(x);
                case 6:
                case 7:
                    if (!options_.reductions || rank(x) == 0) break;
                    return reduction(x);
                case 8:
                    if (!options_.softmax || rank(x) == 0) break;
                    return softmax(x);
                case 9:
                case 10:
                    if (!options_.shapes || rank(x) == 0) break;
                    return reshaping(x);
                case 11:
                    if (!options_.branches) break;
                    return branch(x);
            }
    }

    ValueId convolution(ValueId x) {
        const Sizes shape = builder_[x].type.shape;
        const size_t d = shape.size() - 2;
        if (random_.chance(0.1)) {
            Sizes scale;
            for (size_t j = 0; j < d; ++j) scale.push_back(random_.between(1, 3));
            return builder_.add(Op::upsample, {x}, {{Key::scale, scale}});
        }
        const bool transposed = random_.chance(0.75);
        const bool depthwise = options_.ample && random_.chance(0.15),
                   long_stride = options_.ample && random_.chance(0.15);
        const int64_t groups = depthwise ? shape[1] : random_.chance(0.6) ? 1 : divisor(shape[1]);
        const int64_t out_channels = groups * random_.between(1, std::max<int64_t>(1, options_.max_channels / groups));
        Sizes stride, padding, dilation, output_padding;
        Sizes weight = transposed ? Sizes{shape[1], out_channels / groups} : Sizes{out_channels, shape[1] / groups};
        for (size_t j = 0; j < d; ++j) {
            const bool far = long_stride && j + 1 == d && shape[2 + j] <= 40;
            const int64_t in = shape[2 + j], s = far ? random_.between(4, 8) : random_.between(1, 3),
                          l = random_.chance(0.7) ? 1 : random_.between(1, 4);
            int64_t k = far ? random_.between(s, 2 * s) : random_.between(1, d == 3 ? 3 : 5),
                    p = random_.chance(0.3) ? 0 : random_.between(0, k + 2);
            const int64_t more = random_.between(0, std::max(s, l) - 1);
            if (transposed) {
                while ((in - 1) * s - 2 * p + l * (k - 1) + more + 1 < 1) --p;
            } else {
                while (in + 2 * p < l * (k - 1) + 1) --k;
            }
            weight.push_back(k);
            stride.push_back(s);
            padding.push_back(p);
            dilation.push_back(l);
            output_padding.push_back(more);
        }
        std::vector<ValueId> args{x, weight_value(weight)};
        if (random_.chance(0.6)) args.push_back(param("bias", {out_channels}));
        Attributes attributes{
            {Key::stride, stride}, {Key::padding, padding}, {Key::dilation, dilation}, {Key::groups, groups}};
        if (transposed) attributes.set(Key::output_padding, output_padding);
        return builder_.add(transposed ? Op::conv_transpose : Op::conv, std::move(args), std::move(attributes));
    }

    ValueId pointwise(ValueId x) {
        using enum Op;
        static const std::vector<Op> smooth{neg,  square,   sin, cos, erf,  tanh,  sigmoid,    gelu, silu,
                                            mish, softplus, exp, log, sqrt, rsqrt, reciprocal, pow};
        static const std::vector<Op> kinked{abs, relu, leaky_relu, elu, selu, hardsigmoid, hardswish, hardtanh, clamp};
        if (options_.detach && random_.chance(0.08)) return builder_.add(random_.chance(0.6) ? detach : identity, {x});
        if (options_.discontinuous && random_.chance(0.05)) return builder_.add(sign, {x});
        if (!options_.smooth_only && random_.chance(0.05)) {  // a leaky relu, written out: continuous
            const ValueId positive = builder_.binary(random_.chance(0.5) ? greater : greater_equal, x, 0.0);
            return builder_.add(select, {positive, x, builder_.binary(mul, x, random_.uniform(-0.5, 0.5))});
        }
        const Op op = options_.smooth_only || random_.chance(0.5) ? random_.pick(smooth) : random_.pick(kinked);
        Attributes attributes;
        switch (op) {
            case leaky_relu:
                attributes.set(Key::negative_slope, random_.uniform(-0.5, 0.5));
                break;
            case elu:
                attributes.set(Key::alpha, random_.uniform(0.2, 2));
                break;
            case gelu:
                attributes.set(Key::approximate, random_.between(0, 1));
                break;
            case softplus:
                attributes.set(Key::beta, random_.uniform(0.5, 2));
                break;
            case hardtanh:
            case clamp: {
                const double lo = random_.uniform(-1, 0.5);
                if (op == hardtanh || random_.chance(0.8)) attributes.set(Key::lo, lo);
                if (op == hardtanh || random_.chance(0.8)) attributes.set(Key::hi, lo + random_.uniform(0, 1));
                break;
            }
            case exp:
                x = builder_.add(tanh, {x});
                break;
            case log:
            case sqrt:
            case rsqrt:
            case reciprocal:
            case pow:
                x = builder_.binary(add, builder_.add(square, {x}), 0.5);
                break;
            default:
                break;
        }
        if (op == pow) return builder_.binary(pow, x, random_.pick(std::vector{-1.0, 0.5, 1.5, 2.0, 3.0}));
        return builder_.add(op, {x}, std::move(attributes));
    }

    // With a number, a parameter that broadcasts in any way, or an earlier value.
    ValueId combine(ValueId x) {
        const Sizes& shape = builder_[x].type.shape;
        if (!options_.smooth_only && shape.size() >= 2 && random_.chance(0.08))
            return builder_.add(Op::prelu, {x, param("slope", {random_.chance(0.5) ? 1 : shape[1]})});
        std::vector<Op> ops{Op::add, Op::sub, Op::mul, Op::div};
        if (!options_.smooth_only) ops.insert(ops.end(), {Op::minimum, Op::maximum});
        if (options_.discontinuous) ops.insert(ops.end(), {Op::greater, Op::greater_equal, Op::equal});
        const Op op = random_.pick(ops);
        const bool swapped = op != Op::div && random_.chance(0.2);
        ValueId other;
        if (op != Op::div && random_.chance(0.3) && (other = earlier_of_shape(shape)) >= 0) {
            if (options_.detach && random_.chance(0.3)) other = builder_.add(Op::detach, {other});
        } else if (random_.chance(0.35)) {
            const double magnitude = random_.uniform(0.5, 2);
            other = builder_.scalar(random_.chance(0.3) ? -magnitude : magnitude);
        } else {
            other = param(op == Op::div ? "positive" : "p", broadcastable(shape));
        }
        return swapped ? builder_.binary(op, other, x) : builder_.binary(op, x, other);
    }

    ValueId pool(ValueId x) {
        const Sizes& shape = builder_[x].type.shape;
        const size_t d = shape.size() - 2;
        const bool average = options_.smooth_only || random_.chance(0.5);
        if (random_.chance(0.15)) {
            Attributes attributes{{Key::align_corners, random_.between(0, 1)}};
            if (random_.chance(0.6)) {
                std::vector<double> scale;
                for (size_t j = 0; j < d; ++j) scale.push_back(random_.pick(std::vector<double>{1, 2, 2, 1.5, 3}));
                attributes.set(Key::scale, scale);
            } else {
                Sizes size;
                for (size_t j = 0; j < d; ++j) size.push_back(random_.between(1, 2 * shape[2 + j]));
                attributes.set(Key::output_size, size);
            }
            return builder_.add(Op::interpolate, {x}, std::move(attributes));
        }
        if (random_.chance(0.25)) {
            Sizes size;
            for (size_t j = 0; j < d; ++j) size.push_back(random_.chance(0.5) ? 1 : random_.between(1, shape[2 + j]));
            return builder_.add(average ? Op::adaptive_avg_pool : Op::adaptive_max_pool, {x},
                                {{Key::output_size, size}});
        }
        Sizes kernel, stride, padding, dilation;
        for (size_t j = 0; j < d; ++j) {
            const int64_t k = std::min(random_.between(1, 3), shape[2 + j]);
            kernel.push_back(k);
            stride.push_back(random_.chance(0.6) ? k : random_.between(1, 3));
            padding.push_back(random_.chance(0.7) ? 0 : random_.between(0, k / 2));
            dilation.push_back(random_.chance(0.8) || 2 * (k - 1) >= shape[2 + j] ? 1 : 2);
        }
        Attributes attributes{{Key::kernel, kernel},
                              {Key::stride, stride},
                              {Key::padding, padding},
                              {Key::ceil_mode, random_.between(0, 1)}};
        if (!average) {
            attributes.set(Key::dilation, dilation);
            return builder_.add(random_.chance(0.7) ? Op::max_pool : Op::min_pool, {x}, std::move(attributes));
        }
        attributes.set(Key::count_include_pad, random_.between(0, 1));
        if (random_.chance(0.15)) attributes.set(Key::divisor, random_.between(1, 5));
        return builder_.add(Op::avg_pool, {x}, std::move(attributes));
    }

    ValueId norm(ValueId x) {
        const Sizes shape = builder_[x].type.shape;
        const int64_t channels = shape[1];
        int64_t spatial = 1;
        for (size_t axis = 2; axis < shape.size(); ++axis) spatial *= shape[axis];
        const Op op = random_.pick(
            std::vector{Op::batch_norm, Op::batch_norm, Op::group_norm, Op::layer_norm, Op::instance_norm});
        std::vector<ValueId> args{x};
        Attributes attributes{{Key::eps, random_.pick(std::vector{1e-5, 1e-3, 0.1})}};
        Sizes affine{channels};
        if (op == Op::batch_norm) {
            const bool training = shape[0] * spatial > 1 && random_.chance(0.6);
            attributes.set(Key::training, static_cast<int64_t>(training));
            if (!training) args.insert(args.end(), {param("mean", {channels}), param("positive_var", {channels})});
        } else if (op == Op::group_norm) {
            attributes.set(Key::num_groups, divisor(channels));
        } else if (op == Op::layer_norm) {
            affine = Sizes(shape.begin() + random_.between(1, static_cast<int64_t>(shape.size()) - 1), shape.end());
            attributes.set(Key::normalized_shape, affine);
        } else if (spatial == 1) {
            return pointwise(x);
        }
        if (random_.chance(0.6)) {
            args.push_back(param("weight", affine));
            if (random_.chance(0.8)) args.push_back(param("shift", affine));
        }
        return builder_.add(op, std::move(args), std::move(attributes));
    }

    ValueId reduction(ValueId x) {
        std::vector<Op> ops{Op::sum, Op::mean, Op::mean, Op::logsumexp, Op::var};
        if (!options_.smooth_only) ops.insert(ops.end(), {Op::amax, Op::amin});
        const Op op = random_.pick(ops);
        const Sizes dims = some_dims(x);
        const bool keepdim = random_.chance(0.7);
        Attributes attributes{{Key::dims, dims}, {Key::keepdim, static_cast<int64_t>(keepdim)}};
        if (op == Op::var) {
            int64_t count = 1;
            for (int64_t dim : dims) count *= builder_[x].type.shape[static_cast<size_t>(dim)];
            attributes.set(Key::correction, count > 1 ? random_.between(0, 1) : 0);
        }
        const ValueId reduced = builder_.add(op, {x}, std::move(attributes));
        // Back to the full shape, as in x - mean(x): a value that depends on all of x.
        return keepdim && random_.chance(0.4) ? builder_.binary(Op::sub, x, reduced) : reduced;
    }

    ValueId softmax(ValueId x) {
        const Sizes dims = random_.chance(0.6) && rank(x) > 1 ? Sizes{1} : some_dims(x);
        return builder_.add(random_.chance(0.7) ? Op::softmax : Op::log_softmax, {x}, {{Key::dims, dims}});
    }

    ValueId reshaping(ValueId x) {
        const Sizes& shape = builder_[x].type.shape;
        const int64_t axis = random_.between(0, rank(x) - 1), extent = shape[static_cast<size_t>(axis)];
        switch (random_.between(0, 6)) {
            case 0: {
                const int64_t start = random_.between(0, extent - 1);
                return builder_.add(Op::slice, {x},
                                    {{Key::axis, axis},
                                     {Key::start, random_.chance(0.3) ? start - extent : start},
                                     {Key::end, random_.chance(0.5) ? extent : random_.between(start + 1, extent)},
                                     {Key::step, random_.between(1, 3)}});
            }
            case 1: {
                Sizes start(shape.size()), end(shape.size());
                for (size_t a = std::min<size_t>(2, shape.size() - 1); a < shape.size(); ++a) {
                    start[a] = random_.between(0, 2);
                    end[a] = random_.between(start[a] + shape[a] > 1 ? -1 : 0, 2);
                }
                return builder_.add(Op::pad, {x},
                                    {{Key::start, start},
                                     {Key::end, end},
                                     {Key::value, random_.chance(0.6) ? 0.0 : random_.uniform(-1, 1)}});
            }
            case 2:
                return builder_.add(Op::flip, {x}, {{Key::dims, some_dims(x)}});
            case 3: {
                Sizes order;
                for (int64_t a = 0; a < rank(x); ++a) order.push_back(a);
                for (size_t a = order.size(); a-- > 1;)
                    std::swap(order[a], order[static_cast<size_t>(random_.between(0, static_cast<int64_t>(a)))]);
                return builder_.add(Op::permute, {x}, {{Key::order, order}});
            }
            case 4:  // flatten from some axis on
                if (rank(x) > 1) {
                    Sizes flat(shape.begin(), shape.begin() + random_.between(1, rank(x) - 1));
                    flat.push_back(-1);
                    return builder_.reshape(x, std::move(flat));
                }
                [[fallthrough]];
            case 5:
                return concat(x, axis);
            default: {
                Sizes expanded = shape;
                for (int64_t& e : expanded)
                    if (e == 1 && random_.chance(0.5)) e = random_.between(1, 3);
                return builder_.add(Op::expand, {x}, {{Key::shape, expanded}});
            }
        }
    }

    // Channels of an earlier layer before or behind those of this one.
    ValueId beside_a_skip(ValueId x) {
        Sizes shape = builder_[x].type.shape;
        shape[1] = random_.between(1, std::max<int64_t>(1, options_.max_channels / 2));
        const ValueId skip = builder_.input("skip" + std::to_string(params_++), {options_.dtype, std::move(shape)});
        return builder_.add(Op::concat, random_.chance(0.5) ? std::vector{skip, x} : std::vector{x, skip},
                            {{Key::axis, int64_t{1}}});
    }

    // A value that parts and meets again.
    ValueId branch(ValueId x) {
        if (rank(x) > 0 && random_.chance(0.3)) return concat(x, random_.between(0, rank(x) - 1));
        const ValueId one = pointwise(x), two = random_.chance(0.5) ? pointwise(x) : x;
        return builder_.binary(random_.pick(std::vector{Op::add, Op::mul, Op::sub}), one, two);
    }

    Builder& builder() { return builder_; }
    Random& random() { return random_; }

private:
    int64_t rank(ValueId id) const { return builder_[id].type.rank(); }
    bool small(ValueId id) const { return numel(builder_[id].type.shape) < 4000; }

    ValueId param(const std::string& kind, Sizes shape) {
        return builder_.param(kind + std::to_string(params_++), {options_.dtype, std::move(shape)});
    }

    // Mostly a parameter; sometimes an expression of parameters.
    ValueId weight_value(const Sizes& shape) {
        if (random_.chance(0.15)) {
            Sizes norms(shape.size(), 1);
            norms[0] = shape[0];
            return builder_.add(Op::weight_norm, {param("v", shape), param("g", norms)}, {{Key::axis, int64_t{0}}});
        }
        const ValueId w = param("w", shape);
        return random_.chance(0.1) ? builder_.binary(Op::mul, w, param("s", {})) : w;
    }

    ValueId concat(ValueId x, int64_t axis) {
        std::vector<ValueId> pieces{x, pointwise(x)};
        const Sizes& shape = builder_[x].type.shape;
        if (random_.chance(0.3)) {
            Sizes extra = shape;
            extra[static_cast<size_t>(axis)] = random_.between(1, 3);
            pieces.push_back(param("piece", extra));
        }
        if (random_.chance(0.3)) std::swap(pieces.front(), pieces.back());
        return builder_.add(Op::concat, std::move(pieces), {{Key::axis, axis}});
    }

    ValueId earlier_of_shape(const Sizes& shape) {
        std::vector<ValueId> alike;
        for (ValueId id : values_)
            if (builder_[id].type.shape == shape) alike.push_back(id);
        return alike.empty() ? -1 : random_.pick(alike);
    }

    // Scalar, per channel (with and without leading axes), per (n, c), full, or anything.
    Sizes broadcastable(const Sizes& shape) {
        if (shape.empty()) return {};
        Sizes result(shape.size(), 1);
        const int64_t sort = random_.between(0, 5);
        if (sort == 0) return {};
        if (sort == 5) return shape;
        if (sort == 4) {
            for (size_t axis = 0; axis < shape.size(); ++axis)
                if (random_.chance(0.5)) result[axis] = shape[axis];
            return result;
        }
        if (shape.size() < 2) return random_.chance(0.5) ? Sizes{1} : shape;
        result[1] = shape[1];
        if (sort == 3) result[0] = shape[0];
        if (sort == 2) result.erase(result.begin());
        return result;
    }

    Sizes some_dims(ValueId x) {
        const int64_t r = rank(x);
        if (r >= 3 && random_.chance(0.4)) {  // all spatial axes
            Sizes spatial;
            for (int64_t axis = 2; axis < r; ++axis) spatial.push_back(axis);
            return spatial;
        }
        Sizes dims;
        for (int64_t axis = 0; axis < r; ++axis)
            if (random_.chance(0.4)) dims.push_back(axis);
        if (dims.empty()) dims.push_back(random_.between(0, r - 1));
        return dims;
    }

    int64_t divisor(int64_t n) {
        Sizes divisors;
        for (int64_t i = 1; i <= n; ++i)
            if (n % i == 0) divisors.push_back(i);
        return random_.pick(divisors);
    }

    Random random_;
    RandomGraphOptions options_;
    Builder builder_;
    std::vector<ValueId> values_;
    int params_ = 0;
};

inline Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {}) {
    return RandomGraphMaker(seed, options).make();
}

inline std::vector<std::vector<double>> random_leaves(const Graph& graph, uint64_t seed) {
    Random random(seed ^ 0xda7a);
    std::vector<std::vector<double>> leaves;
    for (ValueId id : graph.leaves()) {
        const bool positive = graph[id].name.starts_with("positive");
        std::vector<double> values(static_cast<size_t>(numel(graph[id].type.shape)));
        for (double& value : values) value = positive ? random.uniform(0.5, 1.5) : random.uniform(-1, 1);
        leaves.push_back(std::move(values));
    }
    return leaves;
}

}  // namespace transfuse
