// Statistics beside stores: grid reductions of the store role, on the kernels of sm_90a and on the portable ones, executed on the CPU
// against the float64 reference.
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // every reduction of an image's channels, beside the value; a mean and a variance of the same
    "%x = input f32[2,5,9,21]  %w = param f32[5,20,3,3]  %b = param f32[20]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1]  %t = tanh(%y)  %m = mean(%t) dims=[2,3]  %v = var(%t) dims=[2,3]  %a = amax(%t) dims=[2,3]  %i = "
    "amin(%y) dims=[2,3]  %l = logsumexp(%y) dims=[2,3]  return %t, %m, %v, %a, %i, %l",
    // values that grow along the image and differ by image: pivots are found again
    "%x = input f32[2,4,6,34]  %w = param f32[4,72,1,3]  %r = input f32[2,1,6,34]  %y = conv_transpose(%x, %w) padding=[0,1]  "
    "%s = mul(%r, 120)  %t = add(%y, %s)  %l = logsumexp(%t) dims=[2,3]  %v = var(%t) dims=[2,3] correction=0  return %t, %l, %v",
    // a mean far from zero, of the whole batch
    "%x = input f32[3,6,8,17]  %w = param f32[6,33,3,3]  %y = conv_transpose(%x, %w)  %t = add(%y, 1000)  %m = mean(%t) "
    "dims=[0,2,3]  %v = var(%t) dims=[0,2,3]  return %t, %m, %v",
    // behind a pool, and of one channel
    "%x = input f32[2,6,8,12]  %w = param f32[6,24,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %p = "
    "max_pool(%y) kernel=[2,2] stride=[2,2]  %m = mean(%p) dims=[2,3]  %v = var(%p) dims=[2,3]  %c = sum(%p) dims=[1] keepdim=1  %k "
    "= var(%c) dims=[2,3]  %n = mean(%c) dims=[2,3]  return %p, %m, %v, %k, %n",
};

void run(const Target& target, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 300;
    for (const char* pass : passes) {
        const Graph graph = parse("graph g {\n  " + with(with(pass, "  %", "\n  %"), "  return", "\n  return") + "\n}\n");
        cases.push_back(make(graph, random_leaves(graph, ++seed), false, true, target));
        EXPECT_TRUE(cases.back().assembly.configs.size() > 0) << print(graph);
    }
    check(cases, tolerance);
}

TEST(CudaStatistics, Hopper) { run(Target{}, 2e-5); }
TEST(CudaStatistics, Portable) {
    Target target;
    target.portable_only = true;
    run(target, 2e-5);
}

}  // namespace
}  // namespace transfuse::cuda
