// A plan made for one size serves another only where it is what would be made for that one, to the last number.
#include <gtest/gtest.h>

#include "plan/form.h"
#include "random_graphs.h"
#include "rows.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

// Inputs of other batches and extents: every second time different ones, else few, so that some become equal to each
// other, to numbers of channels or taps, or to 1.
std::vector<Type> other_types(const Graph& graph, Random& random, int64_t largest) {
    const bool few = random.chance(0.5);
    const int64_t batch = random.between(1, 4) + (few ? 0 : 70), near = random.between(1, largest);
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) {
        types.push_back(graph[leaf].type);
        if (graph[leaf].op != Op::input) continue;
        Sizes& shape = types.back().shape;
        for (size_t axis = 0; axis < shape.size(); ++axis)
            if (axis != 1)
                shape[axis] = axis == 0 ? batch
                              : few     ? near + random.between(0, 2)
                                        : near + 200 * static_cast<int64_t>(axis);
    }
    return types;
}

struct Met {
    int64_t plans = 0, made = 0;
};

// Sizes of one program, one after another. The first plan is made for the graph as it is.
void meet(const Graph& graph, const Machine& machine, uint64_t seed, int sizes, int64_t largest, Met& met) {
    Random random(seed);
    Forms forms;
    const RewriteOptions options{.without = {}, .only = {}, .prices = machine.prices};
    for (int i = 0; i < sizes; ++i) {
        Graph rewritten;
        try {
            const Graph other = i == 0 ? graph : graph.with_leaf_types(other_types(graph, random, largest));
            rewritten = rewrite(other, options).rewritten;
        } catch (const Error&) {
            continue;  // it does not hold for these extents
        }
        const Plan expected = plan(rewritten, machine), got = forms.plan(rewritten, machine);
        ASSERT_TRUE(got.graph == expected.graph);
        ASSERT_EQ(print(got), print(expected));
        ASSERT_TRUE(got.passes == expected.passes) << print(expected);
        ASSERT_EQ(got.views, expected.views) << print(expected);
        ASSERT_EQ(got.seconds, expected.seconds) << print(expected);
        ++met.plans;
    }
    met.made += forms.made();
}

TEST(PlanForms, OfEveryRow) {
    for (const Machine& machine : {Machine::h200(), Machine::cpu(4)}) {
        Met met;
        for (const auto& [name, text] : tests::rows()) {
            SCOPED_TRACE(name);
            meet(parse(text), machine, 3, 40, 140, met);
        }
        EXPECT_LT(met.made, met.plans * 3 / 4) << machine.name;
    }
}

TEST(PlanForms, OfRandomGraphs) {
    Met met;
    for (uint64_t seed = 0; seed < 600; ++seed) {
        SCOPED_TRACE(seed);
        const Machine machine = seed % 2 ? Machine::h200() : Machine::cpu(4);
        meet(random_graph(seed), machine, seed, 12, seed % 3 ? 40 : 6, met);
    }
    EXPECT_LT(met.made, met.plans * 7 / 8);
}

// A program at several lengths of its first input. The number of plans that were made.
int64_t made_at(const std::string& body, const std::vector<int64_t>& lengths) {
    const Graph graph = parse("graph g {\n" + body + "}\n");
    Forms forms;
    for (const int64_t length : lengths) {
        std::vector<Type> types;
        for (ValueId leaf : graph.leaves()) types.push_back(graph[leaf].type);
        types[0].shape[2] = length;
        const Graph rewritten = rewrite(graph.with_leaf_types(types)).rewritten;
        const Plan expected = plan(rewritten, Machine::h200()), got = forms.plan(rewritten, Machine::h200());
        EXPECT_EQ(print(got), print(expected)) << length;
        EXPECT_TRUE(got.passes == expected.passes) << length << print(expected);
    }
    return forms.made();
}

// With few elements a chain needs no loop, and where rows become too long no loop holds one.
TEST(PlanForms, AreOthersWhereSizesDecide) {
    const int64_t made = made_at(
        "%x = input f32[2,8,9]\n %w = param f32[8,8,3]\n %e = tanh(%x)\n %s = softmax(%e) dims=[2]\n"
        "%y = conv_transpose(%s, %w) stride=[2]\n %p = max_pool(%y) kernel=[2]\n return %p\n",
        {9, 10, 8, 1, 2, 1023, 1024, 1025, 1300, 16384, 16385, 17000, 9, 1025, 40000});
    EXPECT_GE(made, 4);
    EXPECT_LE(made, 10);
}

// A chain before a product of many channels: few elements are made while it loads, many before.
TEST(PlanForms, AreOthersWhereMovingDoesNotPay) {
    const int64_t made = made_at(
        "%x = input f32[4,24,1000]\n %w = param f32[1024,24,1]\n %a = gelu(%x)\n %b = gelu(%a)\n %c = gelu(%b)\n"
        "%y = conv(%c, %w)\n return %y\n",
        {1000, 1003, 300, 100000, 200000, 2000000, 999});
    EXPECT_GE(made, 2);
    EXPECT_LE(made, 4);
}

// Loops over as many elements that read the same become one.
TEST(PlanForms, AreOthersWhereExtentsBecomeEqual) {
    const std::string body =
        "%x = input f32[8,64,200]\n %y = input f32[8,64,300]\n %c = input f32[64,1]\n %u = mul(%x, %c)\n"
        "%v = mul(%y, %c)\n return %u, %v\n";
    EXPECT_EQ(made_at(body, {200, 210, 301, 299}), 1);
    EXPECT_EQ(made_at(body, {200, 300, 210, 300}), 2);
}

TEST(PlanForms, AreOthersOfOtherAxes) {
    Forms forms;
    for (const char* axis : {"0", "2", "0"}) {
        const Graph graph = rewrite(parse(std::string("graph g {\n %x = input f32[90,90,90]\n %s = sum(%x) dims=[") +
                                          axis + "] keepdim=1\n return %s\n}\n"))
                                .rewritten;
        EXPECT_TRUE(forms.plan(graph, Machine::h200()).passes == plan(graph, Machine::h200()).passes) << axis;
    }
    EXPECT_EQ(forms.made(), 2);
}

// A concat along the axis that grows: where its pieces begin is told anew.
TEST(PlanForms, PiecesBeginElsewhere) {
    EXPECT_EQ(made_at("%x = input f32[1,4,50,40]\n %a = relu(%x)\n %b = tanh(%x)\n %c = concat(%a, %b, %a) axis=2\n"
                      "%z = max_pool(%c) kernel=[3,3] stride=[2,2]\n return %c, %z\n",
                      {50, 60, 61, 99}),
              1);
}

}  // namespace
}  // namespace transfuse
