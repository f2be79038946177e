// Permutations that are undone again.
#include <algorithm>
#include <map>

#include "algebra/simplify/rules.h"
#include "algebra/terms/terms.h"

namespace transfuse {

namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

Sizes inverse(const Sizes& order) {
    Sizes result(order.size());
    for (size_t i = 0; i < order.size(); ++i) result[at(order[i])] = static_cast<int64_t>(i);
    return result;
}

// Values in axes that were permuted by `order` and will be permuted back: each is made anew in the axes before.
class Between {
public:
    Between(Rewriter& r, Sizes order) : r_(r), order_(std::move(order)) {}

    // u with permute(u, order) = v, where v broadcasts against what is so permuted; −1 where v would have to be
    // permuted.
    ValueId before(ValueId v) {
        if (r_.rank(v) == 0) return v;
        if (const auto known = made_.find(v); known != made_.end()) return ++known->second.met, known->second.before;
        if (made_.size() > most) return -1;
        const ValueId u = make(v);
        made_.insert_or_assign(v, Made{u, 1});
        return u;
    }
    // True where nothing but each other uses the values that were made anew: none will be computed twice.
    bool alone() const {
        return std::all_of(made_.begin(), made_.end(), [&](const auto& entry) {
            const Op op = r_.op(entry.first);
            return !(is_pointwise(op) || is_reduction(op)) || r_.is_parameter(entry.first) ||
                   r_.uses(entry.first) == entry.second.met;
        });
    }

private:
    static constexpr size_t most = 64;
    struct Made {
        ValueId before;
        int met;
    };

    ValueId make(ValueId v) {
        if (r_.is(v, Op::permute) && r_[v].attributes.integers(Key::order) == order_) return r_.arg(v);
        if (r_.rank(v) > static_cast<int64_t>(order_.size())) return -1;
        Sizes extents(order_.size() - at(r_.rank(v)), 1), shape(order_.size());
        extents.insert(extents.end(), r_.shape(v).begin(), r_.shape(v).end());
        int64_t last = -1;
        bool moves = false;  // any element
        for (size_t i = 0; i < order_.size(); ++i) {
            shape[at(order_[i])] = extents[i];
            if (extents[i] == 1) continue;
            moves = moves || order_[i] < last;
            last = order_[i];
        }
        if (r_.is_parameter(v)) return permute(r_, reshape(r_, v, std::move(extents)), inverse(order_));
        const Node node = r_[v];
        if (is_reduction(node.op)) return reduced(node);
        if (!is_pointwise(node.op)) return moves ? -1 : reshape(r_, v, std::move(shape));
        Operands args;
        for (ValueId arg : node.args)
            if (args.emplace_back(before(arg)) < 0) return -1;
        const ValueId u = r_.add(node.op, std::move(args), node.attributes);
        return r_.shape(u) == shape && r_.dtype(u) == node.type.dtype ? u : -1;
    }

    ValueId reduced(const Node& node) {
        if (!node.attributes.flag(Key::keepdim) || node.type.shape.size() != order_.size()) return -1;
        const ValueId u = before(node.args[0]);
        if (u < 0) return -1;
        Attributes attributes = node.attributes;
        Sizes dims;
        for (int64_t axis : node.attributes.integers(Key::dims)) dims.push_back(order_[at(axis)]);
        std::sort(dims.begin(), dims.end());
        attributes.set(Key::dims, std::move(dims));
        return r_.add(node.op, {u}, std::move(attributes));
    }

    Rewriter& r_;
    const Sizes order_;
    std::map<ValueId, Made> made_;
};

// permute(f(permute(v)), back) = f'(v), f pointwise ops and reductions: a norm over channels written for channels last
// is one over axis 1. Each firing leaves fewer permutations.
ValueId permuted_back(Rewriter& r, ValueId id) {
    const ValueId v = r.arg(id);
    if (r.is_parameter(v) || r.uses(v) != 1 || !(is_pointwise(r.op(v)) || is_reduction(r.op(v)))) return -1;
    Between between(r, inverse(r[id].attributes.integers(Key::order)));
    const ValueId result = between.before(v);
    if (result < 0 || r[result].type != r[id].type || !between.alone()) return -1;
    r.say("what lies between two permutations needs none");
    return result;
}

}  // namespace

std::span<const Rule> permutation_rules() {
    static const std::vector<Rule> rules = {
        {"permuted_back", Family::simplify, {Op::permute}, permuted_back, true},
    };
    return rules;
}

}  // namespace transfuse
