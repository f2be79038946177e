// On a machine with a GPU: compile_cuda against the float64 reference, and times. A plain program (no test framework).
//
//     check random FIRST COUNT [f32|f64|f16|bf16] [last]     random graphs, twice each: right and bitwise repeatable
//     check gradient FIRST COUNT [f32|f64]                   their gradients
//     check file FILE.tf                                     one graph at its own size against the reference (small
//     ones) check copy                                             bandwidth of a copy check time FILE.tf [last] [tf32]
//     median time with the L2 flushed, launches, resources
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cuda/runtime/driver.h"
#include "cuda_host/host.h"
#include "random_graphs.h"
#include "transfuse/transfuse.h"

using namespace transfuse;
using namespace transfuse::cuda;

namespace {

struct DeviceMemory {
    CUdeviceptr address = 0;
    explicit DeviceMemory(size_t size) {
        cuda::check(driver().cuMemAlloc(&address, std::max<size_t>(size, 256)), "cuMemAlloc");
        cuda::check(driver().cuMemsetD8Async(address, 0xff, std::max<size_t>(size, 256), nullptr), "cuMemsetD8Async");
    }
    ~DeviceMemory() { driver().cuMemFree(address); }
    DeviceMemory(const DeviceMemory&) = delete;
    void* data() const { return reinterpret_cast<void*>(address); }
};

Sizes channels_last(const Sizes& shape) {
    if (shape.size() < 3) return contiguous_strides(shape);
    Sizes strides(shape.size());
    int64_t stride = 1;
    strides[1] = stride, stride *= shape[1];
    for (size_t a = shape.size() - 1; a >= 2; --a) strides[a] = stride, stride *= shape[a];
    strides[0] = stride;
    return strides;
}

struct Session {
    Plan plan;
    CompileOptions options;
    std::unique_ptr<Executable> executable;
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    std::vector<TensorView> leaves, outputs;
    std::unique_ptr<DeviceMemory> workspace;
    RunContext context;

    Session(const Graph& graph, bool last, Fp32Precision precision) {
        plan = transfuse::plan(rewrite(graph).rewritten, Machine::h200());
        options.precision = precision;
        for (ValueId leaf : plan.graph.leaves())
            options.leaf_strides.push_back(last && plan.graph[leaf].op == Op::input
                                               ? channels_last(plan.graph[leaf].type.shape)
                                               : contiguous_strides(plan.graph[leaf].type.shape));
        for (ValueId output : plan.graph.outputs())
            options.output_strides.push_back(last ? channels_last(plan.graph[output].type.shape)
                                                  : contiguous_strides(plan.graph[output].type.shape));
        executable = compile_cuda(plan, options);
        auto view = [&](ValueId id, const Sizes& strides) {
            const Type& type = plan.graph[id].type;
            memory.push_back(
                std::make_unique<DeviceMemory>(static_cast<size_t>(numel(type.shape) * bytes(type.dtype))));
            return TensorView{memory.back()->data(), type.dtype, type.shape, strides};
        };
        for (size_t i = 0; i < plan.graph.leaves().size(); ++i)
            leaves.push_back(view(plan.graph.leaves()[i], options.leaf_strides[i]));
        for (size_t i = 0; i < plan.graph.outputs().size(); ++i)
            outputs.push_back(view(plan.graph.outputs()[i], options.output_strides[i]));
        workspace = std::make_unique<DeviceMemory>(executable->workspace_bytes());
        context.workspace = workspace->data();
    }

    void set_leaf(size_t i, const std::vector<double>& values) {
        const TensorView& v = leaves[i];
        std::vector<char> host(static_cast<size_t>(numel(v.shape) * bytes(v.dtype)));
        const auto at = offsets(v.shape, v.strides);
        for (size_t e = 0; e < at.size(); ++e) put(host.data(), v.dtype, at[e], values[e]);
        if (!host.empty())
            cuda::check(driver().cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(v.data), host.data(), host.size()),
                        "cuMemcpyHtoD");
    }
    std::vector<char> output_bytes(size_t i) const {
        const TensorView& v = outputs[i];
        std::vector<char> host(static_cast<size_t>(numel(v.shape) * bytes(v.dtype)));
        if (!host.empty())
            cuda::check(driver().cuMemcpyDtoH(host.data(), reinterpret_cast<CUdeviceptr>(v.data), host.size()),
                        "cuMemcpyDtoH");
        return host;
    }
    void run() { executable->run(leaves, outputs, context); }
};

