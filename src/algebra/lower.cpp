#include "algebra/lower.h"

#include "graph/growing.h"

namespace transfuse {

Graph grown(const Graph& lowered, const std::vector<Type>& leaf_types) {
    const Growing growing;
    return lowered.with_leaf_types(leaf_types);
}

}  // namespace transfuse
