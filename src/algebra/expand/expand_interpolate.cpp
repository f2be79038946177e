// Linear interpolation by a small fraction is a lattice. The weight of input i for output o is max(0, 1 − |source(o) −
// i|). With corners aligned and step q/p, source(o) − i = (q·o − p·i)/p:
//
//     q·o + (p − 1) = p·i + k        0 ≤ k ≤ 2p − 2        w[k] = 1 − |k − (p − 1)|/p
//
// and else, with source(o) − i = (2q·o + q − p − 2p·i)/2p,
//
//     2q·o + (q + p − 1) = 2p·i + k  0 ≤ k ≤ 4p − 2        w[k] = 1 − |k − (2p − 1)|/2p
//
// Where a neighbour lies outside, the one inside stands for it: the lattice, which has zero there, divided by the
// weight that it met.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "algebra/expand/rules.h"
#include "algebra/terms/border.h"
#include "algebra/terms/terms.h"
#include "graph/interpolation.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

constexpr int64_t most_phases = 8;

struct Fraction {
    int64_t p, q;
};

// step = q/p with a small p.
std::optional<Fraction> fraction(double step) {
    for (int64_t p = 1; p <= most_phases; ++p) {
        const double q = step * static_cast<double>(p);
        if (std::abs(q - std::round(q)) <= 1e-12 * q && q >= 0.5 && q < 1024) return Fraction{p, std::llround(q)};
    }
    return std::nullopt;
}

struct Axis {
    Lattice lattice;
    std::vector<double> kernel;
    std::vector<double> met;  // the weight that outputs of each class meet; empty: all meet 1
    TapClasses classes;
};

std::optional<Axis> axis_of(const Interpolation& of) {
    if (of.in == of.out) return Axis{{.in = of.in, .out = of.out}, {1.0}, {}, {}};
    const std::optional<Fraction> step = fraction(of.step);
    if (!step) return std::nullopt;
    const auto [p, q] = *step;
    const int64_t half = of.corners ? 1 : 2, width = half * p;
    Lattice l{.up = width,
              .down = half * q,
              .dil = 1,
              .offset = of.corners ? p - 1 : q + p - 1,
              .in = of.in,
              .out = of.out,
              .taps = 2 * width - 1};
    const Reduced reduced = reduce(l);
    if (reduced.lattice.period() > most_phases) return std::nullopt;
    Axis axis{reduced.lattice, {}, {}, {}};
    for (const int64_t k : reduced.kept)
        axis.kernel.push_back(1 - std::abs(static_cast<double>(k - (width - 1))) / static_cast<double>(width));
    const std::optional<TapClasses> classes = tap_classes(axis.lattice);
    if (!classes) return std::nullopt;
    axis.classes = *classes;
    bool whole = true;
    for (int64_t row = 0; row < classes->count(); ++row) {
        double sum = 0;
        for (size_t k = 0; k < axis.kernel.size(); ++k)
            sum += classes->matrix[at(row) * axis.kernel.size() + k] * axis.kernel[k];
        if (sum < 0.25) return std::nullopt;  // nothing that is met
        whole = whole && std::abs(sum - 1) < 1e-9;
        axis.met.push_back(sum);
    }
    if (whole) axis.met.clear();
    return axis;
}

ValueId expand_interpolation(Rewriter& r, ValueId id) {
    const Node node = r[id];
    const Sizes in = r.shape(node.args[0]);
    if (r.is_parameter(id) || in[1] < 2) return -1;  // a single channel would be a product of matrices
    Lattices axes;
    std::vector<Axis> made;
    Sizes ones = {in[1], 1, 1};
    for (const Interpolation& of : interpolations(node, in, node.type.shape)) {
        std::optional<Axis> axis = axis_of(of);
        if (!axis) return -1;
        axes.push_back(axis->lattice);
        ones.push_back(1);
        made.push_back(std::move(*axis));
    }
    const DType dtype = wide(node.type.dtype);
    ValueId w = full(r, dtype, std::move(ones), 1);
    for (size_t a = 0; a < axes.size(); ++a)
        w = taps(r, w, static_cast<int64_t>(a) + 3, static_cast<int64_t>(made[a].kernel.size()), made[a].kernel);
    ValueId y = lattice(r, cast(r, node.args[0], dtype), w, -1, axes);
    for (size_t a = 0; a < axes.size(); ++a) {
        if (made[a].met.empty()) continue;
        std::vector<double> factor;
        for (const double met : made[a].met) factor.push_back(1 / met);
        Sizes shape(in.size(), 1);
        shape[a + 2] = made[a].classes.count();
        std::vector<TapClasses> classes(axes.size());
        for (TapClasses& one : classes) one = {.head = 0, .period = 1, .tail = 0, .out = 1, .matrix = {}};
        classes[a] = made[a].classes;
        const ValueId constant = r.add(Op::constant, {},
                                       {{Key::dtype, static_cast<int64_t>(dtype)},
                                        {Key::shape, std::move(shape)},
                                        {Key::values, std::move(factor)}});
        y = times(r, y, on_outputs(r, constant, classes));
    }
    r.say("linear interpolation to ", node.type, " is a lattice convolution");
    return cast(r, y, node.type.dtype);
}

}  // namespace

std::span<const Rule> expand_interpolate_rules() {
    static const std::vector<Rule> rules = {
        {"expand_interpolation", Family::expand, {Op::interpolate}, expand_interpolation, true},
    };
    return rules;
}

}  // namespace transfuse
