#include "cpu/threads/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}
constexpr int patience = 2000;  // pauses before a thread sleeps

struct Loop {
    const std::function<void(int64_t)>* body;
    int64_t count;
    int helpers_wanted;  // guarded by the pool's gate
    std::atomic<int64_t> next{0};
    std::atomic<int> helpers_inside{0};
    std::exception_ptr error = nullptr;
    std::mutex error_mutex{};

    void work() {
        for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
            try {
                (*body)(i);
            } catch (...) {
                std::lock_guard lock(error_mutex);
                if (!error) error = std::current_exception();
                next.store(count, std::memory_order_relaxed);
            }
        }
    }
    bool has_work() const { return next.load(std::memory_order_relaxed) < count; }
};

// Held for a few instructions at a time: a mutex would send a crowd of helpers to sleep at every loop.
class Gate {
public:
    void lock() {
        for (int spin = 0; flag_.test_and_set(std::memory_order_acquire); ++spin)
            spin < patience ? pause() : std::this_thread::yield();
    }
    void unlock() { flag_.clear(std::memory_order_release); }

private:
    std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

// Loops follow each other within microseconds, so both sides look a little while before they sleep. Whoever changes
// what a sleeper waits for (places_, helpers_inside) then looks at the number of sleepers, whoever goes to sleep counts
// itself before it looks again: one of the two always sees the other.
class Pool {
public:
    // Never destroyed: helpers may still be waiting when static objects of other libraries go.
    static Pool& instance() {
        static Pool* pool = new Pool;
        return *pool;
    }

    void run(Loop& loop) {
        const int helpers = loop.helpers_wanted;  // once the loop is listed, helpers count this down
        recruit(helpers);
        {
            std::lock_guard hold(gate_);
            loops_.push_back(&loop);
            places_ += helpers;
        }
        if (sleepers_ > 0) {
            std::lock_guard lock(mutex_);
            helpers == 1 ? wake_.notify_one() : wake_.notify_all();
        }
        loop.work();
        {
            std::lock_guard hold(gate_);
            std::erase(loops_, &loop);
            places_ -= loop.helpers_wanted;
        }
        // Only helpers that did enter are waited for: a pool without living helpers (after fork) still finishes.
        for (int spin = 0; spin < patience && loop.helpers_inside > 0; ++spin) pause();
        if (loop.helpers_inside == 0) return;
        std::unique_lock lock(mutex_);
        ++callers_asleep_;
        done_.wait(lock, [&] { return loop.helpers_inside == 0; });
        --callers_asleep_;
    }

private:
    void recruit(int helpers) {
        if (threads_ >= helpers) return;
        std::lock_guard lock(mutex_);
        for (; threads_ < helpers; ++threads_) std::thread([this] { help(); }).detach();
    }

    Loop* enter() {
        std::lock_guard hold(gate_);
        for (Loop* loop : loops_) {
            if (loop->helpers_wanted == 0) continue;
            if (loop->has_work()) {
                --loop->helpers_wanted;
                --places_;
                ++loop->helpers_inside;
                return loop;
            }
            places_ -= loop->helpers_wanted;  // too late: what is left is being done
            loop->helpers_wanted = 0;
        }
        return nullptr;
    }

    void help() {
        for (;;) {
            if (Loop* loop = enter()) {
                loop->work();
                // The last touch of the loop: its caller may leave.
                if (--loop->helpers_inside == 0 && callers_asleep_ > 0) {
                    std::lock_guard lock(mutex_);
                    done_.notify_all();
                }
                continue;
            }
            for (int spin = 0; spin < patience && places_ == 0; ++spin) pause();
            if (places_ > 0) continue;
            std::unique_lock lock(mutex_);
            ++sleepers_;
            wake_.wait(lock, [&] { return places_ > 0; });
            --sleepers_;
        }
    }

    Gate gate_;
    std::vector<Loop*> loops_;    // guarded by the gate
    std::atomic<int> places_{0};  // helpers that the listed loops still want
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::atomic<int> sleepers_{0}, callers_asleep_{0}, threads_{0};
};

// Blocks of the thread's scratch memory; a block is never moved while something in it is in use.
struct Arena {
    struct Block {
        char* data;
        size_t size;
    };
    std::vector<Block> blocks;
    size_t block = 0, used = 0;
    ~Arena() {
        for (const Block& b : blocks) ::operator delete(b.data, std::align_val_t(64));
    }
};
thread_local Arena arena;

}  // namespace

int hardware_threads() {
    static const int count = [] {
        cpu_set_t set;
        const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
        return allowed > 0 ? allowed : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    }();
    return count;
}

void parallel_for(int threads, int64_t count, const std::function<void(int64_t)>& body) {
    if (threads <= 0) threads = hardware_threads();
    if (threads > count) threads = static_cast<int>(count);
    if (threads <= 1) {
        for (int64_t i = 0; i < count; ++i) body(i);
        return;
    }
    Loop loop{&body, count, threads - 1};
    Pool::instance().run(loop);
    if (loop.error) std::rethrow_exception(loop.error);
}

Scratch::Scratch() : block_(arena.block), used_(arena.used) {}

Scratch::~Scratch() {
    arena.block = block_;
    arena.used = used_;
}

void* Scratch::bytes(int64_t count) {
    require(count >= 0 && count < (int64_t{1} << 46), "scratch memory: ", count, " bytes asked for");
    const size_t need = (static_cast<size_t>(count) + 63) / 64 * 64;
    while (arena.block < arena.blocks.size() && arena.used + need > arena.blocks[arena.block].size) {
        ++arena.block;
        arena.used = 0;
    }
    if (arena.block == arena.blocks.size()) {
        const size_t size = std::max<size_t>(need, size_t{1} << 20);
        arena.blocks.push_back({static_cast<char*>(::operator new(size, std::align_val_t(64))), size});
        arena.used = 0;
    }
    void* memory = arena.blocks[arena.block].data + arena.used;
    arena.used += need;
    return memory;
}

}  // namespace transfuse::cpu
