// What the tensor-core kernels ask of the machine (src/cuda/device/machine/ptx.cuh, portable.cuh, hopper.cuh), on the CPU:
// mbarriers, copies, ldmatrix, mma.sync, wgmma and shuffles. Threads are fibers; who has to wait lets the others run.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "tensor_map.h"

#define __constant__
#define __align__(bytes) alignas(bytes)
#define __stcs(to, value) (*(to) = (value))

struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct double2 {
    double x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }
static inline unsigned __float_as_uint(float f) { return as_bits(f); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t both = a | static_cast<uint64_t>(b) << 32;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(both >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}

#pragma GCC push_options
#pragma GCC optimize("O2")
// Shared memory: addresses count from the beginning of the dynamic part, which ends where nothing may be read.
static unsigned char tf_host_memory[(256 + 3 * 64) * 1024];
static unsigned char* tf_host_shared = tf_host_memory;
static size_t tf_host_shared_bytes = 0;  // of the launch
static inline unsigned char* tf_share(size_t bytes) {
    constexpr uintptr_t page = 64 * 1024;  // or a part of it
    auto* const end =
        reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(tf_host_memory) / page + 1) * page) + 256 * 1024;
    static const bool guarded = mprotect(end, page, PROT_NONE) == 0;
    if (!guarded || bytes > 256 * 1024) std::abort();
    return tf_host_shared = end - (bytes + 1023) / 1024 * 1024;
}
static inline unsigned shared_address(const void* p) {
    return static_cast<unsigned>(static_cast<const unsigned char*>(p) - tf_host_shared);
}
static inline unsigned char* at_address(unsigned a) { return tf_host_shared + static_cast<int>(a); }
static inline void shared_put(unsigned to, unsigned word) { std::memcpy(at_address(to), &word, 4); }
static inline unsigned shared_word(unsigned from) {
    unsigned word;
    std::memcpy(&word, at_address(from), 4);
    return word;
}

struct HostBarrier {
    unsigned short expected, pending;
    unsigned phase;
};
static inline HostBarrier& barrier_at(unsigned b) { return *reinterpret_cast<HostBarrier*>(at_address(b)); }
static inline void barrier_init(unsigned b, int arrivals) {
    barrier_at(b) = {static_cast<unsigned short>(arrivals), static_cast<unsigned short>(arrivals), 0};
}
static inline bool barrier_done(unsigned b, int parity) {
    if (static_cast<int>(barrier_at(b).phase & 1) != parity) return true;
    yield();
    return false;
}
static inline void barrier_wait(unsigned b, int parity) {
    while (!barrier_done(b, parity)) {
    }
}
static inline void rest() {}
static inline void barrier_arrive(unsigned b) {
    HostBarrier& barrier = barrier_at(b);
    if (--barrier.pending == 0) barrier.pending = barrier.expected, ++barrier.phase;
}

// All `count` threads that name the same meeting wait for the last one, who does `work` for them.
struct Meeting {
    int here = 0;
    unsigned turn = 0;
};
template <class Work>
static inline void meet(Meeting& meeting, int count, const Work& work) {
    const unsigned turn = meeting.turn;
    if (++meeting.here == count) {
        work();
        meeting.here = 0, ++meeting.turn;
        return;
    }
    while (meeting.turn == turn) yield();
}
static inline void barrier_named(int id, int threads) {
    static Meeting named[16];
    meet(named[id], threads, [] {});
}

// True for all `threads` of barrier `id` where all of them bring true.
static inline bool agree(int id, int threads, bool mine) {
    struct Vote {
        Meeting meeting;
        int for_it;
        bool result;
    };
    static Vote votes[16];
    votes[id].for_it += mine;
    meet(votes[id].meeting, threads, [&] { votes[id].result = votes[id].for_it == threads, votes[id].for_it = 0; });
    return votes[id].result;
}

// The device would fault here, and not say why.
static inline void fault(const char* why) {
    std::fprintf(stderr, "a fault of the device: %s\n", why);
    std::abort();
}

