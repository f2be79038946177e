// Convolutions of one input whose channels are concatenated: one with all of the channels, that reads the input once.
// Where each reads its own channels of the input, one after another, they are the groups of one convolution.
#include <algorithm>
#include <optional>

#include "algebra/convolutions/rules.h"
#include "algebra/lattice/aligned.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"
#include "graph/infer.h"

namespace transfuse {

namespace {

// A convolution and the ops element by element that lie between it and the concat.
struct Piece {
    ValueId y = -1;
    std::vector<ValueId> after;  // outermost first
};

std::optional<Piece> piece(Rewriter& r, ValueId v) {
    Piece result{v, {}};
    for (; is_unary(r.op(result.y)); result.y = r.arg(result.y)) {
        if (r.uses(result.y) != 1) return std::nullopt;
        result.after.push_back(result.y);
    }
    const bool channels = r.is(result.y, Op::slice) && r[result.y].attributes.integer(Key::axis) == 1 &&
                          r.is(r.arg(result.y), Op::lattice);  // some of a convolution's
    if (r.uses(result.y) != 1) return std::nullopt;
    if (channels) result.y = slice_of_lattice(r, result.y);
    const ValueId y = result.y;
    if (y < 0 || !r.is(y, Op::lattice) || r.is_parameter(r.arg(y)) || !r.is_parameter(r.arg(y, 1))) return std::nullopt;
    return result;
}

// Which channels of what are read, step by step.
struct Channels {
    ValueId of;
    int64_t from, to;
};
Channels read(const Rewriter& r, ValueId x) {
    if (!r.is(x, Op::slice) || r[x].attributes.integer(Key::axis) != 1 || r[x].attributes.integer(Key::step) != 1)
        return {x, 0, r.shape(x)[1]};
    const int64_t from = slice_bound(r[x].attributes.integer(Key::start), r.shape(r.arg(x))[1]);
    return {r.arg(x), from, from + r.shape(x)[1]};
}

// b reads what a reads, by one group each; or its groups are alike and read what follows that.
bool joins(const Rewriter& r, const Piece& a, const Piece& b, bool groups) {
    const Sizes &w = r.shape(r.arg(a.y, 1)), &v = r.shape(r.arg(b.y, 1));
    if (!groups && (r.arg(a.y) != r.arg(b.y) || w[0] != 1 || v[0] != 1)) return false;
    if (groups) {
        const Channels first = read(r, r.arg(a.y)), second = read(r, r.arg(b.y));
        if (first.of != second.of || first.to != second.from || w[1] != v[1] || w[2] != v[2]) return false;
    }
    return std::equal(a.after.begin(), a.after.end(), b.after.begin(), b.after.end(),
                      [&](ValueId u, ValueId v) { return r.op(u) == r.op(v) && r[u].attributes == r[v].attributes; });
}

ValueId concat(Rewriter& r, const std::vector<ValueId>& pieces, int64_t axis) {
    return pieces.size() == 1 ? pieces[0] : r.add(Op::concat, pieces, {{Key::axis, axis}});
}

ValueId merged(Rewriter& r, std::span<const Piece> pieces, bool as_groups, bool if_it_pays) {
    ValueId x = r.arg(pieces[0].y);
    if (as_groups) {
        const Channels first = read(r, x), last = read(r, r.arg(pieces.back().y));
        x = first.of;
        if (first.from > 0 || last.to < r.shape(x)[1])
            x = r.add(Op::slice, {x}, {{Key::axis, int64_t{1}}, {Key::start, first.from}, {Key::end, last.to}});
    }
    const DType dtype = r.dtype(x), wider = wide(dtype);
    std::vector<Lattices> own;
    bool biased = false;
    for (const Piece& piece : pieces) {
        own.push_back(axes_of(r, piece.y));
        if (has_long_taps(own.back())) return -1;
        biased = biased || bias_of(r, piece.y) >= 0;
    }
    const std::optional<Aligned> common = aligned(own);
    if (!common || has_long_taps(common->axes)) return -1;
    const Sizes in = r.shape(x);
    double apart = 8 * static_cast<double>(bytes(dtype)) * product(in) * static_cast<double>(pieces.size() - 1);
    int64_t channels = 0, groups = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const int64_t out = r.shape(pieces[i].y)[1], of = r.shape(r.arg(pieces[i].y, 1))[0];
        apart += product_flops(own[i], in[0], r.shape(r.arg(pieces[i].y))[1], out, of);
        channels += out, groups += of;
    }
    if (!as_groups) groups = 1;
    double weights = static_cast<double>(in[1] * channels / groups);
    for (const Lattice& axis : common->axes) weights *= static_cast<double>(axis.taps);
    if (if_it_pays && !pays(r, product_flops(common->axes, in[0], in[1], channels, groups), weights, apart)) return -1;
    std::vector<ValueId> ws, biases;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const ValueId y = pieces[i].y, bias = bias_of(r, y);
        ws.push_back(on_taps(r, r.arg(y, 1), common->tap[i], common->axes));
        if (biased) biases.push_back(bias < 0 ? full(r, wider, {r.shape(y)[1]}, 0) : cast(r, bias, wider));
    }
    r.say(static_cast<int64_t>(pieces.size()), " convolutions of ", r[x].type,
          as_groups ? " are the groups of one" : " are one of all their channels");
    ValueId y = lattice(r, x, concat(r, ws, as_groups ? 0 : 2), biased ? concat(r, biases, 0) : -1, common->axes);
    for (size_t i = pieces[0].after.size(); i-- > 0;) {
        const Node node = r[pieces[0].after[i]];
        y = r.add(node.op, {y}, node.attributes);
    }
    return y;
}

