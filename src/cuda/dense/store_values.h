// Where the store role's values go: whole vectors of neighbours along w or of channels where memory lies so, else one by one; and the
// partial results of statistics.
#pragma once

#include "cuda/dense/store_text.h"

namespace transfuse::cuda {

void store_helpers(StoreText& role);   // functions the stores call
void sinks(StoreText& role);           // all stores and statistics of the values at hand

}  // namespace transfuse::cuda
