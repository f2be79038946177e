// The vocabulary as a table. docs/ops.md says what each op means.
#include <array>
#include <unordered_map>

#include "graph/schema.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr int64_t end_of_axis = std::numeric_limits<int64_t>::max();

AttributeSchema integer(Key key) { return {key, Kind::integer, {}}; }
AttributeSchema integer(Key key, int64_t value) { return {key, Kind::integer, value}; }
AttributeSchema flag(Key key, bool value) { return {key, Kind::flag, static_cast<int64_t>(value)}; }
AttributeSchema number(Key key) { return {key, Kind::number, {}}; }
AttributeSchema number(Key key, double value) { return {key, Kind::number, value}; }
AttributeSchema list(Key key) { return {key, Kind::integers, {}}; }
// One integer an axis; a list of one is spread over all of them by inference.
AttributeSchema axes(Key key, int64_t value) { return {key, Kind::integers, Sizes{value}}; }
AttributeSchema numbers(Key key) { return {key, Kind::numbers, {}}; }
AttributeSchema dtype() { return {Key::dtype, Kind::dtype, {}}; }
AttributeSchema all_dims() { return {Key::dims, Kind::integers, Sizes{}}; }
AttributeSchema optional(AttributeSchema schema) {
    schema.optional = true;
    return schema;
}

