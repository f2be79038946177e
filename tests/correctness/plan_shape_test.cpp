// What shares a pass: each fusion rule on the smallest graph that shows it.
#include <gtest/gtest.h>

#include "plan_rules.h"
#include "random_graphs.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

Plan planned(const std::string& body, const Machine& machine = Machine::h200()) {
    Plan chosen = plan(parse("graph g {\n" + body + "}\n"), machine);
    check_rules(chosen);
    return chosen;
}

std::vector<PassKind> kinds(const Plan& plan) {
    std::vector<PassKind> list;
    for (const Pass& pass : plan.passes) list.push_back(pass.kind);
    return list;
}

// "prologue relu, tile lattice, …" of a pass.
std::string program(const Plan& plan, const Pass& pass) {
    static constexpr const char* scopes[] = {"prologue", "tile", "grid", "tail"};
    std::string text;
    for (const TileStep& step : pass.steps)
        text += (text.empty() ? "" : ", ") + std::string(scopes[static_cast<size_t>(step.scope)]) + " " +
                std::string(name(plan.graph[step.value].op));
    return text;
}

using enum PassKind;
using Kinds = std::vector<PassKind>;

const std::string head = R"(
  %x = input f32[8,16,64,64]
  %s = input f32[8,32,64,64]
  %w = param f32[1,16,32,3,3]
  %b = param f32[32]
  %c = param f32[32,1,1]
)";
const std::string lattice =
    "  %y = lattice(%x, %w, %b) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1\n";

TEST(PlanShape, PointwiseChainIsOneDensePass) {
    const Plan p = planned(head + lattice + R"(
  %1 = add(%y, %c)
  %2 = mul(%1, 2.0)
  %3 = relu(%2)
  %4 = add(%3, %s)
  return %4
)");
    EXPECT_EQ(kinds(p), Kinds{dense});
    EXPECT_EQ(program(p, p.passes[0]), "tile lattice, tile add, tile mul, tile relu, tile add");
    EXPECT_EQ(p.passes[0].stores.size(), 1u);
    EXPECT_TRUE(p.buffers().empty());
}

TEST(PlanShape, PointwiseBeforeTheProductIsItsPrologue) {
    const Plan p = planned(head + R"(
  %1 = relu(%x)
  %2 = mul(%1, 0.5)
  %y = lattice(%2, %w, %b) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  return %y
)");
    EXPECT_EQ(kinds(p), Kinds{dense});
    EXPECT_EQ(program(p, p.passes[0]), "prologue relu, prologue mul, tile lattice");
}

// Few warps load: an error function on each element takes them longer than a pass of its own, unless the product takes
// longer still.
TEST(PlanShape, WhatIsDearIsALoopWhereTheProductDoesNotHideIt) {
    auto body = [](const char* weight, const char* op) {
        return std::string("  %x = input f32[8,128,128,128]\n  %w = param ") + weight + "\n  %1 = " + op +
               "(%x)\n  %2 = lattice(%1, %w) out=[128,128]\n  return %2\n";
    };
    EXPECT_EQ(kinds(planned(body("f32[1,128,16,1,1]", "gelu"))), (Kinds{pointwise, dense}));
    EXPECT_EQ(kinds(planned(body("f32[1,128,16,1,1]", "relu"))), Kinds{dense});
    EXPECT_EQ(kinds(planned(body("f32[1,128,128,3,3]", "gelu"))), Kinds{dense});
    EXPECT_EQ(kinds(planned(body("f32[1,128,16,1,1]", "gelu"), Machine::cpu(16))), Kinds{dense});
}

