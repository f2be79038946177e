// Results that lie otherwise than the input: PyTorch's softmax, norms of planes and reductions give contiguous tensors
// whatever they are given. Executed on the CPU against the float64 reference.
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const graphs[] = {
    "%x = input f32[2,8,5,9,12]  %w = param f32[8,32,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] "
    "padding=[1,1,1]  %s = softmax(%y) dims=[1]  %z = sigmoid(%s)  return %z",
    "%x = input f32[2,16,9,11]  %w = param f32[16,33,4,4]  %b = param f32[33]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2] padding=[1,1]  %z = log_softmax(%y) dims=[1]  return %z",
    "%x = input f32[2,16,8,16]  %w = param f32[16,64,3,3]  %y = conv_transpose(%x, %w)  %n = instance_norm(%y)  %z = "
    "leaky_relu(%n) negative_slope=0.2  return %z",
    "%x = input f32[2,16,7,8]  %w = param f32[16,24,2,2]  %y = conv_transpose(%x, %w) stride=[2,2]  %z = "
    "layer_norm(%y) "
    "normalized_shape=[24,14,16]  return %z",
    "%x = input f32[2,16,8,12]  %w = param f32[16,32,3,3]  %y = conv_transpose(%x, %w) stride=[2,2]  %t = tanh(%y)  %z "
    "= sum(%t) dims=[2] keepdim=1  return %z",
    "%x = input f32[2,16,8,12]  %w = param f32[16,32,3,3]  %y = conv_transpose(%x, %w)  %m = mean(%y) dims=[1] "
    "keepdim=1  %z = concat(%y, %m) axis=1  return %z",
};

void run(size_t manner, const Target& target, Fp32Precision precision, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 40;
    for (size_t i = 0; i < std::size(graphs); ++i) {
        const Graph graph = graph_of(graphs[i]);
        for (const bool last : {true, false})
            if (++seed; tests::taken(i + last, manner, 2))
                cases.push_back(make(graph, random_leaves(graph, seed), last, true, target, precision, "", !last));
    }
    check(cases, tolerance);
}

TEST(CudaLayouts, HopperKernels) { run(0, Target{}, Fp32Precision::tf32, 4e-3); }

TEST(CudaLayouts, PortableKernels) {
    Target target;
    target.portable_only = true;
    run(1, target, Fp32Precision::strict, 1e-5);
}

}  // namespace
}  // namespace transfuse::cuda
