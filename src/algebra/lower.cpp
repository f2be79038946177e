#include "algebra/lower.h"

#include "algebra/cost.h"

namespace transfuse {

Lowered grown(const Lowered& lowered, const std::vector<Type>& leaf_types, std::optional<Lowered> spare) {
    Lowered anew{spare ? lowered.graph.grown_to(leaf_types, spare->graph) : lowered.graph.grown_to(leaf_types),
                 spare ? std::move(spare->costs) : lowered.costs, lowered.quiet};
    for (const ValueId id : lowered.graph.kin()->fed)
        anew.costs[static_cast<size_t>(id)] = node_cost(anew.graph, anew.graph[id]);
    return anew;
}

}  // namespace transfuse
