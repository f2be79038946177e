// On a machine with a GPU: compile_cuda against the float64 reference, and times. A plain program (no test framework).
//
//     check random FIRST COUNT [dtype] [last] [tf32]      random graphs, twice each, over many processes; without a
//     dtype
//                                                         every precision, layout, alignment and size is drawn as well
//     check gradient FIRST COUNT [dtype] [last] [tf32]    their gradients in all leaves
//     check rows                                          the benchmark's chains, cut small, in every precision and
//     layout check file FILE.tf|ROW [last] [tf32]                one graph at its own size (small ones: the reference
//     is slow) check time FILE.tf|ROW [last] [tf32]                median time with the L2 flushed, launches, resources
//     check copy                                          bandwidth of a copy
//
// Exit status 1 where anything is wrong.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "gpu/session.h"
#include "gpu/workers.h"
#include "random_graphs.h"
#include "rows.h"

using namespace transfuse;
using namespace transfuse::cuda;

namespace {

// What the command line fixes; the rest is drawn.
struct Wanted {
    std::optional<DType> dtype;
    Setting setting;
};

struct Drawn {
    RandomGraphOptions options;
    Setting setting;
};

Drawn draw(uint64_t seed, const Wanted& wanted) {
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
};

// An empty string where the trial is right, else a complaint.
std::string complaint_of(const std::function<Trial()>& trial) {
    std::string told, text;
    try {
        ContextGuard guard(device(0));
        const Trial t = trial();
        told = t.what + " " + to_string(t.setting) + ": ";
        text = "\n" + print(t.graph).substr(0, 1800);
        const Verdict verdict = examine(t.graph, random_leaves(t.graph, t.seed), t.setting);
        if (verdict.right) return {};
        char numbers[80];
        std::snprintf(numbers, sizeof numbers, "error %.3g, allowed %.3g", verdict.error, verdict.allowed);
        return told + numbers + text;
    } catch (const std::exception& error) {
        return told + std::string(error.what()).substr(0, 900) + text;
    }
}

int in_processes(const std::string& what, uint64_t first, uint64_t count, const std::function<Trial(uint64_t)>& trial) {
    const auto begin = std::chrono::steady_clock::now();
    const uint64_t wrong =
        Workers::run(first, count, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())), 40, 12,
                     [&](uint64_t number) { return complaint_of([&] { return trial(number); }); });
    std::printf("%s: %llu graphs, %llu wrong (%.0f s)\n", what.c_str(), static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(wrong),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return wrong != 0;
}

