// What a forward call leaves for its backward call.
//
// The gradient of a graph begins with forward values that it needs. Each is kept from the forward call, or made again
// from others and from the leaves, which are there anyway. What is kept is the cheapest cut between the leaves and what
// the gradient reads, in bytes of memory traffic: a kept value costs its bytes twice (once, where the caller has it
// already), a leaf once, a value made again what its operation costs. So products are kept; norms, activations and all
// that follows from a kept value element by element are made again while it is read; of a collapsed chain a few sums
// are kept.
#pragma once

#include <span>
#include <vector>

#include "transfuse/graph.h"
#include "transfuse/plan.h"

namespace transfuse {

// Values of `forward`, the graph that runs. gradient: of a forward graph with the same leaves, which are its own first
// ones. shared: outputs of `forward` that the caller keeps anyway; they are not among what is found.
std::vector<ValueId> kept_values(const Graph& forward, const Graph& gradient, std::span<const ValueId> shared,
                                 const Machine& machine);

// The forward graph with these values as further outputs.
Graph giving(const Graph& forward, std::span<const ValueId> kept);

// The gradient with one further input for each, in the place of the same value.
Graph taking(const Graph& gradient, const Graph& forward, std::span<const ValueId> kept);

}  // namespace transfuse
