// Vectors of channels that come in boxes and do not stay as they lie: products in two terms, prologues, strides. Executed
// on the CPU against the float64 reference.
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

struct Case {
    const char* text;
    Fp32Precision precision;
    double tolerance;
};

constexpr Fp32Precision tf32 = Fp32Precision::tf32, strict = Fp32Precision::strict;

const Case listed[] = {
    // Two terms: borders, odd sizes, channels that end within a stage, groups that do, one pixel, planes, taps apart.
    {"%x = input f32[2,20,7,9]  %w = param f32[20,24,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
     "output_padding=[1,0]  return %y",
     strict, 2e-6},
    {"%x = input f32[2,72,6,11]  %w = param f32[72,40,3,2]  %y = conv_transpose(%x, %w) dilation=[1,2] groups=2  return %y",
     strict, 2e-6},
    {"%x = input f32[2,16,1,1]  %w = param f32[16,8,4,4]  %y = conv_transpose(%x, %w)  return %y", strict, 2e-6},
    {"%x = input f32[1,12,3,5,6]  %w = param f32[12,16,2,3,3]  %y = conv_transpose(%x, %w) stride=[1,2,3]  return %y",
     strict, 2e-6},
    {"%x = input f32[2,320,24,24]  %w = param f32[320,1,4,4]  %y = conv_transpose(%x, %w)  %z = mish(%y)  return %z",
     strict, 2e-6},
    // A prologue: what lies outside the image stays zero, whatever the prologue makes of zero.
    {"%x = input f32[2,64,13,33]  %g = param f32[1,64,1,1]  %w = param f32[64,64,3,3]  %s = add(%x, %g)  %r = relu(%s)  "
     "%y = conv_transpose(%r, %w)  return %y",
     tf32, 4e-3},
    {"%x = input f32[2,68,12,33]  %g = param f32[1,68,1,1]  %w = param f32[68,64,4,4]  %s = add(%x, %g)  %r = "
     "leaky_relu(%s) negative_slope=0.2  %y = conv_transpose(%r, %w) stride=[2,2] padding=[1,1]  return %y",
     strict, 2e-6},
    {"%x = input f16[2,72,13,33]  %g = param f16[1,72,1,1]  %w = param f16[72,64,3,3]  %s = add(%x, %g)  %r = relu(%s)  "
     "%y = conv_transpose(%r, %w) stride=[2,2]  return %y",
     tf32, 4e-3},
    {"%x = input bf16[2,64,13,33]  %w = param bf16[64,64,3,3]  %r = leaky_relu(%x) negative_slope=0.1  %y = conv(%r, %w) "
     "padding=[1,1]  return %y",
     tf32, 3e-2},
    // Strides: every residue of the input in a patch of its own.
    {"%x = input f32[2,64,13,11]  %w = param f32[64,64,3,3]  %y = conv(%x, %w) stride=[2,2] padding=[1,1]  return %y", tf32,
     4e-3},
    {"%x = input f32[2,64,13,11]  %g = param f32[1,64,1,1]  %w = param f32[64,64,3,3]  %s = add(%x, %g)  %r = relu(%s)  "
     "%y = conv(%r, %w) stride=[2,3] padding=[1,1]  return %y",
     strict, 2e-6},
};

bool comes_so(const HostCase& c) {
    return std::any_of(c.assembly.launches.begin(), c.assembly.launches.end(), [](const BoundLaunch& bound) {
        return bound.launch.source->text.find("LOAD = LOAD_VECTOR_BOXES") != std::string::npos;
    });
}

TEST(CudaVectorBoxes, AreRight) {
    Target target;
    target.multiprocessors = 3;  // blocks that take several tiles
    std::map<double, std::vector<HostCase>> cases;  // by tolerance
    for (const Case& one : listed) {
        const Graph graph = graph_of(one.text);
        const HostCase c = make(graph, random_leaves(graph, 60), true, true, target, one.precision);
        EXPECT_TRUE(comes_so(c)) << one.text;
        cases[one.tolerance].push_back(c);
    }
    for (const auto& [tolerance, list] : cases) check(list, tolerance);
}

}  // namespace
}  // namespace transfuse::cuda
