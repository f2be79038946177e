// The benchmark chains on the CPU engine: milliseconds, GFLOP/s of the chain as written, as rewritten, and of the
// multiply-adds that are executed; and the share of this machine's measured peak that the last are.
//
//     cpu_rows [--threads N] [--batch-divisor D] [--seconds S] [--describe] [--processor-time] [--no-peak] [row ...]
//     cpu_rows --json-peak [--threads N]       the machine alone
//     cpu_rows --graph < graph.tf              any graph instead of the rows, as it stands
#include "rows.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "clock.h"
#include "cpu/kernels/kernels.h"
#include "cpu/threads/thread_pool.h"
#include "peak.h"
#include "transfuse/transfuse.h"

namespace {

using namespace transfuse;
using namespace transfuse::bench;

// Flops of the products as they are executed: pairs of rows and planes take fewer than the plan counts, and the
// engine's description of pass p says which share of them.
double executed_flops(const Plan& plan, const std::string& description) {
    std::vector<double> share(plan.passes.size(), 1);
    std::istringstream lines(description);
    for (std::string line; std::getline(lines, line);) {
        size_t pass = 0;
        const size_t words = line.find(" of the products");
        if (words == std::string::npos || std::sscanf(line.c_str(), "pass %zu:", &pass) != 1) continue;
        share.at(pass) = std::atof(line.c_str() + line.rfind(' ', words - 1));
    }
    double flops = 0;
    for (size_t p = 0; p < share.size(); ++p) flops += share[p] * plan.passes[p].cost.flops;
    return flops;
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
    bool describe = false, with_peak = true, only_peak = false, given = false;
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
            with_peak = false;
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
    Peak peak{};
    peak.registers = std::numeric_limits<double>::quiet_NaN();
    if (with_peak || only_peak) {
        peak = measure_peak(threads);
        if (only_peak) {
            std::printf(
                "{\"level\": \"%s\", \"multiply_add_gflops\": %.1f, \"product_gflops\": %.1f, \"read_gbytes\": "
                "%.1f}\n",
                cpu::level().name, peak.registers, peak.product, peak.read);
            return 0;
        }
        std::printf("level %s, %d threads: multiply-add peak %.1f, product peak %.1f GFLOP/s, read %.1f GB/s\n",
                    cpu::level().name, threads, peak.registers, peak.product, peak.read);
    }
    std::printf("%-4s %10s %12s %12s %12s %8s %10s\n", "row", "ms", "GF/s written", "GF/s run", "executed", "of peak",
                "GB/s run");
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
        const double executed = executed_flops(ready, engine->describe()) / best * 1e-9;
        std::printf("%-4s %10.3f %12.1f %12.1f %12.1f %7.1f%% %10.1f\n", name.c_str(), best * 1e3, written, run,
                    executed, 100 * executed / peak.registers, run_bytes / best * 1e-9);
        if (describe) std::printf("%s%s\n", print(ready).c_str(), engine->describe().c_str());
        std::fflush(stdout);
    }
    return 0;
}
