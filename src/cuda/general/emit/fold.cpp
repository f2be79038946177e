// Accumulators, and the folds of reductions, of partial results and of lattice products.
#include <algorithm>
#include <limits>

#include "cuda/general/emit/emitter.h"
#include "cuda/kernel/shares.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

int Emitter::components(Fold::Combine combine) {
    if (combine == Fold::Combine::moments) return 4;
    return combine == Fold::Combine::logsumexp || combine == Fold::Combine::var ? 2 : 1;
}

std::string_view Emitter::combine_code() {
    static constexpr std::string_view text =
#include "cuda/device/values/logsumexp.cuh"
        ;
    return text;
}

Emitter::Accumulator Emitter::declare(Fold::Combine combine, bool wide, size_t lanes) {
    wide = wide || combine == Fold::Combine::var || combine == Fold::Combine::moments;
    Accumulator result{combine, wide ? Real::f64 : Real::f32, {}};
    const std::string type(real_name(result.real));
    const double infinity = std::numeric_limits<double>::infinity();
    for (size_t lane = 0; lane < lanes; ++lane) {
        std::vector<std::string> names;
        for (int c = 0; c < components(combine); ++c) {
            double start = 0;
            if (combine == Fold::Combine::max || (combine == Fold::Combine::logsumexp && c == 0)) start = -infinity;
            if (combine == Fold::Combine::min) start = infinity;
            names.push_back(body_.fresh("a"));
            body_.line({type, " ", names.back(), " = ", literal(start, result.real), ";"});
        }
        result.names.push_back(std::move(names));
    }
    return result;
}

namespace {

std::string step(const Emitter::Accumulator& a, const std::vector<std::string>& n, const std::string& x) {
    switch (a.combine) {
        case Fold::Combine::sum:
            return n[0] + " += " + x + ";";
        case Fold::Combine::max:
            return n[0] + " = tf_max(" + n[0] + ", " + x + ");";
        case Fold::Combine::min:
            return n[0] + " = tf_min(" + n[0] + ", " + x + ");";
        case Fold::Combine::logsumexp:
            return "tf_add_logsumexp(" + n[0] + ", " + n[1] + ", " + x + ");";
        case Fold::Combine::var:
            return n[0] + " += " + x + "; " + n[1] + " += " + x + " * " + x + ";";
        case Fold::Combine::moments:
            break;  // of elements nobody makes any
    }
    fail("no such combination");
}

// Two folded things into one.
std::string merge(const Emitter::Accumulator& a, const std::vector<std::string>& n, const std::string& x,
                  const std::string& y) {
    if (a.combine == Fold::Combine::logsumexp)
        return "tf_merge_logsumexp(" + n[0] + ", " + n[1] + ", " + x + ", " + y + ");";
    if (a.combine == Fold::Combine::var) return n[0] + " += " + x + "; " + n[1] + " += " + y + ";";
    return step(a, n, x);
}

// Two sets of elements into one: n elements, a pivot p, s = Σ (x - p), q = Σ (x - p)². The first set that has elements
// gives the pivot. Its own elements lie about it, so that q is at most as many times n·variance as that set is a share
// of all: in double nothing is lost in q - s²/n. Nothing is divided, and no sum waits for more than its own last term.
void join_moments(Body& body, const std::vector<std::string>& n, const Lanes& other) {
    const std::string &n2 = other.text[0], &p2 = other.second[0], &s2 = other.further[0], &q2 = other.further[1];
    const std::string d = body.fresh("d");
    body.line({"if (", n[0], " == 0.0) ", n[1], " = ", p2, ";"});
    body.line({"const double ", d, " = ", p2, " - ", n[1], ";"});
    if (s2 == "0") {
        body.line({n[3], " += ", q2, " + ", n2, " * ", d, " * ", d, ";"});
        body.line({n[2], " += ", n2, " * ", d, ";"});
    } else {
        body.line({n[3], " += ", q2, " + ", d, " * (2.0 * ", s2, " + ", n2, " * ", d, ");"});
        body.line({n[2], " += ", s2, " + ", n2, " * ", d, ";"});
    }
    body.line({n[0], " += ", n2, ";"});
}

std::string as(Real to, Real from, const std::string& text) {
    return to == from ? text : "(" + std::string(real_name(to)) + ")" + text;
}

}  // namespace

