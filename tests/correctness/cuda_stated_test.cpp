// What a file is told to launch: the kernels `optimize` would come to, with every argument.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/assemble/assemble.h"
#include "cuda/dense/dense.h"
#include "cuda/runtime/module.h"
#include "cuda_host/nvrtc.h"
#include "transfuse/program.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

const std::string gated = R"(graph g { %x = input f32[2,128,20,20,20]
  %w = param f32[128,24,3,3,3]
  %y = conv_transpose(%x, %w) stride=[4,4,4]
  %m = mean(%y) dims=[2,3,4] keepdim=1
  %s = sigmoid(%m)
  %z = mul(%y, %s)
  return %z
})";

std::vector<TensorView> views(const std::vector<Sizes>& shapes) {
    std::vector<TensorView> list;
    for (const Sizes& shape : shapes) list.push_back({nullptr, DType::f32, shape, contiguous_strides(shape)});
    return list;
}

CallMode mode(Fp32Precision precision, bool inference) {
    CallMode asked;
    asked.engine = Engine::cuda, asked.precision = precision, asked.inference = inference;
    return asked;
}

// The planner's first choice for this one holds more than registers do.
TEST(CudaStated, DenseKernelsThatSpillArePassedOver) {
    if (std::string reason; !cuda::find_nvrtc(&reason)) GTEST_SKIP() << reason;
    CompileOptions options;
    options.precision = Fp32Precision::tf32;
    const Graph rewritten =
        rewrite(parse(gated), {.without = {}, .only = {}, .prices = Machine::h200().prices}).rewritten;
    const cuda::Assembly first = cuda::assemble(plan(rewritten, Machine::h200()), options, cuda::Target{}, true);
    const auto dense = std::ranges::find_if(
        first.launches, [](const cuda::BoundLaunch& bound) { return bound.launch.source->entry == cuda::dense_entry; });
    ASSERT_NE(dense, first.launches.end());
    const cuda::Source& source = *dense->launch.source;
    EXPECT_GT(cuda::resources_in(cuda::compiled(source, 90)->log, source.entry).spill_bytes, 512)
        << "else this test asks nothing";
    Program program(gated);
    const std::string told =
        program.stated(views({{2, 128, 20, 20, 20}, {128, 24, 3, 3, 3}}), {}, mode(Fp32Precision::tf32, true), 90, {});
    EXPECT_NE(told.find("\"compiled\":true"), std::string::npos);
    EXPECT_NE(told.find("\"entry\":\"transfuse_dense\""), std::string::npos);
    EXPECT_EQ(told.find(dense->launch.note.str()), std::string::npos);
}

// Sums that forward keeps are leaves of the gradients, behind the gradient of the result.
TEST(CudaStated, GradientsTakeWhatForwardKeeps) {
    Program program(R"(graph g { %x = input f32[2,8,16,16]
  %w = param f32[8,4,3,3]
  %y = conv_transpose(%x, %w) stride=[2,2]
  %m = mean(%y) dims=[2,3]
  return %m
})");
    const auto leaves = views({{2, 8, 16, 16}, {8, 4, 3, 3}});
    CallMode asked = mode(Fp32Precision::strict, false);
    asked.keep.gradient = {.outputs = {0}, .wrt = {1}};
    const std::string forward = program.stated(leaves, {}, asked, 90, {});
    const std::string backward = program.stated(leaves, {}, asked, 90, {.outputs = {0}, .wrt = {1}});
    const auto list = [](const std::string& told, const std::string& key) {
        const size_t begin = told.find("\"" + key + "\":");
        return told.substr(begin, told.find("]]]", begin) - begin);
    };
    const std::string kept = list(forward, "outputs"), given = list(backward, "leaves");
    const std::string sums = kept.substr(kept.rfind("[\"f32\""));
    EXPECT_NE(kept.find("[2,4]"), std::string::npos);
    EXPECT_TRUE(given.ends_with(sums)) << given << " should end with " << sums;
    EXPECT_NE(list(backward, "outputs").find("[8,4,3,3]"), std::string::npos);
    EXPECT_EQ(backward.find("[\"leaf\",0,"), std::string::npos) << "x itself is not read again";
}

}  // namespace
}  // namespace transfuse
