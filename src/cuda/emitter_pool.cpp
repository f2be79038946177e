// Folds of pools and of their gradients.
#include <algorithm>
#include <limits>

#include "cuda/emitter.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

struct Window {
    int64_t kernel, stride, padding, dilation;
};

std::vector<Window> windows(const Node& node) {
    const auto& a = node.attributes;
    std::vector<Window> list(a.integers(Key::kernel).size());
    for (size_t i = 0; i < list.size(); ++i)
        list[i] = {a.integers(Key::kernel)[i], a.integers(Key::stride)[i], a.integers(Key::padding)[i],
                   a.has(Key::dilation) ? a.integers(Key::dilation)[i] : 1};
    return list;
}

std::string conjunction(const std::vector<std::string>& tests) {
    std::string text;
    for (const std::string& test : tests) text += (text.empty() ? "" : " && ") + test;
    return text.empty() ? "true" : text;
}

// The window [from, to) of adaptive output o: from = ⌊o·I/O⌋, to = ⌈(o+1)·I/O⌉.
std::string adaptive_from(const std::string& o, const std::string& I, const std::string& O) {
    return "(tf_index)((long long)" + o + " * " + I + " / " + O + ")";
}
std::string adaptive_to(const std::string& o, const std::string& I, const std::string& O) {
    return "(tf_index)(((long long)" + o + " + 1) * " + I + " + " + O + " - 1) / " + O;
}

// PyTorch's divisor of an average window: the padded window, the part inside, or a fixed number.
std::string divisor(Emitter& emitter, const Node& node, const std::vector<Window>& pool,
                    const std::vector<std::string>& o, const std::vector<std::string>& extents) {
    const int64_t fixed = node.attributes.integer(Key::divisor);
    if (fixed != 0) return number(fixed);
    const bool padded = node.attributes.flag(Key::count_include_pad);
    std::string product = "1";
    for (size_t i = 0; i < pool.size(); ++i) {
        const std::string begin = minus(times(o[i], number(pool[i].stride)), number(pool[i].padding));
        const std::string from = emitter.let("tf_index", begin, "i");
        const std::string limit = plus(extents[i], number(padded ? pool[i].padding : 0));
        const std::string end =
            emitter.let("tf_index", "min(" + plus(from, number(pool[i].kernel)) + ", (tf_index)(" + limit + "))", "i");
        product = times(product, minus(end, padded ? from : "max(" + from + ", (tf_index)0)"));
    }
    return "(" + product + ")";
}

}  // namespace

Fold Emitter::pool_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId x = node.args[0];
    const std::vector<Window> pool = windows(node);
    const size_t first = index.size() - pool.size();
    Fold fold;
    fold.combine = node.op == Op::max_pool   ? Fold::Combine::max
                   : node.op == Op::min_pool ? Fold::Combine::min
                                             : Fold::Combine::sum;
    for (const Window& window : pool) fold.loops.push_back({window.kernel, false});
    fold.term = [this, x, index, pool, first](const std::vector<Coordinate>& loop,
                                              const std::function<void(const Lanes&)>& take) {
        Index at = index;
        std::vector<std::string> tests;
        for (size_t i = 0; i < pool.size(); ++i) {
            const size_t a = first + i;
            at[a] = let_index(plus(minus(times(index[a].text, number(pool[i].stride)), number(pool[i].padding)),
                                   times(loop[i].text, number(pool[i].dilation))));
            if (pool[i].padding > 0) tests.push_back(at[a].text + " >= 0");
            tests.push_back(at[a].text + " < " + extent(x, a));
        }
        open("if (" + conjunction(tests) + ")");
        take(value(x, at));
        close();
    };
    fold.finish = [this, id, index, pool, first, x](const Lanes& folded) {
        const Node& self = graph_[id];
        const Real real = wide_ ? Real::f64 : real_of(self.type.dtype);
        const std::string type(real_name(real));
        std::string text = "(" + type + ")" + folded.text[0];
        if (self.op == Op::avg_pool) {
            std::vector<std::string> o, extents;
            for (size_t i = 0; i < pool.size(); ++i)
                o.push_back(index[first + i].text), extents.push_back(extent(x, first + i));
            text += " / (" + type + ")" + divisor(*this, self, pool, o, extents);
        }
        return Lanes{{let(type, text, "v")}, {}, real};
    };
    return fold;
}

