// Pools, pads, boxes and their gradients where they go alone: windows that overlap, reach into padding, vary in size or
// hold one element, every layout and type, NaN and infinities.
#include <limits>

#include "cpu_check.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

const char* const texts[] = {
    "%x = input T[2,19,9,11] %y = max_pool(%x) kernel=[3,3] stride=[2,2] padding=[1,1]",
    "%x = input T[2,5,9,11] %y = min_pool(%x) kernel=[2,3] stride=[1,2] padding=[1,1] dilation=[3,2]",
    "%x = input T[3,4,40] %y = max_pool(%x) kernel=[5] stride=[2] padding=[2] ceil_mode=1",
    "%x = input T[1,17,5,6,7] %y = max_pool(%x) kernel=[3,1,2] stride=[1,2,2] padding=[1,0,1]",
    "%x = input T[2,33,7,10] %y = avg_pool(%x) kernel=[3,3] stride=[2,2] padding=[1,1] count_include_pad=0",
    "%x = input T[2,6,10,9] %y = avg_pool(%x) kernel=[3,4] stride=[2,3] padding=[1,2] ceil_mode=1",
    "%x = input T[2,6,10,9] %y = avg_pool(%x) kernel=[3,2] stride=[3,2] padding=[1,0] divisor=5",
    "%x = input T[2,20,10,13] %y = adaptive_avg_pool(%x) output_size=[4,5]",
    "%x = input T[2,20,10,13] %y = adaptive_max_pool(%x) output_size=[7,3]",
    "%x = input T[2,19,9,11] %g = input T[2,19,5,6] %y = max_pool_grad(%x, %g) kernel=[3,3] stride=[2,2] padding=[1,1]",
    "%x = input T[2,3,8,6,10] %g = input T[2,3,4,3,5] %y = max_pool_grad(%x, %g) kernel=[2,2,2] stride=[2,2,2]",
    "%x = input T[2,3,10,13] %g = input T[2,3,7,3] %y = max_pool_grad(%x, %g) output_size=[7,3]",
    "%g = input T[2,19,5,6] %y = avg_pool_grad(%g) sizes=[9,11] kernel=[3,3] stride=[2,2] padding=[1,1]",
    "%g = input T[2,19,7,3] %y = avg_pool_grad(%g) sizes=[10,13] output_size=[7,3]",
    "%x = input T[2,18,5,6] %y = pad(%x) start=[0,1,2,0] end=[0,0,3,4] value=1.5",
    "%x = input T[3,4,7] %y = pad(%x) start=[0,-1,-2] end=[1,2,-3]",
    "%h = input T[2,36,1,6] %y = box_spread(%h) dims=[2] counts=[3] los=[0,2,1] his=[4,8,7] steps=[1,2,3] sizes=[9]",
    "%h = input T[2,24,1,1] %y = box_spread(%h) dims=[2,3] counts=[2,3] los=[0,1,0,1,4] his=[4,4,6,6,4] "
    "steps=[1,1,1,2,1] "
    "sizes=[5,7]",
};

class Alone : public testing::TestWithParam<const char*> {};

TEST_P(Alone, MatchesReference) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
        std::string text = std::string("graph g { ") + GetParam() + " return %y }";
        for (size_t at; (at = text.find(" T[")) != std::string::npos;) text.replace(at + 1, 1, name(dtype));
        const Graph g = parse(text);
        for (const Layout layout : {Layout::contiguous, Layout::channels_last, Layout::gaps, Layout::reversed}) {
            auto leaves = random_leaves(g, 61);
            CpuCase c{layout, layout == Layout::gaps ? Layout::channels_last : layout};
            c.tolerance = tolerance_of(dtype);
            expect_matches_reference(g, leaves, c);
            for (size_t i = 0; i < leaves[0].size(); i += 7)
                leaves[0][i] = i % 3 == 0   ? std::numeric_limits<double>::quiet_NaN()
                               : i % 3 == 1 ? std::numeric_limits<double>::infinity()
                                            : -std::numeric_limits<double>::infinity();
            expect_matches_reference(g, leaves, c);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(CpuPools, Alone, testing::ValuesIn(texts));

}  // namespace
}  // namespace transfuse