double rounded(double value, DType dtype) {
    double slot = 0;
    put(&slot, dtype, 0, value);
    return get(&slot, dtype, 0);
}

// The worst error relative to the largest value, over all outputs; throws where two runs differ.
double worst(const Graph& graph, std::vector<std::vector<double>> leaves, bool last, Fp32Precision precision) {
    for (size_t i = 0; i < leaves.size(); ++i)
        for (double& v : leaves[i]) v = rounded(v, graph[graph.leaves()[i]].type.dtype);
    const auto expected = evaluate(graph, leaves);
    Session session(graph, last, precision);
    for (size_t i = 0; i < leaves.size(); ++i) session.set_leaf(i, leaves[i]);
    session.run();
    cuda::check(driver().cuCtxSynchronize(), "run");
    std::vector<std::vector<char>> first;
    for (size_t o = 0; o < expected.size(); ++o) first.push_back(session.output_bytes(o));
    session.run();
    cuda::check(driver().cuCtxSynchronize(), "run");
    double result = 0;
    for (size_t o = 0; o < expected.size(); ++o) {
        require(session.output_bytes(o) == first[o], "two runs differ bitwise");
        const TensorView& v = session.outputs[o];
        const auto at = offsets(v.shape, v.strides);
        double scale = 1e-3;
        for (double e : expected[o]) scale = std::max(scale, std::fabs(e));
        for (size_t e = 0; e < at.size(); ++e) {
            const double error = std::fabs(get(first[o].data(), v.dtype, at[e]) - expected[o][e]) / scale;
            result = std::max(result, std::isnan(error) ? 1e9 : error);
        }
    }
    return result;
}

DType named(const char* text) { return dtype_named(text); }

int random_check(uint64_t begin, uint64_t count, DType dtype, bool last) {
    const double tolerance = dtype == DType::f64   ? 1e-9
                             : dtype == DType::f32 ? 3e-5
                             : dtype == DType::f16 ? 3e-2
                                                   : 2e-1;
    int bad = 0;
    for (uint64_t seed = begin; seed < begin + count; ++seed) {
        RandomGraphOptions options;
        options.dtype = dtype;
        const Graph graph = random_graph(seed, options);
        try {
            const double error = worst(graph, random_leaves(graph, seed), last, Fp32Precision::strict);
            if (!(error <= tolerance)) {
                ++bad;
                if (bad <= 3)
                    std::printf("seed %llu: error %.3g\n%s\n", static_cast<unsigned long long>(seed), error,
                                print(graph).c_str());
            }
        } catch (const Error& error) {
            ++bad;
            if (bad <= 3)
                std::printf("seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed),
                            std::string(error.what()).substr(0, 1500).c_str(), print(graph).c_str());
            if (std::string(error.what()).find("ILLEGAL") != std::string::npos) break;
        }
    }
    std::printf("random %s%s: %llu graphs, %d wrong\n", std::string(name(dtype)).c_str(), last ? " channels_last" : "",
                static_cast<unsigned long long>(count), bad);
    return bad != 0;
}