// The longest run of pieces of one input.
ValueId concat_of_one_input(Rewriter& r, ValueId id) {
    const Node node = r[id];
    if (node.attributes.integer(Key::axis) != 1 || node.type.rank() < 3 || r.is_parameter(id)) return -1;
    std::vector<std::optional<Piece>> pieces;
    for (const ValueId arg : node.args)
        pieces.push_back(r[arg].type.dtype == node.type.dtype ? piece(r, arg) : std::nullopt);
    for (const bool groups : {false, true})
        for (size_t first = 0; first + 1 < pieces.size(); ++first) {
            if (!pieces[first]) continue;
            std::vector<Piece> run = {*pieces[first]};
            for (size_t i = first + 1; i < pieces.size() && pieces[i] && joins(r, run.back(), *pieces[i], groups); ++i)
                run.push_back(*pieces[i]);
            if (run.size() < 2) continue;
            const ValueId one = merged(r, run, groups, true);
            if (one < 0) continue;
            std::vector<ValueId> all(node.args.begin(), node.args.begin() + static_cast<std::ptrdiff_t>(first));
            all.push_back(one);
            all.insert(all.end(), node.args.begin() + static_cast<std::ptrdiff_t>(first + run.size()), node.args.end());
            return concat(r, all, 1);
        }
    return -1;
}

}  // namespace

ValueId concatenated_lattice(Rewriter& r, const Operands& lattices) {
    std::vector<Piece> pieces;
    for (const ValueId arg : lattices) {
        const std::optional<Piece> one = r.dtype(arg) == r.dtype(lattices[0]) ? piece(r, arg) : std::nullopt;
        if (!one || !one->after.empty() || (!pieces.empty() && !joins(r, pieces[0], *one, false))) return -1;
        pieces.push_back(*one);
    }
    return merged(r, pieces, false, false);
}

std::span<const Rule> concat_rules() {
    static const std::vector<Rule> rules = {
        {"concat_of_one_input", Family::compose, {Op::concat}, concat_of_one_input},
    };
    return rules;
}

}  // namespace transfuse