static inline void copy_bytes(unsigned to, const void* from, bool inside, size_t bytes) {
    const size_t whole = bytes < 16 ? bytes : 16;
    if (to % whole != 0 || bytes % whole != 0) fault("a copy to no multiple of its bytes in shared memory");
    if (inside && reinterpret_cast<uintptr_t>(from) % whole != 0) fault("a copy from no multiple of its bytes");
    if (inside)
        std::memcpy(at_address(to), from, bytes);
    else
        std::memset(at_address(to), 0, bytes);
}
static inline void copy_4(unsigned to, const void* from, bool inside) { copy_bytes(to, from, inside, 4); }
static inline void copy_8(unsigned to, const void* from, bool inside) { copy_bytes(to, from, inside, 8); }
static inline void copy_16(unsigned to, const void* from, bool inside) { copy_bytes(to, from, inside, 16); }

// Boxes: outside the tensor there are zeros, and nothing is stored.
#define __grid_constant__
static inline unsigned round_tf32(float v);
static inline unsigned mixed(const HostBoxes& map, unsigned at) {
    return at ^ ((at >> 7 & ((1u << map.swizzle) - 1)) << 4);
}
static inline void copy_host_box(unsigned to, const HostBoxes& map, BoxPlace from) {
    if (const char* why = box_fault(map, to, from)) fault(why);
    each_row(map, from, [&](int number, int begin, int end, long long offset) {
        for (int i = 0; i < map.box[0] && map.swizzle != 0; ++i) {
            unsigned char* const element = at_address(mixed(map, to + (number + i) * map.element));
            if (begin <= i && i < end)
                std::memcpy(element, map.base + offset + i * map.element, map.element);
            else
                std::memset(element, 0, map.element);
        }
        if (map.swizzle != 0) return;
        unsigned char* const row = at_address(to) + number * map.element;
        std::memset(row, 0, map.box[0] * map.element);
        if (begin < end)
            std::memcpy(row + begin * map.element, map.base + offset + begin * map.element,
                        (end - begin) * map.element);
        for (int i = begin; i < end && map.rounds; ++i) {
            float v;
            std::memcpy(&v, row + i * 4, 4);
            const unsigned bits = round_tf32(v);
            std::memcpy(row + i * 4, &bits, 4);
        }
    });
}
static inline void store_host_box(const HostBoxes& map, unsigned from, BoxPlace to) {
    if (const char* why = box_fault(map, from, to)) fault(why);
    each_row(map, to, [&](int number, int begin, int end, long long offset) {
        for (int i = begin; i < end; ++i) {
            const unsigned at = mixed(map, from + (number + i) * map.element);
            std::memcpy(const_cast<char*>(map.base) + offset + i * map.element, at_address(at), map.element);
        }
    });
}
static inline void copy_arrive(unsigned b) { barrier_arrive(b); }
static inline void copy_commit() {}
template <int PENDING>
static inline void copy_wait() {}
static inline unsigned round_tf32(float v) { return (as_bits(v) + 0x1000u) & 0xffffe000u; }

// What the lanes of a warp do together: every lane leaves its arguments, the last one computes everybody's results.
template <class Arguments, class Work>
static inline void together(unsigned mask, const Arguments& mine, const Work& work) {
    static Meeting meetings[32][32];  // [warp][first lane of the mask]
    static Arguments all[32][32];
    const int warp = threadIdx.x / 32;
    all[warp][threadIdx.x % 32] = mine;
    meet(meetings[warp][__builtin_ctz(mask)], __builtin_popcount(mask), [&] { work(all[warp]); });
}
template <class T>
static inline T exchange_lanes(unsigned mask, T v, int from) {
    struct Exchange {
        T v, *result;
        int from;
    };
    T result = v;
    together(mask, Exchange{v, &result, from}, [&](const Exchange* all) {
        for (int lane = 0; lane < 32; ++lane)
            if (mask >> lane & 1) *all[lane].result = all[all[lane].from].v;
    });
    return result;
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int k) {
    return exchange_lanes(mask, v, (threadIdx.x % 32) ^ k);
}
template <class T>
static inline T __shfl_sync(unsigned mask, T v, int lane) {
    return exchange_lanes(mask, v, lane);
}
static inline void __syncwarp() { __shfl_sync(~0u, 0, 0); }
static inline int __any_sync(unsigned mask, int v) {
    for (int k = 1; k < 32; k *= 2) v |= __shfl_xor_sync(mask, v, k);
    return v;
}

static inline int __reduce_add_sync(unsigned mask, int v) {
    int sum = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) sum += __shfl_sync(mask, v, lane);
    return sum;
}

