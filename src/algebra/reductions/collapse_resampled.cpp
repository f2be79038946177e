// A sum over the outputs of what resamples, weighted by numbers as borders of interpolations are, is a weighted sum
// over its inputs. Kernel u and weights m are products over the axes, so the weights of the inputs are:
//
//     Σ_o m[o]·(U x)[o] = Σ_i x[i]·Π_axis c[i],      c[i] = Σ_{(k, o) that meet i} m[o]·u[k]
//
// Inputs of equal weight are a box. Where all weigh the same, as behind an interpolation by a whole factor, the sum is
// that of the inputs.
#include <algorithm>
#include <cmath>
#include <optional>

#include "algebra/reductions/collapse.h"
#include "algebra/reductions/rules.h"
#include "algebra/terms/literals.h"
#include "algebra/terms/terms.h"
#include "graph/interpolation.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

constexpr size_t most_boxes = 16;      // an axis
constexpr int64_t most_weights = 512;  // that are listed

// Number factors of one axis alone, the outputs' weights there, and factors that are the same along all summed axes.
struct Weights {
    std::vector<std::vector<double>> along;  // [axis][output], empty: all 1
    std::vector<ValueId> outside;
};

bool take_factor(const Rewriter& r, ValueId factor, const Sizes& out, const Sizes& dims, Weights& weights) {
    const auto rank = static_cast<int64_t>(out.size());
    if (constant_along(r, factor, rank, dims)) {
        weights.outside.push_back(factor);
        return true;
    }
    if (r.is(factor, Op::mul))
        return take_factor(r, r.arg(factor, 0), out, dims, weights) &&
               take_factor(r, r.arg(factor, 1), out, dims, weights);
    int64_t varies = -1;
    for (int64_t axis = 0; axis < rank; ++axis) {
        if (extent_on(r, factor, rank, axis) == 1) continue;
        if (varies >= 0 || axis < 2) return false;
        varies = axis;
    }
    const std::optional<std::vector<double>> values = literal(r, factor);
    if (!values || static_cast<int64_t>(values->size()) != out[at(varies)]) return false;
    std::vector<double>& along = weights.along[at(varies - 2)];
    if (along.empty()) along.assign(values->size(), 1);
    for (size_t o = 0; o < along.size(); ++o) along[o] *= (*values)[o];
    return true;
}

struct Level {
    double weight;
    Interval box;
};

// Inputs of equal weight as progressions, of all from the first to the last with their commonest distance.
std::vector<Level> levels(const std::vector<double>& weights) {
    const double largest = std::abs(*std::max_element(weights.begin(), weights.end(),
                                                      [](double a, double b) { return std::abs(a) < std::abs(b); }));
    const auto alike = [&](double a, double b) { return std::abs(a - b) <= 1e-12 * largest; };
    std::vector<bool> taken(weights.size());
    std::vector<Level> found;
    for (size_t first = 0; first < weights.size() && found.size() <= most_boxes; ++first) {
        if (taken[first] || alike(weights[first], 0)) continue;
        Level level{weights[first], {.lo = static_cast<int64_t>(first), .hi = static_cast<int64_t>(first), .step = 1}};
        const auto free = [&](size_t i) { return !taken[i] && alike(weights[i], level.weight); };
        size_t step = 1;
        while (first + step < weights.size() && !free(first + step)) ++step;
        for (size_t i = first; i < weights.size() && free(i); i += step) {
            taken[i] = true;
            level.box.hi = static_cast<int64_t>(i);
        }
        if (level.box.hi > level.box.lo) level.box.step = static_cast<int64_t>(step);
        found.push_back(level);
    }
    return found;
}

// What resamples, and the numbers that its outputs are weighted by.
struct Resampling {
    ValueId y = -1;
    std::optional<Separable> kernel;  // none: an interpolation
    Weights weights;
    bool weighted = false;
};

