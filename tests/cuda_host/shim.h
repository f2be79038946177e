// Just enough CUDA for generated kernels to run on the CPU: blocks one after another, the threads of a block as fibers
// that meet at barriers. Included by the translation unit the tests write; not part of the library.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __restrict__

struct Dim {
    int x = 0, y = 0, z = 0;
};
static Dim blockIdx, threadIdx, gridDim, blockDim;
using std::max;
using std::min;

// Conversions are most of what products do: with the optimiser.
#pragma GCC push_options
#pragma GCC optimize("O2")
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
static inline float __uint_as_float(unsigned u) {
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}
static inline float __int_as_float(int u) {
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}
static inline double __longlong_as_double(long long u) {
    double f;
    std::memcpy(&f, &u, 8);
    return f;
}
static inline unsigned as_bits(float f) {
    unsigned u;
    std::memcpy(&u, &f, 4);
    return u;
}
static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// Round to nearest even through the exponent of the result.
static inline unsigned short tf_host_float_to_half(float f) {
    const unsigned u = as_bits(f), sign = (u >> 16) & 0x8000u;
    const float a = std::fabs(f);
    if (a != a) return static_cast<unsigned short>(sign | 0x7e00u);
    if (a >= 65520.0f) return static_cast<unsigned short>(sign | 0x7c00u);
    if (a < 6.103515625e-05f)
        return static_cast<unsigned short>(sign | static_cast<unsigned>(std::nearbyint(a * 16777216.0f)));
    unsigned v = as_bits(a);
    v += 0xfffu + ((v >> 13) & 1u);
    return static_cast<unsigned short>(sign | ((v >> 13) - (112u << 10)));
}
static inline float tf_host_half_to_float(unsigned short h) {
    const unsigned sign = (h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 1023u;
    if (e == 31) return __uint_as_float(sign | 0x7f800000u | (m << 13));
    if (e == 0) {
        const float f = static_cast<float>(m) / 16777216.0f;
        return sign ? -f : f;
    }
    return __uint_as_float(sign | ((e + 112u) << 23) | (m << 13));
}
static inline unsigned short tf_host_float_to_bfloat(float f) {
    unsigned u = as_bits(f);
    if (f != f) return 0x7fc0;
    u += 0x7fffu + ((u >> 16) & 1u);
    return static_cast<unsigned short>(u >> 16);
}

#pragma GCC pop_options

static inline void tf_host_mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]);

// Fibers, barriers and exchanges, too: threads that wait are most of what else happens.
#pragma GCC push_options
#pragma GCC optimize("O2")
struct Fiber {
    ucontext_t context;  // where its stack begins
    jmp_buf first;       // where every thread that it is begins
    jmp_buf place;       // where it goes on
    bool has_stack = false, begun = false;
    std::unique_ptr<char[]> stack;
    Dim block, thread;
    enum { ready, at_block, at_grid, done } state = ready;
};
static jmp_buf scheduler;
static Fiber* current = nullptr;
static std::function<void()> entry;

