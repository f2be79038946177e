// What a forward pass leaves for its backward pass. A collapsed chain reads its input once and keeps a few box sums of
// it; the gradients of its weights need the same sums, and with them the backward pass need not read the input again.
#pragma once

#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

// The box sums of leaves in a forward graph that are small beside what they were read from.
std::vector<ValueId> kept_sums(const Graph& forward);

// The forward graph with these values as further outputs.
Graph giving(const Graph& forward, const std::vector<ValueId>& kept);

// The gradient of that forward graph with one further input for each, in the place of equal sums of the same leaf.
Graph taking(const Graph& backward, const Graph& forward, const std::vector<ValueId>& kept);

}  // namespace transfuse