Trial random_trial(uint64_t seed, const Wanted& wanted, bool gradients) {
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

int check_rows() {
    struct Precision {
        DType dtype;
        Fp32Precision fp32;
    };
    static constexpr Precision precisions[] = {{DType::f32, Fp32Precision::strict},
                                               {DType::f32, Fp32Precision::tf32},
                                               {DType::f16, Fp32Precision::strict},
                                               {DType::bf16, Fp32Precision::strict},
                                               {DType::f64, Fp32Precision::strict}};
    const auto& rows = tests::rows();
    return in_processes("rows", 0, rows.size() * 10, [&](uint64_t n) {
        const Precision precision = precisions[n / 2 % 5];
        const std::string_view row = rows[n / 10].first;
        Setting setting;
        setting.precision = precision.fp32, setting.last = n % 2 == 1;
        return Trial{std::string(row) + " " + std::string(name(precision.dtype)),
                     tests::row(row, tests::Scale::small, precision.dtype), n, setting};
    });
}

// Every kind of kernel once or twice: tiles with each chain, precision, loader and sink; moments and their tails;
// statistics; weight gradients; general kernels.
int check_families(bool alone) {
    struct Family {
        const char* row;
        DType dtype;
        Fp32Precision precision;
        bool last;
    };
    using enum DType;
    using enum Fp32Precision;
    static constexpr Family families[] = {
        {"D", f32, tf32, false},       {"D", f32, strict, false},  {"D", f16, strict, false},
        {"D", f16, strict, true},      {"D", f64, strict, false},  {"d2", bf16, strict, false},
        {"d5", f32, strict, true},     {"d6", f32, tf32, true},    {"f1", f32, tf32, false},
        {"f1", f32, strict, false},    {"f2", f16, strict, false}, {"f3", f32, tf32, false},
        {"f4", f32, tf32, false},      {"f5", f32, tf32, false},   {"f6", f32, tf32, true},
        {"f7", f32, tf32, false},      {"f8", f32, tf32, false},   {"f8", f16, strict, true},
        {"f9", f32, strict, false},    {"f10", f32, tf32, false},  {"f11", f32, tf32, false},
        {"f12", f32, tf32, false},     {"A", f32, tf32, false},    {"A", f16, strict, true},
        {"B", f32, tf32, false},       {"C", f32, tf32, false},    {"C", f32, strict, false},
        {nullptr, f32, strict, false}, {nullptr, f32, tf32, true}};
    constexpr uint64_t count = std::size(families);
    auto trial = [](uint64_t n) {
        const Family& family = families[n];
        Setting setting;
        setting.precision = family.precision, setting.last = family.last;
        if (family.row == nullptr)
            return Trial{"weight gradient",
                         parse("graph g {\n  %x = input f32[2,20,17,30]\n  %g = input f32[2,36,33,59]\n  %w = "
                               "correlate(%x, %g) up=[2,2] offset=[1,1] taps=[3,3]\n  return %w\n}\n"),
                         n, setting};
        return Trial{std::string(family.row) + " " + std::string(name(family.dtype)),
                     tests::row(family.row, tests::Scale::small, family.dtype), n, setting};
    };
    if (!alone) return in_processes("families", 0, count, trial);
    int wrong = 0;
    for (uint64_t n = 0; n < count; ++n) {
        const std::string complaint = complaint_of([&] { return trial(n); });
        if (complaint.empty()) continue;
        ++wrong;
        std::printf("case %llu: %s\n", static_cast<unsigned long long>(n), complaint.c_str());
    }
    std::printf("families: %llu graphs, %d wrong\n", static_cast<unsigned long long>(count), wrong);
    return wrong != 0;
}

Graph read(const char* path) {
    for (const auto& [name, text] : tests::rows())
        if (name == path) return tests::row(name);
    std::ifstream file(path);
    require(static_cast<bool>(file), "cannot read ", path);
    std::stringstream text;
    text << file.rdbuf();
    return parse(text.str());
}

int check_file(const char* path, const Setting& setting) {
    const Graph graph = read(path);
    const Verdict verdict = examine(graph, random_leaves(graph, 3), setting);
    std::printf("%s %s %s: error %.3g, allowed %.3g\n", verdict.right ? "right" : "WRONG", path,
                to_string(setting).c_str(), verdict.error, verdict.allowed);
    return verdict.right ? 0 : 1;
}

// Median time of a run with the L2 flushed before it, and host time of the call.
void time_file(const char* path, const Setting& setting) {
    const Graph graph = read(path);
    const auto begin = std::chrono::steady_clock::now();
    Session session(graph, setting);
    const double compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    Random random(5);
    for (size_t i = 0; i < session.leaves.size(); ++i) {
        const TensorView& v = session.leaves[i];
        std::vector<char> host(static_cast<size_t>(numel(v.shape) * bytes(v.dtype)));
        for (int64_t e = 0; e < numel(v.shape); ++e) put(host.data(), v.dtype, e, random.uniform());
        cuda::check(driver().cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(v.data), host.data(), host.size()),
                    "cuMemcpyHtoD");
    }
    DeviceMemory flush(256 << 20);
    const Driver& d = driver();
    CUevent from, to;
    cuda::check(d.cuEventCreate(&from, 0), "cuEventCreate");
    cuda::check(d.cuEventCreate(&to, 0), "cuEventCreate");
    std::vector<float> times;
    std::vector<double> host_times;
    for (int i = 0; i < 25; ++i) {
        d.cuMemsetD8Async(flush.address(), 1, 256 << 20, nullptr);
        d.cuEventRecord(from, nullptr);
        const auto t0 = std::chrono::steady_clock::now();
        session.executable->run(session.leaves, session.outputs, session.context);
        host_times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count());
        d.cuEventRecord(to, nullptr);
        cuda::check(d.cuEventSynchronize(to), "run");
        float ms = 0;
        d.cuEventElapsedTime(&ms, from, to);
        if (i >= 5) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    std::sort(host_times.begin(), host_times.end());
    std::printf("TIME %s %s: %.4f ms median, %.4f min; host %.1f us; compiled in %.2f s\n%s", path,
                to_string(setting).c_str(), static_cast<double>(times[times.size() / 2]), static_cast<double>(times[0]),
                host_times[host_times.size() / 2] * 1e6, compile_s, session.executable->describe().c_str());
}