void Emitter::accumulate(const Accumulator& accumulator, const Lanes& term) {
    if (accumulator.combine == Fold::Combine::moments) return join_moments(body_, accumulator.names[0], term);
    for (size_t lane = 0; lane < accumulator.names.size(); ++lane) {
        const std::string x = as(accumulator.real, term.real, "(" + term[lane] + ")");
        body_.line(term.second.empty() ? step(accumulator, accumulator.names[lane], x)
                                       : merge(accumulator, accumulator.names[lane], x,
                                               as(accumulator.real, term.real, "(" + term.second[lane] + ")")));
    }
}

void Emitter::accumulate_across(const Accumulator& accumulator, const Lanes& term) {
    std::vector<std::string> texts = term.text;
    if (accumulator.combine == Fold::Combine::sum) {
        // In pairs, in the term's own precision: one conversion for a vector.
        while (texts.size() > 1) {
            std::vector<std::string> pairs;
            for (size_t i = 0; i + 1 < texts.size(); i += 2)
                pairs.push_back("(" + texts[i] + " + " + texts[i + 1] + ")");
            if (texts.size() % 2) pairs.push_back(texts.back());
            texts = std::move(pairs);
        }
    }
    for (const std::string& text : texts)
        body_.line(step(accumulator, accumulator.names[0], as(accumulator.real, term.real, "(" + text + ")")));
}

Lanes Emitter::folded(const Accumulator& accumulator) {
    Lanes result;
    result.real = accumulator.real;
    for (const auto& names : accumulator.names) {
        if (accumulator.combine == Fold::Combine::logsumexp) {
            result.text.push_back("(tf_pivot(" + names[0] + ") + tf_log(" + names[1] + "))");
            result.pivot.push_back("tf_pivot(" + names[0] + ")");
            result.inverse.push_back("1 / " + names[1]);
        } else if (accumulator.combine == Fold::Combine::moments) {
            result.text.push_back(names[2]), result.second.push_back(names[3]);
        } else {
            result.text.push_back(names[0]);
        }
        if (accumulator.combine == Fold::Combine::var) result.second.push_back(names[1]);
    }
    return result;
}

Lanes Emitter::serial(const Fold& fold, bool wide, size_t lanes) {
    const Accumulator accumulator = declare(fold.combine, wide, lanes);
    std::vector<Coordinate> variables;
    size_t opened = 0;
    for (const Fold::Loop& loop : fold.loops) {
        if (loop.once()) {
            variables.push_back({"0"});
            continue;
        }
        const std::string name = body_.fresh("r");
        open({"for (tf_index ", name, " = 0; ", name, " < ", parameters_.integer(loop.count, loop.dynamic), "; ++",
              name, ")"});
        ++opened;
        variables.push_back({name});
    }
    fold.term(variables, [&](const Lanes& term) { accumulate(accumulator, term); });
    for (; opened > 0; --opened) close();
    return fold.finish(folded(accumulator));
}

Fold::Combine combine_of(Op op) {
    switch (op) {
        case Op::amax:
            return Fold::Combine::max;
        case Op::amin:
            return Fold::Combine::min;
        case Op::logsumexp:
            return Fold::Combine::logsumexp;
        case Op::var:
            return Fold::Combine::var;
        default:
            return Fold::Combine::sum;
    }
}

Lanes Emitter::in_type_of(ValueId id, const Lanes& folded) {
    Lanes result;
    result.real = wide_ ? Real::f64 : real_of(graph_[id].type.dtype);
    const std::string type(real_name(result.real));
    for (const std::string& text : folded.text) result.text.push_back(let(type, {"(", type, ")", text}, "v"));
    return result;
}

