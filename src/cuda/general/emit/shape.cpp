// Shape ops as index arithmetic.
#include <algorithm>

#include "cuda/general/emit/emitter.h"
#include "cuda/general/emit/figures.h"
#include "cuda/general/emit/terms.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

// The index in `from` of the element that stands at `index` in `to` (the shape of value id): axes that carry over pass
// through, groups of axes with equal products are linearised and taken apart again. nullopt where a vector coordinate
// would be torn.
std::optional<Index> Emitter::reshaped(const Sizes& from, const Sizes& to, ValueId id, const Index& index) {
    Index result(from.size(), Coordinate{"0"});
    size_t f = 0, t = 0;
    const ValueId source = graph_[id].args[0];
    while (f < from.size() || t < to.size()) {
        if (f < from.size() && from[f] == 1) {
            ++f;
            continue;
        }
        if (t < to.size() && to[t] == 1) {
            ++t;
            continue;
        }
        size_t f_end = f + 1, t_end = t + 1;
        int64_t f_size = from[f], t_size = to[t];
        while (f_size != t_size) {
            if (f_size < t_size)
                f_size *= from[f_end++];
            else
                t_size *= to[t_end++];
        }
        if (f_end == f + 1 && t_end == t + 1) {
            result[f] = index[t];
        } else {
            std::string linear = "0";
            bool vector = false;
            for (size_t a = t; a < t_end; ++a) {
                linear = plus(times(linear, parameters_.integer(to[a], dynamic(id, a))), index[a].text);
                if (!index[a].vector) continue;
                vector = true;
                for (size_t b = a + 1; b < t_end; ++b)
                    if (to[b] != 1) return std::nullopt;
                if (a != t && to[a] % vector_ != 0) return std::nullopt;
            }
            linear = let_index(linear).text;
            size_t last = f_end - 1;
            while (from[last] == 1) --last;
            if (vector && last != f && from[last] % vector_ != 0) return std::nullopt;
            for (size_t a = last; a > f; --a) {
                if (from[a] == 1) continue;
                const bool is_dynamic = dynamic(source, a);
                const std::string q = let_index(parameters_.quotient(linear, from[a], is_dynamic)).text;
                result[a] = let_index(parameters_.remainder(linear, q, from[a], is_dynamic));
                if (a == last) result[a].vector = vector;
                linear = q;
            }
            result[f] = {linear, vector && last == f};
        }
        f = f_end, t = t_end;
    }
    return result;
}

std::optional<std::pair<ValueId, Index>> Emitter::remap(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId source = node.args[0];
    const Sizes& from = graph_[source].type.shape;
    Index result(from.size());
    switch (node.op) {
        case Op::reshape: {
            if (numel(from) == 0) return std::pair{source, Index(from.size(), Coordinate{"0"})};
            auto mapped = reshaped(from, node.type.shape, id, index);
            if (!mapped) return std::nullopt;
            return std::pair{source, *mapped};
        }
        case Op::permute: {
            const Sizes& order = node.attributes.integers(Key::order);
            for (size_t a = 0; a < order.size(); ++a) result[static_cast<size_t>(order[a])] = index[a];
            return std::pair{source, result};
        }
        case Op::expand:
            return std::pair{source, broadcast(source, index, index.size())};
        case Op::slice: {
            const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
            const int64_t step = node.attributes.integer(Key::step);
            int64_t start = node.attributes.integer(Key::start);
            if (start < 0) start = std::max<int64_t>(0, start + from[axis]);  // from the end
            result = index;
            if (start == 0 && step == 1) return std::pair{source, result};
            if (index[axis].vector) return std::nullopt;
            result[axis] =
                let_index(plus(times(index[axis].text, number(step)), parameters_.integer(start, dynamic(id, axis))));
            return std::pair{source, result};
        }
        case Op::flip:
            result = index;
            for (int64_t dim : node.attributes.integers(Key::dims)) {
                const auto axis = static_cast<size_t>(dim);
                if (index[axis].vector) return std::nullopt;
                result[axis] = let_index(minus(plus(extent(id, axis), "-1"), index[axis].text));
            }
            return std::pair{source, result};
        default:
            fail("CUDA: ", name(node.op), " is no shape op");
    }
}

// One variable for each lane, set by the first case whose condition holds.
Lanes Emitter::choose(size_t lanes, Real real, const std::string& otherwise,
                      const std::vector<std::pair<std::string, std::function<Lanes()>>>& cases) {
    Lanes result;
    result.real = real;
    for (size_t lane = 0; lane < lanes; ++lane) {
        result.text.push_back(body_.fresh("v"));
        body_.line({real_name(real), " ", result.text.back(), " = ", otherwise, ";"});
    }
    bool first = true;
    for (const auto& [condition, evaluate] : cases) {
        open({(first ? "if (" : "else if ("), condition, ")"});
        const Lanes lane_values = evaluate();
        for (size_t lane = 0; lane < lanes; ++lane)
            body_.line({result.text[lane], " = (", real_name(real), ")", lane_values[lane], ";"});
        close();
        first = false;
    }
    return result;
}

Lanes Emitter::concat(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    const size_t lanes = has_vector(index) ? static_cast<size_t>(vector_) : 1;
    const Real real = wide_ ? Real::f64 : real_of(node.type.dtype);
    std::vector<std::pair<std::string, std::function<Lanes()>>> cases;
    int64_t begin = 0;
    for (ValueId piece : node.args) {
        const int64_t size = graph_[piece].type.shape[axis];
        if (size == 0) continue;
        Index at = index;
        const std::string from = parameters_.integer(begin, dynamic(id, axis));
        at[axis] = {minus(index[axis].text, from)};
        cases.emplace_back(index[axis].text + " < " + parameters_.integer(begin + size, dynamic(id, axis)),
                           [this, piece, at] { return value(piece, at); });
        begin += size;
    }
    return choose(lanes, real, literal(0, real), cases);
}