Fold Emitter::adaptive_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId x = node.args[0];
    const Sizes& shape = graph_[x].type.shape;
    const size_t d = node.attributes.integers(Key::output_size).size(), first = shape.size() - d;
    Fold fold;
    fold.combine = node.op == Op::adaptive_max_pool ? Fold::Combine::max : Fold::Combine::sum;
    std::vector<std::string> from, to;
    for (size_t a = first; a < shape.size(); ++a) {
        const int64_t in = shape[a], out = node.type.shape[a];
        fold.loops.push_back({std::min(in, (in + out - 1) / std::max<int64_t>(out, 1) + 1), true});
        from.push_back(let("tf_index", adaptive_from(index[a].text, extent(x, a), extent(id, a)), "i"));
        to.push_back(let("tf_index", adaptive_to(index[a].text, extent(x, a), extent(id, a)), "i"));
    }
    fold.term = [this, x, index, first, from, to](const std::vector<Coordinate>& loop,
                                                  const std::function<void(const Lanes&)>& take) {
        Index at = index;
        std::vector<std::string> tests;
        for (size_t i = 0; i < from.size(); ++i) {
            at[first + i] = let_index(plus(from[i], loop[i].text));
            tests.push_back(at[first + i].text + " < " + to[i]);
        }
        open("if (" + conjunction(tests) + ")");
        take(value(x, at));
        close();
    };
    fold.finish = [this, id, from, to](const Lanes& folded) {
        const Node& self = graph_[id];
        const Real real = wide_ ? Real::f64 : real_of(self.type.dtype);
        const std::string type(real_name(real));
        std::string text = "(" + type + ")" + folded.text[0];
        if (self.op == Op::adaptive_avg_pool) {
            std::string count = "1";
            for (size_t i = 0; i < from.size(); ++i) count = times(count, minus(to[i], from[i]));
            text += " / (" + type + ")(" + count + ")";
        }
        return Lanes{{let(type, text, "v")}, {}, real};
    };
    return fold;
}

