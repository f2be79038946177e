// Where TF32 is allowed: which products take it. The cases are large enough that it pays.
#include <gtest/gtest.h>

#include "algebra/gradient/differentiable.h"
#include "cuda/dense/dense.h"
#include "program/kept.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {
namespace {

// Of each dense pass in order whether it multiplies in TF32: 't', or 's' where it is strict.
std::string precisions(const Graph& graph) {
    const Plan planned = plan(graph, Machine::h200());
    Strides strides;
    for (const Node& node : planned.graph.nodes()) strides.push_back(contiguous_strides(node.type.shape));
    std::string found;
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
        found += offer && offer->write().words.str().ends_with("in tf32") ? 't' : 's';
    }
    EXPECT_FALSE(found.empty()) << "no dense pass:\n" << print(planned);
    return found;
}

// Whether the first one does.
bool rounds(const std::string& lines) {
    return precisions(rewrite(parse("graph g {\n" + lines + "}\n")).rewritten).starts_with('t');
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

// A convolution that is computed once for its statistics, and stored for gradients, and again for what is normalised:
// a mean of products that were rounded otherwise would not be the mean of what it is taken from. (Storing hides the
// three products of strict fp32 of the first pass, not those of the second.)
TEST(CudaTf32, IsForBothOrNoneOfAConvolutionComputedTwice) {
    const auto normalised = [](const std::string& x, const std::string& channels, const std::string& rest) {
        return parse("graph g {\n  %x = input f32[" + x + "]\n  %w = param f32[" + channels +
                     ",16,3,3,3]\n  %b = param f32[16]\n  %g = param f32[16]\n  %h = param f32[16]\n"
                     "  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]\n"
                     "  %n = batch_norm(%y, %g, %h) training=1\n" +
                     rest + "  return %z\n}\n");
    };
    const Graph pooled = normalised("64,3,32,32,32", "3", "  %z = avg_pool(%n) kernel=[4,4,4] stride=[4,4,4]\n");
    const GradientRequest request{{0}, {1, 2, 3, 4}};
    const Graph forward = differentiable(pooled, request).forward;
    const auto kept = kept_values(forward, gradient(forward, request), {}, Machine::h200());
    EXPECT_EQ(precisions(giving(forward, kept)), "tt");
    // Nor where storing hides those of the second pass.
    EXPECT_EQ(precisions(rewrite(normalised("32,5,16,32,32", "5", "  %z = relu(%n)\n")).rewritten), "tt");
}

}  // namespace
}  // namespace transfuse::cuda
