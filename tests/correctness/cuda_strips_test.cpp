// Runs that are strips, eight columns of every row, and results that go from the accumulators directly to memory,
// executed on the CPU against the float64 reference: borders, phases, pools, several images, every layout.
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

struct Pass {
    const char* text;
    bool direct;  // whether its results can go so
};
const Pass passes[] = {
    // two and three blocks of channels, a last one that is not full; columns beyond the image
    {"%x = input f32[2,24,18,20]  %w = param f32[24,140,3,3]  %b = param f32[140]  %y = conv_transpose(%x, %w, %b) "
     "padding=[1,1]  %z = tanh(%y)",
     true},
    // phases: neighbours along w lie in two accumulators
    {"%x = input f32[3,16,19,16]  %w = param f32[16,64,4,4]  %b = param f32[64]  %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2] padding=[1,1]  %z = relu(%y)",
     true},
    {"%x = input f32[2,16,9,24]  %w = param f32[16,70,2,2]  %y = conv_transpose(%x, %w) stride=[2,2]  %z = sigmoid(%y)",
     true},
    // phases of unlike taps, outputs that fill no vector
    {"%x = input f32[2,12,7,20]  %w = param f32[12,66,3,5]  %z = conv_transpose(%x, %w) stride=[2,3] padding=[1,1]", true},
    // several small images in a run
    {"%x = input f32[3,16,8,8]  %w = param f32[16,64,4,4]  %z = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]", true},
    // planes, a stride, something for each image and channel
    {"%x = input f32[1,12,5,9,24]  %w = param f32[12,70,3,3,3]  %z = conv_transpose(%x, %w)", true},
    {"%x = input f32[2,12,33,40]  %w = param f32[70,12,3,3]  %z = conv(%x, %w) stride=[2,2] padding=[1,1]", true},
    {"%x = input f32[2,12,17,24]  %m = input f32[2,70,1,1]  %w = param f32[12,70,3,3]  %y = conv_transpose(%x, %w)  %z = "
     "mul(%y, %m)",
     true},
    // a pool, a softmax
    {"%x = input f32[2,12,17,24]  %w = param f32[12,70,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %z = max_pool(%y) "
     "kernel=[2,2] stride=[2,2]",
     false},
    {"%x = input f32[2,12,17,24]  %w = param f32[12,70,3,3]  %y = conv_transpose(%x, %w)  %z = softmax(%y) dims=[1]", false},
};

// Few blocks, so that every ring goes round. `wanted`: words of the configuration.
void run(size_t manner, const char* dtype, bool last, bool aligned, const std::string& wanted, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    uint64_t seed = 77;
    size_t taken = 0;
    for (size_t i = 0; i < std::size(passes); ++i) {
        const Pass& pass = passes[i];
        const bool direct = wanted.find("direct") != std::string::npos;
        ++seed;
        if ((direct && !pass.direct) || !tests::taken(i, manner, 4)) continue;
        const Graph graph = graph_of(pass.text, dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), last, aligned, target, Fp32Precision::tf32, wanted));
        taken += kernels_noted(cases.back().assembly, wanted);
    }
    EXPECT_GE(taken + 1, cases.size());  // not every list of configurations has one
    check(cases, tolerance);
}

TEST(Strips, tf32) { run(0, "f32", false, true, " strip", 6e-3); }
TEST(Strips, tf32_anywhere_in_memory) { run(1, "f32", false, false, " strip", 6e-3); }
TEST(Strips, tf32_channels_last) { run(2, "f32", true, true, " strip", 6e-3); }
TEST(Strips, f16) { run(3, "f16", false, true, " strip", 4e-3); }
TEST(DirectStores, tf32) { run(4, "f32", false, true, " direct", 6e-3); }
TEST(DirectStores, tf32_channels_last) { run(5, "f32", true, true, " direct", 6e-3); }
TEST(DirectStores, bf16) { run(6, "bf16", false, true, " direct", 3e-2); }
TEST(DirectStores, f16_channels_last) { run(7, "f16", true, true, " direct", 4e-3); }

}  // namespace
}  // namespace transfuse::cuda
