// Box sums by way of row sums: executed on the CPU against the float64 reference.
#include <gtest/gtest.h>

#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // borders on two axes; a plane a block, in parts
    "%x = input f32[2,3,40,64]  %w = param f32[3,4,3,3]  %b = param f32[4]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2] "
    "padding=[1,1] output_padding=[1,1]  %z = mean(%y) dims=[2,3]",
    // many small planes a block, three axes
    "%x = input f32[3,5,4,12,20]  %w = param f32[5,3,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] "
    "padding=[1,1,1]  "
    "%z = mean(%y) dims=[2,3,4]",
    // rows longer than a warp, a prologue
    "%x = input f32[2,2,20,300]  %w = param f32[2,8,3,5]  %t = tanh(%x)  %y = conv_transpose(%t, %w) padding=[1,2]  "
    "%z = sum(%y) dims=[2,3]",
    // every second or third element only: intervals with steps
    "%x = input f32[2,3,31,34]  %w = param f32[4,3,2,2]  %y = conv(%x, %w) stride=[3,2] padding=[1,1]  %z = mean(%y) "
    "dims=[2,3]",
};

int by_rows(const Assembly& assembly) { return kernels_noted(assembly, " of rows"); }

void run(const char* dtype, bool aligned, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    for (const char* body : passes) {
        const Graph graph = graph_of(body, dtype);
        cases.push_back(make(graph, random_leaves(graph, 11), false, aligned, target));
        EXPECT_EQ(by_rows(cases.back().assembly), 1) << body;
    }
    check(cases, tolerance);
}

// Channels innermost: few columns, whose lines meet; all boxes' borders; a mean over planes of pixels that are kept.
void run_channels_last(const char* dtype, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    std::vector<std::string> bodies(std::begin(passes), std::end(passes));
    for (const char* body :
         {"%x = input f32[2,16,5,6,9]  %w = param f32[16,8,3,3,3]  %y = conv_transpose(%x, %w) padding=[1,1,1]  %z = "
          "mean(%y) dims=[2]",
          "%x = input f32[3,8,4,7]  %w = param f32[8,5,3,3]  %y = conv_transpose(%x, %w)  %z = sum(%y) dims=[2]",
          "%x = input f32[1,16,16,9,11]  %w = param f32[16,4,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] "
          "padding=[1,1,1]  %z = mean(%y) dims=[2,3,4]"})
        bodies.push_back(body);
    for (const std::string& body : bodies) {
        const Graph graph = graph_of(body, dtype);
        cases.push_back(make(graph, random_leaves(graph, 12), true, true, target));
        EXPECT_GE(kernels_noted(cases.back().assembly, "box sums"), 1) << body;
    }
    check(cases, tolerance);
}

// Many columns, which a thread has to itself: at a border, every second row, of rows that no vector divides.
void run_columns(const char* dtype, bool channels_last, double tolerance) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    for (const char* body :
         {"%x = input f32[2,3,7,32,48]  %w = param f32[3,4,3,3,3]  %y = conv_transpose(%x, %w) padding=[1,1,1]  %z = "
          "mean(%y) dims=[2]",
          "%x = input f32[2,2,9,32,48]  %w = param f32[4,2,2,1,3]  %y = conv(%x, %w) stride=[2,1,1] padding=[1,0,1]  "
          "%z = mean(%y) dims=[2]",
          "%x = input f32[1,3,5,33,35]  %w = param f32[3,4,3,3,3]  %y = conv_transpose(%x, %w) padding=[1,1,1]  %z = "
          "sum(%y) dims=[2]"}) {
        const Graph graph = graph_of(body, dtype);
        cases.push_back(make(graph, random_leaves(graph, 13), channels_last, true, target));
        int held = 0, rows = 0;
        for (const BoundLaunch& bound : cases.back().assembly.launches) {
            const std::string& text = bound.launch.source->text;
            held += text.find("    double tf_sums[") != std::string::npos;
            rows += text.find("    tf_store_row(") != std::string::npos;
        }
        EXPECT_EQ(held, 1) << body;
        EXPECT_EQ(rows, !channels_last && cases.size() < 3) << body;
    }
    check(cases, tolerance);
}

TEST(CudaMoments, ColumnsFloat32) { run_columns("f32", false, 1e-6); }
TEST(CudaMoments, ColumnsFloat64) { run_columns("f64", false, 1e-12); }
TEST(CudaMoments, ColumnsHalf) { run_columns("f16", false, 3e-3); }
TEST(CudaMoments, ColumnsOfChannelsFloat32) { run_columns("f32", true, 1e-6); }
TEST(CudaMoments, ChannelsInnermostFloat32) { run_channels_last("f32", 1e-6); }
TEST(CudaMoments, ChannelsInnermostHalf) { run_channels_last("f16", 3e-3); }
TEST(CudaMoments, RowsFloat32) { run("f32", true, 1e-6); }
TEST(CudaMoments, RowsFloat64) { run("f64", true, 1e-12); }
TEST(CudaMoments, RowsHalfUnaligned) { run("f16", false, 3e-3); }

// A kernel that waits for nothing before it writes starts as soon as the one launched before it lets it: that one must
// have waited by then, or weights are read, and memory is written, while an earlier call is still at work.
TEST(CudaMoments, WhatRunsBesideTheReadingStartsBehindAllBefore) {
    int beside = 0;
    for (const char* body : passes) {
        const Graph graph = graph_of(body);
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

// What tiles leave of a reduction is added up by many threads where one would take long: parts of exponentials by a
// block, means of channels once before the statistics of their groups, not once for each of them.
TEST(CudaTails, NoThreadAddsForLong) {
    auto tail = [](const std::string& body) {
        const Graph graph = graph_of(body);
        const Plan planned = plan(rewrite(graph).rewritten, Machine::h200());
        for (const BoundLaunch& bound : assemble(planned, {}, Target{}, true).launches)
            if (bound.launch.source->entry.starts_with("tf_dense_tail")) return bound.launch;
        ADD_FAILURE() << "no tail\n" << print(planned);
        return Launch{};
    };
    const Launch exponentials = tail(
        "%x = input f32[16,64,48,48]  %w = param f32[64,36,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] "
        "padding=[1,1]  %l = logsumexp(%y) dims=[2,3] keepdim=1  %z = sub(%y, %l)");
    EXPECT_GE(exponentials.grid[0], 16u * 36 / 32) << "one thread for each of 576 outputs fills 3 blocks";
    const Launch groups = tail(
        "%x = input f32[4,256,64,64]  %w = param f32[128,256,3,3]  %g = param f32[128]  %h = param f32[128]  %y = "
        "conv(%x, %w) "
        "padding=[1,1]  %z = group_norm(%y, %g, %h) num_groups=8");
    ASSERT_TRUE(groups.source);
    EXPECT_NE(groups.source->text.find("    TF_CLUSTER_BARRIER();"), std::string::npos)
        << "channels first, then groups";
}

}  // namespace
}  // namespace transfuse::cuda
