// Loop passes on CUDA: kernels generated for pointwise chains and rows, executed on the CPU, against the float64
// reference.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

// A loop of more elements than a tail takes. Rows of every kind: within a thread, a part of a warp, a warp, several
// warps; lengths that vectors divide and that they do not; broadcast operands of every sort; views; several stores.
const char* const loops[] = {
    // elements: per channel and per image operands, vectors that cross from one plane to the next, a ragged end
    "%x = input f32[3,17,19,21]  %a = param f32[17,1,1]  %b = input f32[3,17,1,1]  %y = mul(%x, %a)  %z = add(%y, %b)  "
    "%o = tanh(%z)",
    "%x = input f32[3,16,20,24]  %a = param f32[16,1,1]  %p = param f32[20,24]  %y = mul(%x, %a)  %o = add(%y, %p)",
    "%x = input f32[3,17,19,21]  %p = param f32[19,21]  %q = param f32[21]  %r = param f32[17,1,21]  %y = mul(%x, %p)  "
    "%z = add(%y, %q)  %o = sub(%z, %r)",
    "%x = input f32[33003]  %s = param f32[]  %y = mul(%x, %s)  %o = relu(%y)",
    "%x = input f32[9000,2]  %s = param f32[2]  %o = mul(%x, %s)",
    "%x = input f32[4,8,24,40]  %f = flip(%x) dims=[3]  %o = sub(%x, %f)",
    "%x = input f32[4,24,8,40]  %p = permute(%x) order=[0,2,1,3]  %o = exp(%p)",
    // rows along the last axis
    "%x = input f32[6,8,12,64]  %w = param f32[64]  %b = param f32[64]  %o = layer_norm(%x, %w, %b) "
    "normalized_shape=[64]",
    "%x = input f32[5,11,17,33]  %w = param f32[33]  %b = param f32[33]  %n = layer_norm(%x, %w, %b) "
    "normalized_shape=[33]  %o = gelu(%n)",
    "%x = input f32[64,289]  %m = amax(%x) dims=[1] keepdim=1  %d = sub(%x, %m)  %l = logsumexp(%d) dims=[1] keepdim=1 "
    " %o = sub(%d, %l)",
    "%x = input f32[13,1500]  %o = softmax(%x) dims=[1]",
    "%x = input f32[9,2052]  %v = var(%x) dims=[1] keepdim=1  %a = amin(%x) dims=[1] keepdim=1  %s = sum(%x) dims=[1] "
    "keepdim=1  %d = sub(%x, %a)  %e = mul(%d, %v)  %f = add(%e, %s)  %r = sqrt(%v)  return %f, %r, %a",
    "%x = input f32[3,7,30,31]  %o = instance_norm(%x)",
    "%x = input f32[3,6,40,40]  %m = mean(%x) dims=[1,2,3] keepdim=1  %d = sub(%x, %m)  %o = relu(%d)",
    // rows along channels: neighbouring threads take neighbouring rows
    "%x = input f32[3,20,18,21]  %o = softmax(%x) dims=[1]",
    "%x = input f32[3,5,40,41]  %v = var(%x) dims=[1] keepdim=1  %e = add(%v, 0.01)  %r = rsqrt(%e)  %o = mul(%x, %r)",
    // long ones: the warps of a block share 32 of them; weights of the elements do not decide
    "%x = input f32[2,130,7,11]  %o = softmax(%x) dims=[1]",
    "%x = input f32[3,512,5,7]  %p = permute(%x) order=[0,2,3,1]  %w = param f32[512]  %b = param f32[512]  "
    "%n = layer_norm(%p, %w, %b) normalized_shape=[512]  %g = gelu(%n)  %o = permute(%g) order=[0,3,1,2]",
    "%x = input f32[2,1000,3,5]  %v = var(%x) dims=[1] keepdim=1  %a = amin(%x) dims=[1] keepdim=1  %d = sub(%x, %a)  "
    "%f = mul(%d, %v)  return %f, %a",
};

