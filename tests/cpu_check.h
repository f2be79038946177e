// Runs a graph through rewrite, plan and the CPU engine on tensors of any layout, and holds the result against the fp64
// reference. Outputs are poisoned with NaN before each run and surrounded by guards.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "cpu/dense/dense_frame.h"
#include "cpu/tensors/element.h"
#include "transfuse/transfuse.h"

namespace transfuse {

enum class Layout { contiguous, channels_last, gaps, reversed };

// Dense passes go this way, however long it takes.
struct DenseBy {
    explicit DenseBy(cpu::DenseWay way) { cpu::dense_way = way; }
    ~DenseBy() { cpu::dense_way = cpu::DenseWay::shorter; }
};

// A tensor with memory of its own.
class HostTensor {
public:
    HostTensor(const Type& type, Layout layout) : type_(type) {
        const size_t rank = type.shape.size();
        std::vector<size_t> order(rank);
        for (size_t i = 0; i < rank; ++i) order[i] = i;
        if (layout == Layout::channels_last && rank > 2) {
            order.erase(order.begin() + 1);
            order.push_back(1);
        }
        strides_.assign(rank, 0);
        int64_t stride = layout == Layout::gaps ? 2 : 1;
        for (size_t i = rank; i-- > 0;) {
            strides_[order[i]] = stride;
            stride *= std::max<int64_t>(1, type.shape[order[i]]) + (layout == Layout::gaps ? 1 : 0);
        }
        start_ = guard;
        if (layout == Layout::reversed && rank > 0 && numel(type.shape) > 0) {
            start_ += (type.shape[rank - 1] - 1) * strides_[rank - 1];
            strides_[rank - 1] = -strides_[rank - 1];
        }
        memory_.assign(static_cast<size_t>((stride + 2 * guard) * bytes(type.dtype)), 0);
        poison();
    }

    TensorView view() { return {memory_.data() + start_ * bytes(type_.dtype), type_.dtype, type_.shape, strides_}; }
    void poison() {
        const TensorView all{memory_.data(), type_.dtype, {}, {}};
        for (int64_t i = 0; i < static_cast<int64_t>(memory_.size()) / bytes(type_.dtype); ++i)
            cpu::set(all, i, std::nan(""));
    }
    void fill(const std::vector<double>& values) {
        const TensorView own = view();
        for_each([&](size_t i, int64_t offset) { cpu::set(own, offset, values[i]); });
    }
    std::vector<double> values() {
        std::vector<double> result(static_cast<size_t>(numel(type_.shape)));
        const TensorView own = view();
        for_each([&](size_t i, int64_t offset) { result[i] = cpu::get(own, offset); });
        return result;
    }
    // Everything that is no element is still poison.
    bool guards_hold() {
        std::vector<double> kept = values();
        const TensorView own = view();
        for_each([&](size_t, int64_t offset) { cpu::set(own, offset, std::nan("")); });
        bool hold = true;
        const TensorView all{memory_.data(), type_.dtype, {}, {}};
        for (int64_t i = 0; i < static_cast<int64_t>(memory_.size()) / bytes(type_.dtype); ++i)
            hold = hold && std::isnan(cpu::get(all, i));
        fill(kept);
        return hold;
    }

private:
    template <class F>
    void for_each(const F& f) {
        const auto count = static_cast<size_t>(numel(type_.shape));
        if (count == 0) return;
        cpu::Odometer at(type_.shape, 0);
        for (size_t i = 0; i < count; ++i, at.next()) f(i, at.offset(strides_));
    }
    static constexpr int64_t guard = 32;
    Type type_;
    Sizes strides_;
    int64_t start_ = 0;
    std::vector<char> memory_;
};

struct CpuCase {
    Layout inputs = Layout::contiguous, outputs = Layout::contiguous;
    int threads = 2;
    double tolerance = 1e-5;  // of the largest magnitude in the output
    bool rewritten = true;
    bool freeze = false;
};

inline double tolerance_of(DType dtype) {
    return dtype == DType::f64 ? 1e-11 : dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 1e-2 : 6e-2;
}

// Values rounded to the dtype the leaf has, so that engine and reference see the same numbers.
inline std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
    std::vector<double> result = values;
    for (double& v : result) {
        double slot = 0;
        const TensorView one{&slot, dtype, {}, {}};
        cpu::set(one, 0, v);
        v = cpu::get(one, 0);
    }
    return result;
}