// Bandwidth of a plain copy, counting both directions, for comparison.
void time_copy() {
    const size_t size = size_t{1} << 30;
    DeviceMemory a(size), b(size);
    const Driver& d = driver();
    CUevent from, to;
    d.cuEventCreate(&from, 0), d.cuEventCreate(&to, 0);
    std::vector<float> times;
    for (int i = 0; i < 15; ++i) {
        d.cuEventRecord(from, nullptr);
        d.cuMemcpyDtoDAsync(a.address(), b.address(), size, nullptr);
        d.cuEventRecord(to, nullptr);
        d.cuEventSynchronize(to);
        float ms = 0;
        d.cuEventElapsedTime(&ms, from, to);
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    std::printf("COPY %.3f TB/s\n",
                2.0 * static_cast<double>(size) / (static_cast<double>(times[times.size() / 2]) * 1e-3) * 1e-12);
}

// Asked of a child: a process that has used CUDA may not fork workers that use it.
bool gpu_here() {
    const pid_t child = fork();
    if (child == 0) {
        if (!cuda_available()) std::printf("skipped: %s\n", cuda_unavailable_reason().c_str());
        std::fflush(stdout);
        _exit(cuda_available() ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (!gpu_here()) return 0;
        const std::string verb = argc > 1 ? argv[1] : "";
        Wanted wanted;
        for (int i = 2; i < argc && verb != "families"; ++i) {
            const std::string word = argv[i];
            if (word == "last") wanted.setting.last = true;
            if (word == "tf32") wanted.setting.precision = Fp32Precision::tf32;
            if (i >= 4 && word != "last" && word != "tf32") wanted.dtype = dtype_named(word);
        }
        if ((verb == "random" || verb == "gradient") && argc >= 4)
            return in_processes(verb, std::stoull(argv[2]), std::stoull(argv[3]),
                                [&](uint64_t seed) { return random_trial(seed, wanted, verb == "gradient"); });
        if (verb == "rows") return check_rows();
        if (verb == "families") return check_families(argc > 2 && std::strcmp(argv[2], "alone") == 0);
        ContextGuard guard(device(0));
        if (verb == "file" && argc >= 3) return check_file(argv[2], wanted.setting);
        if (verb == "time" && argc >= 3) {
            time_file(argv[2], wanted.setting);
            return 0;
        }
        if (verb == "copy") {
            time_copy();
            return 0;
        }
        std::printf(
            "usage: check random|gradient FIRST COUNT [dtype] [last] [tf32] | file|time FILE.tf [last] [tf32] | "
            "copy\n");
        return 2;
    } catch (const std::exception& error) {
        std::printf("FAILED: %s\n", std::string(error.what()).substr(0, 3000).c_str());
        return 1;
    }
}
