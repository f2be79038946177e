// The chains of tests/rewrites as CUDA kernels: compiled for the device at full size, executed on the CPU at a small
// one; each in one of both ways, in long runs in both.
#include "cuda/runtime/module.h"
#include "cuda_host/cases.h"
#include "cuda_host/nvrtc.h"
#include "rewrite_cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

TEST(CudaRewrites, CompileForTheDevice) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    std::vector<std::shared_ptr<const Source>> sources;
    const std::vector<tests::RewriteCase> all = tests::rewrite_cases();
    for (size_t i = 0; i < all.size(); ++i) {
        if (!tests::taken(i, 0, 2)) continue;
        CompileOptions options;
        options.precision = Fp32Precision::tf32;
        const Plan chosen = plan(rewrite(parse(all[i].text)).rewritten, Machine::h200());
        for (const BoundLaunch& bound : assemble(chosen, options, {}, true).launches)
            sources.push_back(bound.launch.source);
    }
    EXPECT_NO_THROW(compile_all(sources, 90));
}

TEST(CudaRewrites, ResultsMatchTheReference) {
    std::vector<HostCase> cases;
    Target general;
    general.general_only = true;
    const std::vector<tests::RewriteCase> all = tests::rewrite_cases();
    for (size_t i = 0; i < all.size(); ++i) {
        if (!tests::taken(i, 1, 2)) continue;
        RewriteOptions options;
        options.heed_cost = false;
        const Graph graph = rewrite(tests::small(all[i], "f32"), options).rewritten;
        cases.push_back(make(graph, random_leaves(graph, 5), cases.size() % 2 == 1, true, general));
    }
    check(cases, 2e-5);
}

}  // namespace
}  // namespace transfuse::cuda
