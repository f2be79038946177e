// Work that falls into independent parts, done by several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace transfuse::cuda {

inline thread_local bool beside_others = false;  // this thread does a part

// body(k) for every k below `count`, in any order. at_least: parts that are worth a thread. Parts of a part are done
// one after another. Throws one of what parts have thrown.
template <class Body>
void side_by_side(size_t count, const Body& body, size_t at_least = 1) {
    std::atomic<size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    const auto work = [&] {
        const bool before = std::exchange(beside_others, true);
        try {
            for (size_t k = next++; k < count; k = next++) body(k);
        } catch (...) {
            next = count;
            const std::lock_guard lock(mutex);
            error = std::current_exception();
        }
        beside_others = before;
    };
    static const size_t cores = std::min<size_t>(std::max(1U, std::thread::hardware_concurrency()), 16);
    const size_t most = beside_others ? 1 : cores;
    std::vector<std::thread> threads;
    try {
        for (size_t t = 1; t < std::min(count / at_least, most); ++t) threads.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads are given: those there are do all parts
    }
    work();
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
}

// The same where parts may be short: threads are started once what is done has taken a while, and what is left, if it
// takes as long, is worth several. (One short part tells little: of a new size whose kernels are known, the first takes
// many times as long as the others where caches are full of other things.)
template <class Clock = std::chrono::steady_clock, class Body>
void side_by_side_when_long(size_t count, const Body& body) {
    constexpr std::chrono::microseconds a_while{500}, worth_a_thread{500}, worth_several{2000};
    const auto begin = Clock::now();
    for (size_t done = 0; done < count; body(done++)) {
        if (done == 0) continue;
        const size_t rest = count - done;
        const auto taken = Clock::now() - begin, left = taken / done * rest;
        if (taken < a_while || left < worth_several) continue;
        const auto threads = static_cast<size_t>(left / worth_a_thread);
        return side_by_side(
            rest, [&](size_t k) { body(done + k); }, std::max<size_t>(1, rest / threads));
    }
}

}  // namespace transfuse::cuda
