// The graph: an immutable list of typed, single-result nodes in topological order. Shapes and dtypes are inferred and
// checked with PyTorch's rules when a node is added; a Graph that exists is well-formed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "transfuse/lattice.h"
#include "transfuse/tensor.h"

namespace transfuse {

// The vocabulary. docs/ops.md says what each op means; src/graph/ops.cpp holds the schema of each (operands,
// attributes, defaults). "Primitive" ops are what the algebra leaves for the planner; the others are rewritten away.
enum class Op : uint8_t {
    // leaves
    input, param, scalar, full, constant,
    // convolution-like.  lattice(x, w[, bias]): w is [G, Cin/G, Cout/G, K…], the one primitive they all become.
    conv_transpose, conv, upsample, lattice,
    // correlate(x, g): the weight gradient of lattice(x, w): dw[G, Cin/G, Cout/G, K…] = Σ_{n, o, i} x[i]·g[o].
    correlate,
    // covariance(x): of the inputs that each output of a lattice (down = 1) meets through its taps, absent ones counted
    // as zero. f64 [A + 1, G·A, 1], A = Cin/G·ΠK, counting (input channel, taps) row by row; in row A
    // their means. With C the first A rows the variance of lattice(x, w) over batch and space is wᵀ·C·w.
    covariance,
    // pools
    max_pool, min_pool, avg_pool, adaptive_avg_pool, adaptive_max_pool, max_pool_grad, avg_pool_grad,
    // linear interpolation between neighbours, and its transpose
    interpolate, interpolate_grad,
    // pointwise, one operand
    neg, abs, sign, exp, log, sqrt, rsqrt, reciprocal, square, sin, cos, erf, tanh, sigmoid, relu, leaky_relu, elu, selu,
    gelu, silu, mish, softplus, hardsigmoid, hardswish, hardtanh, clamp,
    // pointwise, two or three operands, broadcasting.  greater & co. give 0 or 1 in the operands' dtype.
    add, sub, mul, div, pow, minimum, maximum, prelu, greater, greater_equal, equal, select,
    // reductions
    sum, mean, amax, amin, logsumexp, var,
    softmax, log_softmax,
    // norms
    batch_norm, group_norm, layer_norm, instance_norm,
    // shape
    reshape, permute, expand, concat, slice, pad, flip,
    identity, detach, cast,
    // parameter expressions.  taps(w): w'[.., k', ..] = Σ_k matrix[k', k]·w[.., k, ..] along `axis`.
    weight_norm, taps,
    // collapse.  box_sums(x): [N, C, …] → [N, C·ΠB, …], channel c·ΠB + b, reduced axes of extent 1, one sum per box b (a
    // product of one interval per reduced axis). box_spread is its transpose.
    box_sums, box_spread,
};

// Attribute keys, shared by all ops.
enum class Key : uint8_t {
    stride, padding, output_padding, dilation, groups, kernel, ceil_mode, count_include_pad, divisor, output_size, scale,
    up, down, dil, offset, out, taps,
    dims, keepdim, finite, correction, eps, momentum, training, num_groups, normalized_shape,
    negative_slope, alpha, gamma, beta, threshold, approximate, lo, hi, exponent,
    shape, order, start, end, step, axis, value, values, dtype,
    rows, matrix, counts, los, his, steps, sizes, align_corners,
};

using Number = std::variant<int64_t, double, Sizes, std::vector<double>>;

// A small sorted set of (key, value). Booleans are int64 0/1; dtypes are int64 of the enum. Copies share it until one
// is set anew.
class Attributes {
public:
    using Items = std::vector<std::pair<Key, Number>>;
    Attributes() = default;
    Attributes(std::initializer_list<std::pair<Key, Number>> list);
    Attributes& set(Key key, Number value);
    bool has(Key key) const;
    int64_t integer(Key key) const;                    // throws Error if absent or of another kind
    double number(Key key) const;                      // accepts an integer
    bool flag(Key key) const { return integer(key) != 0; }
    const Sizes& integers(Key key) const;
    const std::vector<double>& numbers(Key key) const;
    const Items& items() const;
    size_t hash() const { return held_ ? held_->hash : 0; }
    bool operator==(const Attributes& other) const { return held_ == other.held_ || items() == other.items(); }
    bool same(const Attributes& other) const;          // to the bit, where == says that 0 is -0

private:
    struct Held {
        explicit Held(Items list);
        Items items;  // sorted by key
        size_t hash;
    };
    std::shared_ptr<Held> held_;  // null: none
};

using ValueId = int32_t;  // index of a node in its graph; a node has one result

using Operands = Few<ValueId, 4>;

struct Node {
    Op op;
    Operands args;
    Attributes attributes;  // complete: defaults are filled in, negative dims made positive, scalars spread per axis
    Type type;
    std::string name;       // leaves: required and unique; others: optional, printed when present
    bool operator==(const Node&) const = default;
};

class Graph {
public:
    Graph();
    Graph(const Graph&) = default;  // copies share their contents; to move is to copy, so that none is left without
    Graph& operator=(const Graph&) = default;
    const std::string& name() const { return contents_->name; }
    const std::vector<Node>& nodes() const { return contents_->nodes; }
    const Node& operator[](ValueId id) const { return contents_->nodes[static_cast<size_t>(id)]; }
    ValueId size() const { return static_cast<ValueId>(contents_->nodes.size()); }
    // Inputs and params, in order of declaration: the order of tensors given to run().
    const std::vector<ValueId>& leaves() const { return contents_->leaves; }
    const std::vector<ValueId>& outputs() const { return contents_->outputs; }
    const std::vector<std::string>& output_names() const { return contents_->output_names; }
    bool operator==(const Graph& other) const { return contents_ == other.contents_ || *contents_ == *other.contents_; }

