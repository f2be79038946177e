// Folds of pools and of their gradients.
#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/general/emit/emitter.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

struct Window {
    int64_t kernel, stride, padding, dilation;

    // Windows that contain an element: none more, where their elements follow each other.
    int64_t overlapping() const { return dilation == 1 ? ceil_div(kernel, stride) : kernel; }
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
            emitter.let("tf_index", {"min(", plus(from, number(pool[i].kernel)), ", (tf_index)(", limit, "))"}, "i");
        product = times(product, minus(end, padded ? from : "max(" + from + ", (tf_index)0)"));
    }
    return "(" + product + ")";
}

// dx[i] = Σ over the windows o that contain i of g[o]/divisor, or of g[o] where i is the window's first maximum.
struct PoolGradient {
    Emitter& emitter;
    const Graph& graph;
    ValueId id, x, g;
    Index index;  // i
    Real real;    // of x, compared
    bool adaptive;
    std::vector<Window> pool;  // empty where adaptive
    size_t axes, first;        // pooled axes, and the first of them
    // The texts of one window.
    std::vector<std::string> o, from, to, extents;

    std::vector<Fold::Loop> loops() const {
        std::vector<Fold::Loop> loops;
        for (size_t i = 0; i < axes; ++i) {
            const int64_t I = graph[id].type.shape[first + i], O = graph[g].type.shape[first + i];
            loops.push_back(adaptive ? Fold::Loop{(O + I - 1) / I + 1, true}
                                     : Fold::Loop{pool[i].overlapping(), false});
        }
        return loops;
    }

    // Names the window that the loops stand at; the test that there is one and that it contains i.
    std::string window(const std::vector<Coordinate>& loop) {
        o.assign(axes, ""), from = to = extents = o;
        std::vector<std::string> tests;
        for (size_t i = 0; i < axes; ++i) {
            const std::string& at = index[first + i].text;
            const std::string I = emitter.extent(id, first + i), O = emitter.extent(g, first + i);
            extents[i] = I;
            if (adaptive) {
                o[i] = emitter.let("tf_index", {"(tf_index)((long long)", at, " * ", O, " / ", I, ") + ", loop[i].text},
                                   "i");
                from[i] = emitter.let("tf_index", adaptive_from(o[i], I, O), "i");
                to[i] = emitter.let("tf_index", adaptive_to(o[i], I, O), "i");
                tests.push_back(o[i] + " < " + O + " && " + from[i] + " <= " + at + " && " + at + " < " + to[i]);
                continue;
            }
            const Window& along = pool[i];
            const std::string padded = emitter.let_index(plus(at, number(along.padding))).text;
            if (along.dilation == 1) {  // the last window that begins before, and those in front of it
                o[i] = emitter.let_index(minus("(" + padded + " / " + number(along.stride) + ")", loop[i].text)).text;
                if (along.overlapping() > 1) tests.push_back(o[i] + " >= 0");
                if (along.kernel % along.stride != 0)
                    tests.push_back(minus(padded, times(o[i], number(along.stride))) + " < " + number(along.kernel));
            } else {
                const std::string reach =
                    emitter.let_index(minus(padded, times(loop[i].text, number(along.dilation)))).text;
                o[i] = emitter.let_index("(" + reach + " / " + number(along.stride) + ")").text;
                tests.push_back(reach + " >= 0");
                if (along.stride > 1) tests.push_back(reach + " % " + number(along.stride) + " == 0");
            }
            tests.push_back(o[i] + " < " + O);
        }
        return conjunction(tests);
    }

    Lanes gradient() const {
        Index at = index;
        for (size_t i = 0; i < axes; ++i) at[first + i] = {o[i]};
        return emitter.value(g, at);
    }

    // The gradient shared out among the window's elements.
    Lanes share() const {
        const Lanes grad = gradient();
        std::string count = "1";
        if (adaptive)
            for (size_t i = 0; i < axes; ++i) count = times(count, minus(to[i], from[i]));
        else
            count = divisor(emitter, graph[id], pool, o, extents);
        return {{grad.text[0] + " / (" + std::string(real_name(grad.real)) + ")" + count}, {}, grad.real};
    }

    // The name of whether i is the window's first maximum in row-major order, or its last NaN, which PyTorch takes for
    // one: every other element of the window says whether it stands back.
    std::string is_first_maximum() const {
        Body& body = emitter.body();
        const std::string own = emitter.let(real_name(real), emitter.value(x, index).text[0], "own"),
                          wins = body.fresh("wins");
        body.line({"bool ", wins, " = true;"});
        Index inner = index;
        std::vector<std::string> bounds;
        std::string before = "false", after = "false";
        for (size_t i = axes; i-- > 0;) inner[first + i] = {body.fresh("i")};
        for (size_t i = 0; i < axes; ++i) {
            const std::string &here = inner[first + i].text, k = body.fresh("k");
            if (adaptive) {
                emitter.open({"for (tf_index ", here, " = ", from[i], "; ", here, " < ", to[i], "; ++", here, ")"});
                continue;
            }
            body.line("#pragma unroll");
            emitter.open({"for (tf_index ", k, " = 0; ", k, " < ", number(pool[i].kernel), "; ++", k, ")"});
            const std::string begin = minus(times(o[i], number(pool[i].stride)), number(pool[i].padding));
            body.let("tf_index", here, {plus(begin, times(k, number(pool[i].dilation)))});
            if (pool[i].padding > 0) bounds.push_back(here + " >= 0");
            bounds.push_back(here + " < " + extents[i]);
        }
        for (size_t i = axes; i-- > 0;) {
            const std::string &here = inner[first + i].text, &self = index[first + i].text;
            const auto further = [&](const char* than, const std::string& inside) {
                return "(" + here + than + self + " || (" + here + " == " + self + " && " + inside + "))";
            };
            before = further(" < ", before), after = further(" > ", after);
        }
        emitter.open({"if (", conjunction(bounds), ")"});
        const std::string v = emitter.value(x, inner).text[0];
        body.line({"if (", before, ") ", wins, " = ", wins, " && (", v, " < ", own, " || ", own, " != ", own, ");"});
        body.line({"if (", after, ") ", wins, " = ", wins, " && (", v, " <= ", own, " || (", own, " != ", own, " && ",
                   v, " == ", v, "));"});
        for (size_t i = 0; i <= axes; ++i) emitter.close();
        return wins;
    }
};

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
        open({"if (", conjunction(tests), ")"});
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
        open({"if (", conjunction(tests), ")"});
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

Fold Emitter::pool_grad_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const bool adaptive = node.attributes.has(Key::output_size);
    const std::vector<Window> pool = adaptive ? std::vector<Window>() : windows(node);
    const size_t axes = adaptive ? node.attributes.integers(Key::output_size).size() : pool.size();
    const ValueId x = node.args[0], g = node.args.back();
    const Real compared = wide_ ? Real::f64 : real_of(graph_[x].type.dtype);
    PoolGradient gradient{*this, graph_, id, x, g, index, compared, adaptive, pool, axes, index.size() - axes,
                          {},    {},     {}, {}};
    Fold fold;
    fold.loops = gradient.loops();
    fold.term = [this, gradient, is_max = node.op == Op::max_pool_grad](
                    const std::vector<Coordinate>& loop, const std::function<void(const Lanes&)>& take) mutable {
        open({"if (", gradient.window(loop), ")"});
        if (is_max) {
            open({"if (", gradient.is_first_maximum(), ")"});
            take(gradient.gradient());
            close();
        } else {
            take(gradient.share());
        }
        close();
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

}  // namespace transfuse::cuda