// Lets the other threads run. (Jumps, where swapcontext would ask the kernel about signals every time.)
static inline void yield() {
    if (_setjmp(current->place) == 0) _longjmp(scheduler, 1);
}
static inline void wait_at(int state) {
    current->state = static_cast<decltype(current->state)>(state);
    yield();
}
static inline void __syncthreads() { wait_at(Fiber::at_block); }
static inline void __syncwarp();
// All threads of a block take part in every exchange.
static double exchanged[1024];
static inline double __shfl_down_sync(unsigned, double v, int d, int width = 32) {
    const int self = threadIdx.x;
    exchanged[self] = v;
    __syncthreads();
    const double other = self % width + d < width ? exchanged[self + d] : v;
    __syncthreads();
    return other;
}
static inline void tf_host_grid_barrier() { wait_at(Fiber::at_grid); }
// The threads of a warp wait for each other, whatever other warps do.
static inline void tf_host_meet() {
    static int64_t arrived[32];
    int64_t& count = arrived[threadIdx.x / 32];
    const int64_t all = count / 32 * 32 + 32;
    for (++count; count < all;) yield();
}
// The m16n8k8 product of a warp, from everybody's fragments.
static inline void tf_host_mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    static unsigned all_a[1024][4], all_b[1024][2];
    const int self = threadIdx.x, warp = self / 32 * 32, g = self % 32 / 4, t = self % 4;
    for (int i = 0; i < 4; ++i) all_a[self][i] = a[i];
    for (int i = 0; i < 2; ++i) all_b[self][i] = b[i];
    tf_host_meet();
    for (int i = 0; i < 4; ++i) {
        const int row = g + i / 2 * 8, column = 2 * t + i % 2;
        for (int k = 0; k < 8; ++k)
            c[i] += __uint_as_float(all_a[warp + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]) *
                    __uint_as_float(all_b[warp + column * 4 + k % 4][k / 4]);
    }
    tf_host_meet();
}
#pragma GCC pop_options
// What nobody has written is no number, not what a thread before left there.
static void poison() {
    unsigned char stack[4096];
    std::memset(stack, 0xff, sizeof stack);
}
static void trampoline() {
    _setjmp(current->first);
    poison();
    entry();
    current->state = Fiber::done;
    _longjmp(scheduler, 1);
}
#pragma GCC push_options
#pragma GCC optimize("O2")
// A fiber enters its stack once: the kernel is asked about signals there, which takes longer than most threads.
static inline void resume(Fiber& fiber) {
    current = &fiber;
    blockIdx = fiber.block, threadIdx = fiber.thread;
    fiber.state = Fiber::ready;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    if (fiber.has_stack) _longjmp(fiber.first, 1);
    fiber.has_stack = true;
    setcontext(&fiber.context);
}

static inline void run_grid(int blocks, int threads, bool barriers, bool whole_grid, std::function<void()> kernel) {
    gridDim = {blocks, 1, 1}, blockDim = {threads, 1, 1};
    if (!barriers) {
        for (int b = 0; b < blocks; ++b)
            for (int t = 0; t < threads; ++t) blockIdx = {b, 0, 0}, threadIdx = {t, 0, 0}, kernel();
        return;
    }
    entry = std::move(kernel);
    constexpr size_t stack = 256 * 1024;
    static std::vector<std::unique_ptr<Fiber>> pool;
    static std::vector<Fiber*> fibers;
    const int at_once = whole_grid ? blocks : 1;
    for (int first = 0; first < blocks; first += at_once) {
        const int count = std::min(at_once, blocks - first) * threads;
        while (static_cast<int>(pool.size()) < count) {
            pool.push_back(std::make_unique<Fiber>());
            Fiber& f = *pool.back();
            f.stack.reset(new char[stack]);
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = f.stack.get();
            f.context.uc_stack.ss_size = stack;
            f.context.uc_link = nullptr;
            makecontext(&f.context, trampoline, 0);
            fibers.push_back(&f);
        }
        Fiber* const* const all = fibers.data();
        for (int i = 0; i < count; ++i) {
            Fiber& f = *all[i];
            f.block = {first + i / threads, 0, 0}, f.thread = {i % threads, 0, 0};
            f.state = Fiber::ready, f.begun = false;
        }
        // A block runs until all its threads wait at the grid's barrier or are done; then the next one.
        for (bool alive = true; alive;) {
            alive = false;
            for (int b = 0; b < count / threads; ++b)
                for (bool moving = true; moving;) {
                    moving = false;
                    for (int t = 0; t < threads; ++t) {
                        Fiber& f = *all[b * threads + t];
                        if (f.state == Fiber::ready) resume(f);
                        if (f.state == Fiber::ready) moving = true;  // it only let others run
                    }
                    if (moving) continue;
                    for (int t = 0; t < threads; ++t) {
                        Fiber& f = *all[b * threads + t];
                        if (f.state == Fiber::at_block) f.state = Fiber::ready, moving = true;
                    }
                }
            for (int i = 0; i < count; ++i) {
                Fiber& f = *all[i];
                if (f.state == Fiber::at_grid) f.state = Fiber::ready, alive = true;
            }
        }
    }
}
#pragma GCC pop_options

#include "machine.h"
