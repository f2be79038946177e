// Building graphs, and what they answer.
#include "transfuse/graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "random_graphs.h"

namespace transfuse {
namespace {

TEST(Builder, MakesEqualNodesOnce) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {2, 3}});
    EXPECT_EQ(b.add(Op::relu, {x}), b.add(Op::relu, {x}));
    EXPECT_EQ(b.reduce(Op::mean, x, {-1}), b.reduce(Op::mean, x, {1}));
    EXPECT_NE(b.reduce(Op::mean, x, {1}), b.reduce(Op::mean, x, {1}, false));
    EXPECT_EQ(b.scalar(2), b.scalar(2.0));
}

TEST(Builder, TellsNumbersApartByTheirBits) {
    Builder b;
    EXPECT_NE(b.scalar(0.0), b.scalar(-0.0));
    EXPECT_EQ(b.scalar(std::nan("")), b.scalar(-std::nan("")));
}

TEST(Builder, FoldsNumbersSoThatTheirDtypeStaysWeak) {
    Builder b;
    const ValueId p = b.param("p", {DType::f16, {}});
    const ValueId three = b.binary(Op::add, b.scalar(1), 2.0);
    EXPECT_EQ(three, b.scalar(3));
    EXPECT_EQ(b[b.binary(Op::mul, p, three)].type.dtype, DType::f16);
    EXPECT_EQ(b.add(Op::clamp, {b.scalar(5)}, {{Key::hi, 4.0}}), b.scalar(4));
}

TEST(Builder, GivesPreluItsChannelAxis) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {2, 3, 3}}), w = b.param("w", {DType::f32, {3}});
    const Node& prelu = b[b.add(Op::prelu, {x, w})];
    EXPECT_EQ(b[prelu.args[1]].type.shape, (Sizes{3, 1}));
}

TEST(Builder, DropsDeadCodeButKeepsLeaves) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {2}});
    b.param("unused", {DType::f32, {7}});
    b.add(Op::exp, {x});
    const ValueId y = b.add(Op::relu, {x});
    const Graph g = b.finish({y, y});
    EXPECT_EQ(g.size(), 3);
    EXPECT_EQ(g.leaves().size(), 2u);
    EXPECT_EQ(g.outputs(), (std::vector<ValueId>{2, 2}));
    EXPECT_NE(g.output_names()[0], g.output_names()[1]);
}

TEST(Builder, CompletesAttributes) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {1, 2, 4, 4}}), w = b.param("w", {DType::f32, {2, 2, 3, 3}});
    const Attributes& a = b[b.add(Op::conv_transpose, {x, w}, {{Key::stride, int64_t{2}}})].attributes;
    EXPECT_EQ(a.integers(Key::stride), (Sizes{2, 2}));
    EXPECT_EQ(a.integers(Key::output_padding), (Sizes{0, 0}));
    EXPECT_EQ(a.integer(Key::groups), 1);
    const Attributes& pool = b[b.add(Op::max_pool, {x}, {{Key::kernel, int64_t{2}}})].attributes;
    EXPECT_EQ(pool.integers(Key::stride), (Sizes{2, 2}));
    EXPECT_EQ(b[b.add(Op::sum, {x})].attributes.integers(Key::dims), (Sizes{0, 1, 2, 3}));
}

TEST(Builder, KeepsATakenNameFromASecondValue) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {2}});
    const ValueId y = b.add(Op::relu, {x}, {}, "y"), z = b.add(Op::exp, {x}, {}, "y");
    EXPECT_EQ(b[y].name, "y");
    EXPECT_EQ(b[z].name, "");
    const Graph g = b.finish({y, z});
    EXPECT_EQ(print(parse(print(g))), print(g));
}

TEST(Graph, ServesOtherShapes) {
    const Graph g = parse(R"(graph g {
        %x = input f32[2,3,8]
        %w = param f32[3,4,5]
        %y = conv_transpose(%x, %w) stride=2
        %c = slice(%y) axis=2 start=1 end=-2
        %f = reshape(%c) shape=[-1,4]
        %m = mean(%c) dims=[2]
        return %f, %m
    })");
    const Graph h = g.with_leaf_types({{DType::f16, {5, 3, 10}}, {DType::f16, {3, 4, 5}}});
    EXPECT_EQ(to_string(h[h.outputs()[0]].type), "f16[100,4]");
    EXPECT_EQ(to_string(h[h.outputs()[1]].type), "f16[5,4]");
    EXPECT_EQ(h.with_leaf_types({{DType::f32, {2, 3, 8}}, {DType::f32, {3, 4, 5}}}), g);
}

TEST(Graph, OfTheSameShapesIsItself) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        const Graph g = random_graph(seed);
        std::vector<Type> types;
        for (ValueId leaf : g.leaves()) types.push_back(g[leaf].type);
        EXPECT_EQ(g.with_leaf_types(types), g) << print(g);
    }
}

TEST(Queries, UsesAndParameterValues) {
    const Graph g = parse(R"(graph g {
        %x = input f32[2]
        %p = param f32[2]
        %q = exp(%p)
        %y = mul(%x, %x)
        %z = add(%y, %q)
        return %z
    })");
    const auto readers = uses(g);
    EXPECT_EQ(readers[0], (std::vector<ValueId>{3}));
    EXPECT_EQ(readers[1], (std::vector<ValueId>{2}));
    EXPECT_TRUE(readers[4].empty());
    EXPECT_EQ(parameter_values(g), (std::vector<bool>{false, true, true, false, false}));
}

TEST(Queries, LatticesHaveTheInferredExtents) {
    int seen = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const Graph g = random_graph(seed);
        for (ValueId id = 0; id < g.size(); ++id) {
            const Node& node = g[id];
            const bool floor_pool = node.op == Op::avg_pool && !node.attributes.flag(Key::ceil_mode);
            if (node.op != Op::conv && node.op != Op::conv_transpose && node.op != Op::upsample && !floor_pool)
                continue;
            const auto axes = lattices(g, id);
            const Sizes& shape = node.type.shape;
            for (size_t j = 0; j < axes.size(); ++j)
                EXPECT_EQ(axes[j].out, shape[shape.size() - axes.size() + j]) << print(g) << id;
            ++seen;
        }
    }
    EXPECT_GT(seen, 300);
}

TEST(Queries, SlicesBeginWhereTheyAreWritten) {
    Builder b;
    const ValueId x = b.input("x", {DType::f32, {10}});
    const Type type = b[x].type;
    auto start_of = [&](int64_t start) {
        return slice_start(b[b.add(Op::slice, {x}, {{Key::axis, int64_t{0}}, {Key::start, start}})], type);
    };
    EXPECT_EQ(start_of(3), 3);
    EXPECT_EQ(start_of(-3), 7);
    EXPECT_EQ(start_of(-30), 0);
    EXPECT_EQ(start_of(30), 10);
}

TEST(Tensor, BroadcastsAndPromotesAsPyTorch) {
    EXPECT_EQ(broadcast({2, 1, 4}, {3, 1}, "add"), (Sizes{2, 3, 4}));
    EXPECT_EQ(broadcast({0}, {1}, "add"), (Sizes{0}));
    EXPECT_EQ(promote(DType::f16, DType::bf16), DType::f32);
    EXPECT_EQ(promote(DType::bf16, DType::f64), DType::f64);
    EXPECT_EQ(contiguous_strides({2, 3, 4}), (Sizes{12, 4, 1}));
    EXPECT_EQ(numel({int64_t{1} << 40, 0, int64_t{1} << 40}), 0);
}

}  // namespace
}  // namespace transfuse
