// The store role's ways through a chunk: columns of neighbouring outputs, each with many channels; pixels, where
// channels lie together in memory; windows of a pool. Each loads accumulators, runs the chain and feeds the sinks.
#pragma once

#include "cuda/dense/exits/store/store_text.h"

namespace transfuse::cuda {

void columns(StoreText& role);
void pixels(StoreText& role);
void windows(StoreText& role);

}  // namespace transfuse::cuda
