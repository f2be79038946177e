// Parts of work are shared among threads where that pays, and only there.
#include <gtest/gtest.h>

#include <set>

#include "cuda/runtime/side_by_side.h"

namespace transfuse::cuda {
namespace {

using namespace std::chrono_literals;

// A clock that stands still but for what parts say they took.
struct Told {
    using duration = std::chrono::nanoseconds;
    using time_point = std::chrono::time_point<Told, duration>;
    static inline std::atomic<int64_t> passed{0};
    static time_point now() { return time_point(duration(passed.load())); }
};

// By how many threads, in any case each part once.
size_t threads_for(size_t count, Told::duration first, Told::duration others) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::multiset<size_t> parts;
    side_by_side_when_long<Told>(count, [&](size_t k) {
        {
            const std::lock_guard lock(mutex);
            threads.insert(std::this_thread::get_id()), parts.insert(k);
        }
        Told::passed += (k == 0 ? first : others).count();
        std::this_thread::sleep_for(200us);  // so that no thread does all
    });
    EXPECT_EQ(parts.size(), count);
    EXPECT_EQ(std::set(parts.begin(), parts.end()).size(), count);
    return threads.size();
}

TEST(SideBySide, ShortPartsStayOnOneThread) { EXPECT_EQ(threads_for(40, 5us, 5us), 1U); }

// A new size of known kernels, where the first finds the caches full of other things.
TEST(SideBySide, OneSlowStartIsNoReasonForThreads) { EXPECT_EQ(threads_for(40, 200us, 10us), 1U); }

TEST(SideBySide, LongPartsAreShared) {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
    EXPECT_GT(threads_for(40, 10ms, 10ms), 1U);  // searches for tiles
    EXPECT_GT(threads_for(40, 5us, 300us), 1U);  // texts that are written
}

}  // namespace
}  // namespace transfuse::cuda
