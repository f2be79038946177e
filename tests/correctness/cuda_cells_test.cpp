// Thin products with phases, by cells: executed on the CPU against the float64 reference, compiled for every architecture.
#include <gtest/gtest.h>

#include "cuda/runtime/nvrtc.h"
#include "cuda_host/cases.h"
#include "cuda_host/nvrtc.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // a pool over cells, then the mean over space; the last cells are cut
    "%x = input f32[2,3,4,5,6]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2,2] padding=[1,1,1]  %s = mul(%y, 0.5)  %p = max_pool(%s) kernel=[2,2,2]  %m = mean(%p) dims=[2,3,4] "
    "keepdim=1  %z = clamp(%m) lo=0 hi=1",
    // statistics of groups about a mean far from zero, then the same tiles again with what they gave
    "%x = input f32[2,3,4,5,7]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  %g = param f32[16]  %h = param f32[16]  "
    "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %s = silu(%y)  %t = add(%s, 30)  "
    "%n = group_norm(%t, %g, %h) num_groups=4  %z = hardswish(%n)",
    // reductions over channels, one number a pixel stored
    "%x = input f32[2,3,4,5,6]  %w = param f32[3,16,3,3,3]  %b = param f32[16]  %p = param f32[1,1,1,1]  "
    "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %l = logsumexp(%y) dims=[1] keepdim=1  "
    "%s = sigmoid(%l)  %m = mul(%l, %s)  %d = sub(%m, %p)  %z = clamp(%d) lo=-1 hi=1",
    // a softmax behind an average pool, channels that fill no vector, the largest of them
    "%x = input f32[3,2,9,11]  %w = param f32[2,6,4,4]  %q = param f32[6,1,1]  %y = conv_transpose(%x, %w) stride=[2,2] "
    "padding=[1,1]  %r = relu(%y)  %p = avg_pool(%r) kernel=[2,2] stride=[2,2]  %s = softmax(%p) dims=[1]  %d = sub(%s, %q)  "
    "%e = silu(%d)  %z = amax(%e) dims=[1]",
    // phases without taps, a prologue, operands of every sort
    "%x = input f32[2,1,40,41]  %w = param f32[1,5,2,3]  %r = input f32[2,5,121,83]  %q = input f32[2,5,1,1]  %t = tanh(%x)  "
    "%y = conv_transpose(%t, %w) stride=[3,2] dilation=[3,1] padding=[0,0]  %a = mul(%y, %q)  %s = add(%a, %r)  %z = sum(%s) dims=[1] "
    "keepdim=1",
    // pools of many channels are stored: a block has a share of them
    "%x = input f32[2,3,9,10]  %w = param f32[3,24,4,4]  %b = param f32[24]  %q = param f32[24,1,1]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1]  %e = elu(%y)  %p = avg_pool(%e) kernel=[2,2]  %z = mul(%p, %q)",
    "%x = input f32[2,2,5,4,7]  %w = param f32[2,40,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]  %t = tanh(%y)  %z = max_pool(%t) kernel=[2,2,2]",
    // batch statistics, and extrema
    "%x = input f32[3,3,6,7]  %w = param f32[3,8,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  "
    "%t = tanh(%y)  %a = amax(%t) dims=[2,3]  %i = amin(%t) dims=[2,3]  %v = var(%t) dims=[0,2,3]  %o = mean(%t) dims=[0,2,3]  "
    "%c = add(%a, %i)  %d = add(%v, %o)  %z = mul(%c, %d)",
    // one channel: its statistics, its pool
    "%x = input f32[2,2,9,10]  %w = param f32[2,1,3,3]  %b = param f32[1]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1]  %t = tanh(%y)  %z = var(%t) dims=[0,2,3] keepdim=1",
    "%x = input f32[2,2,9,10]  %w = param f32[2,1,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  "
    "%p = max_pool(%y) kernel=[2,2]  %t = tanh(%p)  %z = mean(%t) dims=[2,3]",
};

void run(const char* dtype, bool last, bool aligned, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 2;
    for (const char* body : passes) {
        const Graph graph = graph_of(body, dtype);
        const bool reduces = std::string(body).find("dims=[1]") != std::string::npos, strict = std::string(dtype) == "f32";
        const bool every_output = std::string(body).find("_pool") == std::string::npos;
        cases.push_back(make(graph, random_leaves(graph, 7), last, aligned, target));
        EXPECT_EQ(kernels_named(cases.back().assembly, "tf_cells") > 0, strict || reduces || every_output)
            << body << print(cases.back().plan);
    }
    check(cases, tolerance);
}

TEST(CudaCells, Float32) { run("f32", false, true, 3e-6); }
TEST(CudaCells, ChannelsLast) { run("f32", true, true, 3e-6); }
TEST(CudaCells, HalfUnaligned) { run("f16", false, false, 4e-3); }

// Many channels, and outputs that are stored whole: threads of one cell after another would write far apart.
TEST(CudaCells, TheRestIsForTensorCores) {
    for (const char* body : {"%x = input f32[2,16,30,30]  %w = param f32[16,16,3,3]  %y = conv_transpose(%x, %w) stride=[2,2]  "
                             "%z = amax(%y) dims=[1]",
                             "%x = input f32[2,1,30,30]  %w = param f32[1,1,3,3]  %y = conv_transpose(%x, %w) stride=[2,2]  "
                             "%m = mean(%y) dims=[0,2,3] keepdim=1  %z = sub(%y, %m)",
                             "%x = input f32[2,3,30,30]  %w = param f32[3,16,3,3]  %z = conv_transpose(%x, %w) stride=[2,2]"}) {
        const Graph graph = graph_of(body, "f32");
        EXPECT_EQ(kernels_named(make(graph, random_leaves(graph, 1), false, true, Target{}).assembly, "tf_cells"), 0)
            << body;
    }
}

TEST(CudaCells, CompilesForEveryArchitecture) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    for (int arch : {80, 90}) {
        Target target;
        target.arch = arch;
        for (const char* body : {passes[0], passes[3]}) {
            const Graph graph = graph_of(body, "f32");
            for (const BoundLaunch& bound : make(graph, random_leaves(graph, 7), false, true, target).assembly.launches)
                EXPECT_NO_THROW(nvrtc_log(*bound.launch.source, arch)) << arch << body;
        }
    }
}

}  // namespace
}  // namespace transfuse::cuda