TEST(PlanShape, APrologueTwoProductsShareIsComputedInBoth) {
    const Plan p = planned(head + R"(
  %1 = relu(%x)
  %y = lattice(%1, %w, %b) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  %z = lattice(%1, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[2,2] out=[60,60] groups=1
  return %y, %z
)");
    EXPECT_EQ(kinds(p), (Kinds{dense, dense}));
    EXPECT_EQ(program(p, p.passes[0]), "prologue relu, tile lattice");
    EXPECT_EQ(program(p, p.passes[1]), "prologue relu, tile lattice");
    EXPECT_TRUE(p.buffers().empty());
}

TEST(PlanShape, AnExpressionOfATensorOperandIsEvaluatedInTheTile) {
    const Plan p = planned(head + lattice + R"(
  %1 = sigmoid(%s)
  %2 = mul(%y, %1)
  return %2
)");
    EXPECT_EQ(kinds(p), Kinds{dense});
    EXPECT_EQ(program(p, p.passes[0]), "tile lattice, tile sigmoid, tile mul");
}

TEST(PlanShape, SoftmaxOverChannelsStaysInTheTile) {
    const std::string body = head + lattice + R"(
  %1 = logsumexp(%y) dims=[1] keepdim=1
  %2 = sub(%y, %1)
  %3 = exp(%2)
  return %3
)";
    EXPECT_EQ(kinds(planned(body)), Kinds{dense});
    Machine narrow = Machine::h200();
    narrow.tile_channels = 16;  // fewer than 32: the reduction crosses tiles
    narrow.grid_rows = true;
    const Plan p = planned(body, narrow);
    EXPECT_EQ(p.passes.size(), 2u) << print(p);
    EXPECT_EQ(program(p, p.passes[0]), "tile lattice, grid logsumexp");
}

TEST(PlanShape, StatisticsOfRowsStayInTheTileUnlessThereAreTooMany) {
    const std::string body = head + lattice + R"(
  %1 = mean(%y) dims=[3] keepdim=1
  %2 = sub(%y, %1)
  return %2
)";
    const Plan tiles = planned(body);
    EXPECT_EQ(kinds(tiles), Kinds{dense}) << print(tiles);
    EXPECT_EQ(program(tiles, tiles.passes[0]), "tile lattice, tile mean, tile sub");
    Machine longest = Machine::h200(), most = longest;
    longest.tile_row = 63, most.tile_row_values = 8 * 32 * 64 * 64 - 1;
    for (const Machine& machine : {longest, most}) {
        const Plan p = planned(body, machine);
        EXPECT_EQ(kinds(p), (Kinds{dense, pointwise})) << print(p);
        EXPECT_EQ(program(p, p.passes[1]), "tile mean, tile sub");
    }
}

TEST(PlanShape, APoolTakesTheChainAroundItAlong) {
    const Plan p = planned(R"(
  %x = input f32[8,16,64,64]
  %m = mean(%x) dims=[0,2,3] keepdim=1
  %1 = sub(%x, %m)
  %2 = max_pool(%1) kernel=[2,2]
  %3 = tanh(%2)
  return %3
)");
    EXPECT_EQ(kinds(p), (Kinds{pointwise, library})) << print(p);
    EXPECT_EQ(program(p, p.passes[1]), "prologue sub, tile max_pool, tile tanh");
}

TEST(PlanShape, AWindowLargerThanATilesIsAPassOfItsOwn) {
    const std::string body = head + lattice + R"(
  %1 = max_pool(%y) kernel=[8,8]
  return %1
)";
    Machine machine = Machine::h200();
    EXPECT_EQ(kinds(planned(body, machine)), Kinds{dense});
    machine.pool_outputs = 63;
    EXPECT_EQ(kinds(planned(body, machine)), (Kinds{dense, library}));
}

TEST(PlanShape, PoolsBesideEachOtherStayInTheTile) {
    const Plan p = planned(head + lattice + R"(
  %1 = max_pool(%y) kernel=[2,2]
  %2 = clamp(%1) lo=-1.0 hi=1.0
  %3 = mean(%2) dims=[2,3] keepdim=1
  %4 = tanh(%3)
  return %4
)");
    EXPECT_EQ(kinds(p), Kinds{dense});
    EXPECT_EQ(program(p, p.passes[0]), "tile lattice, tile max_pool, tile clamp, grid mean, tail tanh");
    ASSERT_EQ(p.passes[0].stores.size(), 1u);
    EXPECT_EQ(p.graph[p.passes[0].stores[0].value].op, Op::tanh);
}

TEST(PlanShape, OverlappingPoolsAreAPassOfTheirOwn) {
    for (const char* window : {"kernel=[3,3] stride=[2,2]", "kernel=[2,2] stride=[2,2] padding=[1,1]",
                               "kernel=[3,3] ceil_mode=1", "kernel=[2,2] dilation=[2,2]"}) {
        const Plan p = planned(head + lattice + "  %1 = max_pool(%y) " + window + "\n  return %1\n");
        EXPECT_EQ(kinds(p), (Kinds{dense, library})) << window;
    }
}

