// Where TF32 is allowed: which products take it. The cases are large enough that it pays.
#include <gtest/gtest.h>

#include "cuda/dense/dense.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {
namespace {

// Whether the first dense pass multiplies in TF32.
bool rounds(const std::string& lines) {
    const Plan planned = plan(rewrite(parse("graph g {\n" + lines + "}\n")).rewritten, Machine::h200());
    Strides strides;
    for (const Node& node : planned.graph.nodes()) strides.push_back(contiguous_strides(node.type.shape));
    for (const Pass& pass : planned.passes) {
        if (pass.kind != PassKind::dense) continue;
        const Surroundings around{.plan = planned,
                                  .pass = pass,
                                  .strides = strides,
                                  .precision = Fp32Precision::tf32,
                                  .target = {},
                                  .aligned = true,
                                  .config = {}};
        std::string why_not;
        const auto offer = offer_dense(around, &why_not);
        EXPECT_TRUE(offer.has_value()) << why_not;
        return offer && offer->write().words.str().ends_with("in tf32");
    }
    ADD_FAILURE() << "no dense pass:\n" << print(planned);
    return false;
}

const std::string plain = R"(
  %x = input f32[16,64,8,32,32]
  %w = param f32[64,48,3,3,3]
  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]
)";

TEST(CudaTf32, IsTakenWhereItPays) {
    EXPECT_TRUE(rounds(plain + "  return %y\n"));
    EXPECT_FALSE(
        rounds("%x = input f32[1,64,2,4,4]\n  %w = param f32[64,48,3,3,3]\n"
               "  %y = conv_transpose(%x, %w)\n  return %y\n"))
        << "so small that three products hide behind two launches";
}

// Sixteen weights just below a power of two lose less by rounding than their sum does.
TEST(CudaTf32, IsNotForSumsOfWeights) {
    EXPECT_FALSE(rounds(plain + "  %s = sum(%y) dims=[1] keepdim=1\n  return %s\n"));
    EXPECT_FALSE(rounds(plain + "  %s = mean(%y) dims=[1] keepdim=1\n  %z = relu(%s)\n  return %z\n"));
}

// A norm of weights is a sum too, of their squares.
TEST(CudaTf32, IsForWeightsOfUnitNorm) {
    EXPECT_TRUE(rounds(R"(
  %x = input f32[16,64,8,32,32]
  %v = param f32[64,48,3,3,3]
  %g = param f32[64,1,1,1,1]
  %w = weight_norm(%v, %g) axis=0
  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]
  return %y
)"));
}

}  // namespace
}  // namespace transfuse::cuda
