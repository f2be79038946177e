// Large weights, of which a thread packs several tiles: some taps of its channels.
#include <gtest/gtest.h>

#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

const std::string large =
    "%x = input f32[1,256,3,4]  %u = param f32[256,256,4,4]  %v = param f32[256,264,4,4]  %w = param f32[264,32,3,3]  "
    "%y = conv_transpose(%x, %u) padding=[2,1]  %r = relu(%y)  %s = conv_transpose(%r, %v) stride=[2,2] padding=[2,2]  %t = silu(%s)  "
    "%z = conv_transpose(%t, %w) padding=[1,1]";

TEST(CudaPacked, ThreadsTakeSeveralTiles) {
    std::vector<HostCase> cases;
    for (const bool portable : {false, true}) {
        Target target;
        target.multiprocessors = 2, target.portable_only = portable;
        const Graph graph = graph_of(large);
        cases.push_back(make(graph, random_leaves(graph, 5), false, true, target));
        EXPECT_GE(kernels_with(cases.back().assembly, "EACH = 4") + kernels_with(cases.back().assembly, "EACH = 5"), 1);
    }
    check(cases, 1e-5);
}

}  // namespace
}  // namespace transfuse::cuda