TEST(PlanShape, AveragePoolIsAPoolWhereItsWeightIsALiteral) {
    const Plan p = planned(head + lattice + R"(
  %1 = relu(%y)
  %k = full() dtype=f32 shape=[32,1,1,2,2] value=0.25
  %2 = lattice(%1, %k) up=[1,1] down=[2,2] dil=[1,1] offset=[1,1] out=[32,32] groups=32
  return %2
)");
    EXPECT_EQ(kinds(p), Kinds{dense}) << print(p);
    const auto pool = tile_pool(p.graph, p.passes[0].steps.back().value);
    ASSERT_TRUE(pool.has_value());
    EXPECT_EQ(*pool, (TilePool{TilePool::Kind::sum, {2, 2}, 0.25}));
}

TEST(PlanShape, ReductionsOverAnyAxesAreSinks) {
    for (const char* dims : {"[0]", "[2]", "[3]", "[2,3]", "[0,2,3]", "[1,2,3]", "[0,1,2,3]"})
        for (const char* op : {"sum", "mean", "amax", "amin", "logsumexp", "var"}) {
            const Plan p =
                planned(head + lattice + "  %1 = " + op + "(%y) dims=" + dims + "\n  return %1\n", Machine::cpu(2));
            EXPECT_EQ(kinds(p), Kinds{dense}) << op << dims;
            EXPECT_EQ(program(p, p.passes[0]), std::string("tile lattice, grid ") + op);
        }
}

TEST(PlanShape, ConcatIsStoredInPieces) {
    const Plan p = planned(head + lattice + R"(
  %1 = relu(%y)
  %2 = concat(%s, %1) axis=1
  return %2
)");
    EXPECT_EQ(kinds(p), (Kinds{dense, pointwise}));
    for (const Pass& pass : p.passes) {
        ASSERT_EQ(pass.stores.size(), 1u);
        EXPECT_EQ(p.graph[pass.stores[0].target].op, Op::concat);
    }
    EXPECT_EQ(p.passes[0].stores[0].start, (Sizes{0, 32, 0, 0}));
    EXPECT_TRUE(p.passes[1].steps.empty());
    EXPECT_TRUE(p.buffers().empty());
}

TEST(PlanShape, ACroppedSkipIsReadWhereItLies) {
    const Plan p = planned(R"(
  %x = input f32[8,16,64,64]
  %s = input f32[8,40,70,64]
  %w = param f32[1,16,32,3,3]
)"
                           "  %y = lattice(%x, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1\n"
                           R"(
  %1 = slice(%s) axis=2 start=3 end=67
  %2 = slice(%1) axis=1 start=8
  %3 = add(%y, %2)
  return %3
)");
    EXPECT_EQ(kinds(p), Kinds{dense});
    const ValueId crop = p.passes[0].reads.back();
    EXPECT_EQ(p.graph[view_root(p, crop)].name, "s");
    EXPECT_EQ(view_strides(p, crop, {40 * 70 * 64, 70 * 64, 64, 1}),
              (StridedView{8 * 70 * 64 + 3 * 64, {40 * 70 * 64, 70 * 64, 64, 1}}));
}

TEST(PlanShape, AReshapedOutputIsStoredInItsShape) {
    const Plan p = planned(head + lattice + "  %1 = reshape(%y) shape=[8,131072]\n  return %1\n");
    EXPECT_EQ(kinds(p), Kinds{dense});
    EXPECT_EQ(p.graph[p.passes[0].stores[0].target].op, Op::reshape);
}

TEST(PlanShape, OutputsThatLieSomewhereAreCopied) {
    const Plan p = planned(head + "  %1 = permute(%x) order=[0,2,3,1]\n  return %x, %1, %1, %b\n");
    EXPECT_EQ(kinds(p), (Kinds{pointwise, pointwise, pointwise}));
    for (const Pass& pass : p.passes) EXPECT_TRUE(pass.steps.empty());
}

