#include "cuda/dense/read/affine.h"

#include <cmath>
#include <numbers>

#include "transfuse/plan.h"

namespace transfuse::cuda {

namespace {

class Finder {
public:
    Finder(const Graph& graph, std::span<const ValueId> steps, ValueId result,
           const std::function<bool(ValueId)>& is_term)
        : graph_(graph), steps_(steps), result_(result), is_term_(is_term) {}

    Affine find(ValueId of) {
        found_.of = of, found_.steps = {of};
        ValueId at = of, next = only_use(at);
        for (; next >= 0 && extend(next, at); next = only_use(at)) found_.steps.push_back(at = next);
        if (next >= 0 && graph_[next].op == Op::sigmoid) {
            found_.steps.push_back(found_.sigmoid = next);
            scale(-std::numbers::log2e);
        }
        return found_.steps.size() > 1 ? found_ : Affine{};
    }

private:
    ValueId only_use(ValueId v) const {
        if (v == result_) return -1;
        ValueId found = -1;
        for (ValueId step : steps_)
            for (ValueId a : graph_[step].args) {
                if (a != v) continue;
                if (found >= 0) return -1;
                found = step;
            }
        return found;
    }

    void scale(double by) {
        found_.scale *= by, found_.offset *= by;
        for (auto& term : found_.terms) term.second *= by;
    }

    void add(ValueId term, double factor) {
        for (auto& [other, so_far] : found_.terms)
            if (other == term) return void(so_far += factor);
        found_.terms.emplace_back(term, factor);
    }

    // By a step on what is found so far, where that is a sum with or a product by something simple.
    bool extend(ValueId step, ValueId so_far) {
        const Node& node = graph_[step];
        if (node.op == Op::neg) return scale(-1), true;
        if (node.args.size() != 2) return false;
        const bool second = node.args[1] == so_far;
        const ValueId other = node.args[second ? 0 : 1];
        const bool number = is_literal(graph_, other);
        const double value = number ? graph_[other].attributes.number(Key::value) : 0;
        if (node.op == Op::mul && number) return scale(value), true;
        if (node.op == Op::div && number && !second && std::isnormal(static_cast<float>(1 / value)))
            return scale(1 / value), true;
        if ((node.op != Op::add && node.op != Op::sub) || (!number && !is_term_(other))) return false;
        if (node.op == Op::sub && second) scale(-1);
        const double sign = node.op == Op::sub && !second ? -1 : 1;
        if (number)
            found_.offset += sign * value;
        else
            add(other, sign);
        return true;
    }

    const Graph& graph_;
    const std::span<const ValueId> steps_;
    const ValueId result_;
    const std::function<bool(ValueId)>& is_term_;
    Affine found_;
};

}  // namespace

Affine affine_chain(const Graph& graph, std::span<const ValueId> steps, ValueId of, ValueId result,
                    const std::function<bool(ValueId)>& is_term) {
    return Finder(graph, steps, result, is_term).find(of);
}

}  // namespace transfuse::cuda
