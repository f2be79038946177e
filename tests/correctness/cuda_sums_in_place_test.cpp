// Large gradients of weights that are returned transposed are stored so, and not copied.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/assemble/sums_in_place.h"
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

const std::string correlated =
    "%x = input f32[2,160,4,5]  %g = input f32[2,200,4,5]  "
    "%d = correlate(%x, %g) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] taps=[3,3] groups=1  %f = flip(%d) dims=[3,4]  %p = permute(%f) order=[0,2,1,3,4]  ";

TEST(CudaSumsInPlace, AreStoredAsTheirViews) {
    std::vector<HostCase> cases;
    for (const std::string& rest : {std::string("%z = reshape(%p) shape=[200,160,3,3]"),
                                    // of two views one is a copy; a sum that is returned itself
                                    std::string("%z = reshape(%p) shape=[200,160,3,3]  %y = permute(%d) order=[0,1,2,4,3]  return %z, %y"),
                                    std::string("%z = reshape(%p) shape=[200,160,3,3]  return %z, %d"),
                                    // a part, and one that is read again
                                    std::string("%z = slice(%p) axis=2 start=3 end=157"),
                                    std::string("%z = reshape(%p) shape=[200,160,3,3]  %y = conv(%x, %z)  return %z, %y")}) {
        const bool alone = cases.empty();
        for (const bool portable : alone ? std::vector<bool>{false, true} : std::vector<bool>{false}) {
            Target target;
            target.multiprocessors = 2, target.portable_only = portable;
            const Graph graph = graph_of(correlated + rest);
            cases.push_back(make(graph, random_leaves(graph, 9), portable, true, target));
            EXPECT_EQ(with_sums_in_place(cases.back().plan).has_value(), alone) << rest << print(cases.back().plan);
        }
    }
    check(cases, 1e-5);
}

}  // namespace
}  // namespace transfuse::cuda