// Gradients of random graphs in all their leaves, themselves graphs.
int gradient_check(uint64_t begin, uint64_t count, DType dtype, bool last) {
    const double tolerance = dtype == DType::f64 ? 1e-8 : 1e-3;
    int bad = 0;
    for (uint64_t seed = begin; seed < begin + count; ++seed) {
        RandomGraphOptions options;
        options.dtype = dtype;
        options.smooth_only = true;
        const Graph graph = random_graph(seed, options);
        try {
            const Graph forward = rewrite(graph).rewritten;
            GradientRequest request;
            for (size_t i = 0; i < forward.outputs().size(); ++i) request.outputs.push_back(static_cast<ValueId>(i));
            for (size_t i = 0; i < forward.leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
            const Graph backward = gradient(forward, request);
            const double error = worst(backward, random_leaves(backward, seed), last, Fp32Precision::strict);
            if (error <= tolerance) continue;
            if (++bad <= 3)
                std::printf("seed %llu: error %.3g\n%s\n", static_cast<unsigned long long>(seed), error,
                            print(backward).c_str());
        } catch (const Error& error) {
            if (++bad <= 3)
                std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
                            std::string(error.what()).substr(0, 1500).c_str());
        }
    }
    std::printf("gradients %s: %llu graphs, %d wrong\n", std::string(name(dtype)).c_str(),
                static_cast<unsigned long long>(count), bad);
    return bad != 0;
}

Graph read(const char* path) {
    std::ifstream file(path);
    require(static_cast<bool>(file), "cannot read ", path);
    std::stringstream text;
    text << file.rdbuf();
    return parse(text.str());
}

// Median time of a run with the L2 flushed before it, and host time of the call.
void time_file(const char* path, bool last, Fp32Precision precision) {
    const Graph graph = read(path);
    const auto begin = std::chrono::steady_clock::now();
    Session session(graph, last, precision);
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
        d.cuMemsetD8Async(flush.address, 1, 256 << 20, nullptr);
        d.cuEventRecord(from, nullptr);
        const auto t0 = std::chrono::steady_clock::now();
        session.run();
        host_times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count());
        d.cuEventRecord(to, nullptr);
        cuda::check(d.cuEventSynchronize(to), "run");
        float ms = 0;
        d.cuEventElapsedTime(&ms, from, to);
        if (i >= 5) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    std::sort(host_times.begin(), host_times.end());
    std::printf("TIME %s%s: %.4f ms median, %.4f min; host %.1f us; compiled in %.2f s\n%s", path,
                last ? " channels_last" : "", times[times.size() / 2], times[0],
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
        d.cuMemcpyDtoDAsync(a.address, b.address, size, nullptr);
        d.cuEventRecord(to, nullptr);
        d.cuEventSynchronize(to);
        float ms = 0;
        d.cuEventElapsedTime(&ms, from, to);
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    std::printf("COPY %.3f TB/s\n", 2.0 * static_cast<double>(size) / (times[times.size() / 2] * 1e-3) * 1e-12);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (!cuda_available()) {
            std::printf("skipped: %s\n", cuda_unavailable_reason().c_str());
            return 0;
        }
        ContextGuard guard(device(0));
        const std::string verb = argc > 1 ? argv[1] : "";
        auto has = [&](const char* word) {
            return std::any_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, word) == 0; });
        };
        if (verb == "random" && argc >= 4)
            return random_check(std::stoull(argv[2]), std::stoull(argv[3]), argc > 4 ? named(argv[4]) : DType::f32,
                                has("last"));
        if (verb == "gradient" && argc >= 4)
            return gradient_check(std::stoull(argv[2]), std::stoull(argv[3]), argc > 4 ? named(argv[4]) : DType::f64,
                                  has("last"));
        if (verb == "file" && argc >= 3) {
            const Graph graph = read(argv[2]);
            const double error = worst(graph, random_leaves(graph, 3), has("last"),
                                       has("tf32") ? Fp32Precision::tf32 : Fp32Precision::strict);
            std::printf("ERROR %s%s: %.3g\n", argv[2], has("last") ? " channels_last" : "", error);
            return 0;
        }
        if (verb == "time" && argc >= 3) {
            time_file(argv[2], has("last"), has("tf32") ? Fp32Precision::tf32 : Fp32Precision::strict);
            return 0;
        }
        if (verb == "copy") {
            time_copy();
            return 0;
        }
        std::printf(
            "usage: check random FIRST COUNT [dtype] [last] | file FILE.tf [last] | time FILE.tf [last] [tf32]\n");
        return 2;
    } catch (const std::exception& error) {
        std::printf("FAILED: %s\n", std::string(error.what()).substr(0, 3000).c_str());
        return 1;
    }
}
