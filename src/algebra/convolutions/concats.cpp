// Convolutions of one input whose channels are concatenated: one with all of the channels, that reads the input once.
#include <algorithm>
#include <optional>

#include "algebra/convolutions/rules.h"
#include "algebra/lattice/aligned.h"
#include "algebra/terms/channelwise.h"
#include "algebra/terms/terms.h"
#include "algebra/terms/weights.h"

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
    if (y < 0 || !r.is(y, Op::lattice) || r.is_parameter(r.arg(y)) || !r.is_parameter(r.arg(y, 1)) ||
        r.shape(r.arg(y, 1))[0] != 1)
        return std::nullopt;
    return result;
}

bool alike(const Rewriter& r, const Piece& a, const Piece& b) {
    return r.arg(a.y) == r.arg(b.y) &&
           std::equal(a.after.begin(), a.after.end(), b.after.begin(), b.after.end(),
                      [&](ValueId u, ValueId v) { return r.op(u) == r.op(v) && r[u].attributes == r[v].attributes; });
}

ValueId concat(Rewriter& r, const std::vector<ValueId>& pieces, int64_t axis) {
    return pieces.size() == 1 ? pieces[0] : r.add(Op::concat, pieces, {{Key::axis, axis}});
}

ValueId merged(Rewriter& r, std::span<const Piece> pieces, bool if_it_pays) {
    const ValueId x = r.arg(pieces[0].y);
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
    int64_t channels = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const int64_t out = r.shape(pieces[i].y)[1];
        apart += product_flops(own[i], in[0], in[1], out, 1);
        channels += out;
    }
    double weights = static_cast<double>(in[1] * channels);
    for (const Lattice& axis : common->axes) weights *= static_cast<double>(axis.taps);
    if (if_it_pays && !pays(r, product_flops(common->axes, in[0], in[1], channels, 1), weights, apart)) return -1;
    std::vector<ValueId> ws, biases;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const ValueId y = pieces[i].y, bias = bias_of(r, y);
        ws.push_back(on_taps(r, r.arg(y, 1), common->tap[i], common->axes));
        if (biased) biases.push_back(bias < 0 ? full(r, wider, {r.shape(y)[1]}, 0) : cast(r, bias, wider));
    }
    r.say(static_cast<int64_t>(pieces.size()), " convolutions of ", r[x].type, " are one of all their channels");
    ValueId y = lattice(r, x, concat(r, ws, 2), biased ? concat(r, biases, 0) : -1, common->axes);
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
    for (size_t first = 0; first + 1 < pieces.size(); ++first) {
        if (!pieces[first]) continue;
        std::vector<Piece> run = {*pieces[first]};
        for (size_t i = first + 1; i < pieces.size() && pieces[i] && alike(r, run[0], *pieces[i]); ++i)
            run.push_back(*pieces[i]);
        if (run.size() < 2) continue;
        const ValueId one = merged(r, run, true);
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
        if (!one || !one->after.empty() || (!pieces.empty() && !alike(r, pieces[0], *one))) return -1;
        pieces.push_back(*one);
    }
    return merged(r, pieces, false);
}

std::span<const Rule> concat_rules() {
    static const std::vector<Rule> rules = {
        {"concat_of_one_input", Family::compose, {Op::concat}, concat_of_one_input},
    };
    return rules;
}

}  // namespace transfuse
