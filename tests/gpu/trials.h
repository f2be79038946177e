// What is tried on a GPU: random graphs and their gradients, the benchmark's chains, one graph for each kind of kernel.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "gpu/session.h"
#include "gpu/workers.h"
#include "random_graphs.h"
#include "rows.h"

namespace transfuse::cuda {

// What the command line fixes; the rest is drawn.
struct Wanted {
    std::optional<DType> dtype;
    Setting setting;
    unsigned within = 0;  // seconds after which no graph is begun; 0: all are
};

struct Drawn {
    RandomGraphOptions options;
    Setting setting;
};

constexpr uint64_t ample_from = 1'000'000;  // seeds from here on draw graphs of RandomGraphOptions::ample

inline Drawn draw(uint64_t seed, const Wanted& wanted) {
    Random random(seed ^ 0x5e771465);
    Drawn drawn;
    drawn.setting = wanted.setting;
    drawn.options.dtype = DType::f32;
    if (wanted.dtype) {
        drawn.options.dtype = *wanted.dtype;
    } else {
        const double sort = random.uniform();
        drawn.options.dtype = sort < 0.5    ? DType::f32
                              : sort < 0.7  ? DType::f16
                              : sort < 0.85 ? DType::bf16
                                            : DType::f64;
        drawn.setting.precision = random.chance(0.5) ? Fp32Precision::tf32 : Fp32Precision::strict;
        drawn.setting.last = random.chance(0.4);
        drawn.setting.unaligned = random.chance(0.1);
        drawn.setting.freeze = random.chance(0.1);
    }
    // Small tensors for the borders, wide ones for tiles of channels, large ones for tiles of pixels.
    const double size = random.uniform();
    drawn.options.ample = seed >= ample_from;
    if (size > 0.8)
        drawn.options.max_channels = 80, drawn.options.max_extent = 10;
    else if (size > 0.5)
        drawn.options.max_channels = 24, drawn.options.max_extent = 40, drawn.options.max_extent_3d = 12;
    return drawn;
}

// Each case in one of many processes: a graph, data for its leaves, and how it is to be run.
struct Trial {
    std::string what;
    Graph graph;
    uint64_t seed;
    Setting setting;
    uint64_t samples = 4;  // of what rounding does: see examine()
};

// An empty string where the trial is right, else a complaint.
inline std::string complaint_of(const std::function<Trial()>& trial) {
    std::string told, text;
    try {
        ContextGuard guard(device(0));
        const Trial t = trial();
        told = t.what + " " + to_string(t.setting) + ": ";
        text = "\n" + print(t.graph).substr(0, 1800);
        const Verdict verdict = examine(t.graph, random_leaves(t.graph, t.seed), t.setting, t.samples);
        if (verdict.right) return {};
        char numbers[80];
        std::snprintf(numbers, sizeof numbers, "error %.3g, allowed %.3g", verdict.error, verdict.allowed);
        return told + numbers + text;
    } catch (const std::exception& error) {
        return told + std::string(error.what()).substr(0, 900) + text;
    }
}

inline int in_processes(const std::string& what, uint64_t first, uint64_t count, unsigned within,
                        const std::function<Trial(uint64_t)>& trial) {
    const auto begin = std::chrono::steady_clock::now();
    const auto [tried, wrong] =
        Workers::run(first, count, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())), {.all = within},
                     [&](uint64_t number) { return complaint_of([&] { return trial(number); }); });
    std::printf("%s: %llu of %llu graphs, %llu wrong (%.0f s)\n", what.c_str(), static_cast<unsigned long long>(tried),
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(wrong),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return wrong != 0;
}

// One after the other in this process, once each, compared with nothing: what compute-sanitizer shall see, and no more.
inline int in_turn(uint64_t first, uint64_t count, const std::function<Trial(uint64_t)>& trial) {
    ContextGuard guard(device(0));
    for (uint64_t number = first; number < first + count; ++number) {
        const Trial t = trial(number);
        Session session(t.graph, t.setting);
        const auto leaves = random_leaves(t.graph, t.seed);
        for (size_t i = 0; i < leaves.size(); ++i) session.set_leaf(i, leaves[i]);
        session.run();
        std::printf("%llu %s %s\n", static_cast<unsigned long long>(number), t.what.c_str(), to_string(t.setting).c_str());
    }
    return 0;
}

inline Trial random_trial(uint64_t seed, const Wanted& wanted, bool gradients) {
    Drawn drawn = draw(seed, wanted);
    drawn.options.smooth_only = gradients;
    Trial trial{std::string(name(drawn.options.dtype)), random_graph(seed, drawn.options), seed, drawn.setting};
    if (!gradients) return trial;
    const Graph forward = rewrite(trial.graph).rewritten;
    GradientRequest request;
    for (size_t i = 0; i < forward.outputs().size(); ++i) request.outputs.push_back(static_cast<ValueId>(i));
    for (size_t i = 0; i < forward.leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
    trial.graph = gradient(forward, request);
    return trial;
}

// The benchmark's chains: every row in five precisions and two layouts. All rows in the first of these, then all in the
// next: a run that is cut has seen every chain.
struct RowSetting {
    DType dtype;
    Fp32Precision precision;
    bool last;
};
constexpr RowSetting row_settings[] = {
    {DType::f32, Fp32Precision::tf32, false},   {DType::f16, Fp32Precision::strict, true},
    {DType::f32, Fp32Precision::strict, false}, {DType::bf16, Fp32Precision::strict, false},
    {DType::f32, Fp32Precision::tf32, true},    {DType::f16, Fp32Precision::strict, false},
    {DType::f32, Fp32Precision::strict, true},  {DType::bf16, Fp32Precision::strict, true},
    {DType::f64, Fp32Precision::strict, false}, {DType::f64, Fp32Precision::strict, true},
};

inline uint64_t row_count() { return tests::rows().size() * std::size(row_settings); }
inline Trial row_trial(uint64_t n) {
    const RowSetting& how = row_settings[n / tests::rows().size()];
    const std::string_view row = tests::rows()[n % tests::rows().size()].first;
    Setting setting;
    setting.precision = how.precision, setting.last = how.last;
    return {std::string(row) + " " + std::string(name(how.dtype)), tests::row(row, tests::Scale::small, how.dtype), n,
            setting, 1};  // one sample: the reference takes seconds for C
}

}  // namespace transfuse::cuda
