// What a forward pass keeps for its backward pass: no product is made again, no more is kept than PyTorch keeps, and
// the gradient that takes it is the gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "algebra/gradient/differentiable.h"
#include "program/cut.h"
#include "program/kept.h"
#include "random_graphs.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

int64_t count(const Graph& graph, Op op) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; });
}

GradientRequest everything(const Graph& graph) {
    GradientRequest request;
    for (size_t i = 0; i < graph.outputs().size(); ++i) request.outputs.push_back(static_cast<ValueId>(i));
    for (size_t i = 0; i < graph.leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
    return request;
}

struct Training {
    Graph forward, whole, backward;  // the gradient without what is kept, and with it
    std::vector<ValueId> kept;
};

Training trained(const Graph& written, const std::vector<ValueId>& shared_outputs = {}) {
    Training made;
    const GradientRequest request = everything(written);
    const Differentiable form = differentiable(written, request);
    made.forward = form.forward;
    const Graph gradient = transfuse::gradient(form.forward, request);
    std::vector<ValueId> shared;
    for (ValueId output : shared_outputs) shared.push_back(made.forward.outputs()[static_cast<size_t>(output)]);
    made.kept = kept_values(made.forward, gradient, shared, Machine::h200());
    std::vector<ValueId> taken = made.kept;
    taken.insert(taken.end(), shared.begin(), shared.end());
    made.whole = rewrite(gradient, form.options).rewritten;
    made.backward = rewrite(taking(gradient, made.forward, taken), form.options).rewritten;
    return made;
}

std::vector<Type> types(const Training& made) {
    std::vector<Type> found;
    for (ValueId id : made.kept) found.push_back(made.forward[id].type);
    return found;
}

Graph stack(const std::string& between) {
    return parse("graph g {\n  %x = input f32[2,8,32,32]\n  %v = param f32[16,8,3,3]\n  %w = param f32[8,16,3,3]\n" +
                 between + "\n  %z = conv(%h, %w) padding=[1,1]\n  return %z\n}");
}

TEST(ProgramKept, TheCheapestCutIsFound) {
    Cut cut(5);  // two ways, of which one is narrow behind and one before
    cut.edge(0, 1, 3), cut.edge(1, 4, 8), cut.edge(0, 2, 9), cut.edge(2, 3, 2), cut.edge(3, 4, Cut::never);
    EXPECT_EQ(cut.with_source(0, 4), (std::vector<bool>{true, false, true, false, false}));
}

// The result of a relu tells where it let pass, and is what the next convolution reads: it alone is kept.
TEST(ProgramKept, OneTensorBetweenTwoConvolutions) {
    for (const char* chain :
         {"%y = conv(%x, %v) padding=[1,1]\n  %h = relu(%y)", "%y = conv(%x, %v) padding=[1,1]\n  %h = silu(%y)",
          "%y = conv(%x, %v) padding=[1,1]\n  %a = gelu(%y)\n  %h = mul(%a, 0.5)"}) {
        const Training made = trained(stack(chain));
        EXPECT_EQ(types(made), (std::vector<Type>{{DType::f32, {2, 16, 32, 32}}})) << chain;
        EXPECT_EQ(count(made.backward, Op::lattice), 2) << chain;  // gradients of inputs
        EXPECT_EQ(count(made.backward, Op::correlate), 2) << chain;
    }
}

TEST(ProgramKept, OfANormWhatItNormalisesAndItsStatistics) {
    const Training made =
        trained(parse("graph g {\n  %x = input f32[2,8,32,32]\n  %v = param f32[16,8,3,3]\n  %w = param f32[8,16,3,3]\n"
                      "  %m = param f32[16]\n  %s = param f32[16]\n  %y = conv(%x, %v) padding=[1,1]\n"
                      "  %n = group_norm(%y, %m, %s) num_groups=4 eps=1e-5\n  %h = relu(%n)\n"
                      "  %z = conv(%h, %w) padding=[1,1]\n  return %z\n}"));
    int64_t large = 0;
    for (const Type& type : types(made)) large += numel(type.shape) >= 2 * 16 * 32 * 32;
    EXPECT_EQ(large, 1);
    EXPECT_EQ(count(made.backward, Op::lattice), 2);
}

TEST(ProgramKept, AResultThatTheCallerHasIsNotGivenAgain) {
    const Graph graph = parse(
        "graph g {\n  %x = input f32[2,8,32,32]\n  %v = param f32[16,8,3,3]\n  %y = conv(%x, %v)\n  %t = tanh(%y)\n"
        "  return %t\n}");
    EXPECT_EQ(types(trained(graph)).size(), 1u);
    const Training made = trained(graph, {0});
    EXPECT_TRUE(made.kept.empty());
    EXPECT_EQ(count(made.backward, Op::lattice), 1);
}

// A collapsed chain reads its input once and keeps a few sums of it.
TEST(ProgramKept, SumsOfACollapsedChain) {
    const Training made = trained(parse(R"(graph g {
  %x = input f64[2,3,20,24]
  %w = param f64[3,4,3,3]
  %b = param f64[4]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %m = mean(%y) dims=[2,3] keepdim=1
  %l = logsumexp(%m) dims=[1]
  return %l
})"));
    EXPECT_EQ(count(made.backward, Op::box_sums), 0);
    for (const Type& type : types(made)) EXPECT_LE(numel(type.shape), 2 * 3 * 20 * 24 / 16);
}

// Against the gradient that makes everything again, on random graphs.
TEST(ProgramKept, BackwardTakesWhatForwardGives) {
    int64_t kept = 0;
    for (uint64_t seed = 0; seed < 600; ++seed) {
        const Graph graph = random_graph(seed);
        Training made;
        try {
            made = trained(graph);
        } catch (const Error&) {
            continue;  // has no gradient
        }
        kept += static_cast<int64_t>(made.kept.size());
        const auto leaves = random_leaves(made.forward, seed);
        const auto given = evaluate(giving(made.forward, made.kept), leaves);
        auto inputs = random_leaves(made.whole, seed + 1);
        std::copy(leaves.begin(), leaves.end(), inputs.begin());
        const auto expected = evaluate(made.whole, inputs);
        inputs.insert(inputs.end(), given.begin() + static_cast<std::ptrdiff_t>(made.forward.outputs().size()),
                      given.end());
        const auto found = evaluate(made.backward, inputs);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i)
            for (size_t j = 0; j < found[i].size(); ++j)
                ASSERT_NEAR(found[i][j], expected[i][j], 1e-9 * (1 + std::abs(expected[i][j])))
                    << "seed " << seed << "\n"
                    << print(graph);
    }
    EXPECT_GT(kept, 60);
}

}  // namespace
}  // namespace transfuse
