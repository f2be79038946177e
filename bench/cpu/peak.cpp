#include "peak.h"

#include <algorithm>
#include <string>
#include <vector>

#include "clock.h"
#include "cpu/kernels/kernels.h"
#include "cpu/threads/thread_pool.h"

namespace transfuse::bench {
namespace {

// Multiply-adds in registers alone: what no program on this machine can exceed. Each of the chains waits for itself
// only, and there are more of them than multiply pipes times their latency.
template <class V>
[[gnu::always_inline]] inline void may_change(V& factor) {  // or the compiler would multiply once
#if defined(__x86_64__)
    asm volatile("" : "+v"(factor));
#elif defined(__aarch64__)
    asm volatile("" : "+w"(factor));
#endif
}
template <class V, int chains>
[[gnu::always_inline]] inline double multiply_add_chains(int64_t loops) {
    V sum[chains], factor = V{} + 0.999f, term = V{} + 0.001f;
#pragma GCC unroll 32
    for (int i = 0; i < chains; ++i) sum[i] = V{} + static_cast<float>(i);
    for (int64_t l = 0; l < loops; ++l) {
        may_change(factor);
#pragma GCC unroll 32
        for (int i = 0; i < chains; ++i) sum[i] += factor * term;
    }
    float kept = 0;
#pragma GCC unroll 32
    for (int i = 0; i < chains; ++i) kept += sum[i][0];
    volatile float sink = kept;
    static_cast<void>(sink);
    return 2.0 * static_cast<double>(loops) * chains * static_cast<double>(sizeof(V) / sizeof(float));
}
typedef float Vector16 __attribute__((vector_size(16)));
double multiply_adds(const std::string&, int64_t loops) { return multiply_add_chains<Vector16, 24>(loops); }
#if defined(__x86_64__)
typedef float Vector32 __attribute__((vector_size(32)));
typedef float Vector64 __attribute__((vector_size(64)));
[[gnu::target("avx2,fma")]] double multiply_adds_v3(int64_t loops) { return multiply_add_chains<Vector32, 12>(loops); }
[[gnu::target("avx512f,prefer-vector-width=512")]] double multiply_adds_v4(int64_t loops) {
    return multiply_add_chains<Vector64, 24>(loops);
}
#endif
double multiply_add_gflops(int threads) {
    const std::string level = cpu::level().name;
    double best = 0;
    for (int repeat = 0; repeat < (by_processor_time ? 3 : 20); ++repeat) {
        std::vector<double> flops(static_cast<size_t>(threads));
        const auto multiply = [&](int64_t i) {
            constexpr int64_t loops = 1000000;
            double& done = flops[static_cast<size_t>(i)];
#if defined(__x86_64__)
            done = level == "x86_64_v4"   ? multiply_adds_v4(loops)
                   : level == "x86_64_v3" ? multiply_adds_v3(loops)
                                          : multiply_adds(level, loops);
#else
            done = multiply_adds(level, loops);
#endif
        };
        const double seconds = seconds_of(threads, [&] { cpu::parallel_for(threads, threads, multiply); });
        double all = 0;
        for (double f : flops) all += f;
        best = std::max(best, all / seconds * 1e-9);
    }
    return best;
}

// The product kernel from the first-level cache, as many threads as the run uses.
double product_gflops(int threads) {
    const auto& k = cpu::kernels<float>();
    const int64_t terms = 64, rows = k.panel_rows, spots_count = 3, loops = 40000;
    double best = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {
        const auto multiply = [&](int64_t) {
            std::vector<float> panel(static_cast<size_t>((terms + 2) * rows), 0.5f), patch(256, 0.25f),
                out(static_cast<size_t>(rows * 64));
            std::vector<int32_t> offsets(terms + 4, 0);
            std::vector<cpu::Spot> spots;
            for (int32_t s = 0; s < spots_count; ++s)
                spots.push_back({s * static_cast<int32_t>(k.lanes), s * static_cast<int32_t>(k.lanes)});
            for (int64_t i = 0; i < loops; ++i)
                k.product({panel.data(), offsets.data(), terms, rows, patch.data(), spots.data(), spots_count,
                           out.data(), 64, nullptr, false});
        };
        const double seconds = seconds_of(threads, [&] { cpu::parallel_for(threads, threads, multiply); });
        const double flops = 2.0 * static_cast<double>(terms * rows * spots_count * k.lanes * loops) * threads;
        best = std::max(best, flops / seconds * 1e-9);
    }
    return best;
}

double read_gbytes(int threads) {
    std::vector<float> data(size_t{1} << 26, 1.f);
    double best = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<double> sums(1024);
        const auto read = [&](int64_t i) {
            sums[static_cast<size_t>(i)] =
                cpu::kernels<float>().sum_memory(data.data() + (i << 16), cpu::Storage::f32, 1 << 16);
        };
        const double seconds = seconds_of(threads, [&] { cpu::parallel_for(threads, 1024, read); });
        best = std::max(best, static_cast<double>(data.size()) * 4 / seconds * 1e-9);
    }
    return best;
}

}  // namespace

Peak measure_peak(int threads) { return {multiply_add_gflops(threads), product_gflops(threads), read_gbytes(threads)}; }

}  // namespace transfuse::bench
