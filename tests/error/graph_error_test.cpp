// What bad graphs are told: op, argument, value, expectation. One line a case.
#include <gtest/gtest.h>

#include "one_statement.h"
#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse {
namespace {

struct Case {
    const char* leaves;
    const char* statement;
    const char* sentence;  // a part of the message
};

class Refusal : public ::testing::TestWithParam<Case> {};

TEST_P(Refusal, NamesTheReason) {
    try {
        parse(one_statement(GetParam().leaves, GetParam().statement));
        FAIL() << "accepted: " << GetParam().statement;
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(GetParam().sentence), std::string::npos) << error.what();
    }
}

INSTANTIATE_TEST_SUITE_P(
    Convolutions, Refusal,
    ::testing::Values(
        Case{"x f32[1,3,4]; w f32[2,3,3]", "conv_transpose(%x, %w)",
             "conv_transpose: w f32[2,3,3] expects 2 input channels, x f32[1,3,4] has 3"},
        Case{"x f32[1,3,4]; w f16[3,3,3]", "conv_transpose(%x, %w)", "w must have the dtype of x, f32, got f16"},
        Case{"x f32[1,3,4]; w f32[3,3,3]", "conv_transpose(%x, %w) output_padding=1",
             "output_padding must be smaller than stride or dilation"},
        Case{"x f32[1,3,4]; w f32[3,3,3]", "conv_transpose(%x, %w) stride=0", "stride must be at least 1, got [0]"},
        Case{"x f32[1,3,4]; w f32[3,3,3]", "conv_transpose(%x, %w) stride=[1,2]",
             "stride must have one integer for each of 1 axes"},
        Case{"x f32[1,3,4]; w f32[3,3,3]", "conv_transpose(%x, %w) groups=2",
             "groups = 2 must divide the 3 channels of x"},
        Case{"x f32[1,3,4]; w f32[3,3,3]", "conv_transpose(%x, %w) padding=4", "the result would have extent -2"},
        Case{"x f32[1,3,4]; w f32[3,3,3]; b f32[2]", "conv_transpose(%x, %w, %b)", "bias must have shape [3], got [2]"},
        Case{"x f32[1,3]; w f32[3,3,3,3]", "conv_transpose(%x, %w)", "x must have rank 4 (or 3 without a batch)"},
        Case{"x f32[1,3,4]; w f32[3,3]", "conv_transpose(%x, %w)", "w must have 1 to 3 axes after its channels"},
        Case{"x f32[1,3,4]; w f32[3,3,3]", "conv_transpose(%x)", "expected operands (x, w[, bias]), got 1"},
        Case{"x f32[1,3,4]; w f32[3,3,3]", "conv_transpose(%x, %w) stride=4611686018427387904", "overflows 64 bits"},
        Case{"x f32[1,3,4]; w f32[3,3,9]", "conv(%x, %w)",
             "the kernel reaches over 9 elements, the padded input has 4"},
        Case{"x f32[1,4,4]; w f32[3,2,3]", "conv(%x, %w) groups=2", "groups = 2 must divide the 3 output channels"},
        Case{"x f32[1,4,4]; w f32[1,3,2,3]", "lattice(%x, %w) out=[4]", "expects 3 input channels"},
        Case{"x f32[1,4,4]; w f32[1,4,2,3]", "lattice(%x, %w) out=[4] groups=2",
             "groups = 2 must be the first extent of w"},
        Case{"x f32[1,4,4]; w f32[1,4,2,3]", "lattice(%x, %w)", "attribute 'out' is missing"},
        Case{"x f32[1,4,4]; g f32[2,4,4]", "correlate(%x, %g) taps=[3]", "g must have the batch and rank of x"},
        Case{"x f32[2,5,4]", "covariance(%x) out=[6] taps=[3] groups=2", "groups = 2 must divide the channels of x, 5"}));

