// The plans of the benchmark chains, pinned: how many passes of which kind, and what each does.
#include <gtest/gtest.h>

#include "plan_rules.h"
#include "random_graphs.h"
#include "rows.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

constexpr int64_t large = 1 << 20;  // elements: what a plan must not store without need

Plan planned(std::string_view name, const Machine& machine = Machine::h200()) {
    Plan chosen = plan(rewrite(tests::row(name)).rewritten, machine);
    check_rules(chosen);
    return chosen;
}

// One line: the passes but prepare, each with what its steps do besides pointwise arithmetic ('>': across tiles).
std::string shape(const Plan& plan) {
    static constexpr std::string_view kinds[] = {"prepare", "moments", "dense", "correlate", "pointwise", "library"};
    std::string text;
    for (const Pass& pass : plan.passes) {
        if (pass.kind == PassKind::prepare) continue;
        text += (text.empty() ? "" : " | ") + std::string(kinds[static_cast<size_t>(pass.kind)]);
        for (const TileStep& step : pass.steps) {
            const Op op = plan.graph[step.value].op;
            if (step.value == pass.anchor || step.scope == Scope::tail || is_pointwise(op)) continue;
            text += step.scope == Scope::grid ? " >" : " ";
            text += name(op);
        }
    }
    return text;
}

double stored(const Plan& plan) {
    double elements = 0;
    for (const Pass& pass : plan.passes)
        if (pass.kind != PassKind::prepare)
            for (const Store& store : pass.stores)
                elements += static_cast<double>(numel(plan.graph[store.value].type.shape));
    return elements;
}

const Pass& pass(const Plan& plan, PassKind kind) {
    for (const Pass& pass : plan.passes)
        if (pass.kind == kind) return pass;
    fail("no such pass\n", print(plan));
}

int64_t taps(const Plan& plan, const Pass& pass) {
    int64_t product = 1;
    for (const Lattice& axis : lattices(plan.graph, pass.anchor)) product *= axis.taps;
    return product;
}

TEST(PlanRows, CollapsedChainsAreOneReadOfTheInput) {
    for (const char* name : {"A", "B", "C_eval"}) {
        const Plan p = planned(name);
        EXPECT_EQ(shape(p), "moments") << print(p);
        EXPECT_LT(stored(p), large);
    }
}

TEST(PlanRows, TrainingBatchNormOfAGlobalMeanStoresNothingLarge) {
    const Plan p = planned("C");
    EXPECT_EQ(shape(p), "moments | dense >mean >mean") << print(p);
    EXPECT_LT(stored(p), large);
}

TEST(PlanRows, PlainConvolutionsAreOneDensePass) {
    for (const char* name : {"D", "d1", "d2", "d3", "d4", "d5", "d6"}) {
        const Plan p = planned(name);
        EXPECT_EQ(shape(p), "dense") << print(p);
        EXPECT_EQ(p.passes.size(), 1u) << "weights need no preparing\n" << print(p);
        EXPECT_TRUE(p.buffers().empty());
    }
}

TEST(PlanRows, PointwiseChainsAreOneDensePass) {
    const std::pair<const char*, const char*> expected[] = {
        {"f1", "dense"}, {"f2", "dense"}, {"f6", "dense"}, {"f8", "dense amax sum"}, {"f11", "dense amax sum"},
    };
    for (const auto& [name, steps] : expected) {
        const Plan p = planned(name);
        EXPECT_EQ(shape(p), steps) << print(p);
    }
}

TEST(PlanRows, PoolMeanTanh) {
    const Plan p = planned("f3");
    EXPECT_EQ(shape(p), "dense max_pool >mean") << print(p);
    EXPECT_EQ(p.graph[p.passes.back().steps.back().value].op, Op::tanh);
    EXPECT_LT(stored(p), large);
}

TEST(PlanRows, MeanOverDepthLeavesATwoDimensionalLattice) {
    const Plan p = planned("f4");
    EXPECT_EQ(shape(p), "moments | dense amax sum") << print(p);
    int extended = 0;
    for (const Lattice& axis : lattices(p.graph, pass(p, PassKind::dense).anchor)) extended += axis.out > 1;
    EXPECT_EQ(extended, 2);
    EXPECT_EQ(taps(p, pass(p, PassKind::dense)), 9);
}

TEST(PlanRows, StatisticsAreComputedTwiceWhereThatIsCheaper) {
    const Plan p = planned("f5");
    EXPECT_EQ(shape(p), "moments | dense >mean >mean | dense") << print(p);
    EXPECT_NE(p.passes.back().why.find("computed twice"), std::string::npos) << print(p);
    Machine slow = Machine::h200();
    slow.flops /= 100;
    const Plan q = planned("f5", slow);
    EXPECT_EQ(shape(q), "moments | dense >mean >mean | pointwise") << print(q);
    EXPECT_NE(q.passes.back().why.find("stored"), std::string::npos) << print(q);
}

TEST(PlanRows, MinimumOverChannelsThenASumOverRows) {
    const Plan p = planned("f7");
    EXPECT_EQ(shape(p), "dense amin >sum") << print(p);
    EXPECT_LT(stored(p), large);
}

TEST(PlanRows, AveragePoolLeavesEightTaps) {
    const Plan p = planned("f9");
    EXPECT_EQ(shape(p), "dense") << print(p);
    EXPECT_EQ(taps(p, pass(p, PassKind::dense)), 8);
}

TEST(PlanRows, PooledBatchNormNeverStoresTheVolume) {
    const Plan p = planned("f10");
    EXPECT_EQ(shape(p), "correlate | dense") << print(p);
    EXPECT_LT(stored(p), 4 * large);  // the result, 16 times smaller than the volume
}

TEST(PlanRows, MaxPoolThenGlobalMeanStoresNothingLarge) {
    const Plan p = planned("f12");
    EXPECT_EQ(shape(p), "dense max_pool >mean") << print(p);
    EXPECT_LT(stored(p), large);
}

TEST(PlanRows, EveryRowIsRightOnEveryMachine) {
    for (const auto& [name, text] : tests::rows()) {
        const Graph graph = tests::row(name, tests::Scale::tiny, DType::f64);
        const auto leaves = random_leaves(graph, 7);
        const auto expected = evaluate(graph, leaves);
        Machine strict = Machine::cpu(1);
        strict.tail_elements = 4;
        for (const Machine& machine : {Machine::h200(), Machine::cpu(2), strict}) {
            const Plan chosen = plan(rewrite(graph).rewritten, machine);
            check_rules(chosen);
            const auto got = evaluate(chosen, leaves);
            for (size_t output = 0; output < expected.size(); ++output) {
                double error = 0, scale = 1e-30;
                for (size_t i = 0; i < expected[output].size(); ++i) {
                    error = std::max(error, std::abs(got[output][i] - expected[output][i]));
                    scale = std::max(scale, std::abs(expected[output][i]));
                }
                EXPECT_LE(error / scale, 1e-11) << name << " " << machine.name;
            }
        }
    }
}

}  // namespace
}  // namespace transfuse
