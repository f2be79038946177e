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

struct Seen {
    int grown = 0;    // graphs of other sizes
    int spared = 0;   // and what was grown in the place of a third size's
    int lowered = 0;  // among them those that are not as written
    int quiet = 0;    // and those of whose values some are known to stay as they are
};

bool has_quiet(const Quiet& quiet) {
    const Quiet::Values values = quiet.under({});
    return values && std::find(values->begin(), values->end(), true) != values->end();
}

// What was grown to a third size becomes what is asked for, unless somebody has it still.
void expect_grown_again(const Lowered& begin, const std::vector<Type>& types, const Lowered& fresh, Seen& seen) {
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
    ++seen.spared;
}

void expect_grown(const Graph& first, int64_t batch, int64_t space, Seen& seen) {
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
        expect_grown_again(begin, types, fresh, seen);
        ++seen.grown;
        seen.lowered += anew.graph != other;
        seen.quiet += has_quiet(*anew.quiet);
    } catch (const Error& error) {  // results of no elements are left to what was written
        const auto is_empty = [](const Node& node) { return numel(node.type.shape) == 0; };
        const auto& nodes = fresh.graph.nodes();
        EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), is_empty)) << error.what() << print(fresh.graph);
    }
}

TEST(Lowered, RowsOfOtherSizes) {
    Seen seen;
    for (const auto& [name, text] : tests::rows())
        for (const DType dtype : {DType::f32, DType::f16})
            for (const int64_t space : {1, 2, 5, 16, 31})
                expect_grown(tests::row(name, tests::Scale::small, dtype), 3, space, seen);
    EXPECT_GT(seen.lowered, 150);
    EXPECT_GT(seen.spared, 150);
    EXPECT_GT(seen.quiet, 150);
}

TEST(Lowered, RandomGraphsOfOtherSizes) {
    Seen seen;
    for (uint64_t seed = 0; seed < 600; ++seed) {
        RandomGraphOptions options;
        options.ample = seed % 2 == 1;
        options.dtype = seed % 3 == 2 ? DType::f16 : DType::f32;
        const Graph graph = random_graph(seed, options);
        for (const int64_t space : {1, 3, 6, 9}) expect_grown(graph, 2, space, seen);
    }
    EXPECT_GT(seen.lowered, 1000);
    EXPECT_GT(seen.spared, 1000);
    EXPECT_GT(seen.quiet, 1000);
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
    Seen seen;
    for (int64_t space = 0; space < 12; ++space) expect_grown(graph, 1 + space % 3, space, seen);
    EXPECT_GT(seen.lowered, 8);
}

}  // namespace
}  // namespace transfuse
