// The store role's ways through a chunk: columns of neighbouring outputs, each with many channels; pixels, where
// channels lie together in memory; windows of a pool. Each loads accumulators, runs the chain and feeds the sinks.
#pragma once

#include "cuda/dense/exits/store/store_text.h"

namespace transfuse::cuda {

std::string columns(StoreText& role);
std::string pixels(StoreText& role);
std::string windows(StoreText& role);

}  // namespace transfuse::cuda
