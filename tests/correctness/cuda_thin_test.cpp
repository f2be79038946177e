// Thin products: executed on the CPU against the float64 reference, compiled for every architecture.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/runtime/nvrtc.h"
#include "cuda_host/cases.h"
#include "cuda_host/nvrtc.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // a pool folded into a transposed convolution, scales and shifts
    "%x = input f32[2,3,5,6,7]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  %p = param f32[16,1,1,1]  "
    "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %a = avg_pool(%y) kernel=[2,2,2] stride=[2,2,2]  "
    "%z = add(%a, %p)",
    // sums of 81 products, of which those of a column are added up first
    "%x = input f32[2,3,9,10,11]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  "
    "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %a = avg_pool(%y) kernel=[2,2,2] stride=[2,2,2]  "
    "%z = avg_pool(%a) kernel=[2,2,2] stride=[2,2,2]",
    // strides, padding and dilation that differ along the axes; channels that fill no vector
    "%x = input f32[2,2,11,9]  %w = param f32[7,2,3,2]  %z = conv(%x, %w) stride=[2,1] padding=[2,1] dilation=[1,3]",
    // more channels than a thread takes, a prologue, a full operand, per-image and per-channel ones
    "%x = input f32[3,1,9,10]  %w = param f32[37,1,3,3]  %r = input f32[3,37,9,10]  %q = input f32[3,37,1,1]  %p = param "
    "f32[37,1,1]  %t = tanh(%x)  %y = conv(%t, %w) padding=[1,1]  %a = mul(%y, %p)  %b = add(%a, %q)  %c = add(%b, %r)  "
    "%z = gelu(%c)",
    // fewer rows than a thread has sums for
    "%x = input f32[2,3,2,40]  %w = param f32[4,3,2,5]  %z = conv(%x, %w)",
};

void run(const char* dtype, bool last, bool aligned, double tolerance) {
    std::vector<HostCase> cases;
    for (const char* body : passes) {
        const Graph graph = graph_of(body, dtype);
        cases.push_back(make(graph, random_leaves(graph, 7), last, aligned, Target{}, Fp32Precision::tf32));
        EXPECT_EQ(kernels_named(cases.back().assembly, "tf_thin"), 1) << body;
    }
    check(cases, tolerance);
}

TEST(CudaThin, Float32) { run("f32", false, true, 2e-6); }  // TF32 is allowed, and not used
TEST(CudaThin, ChannelsLast) { run("f32", true, true, 2e-6); }
TEST(CudaThin, HalfUnaligned) { run("f16", false, false, 3e-3); }

// 16 bits, scales and shifts between the convolution and a pool: one product of fp32 weights, rounded once; also behind
// BatchNorm, whose variance then comes from the covariance of the input.
TEST(CudaThin, HalfChainsToAPool) {
    const char* const chains[] = {
        "%x = input f32[2,3,5,6,7]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  %s = param f32[]  %p = param f32[16,1,1,1]  "
        "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %m = mul(%y, %s)  %a = avg_pool(%m) kernel=[2,2,2] "
        "stride=[2,2,2]  %c = add(%a, %p)  %z = mul(%c, %s)",
        "%x = input f32[4,3,9,16,16]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  %gamma = param f32[16]  %beta = param "
        "f32[16]  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %n = batch_norm(%y, %gamma, %beta) training=1  "
        "%a = avg_pool(%n) kernel=[2,2,2] stride=[2,2,2]  %z = avg_pool(%a) kernel=[2,2,2] stride=[2,2,2]",
    };
    std::vector<HostCase> cases;
    for (const char* dtype : {"f16", "bf16"})
        for (const char* body : chains) {
            const Graph graph = graph_of(body, dtype);
            cases.push_back(make(graph, random_leaves(graph, 11), false, true, Target{}));
            EXPECT_EQ(kernels_named(cases.back().assembly, "tf_thin"), 1) << body << print(cases.back().plan);
        }
    check({cases.begin(), cases.begin() + 2}, 1e-3);
    check({cases.begin() + 2, cases.end()}, 8e-3);
}