TEST(PlanShape, BoxSumsOfOneTensorShareAPassAndTheProductIsItsTail) {
    const Plan p = planned(R"(
  %x = input f32[16,64,128,128]
  %w = param f32[1,256,128,1,1]
  %v = param f32[1,64,8,1,1]
  %1 = box_sums(%x) dims=[2,3] counts=[2,2] los=[0,1,0,1] his=[127,127,127,127] steps=[1,1,1,1]
  %2 = box_sums(%x) dims=[2,3] counts=[1,1] los=[0,0] his=[127,127] steps=[1,1]
  %3 = lattice(%1, %w) out=[1,1] groups=1
  %4 = lattice(%2, %v) out=[1,1] groups=1
  %5 = exp(%4)
  return %3, %5
)");
    EXPECT_EQ(kinds(p), Kinds{moments});
    EXPECT_EQ(program(p, p.passes[0]), "grid box_sums, grid box_sums, tail lattice, tail lattice, tail exp");
}

const std::string norm = R"(
  %q = square(%y)
  %m = mean(%y) dims=[0,2,3] keepdim=1
  %v = mean(%q) dims=[0,2,3] keepdim=1
  %r = rsqrt(%v)
  %d = sub(%y, %m)
  %n = mul(%d, %r)
)";

TEST(PlanShape, StatisticsAreStoredOrComputedTwiceByCost) {
    Machine fast = Machine::h200(), slow = Machine::h200();
    fast.flops = 1e15, slow.flops = 1e12;
    const Plan again = planned(head + lattice + norm + "  return %n\n", fast);
    EXPECT_EQ(kinds(again), (Kinds{dense, dense}));
    EXPECT_EQ(program(again, again.passes[0]), "tile lattice, tile square, grid mean, grid mean, tail rsqrt, tail sub");
    EXPECT_EQ(program(again, again.passes[1]), "tile lattice, tile sub, tile mul");
    EXPECT_NE(again.passes[1].why.find("computed twice"), std::string::npos);
    const Plan stored = planned(head + lattice + norm + "  return %n\n", slow);
    EXPECT_EQ(kinds(stored), (Kinds{dense, pointwise}));
    EXPECT_NE(stored.passes[1].why.find("stored"), std::string::npos);
    EXPECT_EQ(stored.buffers().size(), 3u);  // the tensor and two statistics
}

// 24 channels of a stride-2 convolution: of 64 rows that matrix units multiply at a time, two phases side by side fill
// 48, and a window is multiplied for both though one of them does not meet it. A machine without them multiplies what
// is asked for.
TEST(PlanShape, FewChannelsCostTheRowsMultipliedForThem) {
    const std::string text = R"(
  %x = input f32[8,48,16,24,24]
  %w = param f32[1,48,24,3,3,3]
  %y = lattice(%x, %w) up=[2,2,2] down=[1,1,1] dil=[1,1,1] offset=[1,1,1] out=[31,47,47] groups=1
  %s = softplus(%y)
  %m = mean(%s) dims=[2,3,4] keepdim=1
  %z = sub(%s, %m)
  return %z
)";
    EXPECT_EQ(kinds(planned(text, Machine::h200())), (Kinds{dense, pointwise}));
    Machine plain = Machine::h200();
    plain.tile_flops = 0;
    EXPECT_EQ(kinds(planned(text, plain)), (Kinds{dense, dense}));
}

TEST(PlanShape, NormalisationMovesIntoTheNextProduct) {
    Machine slow = Machine::h200();
    slow.flops = 1e12;
    const Plan p = planned(head + lattice + norm + R"(
  %a = relu(%n)
  %w2 = param f32[1,32,16,3,3]
  %z = lattice(%a, %w2) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  return %z
)",
                           slow);
    EXPECT_EQ(kinds(p), (Kinds{dense, dense}));
    EXPECT_EQ(program(p, p.passes[1]), "prologue sub, prologue mul, prologue relu, tile lattice");
}

TEST(PlanShape, RowsOfALoopAreSoftmaxed) {
    const Plan p = planned(R"(
  %x = input f32[64,1024,32]
  %1 = logsumexp(%x) dims=[1] keepdim=1
  %2 = sub(%x, %1)
  %3 = exp(%2)
  %4 = sum(%3) dims=[0,2]
  return %3, %4
)");
    EXPECT_EQ(kinds(p), Kinds{pointwise});
    EXPECT_EQ(program(p, p.passes[0]), "tile logsumexp, tile sub, tile exp, grid sum");
}

