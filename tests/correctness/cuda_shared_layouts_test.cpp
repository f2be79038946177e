// What the tensors of a call are: sizes of a program share what is the same, and each tells its own.
#include <gtest/gtest.h>

#include "cuda/sizes/known.h"

namespace transfuse::cuda {
namespace {

Graph at_width(int64_t width) {
    const std::string x = "f32[2,4," + std::to_string(width) + "]";
    return parse("graph g {\n  %w = param f32[4,3,5]\n  %x = input " + x +
                 "\n  %b = param f32[3]\n  %s = param f32[2,1]\n  %y = relu(%x)\n  return %y\n}\n");
}

std::vector<Sizes> contiguous(const Graph& graph) {
    std::vector<Sizes> strides;
    for (ValueId leaf : graph.leaves()) strides.push_back(contiguous_strides(graph[leaf].type.shape));
    return strides;
}

void expect_told(const Layouts& layouts, const Graph& graph, const std::vector<Sizes>& strides) {
    ASSERT_EQ(layouts.size(), graph.leaves().size());
    EXPECT_EQ(layouts.strides(), strides);
    for (size_t i = 0; i < layouts.size(); ++i) EXPECT_EQ(layouts.types()[i], graph[graph.leaves()[i]].type);
}

TEST(CudaSharedLayouts, ASizeKeepsItsInputs) {
    KnownKernels kernels;
    for (const int64_t width : {6, 7, 9, 6}) {
        const Graph graph = at_width(width);
        const Layouts layouts = kernels.leaves_of(graph, contiguous(graph));
        expect_told(layouts, graph, contiguous(graph));
        EXPECT_EQ(layouts.own(), width == 6 ? 0U : 1U);
        expect_told(kernels.leaves_of(graph, {}), graph, contiguous(graph));
    }
}

TEST(CudaSharedLayouts, OtherStridesAreTold) {
    KnownKernels kernels;
    const Graph graph = at_width(6);
    kernels.leaves_of(graph, contiguous(graph));
    std::vector<Sizes> strides = contiguous(graph);
    strides[0] = {1, 20, 4};
    expect_told(kernels.leaves_of(graph, strides), graph, strides);
    strides = {{1, 20, 4}, {1, 2, 8}, {2}, {3, 3}};  // nothing is the same
    const Layouts layouts = kernels.leaves_of(graph, strides);
    expect_told(layouts, graph, strides);
    EXPECT_EQ(layouts.own(), 0U);
}

}  // namespace
}  // namespace transfuse::cuda
