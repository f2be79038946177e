// A plan made for one size serves another only where it is what would be made for that one, to the last number.
#include <gtest/gtest.h>

#include "other_sizes.h"
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
    return tests::types_at(graph, [&](int64_t axis) {
        return axis == 0 ? batch : few ? near + random.between(0, 2) : near + 200 * axis;
    });
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
        const Plan expected = plan(rewritten, machine);
        const LentPlan lent = forms.lend(rewritten, machine);  // given back for the next
        const Plan& got = *lent;
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

// The number of plans that were made for graphs, one after another.
int64_t made_for(const std::vector<Graph>& graphs) {
    Forms forms;
    for (const Graph& graph : graphs) {
        const Graph rewritten = rewrite(graph).rewritten;
        const Plan expected = plan(rewritten, Machine::h200()), got = forms.plan(rewritten, Machine::h200());
        EXPECT_EQ(print(got), print(expected)) << print(graph);
        EXPECT_TRUE(got.passes == expected.passes) << print(graph) << print(expected);
        EXPECT_EQ(got.views, expected.views) << print(graph) << print(expected);
    }
    return forms.made();
}

// Of a program at several extents of one axis of its first input.
int64_t made_at(const std::string& body, const std::vector<int64_t>& extents, size_t axis = 2) {
    const Graph graph = parse("graph g {\n" + body + "}\n");
    std::vector<Graph> graphs;
    for (const int64_t extent : extents) {
        std::vector<Type> types;
        for (ValueId leaf : graph.leaves()) types.push_back(graph[leaf].type);
        types[0].shape[axis] = extent;
        graphs.push_back(graph.with_leaf_types(types));
    }
    return made_for(graphs);
}

// Plans that are lent at the same time are each their own; one that is given back serves for another size.
TEST(PlanForms, LentBesideOneAnother) {
    const Graph graph = parse(
        "graph g {\n %x = input f32[2,8,9]\n %w = param f32[8,8,3]\n %e = tanh(%x)\n"
        "%y = conv_transpose(%e, %w) stride=[2]\n %c = concat(%y, %y) axis=2\n return %c\n}\n");
    const auto at = [&](int64_t extent) {
        std::vector<Type> types = {graph[graph.leaves()[0]].type, graph[graph.leaves()[1]].type};
        types[0].shape[2] = extent;
        return rewrite(graph.with_leaf_types(types)).rewritten;
    };
    const Machine machine = Machine::h200();
    const auto expect = [&](const LentPlan& lent, const Graph& of) {
        EXPECT_TRUE((*lent).passes == plan(of, machine).passes);
        EXPECT_TRUE((*lent).graph == of);
    };
    Forms forms;
    const Graph first = at(9), second = at(20), third = at(31), fourth = at(44);
    forms.lend(first, machine);
    {
        const LentPlan one = forms.lend(second, machine), two = forms.lend(third, machine);
        expect(one, second), expect(two, third);
    }
    const LentPlan one = forms.lend(fourth, machine), two = forms.lend(second, machine);
    expect(one, fourth), expect(two, second);
    EXPECT_EQ(forms.made(), 1);
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

// All extents differ from each other, and from those of the other graph; whether one is cut in two decides.
TEST(PlanForms, AreOthersWhereReshapesSplitNoMore) {
    const auto cut = [](const char* from) {
        return parse(std::string("graph g {\n %x = input f32[") + from +
                     "]\n %r = reshape(%x) shape=[2,3,5,7]\n %t = permute(%r) order=[3,1,0,2]\n %y = tanh(%t)\n"
                     " return %y\n}\n");
    };
    EXPECT_EQ(made_for({cut("6,35"), cut("6,35")}), 1);
    EXPECT_EQ(made_for({cut("6,35"), cut("10,21"), cut("6,35"), cut("10,21"), cut("14,15")}), 2);
}

// What is broadcast, reduced or empty is no size among others.
TEST(PlanForms, AreOthersOfExtentsOfOneAndZero) {
    const std::string norm =
        "%x = input f32[3,8,6,5]\n %g = param f32[8]\n %b = param f32[8]\n %y = group_norm(%x, %g, %b) num_groups=2\n"
        "%z = softmax(%y) dims=[3]\n %m = mean(%z) dims=[2] keepdim=1\n %a = add(%z, %m)\n return %a\n";
    for (const size_t axis : {0, 2, 3}) {
        EXPECT_EQ(made_at(norm, {9, 10, 1, 9, 1}, axis), 2) << axis;
        EXPECT_EQ(made_at(norm, {9, 0, 11, 0, 1, 0, 1}, axis), 3) << axis;
        EXPECT_EQ(made_at(norm, {1, 12, 0, 13}, axis), 3) << axis;
    }
    const std::string up =
        "%x = input f32[3,8,9]\n %w = param f32[8,4,3]\n %y = conv_transpose(%x, %w) stride=[2] padding=[1]\n"
        "%z = max_pool(%y) kernel=[1]\n %c = concat(%z, %y) axis=2\n return %c\n";
    EXPECT_EQ(made_at(up, {20, 1, 21, 1, 30}), 2);
    EXPECT_EQ(made_at(up, {20, 0, 21, 1, 0}, 0), 3);
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
