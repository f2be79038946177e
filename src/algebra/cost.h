// The cost of one node, from its own type and those of its operands. Works on a sealed graph and on one being built.
#pragma once

#include "transfuse/algebra.h"

namespace transfuse {

Cost node_cost(const Node& node, const std::vector<const Node*>& args);

template <class Nodes>
Cost node_cost(const Nodes& nodes, const Node& node) {
    std::vector<const Node*> args;
    args.reserve(node.args.size());
    for (ValueId arg : node.args) args.push_back(&nodes[arg]);
    return node_cost(node, args);
}

}  // namespace transfuse
