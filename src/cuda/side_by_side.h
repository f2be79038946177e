// Work that falls into independent parts, done by several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace transfuse::cuda {

// body(k) for every k below `count`, in any order; body must not throw. at_least: parts that are worth a thread.
template <class Body>
void side_by_side(size_t count, const Body& body, size_t at_least = 1) {
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t k = next++; k < count; k = next++) body(k);
    };
    const size_t most = std::min<size_t>(std::max(1U, std::thread::hardware_concurrency()), 16);
    std::vector<std::thread> threads;
    for (size_t t = 1; t < std::min(count / at_least, most); ++t) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
}

}  // namespace transfuse::cuda
