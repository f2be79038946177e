// Products of many groups with few channels each: executed on the CPU against the float64 reference, compiled for every
// architecture.
#include <gtest/gtest.h>

#include <tuple>

#include "cuda/runtime/nvrtc.h"
#include "cuda_host/cases.h"
#include "cuda_host/nvrtc.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // whole periods in a thread; rows that are vectors
    "%x = input f32[2,6,7,8]  %w = param f32[6,1,4,4]  %b = param f32[6]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1] "
    "groups=6  %z = sigmoid(%y)",
    // a long period, all channels in a thread: softmax
    "%x = input f32[2,5,4,3]  %w = param f32[5,1,16,16]  %y = conv_transpose(%x, %w) stride=[8,8] padding=[4,4] "
    "groups=5  "
    "%z = softmax(%y) dims=[1]",
    // odd rows, an odd offset: every output of a class of its own; operands of every sort, a prologue
    "%x = input f32[19,4,6,7]  %w = param f32[4,1,3,5]  %p = param f32[4,1,1]  %q = input f32[19,4,1,1]  %r = input "
    "f32[19,4,11,29]  %t = tanh(%x)  "
    "%y = conv_transpose(%t, %w) stride=[2,4] padding=[1,0] groups=4  %a = mul(%y, %p)  %c = add(%a, %q)  %d = add(%c, "
    "%r)  %z = gelu(%d)",
    // twice as many channels out as in; dilation with taps that some residues miss
    "%x = input f32[4,3,19,18]  %w = param f32[3,2,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] dilation=[2,3] "
    "groups=3  %z = relu(%y)",
    // groups of three to two, along one axis, many taps
    "%x = input f32[3,6,140]  %w = param f32[6,2,12]  %b = param f32[4]  %y = conv_transpose(%x, %w, %b) stride=[2] "
    "padding=[5] groups=2  "
    "%z = leaky_relu(%y) negative_slope=0.1",
    // a convolution, strided: vectors of inputs
    "%x = input f32[2,8,12,16]  %w = param f32[8,1,3,4]  %y = conv(%x, %w) stride=[1,2] padding=[1,1] groups=8  %z = "
    "silu(%y)",
    // in three dimensions
    "%x = input f32[2,3,9,8,9]  %w = param f32[3,1,3,4,2]  %y = conv_transpose(%x, %w) stride=[2,2,3] padding=[1,1,0] "
    "groups=3  %z = tanh(%y)",
    // statistics of a channel, then the same outputs normalised
    "%x = input f32[3,6,9,10]  %w = param f32[6,1,4,4]  %g = param f32[6]  %h = param f32[6]  %y = conv_transpose(%x, "
    "%w) stride=[2,2] padding=[1,1] "
    "groups=6  %t = silu(%y)  %n = batch_norm(%t, %g, %h) training=1  %z = relu(%n)",
    // extrema and means of an image
    "%x = input f32[3,4,15,16]  %w = param f32[4,1,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
    "groups=4  %t = tanh(%y)  "
    "%a = amax(%t) dims=[2,3]  %i = amin(%t) dims=[2,3]  %m = mean(%t) dims=[2,3]  %c = add(%a, %i)  %z = mul(%c, %m)",
    // a number a pixel of all channels, some of it behind another
    "%x = input f32[2,7,6,8]  %w = param f32[7,1,4,4]  %b = param f32[7]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1] groups=7  "
    "%m = mean(%y) dims=[1] keepdim=1  %d = sub(%y, %m)  %e = mul(%d, %d)  %z = amax(%e) dims=[1] keepdim=1",
    // more channels than a thread holds
    "%x = input f32[2,60,3,4]  %w = param f32[60,1,4,4]  %b = param f32[60]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2] padding=[1,1] groups=60  "
    "%z = softmax(%y) dims=[1]",
    "%x = input f32[2,51,3,4]  %w = param f32[51,2,4,4]  %b = param f32[102]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2] padding=[1,1] groups=51  "
    "%s = softmax(%y) dims=[1]  %z = sum(%s) dims=[1] keepdim=1",
    // statistics of rows that blocks take by classes
    "%x = input f32[3,4,5,6]  %w = param f32[4,1,7,6]  %y = conv_transpose(%x, %w) stride=[5,3] padding=[1,1] groups=4 "
    " %t = tanh(%y)  "
    "%a = amax(%t) dims=[2,3]  %v = var(%t) dims=[2,3]  %m = mean(%t) dims=[2,3]  %c = add(%a, %v)  %z = mul(%c, %m)",
    // groups of eight, fewer products an output than pay on tensor cores
    "%x = input f32[2,16,9,10]  %w = param f32[16,8,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
    "groups=2  %z = silu(%y)",
    // groups of five to three
    "%x = input f32[2,10,9,10]  %w = param f32[10,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
    "output_padding=[1,1] groups=2  "
    "%z = hardswish(%y)",
};

void run(size_t manner, const char* dtype, bool last, bool aligned, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 2;
    for (size_t i = 0; i < std::size(passes); ++i) {
        if (!tests::taken(i, manner, 3)) continue;
        const char* const body = passes[i];
        const Graph graph = graph_of(body, dtype);
        cases.push_back(make(graph, random_leaves(graph, 7), last, aligned, target));
        const bool matrix =
            (last || std::string(dtype) == "f64") && std::string(body).find("[16,8,3,3]") != std::string::npos;
        EXPECT_EQ(kernels_named(cases.back().assembly, "tf_grouped") == 0, matrix) << body << print(cases.back().plan);
        if (matrix) cases.pop_back();
    }
    check(cases, tolerance);
}

