// The clock that measurements here go by.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace transfuse::bench {

// Processor time of all threads: on a machine that others use as well, it says more than the clock on the wall.
inline double processor_seconds() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
inline bool by_processor_time = false;
inline double now(int threads) {
    if (by_processor_time) return processor_seconds() / threads;
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
// Seconds of one call. The kernel brings the processor time of threads that run elsewhere up to date at its ticks only,
// some milliseconds apart: by that clock, calls are repeated until a tick does not matter.
template <class Call>
double seconds_of(int threads, const Call& call) {
    const double enough = by_processor_time ? 0.1 : 0, start = now(threads);
    double spent = 0;
    int64_t calls = 0;
    do {
        call();
        ++calls;
        spent = now(threads) - start;
    } while (spent < enough);
    return spent / static_cast<double>(calls);
}

}  // namespace transfuse::bench
