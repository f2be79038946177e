// Rearrangements next to a convolution are places that it reads or writes: permutations of channels, and digits of the
// channel's number that become digits of a place, as in a pixel shuffle, or the other way about. With
//
//     down·o + offset = up·i + dil·k
//
// and o' = r·o + p, p a digit of the output channel, r prime to down,
//
//     down·o' + r·offset = r·up·i + (r·dil·k + down·p)
//
// so that the tap r·dil·k + down·p has p for its residue: a lattice whose weight is the same, moved. Of inputs
// likewise, with j = r·i + p and r prime to up:
//
//     r·down·o + r·offset + up·(r − 1) = up·j + (r·dil·k + up·(r − 1 − p))
#include <algorithm>
#include <numeric>

#include "algebra/convolutions/rules.h"
#include "algebra/terms/border.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/rearrangement.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

using Digits = std::vector<Digit>;

// What becomes of one axis: taps k·r + p of the moved weight, put at their positions.
struct MovedAxis {
    Lattice lattice;
    std::vector<double> matrix;
};

// step_p: what p moves the position by; reversed: its largest value by nothing.
MovedAxis moved(const Lattice& axis, int64_t r, int64_t step_p, bool reversed) {
    const int64_t step_k = r * axis.dil, positions = r * axis.taps;
    MovedAxis result{axis, {}};
    if (r == 1) return result;
    Lattice& l = result.lattice;
    l.dil = std::gcd(axis.taps > 1 ? step_k : 0, step_p);
    l.taps = (step_k * (axis.taps - 1) + step_p * (r - 1)) / l.dil + 1;
    result.matrix.assign(at(l.taps * positions), 0.0);
    for (int64_t k = 0; k < axis.taps; ++k)
        for (int64_t p = 0; p < r; ++p) {
            const int64_t position = (step_k * k + step_p * (reversed ? r - 1 - p : p)) / l.dil;
            result.matrix[at(position * positions + k * r + p)] = 1;
        }
    return result;
}

