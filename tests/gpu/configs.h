// Times of a graph's dense kernels in configurations that are asked for, side by side in one process.
#pragma once

#include <cstdio>
#include <iostream>

#include "cuda/assemble/build.h"
#include "cuda/runtime/launch.h"
#include "gpu/session.h"

namespace transfuse::cuda {

// One configuration: its launches on memory of its own, and what they took.
struct Candidate {
    std::string text;
    Assembly assembly;
    std::vector<Ready> launches;
    std::unique_ptr<BandedMemory> workspace, kept;
    std::vector<float> times;
    double difference = 0;  // from the first candidate's results, relative to the largest
};

class ConfigTimes {
public:
    ConfigTimes(Session& session, bool aligned) : session_(session), aligned_(aligned), flush_(256 << 20) {
        check(driver().cuEventCreate(&from_, 0), "cuEventCreate");
        check(driver().cuEventCreate(&to_, 0), "cuEventCreate");
    }

    // The heuristic's choice, then every line of `in`, a configuration as descriptions print it.
    void read(std::istream& in) {
        const Device& here = device(0);
        const Target target{here.arch, here.multiprocessors, here.shared_bytes};
        add("", assemble(session_.plan, session_.options, target, aligned_));
        for (std::string line; std::getline(in, line);) {
            if (line.empty()) continue;
            DenseConfigs configs;
            for (const auto& [pass, chosen] : list_[0].assembly.configs) configs[pass] = line;
            Assembly assembly = assemble(session_.plan, session_.options, target, aligned_, configs);
            bool taken = false;
            for (const auto& [pass, text] : assembly.configs) taken |= text == line;
            if (taken)
                add(line, std::move(assembly));
            else
                std::printf("  does not fit: %s\n", line.c_str());
        }
        std::vector<std::shared_ptr<const Source>> sources;
        for (const Candidate& one : list_)
            for (const BoundLaunch& bound : one.assembly.launches) sources.push_back(bound.launch.source);
        compile_all(sources, target.arch);
        for (Candidate& one : list_)
            for (const BoundLaunch& bound : one.assembly.launches) one.launches.push_back(make_ready(bound, here));
    }

    // Round by round, each beginning with another candidate: clocks depend on what ran before.
    void measure(int rounds) {
        compare();
        for (int i = 0; i < warm_runs; ++i) timed(list_[0]);
        for (int round = 0; round < rounds; ++round)
            for (size_t k = 0; k < list_.size(); ++k) {
                Candidate& one = list_[(k + static_cast<size_t>(round) * 5) % list_.size()];
                for (int i = 0; i < runs; ++i) {
                    const float ms = timed(one);
                    if (i >= skipped) one.times.push_back(ms);
                }
            }
    }

    void print() {
        for (Candidate& one : list_) {
            std::sort(one.times.begin(), one.times.end());
            const std::string words =
                one.text.empty() ? "chosen: " + one.assembly.configs.begin()->second.str() : one.text;
            std::printf("  %.4f ms, least %.4f, off %.1e  %s\n", static_cast<double>(one.times[one.times.size() / 2]),
                        static_cast<double>(one.times[0]), one.difference, words.c_str());
        }
    }

private:
    static constexpr int warm_runs = 200, runs = 9, skipped = 4;

    float timed(const Candidate& one) {
        driver().cuMemsetD8Async(flush_.address(), 1, 256 << 20, nullptr);
        driver().cuEventRecord(from_, nullptr);
        run(one);
        driver().cuEventRecord(to_, nullptr);
        check(driver().cuEventSynchronize(to_), "run");
        float ms = 0;
        driver().cuEventElapsedTime(&ms, from_, to_);
        return ms;
    }

    void add(std::string text, Assembly assembly) {
        Candidate& one = list_.emplace_back();
        one.text = std::move(text), one.assembly = std::move(assembly);
        one.workspace = std::make_unique<BandedMemory>(one.assembly.workspace_bytes);
        one.kept = std::make_unique<BandedMemory>(one.assembly.kept_bytes);
    }

    void run(const Candidate& one) {
        auto base = [&](const Address& address) {
            const auto at = static_cast<size_t>(address.position);
            return static_cast<char*>(address.kind == Address::Kind::leaf     ? session_.leaves[at].data
                                      : address.kind == Address::Kind::output ? session_.outputs[at].data
                                      : address.kind == Address::Kind::kept   ? one.kept->data()
                                                                              : one.workspace->data());
        };
        for (size_t i = 0; i < one.launches.size(); ++i) launch(one.launches[i], base, nullptr, i == 0);
    }

    // Of each output the beginning and the end, on poisoned memory.
    std::vector<double> results(const Candidate& one) {
        constexpr size_t part = 4 << 20;
        for (size_t o = 0; o < session_.outputs.size(); ++o) session_.memory[session_.leaves.size() + o]->poison();
        run(one);
        check(driver().cuCtxSynchronize(), "run");
        std::vector<double> values;
        for (const TensorView& v : session_.outputs) {
            const auto size = static_cast<size_t>(numel(v.shape) * bytes(v.dtype)), length = std::min(size, part);
            for (const size_t begin : {size_t{0}, size - length}) {
                std::vector<char> host(length);
                check(driver().cuMemcpyDtoH(host.data(), reinterpret_cast<CUdeviceptr>(v.data) + begin, length),
                      "cuMemcpyDtoH");
                for (size_t e = 0; e < length / static_cast<size_t>(bytes(v.dtype)); ++e)
                    values.push_back(get(host.data(), v.dtype, static_cast<int64_t>(e)));
            }
        }
        return values;
    }
    void compare() {
        std::vector<double> first;
        for (Candidate& one : list_) {
            const auto mine = results(one);
            if (first.empty()) first = mine;
            double largest = 0, worst = 0;
            for (size_t e = 0; e < mine.size(); ++e) {
                const double apart = std::fabs(mine[e] - first[e]);
                largest = std::max(largest, std::fabs(first[e]));
                worst = std::max(worst, std::isnan(apart) ? 1e30 : apart);
            }
            one.difference = worst / largest;
        }
    }

    Session& session_;
    const bool aligned_;
    BandedMemory flush_;
    CUevent from_ = nullptr, to_ = nullptr;
    std::vector<Candidate> list_;
};

}  // namespace transfuse::cuda
