#include "algebra/terms/literals.h"

#include "graph/infer.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

constexpr int64_t most_elements = 65536;

// Row-major strides of `of`, as it broadcasts to `shape`.
Sizes strides(const Sizes& of, const Sizes& shape) {
    Sizes result(shape.size(), 0);
    int64_t stride = 1;
    for (size_t i = of.size(); i-- > 0; stride *= of[i])
        if (of[i] != 1) result[i + shape.size() - of.size()] = stride;
    return result;
}

// Element by element of `shape`: take(offset with these strides).
template <class Take>
void each(const Sizes& shape, const Sizes& strides, int64_t start, const Take& take) {
    Sizes index(shape.size(), 0);
    for (int64_t left = numel(shape); left > 0; --left) {
        int64_t offset = start;
        for (size_t axis = 0; axis < shape.size(); ++axis) offset += index[axis] * strides[axis];
        take(offset);
        for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
    }
}

std::vector<double> broadcast(const std::vector<double>& values, const Sizes& from, const Sizes& to) {
    std::vector<double> result;
    each(to, strides(from, to), 0, [&](int64_t offset) { result.push_back(values[at(offset)]); });
    return result;
}

}  // namespace

std::optional<std::vector<double>> literal(const Rewriter& r, ValueId v) {
    const Node& node = r[v];
    const Sizes& shape = node.type.shape;
    if (numel(shape) > most_elements) return std::nullopt;
    std::vector<std::vector<double>> args;
    switch (node.op) {
        case Op::scalar:
        case Op::full:
            return std::vector<double>(at(numel(shape)), node.attributes.number(Key::value));
        case Op::constant:
            return node.attributes.numbers(Key::values);
        case Op::reshape:
        case Op::expand:
        case Op::slice:
        case Op::concat:
        case Op::mul:
            break;
        default:
            return std::nullopt;
    }
    for (const ValueId arg : node.args) {
        std::optional<std::vector<double>> values = literal(r, arg);
        if (!values) return std::nullopt;
        args.push_back(std::move(*values));
    }
    if (node.op == Op::reshape) return args[0];
    if (node.op == Op::expand) return broadcast(args[0], r.shape(node.args[0]), shape);
    if (node.op == Op::mul) {
        std::vector<double> a = broadcast(args[0], r.shape(node.args[0]), shape);
        const std::vector<double> b = broadcast(args[1], r.shape(node.args[1]), shape);
        for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
        return a;
    }
    const auto axis = at(node.attributes.integer(Key::axis));
    std::vector<double> result(at(numel(shape)));
    if (node.op == Op::slice) {
        const Sizes& whole = r.shape(node.args[0]);
        Sizes steps(shape.size());
        int64_t stride = 1;
        for (size_t i = shape.size(); i-- > 0; stride *= whole[i]) steps[i] = stride;
        const int64_t start = steps[axis] * slice_bound(node.attributes.integer(Key::start), whole[axis]);
        steps[axis] *= node.attributes.integer(Key::step);
        result.clear();
        each(shape, steps, start, [&](int64_t offset) { result.push_back(args[0][at(offset)]); });
        return result;
    }
    int64_t outer = 1, inner = 1, written = 0;
    for (size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
    for (size_t piece = 0; piece < args.size(); ++piece) {
        const int64_t own = r.shape(node.args[piece])[axis] * inner;
        for (int64_t row = 0; row < outer; ++row)
            for (int64_t i = 0; i < own; ++i)
                result[at(row * shape[axis] * inner + written + i)] = args[piece][at(row * own + i)];
        written += own;
    }
    return result;
}

}  // namespace transfuse
