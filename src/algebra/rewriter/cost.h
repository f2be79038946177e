// The cost of one node, from its own type and those of its operands. Works on a sealed graph and on one being built.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "transfuse/algebra.h"

namespace transfuse {

using OperandNodes = std::span<const Node* const>;

Cost node_cost(const Node& node, OperandNodes args);

template <class Nodes>
Cost node_cost(const Nodes& nodes, const Node& node) {
    std::array<const Node*, 8> few{};
    std::vector<const Node*> many(node.args.size() > few.size() ? node.args.size() : 0);
    const std::span<const Node*> args(many.empty() ? few.data() : many.data(), node.args.size());
    for (size_t i = 0; i < args.size(); ++i) args[i] = &nodes[node.args[i]];
    return node_cost(node, args);
}

}  // namespace transfuse
