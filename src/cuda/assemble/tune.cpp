#include "cuda/assemble/tune.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "cuda/assemble/figures.h"
#include "cuda/dense/dense.h"
#include "cuda/runtime/cache.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/module.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

using namespace figures::assemble;

struct Memory {
    CUdeviceptr at = 0;
    explicit Memory(size_t bytes) {
        check(driver().cuMemAlloc(&at, std::max<size_t>(bytes, 256)), "cuMemAlloc (tuning)");
    }
    ~Memory() { driver().cuMemFree(at); }
    Memory(const Memory&) = delete;
};

struct Events {
    CUevent from = nullptr, to = nullptr;
    Events() {
        check(driver().cuEventCreate(&from, 0), "cuEventCreate"),
            check(driver().cuEventCreate(&to, 0), "cuEventCreate");
    }
    ~Events() { driver().cuEventDestroy(from), driver().cuEventDestroy(to); }
    Events(const Events&) = delete;
};

size_t extent(const Sizes& shape, const Sizes& strides, DType dtype) {
    int64_t last = 0;
    for (size_t k = 0; k < shape.size(); ++k) last += (shape[k] - 1) * std::max<int64_t>(strides[k], 0);
    return static_cast<size_t>((last + 1) * bytes(dtype));
}

// Values in [0, 1) of any dtype: clocks depend on what is multiplied.
void fill(CUdeviceptr to, size_t size, DType dtype) {
    std::vector<char> block(std::min<size_t>(size, 1 << 22));
    uint32_t state = 1;
    for (size_t i = 0; i + 8 <= block.size(); i += static_cast<size_t>(bytes(dtype))) {
        state = state * 1664525u + 1013904223u;
        const uint32_t word = dtype == DType::f16    ? 0x3000u | (state >> 22)
                              : dtype == DType::bf16 ? 0x3e00u | (state >> 25)
                                                     : 0x3e000000u | (state >> 9);
        if (dtype == DType::f64) continue;
        std::memcpy(block.data() + i, &word, static_cast<size_t>(std::min<int64_t>(bytes(dtype), 4)));
    }
    for (size_t at = 0; at < size; at += block.size())
        check(driver().cuMemcpyHtoD(to + at, block.data(), std::min(block.size(), size - at)), "cuMemcpyHtoD (tuning)");
}

// Times one pass of assembled plans on memory of its own.
class Bench {
public:
    Bench(const Plan& plan, const Device& device) : plan_(plan), device_(device), flush_(flushed) {}

    double seconds(const Assembly& assembly, size_t pass) {
        std::vector<Ready> launches;
        for (const BoundLaunch& bound : assembly.launches)
            if (bound.pass == pass) launches.push_back(make_ready(bound, device_));
        grow(workspace_, workspace_bytes_, assembly.workspace_bytes);
        grow(kept_, kept_bytes_, assembly.kept_bytes);
        auto base = [&](const Address& address) -> char* {
            switch (address.kind) {
                case Address::Kind::leaf:
                    return value(plan_.graph.leaves()[static_cast<size_t>(address.position)], assembly);
                case Address::Kind::output:
                    return value(plan_.graph.outputs()[static_cast<size_t>(address.position)], assembly);
                case Address::Kind::workspace:
                    return reinterpret_cast<char*>(workspace_->at);
                case Address::Kind::kept:
                    break;
            }
            return reinterpret_cast<char*>(kept_->at);
        };
        std::vector<float> times;
        for (int i = 0; i < rounds + 1; ++i) {
            check(driver().cuMemsetD8Async(flush_.at, 0, flushed, nullptr), "cuMemsetD8Async");
            check(driver().cuEventRecord(events_.from, nullptr), "cuEventRecord");
            for (size_t k = 0; k < launches.size(); ++k) launch(launches[k], base, nullptr, k == 0);
            check(driver().cuEventRecord(events_.to, nullptr), "cuEventRecord");
            check(driver().cuEventSynchronize(events_.to), "tuning");
            float ms = 0;
            check(driver().cuEventElapsedTime(&ms, events_.from, events_.to), "cuEventElapsedTime");
            if (i > 0) times.push_back(ms);
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2] * 1e-3;
    }

private:
    void grow(std::unique_ptr<Memory>& memory, size_t& have, size_t want) {
        if (memory && want <= have) return;
        memory.reset();
        memory = std::make_unique<Memory>(want), have = want;
        fill(memory->at, want, DType::f32);
    }
    char* value(ValueId v, const Assembly& assembly) {
        std::unique_ptr<Memory>& memory = values_[v];
        if (!memory) {
            const Type& type = plan_.graph[v].type;
            const size_t size = extent(type.shape, assembly.strides[static_cast<size_t>(v)], type.dtype);
            memory = std::make_unique<Memory>(size);
            fill(memory->at, size, type.dtype);
        }
        return reinterpret_cast<char*>(memory->at);
    }

