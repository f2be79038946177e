// What tells whether memory holds what it held: 128 bits of it, as fast as it can be read.
#pragma once

#include "cpu/level/simd.h"

namespace transfuse::cpu::TRANSFUSE_LEVEL {

typedef uint64_t u64v __attribute__((vector_size(vector_bytes)));
typedef uint64_t u64u __attribute__((vector_size(vector_bytes), aligned(1), may_alias));

// Several chains of multiplications side by side, each as wide as a vector. A step is one-to-one in the state and in
// what is read, so a single change always shows; the rotation brings what differs in the highest bits down to where the
// next product spreads it again, so that changes do not cancel one another.
inline u64v rotated(u64v x) { return x << 29 | x >> 35; }

inline void content(uint64_t* out, const void* memory, int64_t bytes) {
    constexpr int chains = 8, step = chains * vector_bytes, words = step / 8, far = 1024;
    constexpr uint64_t factors[2] = {0x9e3779b97f4a7c15, 0xd6e8feb86659fd93};
    const auto* data = static_cast<const char*>(memory);
    u64v state[chains];
    for (int i = 0; i < chains; ++i)
        for (int j = 0; j < vector_bytes / 8; ++j) state[i][j] = static_cast<uint64_t>(i * vector_bytes / 8 + j + 1);
    const auto take = [&](const char* from) {
#pragma GCC unroll 8
        for (int i = 0; i < chains; ++i)
            state[i] = rotated(state[i] ^ *reinterpret_cast<const u64u*>(from + i * vector_bytes)) * factors[0];
    };
    for (; bytes >= step; bytes -= step, data += step) {
        for (int i = 0; i < step; i += 64) __builtin_prefetch(data + far + i);
        take(data);
    }
    if (bytes > 0) {
        char rest[step] = {};
        memcpy(rest, data, static_cast<size_t>(bytes));
        take(rest);
    }
    uint64_t all[words];
    memcpy(all, state, sizeof all);
    const auto turned = [](uint64_t x) { return x << 29 | x >> 35; };
    out[0] = 17, out[1] = 23;
    for (uint64_t s : all)
        for (int i = 0; i < 2; ++i) out[i] = turned(out[i] ^ (s + (s >> 31))) * factors[i];
}

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
