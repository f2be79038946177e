// Combines the partial results of a grid reduction, in a fixed order, into the grid value.
#pragma once

#include "cuda/dense/epilogue.h"

namespace transfuse::cuda {

// Partials of whole reductions lie as [statistic][row][channel]; rows of one image are neighbours.
struct PartialRows {
    int64_t images = 1;   // 1: rows of all images are added together
    int64_t rows = 1;     // of all images
};

// True where `b` directly follows `a` and one launch can combine both.
bool alike(const Graph& graph, const Partial& a, const Partial& b);

// `count` partials alike from p on: at `from` in scratch (of the first statistic, or of the kept value), results at `to`,
// `size` bytes apart.
Launch combine(const Epilogue& epilogue, const Partial& p, int count, int64_t from, int64_t to, int64_t size, const PartialRows& rows);

}  // namespace transfuse::cuda
