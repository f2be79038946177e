// What writers of kernels in ordinary fp32 arithmetic know of the product that their pass is around.
#pragma once

#include <string>
#include <vector>

#include "cuda/general/pull/pull.h"
#include "cuda/kernel/kernel.h"
#include "plan/fusion.h"
#include "transfuse/lattice.h"

namespace transfuse::cuda {

// Whether families of ordinary arithmetic may take a dense pass: they want two axes, or groups, and have no whole rows.
// Others need not be asked.
inline bool ordinary_arithmetic_may_take(const Surroundings& s) {
    const Node& product = s.plan.graph[s.pass.anchor];
    if (reduces_rows(s.plan.graph, s.pass)) return false;
    return product.type.rank() > 3 || s.plan.graph[product.args[1]].type.shape[0] != 1;
}

class AroundProduct {
protected:
    AroundProduct(const Surroundings& s, const std::vector<Sink>& sinks)
        : s_(s),
          graph_(s.plan.graph),
          sinks_(sinks),
          anchor_(s.pass.anchor),
          x_(graph_[anchor_].args[0]),
          w_(graph_[anchor_].args[1]),
          bias_(graph_[anchor_].args.size() > 2 ? graph_[anchor_].args[2] : -1),
          axes_(lattices(graph_, anchor_)),
          cin_(graph_[w_].type.shape[1]),
          cout_(graph_[w_].type.shape[2]),
          taps_(numel(Sizes(graph_[w_].type.shape.begin() + 3, graph_[w_].type.shape.end()))) {}

    // Why others must take it: a sentence, or nothing. Their sums are fp32, one of all channels, their indices of 32
    // bits.
    std::string unfit() const {
        const Type &x = graph_[x_].type, &w = graph_[w_].type, &y = graph_[anchor_].type;
        if (x.dtype == DType::f64 || w.dtype == DType::f64) return "float64 products";
        if (w.shape[0] != 1) return "groups";
        if (axes_.size() < 2) return "one axis";
        if (numel(x.shape) == 0 || numel(y.shape) == 0) return "an empty tensor";
        if (numel(x.shape) >= int64_t{1} << 31 || numel(y.shape) >= int64_t{1} << 31) return "more than 2^31 elements";
        return {};
    }

    const Surroundings& s_;
    const Graph& graph_;
    const std::vector<Sink> sinks_;
    const ValueId anchor_, x_, w_, bias_;  // bias: -1 where there is none
    const Lattices axes_;
    const int64_t cin_, cout_, taps_;  // channels of a group, taps of all axes
};

}  // namespace transfuse::cuda
