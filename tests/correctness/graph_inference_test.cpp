// Shapes and dtypes: one line a case. The statement is read with the leaves before it; its type must be the one given.
#include <gtest/gtest.h>

#include "one_statement.h"
#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse {
namespace {

struct Case {
    const char* leaves;     // "x f32[2,3]; w f32[3]"
    const char* statement;  // "mean(%x) dims=[1]"
    const char* type;
};

class Inference : public ::testing::TestWithParam<Case> {};

TEST_P(Inference, GivesTheType) {
    const Graph graph = parse(one_statement(GetParam().leaves, GetParam().statement));
    EXPECT_EQ(to_string(graph[graph.outputs()[0]].type), GetParam().type)
        << one_statement(GetParam().leaves, GetParam().statement);
}

INSTANTIATE_TEST_SUITE_P(
    Convolutions, Inference,
    ::testing::Values(
        Case{"x f32[16,64,128,128]; w f32[64,128,3,3]", "conv_transpose(%x, %w) stride=2 padding=1 output_padding=1",
             "f32[16,128,256,256]"},
        Case{"x f32[16,64,512,512]; w f32[64,128,3,3]; b f32[128]", "conv_transpose(%x, %w, %b)",
             "f32[16,128,514,514]"},
        Case{"x f16[16,32,128,256]; w f16[32,16,3,5]",
             "conv_transpose(%x, %w) stride=[2,3] padding=[1,2] dilation=[2,1] groups=4", "f16[16,64,257,766]"},
        Case{"x f32[3,5]; w f32[3,2,4]", "conv_transpose(%x, %w) stride=3", "f32[2,16]"},
        Case{"x f32[1,3,1,1,1]; w f32[3,2,1,1,1]", "conv_transpose(%x, %w) dilation=3 output_padding=2",
             "f32[1,2,3,3,3]"},
        Case{"x f32[2,2,7]; w f32[2,1,1]", "conv_transpose(%x, %w) padding=3", "f32[2,1,1]"},
        Case{"x f32[0,3,5]; w f32[3,2,4]", "conv_transpose(%x, %w)", "f32[0,2,8]"},
        Case{"x f32[1,1,1]; w f32[1,1,2]", "conv_transpose(%x, %w) padding=1", "f32[1,1,0]"},
        Case{"x bf16[2,6,9,9]; w bf16[4,3,3,3]", "conv(%x, %w) stride=2 padding=1 groups=2", "bf16[2,4,5,5]"},
        Case{"x f64[6,9]; w f64[4,6,3]", "conv(%x, %w) dilation=4", "f64[4,1]"},
        Case{"x f32[2,3,4,5]", "upsample(%x) scale=[2,3]", "f32[2,3,8,15]"},
        Case{"x f32[2,3,4,5]", "upsample(%x) scale=2", "f32[2,3,8,10]"},
        Case{"x f32[2,6,4,5]; w f32[2,3,5,1,2]", "lattice(%x, %w) up=[2,1] down=[1,3] offset=[-1,0] out=[7,0]",
             "f32[2,10,7,0]"},
        Case{"x f32[2,6,4]; g f32[2,10,7]", "correlate(%x, %g) up=2 taps=[3] groups=2", "f32[2,3,5,3]"},
        Case{"x f32[2,6,4]", "covariance(%x) up=2 out=[7] taps=[3] groups=2", "f64[10,18,1]"}));

INSTANTIATE_TEST_SUITE_P(
    Pools, Inference,
    ::testing::Values(Case{"x f32[2,3,8,8]", "max_pool(%x) kernel=[2,2]", "f32[2,3,4,4]"},
                      Case{"x f32[2,3,8,8]", "max_pool(%x) kernel=3", "f32[2,3,2,2]"},
                      Case{"x f32[2,3,8,8]", "max_pool(%x) kernel=3 ceil_mode=1", "f32[2,3,3,3]"},
                      // The last window would begin in the right padding: it is dropped.
                      Case{"x f32[1,1,3]", "max_pool(%x) kernel=[2] stride=[2] padding=[1] ceil_mode=1", "f32[1,1,2]"},
                      Case{"x f32[1,1,4]", "avg_pool(%x) kernel=[1] stride=[3] ceil_mode=1", "f32[1,1,2]"},
                      Case{"x f32[1,1,4]", "avg_pool(%x) kernel=[2] stride=[5] ceil_mode=1", "f32[1,1,1]"},
                      Case{"x f32[1,1,7]", "max_pool(%x) kernel=[3] stride=[2] dilation=[2]", "f32[1,1,2]"},
                      Case{"x f32[3,8,8]", "avg_pool(%x) kernel=[2,2] stride=[1,2]", "f32[3,7,4]"},
                      Case{"x f32[2,3,8,9]", "adaptive_avg_pool(%x) output_size=[1,-1]", "f32[2,3,1,9]"},
                      Case{"x f32[2,3,8,9]", "adaptive_max_pool(%x) output_size=3", "f32[2,3,3,3]"},
                      Case{"x f32[2,3,8]; g f32[2,3,4]", "max_pool_grad(%x, %g) kernel=[2]", "f32[2,3,8]"},
                      Case{"g f32[2,3,3]", "avg_pool_grad(%g) sizes=[8] output_size=[3]", "f32[2,3,8]"}));

INSTANTIATE_TEST_SUITE_P(
    Pointwise, Inference,
    ::testing::Values(
        Case{"a f32[2,3,4,5]; b f32[3,1,1]", "add(%a, %b)", "f32[2,3,4,5]"},
        Case{"a f32[2,1]; b f32[1,3]", "mul(%a, %b)", "f32[2,3]"},
        Case{"a f32[0,3]; b f32[1,3]", "mul(%a, %b)", "f32[0,3]"}, Case{"a f16[2]; b bf16[2]", "add(%a, %b)", "f32[2]"},
        Case{"a f16[2]; b f64[2]", "add(%a, %b)", "f64[2]"},
        Case{"a f16[2]; b f64[]", "add(%a, %b)", "f16[2]"},  // rank 0 does not promote a tensor with axes
        Case{"a f16[]; b f32[]", "add(%a, %b)", "f32[]"},
        Case{"a f16[]", "mul(%a, 0.1)", "f16[]"},  // nor does a number promote anything
        Case{"a bf16[3]", "sub(1, %a)", "bf16[3]"},
        Case{"a f16[2,1]; c f64[3]; b f16[]", "select(%c, %a, %b)", "f16[2,3]"},
        Case{"a f32[2]", "select(%a, 1, 0)", "f64[2]"}, Case{"a f32[4,3,2]; w f32[3]", "prelu(%a, %w)", "f32[4,3,2]"},
        Case{"a f32[4,3]; w f32[3]", "prelu(%a, %w)", "f32[4,3]"}, Case{"a f32[4,3]", "clamp(%a) lo=0", "f32[4,3]"},
        Case{"a f32[4,3]", "cast(%a) dtype=bf16", "bf16[4,3]"}));

INSTANTIATE_TEST_SUITE_P(
    Reductions, Inference,
    ::testing::Values(Case{"x f32[2,3,4,5]", "mean(%x) dims=[2,3] keepdim=1", "f32[2,3,1,1]"},
                      Case{"x f32[2,3,4,5]", "sum(%x) dims=[-1,0]", "f32[3,4]"},
                      Case{"x f32[2,3,4,5]", "amax(%x)", "f32[]"},
                      Case{"x f32[2,3,4,5]", "var(%x) keepdim=1", "f32[1,1,1,1]"},
                      Case{"x f32[]", "logsumexp(%x) dims=[-1]", "f32[]"},
                      Case{"x f32[0,3]", "sum(%x) dims=0", "f32[3]"},
                      Case{"x f16[2,3,4]", "softmax(%x) dims=[-1,1]", "f16[2,3,4]"},
                      Case{"x f16[2,3,4]; m f32[3]; v f32[3]; w f32[3]", "batch_norm(%x, %m, %v, %w)", "f16[2,3,4]"},
                      Case{"x f32[2,3,4]; w f32[3]; b f32[3]", "batch_norm(%x, %w, %b) training=1", "f32[2,3,4]"},
                      Case{"x f32[2,6,4]; w f32[6]", "group_norm(%x, %w) num_groups=3", "f32[2,6,4]"},
                      Case{"x f32[2,6,4]; w f32[6,4]", "layer_norm(%x, %w) normalized_shape=[6,4]", "f32[2,6,4]"},
                      Case{"x f32[2,6,4]", "instance_norm(%x)", "f32[2,6,4]"}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, Inference,
    ::testing::Values(
        Case{"x f32[2,3,4]", "reshape(%x) shape=[-1,4]", "f32[6,4]"},
        Case{"x f32[1,1]", "reshape(%x) shape=[]", "f32[]"}, Case{"x f32[0,3]", "reshape(%x) shape=[3,0]", "f32[3,0]"},
        Case{"x f32[2,3,4]", "permute(%x) order=[-1,0,1]", "f32[4,2,3]"},
        Case{"x f32[3,1]", "expand(%x) shape=[2,-1,4]", "f32[2,3,4]"},
        Case{"a f16[2,3]; b f32[2,5]", "concat(%a, %b) axis=-1", "f32[2,8]"},
        Case{"x f32[10]", "slice(%x) axis=0 start=2 end=-1 step=3", "f32[3]"},
        Case{"x f32[10]", "slice(%x) axis=0 start=-3", "f32[3]"},
        Case{"x f32[10]", "slice(%x) axis=0 start=7 end=3", "f32[0]"},
        Case{"x f32[10]", "slice(%x) axis=-1 start=-99 end=99", "f32[10]"},
        Case{"x f32[2,3]", "pad(%x) start=[0,1] end=[2,-1]", "f32[4,3]"},
        Case{"x f32[2,3]", "flip(%x) dims=[-1]", "f32[2,3]"},
        Case{"v f32[4,3,5]; g f32[4,1,1]", "weight_norm(%v, %g)", "f32[4,3,5]"},
        Case{"v f32[4,3,5]; g f32[1,3,1]", "weight_norm(%v, %g) axis=1", "f32[4,3,5]"},
        Case{"w f32[1,2,3,5]", "taps(%w) axis=3 rows=2 matrix=[1,0,0,0,0, 0,1,0.5,0,0]", "f32[1,2,3,2]"},
        Case{"x f16[2,3,8,9]", "box_sums(%x) dims=[3] counts=[2] los=[0,1] his=[8,7] steps=[1,2]", "f32[2,6,8,1]"},
        Case{"x f64[2,3,8,9]", "box_sums(%x) dims=[2,3] counts=[2,1] los=[0,1,0] his=[7,7,8] steps=[1,1,1]",
             "f64[2,6,1,1]"},
        Case{"h f32[2,6,1,1]",
             "box_spread(%h) dims=[2,3] counts=[2,1] los=[0,1,0] his=[7,7,8] steps=[1,1,1] sizes=[8,9]",
             "f32[2,3,8,9]"},
        Case{"x f32[1]", "full() dtype=f16 shape=[2,3] value=1", "f16[2,3]"},
        Case{"x f32[1]", "constant() dtype=f32 shape=[2] values=[1,2]", "f32[2]"}));

}  // namespace
}  // namespace transfuse
