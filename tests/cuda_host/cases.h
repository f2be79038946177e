// Graphs planned, assembled for a target and executed on the CPU, against the float64 reference.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "cuda_host/host.h"
#include "random_graphs.h"

namespace transfuse::cuda {

inline const std::string shim_folder = TRANSFUSE_SOURCE_DIR "/tests/cuda_host";

struct HostCase {
    Graph graph;
    Plan plan;
    Assembly assembly;
    std::vector<Sizes> leaf_strides, output_strides;
    std::vector<std::vector<double>> leaves, expected;
};

inline std::string with(std::string text, const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

// A graph written in one line, statements two spaces apart. It says f32 where it shall have the dtype, and has %z for
// its result unless it says what it returns.
inline Graph graph_of(const std::string& line, const std::string& dtype = "f32") {
    std::string text = with(line, "f32", dtype);
    if (text.find("  return ") == std::string::npos) text += "  return %z";
    return parse("graph g {\n  " + with(with(text, "  %", "\n  %"), "  return ", "\n  return ") + "\n}\n");
}

// How many of a plan's kernels have a word in their text, have this name, say something of themselves.
inline int kernels_with(const Assembly& assembly, const std::string& word) {
    return static_cast<int>(
        std::count_if(assembly.launches.begin(), assembly.launches.end(),
                      [&](const BoundLaunch& b) { return b.launch.source->text.find(word) != std::string::npos; }));
}
inline int kernels_named(const Assembly& assembly, const std::string& entry) {
    return static_cast<int>(std::count_if(assembly.launches.begin(), assembly.launches.end(),
                                          [&](const BoundLaunch& b) { return b.launch.source->entry == entry; }));
}
inline int kernels_noted(const Assembly& assembly, const std::string& word) {
    return static_cast<int>(
        std::count_if(assembly.launches.begin(), assembly.launches.end(),
                      [&](const BoundLaunch& b) { return b.launch.note.find(word) != std::string::npos; }));
}

inline double rounded(double value, DType dtype) {
    double slot = 0;
    put(&slot, dtype, 0, value);
    return get(&slot, dtype, 0);
}

// `wanted`: words of the dense pass's configuration; the first whose text has them is taken. `last`: channels last,
// inputs and results, or results as `last_results` says.
inline HostCase make(const Graph& graph, std::vector<std::vector<double>> leaves, bool last, bool aligned,
                     const Target& target, Fp32Precision precision = Fp32Precision::strict,
                     const std::string& wanted = "", std::optional<bool> last_results = {},
                     std::optional<double> bandwidth = {}) {
    HostCase c;
    c.graph = graph;
    c.leaves = std::move(leaves);
    for (size_t i = 0; i < c.leaves.size(); ++i)
        for (double& v : c.leaves[i]) v = rounded(v, graph[graph.leaves()[i]].type.dtype);
    c.expected = evaluate(graph, c.leaves);
    c.plan = plan(rewrite(graph).rewritten, Machine::h200());
    c.plan.machine.launch = 0;   // else small problems are multiplied in strict fp32 though TF32 is asked for
    c.plan.machine.bandwidth = bandwidth.value_or(c.plan.machine.bandwidth);
    for (ValueId leaf : c.plan.graph.leaves())
        c.leaf_strides.push_back(last && c.plan.graph[leaf].op == Op::input
                                     ? channels_last(c.plan.graph[leaf].type.shape)
                                     : contiguous_strides(c.plan.graph[leaf].type.shape));
    for (ValueId output : c.plan.graph.outputs())
        c.output_strides.push_back(last_results.value_or(last)
                                       ? channels_last(c.plan.graph[output].type.shape)
                                       : contiguous_strides(c.plan.graph[output].type.shape));
    CompileOptions options;
    options.leaf_strides = c.leaf_strides, options.output_strides = c.output_strides;
    options.precision = precision;
    c.assembly = assemble(c.plan, options, target, aligned);
    for (size_t pass = 0; pass < c.plan.passes.size() && !wanted.empty(); ++pass) {
        if (c.plan.passes[pass].kind != PassKind::dense) continue;
        for (const std::string& config : configs_of(c.plan, pass, c.assembly, options, target, aligned, 60))
            if (config.find(wanted) != std::string::npos) {
                c.assembly = assemble(c.plan, options, target, aligned, {{pass, config}});
                return c;
            }
    }
    return c;
}

inline void check(const std::vector<HostCase>& cases, double tolerance) {
    HostKernels kernels;
    for (const HostCase& c : cases)
        for (const BoundLaunch& bound : c.assembly.launches) kernels.add(bound.launch);
    kernels.build(shim_folder);
    for (const HostCase& c : cases) {
        const auto results = kernels.run(c.plan.graph, c.assembly, c.leaf_strides, c.output_strides, c.leaves);
        ASSERT_EQ(results.size(), c.expected.size());
        for (size_t o = 0; o < results.size(); ++o) {
            ASSERT_EQ(results[o].size(), c.expected[o].size()) << print(c.graph);
            double scale = 1e-3;
            for (double v : c.expected[o])
                if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
            auto near = [&](double found, double expected) {
                if (std::isnan(expected)) return std::isnan(found);
                return found == expected || (std::isfinite(expected) && std::fabs(found - expected) <= tolerance * scale);
            };
            for (size_t e = 0; e < results[o].size(); ++e)
                ASSERT_TRUE(near(results[o][e], c.expected[o][e]))
                    << "case " << &c - cases.data() + 1 << " of " << cases.size() << ", output " << o << " element " << e << ": "
                    << results[o][e] << " instead of " << c.expected[o][e] << ", within " << tolerance * scale
                    << "\n"
                    << print(c.graph) << print(c.plan);
        }
    }
}

}  // namespace transfuse::cuda
