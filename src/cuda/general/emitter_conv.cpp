// Folds of lattice products and of their weight gradients.
#include <algorithm>
#include <numeric>

#include "cuda/general/emitter.h"
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
    // No test where every tap of every output lies inside (windows side by side); sizes that are stated may change.
    const int64_t last = axis.down * (axis.out - 1) + axis.offset;
    if (axis.up > 1) need(reach + " % " + number(axis.up) + " == 0");
    if (axis.offset < axis.dil * (axis.taps - 1)) need(reach + " >= 0");
    if (parameters_.stated() || last >= axis.up * axis.in) need(i.text + " < " + extent);
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
// where none are left out between them, else all are asked. Along an axis whose taps are together i is o.
Fold Emitter::apart_fold(ValueId id, const Place& place, const Index& index) {
    const Lattices& axes = place.taps_apart;
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
    fold.term = [this, id, place, index, first, whole](const std::vector<Coordinate>& loop,
                                                       const std::function<void(const Lanes&)>& take) {
        const ValueId x = graph_[id].args[0];
        std::string inside, tap = "0", offset = times(index[0].text, parameters_.integer(place.strides[0], true));
        auto need = [&](const std::string& text) { inside += (inside.empty() ? "" : " && ") + text; };
        int64_t taps = 1;
        size_t next = 0;
        for (size_t a = 0; a < place.taps_apart.size(); ++a) {
            const Lattice& axis = place.taps_apart[a];
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
        offset = plus(offset, times("(" + plus(times(index[1].text, number(taps)), tap) + ")",
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

namespace {

// What taps do to one axis: w'[r] = Σ_k matrix[r, k]·w[k].
struct AxisTaps {
    size_t axis;
    int64_t columns;
    std::vector<double> matrix;

    // After what was done to it before.
    void behind(int64_t inner_columns, const std::vector<double>& inner) {
        const int64_t rows = static_cast<int64_t>(matrix.size()) / columns;
        std::vector<double> product(static_cast<size_t>(rows * inner_columns), 0.0);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t k = 0; k < columns; ++k)
                for (int64_t c = 0; c < inner_columns; ++c)
                    product[static_cast<size_t>(r * inner_columns + c)] +=
                        matrix[static_cast<size_t>(r * columns + k)] *
                        inner[static_cast<size_t>(k * inner_columns + c)];
        matrix = std::move(product), columns = inner_columns;
    }
    bool ones() const {
        return std::all_of(matrix.begin(), matrix.end(), [](double entry) { return entry == 1; });
    }
};

}  // namespace

// x where it is taken, else 0, whatever x is. A choice between the two would be a branch to the compiler, with the load
// behind it.
static std::string taken(const std::string& when, const std::string& x, Real real, std::string& code) {
    if (real == Real::f64) return "(" + when + " ? " + x + " : 0.0)";
    const std::string function =
        "static __device__ __forceinline__ float tf_taken(bool taken, float x) { return "
        "__uint_as_float(__float_as_uint(x) & "
        "-(unsigned)taken); }\n";
    if (code.find(function) == std::string::npos) code += function;
    return "tf_taken(" + when + ", " + x + ")";
}

// Taps of several axes, one after another, as one sum where the text is for a reader: matrices of an axis are
// multiplied here.
Fold Emitter::taps_fold(ValueId id, const Index& index) {
    std::vector<AxisTaps> axes;
    ValueId w = id;
    do {
        const Node& taps = graph_[w];
        const auto axis = static_cast<size_t>(taps.attributes.integer(Key::axis));
        const std::vector<double>& matrix = taps.attributes.numbers(Key::matrix);
        w = taps.args[0];
        const int64_t columns = graph_[w].type.shape[axis];
        const auto known = std::find_if(axes.begin(), axes.end(), [&](const AxisTaps& a) { return a.axis == axis; });
        if (known == axes.end())
            axes.push_back({axis, columns, matrix});
        else
            known->behind(columns, matrix);
    } while (parameters_.stated() && graph_[w].op == Op::taps && !places_.contains(w));
    const Real real = wide_ ? Real::f64 : real_of(graph_[id].type.dtype);
    Fold fold;
    std::vector<std::string> tables;
    for (const AxisTaps& axis : axes) {
        fold.loops.push_back({axis.columns, false});
        tables.push_back(axis.ones() ? "" : table(axis.matrix, real));
    }
    fold.term = [this, w, axes, index, tables, real](const std::vector<Coordinate>& loop,
                                                     const std::function<void(const Lanes&)>& take) {
        Index at = index;
        std::string product;
        for (size_t j = 0; j < axes.size(); ++j) {
            at[axes[j].axis] = loop[j];
            const std::string entry =
                "[" + plus(times(index[axes[j].axis].text, number(axes[j].columns)), loop[j].text) + "]";
            if (!tables[j].empty()) product += (product.empty() ? "" : " * ") + tables[j] + entry;
        }
        const std::string factor = product.empty() ? "" : let(std::string(real_name(real)), product, "m");
        // Loops for a reader are unrolled by the compiler: loads under a question would wait for each other.
        const bool asks = !factor.empty() && !parameters_.stated();
        if (asks) open({"if (", factor, " != 0)"});
        const Lanes x = value(w, at);
        Lanes term;
        term.real = x.real == Real::f64 || real == Real::f64 ? Real::f64 : Real::f32;
        for (const std::string& text : x.text) {
            if (factor.empty())
                term.text.push_back("(" + std::string(real_name(term.real)) + ")" + text);
            else if (asks)
                term.text.push_back(text + " * " + factor);
            else
                term.text.push_back(taken(factor + " != 0", text, x.real, tables_) + " * " + factor);
        }
        take(term);
        if (asks) close();
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

}  // namespace transfuse::cuda