Lanes Emitter::pad(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const ValueId source = node.args[0];
    const Sizes &start = node.attributes.integers(Key::start), &end = node.attributes.integers(Key::end);
    const size_t lanes = has_vector(index) ? static_cast<size_t>(vector_) : 1;
    const Real real = wide_ ? Real::f64 : real_of(node.type.dtype);
    Index at = index;
    std::string condition;
    for (size_t a = 0; a < index.size(); ++a) {
        if (start[a] == 0 && end[a] == 0) continue;
        at[a] = let_index(minus(index[a].text, number(start[a])));
        condition +=
            (condition.empty() ? "" : " && ") + at[a].text + " >= 0 && " + at[a].text + " < " + extent(source, a);
    }
    if (condition.empty()) return value(source, index);
    return choose(lanes, real, literal(node.attributes.number(Key::value), real),
                  {{condition, [this, source, at] { return value(source, at); }}});
}

Lanes Emitter::unrolled_taps(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    const ValueId source = node.args[0];
    const int64_t rows = node.attributes.integer(Key::rows), K = graph_[source].type.shape[axis];
    const std::vector<double>& matrix = node.attributes.numbers(Key::matrix);
    const Real real = wide_ ? Real::f64 : real_of(node.type.dtype);
    const std::string type(real_name(real)), zero = literal(0, real), &row = index[axis].text;
    std::vector<std::vector<std::string>> terms;
    for (int64_t k = 0; k < K; ++k) {
        auto entry = [&](int64_t r) { return matrix[static_cast<size_t>(r * K + k)]; };
        bool same = true, none = true;
        for (int64_t r = 0; r < rows; ++r) same = same && entry(r) == entry(0), none = none && entry(r) == 0;
        if (none || (is_number(row) && entry(std::atoll(row.c_str())) == 0)) continue;
        std::string factor = literal(entry(is_number(row) ? std::atoll(row.c_str()) : 0), real);
        if (!same && !is_number(row))
            for (int64_t r = 1; r < rows; ++r)
                factor = "(" + row + " == " + number(r) + " ? " + literal(entry(r), real) + " : " + factor + ")";
        Index at = index;
        at[axis] = {number(k)};
        const Lanes x = value(source, at);
        const std::string m = same || is_number(row) ? factor : let(type, factor, "m");
        terms.emplace_back();
        for (const std::string& text : x.text) {
            const std::string product = "(" + type + ")" + text + " * " + m;
            terms.back().push_back(
                same || is_number(row) ? product : "(" + m + " != " + zero + " ? " + product + " : " + zero + ")");
        }
    }
    Lanes result;
    result.real = real;
    const size_t lanes = terms.empty() ? 1 : terms[0].size();
    for (size_t lane = 0; lane < lanes; ++lane) {
        std::string sum;
        for (const auto& term : terms) sum += (sum.empty() ? "" : " + ") + term[std::min(lane, term.size() - 1)];
        result.text.push_back(let(type, sum.empty() ? zero : sum, "v"));
    }
    return result;
}

std::optional<Sizes> Emitter::strides_in_memory(ValueId id) const {
    return cuda::strides_in_memory(graph_, id, places_, 0);
}

// w'[k'] = Σ_k matrix[k', k]·w[k]. Where every row has at most one entry, that is a selection with a factor.
Lanes Emitter::taps(ValueId id, const Index& index) {
    const Node& node = graph_[id];
    const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
    const ValueId source = node.args[0];
    const int64_t rows = node.attributes.integer(Key::rows), K = graph_[source].type.shape[axis];
    const std::optional<Selection> selection = selection_of(node, K);
    const size_t lanes = has_vector(index) ? static_cast<size_t>(vector_) : 1;
    if (!selection) {
        // Written out while that stays short: all loads are then in flight together.
        int64_t terms = 1;
        for (ValueId v = id; graph_[v].op == Op::taps && !places_.contains(v); v = graph_[v].args[0])
            terms *= graph_[graph_[v].args[0]].type.shape[static_cast<size_t>(graph_[v].attributes.integer(Key::axis))];
        if (terms <= figures::most_unrolled && rows <= figures::most_unrolled_rows) return unrolled_taps(id, index);
        return serial(taps_fold(id, index), wide_ || node.type.dtype == DType::f64, lanes);
    }
    const auto& [column, factor] = *selection;
    Index at = index;
    const std::string row = index[axis].text;
    bool same = true, mirrored = true, ones = true;
    for (int64_t r = 0; r < rows; ++r) {
        if (column[static_cast<size_t>(r)] != r) same = false;
        if (column[static_cast<size_t>(r)] != K - 1 - r) mirrored = false;
        if (factor[static_cast<size_t>(r)] != 1) ones = false;
    }
    if (is_number(row))
        at[axis] = {number(column[static_cast<size_t>(std::atoll(row.c_str()))])};
    else if (same)
        at[axis] = {row};
    else if (mirrored)
        at[axis] = let_index(minus(number(K - 1), row));
    else
        at[axis] = {let("tf_index", {integer_table(column), "[", row, "]"}, "i")};
    Lanes result = value(source, at);
    if (ones) return result;
    const std::string scale = is_number(row)
                                  ? literal(factor[static_cast<size_t>(std::atoll(row.c_str()))], result.real)
                                  : table(factor, result.real) + "[" + row + "]";
    for (std::string& text : result.text) text = let(std::string(real_name(result.real)), {text, " * ", scale}, "v");
    return result;
}

}  // namespace transfuse::cuda
