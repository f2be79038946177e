// Split-K: many input channels and few outputs, whose sums are made in slices and added up where outputs are read.
// Executed on the CPU against the float64 reference, compiled for every architecture.
#include <gtest/gtest.h>

#include "cuda/runtime/nvrtc.h"
#include "cuda_host/cases.h"
#include "cuda_host/nvrtc.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // a generator's first layers: phases, a bias, a chain
    "%x = input f32[2,256,4,4]  %w = param f32[256,64,4,4]  %b = param f32[64]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]  %z = silu(%y)",
    // rows of odd length, taps that do not fill every phase, a prologue, a tensor beside it
    "%x = input f32[2,512,5,7]  %p = param f32[512,1,1]  %r = input f32[2,64,11,14]  %w = param f32[512,64,3,5]  %m = mul(%x, %p)  %e = relu(%m)  "
    "%y = conv_transpose(%e, %w) stride=[2,2] padding=[0,2] output_padding=[0,1]  %s = add(%y, %r)  %z = silu(%s)",
    // a stride, as of an input gradient; a border that windows leave
    "%x = input f32[2,256,9,8]  %w = param f32[80,256,3,3]  %y = conv(%x, %w) stride=[2,2] padding=[2,1]  %z = relu(%y)",
    // dilation
    "%x = input f32[1,192,10,12]  %w = param f32[40,192,3,3]  %b = param f32[40]  %y = conv(%x, %w, %b) dilation=[2,1] padding=[2,0]  %z = silu(%y)",
    // groups, each in slices
    "%x = input f32[2,768,6,7]  %w = param f32[768,20,3,3]  %b = param f32[40]  %y = conv_transpose(%x, %w, %b) padding=[1,1] groups=2  %z = relu(%y)",
    // three axes, one axis
    "%x = input f32[1,128,3,4,5]  %w = param f32[128,32,4,4,4]  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]  %z = silu(%y)",
    "%x = input f32[2,256,40]  %w = param f32[64,256,7]  %b = param f32[64]  %y = conv(%x, %w, %b) padding=[3]  %z = silu(%y)",
};

// What follows is more than a chain on each pixel: the slices are added up first.
const char* const gathered[] = {
    "%x = input f32[3,256,4,4]  %w = param f32[256,64,4,4]  %b = param f32[64]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]  %z = batch_norm(%y) training=1",
};

bool is_split(const Assembly& assembly) {
    return std::any_of(assembly.notes.begin(), assembly.notes.end(),
                       [](const std::string& note) { return note.find("slices of its channels") != std::string::npos; });
}

void run(size_t manner, const std::string& dtype, bool last, bool aligned, bool portable, Fp32Precision precision, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 48, target.portable_only = portable;
    const auto add = [&](const char* body) {
        const Graph graph = graph_of(body, dtype);
        cases.push_back(make(graph, random_leaves(graph, 7), last, aligned, target, precision));
        EXPECT_TRUE(is_split(cases.back().assembly)) << body << testing::PrintToString(cases.back().assembly.notes);
    };
    for (size_t i = 0; i < std::size(passes); ++i)
        if (tests::taken(i, manner, 2)) add(passes[i]);
    for (const char* body : gathered) add(body);
    check(cases, tolerance);
}

TEST(CudaSplitK, Planes) { run(0, "f32", false, true, false, Fp32Precision::strict, 1e-5); }
TEST(CudaSplitK, Tf32ChannelsLast) { run(1, "f32", true, true, false, Fp32Precision::tf32, 1e-2); }
TEST(CudaSplitK, HalvesChannelsLast) { run(2, "f16", true, true, false, Fp32Precision::strict, 1e-2); }
TEST(CudaSplitK, PortableUnaligned) { run(3, "f32", false, false, true, Fp32Precision::tf32, 1e-2); }

// Tiles enough for every multiprocessor; channels that have no slices of whole K steps; memory that is spared.
TEST(CudaSplitK, TheRestIsNot) {
    Target few;
    few.multiprocessors = 2;
    const Graph graph = graph_of(passes[0]), odd = graph_of(with(passes[0], "256", "121"));
    EXPECT_FALSE(is_split(make(graph, random_leaves(graph, 1), false, true, few).assembly));
    EXPECT_FALSE(is_split(make(odd, random_leaves(odd, 1), false, true, Target{}).assembly));
    CompileOptions spared;
    spared.lean = true;
    EXPECT_FALSE(is_split(assemble(plan(rewrite(graph).rewritten, Machine::h200()), spared, Target{}, true)));
}

TEST(CudaSplitK, CompilesForEveryArchitecture) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    for (int arch : {80, 90}) {
        Target target;
        target.arch = arch;
        for (const char* body : {passes[0], passes[4]}) {
            const Graph graph = graph_of(body);
            for (const BoundLaunch& bound : make(graph, random_leaves(graph, 7), false, true, target, Fp32Precision::tf32).assembly.launches)
                EXPECT_NO_THROW(nvrtc_log(*bound.launch.source, arch)) << arch;
        }
    }
}

}  // namespace
}  // namespace transfuse::cuda
