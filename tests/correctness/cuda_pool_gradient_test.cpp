// Gradients of pools: windows that overlap, leave gaps, are dilated, hang over the border; equal maxima, and NaN.
#include <limits>

#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

const char* const pools[] = {
    "[2,3,9,11]; kernel=[2,2] stride=[2,2]",
    "[2,3,9,11]; kernel=[3,3] stride=[2,2] padding=[1,1]",
    "[2,3,9,11]; kernel=[3,2] stride=[1,3] padding=[1,0]",
    "[2,3,9,11]; kernel=[3,3] stride=[2,1] padding=[1,1] dilation=[2,3]",
    "[2,3,9,11]; kernel=[5,4] stride=[3,4] padding=[2,1]",
    "[2,3,9,12]; kernel=[3,3] stride=[2,2] ceil_mode=1",
    "[2,3,17]; kernel=[4] stride=[2] padding=[1]",
    "[1,2,5,6,7]; kernel=[2,3,2] stride=[2,2,1] padding=[0,1,1]",
};

// Whole numbers, so that windows have equal elements; and in every other case some that are none.
std::vector<std::vector<double>> tied_leaves(const Graph& graph, uint64_t seed) {
    auto leaves = random_leaves(graph, seed);
    for (size_t i = 0; i < leaves[0].size(); ++i) {
        leaves[0][i] = std::round(3 * leaves[0][i]);
        if (seed % 2 && i % 13 == seed % 13) leaves[0][i] = std::numeric_limits<double>::quiet_NaN();
    }
    return leaves;
}

std::string pooled(const std::string& shape, const std::string& pool, const std::string& attributes) {
    const Graph graph = graph_of("%x = input f32" + shape + "  %z = " + pool + "(%x) " + attributes);
    return to_string(graph[graph.outputs()[0]].type.shape);
}

HostCase gradient(const std::string& body, uint64_t seed) {
    const Graph graph = graph_of(body);
    return make(graph, tied_leaves(graph, seed), false, true, {});
}

TEST(CudaPoolGradient, Max) {
    std::vector<HostCase> cases;
    uint64_t seed = 0;
    for (const std::string pool : pools) {
        const std::string shape = pool.substr(0, pool.find(';')), attributes = pool.substr(pool.find(';') + 1);
        const std::string leaves =
            "%x = input f32" + shape + "  %g = input f32" + pooled(shape, "max_pool", attributes);
        for (int turn = 0; turn < 2; ++turn)
            cases.push_back(gradient(leaves + "  %z = max_pool_grad(%x, %g)" + attributes, ++seed));
    }
    const std::string shape = "[2,3,10,7]", attributes = "output_size=[4,3]";
    cases.push_back(gradient(
        "%x = input f32" + shape + "  %g = input f32[2,3,4,3]  %z = max_pool_grad(%x, %g) " + attributes, ++seed));
    check(cases, 1e-6);
}

TEST(CudaPoolGradient, Mean) {
    std::vector<HostCase> cases;
    uint64_t seed = 0;
    for (const std::string pool : pools) {
        if (pool.find("dilation") != std::string::npos) continue;
        const std::string shape = pool.substr(0, pool.find(';')), attributes = pool.substr(pool.find(';') + 1);
        for (const char* counted : {" count_include_pad=0", " count_include_pad=1"}) {
            const std::string all = attributes + counted, sizes = "[" + shape.substr(5);
            cases.push_back(gradient(
                "%g = input f32" + pooled(shape, "avg_pool", all) + "  %z = avg_pool_grad(%g) sizes=" + sizes + all,
                seed += 2));
        }
    }
    check(cases, 1e-6);
}

}  // namespace
}  // namespace transfuse::cuda
