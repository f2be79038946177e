// A compiled graph with memory of its own on the GPU: every tensor lies between guard bands, and everything that is not
// written is NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cuda/assemble/executable.h"
#include "cuda/runtime/driver.h"
#include "cuda_host/host.h"
#include "random_graphs.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {

// How a graph is compiled and called.
struct Setting {
    Fp32Precision precision = Fp32Precision::strict;
    bool last = false;       // inputs and outputs channels last
    bool unaligned = false;  // tensors begin one element behind a 16-byte boundary
    bool freeze = false;
    bool later = false;  // not the first size of its program: texts that serve any size
};

inline std::string to_string(const Setting& s) {
    return std::string(s.precision == Fp32Precision::strict ? "strict" : "tf32") + (s.last ? " channels_last" : "") +
           (s.unaligned ? " unaligned" : "") + (s.freeze ? " frozen" : "") + (s.later ? " of a later size" : "");
}

class BandedMemory {
public:
    // Bands before and behind show what was written there. Under a tool that sees every access they would hide it
    // (TRANSFUSE_BANDS=0).
    static size_t bands() {
        static const char* const given = std::getenv("TRANSFUSE_BANDS");
        static const size_t bytes = given && given[0] == '0' ? 0 : 4096;
        return bytes;
    }

    explicit BandedMemory(size_t size, size_t shift = 0) : size_(size), shift_(shift), guard_(bands()) {
        check(driver().cuMemAlloc(&base_, std::max<size_t>(size + shift + 2 * guard_, 1)), "cuMemAlloc");
        poison();
    }
    ~BandedMemory() { driver().cuMemFree(base_); }
    BandedMemory(const BandedMemory&) = delete;
    BandedMemory& operator=(const BandedMemory&) = delete;

    CUdeviceptr address() const { return base_ + guard_ + shift_; }
    void* data() const { return reinterpret_cast<void*>(address()); }
    void poison() const {
        check(driver().cuMemsetD8Async(base_, 0xff, size_ + shift_ + 2 * guard_, nullptr), "cuMemsetD8Async");
    }
    // True where nothing was written before or behind the tensor.
    bool bands_whole() const {
        std::vector<unsigned char> before(guard_ + shift_), behind(guard_);
        check(driver().cuMemcpyDtoH(before.data(), base_, before.size()), "cuMemcpyDtoH");
        check(driver().cuMemcpyDtoH(behind.data(), address() + size_, behind.size()), "cuMemcpyDtoH");
        auto whole = [](unsigned char c) { return c == 0xff; };
        return std::all_of(before.begin(), before.end(), whole) && std::all_of(behind.begin(), behind.end(), whole);
    }

private:
    CUdeviceptr base_ = 0;
    size_t size_, shift_, guard_;
};

struct Session {
    Plan plan;
    CompileOptions options;
    std::unique_ptr<Executable> executable;
    std::vector<std::unique_ptr<BandedMemory>> memory;  // of the leaves, then of the outputs
    std::vector<TensorView> leaves, outputs;
    std::unique_ptr<BandedMemory> workspace;
    RunContext context;

    Session(const Graph& graph, const Setting& setting)
        : plan(planned(graph)), options(options_for(plan, setting)), executable(compiled(graph, setting)) {
        auto view = [&](ValueId id, const Sizes& strides) {
            const Type& type = plan.graph[id].type;
            memory.push_back(
                std::make_unique<BandedMemory>(static_cast<size_t>(numel(type.shape) * bytes(type.dtype)),
                                               setting.unaligned ? static_cast<size_t>(bytes(type.dtype)) : 0));
            return TensorView{memory.back()->data(), type.dtype, type.shape, strides};
        };
        for (size_t i = 0; i < plan.graph.leaves().size(); ++i)
            leaves.push_back(view(plan.graph.leaves()[i], options.leaf_strides[i]));
        for (size_t i = 0; i < plan.graph.outputs().size(); ++i)
            outputs.push_back(view(plan.graph.outputs()[i], options.output_strides[i]));
        context.workspace_bytes = executable->workspace_bytes_for(leaves, outputs);
        workspace = std::make_unique<BandedMemory>(context.workspace_bytes);
        context.workspace = workspace->data();
    }

