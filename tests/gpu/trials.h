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

// The same, one after the other in this process.
inline int in_turn(const std::string& what, uint64_t first, uint64_t count,
                   const std::function<Trial(uint64_t)>& trial) {
    int wrong = 0;
    for (uint64_t number = first; number < first + count; ++number) {
        const std::string complaint = complaint_of([&] { return trial(number); });
        if (complaint.empty()) continue;
        ++wrong;
        std::printf("case %llu: %s\n", static_cast<unsigned long long>(number), complaint.c_str());
    }
    std::printf("%s: %llu graphs, %d wrong\n", what.c_str(), static_cast<unsigned long long>(count), wrong);
    return wrong != 0;
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

// Every kind of kernel once or twice: tiles with each chain, precision, loader and sink; moments and their tails;
// statistics; weight gradients; covariances in ordinary arithmetic and on tensor cores; general kernels.
constexpr const char* weight_gradient =
    "%x = input f32[2,20,17,30]\n  %g = input f32[2,36,33,59]\n  %z = correlate(%x, %g) up=[2,2] offset=[1,1] taps=[3,3]";
constexpr const char* few_channels =
    "%x = input f32[3,3,9,14,40]\n  %c = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[17,27,79] taps=[3,3,3]\n"
    "  %z = cast(%c) dtype=f32";
constexpr const char* more_channels =
    "%x = input f32[2,20,5,16,37]\n  %c = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[9,31,73] taps=[3,3,3]\n"
    "  %z = cast(%c) dtype=f32";
constexpr const char* half_channels =
    "%x = input f32[2,40,6,9]\n  %c = covariance(%x) up=[2,2] offset=[1,1] out=[11,17] taps=[3,3] groups=2\n"
    "  %z = cast(%c) dtype=f16";
constexpr const char* far_apart =
    "%x = input f32[1,2,150,150]\n  %c = covariance(%x) dil=[40,35] offset=[40,35] out=[150,150] taps=[3,3]\n"
    "  %z = cast(%c) dtype=f32";
struct Family {
    const char* row;  // or, with a space in it, the statements of a graph of %z
    DType dtype;
    Fp32Precision precision;
    bool last;
};
// Groups of few channels: whole periods in a thread; a softmax over channels; statistics of a channel; one axis, many taps.
constexpr const char* upsampled =
    "%x = input f32[3,24,33,40]\n  %w = param f32[24,1,4,4]\n  %b = param f32[24]\n  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2] padding=[1,1] groups=24\n  %z = sigmoid(%y)";
constexpr const char* segments =
    "%x = input f32[2,21,20,24]\n  %w = param f32[21,1,16,16]\n  %y = conv_transpose(%x, %w) stride=[8,8] padding=[4,4] "
    "groups=21\n  %z = softmax(%y) dims=[1]";
constexpr const char* separable =
    "%x = input f32[4,32,17,23]\n  %w = param f32[32,1,3,3]\n  %g = param f32[32]\n  %h = param f32[32]\n  %y = "
    "conv_transpose(%x, %w) stride=[2,2] padding=[1,1] groups=32\n  %n = batch_norm(%y, %g, %h) training=1\n  %z = silu(%n)";
constexpr const char* vocoder =
    "%x = input f32[2,48,1000]\n  %w = param f32[48,2,12]\n  %y = conv_transpose(%x, %w) stride=[2] padding=[5] groups=48\n  "
    "%z = leaky_relu(%y) negative_slope=0.1";
constexpr Family families[] = {
    {"D", DType::f32, Fp32Precision::tf32, false},    {"D", DType::f32, Fp32Precision::strict, false},
    {"D", DType::f16, Fp32Precision::strict, false},  {"D", DType::f16, Fp32Precision::strict, true},
    {"D", DType::f64, Fp32Precision::strict, false},  {"d2", DType::bf16, Fp32Precision::strict, false},
    {"d5", DType::f32, Fp32Precision::strict, true},  {"d6", DType::f32, Fp32Precision::tf32, true},
    {"f1", DType::f32, Fp32Precision::tf32, false},   {"f1", DType::f32, Fp32Precision::strict, false},
    {"f2", DType::f16, Fp32Precision::strict, false}, {"f3", DType::f32, Fp32Precision::tf32, false},
    {"f4", DType::f32, Fp32Precision::tf32, false},   {"f5", DType::f32, Fp32Precision::tf32, false},
    {"f6", DType::f32, Fp32Precision::tf32, true},    {"f7", DType::f32, Fp32Precision::tf32, false},
    {"f8", DType::f32, Fp32Precision::tf32, false},   {"f8", DType::f16, Fp32Precision::strict, true},
    {"f9", DType::f32, Fp32Precision::strict, false}, {"f10", DType::f32, Fp32Precision::tf32, false},
    {"f11", DType::f32, Fp32Precision::tf32, false},  {"f12", DType::f32, Fp32Precision::tf32, false},
    {"A", DType::f32, Fp32Precision::tf32, false},    {"A", DType::f16, Fp32Precision::strict, true},
    {"B", DType::f32, Fp32Precision::tf32, false},    {"C", DType::f32, Fp32Precision::tf32, false},
    {"C", DType::f32, Fp32Precision::strict, false},  {weight_gradient, DType::f32, Fp32Precision::strict, false},
    {weight_gradient, DType::f32, Fp32Precision::tf32, true}, {upsampled, DType::f32, Fp32Precision::strict, false},
    {upsampled, DType::f16, Fp32Precision::strict, false}, {upsampled, DType::f32, Fp32Precision::strict, true},
    {segments, DType::f32, Fp32Precision::strict, false}, {segments, DType::bf16, Fp32Precision::strict, true},
    {separable, DType::f32, Fp32Precision::strict, false}, {separable, DType::f16, Fp32Precision::strict, true},
    {vocoder, DType::f32, Fp32Precision::strict, false}, {vocoder, DType::f64, Fp32Precision::strict, false},
    {few_channels, DType::f32, Fp32Precision::strict, false}, {more_channels, DType::f32, Fp32Precision::strict, true},
    {more_channels, DType::f32, Fp32Precision::tf32, false}, {half_channels, DType::f16, Fp32Precision::strict, false},
    {far_apart, DType::f32, Fp32Precision::strict, false},
};

inline uint64_t family_count() { return std::size(families); }
inline Trial family_trial(uint64_t n) {
    const Family& family = families[n];
    Setting setting;
    setting.precision = family.precision, setting.last = family.last;
    const std::string row = family.row, dtype(name(family.dtype));
    if (row.find(' ') == std::string::npos)
        return {row + " " + dtype, tests::row(row, tests::Scale::small, family.dtype), n, setting};
    std::string body = row;
    for (size_t at = 0; (at = body.find("f32[", at)) != std::string::npos; at += dtype.size()) body.replace(at, 3, dtype);
    const std::string kind = row.find("correlate") != std::string::npos    ? "weight gradient "
                             : row.find("covariance") != std::string::npos ? "covariance "
                                                                           : "groups ";
    return {kind + dtype, parse("graph g {\n  " + body + "\n  return %z\n}\n"), n, setting};
}

}  // namespace transfuse::cuda