// clang-format off
const std::vector<Schema>& table() {
    using enum Op;
    using K = Key;
    const AttributeSchema keepdim = flag(K::keepdim, false), eps = number(K::eps, 1e-5);
    static const std::vector<Schema> schemas = {
        {input, "input", 0, 0, {}, ""},
        {param, "param", 0, 0, {}, ""},
        {scalar, "scalar", 0, 0, {number(K::value)}, ""},
        {full, "full", 0, 0, {dtype(), list(K::shape), number(K::value)}, ""},
        {constant, "constant", 0, 0, {dtype(), list(K::shape), numbers(K::values)}, ""},

        {conv_transpose, "conv_transpose", 2, 3,
         {axes(K::stride, 1), axes(K::padding, 0), axes(K::output_padding, 0), axes(K::dilation, 1), integer(K::groups, 1)},
         "x, w[, bias]"},
        {conv, "conv", 2, 3,
         {axes(K::stride, 1), axes(K::padding, 0), axes(K::dilation, 1), integer(K::groups, 1)}, "x, w[, bias]"},
        {upsample, "upsample", 1, 1, {list(K::scale)}, "x"},
        {lattice, "lattice", 2, 3,
         {axes(K::up, 1), axes(K::down, 1), axes(K::dil, 1), axes(K::offset, 0), list(K::out), optional(integer(K::groups))},
         "x, w[, bias]"},
        {correlate, "correlate", 2, 2,
         {axes(K::up, 1), axes(K::down, 1), axes(K::dil, 1), axes(K::offset, 0), list(K::taps), integer(K::groups, 1)},
         "x, g"},
        {covariance, "covariance", 1, 1,
         {axes(K::up, 1), axes(K::dil, 1), axes(K::offset, 0), list(K::out), list(K::taps), integer(K::groups, 1)}, "x"},

        {max_pool, "max_pool", 1, 1,
         {list(K::kernel), optional(list(K::stride)), axes(K::padding, 0), axes(K::dilation, 1), flag(K::ceil_mode, false)},
         "x"},
        {min_pool, "min_pool", 1, 1,
         {list(K::kernel), optional(list(K::stride)), axes(K::padding, 0), axes(K::dilation, 1), flag(K::ceil_mode, false)},
         "x"},
        {avg_pool, "avg_pool", 1, 1,
         {list(K::kernel), optional(list(K::stride)), axes(K::padding, 0), flag(K::ceil_mode, false),
          flag(K::count_include_pad, true), integer(K::divisor, 0)},
         "x"},
        {adaptive_avg_pool, "adaptive_avg_pool", 1, 1, {list(K::output_size)}, "x"},
        {adaptive_max_pool, "adaptive_max_pool", 1, 1, {list(K::output_size)}, "x"},
        {max_pool_grad, "max_pool_grad", 2, 2,
         {optional(list(K::kernel)), optional(list(K::stride)), axes(K::padding, 0), axes(K::dilation, 1),
          flag(K::ceil_mode, false), optional(list(K::output_size))},
         "x, g"},
        {avg_pool_grad, "avg_pool_grad", 1, 1,
         {list(K::sizes), optional(list(K::kernel)), optional(list(K::stride)), axes(K::padding, 0),
          flag(K::ceil_mode, false), flag(K::count_include_pad, true), integer(K::divisor, 0),
          optional(list(K::output_size))},
         "g"},
        {interpolate, "interpolate", 1, 1,
         {optional(list(K::output_size)), optional(numbers(K::scale)), flag(K::align_corners, false)}, "x"},
        {interpolate_grad, "interpolate_grad", 1, 1,
         {list(K::sizes), optional(numbers(K::scale)), flag(K::align_corners, false)}, "g"},

        {neg, "neg", 1, 1, {}, "x"},
        {abs, "abs", 1, 1, {}, "x"},
        {sign, "sign", 1, 1, {}, "x"},
        {exp, "exp", 1, 1, {}, "x"},
        {log, "log", 1, 1, {}, "x"},
        {sqrt, "sqrt", 1, 1, {}, "x"},
        {rsqrt, "rsqrt", 1, 1, {}, "x"},
        {reciprocal, "reciprocal", 1, 1, {}, "x"},
        {square, "square", 1, 1, {}, "x"},
        {sin, "sin", 1, 1, {}, "x"},
        {cos, "cos", 1, 1, {}, "x"},
        {erf, "erf", 1, 1, {}, "x"},
        {tanh, "tanh", 1, 1, {}, "x"},
        {sigmoid, "sigmoid", 1, 1, {}, "x"},
        {relu, "relu", 1, 1, {}, "x"},
        {leaky_relu, "leaky_relu", 1, 1, {number(K::negative_slope, 0.01)}, "x"},
        {elu, "elu", 1, 1, {number(K::alpha, 1)}, "x"},
        {selu, "selu", 1, 1, {}, "x"},
        {gelu, "gelu", 1, 1, {flag(K::approximate, false)}, "x"},
        {silu, "silu", 1, 1, {}, "x"},
        {mish, "mish", 1, 1, {}, "x"},
        {softplus, "softplus", 1, 1, {number(K::beta, 1), number(K::threshold, 20)}, "x"},
        {hardsigmoid, "hardsigmoid", 1, 1, {}, "x"},
        {hardswish, "hardswish", 1, 1, {}, "x"},
        {hardtanh, "hardtanh", 1, 1, {number(K::lo, -1), number(K::hi, 1)}, "x"},
        {clamp, "clamp", 1, 1, {number(K::lo, -inf), number(K::hi, inf)}, "x"},

        {add, "add", 2, 2, {}, "a, b"},
        {sub, "sub", 2, 2, {}, "a, b"},
        {mul, "mul", 2, 2, {}, "a, b"},
        {div, "div", 2, 2, {}, "a, b"},
        {pow, "pow", 2, 2, {}, "a, b"},
        {minimum, "minimum", 2, 2, {}, "a, b"},
        {maximum, "maximum", 2, 2, {}, "a, b"},
        {prelu, "prelu", 2, 2, {}, "x, weight"},
        {greater, "greater", 2, 2, {}, "a, b"},
        {greater_equal, "greater_equal", 2, 2, {}, "a, b"},
        {equal, "equal", 2, 2, {}, "a, b"},
        {select, "select", 3, 3, {}, "condition, a, b"},

        {sum, "sum", 1, 1, {all_dims(), keepdim}, "x"},
        {mean, "mean", 1, 1, {all_dims(), keepdim}, "x"},
        {amax, "amax", 1, 1, {all_dims(), keepdim}, "x"},
        {amin, "amin", 1, 1, {all_dims(), keepdim}, "x"},
        {logsumexp, "logsumexp", 1, 1, {all_dims(), keepdim, flag(K::finite, false)}, "x"},
        {var, "var", 1, 1, {all_dims(), keepdim, integer(K::correction, 1)}, "x"},
        {softmax, "softmax", 1, 1, {list(K::dims)}, "x"},
        {log_softmax, "log_softmax", 1, 1, {list(K::dims)}, "x"},

        {batch_norm, "batch_norm", 1, 5, {flag(K::training, false), eps},
         "x, mean, var[, weight[, bias]], or with training=1 x[, weight[, bias]]"},
        {group_norm, "group_norm", 1, 3, {integer(K::num_groups), eps}, "x[, weight[, bias]]"},
        {layer_norm, "layer_norm", 1, 3, {list(K::normalized_shape), eps}, "x[, weight[, bias]]"},
        {instance_norm, "instance_norm", 1, 3, {eps}, "x[, weight[, bias]]"},

        {reshape, "reshape", 1, 1, {list(K::shape)}, "x"},
        {permute, "permute", 1, 1, {list(K::order)}, "x"},
        {expand, "expand", 1, 1, {list(K::shape)}, "x"},
        {concat, "concat", 1, any_number, {integer(K::axis, 0)}, "x, ..."},
        {slice, "slice", 1, 1,
         {integer(K::axis), integer(K::start, 0), integer(K::end, end_of_axis), integer(K::step, 1)}, "x"},
        {pad, "pad", 1, 1, {list(K::start), list(K::end), number(K::value, 0)}, "x"},
        {flip, "flip", 1, 1, {list(K::dims)}, "x"},
        {identity, "identity", 1, 1, {}, "x"},
        {detach, "detach", 1, 1, {}, "x"},
        {cast, "cast", 1, 1, {dtype()}, "x"},

        {weight_norm, "weight_norm", 2, 2, {integer(K::axis, 0)}, "v, g"},
        {taps, "taps", 1, 1, {integer(K::axis), integer(K::rows), numbers(K::matrix)}, "w"},
        {box_sums, "box_sums", 1, 1, {list(K::dims), list(K::counts), list(K::los), list(K::his), list(K::steps)}, "x"},
        {box_spread, "box_spread", 1, 1,
         {list(K::dims), list(K::counts), list(K::los), list(K::his), list(K::steps), list(K::sizes)}, "h"},
    };
    return schemas;
}
// clang-format on

