// One pool of threads for the process. A loop is shared between its caller and as many helpers as the caller allows, so
// the thread count is the caller's to choose and loops of many callers at once never take more helpers than exist.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

namespace transfuse::cpu {

int hardware_threads();  // processors this process may run on

// Runs body(i) once for every 0 ≤ i < count on at most `threads` threads (0: all), the caller among them; returns when
// all are done. Which thread runs which i is not fixed: bodies write to places that depend on i alone, which makes
// results independent of the thread count. The first exception a body throws is rethrown here; the others are dropped.
void parallel_for(int threads, int64_t count, const std::function<void(int64_t)>& body);

// Memory of the calling thread that is kept between calls, aligned to cache lines. A second acquire inside the lifetime
// of the first takes from the same arena, so nested loops do not overwrite each other.
class Scratch {
public:
    Scratch();
    ~Scratch();  // gives back everything acquired through it
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    template <class T>
    T* acquire(int64_t count) {
        T* memory = static_cast<T*>(bytes(count * static_cast<int64_t>(sizeof(T))));
        if (found != Found::anything)
            std::fill_n(memory, count, found == Found::zeros ? T(0) : std::numeric_limits<T>::signaling_NaN());
        return memory;
    }
    // What stands in memory that is acquired. Tests put NaN there that raise FE_INVALID where they are computed with.
    enum class Found : uint8_t { anything, zeros, poison };
    static inline Found found = Found::anything;

private:
    void* bytes(int64_t count);
    size_t block_, used_;
};

}  // namespace transfuse::cpu