inline std::vector<std::vector<double>> run_cpu(const Plan& plan, const std::vector<std::vector<double>>& leaves,
                                                const CpuCase& c) {
    const Graph& graph = plan.graph;
    std::vector<HostTensor> in, out;
    std::vector<TensorView> in_views, out_views;
    for (size_t i = 0; i < graph.leaves().size(); ++i) {
        in.emplace_back(graph[graph.leaves()[i]].type, c.inputs);
        in.back().fill(leaves[i]);
    }
    for (ValueId id : graph.outputs()) out.emplace_back(graph[id].type, c.outputs);
    for (HostTensor& t : in) in_views.push_back(t.view());
    for (HostTensor& t : out) out_views.push_back(t.view());
    CompileOptions options;
    options.freeze = c.freeze;
    for (const TensorView& v : in_views) options.leaf_strides.push_back(v.strides);
    for (const TensorView& v : out_views) options.output_strides.push_back(v.strides);
    const std::unique_ptr<Executable> engine = compile_cpu(plan, options);
    std::vector<char> workspace(engine->workspace_bytes() + 512, static_cast<char>(0xff));  // NaN in every dtype
    const auto address = (reinterpret_cast<uintptr_t>(workspace.data()) + 255) / 256 * 256;
    RunContext context;
    context.threads = c.threads;
    context.workspace = reinterpret_cast<void*>(address);
    for (int repeat = 0; repeat < (c.freeze ? 2 : 1); ++repeat) {
        for (HostTensor& t : out) t.poison();
        engine->run(in_views, out_views, context);
    }
    std::vector<std::vector<double>> results;
    for (HostTensor& t : out) {
        results.push_back(t.values());
        EXPECT_TRUE(t.guards_hold()) << "written outside an output";
    }
    return results;
}

inline Plan plan_for_cpu(const Graph& graph) { return plan(rewrite(graph).rewritten, Machine::cpu(2)); }

// Compares with a tolerance relative to the largest magnitude of each output.
inline bool close(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& want,
                  double tolerance, std::string* why) {
    for (size_t o = 0; o < want.size(); ++o) {
        double scale = 1e-3;
        for (double v : want[o])
            if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
        for (size_t i = 0; i < want[o].size(); ++i) {
            const double a = got[o][i], b = want[o][i];
            if (std::isnan(a) && std::isnan(b)) continue;
            if (a == b) continue;
            if (!(std::fabs(a - b) <= tolerance * scale)) {
                *why = "output " + std::to_string(o) + " element " + std::to_string(i) + ": got " + std::to_string(a) +
                       ", expected " + std::to_string(b) + " (scale " + std::to_string(scale) + ")";
                return false;
            }
        }
    }
    return true;
}

inline void expect_matches_reference(const Graph& graph, const std::vector<std::vector<double>>& leaves,
                                     const CpuCase& c) {
    std::vector<std::vector<double>> typed = leaves;
    for (size_t i = 0; i < typed.size(); ++i) typed[i] = rounded(typed[i], graph[graph.leaves()[i]].type.dtype);
    const auto want = evaluate(graph, typed);
    const Plan ready = plan_for_cpu(graph);
    const auto got = run_cpu(ready, typed, c);
    std::string why;
    EXPECT_TRUE(close(got, want, c.tolerance, &why)) << why << "\n" << print(graph) << print(ready);
}

}  // namespace transfuse