void check_loops(DType dtype, double tolerance, bool last, bool aligned) {
    std::vector<HostCase> cases;
    uint64_t seed = 1;
    size_t taken = 0;
    for (const char* body : loops) {
        std::string text = with(with(body, "  %", "\n%"), "  return", "\nreturn");
        if (text.find("return") == std::string::npos) text += "\nreturn %o";
        text = with(text, "f32", std::string(name(dtype)));
        const Graph graph = parse("graph loop {\n" + text + "\n}");
        cases.push_back(make(graph, random_leaves(graph, seed++), last, aligned, Target{}));
        taken += kernels_named(cases.back().assembly, "tf_loop");
    }
    EXPECT_GE(taken, std::size(loops) - 1);  // channels last, a long row of an image is no run of memory
    check(cases, tolerance);
}

TEST(CudaLoop, Float32) { check_loops(DType::f32, 1e-5, false, true); }
TEST(CudaLoop, Float64) { check_loops(DType::f64, 1e-12, false, true); }
TEST(CudaLoop, ChannelsLast) { check_loops(DType::f32, 1e-5, true, true); }
TEST(CudaLoop, Unaligned) { check_loops(DType::f32, 1e-5, false, false); }
TEST(CudaLoop, Half) { check_loops(DType::f16, 2e-2, false, true); }

// Sums of positive numbers, as after an activation: added in one row of additions, 64 of them are off by up to 4e-7.
// Planes in, channels last out: blocks take pieces of several rows where vectors divide them.
TEST(CudaLoop, ReadsAcrossRows) {
    std::vector<HostCase> cases;
    size_t pieces = 0;
    uint64_t seed = 7;
    for (const char* dtype : {"f32", "f16"})
        for (const char* shape : {"3,64,9,11", "2,48,5,7,9", "5,96,131", "3,40,9,11", "3,17,9,11"}) {
            std::string ones = std::string(shape).substr(2, 2);
            for (const char* c = shape + 4; *c; ++c)
                if (*c == ',') ones += ",1";
            const std::string text = "graph loop {\n%x = input f32[" + std::string(shape) + "]\n%a = param f32[" +
                                     ones + "]\n%y = mul(%x, %a)\n%o = tanh(%y)\nreturn %o\n}";
            const Graph graph = parse(with(text, "f32", dtype));
            cases.push_back(
                make(graph, random_leaves(graph, seed++), false, true, Target{}, Fp32Precision::strict, "", true));
            for (const BoundLaunch& bound : cases.back().assembly.launches)
                pieces += bound.launch.source->text.find("threadIdx.x % ") != std::string::npos;
        }
    EXPECT_EQ(pieces, 5u);  // not of ten vectors, six or five, nor of single elements
    check(cases, 2e-2);
}

// Neighbours in memory are read by neighbouring threads, whatever weights the elements of a row have; and where they are
// stored as rows the threads of a row are neighbours: of rows read across, a block's share whole sectors.
TEST(CudaLoop, RowsOfChannelsAreReadAsTheyLie) {
    const std::string normed =
        "graph loop {\n%x = input f32[8,C,64,64]\n%p = permute(%x) order=[0,2,3,1]\n%w = param f32[C]\n%b = param "
        "f32[C]\n%n = layer_norm(%p, %w, %b) normalized_shape=[C]\n";
    for (const auto& [channels, stored, threads] :
         {std::tuple{"40", "%o = permute(%n) order=[0,3,1,2]\nreturn %o\n}", "+ threadIdx.x / 1, row"},
          {"512", "%o = permute(%n) order=[0,3,1,2]\nreturn %o\n}", "+ threadIdx.x % 32, row"},
          {"64", "return %n\n}", "+ threadIdx.x / 8, row"},
          {"512", "return %n\n}", "+ threadIdx.x / 32, row"}}) {
        const std::string text = normed + stored;
        const Graph graph = rewrite(parse(with(text, "C", channels))).rewritten;
        const Plan made = plan(graph, Machine::h200());
        const Assembly assembly = assemble(made, {}, Target{}, true);
        size_t found = 0;
        for (const BoundLaunch& bound : assembly.launches) {
            const std::string& body = bound.launch.source->text;
            if (bound.launch.source->entry != "tf_loop") continue;
            ++found;
            EXPECT_NE(body.find(threads), std::string::npos) << body;
        }
        EXPECT_EQ(found, 1u);
    }
}

