// The text form reads back exactly.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "one_statement.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

TEST(Text, PrintsAsDocumented) {
    const std::string text =
        "graph decoder {\n"
        "  %x = input f32[16,64,128,128]\n"
        "  %w = param f32[64,128,3,3]\n"
        "  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,1]\n"
        "  %z = mul(%y, 0.5)\n"
        "  %m = mean(%z) dims=[2,3] keepdim=1\n"
        "  return %m\n"
        "}\n";
    EXPECT_EQ(print(parse(text)), text);
}

TEST(Text, ReadsFreely) {
    const Graph g = parse(R"(# a comment
graph 1d-net.v2 { %0.weight = param f32[3,2,1] # a name out of nn.Sequential
  %x=input f32[ 1,3 , 4 ]  %7 = conv_transpose(%x,%0.weight)stride=2:f32[1,2,7]
  %y = add( %7 , +1e0 ) return first=%7, %y, 2.5 })");
    EXPECT_EQ(print(g),
              "graph 1d-net.v2 {\n"
              "  %0.weight = param f32[3,2,1]\n"
              "  %x = input f32[1,3,4]\n"
              "  %0 = conv_transpose(%x, %0.weight) stride=[2]\n"
              "  %y = add(%0, 1)\n"
              "  return first=%0, %y, 2.5\n"
              "}\n");
    EXPECT_EQ(g.output_names(), (std::vector<std::string>{"first", "y", "output2"}));
    EXPECT_EQ(parse(print(g)), g);
}

TEST(Text, KeepsEveryNumber) {
    const double numbers[] = {0.1,
                              -0.0,
                              1.0 / 3,
                              1e300,
                              5e-324,
                              -2.2250738585072014e-308,
                              9007199254740993.0,
                              1e22,
                              std::numeric_limits<double>::max(),
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::nan("")};
    for (double number : numbers) {
        Builder b;
        const ValueId x = b.input("x", {DType::f64, {1}});
        const ValueId y = b.add(Op::pad, {b.binary(Op::mul, x, number)},
                                {{Key::start, Sizes{1}}, {Key::end, Sizes{0}}, {Key::value, number}});
        const std::string text = print(b.finish({y}));
        const Graph back = parse(text);
        EXPECT_EQ(print(back), text);
        const double read = back[back.outputs()[0]].attributes.number(Key::value);
        EXPECT_TRUE(std::isnan(number) ? std::isnan(read)
                                       : read == number && std::signbit(read) == std::signbit(number))
            << text;
    }
}

TEST(Text, RoundTripsRandomGraphs) {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        RandomGraphOptions options;
        options.discontinuous = true;
        options.dtype = static_cast<DType>(seed % 4);
        const Graph g = random_graph(seed, options);
        const std::string text = print(g);
        const Graph back = parse(text);
        ASSERT_EQ(print(back), text);
        ASSERT_EQ(back, g) << text;
    }
}

// What inference makes of attributes must be accepted again: dims of rank 0 vanish, defaults are spread over no axes.
TEST(Text, RoundTripsTensorsOfRankZero) {
    for (const char* statement :
         {"softmax(%x) dims=[0]", "sum(%x) dims=[-1] keepdim=1", "flip(%x) dims=0", "pad(%x) start=1 end=1",
          "reshape(%x) shape=[]", "permute(%x) order=[]", "expand(%x) shape=[]"}) {
        const std::string text = print(parse(one_statement("x f32[]", statement)));
        EXPECT_EQ(print(parse(text)), text);
    }
}

TEST(Text, NamesOutputsOnlyWhereNeeded) {
    Builder b("g");
    const ValueId x = b.input("x", {DType::f32, {2}});
    const ValueId y = b.add(Op::relu, {x}, {}, "y"), z = b.add(Op::exp, {x});
    const Graph g = b.finish({y, z, y, z}, {"", "loss", "0.out"});
    EXPECT_EQ(g.output_names(), (std::vector<std::string>{"y", "loss", "0.out", "output3"}));
    EXPECT_NE(print(g).find("return %y, loss=%0, 0.out=%y, %0\n"), std::string::npos) << print(g);
    EXPECT_EQ(parse(print(g)), g);
}

}  // namespace
}  // namespace transfuse
