// A plan means what its graph means, keeps the rules the engines rely on, and is chosen by cost.
#include <gtest/gtest.h>

#include <cmath>

#include "plan/order.h"
#include "plan_rules.h"
#include "random_graphs.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

double relative_error(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& expected) {
    double worst = 0;
    EXPECT_EQ(got.size(), expected.size());
    for (size_t output = 0; output < expected.size(); ++output) {
        EXPECT_EQ(got[output].size(), expected[output].size());
        double scale = 1e-30, error = 0;
        for (size_t i = 0; i < expected[output].size(); ++i) {
            scale = std::max(scale, std::abs(expected[output][i]));
            error = std::max(error, std::abs(got[output][i] - expected[output][i]));
            if (std::isnan(got[output][i]) != std::isnan(expected[output][i])) error = INFINITY;
        }
        worst = std::max(worst, error / scale);
    }
    return worst;
}

// Machines that push the planner to each side of its choices.
std::vector<Machine> machines() {
    Machine stores = Machine::cpu(2), recomputes = Machine::h200(), mean = Machine::h200(), loops = Machine::h200();
    stores.flops = 1;          // never compute twice
    recomputes.bandwidth = 1;  // never store
    recomputes.launch = 0;
    mean.tail_elements = mean.row_elements = 0;  // no tails, no rows, no pools in tiles, no channel reductions
    mean.tile_channels = mean.pools_in_tile = 0;
    loops.tail_elements = 8;  // little fits a tail
    loops.row_elements = 6;
    loops.tile_channels = 3;
    mean.sinks_before_pool = mean.prologue_casts = mean.grid_var = mean.any_rows = false;
    stores.concat_sources = loops.concat_sources = 3;
    return {Machine::h200(), Machine::cpu(2), stores, recomputes, mean, loops};
}

void expect_faithful(const Graph& graph, uint64_t seed) {
    const auto leaves = random_leaves(graph, seed);
    const auto expected = evaluate(graph, leaves);
    for (const Machine& machine : machines()) {
        const Plan chosen = plan(graph, machine);
        ASSERT_NO_THROW(check_rules(chosen)) << print(graph);
        const auto got = evaluate(chosen, leaves);
        ASSERT_LE(relative_error(got, expected), 1e-12) << print(graph) << print(chosen);
    }
}

TEST(Plan, MeansWhatItsGraphMeans) {
    for (uint64_t seed = 0; seed < 400; ++seed) expect_faithful(random_graph(seed), seed);
}

TEST(Plan, MeansWhatItsGraphMeansAfterRewriting) {
    for (uint64_t seed = 1000; seed < 1400; ++seed) expect_faithful(rewrite(random_graph(seed)).rewritten, seed);
}

TEST(Plan, MeansWhatAGradientGraphMeans) {
    for (uint64_t seed = 2000; seed < 2150; ++seed) {
        const Graph forward = rewrite(random_graph(seed)).rewritten;
        GradientRequest request{{0}, {}};
        for (size_t leaf = 0; leaf < forward.leaves().size(); ++leaf) request.wrt.push_back(static_cast<ValueId>(leaf));
        expect_faithful(rewrite(gradient(forward, request)).rewritten, seed);
    }
}

// Activations made again from what was kept, each read by the backward of its own layer: none of them waits in memory
// while another layer is at work.
TEST(Plan, WhatIsMadeOfLeavesIsMadeWhenItIsRead) {
    constexpr double mega = 1 << 20;
    const std::vector<Running> passes{{{}, 4 * mega, true},       // 0: activation of the first layer
                                      {{}, 8 * mega, true},       // 1: of the second
                                      {{}, 16 * mega, true},      // 2: of the third
                                      {{2}, 16 * mega, true},     // 3: gradient of the third
                                      {{2, 3}, 0, true},          // 4: of its weight
                                      {{1, 3}, 8 * mega, true},   // 5
                                      {{1, 5}, 0, true},          // 6
                                      {{}, 0, false},             // 7: nothing of it is needed
                                      {{0, 5}, 4 * mega, true}};  // 8
    EXPECT_EQ(in_order(passes), (std::vector<int>{2, 3, 4, 1, 5, 6, 0, 8}));
}

}  // namespace
}  // namespace transfuse