TEST(CudaGrouped, Float32) { run(0, "f32", false, true, 3e-6); }
TEST(CudaGrouped, ChannelsLast) { run(1, "f32", true, true, 3e-6); }
TEST(CudaGrouped, Float64) { run(2, "f64", false, true, 1e-12); }
TEST(CudaGrouped, Half) { run(3, "f16", false, true, 4e-3); }
TEST(CudaGrouped, HalfChannelsLast) { run(4, "f16", true, true, 4e-3); }
TEST(CudaGrouped, BfloatUnaligned) { run(5, "bf16", false, false, 2e-2); }

// Weight gradients: whole periods, classes of rows, pairs of channels, one axis and three.
const char* const gradients[] = {
    "%x = input f32[3,6,20,22]  %g = input f32[3,6,40,44]  %z = correlate(%x, %g) up=[2,2] offset=[1,1] taps=[4,4] "
    "groups=6",
    "%x = input f32[2,5,9,7]  %g = input f32[2,5,72,56]  %z = correlate(%x, %g) up=[8,8] offset=[4,4] taps=[16,16] "
    "groups=5",
    "%x = input f32[3,6,140]  %g = input f32[3,4,280]  %z = correlate(%x, %g) up=[2] offset=[5] taps=[12] groups=2",
    "%x = input f32[2,8,24,32]  %g = input f32[2,16,24,16]  %z = correlate(%x, %g) down=[1,2] offset=[1,2] taps=[3,4] "
    "groups=8",
    "%x = input f32[2,3,9,8,9]  %g = input f32[2,3,17,16,27]  %z = correlate(%x, %g) up=[2,2,3] offset=[1,1,0] "
    "taps=[3,4,3] groups=3",
};

TEST(CudaGrouped, WeightGradients) {
    Target target;
    target.multiprocessors = 2;
    for (const char* dtype : {"f32", "f64"}) {
        std::vector<HostCase> cases;
        for (bool last : {false, true})
            for (const char* body : gradients) {
                const Graph graph = graph_of(body, dtype);
                cases.push_back(make(graph, random_leaves(graph, 9), last, true, target));
                EXPECT_EQ(cases.back().assembly.launches[0].launch.source->entry, "tf_grouped_gradient") << body;
            }
        check(cases, std::string(dtype) == "f32" ? 3e-6 : 1e-12);
    }
}

// The batch is an argument: the chain of a single image reads the sums in registers as that of several does.
TEST(CudaGrouped, OneImageHasTheTextOfTwo) {
    std::vector<HostCase> cases;
    for (const char* body :
         {"%x = input f32[N,6,5,6]  %w = param f32[6,1,4,4]  %b = param f32[6]  %y = conv_transpose(%x, %w, "
          "%b) stride=[2,2] padding=[1,1] groups=6  %z = sigmoid(%y)",
          "%x = input f32[N,9,4,6]  %w = param f32[9,1,6,6]  %y = conv_transpose(%x, %w) stride=[2,2] "
          "padding=[2,2] groups=9  %z = log_softmax(%y) dims=[1]"}) {
        for (const char* images : {"1", "2"}) {
            const Graph graph = graph_of(with(body, "N", images).c_str(), "f32");
            cases.push_back(make(graph, random_leaves(graph, 5), false, true, Target{}));
            ASSERT_EQ(kernels_named(cases.back().assembly, "tf_grouped"), 1);
        }
        EXPECT_EQ(cases[cases.size() - 2].assembly.launches.back().launch.source->text,
                  cases.back().assembly.launches.back().launch.source->text);
    }
    check(cases, 3e-6);
}

TEST(CudaGrouped, WideGroupsAndOneGroupAreForOthers) {
    for (const char* body :
         {"%x = input f32[2,32,30,30]  %w = param f32[32,16,3,3]  %z = conv_transpose(%x, %w) stride=[2,2] groups=2",
          "%x = input f32[2,3,30,30]  %w = param f32[3,4,3,3]  %z = conv_transpose(%x, %w) stride=[2,2]"}) {
        const Graph graph = graph_of(body, "f32");
        EXPECT_EQ(kernels_named(make(graph, random_leaves(graph, 1), false, true, Target{}).assembly, "tf_grouped"), 0)
            << body;
    }
}

TEST(CudaGrouped, CompilesForEveryArchitecture) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    size_t next = 0;
    for (int arch : swept_architectures())
        for (bool last : {false, true}) {
            const Graph graph = graph_of(passes[next++ % std::size(passes)], last ? "f16" : "f32");
            Target target;
            target.arch = arch;
            for (const BoundLaunch& bound : make(graph, random_leaves(graph, 7), last, true, target).assembly.launches)
                EXPECT_NO_THROW(nvrtc_log(*bound.launch.source, arch)) << arch << print(graph);
            const Graph gradient = graph_of(gradients[next % std::size(gradients)], "f32");
            for (const BoundLaunch& bound :
                 make(gradient, random_leaves(gradient, 7), last, true, target).assembly.launches)
                EXPECT_NO_THROW(nvrtc_log(*bound.launch.source, arch)) << arch << print(gradient);
        }
}

}  // namespace
}  // namespace transfuse::cuda
