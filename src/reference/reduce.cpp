// Reductions, softmax and norms, from groups of elements.
#include <cmath>
#include <limits>

#include "reference/interpret.h"
#include "transfuse/error.h"

namespace transfuse::reference {

namespace {

// The elements of x in groups: one group for each index of the axes that are not in `dims`.
std::vector<std::vector<size_t>> groups_over(const Sizes& shape, const Sizes& dims) {
    Sizes kept = shape;
    for (int64_t dim : dims) kept[static_cast<size_t>(dim)] = 1;
    const Sizes strides = broadcast_strides(kept, shape);
    std::vector<std::vector<size_t>> groups(static_cast<size_t>(numel(kept)));
    size_t next = 0;
    for_each_index(shape, [&](const Sizes& index) { groups[at(index, strides)].push_back(next++); });
    return groups;
}

double mean_of(const std::vector<double>& x, const std::vector<size_t>& group) {
    double sum = 0;
    for (size_t i : group) sum += x[i];
    return sum / static_cast<double>(group.size());
}

// Σ (x - mean)² / (count - correction)
double variance_of(const std::vector<double>& x, const std::vector<size_t>& group, int64_t correction) {
    const double mean = mean_of(x, group);
    double sum = 0;
    for (size_t i : group) sum += (x[i] - mean) * (x[i] - mean);
    return sum / std::max(0.0, static_cast<double>(group.size()) - static_cast<double>(correction));
}

// The largest, or the smallest with sign -1; a NaN wins.
double extreme_of(const std::vector<double>& x, const std::vector<size_t>& group, double sign) {
    double best = -std::numeric_limits<double>::infinity();
    for (size_t i : group)
        if (sign * x[i] > best || std::isnan(x[i])) best = sign * x[i];
    return sign * best;
}

double log_sum_exp_of(const std::vector<double>& x, const std::vector<size_t>& group, bool finite) {
    double largest = extreme_of(x, group, 1);
    if (std::isinf(largest) && !(finite && largest > 0)) largest = 0;  // inf - inf would be NaN
    double sum = 0;
    for (size_t i : group) sum += std::exp(x[i] - largest);
    return std::log(sum) + largest;
}

double reduced(const Operation& operation, const std::vector<size_t>& group) {
    const std::vector<double>& x = operation.arg(0).data;
    switch (operation.op()) {
        case Op::sum: {
            double sum = 0;
            for (size_t i : group) sum += x[i];
            return sum;
        }
        case Op::mean:
            return mean_of(x, group);
        case Op::amax:
            return extreme_of(x, group, 1);
        case Op::amin:
            return extreme_of(x, group, -1);
        case Op::logsumexp:
            return log_sum_exp_of(x, group, operation.node.attributes.flag(Key::finite));
        case Op::var:
            return variance_of(x, group, operation.integer(Key::correction));
        default:
            fail(name(operation.op()), ": not a reduction");
    }
}

// (x - mean) / √(var + eps) · weight + bias, where index(i) says which weight and bias belong to element i.
template <class Index>
void normalize(const Operation& operation, Tensor& result, const std::vector<size_t>& group, double mean, double var,
               size_t first_affine, const Index& index) {
    const double scale = 1 / std::sqrt(var + operation.number(Key::eps));
    for (size_t i : group) {
        double value = (operation.arg(0).data[i] - mean) * scale;
        if (operation.args.size() > first_affine) value *= operation.arg(first_affine).data[index(i)];
        if (operation.args.size() > first_affine + 1) value += operation.arg(first_affine + 1).data[index(i)];
        result.data[i] = value;
    }
}

// w = g · v / ‖v‖, the norm over all axes but `axis`.
Tensor weight_norm(const Operation& operation) {
    const auto axis = static_cast<size_t>(operation.integer(Key::axis));
    Sizes dims;
    for (size_t a = 0; a < operation.shape(0).size(); ++a)
        if (a != axis) dims.push_back(static_cast<int64_t>(a));
    const std::vector<double>& v = operation.arg(0).data;
    Tensor result = zeros(operation.node.type);
    size_t row = 0;
    for (const auto& group : groups_over(operation.shape(0), dims)) {
        double squares = 0;
        for (size_t i : group) squares += v[i] * v[i];
        for (size_t i : group) result.data[i] = v[i] * (operation.arg(1).data[row] / std::sqrt(squares));
        ++row;
    }
    return result;
}

}  // namespace

Tensor interpret_reduction(const Operation& operation) {
    Tensor result{operation.node.type, {}};
    for (const auto& group : groups_over(operation.shape(0), operation.list(Key::dims)))
        result.data.push_back(reduced(operation, group));
    return result;
}

Tensor interpret_softmax(const Operation& operation) {
    const std::vector<double>& x = operation.arg(0).data;
    Tensor result = zeros(operation.node.type);
    for (const auto& group : groups_over(operation.shape(0), operation.list(Key::dims))) {
        const double largest = extreme_of(x, group, 1);
        double sum = 0;
        for (size_t i : group) sum += std::exp(x[i] - largest);
        for (size_t i : group) {
            const double shifted = x[i] - largest;
            result.data[i] = operation.op() == Op::softmax ? std::exp(shifted) / sum : shifted - std::log(sum);
        }
    }
    return result;
}

Tensor interpret_norm(const Operation& operation) {
    if (operation.op() == Op::weight_norm) return weight_norm(operation);
    const std::vector<double>& x = operation.arg(0).data;
    const Sizes& shape = operation.shape(0);
    Tensor result = zeros(operation.node.type);

    if (operation.op() == Op::layer_norm) {  // over the last axes; weight and bias have their shape
        const Sizes& normalized = operation.list(Key::normalized_shape);
        const auto size = static_cast<size_t>(numel(normalized));
        Sizes dims;
        for (size_t axis = shape.size() - normalized.size(); axis < shape.size(); ++axis)
            dims.push_back(static_cast<int64_t>(axis));
        for (const auto& group : groups_over(shape, dims))
            normalize(operation, result, group, mean_of(x, group), variance_of(x, group, 0), 1,
                      [&](size_t i) { return i % size; });
        return result;
    }

    int64_t spatial = 1;
    for (size_t axis = 2; axis < shape.size(); ++axis) spatial *= shape[axis];
    auto channel = [&](size_t i) { return i / static_cast<size_t>(spatial) % static_cast<size_t>(shape[1]); };
    // As [N, groups, C/groups · spatial]: batch norm reduces axes 0 and 2, the others axis 2 alone.
    const bool batch = operation.op() == Op::batch_norm;
    const int64_t groups = operation.op() == Op::group_norm ? operation.integer(Key::num_groups) : shape[1];
    const Sizes grouped{shape[0], groups, (groups ? shape[1] / groups : 0) * spatial};
    const bool running = batch && !operation.node.attributes.flag(Key::training);
    for (const auto& group : groups_over(grouped, batch ? Sizes{0, 2} : Sizes{2})) {
        if (group.empty()) continue;
        const size_t c = channel(group.front());
        const double mean = running ? operation.arg(1).data[c] : mean_of(x, group);
        const double var = running ? operation.arg(2).data[c] : variance_of(x, group, 0);
        normalize(operation, result, group, mean, var, running ? 3 : 1, channel);
    }
    return result;
}

}  // namespace transfuse::reference