// The digits of one axis in their own order, wherever they are; where the first of them lies.
Digits in_order(const Rearrangement& places, int64_t source) {
    Digits all;
    for (const Digits& axis : places.axes)
        for (const Digit& digit : axis)
            if (digit.axis == source) all.push_back(digit);
    std::sort(all.begin(), all.end(), [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
    return all;
}

int64_t position_of(const Digits& all, const Digit& digit) {
    return std::find(all.begin(), all.end(), digit) - all.begin();
}

Sizes positions_of(const Digits& all, const Digits& digits, int64_t first) {
    Sizes result;
    for (const Digit& digit : digits) result.push_back(first + position_of(all, digit));
    return result;
}

Sizes extents_of(const Digits& digits) {
    Sizes result;
    for (const Digit& digit : digits) result.push_back(digit.extent);
    return result;
}

bool is_whole(const Digits& digits, int64_t axis, int64_t extent) {
    return extent == 1 ? digits.empty() : digits == Digits{{axis, 1, extent}};
}

// Groups are the largest digit of the channel, in both orders: it is left out of both. False where they are not.
bool without_groups(Digits& own, Digits& others, int64_t groups) {
    if (groups == 1) return true;
    if (own.empty() || others.empty() || own.front() != others.front() || own.front().extent % groups != 0)
        return false;
    own.front().extent = others.front().extent = own.front().extent / groups;
    return true;
}

// A pass of its own that writes v once more, in the objective's measure.
double copied(const Rewriter& r, ValueId v) {
    return 16 * static_cast<double>(bytes(r.dtype(v))) * product(r.shape(v));
}

double moved_weights(const Rewriter& r, ValueId w, const std::vector<std::vector<double>>& matrices) {
    double times = 1;
    for (const std::vector<double>& matrix : matrices) times += !matrix.empty();
    return times * product(r.shape(w));
}

// What lies between the rearrangement and the convolution, element by element.
struct Elementwise {
    ValueId y = -1;
    std::vector<ValueId> after;  // outermost first
};
Elementwise elementwise(const Rewriter& r, ValueId v) {
    Elementwise result{v, {}};
    while (is_unary(r.op(result.y)) && r.uses(result.y) == 1) {
        result.after.push_back(result.y);
        result.y = r.arg(result.y);
    }
    return result;
}

// The digits of the result as axes of the convolution: those of its axes with the channel's digits behind them,
// wherever the result's own axes begin. Where both have equally many axes, as they are.
std::optional<std::vector<Digits>> axes_of_result(const Rearrangement& places, const Sizes& out) {
    if (places.axes.size() == out.size()) return places.axes;
    std::vector<Digits> axes(1);
    for (const Digits& digits : places.axes)
        for (const Digit& digit : digits) {
            const size_t axis =
                digit.axis == 1 ? std::max<size_t>(axes.size() - 1, 1) : static_cast<size_t>(digit.axis);
            if (axis + 1 < axes.size()) return std::nullopt;
            axes.resize(axis + 1);
            axes.back().push_back(digit);
        }
    axes.resize(std::max(axes.size(), out.size()));
    return axes.size() == out.size() ? std::optional(axes) : std::nullopt;
}

// shuffle(f(lattice(x, w, b))) = f(lattice(x, moved w) + moved b). Each firing leaves one rearrangement less.
ValueId rearranged_lattice(Rewriter& r, ValueId id) {
    const ValueId last = r.arg(id);
    if (r.is_parameter(id) || r.rank(id) < 3 || !(r.is(last, Op::permute) || r.is(last, Op::reshape))) return -1;
    std::optional<Rearrangement> places = rearrangement(r, id);
    if (!places || r.rank(places->of) < 3 || r.rank(places->of) > r.rank(id) || r.uses(places->of) != 1) return -1;
    const std::optional<std::vector<Digits>> on_axes = axes_of_result(*places, r.shape(places->of));
    if (!on_axes) return -1;
    places->axes = *on_axes;
    const Elementwise chain = elementwise(r, places->of);
    const ValueId y = chain.y;
    if (!r.is(y, Op::lattice) || r.uses(y) != 1 || r.is_parameter(y) || !r.is_parameter(r.arg(y, 1))) return -1;
    const Sizes out = r.shape(y);
    const int64_t groups = r.shape(r.arg(y, 1))[0];
    if (!is_whole(places->axes[0], 0, out[0])) return -1;
    Digits channel = places->axes[1];
    const Digits all = in_order(*places, 1);
    if (std::any_of(channel.begin(), channel.end(), [](const Digit& digit) { return digit.axis != 1; })) return -1;
    Lattices axes = axes_of(r, y);
    if (has_long_taps(axes)) return -1;
    std::vector<Digits> digits;  // of the output channel on each axis
    std::vector<std::vector<double>> matrices;
    std::vector<TapClasses> phases;
    for (size_t a = 0; a < axes.size(); ++a) {
        Digits here = places->axes[a + 2];
        if (out[a + 2] > 1) {
            if (here.empty() || here.front() != Digit{static_cast<int64_t>(a) + 2, 1, out[a + 2]}) return -1;
            here.erase(here.begin());
        }
        if (std::any_of(here.begin(), here.end(), [](const Digit& digit) { return digit.axis != 1; })) return -1;
        const int64_t p = extent_of(here);
        if (std::gcd(p, axes[a].down) != 1) return -1;
        MovedAxis axis = moved(axes[a], p, axes[a].down, false);
        axis.lattice.up *= p, axis.lattice.offset *= p, axis.lattice.out *= p;
        if (p == 1) axis.lattice = axes[a];
        axes[a] = axis.lattice;
        digits.push_back(std::move(here));
        matrices.push_back(std::move(axis.matrix));
        phases.push_back({.head = 0, .period = p, .tail = 0, .out = axis.lattice.out, .matrix = {}});
    }
    const bool moves =
        channel != all || std::any_of(digits.begin(), digits.end(), [](const Digits& d) { return !d.empty(); });
    if (has_long_taps(axes) || !moves) return -1;
    const ValueId bias = bias_of(r, y);
    int64_t classes = 1;
    for (const Digits& here : digits) classes *= extent_of(here);
    if (bias >= 0 && classes > 1 && is_sixteen_bit(r.dtype(y))) return -1;  // it would be added after the rounding
    const Sizes in = r.shape(r.arg(y));
    const double apart = product_flops(axes_of(r, y), in[0], in[1], out[1], groups) + copied(r, y);
    double together = product_flops(axes, in[0], in[1], out[1] / classes, groups);
    // A bias by phase is an image without a batch that is made with the weights, and read.
    if (bias >= 0 && classes > 1) together += 0.5 * copied(r, y) / static_cast<double>(out[0]);
    if (!pays(r, together, moved_weights(r, r.arg(y, 1), matrices), apart)) return -1;

    Digits own = all;
    if (!without_groups(own, channel, groups)) return -1;
    Sizes cut = {groups, r.shape(r.arg(y, 1))[1]};
    for (const Digit& digit : own) cut.push_back(digit.extent);
    std::vector<Sizes> wanted = {{0}, {1}, positions_of(own, channel, 2)};
    for (size_t a = 0; a < axes.size(); ++a) {
        Sizes taps = {static_cast<int64_t>(cut.size())};
        cut.push_back(r.shape(r.arg(y, 1))[a + 3]);
        const Sizes moved = positions_of(own, digits[a], 2);
        taps.insert(taps.end(), moved.begin(), moved.end());
        wanted.push_back(std::move(taps));
    }
    ValueId w = regrouped(r, r.arg(y, 1), cut, wanted);
    for (size_t a = 0; a < axes.size(); ++a)
        if (!matrices[a].empty()) w = taps(r, w, static_cast<int64_t>(a) + 3, axes[a].taps, std::move(matrices[a]));
    ValueId moved_bias = -1;
    if (bias >= 0) {
        wanted = {{}, positions_of(all, places->axes[1], 0)};
        for (const Digits& here : digits) wanted.push_back(positions_of(all, here, 0));
        moved_bias = regrouped(r, bias, extents_of(all), wanted);
    }
    const Type type = r[y].type;
    ValueId result = moved_bias < 0 ? lattice(r, r.arg(y), w, -1, axes)
                                    : biased_lattice(r, r.arg(y), w, -1, axes, moved_bias, phases);
    if (result < 0) return -1;
    for (size_t i = chain.after.size(); i-- > 0;) {
        const Node node = r[chain.after[i]];
        result = r.add(node.op, {result}, node.attributes);
    }
    r.say("the rearrangement of ", type, " is where the convolution writes: taps ",
          Sizes(r.shape(w).begin() + 3, r.shape(w).end()));
    return reshape(r, result, r.shape(id));
}

// lattice(unshuffle(v), w, b) = lattice(v, moved w, b)
ValueId lattice_of_rearranged(Rewriter& r, ValueId id) {
    const ValueId x = r.arg(id);
    if (!(r.is(x, Op::permute) || r.is(x, Op::reshape)) || r.is_parameter(x) || !r.is_parameter(r.arg(id, 1)) ||
        r.rank(id) < 3)
        return -1;
    const std::optional<Rearrangement> places = rearrangement(r, x);
    if (!places || r.rank(places->of) != r.rank(x)) return -1;
    const ValueId v = places->of;
    const Sizes in = r.shape(x), from = r.shape(v);
    const int64_t groups = r.shape(r.arg(id, 1))[0];
    if (!is_whole(places->axes[0], 0, from[0])) return -1;
    Lattices axes = axes_of(r, id);
    if (has_long_taps(axes)) return -1;
    Digits channel = places->axes[1], own = places->from(1, 1);
    std::sort(own.begin(), own.end(), [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
    if (extent_of(own) != from[1]) return -1;
    std::vector<Digits> digits;  // of each axis in the input channel
    std::vector<std::vector<double>> matrices;
    bool moves = false;
    for (size_t a = 0; a < axes.size(); ++a) {
        const auto axis = static_cast<int64_t>(a) + 2;
        Digits here = places->from(1, axis);
        std::sort(here.begin(), here.end(), [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
        const int64_t p = extent_of(here);
        if (in[a + 2] * p != from[a + 2] || std::gcd(p, axes[a].up) != 1) return -1;
        const Digits outer = in[a + 2] == 1 ? Digits{} : Digits{{axis, p, in[a + 2]}};
        if (places->axes[a + 2] != outer) return -1;
        MovedAxis to = moved(axes[a], p, axes[a].up, true);
        to.lattice.down *= p, to.lattice.in *= p;
        to.lattice.offset = p * axes[a].offset + axes[a].up * (p - 1);
        axes[a] = to.lattice;
        moves = moves || p > 1;
        digits.push_back(std::move(here));
        matrices.push_back(std::move(to.matrix));
    }
    if (has_long_taps(axes)) return -1;
    if ((!moves && own == channel) || !without_groups(own, channel, groups)) return -1;
    const Sizes out = r.shape(id);
    const double apart = product_flops(axes_of(r, id), in[0], in[1], out[1], groups) + copied(r, x);
    if (!pays(r, product_flops(axes, from[0], from[1], out[1], groups), moved_weights(r, r.arg(id, 1), matrices),
              apart))
        return -1;
    const Sizes w0 = r.shape(r.arg(id, 1));
    Sizes cut = {groups};
    for (const Digit& digit : channel) cut.push_back(digit.extent);
    const auto output = static_cast<int64_t>(cut.size());
    cut.push_back(w0[2]);
    std::vector<Sizes> wanted = {{0}, positions_of(channel, own, 1), {output}};
    for (size_t a = 0; a < axes.size(); ++a) {
        Sizes taps = {static_cast<int64_t>(cut.size())};
        cut.push_back(w0[a + 3]);
        const Sizes moved = positions_of(channel, digits[a], 1);
        taps.insert(taps.end(), moved.begin(), moved.end());
        wanted.push_back(std::move(taps));
    }
    ValueId w = regrouped(r, r.arg(id, 1), cut, wanted);
    for (size_t a = 0; a < axes.size(); ++a)
        if (!matrices[a].empty()) w = taps(r, w, static_cast<int64_t>(a) + 3, axes[a].taps, std::move(matrices[a]));
    r.say("the rearrangement of ", r[v].type, " is where the convolution reads: taps ",
          Sizes(r.shape(w).begin() + 3, r.shape(w).end()));
    return lattice(r, v, w, bias_of(r, id), axes);
}

// Reshapes and permutations that undo each other.
ValueId rearrangement_undone(Rewriter& r, ValueId id) {
    if (!(r.is(r.arg(id), Op::permute) || r.is(r.arg(id), Op::reshape))) return -1;
    const std::optional<Rearrangement> places = rearrangement(r, id);
    if (!places || r.shape(places->of) != r.shape(id)) return -1;
    for (size_t axis = 0; axis < places->axes.size(); ++axis)
        if (!is_whole(places->axes[axis], static_cast<int64_t>(axis), r.shape(id)[axis])) return -1;
    r.say("rearrangements that undo each other");
    return places->of;
}

}  // namespace

std::span<const Rule> rearrange_rules() {
    static const std::vector<Rule> rules = {
        {"rearrangement_undone", Family::simplify, {Op::reshape, Op::permute}, rearrangement_undone},
        {"rearranged_lattice", Family::compose, {Op::reshape, Op::permute}, rearranged_lattice, true},
        {"lattice_of_rearranged", Family::compose, {Op::lattice}, lattice_of_rearranged, true},
    };
    return rules;
}

}  // namespace transfuse
