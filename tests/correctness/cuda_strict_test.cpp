// Strict fp32 on tensor cores that cut towards zero what they add (tests/cuda_host/machine.h does, bit by bit as the device): as
// accurate as fp32 arithmetic, without a drift, and exact where fp32 is.
#include <cmath>

#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

struct Sums {
    double rms, lost;   // relative to the sums; `lost`: how much smaller they are, on average
};

Sums against(const std::vector<double>& made, const std::vector<double>& expected) {
    double squares = 0, along = 0, scale = 0;
    for (size_t i = 0; i < made.size(); ++i) {
        const double difference = made[i] - expected[i];
        squares += difference * difference, along -= difference * expected[i], scale += expected[i] * expected[i];
    }
    return {std::sqrt(squares / scale), along / scale};
}

HostCase strict(const std::string& body, double (*leaf)(double), int seed = 77) {
    const Graph graph = graph_of(std::string(body) + "  return %y");
    auto leaves = random_leaves(graph, seed);
    for (auto& values : leaves)
        for (double& v : values) v = leaf(v);
    Target target;
    target.multiprocessors = 2;
    return make(graph, std::move(leaves), false, true, target, Fp32Precision::strict);
}

std::vector<double> result(const HostCase& c) {
    HostKernels kernels;
    for (const BoundLaunch& bound : c.assembly.launches) kernels.add(bound.launch);
    kernels.build(shim_folder);
    return kernels.run(c.plan.graph, c.assembly, c.leaf_strides, c.output_strides, c.leaves)[0];
}

const char* const sums[] = {
    // 960 products an output, streamed weights; fewer; phases; inputs of one sign; few products
    "%x = input f32[1,64,4,16]  %w = param f32[64,64,3,5]  %y = conv_transpose(%x, %w)",
    "%x = input f32[1,16,6,24]  %w = param f32[16,64,3,3]  %y = conv_transpose(%x, %w)",
    "%x = input f32[1,32,3,3,8]  %w = param f32[32,64,5,5,5]  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[2,2,2]",
    "%x = input f32[1,64,4,16]  %w = param f32[64,64,3,5]  %a = abs(%x)  %y = conv_transpose(%a, %w)",
    "%x = input f32[1,32,9,24]  %w = param f32[32,16,3,5]  %y = conv_transpose(%x, %w) stride=[2,3] padding=[1,2] dilation=[2,1] groups=4",
};

// Of products one after another in fp32, as many as an output of each has.
const double plain[] = {5.3e-7, 2.1e-7, 5.3e-7, 5.3e-7, 1.2e-7};

TEST(CudaStrict, LosesNothing) {
    for (size_t i = 0; i < std::size(sums); ++i) {
        const char* body = sums[i];
        const HostCase c = strict(body, [](double v) { return v; });
        const Sums s = against(result(c), c.expected[0]);
        EXPECT_LT(std::fabs(s.lost), 2e-8) << body;
        EXPECT_LT(s.rms, std::min(0.65 * plain[i], 1.6e-7)) << body;
    }
}

// Integers, as in a user's first try, and weights of a pool: fp32 adds them without error.
TEST(CudaStrict, ExactWhereFp32Is) {
    for (const char* body : sums) {
        const HostCase c = strict(body, [](double v) { return std::round(4 * v); });
        const auto made = result(c);
        for (size_t i = 0; i < made.size(); ++i) ASSERT_EQ(made[i], c.expected[0][i]) << body;
    }
}

// Behind a normalisation of short rows: their variance is no small difference of large squares, wherever their first value lies.
TEST(CudaStrict, VariancesOfShortRows) {
    double squares = 0, scale = 0;
    for (int seed = 1; seed <= 6; ++seed) {
        const HostCase c = strict(
            "%x = input f32[2,10,23]  %w = param f32[10,11,1]  %v = conv_transpose(%x, %w)  %n = instance_norm(%v) eps=1e-05 "
            "%t = mul(%n, 4)  %y = logsumexp(%t) dims=[1] keepdim=1",
            [](double v) { return v; }, seed);
        const auto made = result(c);
        for (size_t i = 0; i < made.size(); ++i) {
            squares += std::pow(made[i] - c.expected[0][i], 2), scale += std::pow(c.expected[0][i], 2);
        }
    }
    EXPECT_LT(std::sqrt(squares / scale), 8e-8);  // PyTorch's is 5.5e-8
}

// A stride beyond the kernel: three quarters of the outputs meet no tap and are alike, so that a sum of their squares, added one by
// one, loses the same at every step. The variance keeps its digits (it lost 6e-7), and so does what is divided by it.
TEST(CudaStrict, VariancesOfValuesAlike) {
    const Graph graph = graph_of(
        "%x = input f32[2,32,24,32]  %w = param f32[32,64,2,2]  %b = param f32[64]  %c = conv_transpose(%x, %w, %b) stride=[4,4] "
        "%n = batch_norm(%c) training=1  %v = var(%c) dims=[0,2,3]  return %n, %v");
    auto leaves = random_leaves(graph, 5);
    for (double& v : leaves[0]) v = static_cast<double>(static_cast<float>(0.5 + 0.5 * v));
    Target target;
    target.multiprocessors = 4;
    const HostCase c = make(graph, std::move(leaves), false, true, target, Fp32Precision::strict);
    HostKernels kernels;
    for (const BoundLaunch& bound : c.assembly.launches) kernels.add(bound.launch);
    kernels.build(shim_folder);
    const auto made = kernels.run(c.plan.graph, c.assembly, c.leaf_strides, c.output_strides, c.leaves);
    EXPECT_LT(against(made[0], c.expected[0]).rms, 1.5e-7);
    EXPECT_LT(against(made[1], c.expected[1]).rms, 1.2e-7);
}

}  // namespace
}  // namespace transfuse::cuda
