// What rewriting begins with does not depend on sizes: made at one size and grown, it is what is made at another, and
// it is what rewriting begins with there.
#include <gtest/gtest.h>

#include <algorithm>

#include "algebra/lower.h"
#include "other_sizes.h"
#include "random_graphs.h"
#include "rows.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

// What was grown to a third size becomes what is asked for, unless somebody has it still.
void expect_grown_again(const Lowered& begin, const std::vector<Type>& types, const Lowered& fresh) {
    const std::vector<Type> others = tests::types_at(begin.graph, [](int64_t axis) { return 4 + 3 * axis; });
    std::optional<Lowered> spare;
    try {
        spare = grown(begin, others);
    } catch (const Error&) {
        return;
    }
    const Graph kept = spare->graph;
    const std::string before = print(kept);
    const Lowered beside = grown(begin, types, spare);
    EXPECT_EQ(print(kept), before);
    for (const Lowered& anew : {beside, grown(begin, types, grown(begin, others))}) {
        EXPECT_TRUE(anew.graph == fresh.graph) << print(anew.graph) << print(fresh.graph);
        EXPECT_EQ(anew.costs, fresh.costs) << print(anew.graph);
    }
}

// Counts the sizes that were compared.
void expect_grown(const Graph& first, int64_t batch, int64_t space, int& compared) {
    const std::vector<Type> types =
        tests::types_at(first, [&](int64_t axis) { return axis == 0 ? batch : space + axis; });
    const Lowered begin = lowered(first);
    Graph other;
    try {
        other = first.with_leaf_types(types);
    } catch (const Error&) {
        return;  // it does not hold for these extents
    }
    const Lowered fresh = lowered(other);
    EXPECT_EQ(print(rewrite_lowered(fresh, {})), print(rewrite(other).rewritten)) << print(other);
    try {
        rewrite_lowered(begin, {});  // what is quiet there is not asked again
        const Lowered anew = grown(begin, types);
        EXPECT_TRUE(anew.graph == fresh.graph) << print(anew.graph) << print(fresh.graph);
        EXPECT_EQ(anew.costs, fresh.costs) << print(anew.graph);
        EXPECT_EQ(print(rewrite_lowered(anew, {})), print(rewrite(other).rewritten)) << print(other);
        expect_grown_again(begin, types, fresh);
        ++compared;
    } catch (const Error& error) {  // results of no elements are left to what was written
        const auto is_empty = [](const Node& node) { return numel(node.type.shape) == 0; };
        const auto& nodes = fresh.graph.nodes();
        EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), is_empty)) << error.what() << print(fresh.graph);
    }
}

TEST(Lowered, RowsOfOtherSizes) {
    int compared = 0;
    for (const auto& [name, text] : tests::rows())
        for (const DType dtype : {DType::f32, DType::f16})
            for (const int64_t space : {1, 2, 5, 16, 31})
                expect_grown(tests::row(name, tests::Scale::small, dtype), 3, space, compared);
    EXPECT_GT(compared, 150);
}

TEST(Lowered, RandomGraphsOfOtherSizes) {
    int compared = 0;
    for (uint64_t seed = 0; seed < 600; ++seed) {
        RandomGraphOptions options;
        options.ample = seed % 2 == 1;
        options.dtype = seed % 3 == 2 ? DType::f16 : DType::f32;
        const Graph graph = random_graph(seed, options);
        for (const int64_t space : {1, 3, 6, 9}) expect_grown(graph, 2, space, compared);
    }
    EXPECT_GT(compared, 1000);
}

// Weights by their norms, strides of one and others, a signal without a batch axis, numbers that change nothing.
TEST(Lowered, WhatExtentsDecideStaysAsWritten) {
    const Graph graph = parse(
        "graph g {\n  %x = input f32[2,4,9]\n  %v = param f32[4,6,3]\n  %g = param f32[4,1,1]\n"
        "  %s = param f32[5,6,3]\n  %w = weight_norm(%v, %g) axis=0\n"
        "  %y = conv_transpose(%x, %w) stride=2\n  %a = add(%y, 0)\n  %b = div(%a, 2)\n"
        "  %z = conv(%b, %s) stride=2\n  return %z\n}\n");
    const auto count = [](const Graph& of, Op op) {
        return std::count_if(of.nodes().begin(), of.nodes().end(), [&](const Node& node) { return node.op == op; });
    };
    const Graph begin = lowered(graph).graph;
    EXPECT_EQ(count(begin, Op::weight_norm), 0);
    EXPECT_EQ(count(begin, Op::conv_transpose), 0);
    EXPECT_EQ(count(begin, Op::lattice), 1);
    EXPECT_EQ(count(begin, Op::conv), 1);  // how its result grows depends on the rest
    EXPECT_EQ(count(begin, Op::add), 0);
    int compared = 0;
    for (int64_t space = 0; space < 12; ++space) expect_grown(graph, 1 + space % 3, space, compared);
    EXPECT_GT(compared, 8);
}

}  // namespace
}  // namespace transfuse
