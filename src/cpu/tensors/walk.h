// Loops over the elements of a result, in parallel.
#pragma once

#include <algorithm>

#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"

namespace transfuse::cpu {

// out[at] = f(at) for every element. Blocks have a fixed size, so that small results stay on the calling thread.
template <class F>
void for_each_element(const TensorView& out, int threads, const F& f, int64_t block = 4096) {
    const int64_t count = numel(out.shape);
    if (count == 0) return;
    parallel_for(threads, (count + block - 1) / block, [&](int64_t b) {
        const int64_t begin = b * block, end = std::min(count, begin + block);
        Odometer at(out.shape, begin);
        for (int64_t i = begin; i < end; ++i, at.next()) set(out, at.offset(out.strides), f(at));
    });
}

// visit(index) for every index of a box, row-major.
template <class F>
void for_each_index(const Sizes& shape, const F& f) {
    const int64_t count = numel(shape);
    if (count == 0) return;
    Odometer at(shape, 0);
    for (int64_t i = 0; i < count; ++i, at.next()) f(at);
}

}  // namespace transfuse::cpu