std::optional<Resampling> resampling(const Rewriter& r, ValueId v, const Sizes& dims) {
    Resampling result;
    result.weights.along.resize(at(std::max<int64_t>(r.rank(v) - 2, 0)));
    for (; r.is(v, Op::mul); result.weighted = true) {
        const size_t side = r.is_parameter(r.arg(v, 0)) ? 1 : 0;
        const ValueId inner = r.arg(v, side);
        if (r[inner].type != r[v].type || r.is_parameter(inner) ||
            !take_factor(r, r.arg(v, 1 - side), r.shape(v), dims, result.weights))
            return std::nullopt;
        v = inner;
    }
    result.y = v;
    if (r.is_parameter(v) || numel(r.shape(v)) == 0) return std::nullopt;
    if (r.is(v, Op::interpolate)) return dims == spatial_axes(r.rank(v)) ? std::optional(result) : std::nullopt;
    result.kernel = separable(r, v);
    if (!result.kernel || bias_of(r, v) >= 0 || is_sixteen_bit(r.dtype(v)) || has_long_taps(axes_of(r, v)))
        return std::nullopt;
    return result;
}

// What the inputs of each summed axis weigh; the others' are empty.
std::vector<std::vector<double>> weights_of_inputs(const Rewriter& r, const Resampling& of, const Sizes& dims) {
    const Sizes in = r.shape(r.arg(of.y)), out = r.shape(of.y);
    std::vector<std::vector<double>> inputs(in.size() - 2);
    const std::vector<Interpolation> between =
        of.kernel ? std::vector<Interpolation>{} : interpolations(r[of.y], in, out);
    const Lattices axes = of.kernel ? axes_of(r, of.y) : Lattices{};
    for (const int64_t dim : dims) {
        const size_t a = at(dim - 2);
        std::vector<double>& own = inputs[a];
        own.assign(at(in[a + 2]), 0.0);
        for (int64_t o = 0; o < out[a + 2]; ++o) {
            const double weight = of.weights.along[a].empty() ? 1 : of.weights.along[a][at(o)];
            if (of.kernel) {
                for (int64_t k = 0; k < axes[a].taps; ++k)
                    if (const auto i = axes[a].input(o, k)) own[at(*i)] += of.kernel->kernel[a][at(k)] * weight;
            } else {
                const Interpolation::Between of_two = between[a].between(o);
                own[at(of_two.first)] += (1 - of_two.weight) * weight;
                own[at(of_two.second)] += of_two.weight * weight;
            }
        }
    }
    return inputs;
}

ValueId constant(Rewriter& r, DType dtype, Sizes shape, std::vector<double> values) {
    return r.add(
        Op::constant, {},
        {{Key::dtype, static_cast<int64_t>(dtype)}, {Key::shape, std::move(shape)}, {Key::values, std::move(values)}});
}

// Σ x over boxes of equal weight, times these.
ValueId sum_by_box(Rewriter& r, ValueId x, const Sizes& dims, const std::vector<std::vector<Level>>& boxes,
                   double factor) {
    const Sizes in = r.shape(x);
    Sizes counts, los, his, steps, one(in.size() + 1, 1), all = one;
    std::vector<double> weights = {factor};  // the last axis fastest
    Lattices apart;
    for (size_t axis = 2; axis < in.size(); ++axis) apart.push_back({.in = in[axis], .out = in[axis]});
    for (size_t i = 0; i < dims.size(); ++i) {
        std::vector<double> longer;
        for (const double before : weights)
            for (const Level& level : boxes[i]) longer.push_back(before * level.weight);
        weights = std::move(longer);
        counts.push_back(static_cast<int64_t>(boxes[i].size()));
        for (const Level& level : boxes[i])
            los.push_back(level.box.lo), his.push_back(level.box.hi), steps.push_back(level.box.step);
        apart[at(dims[i] - 2)] = Lattice{};
    }
    one[1] = all[1] = static_cast<int64_t>(weights.size()), all[0] = in[1];
    const ValueId w = expand(r, constant(r, r.dtype(x), std::move(one), std::move(weights)), std::move(all));
    const ValueId sums = r.add(Op::box_sums, {x},
                               {{Key::dims, dims},
                                {Key::counts, std::move(counts)},
                                {Key::los, std::move(los)},
                                {Key::his, std::move(his)},
                                {Key::steps, std::move(steps)}});
    return lattice(r, sums, w, -1, apart);
}

}  // namespace

