// Box sums by way of row sums: executed on the CPU against the float64 reference.
#include <gtest/gtest.h>

#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // borders on two axes; a plane a block, in parts
    "%x = input f32[2,3,40,64]  %w = param f32[3,4,3,3]  %b = param f32[4]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1] output_padding=[1,1]  %z = mean(%y) dims=[2,3]",
    // many small planes a block, three axes
    "%x = input f32[3,5,4,12,20]  %w = param f32[5,3,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]  "
    "%z = mean(%y) dims=[2,3,4]",
    // rows longer than a warp, a prologue
    "%x = input f32[2,2,20,300]  %w = param f32[2,8,3,5]  %t = tanh(%x)  %y = conv_transpose(%t, %w) padding=[1,2]  "
    "%z = sum(%y) dims=[2,3]",
    // every second or third element only: intervals with steps
    "%x = input f32[2,3,31,34]  %w = param f32[4,3,2,2]  %y = conv(%x, %w) stride=[3,2] padding=[1,1]  %z = mean(%y) dims=[2,3]",
};

int by_rows(const Assembly& assembly) {
    int count = 0;
    for (const BoundLaunch& bound : assembly.launches) count += bound.launch.note.find(" of rows") != std::string::npos;
    return count;
}

void run(const char* dtype, bool aligned, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    for (const char* body : passes) {
        const std::string text = with(with(body, "  ", "\n  "), "f32[", std::string(dtype) + "[");
        const Graph graph = parse("graph g {\n  " + text + "\n  return %z\n}\n");
        cases.push_back(make(graph, random_leaves(graph, 11), false, aligned, target));
        EXPECT_EQ(by_rows(cases.back().assembly), 1) << body;
    }
    check(cases, tolerance);
}

TEST(CudaMoments, RowsFloat32) { run("f32", true, 1e-6); }
TEST(CudaMoments, RowsFloat64) { run("f64", true, 1e-12); }
TEST(CudaMoments, RowsHalfUnaligned) { run("f16", false, 3e-3); }

// A kernel that waits for nothing before it writes starts as soon as the one launched before it lets it: that one must have
// waited by then, or weights are read, and memory is written, while an earlier call is still at work.
TEST(CudaMoments, WhatRunsBesideTheReadingStartsBehindAllBefore) {
    int beside = 0;
    for (const char* body : passes) {
        const Graph graph = parse("graph g {\n  " + with(body, "  ", "\n  ") + "\n  return %z\n}\n");
        const Assembly assembly = assemble(plan(rewrite(graph).rewritten, Machine::h200()), {}, Target{}, true);
        for (size_t i = 1; i < assembly.launches.size(); ++i) {
            auto kernel = [&](size_t at) {
                const std::string& text = assembly.launches[at].launch.source->text;
                return text.substr(text.find("__global__"));
            };
            const size_t lets = kernel(i).find("TF_BESIDE");
            if (lets == std::string::npos || lets > kernel(i).find("TF_AFTER")) continue;
            ++beside;
            EXPECT_LT(kernel(i - 1).find("TF_AFTER"), kernel(i - 1).find("TF_BESIDE")) << body;
        }
    }
    EXPECT_GT(beside, 0);
}

}  // namespace
}  // namespace transfuse::cuda