    const Plan& plan_;
    const Device& device_;
    Memory flush_;
    Events events_;
    std::map<ValueId, std::unique_ptr<Memory>> values_;
    std::unique_ptr<Memory> workspace_, kept_;
    size_t workspace_bytes_ = 0, kept_bytes_ = 0;
};

// The fastest configuration of a pass; empty where nothing could be measured.
std::string measured(const Plan& plan, size_t pass, const Assembly& assembly, const Options& options,
                     const Target& target, bool aligned, Bench& bench) {
    const std::vector<std::string> texts = configs_of(plan, pass, assembly, options, target, aligned, candidates);
    std::vector<Assembly> assemblies(texts.size());
    std::vector<std::shared_ptr<const Source>> sources;
    for (size_t i = 0; i < texts.size(); ++i) {
        assemblies[i] = assemble(plan, options, target, aligned, {{pass, texts[i]}});
        for (const BoundLaunch& bound : assemblies[i].launches)
            if (bound.pass == pass) sources.push_back(bound.launch.source);
    }
    try {
        compile_all(sources, target.arch);
    } catch (const Error&) {  // those that do not compile are passed over below
    }
    const char* log = std::getenv("TRANSFUSE_LOG");
    std::string best;
    double least = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
        try {
            const double seconds = bench.seconds(assemblies[i], pass);
            if (log && log[0] == '1')
                std::fprintf(stderr, "transfuse: tuning pass %zu: %.4f ms %s\n", pass, seconds * 1e3, texts[i].c_str());
            if (best.empty() || seconds < least) best = texts[i], least = seconds;
        } catch (const Error& error) {
            std::fprintf(stderr, "transfuse: warning: tuning passes over \"%s\": %s\n", texts[i].c_str(),
                         std::string(error.what()).substr(0, 300).c_str());
        }
    }
    return best;
}

}  // namespace

std::string tuning_key(const Plan& plan, size_t pass, const Assembly& assembly, const Device& device) {
    std::string key =
        "tuned-2|" + device.name + "|" + std::to_string(device.multiprocessors) + "|nvrtc " + nvrtc_version() + "|";
    for (int64_t n : plan.graph[plan.passes[pass].anchor].type.shape) key += std::to_string(n) + "x";
    for (const BoundLaunch& bound : assembly.launches)
        if (bound.pass == pass) key += "|" + bound.launch.source->text;
    return key;
}

DenseConfigs tuned_configs(const Plan& plan, const Options& options, const Target& target, const Device& device,
                           bool aligned) {
    DenseConfigs configs;
    std::unique_ptr<Bench> bench;
    const Assembly assembly = assemble(plan, options, target, aligned);
    for (const auto& [pass, heuristic] : assembly.configs) {
        const std::string key = tuning_key(plan, pass, assembly, device);
        if (const auto kept = cache_load(key)) {
            configs[pass] = *kept;
            continue;
        }
        ContextGuard guard(device);
        try {
            if (!bench) bench = std::make_unique<Bench>(plan, device);
            const std::string best = measured(plan, pass, assembly, options, target, aligned, *bench);
            if (best.empty()) continue;
            cache_store(key, best);
            configs[pass] = best;
        } catch (const Error& error) {  // no memory left to measure in: the heuristic decides
            std::fprintf(stderr, "transfuse: warning: no tuning: %s\n", error.what());
            break;
        }
    }
    return configs;
}

}  // namespace transfuse::cuda
