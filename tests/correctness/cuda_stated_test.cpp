// Programs for every size: the kernels `optimize` would come to for the example, at other sizes too.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cuda/dense/dense.h"
#include "cuda/runtime/module.h"
#include "cuda_host/nvrtc.h"
#include "emit/stated.h"
#include "transfuse/transfuse.h"

namespace transfuse::emit {
namespace {

std::string gated(int batch) {
    return "graph g { %x = input f32[" + std::to_string(batch) + R"(,128,20,20,20]
  %w = param f32[128,24,3,3,3]
  %y = conv_transpose(%x, %w) stride=[4,4,4]
  %m = mean(%y) dims=[2,3,4] keepdim=1
  %s = sigmoid(%m)
  %z = mul(%y, %s)
  return %z
})";
}

int spilled(const cuda::Assembly& assembly) {
    int most = 0;
    for (const cuda::BoundLaunch& bound : assembly.launches)
        if (const cuda::Source& source = *bound.launch.source; source.entry == cuda::dense_entry)
            most = std::max(most, cuda::resources_in(cuda::compiled(source, 90)->log, source.entry).spill_bytes);
    return most;
}

// The planner's first choice for this one holds more than registers do.
TEST(CudaStated, DenseKernelsThatSpillArePassedOver) {
    if (std::string reason; !cuda::find_nvrtc(&reason)) GTEST_SKIP() << reason;
    Request request{
        .example = gated(2), .text = gated(2), .precision = Fp32Precision::tf32, .target = {}, .gradient = {}};
    const Stated example = state(request);
    CompileOptions options;
    options.precision = request.precision;
    cuda::Decisions decisions;
    cuda::Target target = request.target;
    target.decisions = &decisions;
    EXPECT_GT(spilled(cuda::assemble(example.plan, options, target, true)), 512) << "else this test asks nothing";
    EXPECT_LE(spilled(example.assembly), 512);
    request.text = gated(4);
    EXPECT_EQ(state(request).assembly.configs, example.assembly.configs);
}

}  // namespace
}  // namespace transfuse::emit
