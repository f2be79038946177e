// Convolutions of few output channels by col2im: products of each tap on tensor cores, added up where outputs are read.
// Executed on the CPU against the float64 reference, compiled for every architecture.
#include <gtest/gtest.h>

#include "cuda/runtime/nvrtc.h"
#include "cuda_host/cases.h"
#include "cuda_host/nvrtc.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // the last layer of a generator
    "%x = input f32[2,64,16,16]  %w = param f32[64,3,4,4]  %b = param f32[3]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]  %z = tanh(%y)",
    // taps that do not fill every phase, outputs beyond the last tap, a prologue, a tensor beside it, a softmax over channels
    "%x = input f32[2,40,12,20]  %p = param f32[40,1,1]  %r = input f32[2,2,25,40]  %w = param f32[40,2,3,5]  %m = mul(%x, %p)  %e = relu(%m)  "
    "%y = conv_transpose(%e, %w) stride=[2,2] padding=[0,2] output_padding=[0,1]  %s = add(%y, %r)  %z = softmax(%s) dims=[1]",
    // dilation: taps that are not every second one; a row of odd length
    "%x = input f32[2,96,13,32]  %w = param f32[96,4,3,3]  %b = param f32[4]  %z = conv_transpose(%x, %w, %b) stride=[2,1] dilation=[1,2] padding=[1,2]",
    // three axes, one channel
    "%x = input f32[1,32,6,8,8]  %w = param f32[32,1,4,4,4]  %b = param f32[1]  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %z = silu(%y)",
    // outputs before the first tap
    "%x = input f32[2,64,9,16]  %w = param f32[1,64,2,4,4]  %z = lattice(%x, %w) groups=1 up=[2,2] offset=[-1,3] out=[22,36]",
    // the taps of some axes: of depth, of height and width; strides, dilation and outputs beyond the last tap of the others
    "%x = input f32[1,96,4,6,8]  %w = param f32[96,12,4,4,4]  %b = param f32[12]  %y = conv_transpose(%x, %w, %b)  %z = relu(%y)",
    "%x = input f32[1,48,12,9,8]  %w = param f32[48,8,5,3,3]  %y = conv_transpose(%x, %w) stride=[2,1,1] dilation=[1,2,1] padding=[1,1,0]  %z = relu(%y)",
    "%x = input f32[1,96,5,6,8]  %w = param f32[96,10,3,3,3]  %y = conv_transpose(%x, %w) stride=[1,2,2] dilation=[2,1,1] padding=[1,1,0] output_padding=[0,1,0]  "
    "%z = relu(%y)",
    // groups
    "%x = input f32[2,96,11,14]  %w = param f32[96,3,4,4]  %b = param f32[6]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] groups=2  %z = silu(%y)",
    // one axis, no phases
    "%x = input f32[2,32,400]  %w = param f32[1,32,7]  %b = param f32[1]  %y = conv(%x, %w, %b) padding=[3]  %z = tanh(%y)",
};

// What follows is more than a chain on each pixel: the products are added up first.
const char* const gathered[] = {
    "%x = input f32[2,96,4,6,6]  %w = param f32[96,1,4,4,4]  %b = param f32[1]  %y = conv_transpose(%x, %w, %b)  %s = silu(%y)  %z = group_norm(%s) num_groups=1",
    "%x = input f32[3,64,16,16]  %w = param f32[64,3,4,4]  %b = param f32[3]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]  %z = batch_norm(%y) training=1",
    "%x = input f32[2,96,16,16]  %w = param f32[96,8,3,3]  %y = conv_transpose(%x, %w) groups=2  %p = max_pool(%y) kernel=[2,2] stride=[2,2]  %z = mean(%p) dims=[2,3] keepdim=1",
    "%x = input f32[2,64,32,32]  %w = param f32[64,3,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %t = tanh(%y)  %z = mean(%t) dims=[2,3]",
};

bool is_col2im(const Assembly& assembly) {
    return std::any_of(assembly.notes.begin(), assembly.notes.end(), [](const std::string& note) { return note.find("each tap") != std::string::npos; });
}

void run(bool last, bool aligned, bool portable) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 2, target.portable_only = portable;
    for (const char* body : passes) {
        const Graph graph = graph_of(body);
        cases.push_back(make(graph, random_leaves(graph, 7), last, aligned, target));
        EXPECT_TRUE(is_col2im(cases.back().assembly)) << body << print(cases.back().plan);
    }
    for (const char* body : gathered) {
        const Graph graph = graph_of(body);
        cases.push_back(make(graph, random_leaves(graph, 7), last, aligned, target));
        EXPECT_TRUE(is_col2im(cases.back().assembly)) << body << print(cases.back().plan);
        EXPECT_EQ(kernels_named(cases.back().assembly, "tf_gather0"), 1u) << body;
    }
    check(cases, 3e-6);
}

TEST(CudaCol2im, Planes) { run(false, true, false); }
TEST(CudaCol2im, PortableChannelsLastUnaligned) { run(true, false, true); }

// Many channels fill their rows; 16-bit products are cheap as they are.
TEST(CudaCol2im, TheRestIsNot) {
    for (const char* body : {"%x = input f32[2,64,32,32]  %w = param f32[64,64,4,4]  %z = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]",
                             "%x = input f16[2,64,32,32]  %w = param f16[64,3,4,4]  %z = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]"}) {
        const Graph graph = graph_of(body);
        EXPECT_FALSE(is_col2im(make(graph, random_leaves(graph, 1), false, true, Target{}).assembly)) << body;
    }
}

// What takes scratch memory for the sake of speed is left where there is to be none.
TEST(CudaCol2im, NotWhereMemoryIsSpared) {
    for (const char* body : {passes[0], gathered[0]}) {
        const Plan made = plan(rewrite(graph_of(body)).rewritten, Machine::h200());
        Target target;
        target.multiprocessors = 2;
        CompileOptions spared;
        spared.lean = true;
        const Assembly plenty = assemble(made, {}, target, true), lean = assemble(made, spared, target, true);
        EXPECT_TRUE(is_col2im(plenty)) << body;
        EXPECT_FALSE(is_col2im(lean)) << body;
    }
}

TEST(CudaCol2im, CompilesForEveryArchitecture) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    for (int arch : {80, 90}) {
        Target target;
        target.arch = arch, target.multiprocessors = 2;
        const Graph graph = graph_of(passes[1]);
        for (const BoundLaunch& bound : make(graph, random_leaves(graph, 7), false, true, target).assembly.launches)
            EXPECT_NO_THROW(nvrtc_log(*bound.launch.source, arch)) << arch;
    }
}

}  // namespace
}  // namespace transfuse::cuda