    // The same program for other shapes (and dtypes) of its leaves, inferred and checked anew.
    Graph with_leaf_types(const std::vector<Type>& types) const;
    // Other nodes in the places of some, of the same types, whose operands stand before them. Nothing is inferred, and
    // what nobody reads any more stays: values keep their numbers.
    Graph with_nodes(std::vector<std::pair<ValueId, Node>> others) const;

private:
    friend class Builder;
    struct Contents {
        std::string name;
        std::vector<Node> nodes;
        std::vector<ValueId> leaves, outputs;
        std::vector<std::string> output_names;
        bool operator==(const Contents&) const = default;
    };
    explicit Graph(Contents contents) : contents_(std::make_shared<Contents>(std::move(contents))) {}
    std::shared_ptr<const Contents> contents_;  // never null; copies share it
};

// Appends checked nodes; equal nodes are made once (hash-consing), so common subexpressions share a value.
class Builder {
public:
    explicit Builder(std::string name = "graph") : name_(std::move(name)) {}

    ValueId input(std::string name, Type type);
    ValueId param(std::string name, Type type);
    ValueId scalar(double value);                                    // rank 0, weak dtype, as a Python number in PyTorch
    ValueId full(Type type, double value);
    ValueId add(Op op, Operands args, Attributes attributes = {}, std::string name = {});
    // A node of another graph again, on operands that are what its own are there: of their types, numbers where they are
    // numbers. Nothing is inferred.
    ValueId again(const Node& node, Operands args) {
        return append({node.op, std::move(args), node.attributes, node.type, node.name});
    }
    const Node& operator[](ValueId id) const { return nodes_[static_cast<size_t>(id)]; }
    ValueId size() const { return static_cast<ValueId>(nodes_.size()); }
    void expect(size_t nodes) { known_.expect(nodes); }  // so many will be appended

    // Shorthands used by rules and gradients.
    ValueId binary(Op op, ValueId a, ValueId b) { return add(op, {a, b}); }
    ValueId binary(Op op, ValueId a, double b) { return add(op, {a, scalar(b)}); }
    ValueId reduce(Op op, ValueId x, Sizes dims, bool keepdim = true);
    ValueId reshape(ValueId x, Sizes shape);
    ValueId lattice(ValueId x, ValueId w, ValueId bias_or_minus_one, const Lattices& axes, int64_t groups);

    // Drops nodes no output needs (leaves are always kept, in order) and seals the graph.
    Graph finish(std::vector<ValueId> outputs, std::vector<std::string> output_names = {});

private:
    // Values by a hash.
    class Index {
    public:
        template <class Same>
        ValueId find(size_t hash, const Same& same) const;  // the value it is true of, or -1
        void add(size_t hash, ValueId value);
        void expect(size_t values);

    private:
        void make_room(size_t slots);
        std::vector<std::pair<size_t, ValueId>> slots_;  // a power of two; -1: empty
        size_t taken_ = 0;
    };
    ValueId append(Node node);
    bool take_name(const std::string& name, ValueId value);  // false: another value has it
    std::string name_;
    // References to nodes stay valid while others are appended.
    class Nodes {
    public:
        size_t size() const { return parts_.empty() ? 0 : (parts_.size() - 1) * part + parts_.back().size(); }
        Node& operator[](size_t i) { return parts_[i / part][i % part]; }
        const Node& operator[](size_t i) const { return parts_[i / part][i % part]; }
        void push_back(Node node);

    private:
        static constexpr size_t part = 64;
        std::vector<std::vector<Node>> parts_;  // each has room for `part` nodes
    };
    Nodes nodes_;
    std::vector<ValueId> leaves_;
    Index known_, names_;
};

// What a node says of itself.
std::string_view name(Op op);
bool is_leaf(Op op);        // input, param
bool is_constant(Op op);    // scalar, full, constant
bool is_unary(Op op);       // pointwise with one operand
bool is_binary(Op op);      // pointwise with two operands
bool is_pointwise(Op op);   // any pointwise, select, cast, identity, detach
bool is_reduction(Op op);   // sum … var
// The per-axis lattices of a `lattice` node (or, with the x and w types given, of conv_transpose/conv/avg_pool/upsample).
Lattices lattices(const Graph& graph, ValueId id);
Lattices lattices(const Node& node, const Type& x, int64_t first_spatial_tap_axis, const Type& w);
// The first index a `slice` of a tensor of type x takes. Its attributes start and end stay as written (negative: from the
// end), so that the slice holds for other extents; the number of elements is the extent of the result.
int64_t slice_start(const Node& slice, const Type& x);
// True for every value that depends on params and constants alone.
std::vector<bool> parameter_values(const Graph& graph);
// uses[v]: the nodes that read v, in order.
std::vector<std::vector<ValueId>> uses(const Graph& graph);

// Text form.  print(parse(print(g))) == print(g), exactly; parse throws Error naming line, column and what was expected.
//
//     graph decoder {
//       %x = input f32[16,64,128,128]
//       %w = param f32[64,128,3,3]
//       %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,1]
//       %z = mul(%y, 0.5)
//       %m = mean(%z) dims=[2,3] keepdim=1
//       return %m
//     }
Graph parse(std::string_view text);
std::string print(const Graph& graph);

}  // namespace transfuse