// mean and var divide by the number of elements; the result takes the value's type.
Lanes Emitter::finish_reduction(ValueId id, const Lanes& folded, int64_t count, bool dynamic_count) {
    const Node& node = graph_[id];
    const Real real = wide_ ? Real::f64 : real_of(node.type.dtype);
    const std::string count_text = "(double)" + parameters_.integer(count, dynamic_count);
    Lanes result;
    result.real = real;
    for (size_t lane = 0; lane < folded.text.size(); ++lane) {
        const std::string& text = folded.text[lane];
        std::string value = text;
        if (node.op == Op::mean) {
            value = folded.real == Real::f64 ? text + " / " + count_text
                                             : text + " / (float)" + parameters_.integer(count, dynamic_count);
        } else if (node.op == Op::var) {
            const std::string &d = text, &s = folded.second[lane];
            const std::string free = literal(node.attributes.number(Key::correction), Real::f64);
            value = "tf_max((" + s + " - " + d + " * " + d + " / " + count_text + "), 0.0) / tf_max(" + count_text +
                    " - " + free + ", 0.0)";
        }
        const bool infinite = node.op == Op::logsumexp && !node.attributes.flag(Key::finite);
        auto unless_infinite = [&](const std::string& one, const std::string& otherwise) {
            return folded.pivot[lane] + " == " + literal(std::numeric_limits<double>::infinity(), folded.real) + " ? " +
                   otherwise + " : " + one;
        };
        if (infinite) value = unless_infinite(text, folded.pivot[lane]);
        const std::string type(real_name(real));
        auto rounded = [&](const std::string& one) { return let(type, {"(", type, ")(", one, ")"}, "v"); };
        result.text.push_back(rounded(value));
        if (folded.pivot.empty() || !has_shares(graph_, id)) continue;
        result.pivot.push_back(rounded(folded.pivot[lane]));
        result.inverse.push_back(rounded(infinite ? unless_infinite(folded.inverse[lane], "0") : folded.inverse[lane]));
    }
    return result;
}

Fold Emitter::reduction_fold(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId source = node.args[0];
    const Sizes& shape = graph_[source].type.shape;
    const Sizes& dims = node.attributes.integers(Key::dims);
    const bool keepdim = node.attributes.flag(Key::keepdim);
    std::vector<bool> reduced(shape.size(), false);
    for (int64_t dim : dims) reduced[static_cast<size_t>(dim)] = true;
    Fold fold;
    fold.combine = combine_of(node.op);
    Index at(shape.size());
    std::vector<size_t> loop_axes;
    int64_t count = 1;
    bool dynamic_count = false;
    for (size_t a = 0, kept = 0; a < shape.size(); ++a) {
        if (!reduced[a]) {
            at[a] = index[keepdim ? a : kept];
            ++kept;
            continue;
        }
        fold.loops.push_back({shape[a], dynamic(source, a)});
        loop_axes.push_back(a);
        count *= shape[a];
        if (shape[a] != 1 && dynamic(source, a)) dynamic_count = true;
    }
    fold.innermost_is_vector = !loop_axes.empty() && loop_axes.back() + 1 == shape.size();
    std::optional<Lanes> pivot;
    if (node.op == Op::var && count > 0) {  // any element will do: what matters is that it lies among the others
        Index first = at;
        for (size_t a : loop_axes) first[a] = {"0"};
        pivot = value(source, first);
    }
    fold.term = [this, source, at, loop_axes, pivot](const std::vector<Coordinate>& loop,
                                                     const std::function<void(const Lanes&)>& take) {
        Index here = at;
        for (size_t i = 0; i < loop_axes.size(); ++i) here[loop_axes[i]] = loop[i];
        Lanes x = value(source, here);
        if (pivot) {
            const size_t lanes = std::max(x.text.size(), pivot->text.size());
            Lanes shifted;
            shifted.real = Real::f64;
            for (size_t lane = 0; lane < lanes; ++lane)
                shifted.text.push_back(
                    let("double", {"(double)(", x[lane], ") - (double)(", (*pivot)[lane], ")"}, "v"));
            x = shifted;
        }
        take(x);
    };
    fold.finish = [this, id, count, dynamic_count](const Lanes& folded) {
        return finish_reduction(id, folded, count, dynamic_count);
    };
    return fold;
}

Lanes Emitter::first_element(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const Sizes& shape = graph_[node.args[0]].type.shape;
    const Sizes& dims = node.attributes.integers(Key::dims);
    Index at(shape.size(), Coordinate{"0"});
    for (size_t a = 0, kept = 0; a < shape.size(); ++a)
        if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(a)) == dims.end())
            at[a] = index[node.attributes.flag(Key::keepdim) ? a : kept++];
    return value(node.args[0], at);
}

