// Folds of lattice products and of their weight gradients.
#include <algorithm>
#include <numeric>

#include "cuda/general/emit/emitter.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

// The lattices of a correlate node: taps come from its attributes, extents from x and g.
Lattices correlate_axes(const Graph& graph, ValueId id) {
    const Node& node = graph[id];
    const Sizes &x = graph[node.args[0]].type.shape, &g = graph[node.args[1]].type.shape;
    const auto& a = node.attributes;
    Lattices axes(x.size() - 2);
    for (size_t i = 0; i < axes.size(); ++i) {
        axes[i].up = a.integers(Key::up)[i], axes[i].down = a.integers(Key::down)[i],
        axes[i].dil = a.integers(Key::dil)[i];
        axes[i].offset = a.integers(Key::offset)[i], axes[i].taps = a.integers(Key::taps)[i];
        axes[i].in = x[i + 2], axes[i].out = g[i + 2];
    }
    return axes;
}

}  // namespace

// The i with up·i = down·o + offset − dil·k; what must hold for it to lie inside joins `inside`.
Coordinate Emitter::met(const Lattice& axis, const Coordinate& o, const Coordinate& k, const std::string& extent,
                        std::string& inside) {
    auto need = [&](const std::string& text) { inside += (inside.empty() ? "" : " && ") + text; };
    const std::string reach =
        let_index(minus(plus(times(number(axis.down), o.text), number(axis.offset)), times(number(axis.dil), k.text)))
            .text;
    const Coordinate i = axis.up == 1 ? Coordinate{reach} : let_index("(" + reach + " / " + number(axis.up) + ")");
    // No test where every tap of every output lies inside (windows side by side).
    const int64_t last = axis.down * (axis.out - 1) + axis.offset;
    if (axis.up > 1) need(reach + " % " + number(axis.up) + " == 0");
    if (axis.offset < axis.dil * (axis.taps - 1)) need(reach + " >= 0");
    if (last >= axis.up * axis.in) need(i.text + " < " + extent);
    return i;
}

void Emitter::take_product(ValueId x, const Index& at_x, ValueId y, const Index& at_y, const std::string& inside,
                           const std::function<void(const Lanes&)>& take) {
    if (!inside.empty()) open({"if (", inside, ")"});
    const Lanes a = value(x, at_x), b = value(y, at_y);
    const Real real = wide_ || a.real == Real::f64 || b.real == Real::f64 ? Real::f64 : Real::f32;
    const std::string type(real_name(real));
    take({{"(" + type + ")" + a.text[0] + " * (" + type + ")" + b.text[0]}, {}, real});
    if (!inside.empty()) close();
}

// y[n, co, o] = Σ w[g, ci, co', k]·x[n, g·Cin/G + ci, i] over down·o + offset = up·i + dil·k.
Fold Emitter::lattice_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId x = node.args[0], w = node.args[1];
    const Sizes& weight = graph_[w].type.shape;
    const int64_t groups = weight[0], ci = weight[1], co = weight[2];
    const Lattices axes = lattices(graph_, id);
    Fold fold;
    for (const Lattice& axis : axes) fold.loops.push_back({axis.taps, false});
    fold.loops.push_back({ci, false});
    const Coordinate group = groups == 1 ? Coordinate{"0"} : let_index(parameters_.quotient(index[1].text, co, false));
    const Coordinate channel =
        groups == 1 ? index[1] : let_index(parameters_.remainder(index[1].text, group.text, co, false));
    fold.term = [this, x, w, axes, index, group, channel, ci](const std::vector<Coordinate>& loop,
                                                              const std::function<void(const Lanes&)>& take) {
        Index at_x = {index[0], let_index(plus(times(group.text, number(ci)), loop.back().text))};
        Index at_w = {group, loop.back(), channel};
        std::string inside;
        for (size_t a = 0; a < axes.size(); ++a) {
            at_w.push_back(loop[a]);
            at_x.push_back(axes[a].trivial() ? Coordinate{"0"}
                                             : met(axes[a], index[a + 2], loop[a], extent(x, a + 2), inside));
        }
        take_product(x, at_x, w, at_w, inside, take);
    };
    fold.finish = [this, id, index](const Lanes& folded) {
        const Node& self = graph_[id];
        const Real real = wide_ ? Real::f64 : real_of(self.type.dtype);
        const std::string type(real_name(real));
        std::string text = "(" + type + ")" + folded.text[0];
        if (self.args.size() > 2) text += " + (" + type + ")" + value(self.args[2], {index[1]}).text[0];
        return Lanes{{let(type, text, "v")}, {}, real};
    };
    return fold;
}

