// How many terms an element of a value takes, and how threads may share them.
#pragma once

#include "cuda/general/pull.h"

namespace transfuse::cuda {

// An op whose elements are elements of its operand.
bool is_view(Op op);
// How many terms one element of the value takes: 1 for pointwise and shape ops.
int64_t terms_of(const Graph& graph, ValueId id, const Places& places);
// Whether a group of threads can share the terms of one element.
bool can_be_shared(const Graph& graph, ValueId id, const Places& places);
// Whether a reduction takes the last axis along: its terms are neighbours.
bool reduces_last(const Graph& graph, ValueId id);
// Blocks per output block, so that a reduction to few elements fills the device.
int64_t splits_of(const PullRequest& request, ValueId fold);

}  // namespace transfuse::cuda