std::optional<Fold> Emitter::partial_fold(ValueId id, const Place& place, const Index& index) {
    const Node& node = graph_[id];
    const Partials& partials = *place.partials;
    Fold fold;
    fold.combine = partials.moments ? Fold::Combine::moments : combine_of(node.op);
    fold.loops.push_back(
        {partials.slots, partials.slots > 4 || parameters_.any_size(), parameters_.any_size()});  // few: written out
    const std::string storage(storage_name(place.storage));
    std::string offset = "0";
    for (size_t a = 0; a < index.size(); ++a)
        offset = plus(offset, times(index[a].text, parameters_.integer(place.strides[a], true)));
    const int parts = partials.moments ? 3 : components(fold.combine);
    fold.term = [this, place, storage, offset, parts](const std::vector<Coordinate>& loop,
                                                      const std::function<void(const Lanes&)>& take) {
        const std::string pointer = parameters_.pointer(place.base, "const " + storage, place.read_only);
        const std::string at =
            plus(offset, times(loop[0].text, parameters_.integer(place.partials->slot_stride, true)));
        std::string here = at;
        std::vector<std::string> loaded;
        for (int part = 0; part < parts; ++part) {
            if (part > 0) here = plus(here, parameters_.integer(place.partials->component_stride, true));
            loaded.push_back(let("double", {"(double)", pointer, "[", here, "]"}, "v"));
        }
        Lanes term;
        term.real = Real::f64;
        term.text.push_back(loaded[0]);
        if (parts > 1) term.second.push_back(loaded[1]);
        if (parts > 2) term.further = {"0", loaded[2]};
        take(term);
    };
    int64_t count = 1;
    bool dynamic_count = true;
    if (node.op == Op::mean || node.op == Op::var || partials.shifted) {
        const Sizes& shape = graph_[node.args[0]].type.shape;
        for (int64_t dim : node.attributes.integers(Key::dims)) count *= shape[static_cast<size_t>(dim)];
    }
    // A convolution ends with its bias, a pool with its divisor.
    if (node.op == Op::lattice || node.op == Op::avg_pool || node.op == Op::adaptive_avg_pool) {
        fold.finish = fold_of(id, index)->finish;
        return fold;
    }
    const bool shifted = partials.shifted;
    fold.finish = [this, id, index, count, dynamic_count, shifted](const Lanes& folded) {
        if (!shifted) return finish_reduction(id, folded, count, dynamic_count);
        const std::string pivot = "(double)" + first_element(id, index).text[0];
        Lanes whole;
        whole.real = Real::f64;
        whole.text.push_back("((double)" + folded.text[0] + " + " + pivot + " * (double)" +
                             parameters_.integer(count, dynamic_count) + ")");
        return finish_reduction(id, whole, count, dynamic_count);
    };
    return fold;
}

std::optional<Fold> Emitter::fold(ValueId id, const Index& index) {
    if (auto place = places_.find(id); place != places_.end()) {
        if (!place->second.partials) return std::nullopt;
        return partial_fold(id, place->second, index);
    }
    return fold_of(id, index);
}

std::optional<Fold> Emitter::fold_of(ValueId id, const Index& index) {
    switch (graph_[id].op) {
        case Op::sum:
        case Op::mean:
        case Op::amax:
        case Op::amin:
        case Op::logsumexp:
        case Op::var:
            return reduction_fold(id, index);
        case Op::lattice:
            return lattice_fold(id, index);
        case Op::correlate:
            return correlate_fold(id, index);
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
            return pool_fold(id, index);
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
            return adaptive_fold(id, index);
        case Op::max_pool_grad:
        case Op::avg_pool_grad:
            return pool_grad_fold(id, index);
        case Op::interpolate:
            return interpolation_fold(id, index);
        case Op::interpolate_grad:
            return interpolation_grad_fold(id, index);
        case Op::box_sums:
            return box_sums_fold(id, index);
        case Op::box_spread:
            return box_spread_fold(id, index);
        case Op::taps:
            return taps_fold(id, index);
        default:
            return std::nullopt;
    }
}

}  // namespace transfuse::cuda