TEST(CudaLoop, SumsRoundLittle) {
    std::vector<HostCase> cases;
    uint64_t seed = 60;
    for (const char* body : {"%x = input f32[3,64,40,41]\n%a = abs(%x)\n%o = sum(%a) dims=[1] keepdim=1",
                             "%x = input f32[3,64,40,41]\n%a = abs(%x)\n%o = sum(%a) dims=[1]",
                             "%x = input f32[50,2048]\n%a = abs(%x)\n%o = sum(%a) dims=[1] keepdim=1"}) {
        const Graph graph = parse("graph sums {\n" + std::string(body) + "\nreturn %o\n}");
        cases.push_back(make(graph, random_leaves(graph, seed++), false, true, Target{}));
    }
    check(cases, 2e-7);
}

// exp(x - logsumexp(x)) of large x would be off by the rounding of the sum: 1e-4 of these values, which fp32 holds
// exactly. Rows, channels, and sums of one tap each.
TEST(CudaLoop, SharesOfLargeValues) {
    const std::string up =
        "%x = input f32[2,21,9,9]  %w = param f32[21,1,2,2]  %y = conv_transpose(%x, %w) stride=[2,2] "
        "groups=21  %o = softmax(%y) dims=[1]";
    std::vector<HostCase> cases;
    for (const std::string& body : {std::string(loops[10]), std::string(loops[14]), up}) {
        ASSERT_NE(body.find("softmax"), std::string::npos);
        const Graph graph = parse("graph shares {\n" + with(body, "  %", "\n%") + "\nreturn %o\n}");
        auto leaves = random_leaves(graph, 5);
        for (double& x : leaves[0]) x = 3000 + std::round(x * 2048) / 2048;
        for (size_t i = 1; i < leaves.size(); ++i) std::fill(leaves[i].begin(), leaves[i].end(), 1.0);
        cases.push_back(make(graph, leaves, false, true, Target{}));
    }
    check(cases, 1e-6);
}

// A pool reads what the chain before it makes of memory, and is finished where it is stored.
TEST(CudaLoop, PoolsWithAChain) {
    std::vector<HostCase> cases;
    uint64_t seed = 40;
    for (const char* pool :
         {"max_pool(%c) kernel=[2,2]", "max_pool(%c) kernel=[3,2]", "max_pool(%c) kernel=[2,2] stride=[1,1]"}) {
        const Graph graph = parse(
            std::string(
                "graph pool {\n%x = input f32[3,9,26,34]\n%a = param f32[9,1,1]\n%m = mean(%x) dims=[0,2,3] keepdim=1"
                "\n%d = sub(%x, %m)\n%c = mul(%d, %a)\n%p = ") +
            pool + "\n%b = add(%p, %a)\n%o = tanh(%b)\nreturn %o\n}");
        cases.push_back(make(graph, random_leaves(graph, seed++), false, true, Target{}));
    }
    EXPECT_EQ(cases[0].plan.passes.size(), 2u) << print(cases[0].plan);
    // Rows that are normalised where they are pooled.
    for (const char* pool : {"max_pool(%n) kernel=[2,2]", "avg_pool(%n) kernel=[3,2]"}) {
        const Graph graph =
            parse(std::string("graph rows {\n%x = input f32[8,40,26,34]\n%a = param f32[34]\n%b = param f32[34]"
                              "\n%n = layer_norm(%x, %a, %b) normalized_shape=[34]\n%p = ") +
                  pool + "\n%o = gelu(%p)\nreturn %o\n}");
        cases.push_back(make(graph, random_leaves(graph, seed++), false, true, Target{}));
        const Pass& last = cases.back().plan.passes.back();
        EXPECT_EQ(last.steps.front().scope, Scope::prologue) << print(cases.back().plan);
    }
    check(cases, 1e-5);
}

}  // namespace
}  // namespace transfuse::cuda
