// Where the store role's values go: whole vectors of neighbours along w or of channels where memory lies so, else one
// by one; and the partial results of statistics.
#pragma once

#include "cuda/dense/exits/store/store_text.h"

namespace transfuse::cuda {

// Whether rows of a store are whole vectors, wherever it lies: then there is no text for single elements, and more room
// for the chain's. Where there is none it is left as it is (D took 1.349 ms, and 1.363 with whole vectors alone).
bool stores_whole(const StoreText& role, const Operand& store);

std::string_view vectors_stored();  // functions that the stores call
void sinks(StoreText& role);        // all stores and statistics of the values at hand

}  // namespace transfuse::cuda