INSTANTIATE_TEST_SUITE_P(
    Others, Refusal,
    ::testing::Values(
        Case{"x f32[1,3,8]", "max_pool(%x) kernel=[2] padding=[2]",
             "padding must be at most half of the kernel, 2, got 2"},
        Case{"x f32[1,3,8]", "max_pool(%x) kernel=[9]", "the kernel reaches over 9 elements"},
        Case{"x f32[1,3,8]", "max_pool(%x)", "attribute 'kernel' is missing"},
        Case{"x f32[1,3,8]", "avg_pool(%x) kernel=[2] dilation=[2]", "avg_pool: there is no attribute 'dilation'"},
        Case{"x f32[8]", "avg_pool(%x) kernel=[2]", "must have rank 3 (or 2 without a batch)"},
        Case{"x f32[1,3,8]; g f32[1,3,3]", "max_pool_grad(%x, %g) kernel=[2]", "g must be f32[1,3,4], got f32[1,3,3]"},
        Case{"x f32[1,3,8]; g f32[1,3,3]", "max_pool_grad(%x, %g)", "give either kernel or output_size"},
        Case{"a f32[2,3]; b f32[4]", "add(%a, %b)",
             "add: shapes [2,3] and [4] do not broadcast: axis 1 has extents 3 and 4"},
        Case{"a f32[2,3,4]; w f32[4]", "prelu(%a, %w)", "prelu: weight must have 1 or 3 elements"},
        Case{"a f32[2,3]", "relu(%a, %a)", "relu: expected operands (x), got 2"},
        Case{"a f32[2,3]", "elu(%a) alpha=[1]", "elu: attribute 'alpha' must be a number"},
        Case{"a f32[2,3]", "gelu(%a) approximate=2", "gelu: attribute 'approximate' must be 0 or 1"},
        Case{"a f32[2,3]", "mean(%a) dims=[2]", "mean: dim must be between -2 and 1 for a tensor of rank 2, got 2"},
        Case{"a f32[2,3]", "mean(%a) dims=[0,-2]", "a dim is repeated"},
        Case{"a f32[2,0]", "amax(%a) dims=[1]", "is empty: there is no element to take"},
        Case{"a f32[2,3]", "softmax(%a) dims=[]", "dims must name at least one axis"},
        Case{"a f32[2,3]", "softmax(%a) dims=1.5", "softmax: attribute 'dims' must be a list of integers"},
        Case{"x f32[2,3,4]; m f32[3]", "batch_norm(%x, %m)", "expected operands (x, mean, var[, weight[, bias]])"},
        Case{"x f32[2,3,4]; m f32[4]", "batch_norm(%x, %m, %m)", "mean must have shape [3], got [4]"},
        Case{"x f32[1,3,1]", "batch_norm(%x) training=1", "expected more than 1 value a channel in training"},
        Case{"x f32[2,3,4]", "group_norm(%x) num_groups=2", "num_groups = 2 must divide the 3 channels"},
        Case{"x f32[2,3,4]", "layer_norm(%x) normalized_shape=[3]", "x must end in normalized_shape [3]"},
        Case{"x f32[2,3,1]", "instance_norm(%x)", "expected more than 1 spatial element"},
        Case{"x f32[2,3,4]", "reshape(%x) shape=[-1,-1]", "shape may have one -1"},
        Case{"x f32[2,3,4]", "reshape(%x) shape=[-1,5]", "does not fit the 24 elements"},
        Case{"x f32[2,3,4]", "reshape(%x) shape=[4,5]", "has 20 elements, x f32[2,3,4] has 24"},
        Case{"x f32[0,3]", "reshape(%x) shape=[-1,0]", "does not fit the 0 elements"},
        Case{"x f32[2,3]", "permute(%x) order=[0,0]", "order must name each of the 2 axes of x once"},
        Case{"x f32[2,3]", "expand(%x) shape=[4,3]", "axis 0 of extent 2 cannot be expanded to 4"},
        Case{"x f32[2,3]; z f32[2,4]", "concat(%x, %z) axis=0", "operands must agree but on axis 0"},
        Case{"x f32[2,3]", "slice(%x) axis=0 step=0", "step must be at least 1, got 0"},
        Case{"x f32[2,3]", "pad(%x) start=[0,-4] end=[0,0]", "start -4 and end 0 crop more than the extent 3 of axis 1"},
        Case{"x f32[2,3]", "cast(%x) dtype=f8", "unknown dtype 'f8', expected f64, f32, f16 or bf16"},
        Case{"v f32[4,3]; g f32[4]", "weight_norm(%v, %g)", "g must have shape [4,1], got f32[4]"},
        Case{"w f32[1,1,1,3]", "taps(%w) axis=3 rows=2 matrix=[1,2,3]",
             "matrix must have rows * extent = 2 * 3 elements, got 3"},
        Case{"x f32[1,1,8]", "box_sums(%x) dims=[2] counts=[1] los=[0] his=[8] steps=[1]",
             "interval [0, 8] must lie in [0, 8)"},
        Case{"x f32[1,1,8]", "box_sums(%x) dims=[1] counts=[1] los=[0] his=[0] steps=[1]",
             "dims must name spatial axes"},
        Case{"h f32[1,3,1]", "box_spread(%h) dims=[2] counts=[2] los=[0,0] his=[1,2] steps=[1,1] sizes=[4]",
             "must be a multiple of the number of boxes"},
        Case{"x f32[1]", "constant() dtype=f32 shape=[3] values=[1,2]",
             "values must have 3 elements for f32[3], got 2"}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, Refusal,
    ::testing::Values(
        Case{"x f32[9223372036854775807]", "relu(%x)", "does not fit 63 bits of address"},
        Case{"x f32[4294967296,4294967296]", "relu(%x)", "does not fit 63 bits of address"},
        Case{"x f32[0,9223372036854775807,9223372036854775807]", "relu(%x)", "does not fit 63 bits of address"},
        Case{"x f32[92233720368547758070]", "relu(%x)", "an extent must be an integer of 63 bits"},
        Case{"x f32[-1]", "relu(%x)", "extents must not be negative"},
        Case{"x f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "relu(%x)", "a tensor has at most 16 axes"},
        Case{"x f32[1]", "expand(%x) shape=[9223372036854775807]", "does not fit 63 bits of address"},
        Case{"x f32[1]", "full() dtype=f32 shape=[9223372036854775807] value=0", "does not fit 63 bits of address"},
        Case{"x f32[1]", "pad(%x) start=9223372036854775807 end=1", "overflows 64 bits"},
        Case{"x f32[1,1,2147483648]", "upsample(%x) scale=[4611686018427387904]", "overflows 64 bits"},
        Case{"x f32[1,1,8]", "box_sums(%x) dims=[2] counts=[9223372036854775807] los=[] his=[] steps=[]",
             "los must have one entry for each of"},
        Case{"w f32[2,3]", "taps(%w) axis=1 rows=9223372036854775807 matrix=[]", "overflows 64 bits"}));

TEST(BuilderErrors, ForeignOperandsAndLeaves) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {2}});
    EXPECT_THROW(b.add(Op::relu, {x + 1}), Error);
    EXPECT_THROW(b.add(Op::relu, {-1}), Error);
    EXPECT_THROW(b.add(Op::input, {}), Error);
    EXPECT_THROW(b.input("x", {DType::f32, {2}}), Error);
    EXPECT_THROW(b.input("7", {DType::f32, {2}}), Error);
    EXPECT_THROW(b.input("", {DType::f32, {2}}), Error);
    EXPECT_THROW(b.param("a b", {DType::f32, {2}}), Error);
    EXPECT_THROW(b.finish({}), Error);
    EXPECT_THROW(b.finish({x + 1}), Error);
    EXPECT_THROW(b.finish({x, x}, {"a", "a"}), Error);
}