ValueId collapse_resampled(Rewriter& r, ValueId id) {
    if (r.is_moment() || !r[id].attributes.flag(Key::keepdim)) return -1;
    const Node node = r[id];
    Sizes dims, rest;
    for (const int64_t axis : node.attributes.integers(Key::dims)) (axis >= 2 ? dims : rest).push_back(axis);
    if (dims.empty()) return -1;
    const std::optional<Resampling> found = resampling(r, r.arg(id), dims);
    if (!found) return -1;
    const ValueId y = found->y;
    const Sizes in = r.shape(r.arg(y)), out = r.shape(y);
    double inputs = 1, outputs = 1;
    for (const int64_t dim : dims) {
        if (std::max(in[at(dim)], out[at(dim)]) > 65536) return -1;
        inputs *= static_cast<double>(in[at(dim)]), outputs *= static_cast<double>(out[at(dim)]);
    }
    if (inputs == 0) return -1;
    const std::vector<std::vector<double>> weights = weights_of_inputs(r, *found, dims);
    std::vector<std::vector<Level>> boxes;
    size_t count = 1;
    bool whole = true, few = true;
    double alike = 1;
    for (const int64_t dim : dims) {
        boxes.push_back(levels(weights[at(dim - 2)]));
        if (boxes.back().empty()) return -1;
        few = few && boxes.back().size() <= most_boxes && (count *= boxes.back().size()) <= most_boxes * most_boxes;
        whole = whole && boxes.back().size() == 1 && boxes.back()[0].box.size() == in[at(dim)];
        alike *= boxes.back()[0].weight;
        if (!few && in[at(dim)] > most_weights) return -1;
    }
    if (found->kernel && !found->weighted && (!whole || found->kernel->literal)) return -1;  // collapse() does as well
    const bool mean = node.op == Op::mean;
    const DType dtype = wide(r.dtype(y));
    const ValueId x = cast(r, r.arg(y), dtype);
    ValueId sums = x;
    if (whole) {
        const double factor = alike * (mean ? inputs / outputs : 1);
        sums = reduce(r, node.op, x, dims);
        if (std::abs(factor - 1) > 1e-14) sums = scaled(r, sums, factor);
    } else if (few) {
        sums = sum_by_box(r, x, dims, boxes, mean ? 1 / outputs : 1);
    } else {
        for (const int64_t dim : dims)
            sums = times(r, sums,
                         constant(r, dtype, with_extent(Sizes(in.size(), 1), dim, in[at(dim)]), weights[at(dim - 2)]));
        sums = reduce(r, node.op, sums, dims);
        if (mean) sums = scaled(r, sums, inputs / outputs);
    }
    if (found->kernel && dims.size() + 2 < in.size()) {
        std::vector<std::vector<double>> others = found->kernel->kernel;
        Lattices stay = axes_of(r, y);
        for (const int64_t dim : dims) others[at(dim - 2)] = {1.0}, stay[at(dim - 2)] = Lattice{};
        sums = resampled(r, sums, others, stay);
    }
    for (const ValueId factor : found->weights.outside) sums = times(r, sums, factor);
    r.say("the ", name(node.op), " over ", dims, " of what resamples ", r[x].type, " is one of its inputs",
          whole ? "" : ", weighted");
    return cast(r, reduce(r, node.op, sums, std::move(rest)), node.type.dtype);
}

}  // namespace transfuse
