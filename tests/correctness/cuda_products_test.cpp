// Which products are not rounded where TF32 is asked for.
#include <gtest/gtest.h>

#include "cuda/assemble/products.h"
#include "transfuse/program.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {
namespace {

// Two convolutions; the second one's weight is an expression.
Graph two() {
    return parse(R"(graph two {
  %x = input f32[2,16,8,8]
  %a = param f32[16,24,3,3]
  %v = param f32[24,32,3,3]
  %g = param f32[24,1,1,1]
  %y = conv_transpose(%x, %a)
  %t = tanh(%y)
  %b = weight_norm(%v, %g) axis=0
  %z = conv_transpose(%t, %b) stride=[2,2]
  return %z
})");
}

// Of each node of this kind, in order: 's' strict, 't' TF32.
std::string precisions(const Graph& graph, Op op, const Options& options) {
    std::string found;
    for (size_t id = 0; id < graph.nodes().size(); ++id)
        if (graph.nodes()[id].op == op)
            found += precision_of(graph, static_cast<ValueId>(id), options) == Fp32Precision::strict ? 's' : 't';
    return found;
}

Options tf32(std::vector<bool> leaves, std::vector<bool> outputs = {}) {
    Options options;
    options.precision = Fp32Precision::tf32;
    options.strict_leaves = std::move(leaves);
    options.strict_outputs = std::move(outputs);
    return options;
}

TEST(CudaProducts, AreStrictWhereTheirWeightIs) {
    const Graph graph = rewrite(two()).rewritten;
    EXPECT_EQ(precisions(graph, Op::lattice, tf32({})), "tt");
    EXPECT_EQ(precisions(graph, Op::lattice, tf32({false, true, false, false})), "st") << "not what lies behind it";
    EXPECT_EQ(precisions(graph, Op::lattice, tf32({false, false, true})), "ts") << "of which it is made";
    EXPECT_EQ(precisions(graph, Op::lattice, {}), "ss");
}

TEST(CudaProducts, OfGradientsAreStrictEachForItself) {
    const Graph graph = derive_gradient(two(), {{0}, {1, 2}}).rewritten;
    ASSERT_EQ(precisions(graph, Op::correlate, tf32({})), "tt");
    const std::string first = precisions(graph, Op::correlate, tf32({}, {true, false}));
    const std::string second = precisions(graph, Op::correlate, tf32({}, {false, true}));
    EXPECT_TRUE((first == "st" && second == "ts") || (first == "ts" && second == "st")) << first << " " << second;
    EXPECT_EQ(precisions(graph, Op::correlate, tf32({false, true, true})), "tt");
    // The forward's first convolution again, and the gradient of the second one's input.
    ASSERT_EQ(precisions(graph, Op::lattice, tf32({})), "tt");
    EXPECT_NE(precisions(graph, Op::lattice, tf32({false, true})),
              precisions(graph, Op::lattice, tf32({false, false, true})));
    EXPECT_EQ(precisions(graph, Op::lattice, tf32({}, {true, true})), "tt");
}

TEST(CudaProducts, HaveNumbersInAProgram) {
    transfuse::Program program(print(two()));
    EXPECT_EQ(program.products({0, 1, 0, 0}), 1);
    EXPECT_EQ(program.products({0, 2, 4, 0}), 2);
    EXPECT_EQ(program.products({0, 1, 0, 0}), 1);
    EXPECT_THROW(program.products({0, 1}), Error);
}

}  // namespace
}  // namespace transfuse::cuda
