// How many terms an element of a value takes, where they lie, and whether threads may share them.
#pragma once

#include <optional>
#include <vector>

#include "cuda/general/emit/emitter.h"

namespace transfuse::cuda {

// An op whose elements are elements of its operand.
bool is_view(Op op);
// Of taps of which every row has one entry at most: its column, and the factor there.
struct Selection {
    std::vector<int64_t> column;
    std::vector<double> factor;
};
std::optional<Selection> selection_of(const Node& taps, int64_t columns);
// How many terms one element of the value takes: 1 for pointwise and shape ops.
int64_t terms_of(const Graph& graph, ValueId id, const Places& places);
// Whether a group of threads can share the terms of one element.
bool can_be_shared(const Graph& graph, ValueId id, const Places& places);
// Whether a reduction takes the last axis along: its terms are neighbours.
bool reduces_last(const Graph& graph, ValueId id);
// How far apart neighbours along each axis of a value lie in what it is made of, element by element, if that lies in
// more than so many slots; nullopt: it does not, or is made of nothing in memory.
std::optional<Sizes> strides_in_memory(const Graph& graph, ValueId id, const Places& places, int64_t slots);

}  // namespace transfuse::cuda
