// Kernels compute on whole vectors, and so on what stands between and behind the numbers. None of that may be memory
// that nobody wrote: denormal numbers there make arithmetic many times slower. Scratch memory is filled with signalling
// NaN first: whoever computes with one raises FE_INVALID, which zeros in the same places do not.
#include <cfenv>

#include "cpu/threads/thread_pool.h"
#include "cpu_check.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

using Found = cpu::Scratch::Found;

struct Outcome {
    std::vector<std::vector<double>> results;
    bool invalid;
};
Outcome run_on(Found found, const Plan& plan, const std::vector<std::vector<double>>& leaves, Layout layout) {
    cpu::Scratch::found = found;
    std::feclearexcept(FE_ALL_EXCEPT);
    auto results = run_cpu(plan, leaves, {.inputs = layout, .outputs = layout, .threads = 1});
    cpu::Scratch::found = Found::anything;
    return {std::move(results), std::fetestexcept(FE_INVALID) != 0};
}

// Whether the graph is one that can tell.
bool check(const Graph& graph, uint64_t seed) {
    const Plan ready = plan_for_cpu(graph);
    const auto leaves = random_leaves(graph, seed);
    bool tells = false;
    for (Layout layout : {Layout::contiguous, Layout::channels_last}) {
        const Outcome zeros = run_on(Found::zeros, ready, leaves, layout);
        if (zeros.invalid) continue;  // 0/0 and its like
        tells = true;
        const Outcome poison = run_on(Found::poison, ready, leaves, layout);
        EXPECT_FALSE(poison.invalid) << print(graph) << print(ready) << compile_cpu(ready)->describe();
        EXPECT_EQ(zeros.results, poison.results) << print(graph);
    }
    return tells;
}

TEST(CpuUnwritten, PoisonIsSeen) {
    cpu::Scratch scratch;
    cpu::Scratch::found = Found::poison;
    volatile float* memory = scratch.acquire<float>(1);
    cpu::Scratch::found = Found::anything;
    std::feclearexcept(FE_ALL_EXCEPT);
    memory[0] = memory[0] * 2;
    EXPECT_TRUE(std::fetestexcept(FE_INVALID));
}

// Rows that are no multiple of a vector, as they are, by phases, in pairs, behind a prologue, in chunks of channels,
// with tiles cut by the border.
class Unwritten : public testing::TestWithParam<const char*> {};

TEST_P(Unwritten, IsNotComputedWith) {
    for (const char* tail :
         {" return %y }", " %t = tanh(%y) %m = mean(%t) dims=[2,3] %v = amax(%t) dims=[1] return %t, %m, %v }",
          " %p = avg_pool(%y) kernel=[2,2] %s = sigmoid(%p) return %s }"})
        EXPECT_TRUE(check(parse(std::string("graph g { ") + GetParam() + tail), 5));
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, Unwritten,
    testing::Values(
        "%x = input f32[2,512,7,7] %w = param f32[32,512,1,1] %b = param f32[32] %y = conv(%x, %w, %b)",
        "%x = input f32[2,6,7,7] %w = param f32[5,6,1,1] %y = conv(%x, %w)",
        "%x = input f32[1,6,70,131] %w = param f32[5,6,3,3] %y = conv(%x, %w) padding=[1,1]",
        "%x = input f64[2,6,9,9] %w = param f64[5,6,3,3] %y = conv(%x, %w) stride=[2,2]",
        "%x = input f32[1,6,9,13] %r = cos(%x) %w = param f32[6,5,3,3] %y = conv_transpose(%r, %w) stride=[2,2]",
        "%x = input f32[1,6,9,13] %r = cos(%x) %w = param f32[5,6,3,3] %y = conv(%r, %w) stride=[2,3]",
        "%x = input f32[1,6,300,5] %w = param f32[6,5,3,3] %y = conv_transpose(%x, %w) stride=[3,1]",
        // In pairs: odd numbers of rows, strides, chunks, zeros shared by neighbouring rows.
        "%x = input f32[2,16,13,37] %w = param f32[16,20,3,5] %b = param f32[20] %y = conv_transpose(%x, %w, %b)",
        "%x = input f32[1,32,8,21] %w = param f32[32,5,3,3] %y = conv_transpose(%x, %w) padding=[1,1]",
        "%x = input f32[1,64,7,7] %w = param f32[64,9,3,3] %y = conv_transpose(%x, %w) padding=[1,1]",
        "%x = input f32[1,40,7,9] %w = param f32[40,9,5,3] %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]",
        "%x = input f32[1,300,6,40] %w = param f32[300,10,5,3] %y = conv_transpose(%x, %w)",
        "%x = input f32[1,300,5,33] %w = param f32[300,10,6,6] %y = conv_transpose(%x, %w) stride=[2,2]",
        "%x = input f32[1,24,10,11] %w = param f32[24,9,3,3] %y = conv_transpose(%x, %w) dilation=[1,25] padding=[1,3]",
        "%x = input f32[1,24,90,61] %w = param f32[24,9,3,3] %y = conv_transpose(%x, %w)"));

TEST(CpuUnwritten, PairsOfPlanes) {
    const DenseBy tiles(cpu::DenseWay::tiles);
    for (const char* text : {"graph g { %x = input f32[2,40,4,6,9] %w = param f32[40,9,4,3,3] %b = param f32[9] %y = "
                             "conv_transpose(%x, %w, %b) return %y }",
                             "graph g { %x = input f32[1,64,5,6,7] %w = param f32[64,8,5,4,3] %y = conv_transpose(%x, "
                             "%w) stride=[2,2,1] padding=[1,1,1] %r = tanh(%y) return %r }",
                             "graph g { %x = input f32[1,200,6,9,12] %w = param f32[200,20,3,5,3] %y = "
                             "conv_transpose(%x, %w) return %y }",
                             "graph g { %x = input f32[1,48,21,19,11] %w = param f32[48,10,3,3,3] %y = "
                             "conv_transpose(%x, %w) padding=[1,1,1] return %y }"}) {
        const Graph graph = parse(text);
        EXPECT_NE(compile_cpu(plan_for_cpu(graph))->describe().find("rows and planes"), std::string::npos);
        EXPECT_TRUE(check(graph, 6));
    }
}

TEST(CpuUnwritten, RandomGraphs) {
    int tell = 0;
    for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
        const DType dtype = seed % 5 == 4 ? DType::f64 : DType::f32;
        tell += check(random_graph(seed, {.dtype = dtype, .max_extent = 19, .max_channels = 20}), seed);
    }
    EXPECT_GT(tell, 75);
}

}  // namespace
}  // namespace transfuse