TEST(BuilderErrors, LatticesMustFitTheirOperands) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {1, 2, 4}}), w = b.param("w", {DType::f32, {1, 2, 3, 5}});
    Lattice axis;
    axis.in = 4, axis.taps = 5, axis.out = 6;
    EXPECT_NO_THROW(b.lattice(x, w, -1, {axis}, 1));
    axis.in = 3;
    EXPECT_THROW(b.lattice(x, w, -1, {axis}, 1), Error);
}

TEST(GraphErrors, OtherLeafTypesAreCheckedAnew) {
    const Graph g = parse("graph g { %x = input f32[2,3] %y = reshape(%x) shape=[6] return %y }");
    EXPECT_THROW(g.with_leaf_types({}), Error);
    EXPECT_THROW(g.with_leaf_types({{DType::f32, {2, 4}}}), Error);
}

TEST(AttributeErrors, AbsentOrOfAnotherKind) {
    const Attributes a{{Key::eps, 1.5}, {Key::dims, Sizes{1}}};
    EXPECT_THROW(a.integer(Key::groups), Error);
    EXPECT_THROW(a.integer(Key::eps), Error);
    EXPECT_THROW(a.number(Key::dims), Error);
    EXPECT_THROW(a.numbers(Key::dims), Error);
}

}  // namespace
}  // namespace transfuse
