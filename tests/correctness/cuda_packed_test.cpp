// Packed weights: threads that are neighbours take taps or channels, as these are neighbours in memory.
#include <gtest/gtest.h>

#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

// Weights as they come and channels last; numbers of tiles that fill no eight threads; rows beyond the last channel.
TEST(CudaPacked, NeighboursTakeWhatIsSideBySide) {
    const std::string leaves =
                          "%x = input f32[1,40,5,6]  %u = param f32[40,72,3,3]  %v = param f32[72,4,4,72]  %w = param "
                          "f32[24,72,1,1]  ",
                      taps = "%y = conv_transpose(%x, %u) padding=[1,1]  %z = relu(%y)",
                      channels =
                          "%y = conv_transpose(%x, %u) padding=[1,1]  %r = relu(%y)  %p = permute(%v) order=[0,3,1,2]  "
                          "%s = conv(%r, %p) stride=[2,2] padding=[1,1]  %t = tanh(%s)  %z = conv(%t, %w)";
    std::vector<HostCase> cases;
    for (const bool portable : {false, true})
        for (const auto& [body, beside] : {std::pair{taps, 0}, std::pair{channels, 1}}) {
            Target target;
            target.multiprocessors = 2, target.portable_only = portable;
            const Graph graph = graph_of(leaves + body);
            cases.push_back(make(graph, random_leaves(graph, 5), false, true, target));
            EXPECT_EQ(kernels_with(cases.back().assembly, "tile = turn / (2 * KSTEPS) % TILES") > 0, beside > 0);
            EXPECT_GE(kernels_with(cases.back().assembly, "tile = turn % TILES"), 1);
        }
    check(cases, 1e-5);
}

}  // namespace
}  // namespace transfuse::cuda