// Each element lies in one window: it is normalised where it is pooled, and nothing of the rows' size is written.
TEST(PlanShape, NormalisedRowsThatAPoolTakesAreNormalisedThere) {
    const std::string norm = R"(
  %x = input f32[64,32,64,64]
  %m = mean(%x) dims=[3] keepdim=1
  %v = var(%x) dims=[3] keepdim=1
  %r = rsqrt(%v)
  %d = sub(%x, %m)
  %n = mul(%d, %r)
)";
    for (const char* pool :
         {"max_pool(%n) kernel=[2,2]", "lattice(%n, %k) down=[2,2] offset=[1,1] out=[32,32] groups=32"}) {
        const Plan p =
            planned(norm + "  %k = full() shape=[32,1,1,2,2] value=0.25 dtype=f32\n  %p = " + pool + "\n  return %p\n");
        ASSERT_EQ(p.passes.size(), 2u) << print(p);
        EXPECT_EQ(program(p, p.passes[0]), "tile mean, tile var, tile rsqrt");
        EXPECT_EQ(program(p, p.passes[1]).find("prologue sub, prologue mul, tile "), 0u) << print(p);
        for (ValueId buffer : p.buffers()) EXPECT_EQ(p.graph[buffer].type.shape, (Sizes{64, 32, 64, 1}));
    }
    // A product meets each element many times: it reads them normalised.
    const Plan product = planned(norm + R"(
  %w = param f32[1,32,32,3,3]
  %p = lattice(%n, %w) offset=[1,1] out=[64,64] groups=1
  return %p
)");
    EXPECT_EQ(program(product, product.passes[1]), "tile lattice") << print(product);
}

TEST(PlanShape, ReductionsOfOneTensorShareALoop) {
    const Plan p = planned(R"(
  %x = input f32[64,32,64,64]
  %1 = mean(%x) dims=[0,2,3]
  %2 = var(%x) dims=[0,2,3]
  %3 = amax(%x) dims=[1]
  return %1, %2, %3
)");
    EXPECT_EQ(kinds(p), Kinds{pointwise});
}

TEST(PlanShape, ParametersArePreparedOnceAndFirst) {
    const Plan p = planned(head + R"(
  %1 = mul(%w, 2.0)
  %y = lattice(%x, %1, %b) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  return %y
)");
    EXPECT_EQ(kinds(p), (Kinds{prepare, dense}));
    EXPECT_EQ(p.buffers().size(), 1u);
}

const std::string backward = R"(
  %y = input f32[8,32,64,64]
  %g = input f32[8,32,64,64]
  %x = input f32[8,16,64,64]
  %w = param f32[1,32,16,3,3]
  %1 = greater(%y, 0.0)
  %2 = mul(%g, %1)
  %3 = lattice(%2, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  %4 = correlate(%x, %2) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] taps=[3,3] groups=1
)";

// A weight gradient reads its operands once a tap: they are made once and stored.
TEST(PlanShape, AMaskedGradientIsStoredForTheWeightGradient) {
    const Plan p = planned(backward + "  return %3, %4\n");
    EXPECT_EQ(kinds(p), (Kinds{pointwise, dense, correlate}));
    EXPECT_EQ(program(p, p.passes[0]), "tile greater, tile mul");
    EXPECT_EQ(program(p, p.passes[1]), "tile lattice");
    EXPECT_EQ(program(p, p.passes[2]), "grid correlate");
}

TEST(PlanShape, AMaskedGradientOfTheInputAloneIsAPrologue) {
    const Plan p = planned(backward + "  return %3\n");
    EXPECT_EQ(kinds(p), (Kinds{dense}));
    EXPECT_EQ(program(p, p.passes[0]), "prologue greater, prologue mul, tile lattice");
}