// In the order of the enum.
// clang-format off
constexpr std::array key_names = {
    "stride", "padding", "output_padding", "dilation", "groups", "kernel", "ceil_mode", "count_include_pad",
    "divisor", "output_size", "scale", "up", "down", "dil", "offset", "out", "taps", "dims", "keepdim", "finite",
    "correction", "eps", "momentum", "training", "num_groups", "normalized_shape", "negative_slope", "alpha", "gamma", "beta",
    "threshold", "approximate", "lo", "hi", "exponent", "shape", "order", "start", "end", "step", "axis", "value",
    "values", "dtype", "rows", "matrix", "counts", "los", "his", "steps", "sizes", "align_corners",
};
// clang-format on
static_assert(key_names.size() == static_cast<size_t>(Key::align_corners) + 1);

}  // namespace

const Schema& schema(Op op) { return table()[static_cast<size_t>(op)]; }

const AttributeSchema* find(const Schema& schema, Key key) {
    for (const AttributeSchema& attribute : schema.attributes)
        if (attribute.key == key) return &attribute;
    return nullptr;
}

std::optional<Op> op_named(std::string_view text) {
    static const auto ops = [] {
        std::unordered_map<std::string_view, Op> map;
        for (const Schema& schema : table()) map.emplace(schema.name, schema.op);
        return map;
    }();
    auto at = ops.find(text);
    return at == ops.end() ? std::nullopt : std::optional(at->second);
}

std::string_view name(Op op) { return schema(op).name; }

std::string_view name(Key key) { return key_names[static_cast<size_t>(key)]; }

std::optional<Key> key_named(std::string_view text) {
    for (size_t i = 0; i < key_names.size(); ++i)
        if (key_names[i] == text) return static_cast<Key>(i);
    return std::nullopt;
}

bool is_leaf(Op op) { return op == Op::input || op == Op::param; }
bool is_constant(Op op) { return op == Op::scalar || op == Op::full || op == Op::constant; }
bool is_unary(Op op) { return op >= Op::neg && op <= Op::clamp; }
bool is_binary(Op op) { return op >= Op::add && op <= Op::equal; }
bool is_pointwise(Op op) {
    return is_unary(op) || is_binary(op) || op == Op::select || op == Op::cast || op == Op::identity ||
           op == Op::detach;
}
bool is_reduction(Op op) { return op >= Op::sum && op <= Op::var; }

}  // namespace transfuse
