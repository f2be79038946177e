#include "algebra/lower.h"

#include "algebra/cost.h"
#include "graph/growing.h"

namespace transfuse {

Lowered grown(const Lowered& lowered, const std::vector<Type>& leaf_types) {
    const Growing growing;
    Lowered anew{lowered.graph.with_leaf_types(leaf_types), lowered.costs, lowered.quiet};
    for (size_t id = 0; id < anew.costs.size(); ++id)
        if (!lowered.quiet->parameter(id)) anew.costs[id] = node_cost(anew.graph, anew.graph.nodes()[id]);
    return anew;
}

}  // namespace transfuse