    static Plan planned(const Graph& graph) {
        Plan plan = transfuse::plan(rewrite(graph).rewritten, Machine::h200());
        plan.machine.launch = 0;  // else small problems are multiplied in strict fp32 though TF32 is asked for
        return plan;
    }
    static CompileOptions options_for(const Plan& plan, const Setting& setting) {
        CompileOptions options;
        options.precision = setting.precision;
        options.freeze = setting.freeze;
        for (ValueId leaf : plan.graph.leaves())
            options.leaf_strides.push_back(setting.last && plan.graph[leaf].op == Op::input
                                               ? channels_last(plan.graph[leaf].type.shape)
                                               : contiguous_strides(plan.graph[leaf].type.shape));
        for (ValueId output : plan.graph.outputs())
            options.output_strides.push_back(setting.last ? channels_last(plan.graph[output].type.shape)
                                                          : contiguous_strides(plan.graph[output].type.shape));
        return options;
    }
    // A later size comes behind one with another image in the batch.
    std::unique_ptr<Executable> compiled(const Graph& graph, const Setting& setting) const {
        if (!setting.later) return compile_cuda(plan, options);
        std::vector<Type> types;
        for (ValueId leaf : graph.leaves()) {
            types.push_back(graph[leaf].type);
            if (graph[leaf].op == Op::input) types.back().shape[0] += 1;
        }
        const Plan first = planned(graph.with_leaf_types(types));
        const auto known = no_kernels_yet();
        const auto again = [](const Plan& of) { return [of](const std::vector<Type>&) { return of; }; };
        compile_knowing(first, options_for(first, setting), known, again(first));
        return compile_knowing(plan, options, known, again(plan));
    }

    void set_leaf(size_t i, const std::vector<double>& values) {
        const TensorView& v = leaves[i];
        std::vector<char> host(static_cast<size_t>(numel(v.shape) * bytes(v.dtype)));
        const auto at = offsets(v.shape, v.strides);
        for (size_t e = 0; e < at.size(); ++e) put(host.data(), v.dtype, at[e], values[e]);
        if (!host.empty())
            check(driver().cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(v.data), host.data(), host.size()),
                  "cuMemcpyHtoD");
    }
    std::vector<char> output_bytes(size_t i) const {
        const TensorView& v = outputs[i];
        std::vector<char> host(static_cast<size_t>(numel(v.shape) * bytes(v.dtype)));
        if (!host.empty())
            check(driver().cuMemcpyDtoH(host.data(), reinterpret_cast<CUdeviceptr>(v.data), host.size()),
                  "cuMemcpyDtoH");
        return host;
    }
    // Runs on poisoned outputs and workspace, and waits.
    std::vector<std::vector<char>> run() {
        for (size_t o = 0; o < outputs.size(); ++o) memory[leaves.size() + o]->poison();
        workspace->poison();
        executable->run(leaves, outputs, context);
        check(driver().cuCtxSynchronize(), "run");
        std::vector<std::vector<char>> results;
        for (size_t o = 0; o < outputs.size(); ++o) results.push_back(output_bytes(o));
        return results;
    }
    bool bands_whole() const {
        return workspace->bands_whole() &&
               std::all_of(memory.begin(), memory.end(), [](const auto& m) { return m->bands_whole(); });
    }
};

inline double rounded(double value, DType dtype) {
    double slot = 0;
    put(&slot, dtype, 0, value);
    return get(&slot, dtype, 0);
}

inline double rounded_to_tf32(double value) {
    auto f = static_cast<float>(value);
    uint32_t u;
    std::memcpy(&u, &f, 4);
    u = (u + 0x1000u) & 0xffffe000u;
    std::memcpy(&f, &u, 4);
    return static_cast<double>(f);
}

struct Verdict {
    double error = 0;    // largest, relative to the largest value of its output
    double allowed = 0;  // of that output
    bool right = true;
};

// The leaves, some of them an ulp further: another sample of what rounding does to values that cancel.
inline std::vector<std::vector<double>> shaken(const Graph& graph, std::vector<std::vector<double>> leaves,
                                               uint64_t seed) {
    Random random(seed);
    for (size_t i = 0; i < leaves.size(); ++i) {
        const DType dtype = graph[graph.leaves()[i]].type.dtype;
        const double ulp = dtype == DType::f16 ? 0x1p-10 : dtype == DType::bf16 ? 0x1p-7 : 0x1p-23;
        for (double& v : leaves[i])
            if (random.chance(0.5)) v = rounded(v * (1 + ulp), dtype);
    }
    return leaves;
}