// dx[i] = Σ over the windows o that contain i of g[o]/divisor, or of g[o] where i is the window's first maximum.
Fold Emitter::pool_grad_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const bool is_max = node.op == Op::max_pool_grad, adaptive = node.attributes.has(Key::output_size);
    const ValueId g = node.args.back(), x = node.args[0];
    const Sizes &in = node.type.shape, &out = graph_[g].type.shape;
    const std::vector<Window> pool = adaptive ? std::vector<Window>() : windows(node);
    const size_t d = adaptive ? node.attributes.integers(Key::output_size).size() : pool.size(), first = in.size() - d;
    Fold fold;
    for (size_t i = 0; i < d; ++i) {
        const int64_t I = in[first + i], O = out[first + i];
        fold.loops.push_back(adaptive ? Fold::Loop{(O + I - 1) / I + 1, true} : Fold::Loop{pool[i].kernel, false});
    }
    fold.term = [this, id, x, g, is_max, adaptive, pool, d, first, index](
                    const std::vector<Coordinate>& loop, const std::function<void(const Lanes&)>& take) {
        Index at = index;
        std::vector<std::string> tests, from(d), to(d), o(d), extents(d);
        for (size_t i = 0; i < d; ++i) {
            const size_t a = first + i;
            const std::string I = extents[i] = extent(id, a), O = extent(g, a);
            if (adaptive) {
                o[i] =
                    let("tf_index",
                        "(tf_index)((long long)" + index[a].text + " * " + O + " / " + I + ") + " + loop[i].text, "i");
                from[i] = let("tf_index", adaptive_from(o[i], I, O), "i");
                to[i] = let("tf_index", adaptive_to(o[i], I, O), "i");
                tests.push_back(o[i] + " < " + O + " && " + from[i] + " <= " + index[a].text + " && " + index[a].text +
                                " < " + to[i]);
            } else {
                const std::string reach = let_index(minus(plus(index[a].text, number(pool[i].padding)),
                                                          times(loop[i].text, number(pool[i].dilation))))
                                              .text;
                o[i] = let_index("(" + reach + " / " + number(pool[i].stride) + ")").text;
                tests.push_back(reach + " >= 0");
                if (pool[i].stride > 1) tests.push_back(reach + " % " + number(pool[i].stride) + " == 0");
                tests.push_back(o[i] + " < " + O);
            }
            at[a] = {o[i]};
        }
        open("if (" + conjunction(tests) + ")");
        if (is_max) {
            // The window again: the first maximum in row-major order, a NaN taking everything after it as PyTorch's
            // does.
            const Real real = wide_ ? Real::f64 : real_of(graph_[x].type.dtype);
            const std::string best = body_.fresh("best"), where = body_.fresh("at"), self = body_.fresh("self");
            body_.line(std::string(real_name(real)) + " " + best + " = " +
                       literal(-std::numeric_limits<double>::infinity(), real) + ";");
            body_.line("long long " + where + " = -1;");
            Index inner = index;
            std::vector<std::string> bounds;
            std::string linear = "0", own = "0";
            for (size_t i = 0; i < d; ++i) {
                const std::string k = body_.fresh("k");
                if (adaptive) {
                    open("for (tf_index " + k + " = " + from[i] + "; " + k + " < " + to[i] + "; ++" + k + ")");
                    inner[first + i] = {k};
                } else {
                    open("for (tf_index " + k + " = 0; " + k + " < " + number(pool[i].kernel) + "; ++" + k + ")");
                    inner[first + i] =
                        let_index(plus(minus(times(o[i], number(pool[i].stride)), number(pool[i].padding)),
                                       times(k, number(pool[i].dilation))));
                    bounds.push_back(inner[first + i].text + " >= 0 && " + inner[first + i].text + " < " + extents[i]);
                }
                linear = "(" + linear + " * (long long)" + extents[i] + " + " + inner[first + i].text + ")";
                own = "(" + own + " * (long long)" + extents[i] + " + " + index[first + i].text + ")";
            }
            open("if (" + conjunction(bounds) + ")");
            const std::string v = value(x, inner).text[0];
            body_.line("if (" + where + " < 0 || " + v + " > " + best + " || " + v + " != " + v + ") { " + best +
                       " = " + v + "; " + where + " = " + linear + "; }");
            close();
            for (size_t i = 0; i < d; ++i) close();
            body_.line("const bool " + self + " = " + where + " == " + own + ";");
            open("if (" + self + ")");
            take(value(g, at));
            close();
        } else {
            const Lanes grad = value(g, at);
            const std::string type(real_name(grad.real));
            std::string count = "1";
            if (adaptive)
                for (size_t i = 0; i < d; ++i) count = times(count, minus(to[i], from[i]));
            else
                count = divisor(*this, graph_[id], pool, o, extents);
            take({{grad.text[0] + " / (" + type + ")" + count}, {}, grad.real});
        }
        close();
    };
    fold.finish = [this, id](const Lanes& folded) {
        const Real real = wide_ ? Real::f64 : real_of(graph_[id].type.dtype);
        const std::string type(real_name(real));
        return Lanes{{let(type, "(" + type + ")" + folded.text[0], "v")}, {}, real};
    };
    return fold;
}

}  // namespace transfuse::cuda