static inline void load_matrices(unsigned (&m)[4], unsigned row) {
    struct Load {
        unsigned row, *m;
    };
    together(~0u, Load{row, m}, [](const Load* all) {
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i)
                std::memcpy(all[lane].m + i, at_address(all[i * 8 + lane / 4].row) + lane % 4 * 4, 4);
    });
}
static inline void store_matrices(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
    struct Store {
        unsigned to, word[4];
    };
    together(~0u, Store{to, {a, b, c, d}}, [](const Store* all) {
        for (int matrix = 0; matrix < 4; ++matrix)
            for (int lane = 0; lane < 32; ++lane)
                for (int e = 0; e < 2; ++e) {
                    const auto value = static_cast<unsigned short>(all[lane].word[matrix] >> 16 * e);
                    std::memcpy(at_address(all[matrix * 8 + lane % 4 * 2 + e].to) + lane / 4 * 2, &value, 2);
                }
    });
}
static inline void load_transposed(unsigned (&m)[4], unsigned from) {
    struct Load {
        unsigned from, *m;
    };
    together(~0u, Load{from, m}, [](const Load* all) {
        for (int lane = 0; lane < 32; ++lane)
            for (int matrix = 0; matrix < 4; ++matrix) {
                unsigned short value[2];
                for (int e = 0; e < 2; ++e)
                    std::memcpy(value + e, at_address(all[matrix * 8 + lane % 4 * 2 + e].from) + lane / 4 * 2, 2);
                all[lane].m[matrix] = value[0] | static_cast<unsigned>(value[1]) << 16;
            }
    });
}
static inline double load_double(unsigned at) {
    double v;
    std::memcpy(&v, at_address(at), 8);
    return v;
}
// Most of a test's time goes into products. What is called in them is defined beside them.
// d[16][8] += a[16][K] · b[K][8] with K = 4·words.size/32 bytes: `word(u, i)` is element i of a 32-bit word.
template <int PER_WORD, class Word>
static inline void host_mma(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1, const Word& word) {
    struct Factors {
        float* d;
        unsigned a[4], b[2];
    };
    together(~0u, Factors{d, {a[0], a[1], a[2], a[3]}, {b0, b1}}, [&](const Factors* all) {
        constexpr int depth = 8 * PER_WORD;
        float left[16][depth], right[8][depth];
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i)
                for (int e = 0; e < PER_WORD; ++e) {
                    const int k = (lane % 4 + i / 2 * 4) * PER_WORD + e;
                    left[lane / 4 + i % 2 * 8][k] = word(all[lane].a[i], e);
                    if (i % 2 == 0) right[lane / 4][k] = word(all[lane].b[i / 2], e);
                }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) {
                const float *row = left[lane / 4 + i / 2 * 8], *column = right[2 * (lane % 4) + i % 2];
                for (int k = 0; k < depth; ++k) all[lane].d[i] += row[k] * column[k];
            }
    });
}
#pragma GCC pop_options
static inline void mma_tf32(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    host_mma<1>(d, a, b0, b1, [](unsigned u, int) { return __uint_as_float(u); });
}
static inline void mma_f16(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    host_mma<2>(d, a, b0, b1,
                [](unsigned u, int e) { return tf_host_half_to_float(static_cast<unsigned short>(u >> 16 * e)); });
}
static inline void mma_bf16(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    host_mma<2>(d, a, b0, b1, [](unsigned u, int e) { return __uint_as_float(u >> 16 * e << 16); });
}
static inline void mma_f64(double* d, double a, double b) {
    struct Factors {
        double *d, a, b;
    };
    together(~0u, Factors{d, a, b}, [](const Factors* all) {
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 2; ++i)
                for (int k = 0; k < 4; ++k)
                    all[lane].d[i] += all[lane / 4 * 4 + k].a * all[(2 * (lane % 4) + i) * 4 + k].b;
    });
}