// Runs a graph twice and compares with float64. What an error may be is measured by what rounding alone does to the
// graph: by the reference that rounds every value to its dtype (on `samples` neighbouring inputs: what cancels to
// nothing, a bias' gradient before a norm, is all rounding, and once it may be small by chance), in f32 by what an ulp
// of the leaves does to the result (the least of many sums is one that cancels, and the reference adds exactly), and
// (TF32) by the reference on rounded leaves. Throws where two runs differ, or where memory around the tensors was
// touched.
inline Verdict examine(const Graph& graph, std::vector<std::vector<double>> leaves, const Setting& setting,
                       uint64_t samples = 4) {
    bool wide = true;
    for (size_t i = 0; i < leaves.size(); ++i) {
        const DType dtype = graph[graph.leaves()[i]].type.dtype;
        wide &= dtype == DType::f64;
        for (double& v : leaves[i]) v = rounded(v, dtype);
    }
    const auto expected = evaluate(graph, leaves);
    std::vector<std::vector<std::vector<double>>> references, truths;  // what `references` should be
    for (uint64_t sample = 0; sample < samples && !wide; ++sample) {
        const auto near = sample == 0 ? leaves : shaken(graph, leaves, sample);
        references.push_back(evaluate(graph, near, Arithmetic::as_typed));
        truths.push_back(sample == 0 ? expected : evaluate(graph, near));
    }
    if (wide) {  // the truth has roundings of its own: those of another order of the same sums tell how large
        references.push_back(evaluate(rewrite(graph).rewritten, leaves));
        truths.push_back(expected);
    }
    if (setting.precision == Fp32Precision::tf32 && !wide) {
        auto coarse = leaves;
        for (auto& leaf : coarse)
            for (double& v : leaf) v = rounded_to_tf32(v);
        references.push_back(evaluate(graph, coarse));
        truths.push_back(expected);
    }
    Session session(graph, setting);
    for (size_t i = 0; i < leaves.size(); ++i) session.set_leaf(i, leaves[i]);
    const auto first = session.run();
    require(session.run() == first, "two runs differ bitwise");
    require(session.bands_whole(), "memory around a tensor was written");
    Verdict verdict;
    for (size_t o = 0; o < expected.size(); ++o) {
        const TensorView& v = session.outputs[o];
        const double eps = v.dtype == DType::f64   ? 0x1p-52
                           : v.dtype == DType::f32 ? 0x1p-23
                           : v.dtype == DType::f16 ? 0x1p-10
                                                   : 0x1p-7;
        double scale = 0, natural = 0, moved = 0;
        for (double e : expected[o]) scale = std::max(scale, std::fabs(e));
        // Where all cancels to exactly nothing (0.5 - 0.5), values of size 1 did: a fused multiply-add leaves their
        // rounding.
        scale = scale == 0 ? 1 : std::max(scale, 1e-3);
        for (size_t k = 0; k < references.size(); ++k)
            for (size_t e = 0; e < expected[o].size(); ++e) {
                const double error = std::fabs(references[k][o][e] - truths[k][o][e]) / scale;
                natural = std::max(natural, std::isfinite(error) ? error : 1e9);
            }
        for (size_t k = 1; k < samples && v.dtype == DType::f32; ++k)
            for (size_t e = 0; e < expected[o].size(); ++e) {
                const double by = std::fabs(truths[k][o][e] - expected[o][e]) / scale;
                if (std::isfinite(by)) moved = std::max(moved, by);
            }
        if (wide) natural = std::min(natural, 1e-9);  // no rounding is more: a rule that is wrong excuses nothing
        double floor = v.dtype == DType::f64 ? 1e-10 : v.dtype == DType::f32 ? 5e-6 : 4 * eps;
        if (setting.precision == Fp32Precision::tf32 && v.dtype == DType::f32) floor = 5e-4;
        const double allowed = std::max({floor, moved, (v.dtype == DType::f32 ? 16 : 3) * natural});
        const auto at = offsets(v.shape, v.strides);
        double worst = 0;
        for (size_t e = 0; e < at.size(); ++e) {
            const double got = get(first[o].data(), v.dtype, at[e]);
            if (got == rounded(expected[o][e], v.dtype)) continue;  // infinities too
            const double error = std::fabs(got - expected[o][e]) / scale;
            worst = std::max(worst, std::isnan(error) ? 1e9 : error);
        }
        if (worst > allowed) verdict.right = false;
        if (o == 0 || worst / allowed > verdict.error / verdict.allowed)
            verdict.error = worst, verdict.allowed = allowed;
    }
    return verdict;
}

}  // namespace transfuse::cuda