// A shift behind the convolution, about as large as the results: one rounding, as where it is added by itself.
TEST(CudaThin, FoldedBiasIsNotRounded) {
    const Graph graph = graph_of(
        "%x = input f32[1,3,6,7,9]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  %s = param f32[]  %p = param f32[16,1,1,1]  "
        "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %m = mul(%y, %s)  %a = avg_pool(%m) kernel=[2,2,2] "
        "stride=[2,2,2]  %z = add(%a, %p)",
        "f32");
    auto leaves = random_leaves(graph, 19);
    for (size_t i : {size_t{1}, size_t{2}})
        for (double& v : leaves[i]) v /= 64;
    const HostCase one = make(graph, leaves, false, true, Target{});
    ASSERT_EQ(kernels_named(one.assembly, "tf_thin"), 1);
    HostKernels kernels;
    for (const BoundLaunch& bound : one.assembly.launches) kernels.add(bound.launch);
    kernels.build(shim_folder);
    const auto results = kernels.run(one.plan.graph, one.assembly, one.leaf_strides, one.output_strides, one.leaves)[0];
    double worst = 0;  // in units of the last place
    for (size_t e = 0; e < results.size(); ++e) {
        const double exact = one.expected[0][e];
        worst = std::max(worst, std::fabs(results[e] - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
    }
    EXPECT_LT(worst, 0.6);
}

// Few channels of many pixels: long sums, their weights in shared memory part by part; and few pixels, which tensor cores take.
TEST(CudaThin, FewChannelsOfLongSums) {
    const char* const body = "%x = input f32[1,96,1200,1200]  %w = param f32[3,96,7,7]  %z = conv(%x, %w) padding=[3,3]";
    const Graph large = graph_of(body, "f32"), small = graph_of("%x = input f32[1,96,64,64]  %w = param f32[3,96,7,7]  %z = conv(%x, %w) padding=[3,3]", "f32");
    auto kernels = [](const Graph& graph, Fp32Precision precision) {
        CompileOptions options;
        options.precision = precision;
        return kernels_named(assemble(plan(rewrite(graph).rewritten, Machine::h200()), options, Target{}, true),
                             "tf_thin");
    };
    EXPECT_EQ(kernels(large, Fp32Precision::tf32), 1);
    EXPECT_EQ(kernels(small, Fp32Precision::tf32), 0);
    EXPECT_EQ(kernels(graph_of(body, "f16"), Fp32Precision::tf32), 0);
    std::vector<HostCase> cases;
    for (const char* few : {"%x = input f32[1,33,61,75]  %w = param f32[3,33,7,9]  %b = param f32[3]  %y = conv(%x, %w, %b) padding=[3,4]  %z = relu(%y)",
                            "%x = input f32[2,70,50,44]  %w = param f32[70,6,5,5]  %z = conv_transpose(%x, %w) padding=[2,1]"}) {
        const Graph graph = graph_of(few, "f32");
        Target target;
        target.multiprocessors = 1;
        cases.push_back(make(graph, random_leaves(graph, 5), false, true, target, Fp32Precision::tf32));
        EXPECT_EQ(kernels_named(cases.back().assembly, "tf_thin"), 1) << few;
        EXPECT_NE(cases.back().assembly.launches[0].launch.source->text.find("int part = 0"), std::string::npos) << few;
    }
    check(cases, 2e-6);
}

TEST(CudaThin, WideOnesAreForTensorCores) {
    const Graph graph = graph_of("%x = input f32[2,16,9,9]  %w = param f32[16,16,3,3]  %z = conv(%x, %w)", "f32");
    EXPECT_EQ(kernels_named(make(graph, random_leaves(graph, 1), false, true, Target{}).assembly, "tf_thin"), 0);
}

TEST(CudaThin, CompilesForEveryArchitecture) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    for (int arch : swept_architectures()) {
        const Graph graph = graph_of(passes[arch % 4], "f32");
        const Plan planned = plan(rewrite(graph).rewritten, Machine::h200());
        for (const BoundLaunch& bound : assemble(planned, {}, Target{.arch = arch}, true).launches)
            EXPECT_NO_THROW(nvrtc_log(*bound.launch.source, arch)) << arch;
    }
}

}  // namespace
}  // namespace transfuse::cuda