TEST(PlanShape, AMaskedGradientWithThreeReadersIsStored) {
    // Three readers of two tensors each, or one pass that reads both and stores the product for the other two: fewer
    // bytes.
    const Plan p = planned(backward + "  %5 = sum(%2) dims=[0,2,3]\n  return %3, %4, %5\n");
    EXPECT_EQ(kinds(p), (Kinds{pointwise, dense, correlate}));
    EXPECT_EQ(p.buffers().size(), 1u);
}

TEST(PlanShape, ALoopWithItsOwnSinkNeedNotStoreWhatIsCheapToComputeAgain) {
    const Plan p = planned(head + R"(
  %1 = relu(%x)
  %2 = sum(%1) dims=[0,2,3]
  %y = lattice(%1, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  return %y, %2
)");
    EXPECT_EQ(kinds(p), (Kinds{pointwise, dense}));
    EXPECT_EQ(program(p, p.passes[1]), "prologue relu, tile lattice");
    EXPECT_TRUE(p.buffers().empty());
}

TEST(PlanShape, VarianceAcrossTilesOnlyWhereTheEngineTakesIt) {
    Machine without = Machine::cpu(2);
    without.grid_var = false;
    const std::string body = head + lattice + "  %1 = var(%y) dims=[0,2,3]\n  return %1\n";
    EXPECT_EQ(kinds(planned(body, Machine::cpu(2))), Kinds{dense});
    EXPECT_EQ(kinds(planned(body, without)), (Kinds{dense, pointwise}));
}

TEST(PlanShape, AResidualIsStoredOnceAndActivatedByItsReaders) {
    const Plan p = planned(head + R"(
  %w2 = param f32[1,16,16,3,3]
  %x1 = lattice(%x, %w2) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  %a = leaky_relu(%x1) negative_slope=0.1
  %t = lattice(%a, %w2) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  %x2 = add(%x1, %t)
  return %x2
)");
    EXPECT_EQ(kinds(p), (Kinds{dense, dense}));
    EXPECT_EQ(program(p, p.passes[0]), "tile lattice");
    EXPECT_EQ(program(p, p.passes[1]), "prologue leaky_relu, tile lattice, tile add");
    EXPECT_EQ(p.buffers().size(), 1u);
}

TEST(PlanShape, ConcatIsReadWhereItsPiecesLieIfTheEngineCan) {
    const std::string body = R"(
  %x = input f32[8,16,64,64]
  %skip = input f32[8,16,64,64]
  %w = param f32[1,16,16,3,3]
  %v = param f32[1,32,8,3,3]
  %y = lattice(%x, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  %c = concat(%skip, %y) axis=1
  %z = lattice(%c, %v) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  return %z
)";
    Machine able = Machine::h200();
    able.concat_sources = 2;
    const Plan p = planned(body, able);
    EXPECT_EQ(kinds(p), (Kinds{dense, dense}));
    EXPECT_EQ(program(p, p.passes[1]), "prologue concat, tile lattice");
    able.concat_sources = 0;
    EXPECT_EQ(kinds(planned(body, able)), (Kinds{dense, pointwise, dense}));
}

TEST(PlanShape, AValueKeptBesideItsPool) {
    const std::string body = head + lattice + "  %1 = relu(%y)\n  %2 = max_pool(%1) kernel=[2,2]\n  return %1, %2\n";
    Machine able = Machine::cpu(2), unable = able;
    unable.sinks_before_pool = false;
    EXPECT_EQ(kinds(planned(body, able)), Kinds{dense});
    EXPECT_EQ(kinds(planned(body, unable)), (Kinds{dense, library}));
}

TEST(PlanShape, CastsInAPrologueOnlyWhereTheEngineTakesThem) {
    const std::string body = R"(
  %x = input f32[8,16,64,64]
  %w = param f16[1,16,32,3,3]
  %h = cast(%x) dtype=f16
  %y = lattice(%h, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  return %y
)";
    Machine able = Machine::cpu(2), unable = able;
    unable.prologue_casts = false;
    EXPECT_EQ(kinds(planned(body, able)), Kinds{dense});
    EXPECT_EQ(kinds(planned(body, unable)), (Kinds{pointwise, dense}));
    unable.thin_work = 16 * 32 * 9;
    EXPECT_EQ(kinds(planned(body, unable)), Kinds{dense});
    --unable.thin_work;
    EXPECT_EQ(kinds(planned(body, unable)), (Kinds{pointwise, dense}));
}

// Statistics are of the widened values, what is stored for later has 16 bits.
TEST(PlanShape, WhatWasWidenedIsStoredNarrow) {
    const std::string body = R"(
  %x = input f16[8,64,64,64]
  %w = param f16[1,64,32,3,3]
  %y = lattice(%x, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
  %v = cast(%y) dtype=f32
  %m = mean(%v) dims=[0,2,3] keepdim=1
  %d = sub(%v, %m)
  %r = relu(%d)
)";
    const auto stored = [](const Plan& plan, DType dtype) {
        int count = 0;
        for (const Pass& pass : plan.passes)
            for (const Store& store : pass.stores)
                count += plan.graph[store.value].type == Type{dtype, {8, 32, 64, 64}};
        return count;
    };
    for (const Machine& machine : {Machine::h200(), Machine::cpu(2)}) {
        const Plan narrow = planned(body + "  %z = cast(%r) dtype=f16\n  return %z\n", machine);
        EXPECT_EQ(kinds(narrow), (Kinds{dense, pointwise}));
        EXPECT_EQ(stored(narrow, DType::f32), 0) << print(narrow);
        EXPECT_EQ(stored(narrow, DType::f16), 2) << print(narrow);
        const Plan asked = planned(body + "  return %r, %v\n", machine);  // who asks for it in fp32 gets it
        EXPECT_EQ(stored(asked, DType::f16), 0) << print(asked);
    }
    // A pool takes it element by element, a matrix product does not.
    const std::string pool = R"(
  %k = full() dtype=f32 shape=[32,1,1,2,2] value=0.25
  %p = lattice(%d, %k) up=[1,1] down=[2,2] dil=[1,1] offset=[1,1] out=[32,32] groups=32
  %q = mul(%p, %m)
  return %q
)";
    EXPECT_EQ(stored(planned(body + pool), DType::f32), 0);
    const std::string product = R"(
  %k = param f32[1,32,32,1,1]
  %p = lattice(%d, %k) up=[1,1] down=[1,1] dil=[1,1] offset=[0,0] out=[64,64] groups=1
  %q = mul(%p, %m)
  return %q
)";
    EXPECT_GT(stored(planned(body + product), DType::f32), 0);
}

