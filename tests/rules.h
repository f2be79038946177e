// Rules one by one: does it fire where it should, does it stay away where it must, is the result exact.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "random_graphs.h"
#include "transfuse/transfuse.h"

namespace transfuse::tests {

inline int count(const Derivation& derivation, std::string_view rule) {
    int fired = 0;
    for (const Step& step : derivation.steps) fired += step.rule == rule;
    return fired;
}

inline int count(const Graph& graph, Op op) {
    int found = 0;
    for (const Node& node : graph.nodes()) found += node.op == op;
    return found;
}

// Largest error relative to the largest element of its output. NaN and infinity must be met exactly.
inline double error(const std::vector<std::vector<double>>& expected, const std::vector<std::vector<double>>& actual) {
    double worst = expected.size() == actual.size() ? 0 : HUGE_VAL;
    for (size_t o = 0; o < expected.size() && worst < HUGE_VAL; ++o) {
        if (expected[o].size() != actual[o].size()) return HUGE_VAL;
        double scale = 0;
        for (double value : expected[o])
            if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
        for (size_t i = 0; i < expected[o].size(); ++i) {
            const double a = expected[o][i], b = actual[o][i];
            if (a == b || (std::isnan(a) && std::isnan(b))) continue;
            worst = std::isfinite(a) && std::isfinite(b) ? std::max(worst, std::abs(a - b) / std::max(scale, 0.1))
                                                         : HUGE_VAL;
        }
    }
    return worst;
}

// What a graph's own conditioning makes of a relative change of 1e-15 in its leaves.
inline double noise(const Graph& graph, const std::vector<std::vector<double>>& leaves,
                    const std::vector<std::vector<double>>& expected) {
    Random random(99);
    auto moved = leaves;
    for (auto& tensor : moved)
        for (double& value : tensor) value *= 1 + 1e-15 * random.uniform(-1, 1);
    return error(expected, evaluate(graph, moved));
}

inline Derivation expect_exact(const Graph& graph, const RewriteOptions& options, uint64_t seed,
                               double tolerance = 1e-12) {
    const Derivation derivation = rewrite(graph, options);
    const auto leaves = random_leaves(graph, seed);
    const auto expected = evaluate(graph, leaves);
    const double off = error(expected, evaluate(derivation.rewritten, leaves));
    if (off > tolerance) {
        EXPECT_LE(off, 100 * noise(graph, leaves, expected)) << "seed " << seed << "\n" << explain(derivation);
    }
    EXPECT_EQ(derivation.rewritten.leaves().size(), graph.leaves().size());
    EXPECT_EQ(derivation.rewritten.output_names(), graph.output_names());
    for (size_t i = 0; i < graph.outputs().size(); ++i)
        EXPECT_EQ(derivation.rewritten[derivation.rewritten.outputs()[i]].type, graph[graph.outputs()[i]].type);
    EXPECT_LT(derivation.steps.size(), 300u) << "it does not come to an end";
    return derivation;
}

// `body` is what stands between the braces of a graph.
inline Graph graph_of(const std::string& body) { return parse("graph g {\n" + body + "\n}\n"); }

inline GradientRequest all_gradients(const Graph& graph) {
    GradientRequest request;
    for (size_t i = 0; i < graph.outputs().size(); ++i) request.outputs.push_back(static_cast<ValueId>(i));
    for (size_t i = 0; i < graph.leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
    return request;
}

// The gradients of all leaves are those of the graph as it is written.
inline void expect_exact_gradients(const Graph& graph, uint64_t seed, double tolerance = 1e-10) {
    const GradientRequest request = all_gradients(graph);
    const Graph written = gradient(graph, request);
    const Derivation derivation = derive_gradient(graph, request);
    const auto leaves = random_leaves(written, seed);
    EXPECT_LE(error(evaluate(written, leaves), evaluate(derivation.rewritten, leaves)), tolerance)
        << "seed " << seed << "\n"
        << explain(derivation);
}

// Alone (with the expansions), then together with all others; always exact.
inline Derivation expect_fires(const std::string& rule, const std::string& body, RewriteOptions options = {}) {
    const Graph graph = graph_of(body);
    options.heed_cost = false;
    options.only = {rule};
    const Derivation alone = expect_exact(graph, options, 1);
    EXPECT_GE(count(alone, rule), 1) << explain(alone);
    options.only.clear();
    expect_exact(graph, options, 2);
    options.heed_cost = true;
    expect_exact(graph, options, 3);
    return alone;
}

inline void expect_stays(const std::string& rule, const std::string& body, RewriteOptions options = {}) {
    const Graph graph = graph_of(body);
    options.heed_cost = false;
    const Derivation all = expect_exact(graph, options, 4);
    EXPECT_EQ(count(all, rule), 0) << explain(all);
}

}  // namespace transfuse::tests
