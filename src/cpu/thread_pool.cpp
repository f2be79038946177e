#include "cpu/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

struct Loop {
    const std::function<void(int64_t)>* body;
    int64_t count;
    int helpers_wanted;
    std::atomic<int64_t> next{0};
    int helpers_inside = 0;  // guarded by the pool's mutex
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

class Pool {
public:
    // Never destroyed: helpers may still be waiting when static objects of other libraries go.
    static Pool& instance() {
        static Pool* pool = new Pool;
        return *pool;
    }

    void run(Loop& loop) {
        const int helpers = loop.helpers_wanted;  // once the loop is listed, helpers count this down
        {
            std::lock_guard lock(mutex_);
            while (static_cast<int>(threads_) < helpers) {
                std::thread([this] { help(); }).detach();
                ++threads_;
            }
            loops_.push_back(&loop);
            open_.store(static_cast<int>(loops_.size()), std::memory_order_relaxed);
        }
        if (helpers == 1)
            wake_.notify_one();
        else
            wake_.notify_all();
        loop.work();
        std::unique_lock lock(mutex_);
        loops_.remove(&loop);
        open_.store(static_cast<int>(loops_.size()), std::memory_order_relaxed);
        // Only helpers that did enter are waited for: a pool without living helpers (after fork) still finishes.
        done_.wait(lock, [&] { return loop.helpers_inside == 0; });
    }

private:
    Loop* find() {
        for (Loop* loop : loops_)
            if (loop->helpers_wanted > 0 && loop->has_work()) return loop;
        return nullptr;
    }

    void help() {
        std::unique_lock lock(mutex_);
        for (;;) {
            Loop* loop = find();
            if (!loop) {
                // Loops of one plan follow each other within microseconds: look a little while before sleeping.
                lock.unlock();
                for (int spin = 0; spin < 2000 && open_.load(std::memory_order_relaxed) == 0; ++spin) pause();
                lock.lock();
                if (!(loop = find())) {
                    wake_.wait(lock, [&] { return (loop = find()) != nullptr; });
                }
            }
            --loop->helpers_wanted;
            ++loop->helpers_inside;
            lock.unlock();
            loop->work();
            lock.lock();
            if (--loop->helpers_inside == 0) done_.notify_all();
        }
    }

    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("isb" ::: "memory");
#endif
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::list<Loop*> loops_;
    std::atomic<int> open_{0};
    size_t threads_ = 0;
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
