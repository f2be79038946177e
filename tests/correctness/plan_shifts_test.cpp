// Shifts of a convolution that is computed twice are gathered into one, where that changes nothing but the rounding.
#include <gtest/gtest.h>

#include "cpu_check.h"
#include "plan_rules.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

// Whatever can be is computed twice, nothing stored and read again.
Machine recomputing() {
    Machine machine = Machine::cpu(2);
    machine.bandwidth = 1, machine.launch = 0;
    return machine;
}

Graph graph_of(const std::string& body, const std::string& dtype = "f32") {
    std::string text = R"(graph g {
  %x = input T[3,4,9,10]
  %w = param T[1,4,8,3,3]
  %b = param T[8]
  %s = param T[8,1,1]
  %i = input T[3,1,1,1]
  %y = lattice(%x, %w, %b) up=[2,2] down=[1,1] dil=[1,1] offset=[1,1] out=[17,19] groups=1
  %m = mean(%y) dims=[0,2,3] keepdim=1
)" + body + "}\n";
    for (size_t at; (at = text.find(" T[")) != std::string::npos;) text.replace(at + 1, 1, dtype);
    return parse(text);
}

// What the second computation of the tiles does, and how many operands its lattice has.
std::string second(const Plan& plan) {
    check_rules(plan);
    const Pass& pass = plan.passes.back();
    std::string text = std::to_string(plan.graph[pass.anchor].args.size());
    for (const TileStep& step : pass.steps) text += " " + std::string(name(plan.graph[step.value].op));
    return text;
}

void expect_faithful(const Graph& graph, const Plan& chosen) {
    auto leaves = random_leaves(graph, 7);
    for (double& b : leaves[2]) b += 100;  // far from zero, as means are
    for (auto& leaf : leaves) leaf = rounded(leaf, DType::f32);
    const auto expected = evaluate(graph, leaves);
    std::string why;
    EXPECT_TRUE(close(evaluate(chosen, leaves), expected, 1e-11, &why)) << why << print(chosen);
    EXPECT_TRUE(close(run_cpu(chosen, leaves, {}), expected, 2e-5, &why)) << why << print(chosen);
}

TEST(PlanShifts, BiasAndShiftsAreOneTable) {
    for (const char* body :
         {"  %d = sub(%y, %m)\n  %r = tanh(%d)\n  return %r\n",
          "  %d = sub(%y, %m)\n  %e = add(%i, %d)\n  %r = tanh(%e)\n  return %r\n",
          "  %d = add(%y, %m)\n  %e = sub(%d, %s)\n  %f = sub(%e, %i)\n  %r = tanh(%f)\n  return %r\n",
          "  %d = sub(%y, %m)\n  %e = add(%d, 0.5)\n  %r = tanh(%e)\n  return %r\n"}) {
        const Graph graph = graph_of(body);
        const Plan chosen = plan(graph, recomputing());
        EXPECT_EQ(second(chosen), "2 lattice sub tanh") << print(chosen);
        EXPECT_EQ(chosen.gathered.size(), 1u);
        EXPECT_NE(chosen.passes.back().why.find("computed twice"), std::string::npos) << print(chosen);
        expect_faithful(graph, chosen);
    }
}

// A mean that the bias took away and a shift gives back is in no table.
TEST(PlanShifts, WhatCancelsIsGone) {
    const Graph graph = parse(R"(graph g {
  %x = input f32[3,4,9,10]
  %w = param f32[1,4,8,3,3]
  %c = input f32[1,8,1,1]
  %i = input f32[3,8,1,1]
  %n = neg(%c)
  %b = reshape(%n) shape=[8]
  %y = lattice(%x, %w, %b) up=[2,2] down=[1,1] dil=[1,1] offset=[1,1] out=[17,19] groups=1
  %m = mean(%y) dims=[0,2,3] keepdim=1
  %d = sub(%y, %m)
  %e = sub(%i, %c)
  %f = sub(%d, %e)
  %r = tanh(%f)
  return %r
})");
    const Plan chosen = plan(graph, recomputing());
    EXPECT_EQ(second(chosen), "2 lattice sub tanh") << print(chosen);
    const Node& shift = chosen.graph[chosen.graph[chosen.passes.back().steps[1].value].args[1]];
    ASSERT_EQ(shift.op, Op::add) << print(chosen);
    EXPECT_EQ(chosen.graph[shift.args[0]].name + chosen.graph[shift.args[1]].name, "im") << print(chosen);
    expect_faithful(graph, chosen);
}

// Not where the value before or between is wanted, where the shift varies over the image, where it is not one shift
// less, and in other types than f32.
TEST(PlanShifts, OtherwiseTheTilesStayAsTheyAre) {
    for (const char* body :
         {"  %d = sub(%y, %m)\n  %r = mul(%d, %y)\n  return %r\n", "  %d = sub(%m, %y)\n  %r = tanh(%d)\n  return %r\n",
          "  %q = expand(%m) shape=[1,8,17,19]\n"
          "  %d = sub(%y, %q)\n  %r = tanh(%d)\n  return %r\n"}) {
        const Graph graph = graph_of(body);
        const Plan chosen = plan(graph, recomputing());
        EXPECT_EQ(second(chosen).front(), '3') << print(chosen);
        EXPECT_TRUE(chosen.gathered.empty());
        expect_faithful(graph, chosen);
    }
    const std::string centred = "  %d = sub(%y, %m)\n  %r = tanh(%d)\n  return %r\n";
    EXPECT_EQ(second(plan(graph_of(centred, "f16"), recomputing())).front(), '3');
    EXPECT_EQ(second(plan(graph_of(centred, "f64"), recomputing())).front(), '3');
    // Stored, there is nothing to gather.
    Machine stores = recomputing();
    stores.flops = 1;
    EXPECT_TRUE(plan(graph_of(centred), stores).gathered.empty());
}

TEST(PlanShifts, RandomGraphsMeanTheSame) {
    RandomGraphOptions options;
    options.dtype = DType::f32;
    int gathered = 0;
    for (uint64_t seed = 3000; seed < 6000; ++seed) {
        const Graph graph = rewrite(random_graph(seed, options)).rewritten;
        const Plan chosen = plan(graph, recomputing());
        if (chosen.gathered.empty()) continue;
        ++gathered;
        check_rules(chosen);
        const auto leaves = random_leaves(graph, seed);
        std::string why;
        EXPECT_TRUE(close(evaluate(chosen, leaves), evaluate(graph, leaves), 1e-9, &why)) << why << print(chosen);
    }
    EXPECT_GT(gathered, 20);
}

}  // namespace
}  // namespace transfuse