TEST(PlanShape, ThinProductsTakeNoCastBesideAReduction) {
    Machine unable = Machine::h200();
    const std::string body = R"(
  %x = input f16[8,3,64,64]
  %w = param f32[1,3,16,3,3]
  %h = cast(%x) dtype=f32
  %y = lattice(%h, %w) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64] groups=1
)";
    const std::string sum = "  %s = sum(%y) dims=[1] keepdim=1\n  return %s\n";
    EXPECT_EQ(kinds(planned(body + "  return %y\n", unable)), Kinds{dense});
    EXPECT_EQ(kinds(planned(body + sum, unable)), (Kinds{pointwise, dense}));
}

// Gradients of weights come as soon as what they read is there, so that it is not held until the end.
TEST(PlanShape, WhatIsReadLastIsFreedFirst) {
    const Plan p = plan(parse(R"(graph g {
  %a = input f32[8,64,64,64]
  %b = input f32[8,64,64,64]
  %c = input f32[8,64,64,64]
  %u = param f32[1,64,64,3,3]
  %v = param f32[1,64,64,3,3]
  %y = lattice(%a, %u) groups=1 up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64]
  %r = tanh(%y)
  %z = lattice(%r, %v) groups=1 up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64]
  %s = tanh(%z)
  %w = lattice(%s, %u) groups=1 up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] out=[64,64]
  %dv = correlate(%c, %s) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] taps=[3,3] groups=1
  %du = correlate(%b, %r) up=[1,1] down=[1,1] dil=[1,1] offset=[1,1] taps=[3,3] groups=1
  return %w, %dv, %du
}
)"),
                        Machine::h200());
    std::vector<std::string> order;
    for (const Pass& pass : p.passes)
        for (const Store& store : pass.stores) order.push_back(p.graph[store.value].name);
    EXPECT_EQ(order, (std::vector<std::string>{"r", "du", "s", "w", "dv"})) << print(p);
}

}  // namespace
}  // namespace transfuse