// One thread's part of a wgmma: d[64][2N] += a[64][K] · b[K][2N], both operands where their descriptors
// (device/machine/ptx.cuh) say: K in two halves of 16 bytes, rows in blocks of eight. As on the device, a step's terms and what
// was there are cut towards zero, two bits below the last place of the largest of them, and so is their sum at its own
// last place.
#pragma GCC push_options
#pragma GCC optimize("O2")
static inline double power_of_two(double v, int below) {  // the largest in |v|, divided by 2^below; v is no subnormal
    uint64_t bits;
    std::memcpy(&bits, &v, 8);
    bits = (bits & 0x7ff0000000000000ull) - (static_cast<uint64_t>(below) << 52);
    std::memcpy(&v, &bits, 8);
    return v;
}
template <int TERMS>
static inline float cut_sum(const double (&term)[TERMS]) {
    double largest = 0;
    for (double t : term) largest = std::fabs(t) > largest ? std::fabs(t) : largest;
    if (!(largest > 1e-60 && largest < 1e60)) {  // zeros, infinities, NaN
        double sum = 0;
        for (double t : term) sum += t;
        return static_cast<float>(sum);
    }
    const double unit = power_of_two(largest, 25), scale = 1 / unit;
    int64_t sum = 0;
    for (double t : term) sum += static_cast<int64_t>(t * scale);
    const double whole = static_cast<double>(sum) * unit;
    if (sum == 0) return 0;
    const double last = power_of_two(whole, 23);
    return static_cast<float>(static_cast<double>(static_cast<int64_t>(whole / last)) * last);
}
template <class E, int N, class Number>
static void multiply_group(float (&d)[N], unsigned long long a, unsigned long long b, int accumulate,
                           const Number& number) {
    constexpr int half = 16 / static_cast<int>(sizeof(E)), depth = 2 * half;
    unsigned char* const shared = tf_host_shared;
    auto read = [&](double(&to)[depth], unsigned long long descriptor, int row) {
        auto field = [&](int bit) { return static_cast<unsigned>(descriptor >> bit & 0x3fff) << 4; };
        for (int k = 0; k < depth; ++k) {
            const unsigned at = field(0) + static_cast<unsigned>(k / half) * field(16) +
                                static_cast<unsigned>(row / 8) * field(32) + static_cast<unsigned>(row % 8) * 16;
            E value;
            std::memcpy(&value, shared + static_cast<int>(at) + static_cast<size_t>(k % half) * sizeof(E), sizeof(E));
            to[k] = static_cast<double>(number(value));
        }
    };
    const int t = threadIdx.x % 128, first = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    double rows[2][depth], pixels[2][depth], terms[depth + 1];
    read(rows[0], a, first), read(rows[1], a, first + 8);
    for (int i = 0; i < N; ++i) {
        const int pixel = i / 4 * 8 + column;
        if (i % 4 == 0) read(pixels[0], b, pixel), read(pixels[1], b, pixel + 1);
        for (int k = 0; k < depth; ++k) terms[k] = rows[i / 2 % 2][k] * pixels[i % 2][k];
        terms[depth] = accumulate ? static_cast<double>(d[i]) : 0.;
        d[i] = cut_sum(terms);
    }
}
// The same with a warp's rows of the left factor in registers, as mma.sync has them.
template <int N>
static void multiply_rows(float (&d)[N], const unsigned (&a)[4], unsigned long long b) {
    struct Part {
        float* d;
        unsigned a[4];
        unsigned long long b;
    };
    together(~0u, Part{d, {a[0], a[1], a[2], a[3]}, b}, [](const Part* all) {
        auto field = [&](int bit) { return static_cast<unsigned>(all[0].b >> bit & 0x3fff) << 4; };
        double left[16][8], right[2 * N][8], terms[9];
        for (int k = 0; k < 8; ++k) {
            for (int row = 0; row < 16; ++row)
                left[row][k] = static_cast<double>(__uint_as_float(all[row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2]));
            for (int column = 0; column < 2 * N; ++column) {
                float value;
                std::memcpy(
                    &value,
                    at_address(field(0) + static_cast<unsigned>(k / 4) * field(16) +
                               static_cast<unsigned>(column / 8) * field(32) + static_cast<unsigned>(column % 8) * 16) +
                        k % 4 * 4,
                    4);
                right[column][k] = static_cast<double>(value);
            }
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < N; ++i) {
                const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                for (int k = 0; k < 8; ++k) terms[k] = left[row][k] * right[column][k];
                terms[8] = static_cast<double>(all[lane].d[i]);
                all[lane].d[i] = cut_sum(terms);
            }
    });
}
#pragma GCC pop_options
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
