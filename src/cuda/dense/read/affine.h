// What literals and values per channel make of a value by sums and products, written as one of each.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse::cuda {

// of·scale + Σ factor·term + offset, each term once.
struct Affine {
    ValueId of = -1;
    ValueId sigmoid = -1;  // of it, where nothing else needs it: it then is the exponent u in 1/(1 + 2^u)
    double scale = 1, offset = 0;
    std::vector<std::pair<ValueId, double>> terms;
    std::vector<ValueId> steps;  // that it stands for, `of` and the sigmoid among them
    explicit operator bool() const { return !steps.empty(); }
};

// The longest such chain of steps that begins with `of`, each needed by the next alone; none where it is `of` itself.
Affine affine_chain(const Graph& graph, std::span<const ValueId> steps, ValueId of, ValueId result,
                    const std::function<bool(ValueId)>& is_term);

}  // namespace transfuse::cuda