// y[n, co, o] = Σ p[n, co·taps + k, i] over the taps k that o meets an input through: every up-th from the first on
// where none are left out between them, else all are asked. Along an axis whose taps are together i is o. Of slices:
// Σ p[n, (g·slices + s)·Cout/G·taps + …].
Fold Emitter::fold_of_parts(ValueId id, const Place& place, const Index& index) {
    const Lattices& axes = place.col2im;
    Fold fold;
    std::vector<Coordinate> first(axes.size()), whole(axes.size());  // tap, and the input it meets
    for (size_t a = 0; a < axes.size(); ++a) {
        if (axes[a].taps == 1) continue;
        const bool stepped = axes[a].up > 1 && axes[a].dil == 1 && axes[a].offset >= 0;
        fold.loops.push_back({stepped ? (axes[a].taps + axes[a].up - 1) / axes[a].up : axes[a].taps, false});
        if (!stepped) continue;
        const std::string reach = let_index(plus(index[a + 2].text, number(axes[a].offset))).text;
        first[a] = let_index("(" + reach + " % " + number(axes[a].up) + ")");
        whole[a] = let_index("(" + reach + " / " + number(axes[a].up) + ")");
    }
    const Sizes& weight = graph_[graph_[id].args[1]].type.shape;
    const int64_t channels = weight[2];  // of a group
    Coordinate before{"0"};              // channels of other groups' slices
    if (place.slices > 1) {
        fold.loops.push_back({place.slices, false});
        if (weight[0] > 1)
            before = let_index(
                times(parameters_.quotient(index[1].text, channels, false), number((place.slices - 1) * channels)));
    }
    fold.term = [this, id, place, index, first, whole, channels, before](
                    const std::vector<Coordinate>& loop, const std::function<void(const Lanes&)>& take) {
        const ValueId x = graph_[id].args[0];
        std::string inside, tap = "0", offset = times(index[0].text, parameters_.integer(place.strides[0], true));
        auto need = [&](const std::string& text) { inside += (inside.empty() ? "" : " && ") + text; };
        int64_t taps = 1;
        size_t next = 0;
        for (size_t a = 0; a < place.col2im.size(); ++a) {
            const Lattice& axis = place.col2im[a];
            std::string i = index[a + 2].text;
            if (axis.taps > 1) {
                const Coordinate& step = loop[next++];
                std::string k = step.text;
                if (first[a].text.empty()) {
                    i = met(axis, index[a + 2], step, extent(x, a + 2), inside).text;
                } else {
                    k = let_index(plus(first[a].text, times(number(axis.up), k))).text;
                    i = let_index(minus(whole[a].text, step.text)).text;
                    if (axis.taps % axis.up != 0) need(k + " < " + number(axis.taps));
                    need(i + " >= 0 && " + i + " < " + extent(x, a + 2));
                }
                tap = plus(times(tap, number(axis.taps)), k), taps *= axis.taps;
            }
            offset = plus(offset, times(i, parameters_.integer(place.strides[a + 2], true)));
        }
        std::string channel = plus(index[1].text, before.text);
        if (place.slices > 1) channel = plus(channel, times(loop[next].text, number(channels)));
        offset = plus(offset, times("(" + plus(times("(" + channel + ")", number(taps)), tap) + ")",
                                    parameters_.integer(place.strides[1], true)));
        if (!inside.empty()) open({"if (", inside, ")"});
        take({{parameters_.pointer(place.base, "const float", false) + "[" + offset + "]"}, {}, Real::f32});
        if (!inside.empty()) close();
    };
    fold.finish = lattice_fold(id, index).finish;
    return fold;
}

// dw[g, ci, co, k] = Σ_{n, o} x[n, g·Cin/G + ci, i]·g[n, g·Cout/G + co, o].
Fold Emitter::correlate_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId x = node.args[0], g = node.args[1];
    const Sizes& shape = node.type.shape;
    const Lattices axes = correlate_axes(graph_, id);
    Fold fold;
    fold.loops.push_back({graph_[x].type.shape[0], dynamic(x, 0)});
    for (size_t a = 0; a < axes.size(); ++a) fold.loops.push_back({axes[a].out, dynamic(g, a + 2)});
    const Coordinate cx = let_index(plus(times(index[0].text, number(shape[1])), index[1].text));
    const Coordinate cg = let_index(plus(times(index[0].text, number(shape[2])), index[2].text));
    fold.term = [this, x, g, axes, index, cx, cg](const std::vector<Coordinate>& loop,
                                                  const std::function<void(const Lanes&)>& take) {
        Index at_x = {loop[0], cx}, at_g = {loop[0], cg};
        std::string inside;
        for (size_t a = 0; a < axes.size(); ++a) {
            at_g.push_back(loop[a + 1]);
            at_x.push_back(met(axes[a], loop[a + 1], index[a + 3], extent(x, a + 2), inside));
        }
        take_product(x, at_x, g, at_g, inside, take);
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

// Taps of one axis: w'[r] = Σ_k matrix[r, k]·w[k].
Fold Emitter::taps_fold(ValueId id, const Index& index) {
    const Node& taps = graph_[id];
    const auto axis = static_cast<size_t>(taps.attributes.integer(Key::axis));
    const std::vector<double>& matrix = taps.attributes.numbers(Key::matrix);
    const ValueId w = taps.args[0];
    const int64_t columns = graph_[w].type.shape[axis];
    const bool ones = std::all_of(matrix.begin(), matrix.end(), [](double entry) { return entry == 1; });
    const Real real = wide_ ? Real::f64 : real_of(graph_[id].type.dtype);
    const std::string entries = ones ? "" : table(matrix, real);
    Fold fold;
    fold.loops.push_back({columns, false});
    fold.term = [this, w, axis, columns, index, entries, real](const std::vector<Coordinate>& loop,
                                                               const std::function<void(const Lanes&)>& take) {
        Index at = index;
        at[axis] = loop[0];
        std::string factor;
        if (!entries.empty()) {
            const std::string entry = plus(times(index[axis].text, number(columns)), loop[0].text);
            factor = let(std::string(real_name(real)), {entries, "[", entry, "]"}, "m");
            open({"if (", factor, " != 0)"});
        }
        const Lanes x = value(w, at);
        Lanes term;
        term.real = x.real == Real::f64 || real == Real::f64 ? Real::f64 : Real::f32;
        for (const std::string& text : x.text)
            term.text.push_back(factor.empty() ? "(" + std::string(real_name(term.real)) + ")" + text
                                               : text + " * " + factor);
        take(term);
        if (!factor.empty()) close();
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

}  // namespace transfuse::cuda
