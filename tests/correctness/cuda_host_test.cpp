// The general CUDA kernels, generated for random graphs and executed on the CPU, against the float64 reference.
#include <gtest/gtest.h>

#include "cuda_host/host.h"
#include "random_graphs.h"

namespace transfuse::cuda {
namespace {

const std::string shim_folder = std::string(__FILE__).substr(0, std::string(__FILE__).rfind("/correctness")) + "/cuda_host";

struct Case {
    Graph graph;
    Plan plan;
    Assembly assembly;
    std::vector<Sizes> leaf_strides, output_strides;
    std::vector<std::vector<double>> leaves, expected;
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

double rounded(double value, DType dtype) {
    double slot = 0;
    put(&slot, dtype, 0, value);
    return get(&slot, dtype, 0);
}

Case make(const Graph& graph, std::vector<std::vector<double>> leaves, bool last, bool aligned) {
    Case c;
    c.graph = graph;
    c.leaves = std::move(leaves);
    for (size_t i = 0; i < c.leaves.size(); ++i)
        for (double& v : c.leaves[i]) v = rounded(v, graph[graph.leaves()[i]].type.dtype);
    c.expected = evaluate(graph, c.leaves);
    c.plan = plan(rewrite(graph).rewritten, Machine::h200());
    for (ValueId leaf : c.plan.graph.leaves())
        c.leaf_strides.push_back(last && c.plan.graph[leaf].op == Op::input ? channels_last(c.plan.graph[leaf].type.shape)
                                                                           : contiguous_strides(c.plan.graph[leaf].type.shape));
    for (ValueId output : c.plan.graph.outputs())
        c.output_strides.push_back(last ? channels_last(c.plan.graph[output].type.shape) : contiguous_strides(c.plan.graph[output].type.shape));
    CompileOptions options;
    options.leaf_strides = c.leaf_strides, options.output_strides = c.output_strides;
    Target target;
    target.general_only = true;
    c.assembly = assemble(c.plan, options, target, aligned);
    return c;
}

void check(const std::vector<Case>& cases, double tolerance) {
    HostKernels kernels;
    for (const Case& c : cases)
        for (const BoundLaunch& bound : c.assembly.launches) kernels.add(bound.launch);
    kernels.build(shim_folder);
    for (const Case& c : cases) {
        const auto results = kernels.run(c.plan.graph, c.assembly, c.leaf_strides, c.output_strides, c.leaves);
        ASSERT_EQ(results.size(), c.expected.size());
        for (size_t o = 0; o < results.size(); ++o) {
            ASSERT_EQ(results[o].size(), c.expected[o].size()) << print(c.graph);
            double scale = 1e-3;
            for (double v : c.expected[o]) scale = std::max(scale, std::fabs(v));
            for (size_t e = 0; e < results[o].size(); ++e)
                ASSERT_LE(std::fabs(results[o][e] - c.expected[o][e]), tolerance * scale)
                    << "output " << o << " element " << e << ": " << results[o][e] << " instead of " << c.expected[o][e] << "\n"
                    << print(c.graph) << print(c.plan);
        }
    }
}

void random_cases(uint64_t first, uint64_t count, DType dtype, double tolerance, bool last, bool aligned) {
    std::vector<Case> cases;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        RandomGraphOptions options;
        options.dtype = dtype;
        const Graph graph = random_graph(seed, options);
        cases.push_back(make(graph, random_leaves(graph, seed), last, aligned));
    }
    check(cases, tolerance);
}

TEST(CudaHost, RandomGraphsFloat64) { random_cases(1, 40, DType::f64, 1e-9, false, true); }
TEST(CudaHost, RandomGraphsFloat32) { random_cases(101, 40, DType::f32, 2e-5, false, true); }
TEST(CudaHost, RandomGraphsChannelsLast) { random_cases(201, 25, DType::f32, 2e-5, true, true); }
TEST(CudaHost, RandomGraphsUnaligned) { random_cases(301, 15, DType::f64, 1e-9, false, false); }
TEST(CudaHost, RandomGraphsHalf) { random_cases(401, 20, DType::f16, 3e-2, false, true); }

}  // namespace
}  // namespace transfuse::cuda
