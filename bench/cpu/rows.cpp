// The benchmark chains on the CPU engine: milliseconds, GFLOP/s of the chain as written and as rewritten, and the share
// of this machine's measured peak that the rewritten work reaches.
//
//     cpu_rows [--threads N] [--batch-divisor D] [--seconds S] [--describe] [--processor-time] [--no-peak] [row ...]
//     cpu_rows --json-peak [--threads N]       the machine alone
//     cpu_rows --graph < graph.tf              any graph instead of the rows, as it stands
#include "rows.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/thread_pool.h"
#include "transfuse/transfuse.h"

namespace {

using namespace transfuse;
using Clock = std::chrono::steady_clock;

// Processor time of all threads: on a machine that others use as well, it says more than the clock on the wall.
double processor_seconds() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
bool by_processor_time = false;
double now(int threads) {
    if (by_processor_time) return processor_seconds() / threads;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
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

struct Tensors {
    std::vector<std::vector<float>> memory;
    std::vector<TensorView> views;
    Tensors(const Graph& graph, const std::vector<ValueId>& ids) {
        for (ValueId id : ids) {
            const int64_t count = numel(graph[id].type.shape), block = 1 << 16;
            std::vector<float>& values = memory.emplace_back(static_cast<size_t>(count));
            cpu::parallel_for(0, (count + block - 1) / block, [&](int64_t b) {
                auto state = static_cast<uint32_t>(12345 + b);
                for (int64_t i = b * block; i < std::min(count, (b + 1) * block); ++i)
                    values[static_cast<size_t>(i)] =
                        static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
            });
        }
        for (size_t i = 0; i < ids.size(); ++i) {
            const Type& type = graph[ids[i]].type;
            views.push_back({memory[i].data(), type.dtype, type.shape, contiguous_strides(type.shape)});
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    int threads = cpu::hardware_threads();
    int64_t divisor = 8;
    bool describe = false, measure_peak = true, only_peak = false, given = false;
    double seconds = 1;
    std::vector<std::string> wanted;
    for (int i = 1; i < argc; ++i) {
        const std::string arg = argv[i];
        if (arg == "--threads" && i + 1 < argc)
            threads = std::atoi(argv[++i]);
        else if (arg == "--batch-divisor" && i + 1 < argc)
            divisor = std::atoll(argv[++i]);
        else if (arg == "--seconds" && i + 1 < argc)
            seconds = std::atof(argv[++i]);
        else if (arg == "--no-peak")
            measure_peak = false;
        else if (arg == "--json-peak")
            only_peak = true;
        else if (arg == "--graph")
            given = true;
        else if (arg == "--describe")
            describe = true;
        else if (arg == "--processor-time")
            by_processor_time = true;
        else
            wanted.push_back(arg);
    }
    double peak = std::numeric_limits<double>::quiet_NaN();
    if (measure_peak || only_peak) {
        const double registers = multiply_add_gflops(threads), read = read_gbytes(threads);
        peak = product_gflops(threads);
        if (only_peak) {
            std::printf(
                "{\"level\": \"%s\", \"multiply_add_gflops\": %.1f, \"product_gflops\": %.1f, \"read_gbytes\": "
                "%.1f}\n",
                cpu::level().name, registers, peak, read);
            return 0;
        }
        std::printf("level %s, %d threads: multiply-add peak %.1f, product peak %.1f GFLOP/s, read %.1f GB/s\n",
                    cpu::level().name, threads, registers, peak, read);
    }
    std::printf("%-4s %10s %12s %12s %8s %10s\n", "row", "ms", "GF/s written", "GF/s run", "of peak", "GB/s run");
    std::vector<std::pair<std::string, Graph>> graphs;
    if (given)
        graphs.emplace_back("graph", parse(std::string(std::istreambuf_iterator<char>(std::cin), {})));
    else
        for (const auto& [name, text] : tests::rows())
            if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end())
                graphs.emplace_back(name, tests::row(name));
    if (given) divisor = 1;
    for (auto& [name, graph] : graphs) {
        std::vector<Type> types;
        for (ValueId leaf : graph.leaves()) {
            types.push_back(graph[leaf].type);
            if (graph[leaf].op == Op::input)
                types.back().shape[0] = std::max<int64_t>(1, types.back().shape[0] / divisor);
        }
        graph = graph.with_leaf_types(types);
        const Plan ready = plan(rewrite(graph).rewritten, Machine::cpu(threads));
        const auto engine = compile_cpu(ready);
        Tensors leaves(ready.graph, ready.graph.leaves()), outputs(ready.graph, ready.graph.outputs());
        std::unique_ptr<char, void (*)(char*)> workspace(
            static_cast<char*>(std::aligned_alloc(256, (engine->workspace_bytes() + 511) / 256 * 256)),
            [](char* p) { std::free(p); });
        RunContext context;
        context.threads = threads;
        context.workspace = workspace.get();
        engine->run(leaves.views, outputs.views, context);
        double best = 1e30, spent = 0;
        for (int repeat = 0; repeat < 1000 && (repeat < 3 || spent < seconds); ++repeat) {
            const double start = now(threads);
            best = std::min(best, seconds_of(threads, [&] { engine->run(leaves.views, outputs.views, context); }));
            spent += now(threads) - start;
        }
        double run_flops = 0, run_bytes = 0;
        for (const Pass& pass : ready.passes) {
            run_flops += pass.cost.flops;
            run_bytes += pass.cost.bytes;
        }
        const double written = cost(graph).flops / best * 1e-9, run = run_flops / best * 1e-9;
        std::printf("%-4s %10.3f %12.1f %12.1f %7.1f%% %10.1f\n", name.c_str(), best * 1e3, written, run,
                    100 * run / peak, run_bytes / best * 1e-9);
        if (describe) std::printf("%s%s\n", print(ready).c_str(), engine->describe().c_str());
        std::fflush(stdout);
    }
    return 0;
}
