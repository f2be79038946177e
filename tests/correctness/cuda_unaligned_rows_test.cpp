// Inputs whose rows begin anywhere, row by row in boxes that begin on 16 bytes, executed on the CPU against the float64
// reference: every distance of rows and planes from 16 bytes, borders, strides, groups, prologues, several images.
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // rows 1, 2 and 3 elements beyond 16 bytes, planes likewise; a last stage of channels that is not full
    "%x = input f32[2,24,5,33]  %w = param f32[24,20,3,3]  %b = param f32[20]  %y = conv_transpose(%x, %w, %b)  %z = "
    "tanh(%y)",
    "%x = input f32[2,20,7,70]  %w = param f32[20,70,3,5]  %z = conv_transpose(%x, %w) padding=[1,1]",
    "%x = input f32[1,16,11,35]  %w = param f32[70,16,3,3]  %y = conv(%x, %w) padding=[1,1]  %z = relu(%y)",
    // phases; three dimensions and one
    "%x = input f32[2,8,9,37]  %w = param f32[8,24,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %z = "
    "sigmoid(%y)",
    "%x = input f32[2,8,3,5,34]  %w = param f32[8,16,3,3,3]  %z = conv_transpose(%x, %w) stride=[1,2,1] padding=[1,1,0]",
    "%x = input f32[3,24,101]  %w = param f32[24,40,7]  %z = conv_transpose(%x, %w) padding=[3]",
    // strides: neighbours go to sub-patches
    "%x = input f32[2,16,13,65]  %w = param f32[70,16,3,3]  %z = conv(%x, %w) stride=[2,2] padding=[1,1]",
    "%x = input f32[2,8,3,9,39]  %w = param f32[16,8,3,3,3]  %z = conv(%x, %w) stride=[1,2,3] padding=[1,1,1]",
    // groups, of channels that fill no stage
    "%x = input f32[2,24,9,33]  %w = param f32[24,20,3,3]  %z = conv_transpose(%x, %w) groups=2",
    // a norm and an activation of the layer before: beside the image there is nothing
    "%x = input f32[2,24,5,41]  %m = input f32[1,24,1,1]  %v = input f32[2,24,1,1]  %w = param f32[24,40,3,3]  %n = mul(%x, "
    "%v)  %a = add(%n, %m)  %s = sigmoid(%a)  %z = conv_transpose(%s, %w) padding=[1,1]",
    "%x = input f32[2,24,5,41]  %m = input f32[2,24,5,41]  %w = param f32[24,40,3,3]  %n = add(%x, %m)  %z = "
    "conv_transpose(%n, %w) padding=[1,1]",
    // a gate of every pixel, rows outside the image first, more threads than the patch has pixels left
    "%m = input f32[1,64,4,89]  %x = input f32[1,64,4,89]  %w = param f32[64,64,8,1]  %g = sigmoid(%x)  %n = mul(%m, %g)  "
    "%z = conv_transpose(%n, %w) stride=[4,1]",
    // infinities in neighbouring rows stay there
    "%x = input f32[2,8,9,33]  %q = div(1, %x)  %w = param f32[8,20,3,3]  %c = clamp(%q) lo=-2 hi=2  %z = conv_transpose(%c, %w)",
};

// Few blocks, so that every ring goes round.
// All passes, or those of them that are taken in a manner.
std::vector<HostCase> cases_of(Fp32Precision precision, const std::string& config, const char* dtype, size_t manner) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    uint64_t seed = 900;
    for (size_t i = 0; i < std::size(passes); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const Graph graph = graph_of(passes[i], dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), false, true, target, precision, config));
    }
    return cases;
}

// Others: those of three dimensions and of one do not come so, nor, in 16 bits, those whose vectors of channels are not
// full.
void run(size_t manner, Fp32Precision precision, double tolerance, const std::string& config = "", const char* dtype = "f32",
         size_t others = 3) {
    const auto cases = cases_of(precision, config, dtype, manner);
    size_t lines = 0;
    for (const HostCase& one : cases) lines += kernels_with(one.assembly, "LOAD = LOAD_UNALIGNED_ROWS;");
    EXPECT_GE(lines + others, cases.size());
    if (tests::thorough()) {
        EXPECT_EQ(lines + others, cases.size());
    }
    check(cases, tolerance);
}

TEST(Lines, tf32) { run(0, Fp32Precision::tf32, 6e-3); }
TEST(Lines, strict) { run(1, Fp32Precision::strict, 2e-6); }
TEST(Lines, f16) { run(2, Fp32Precision::strict, 6e-3, "", "f16", 5); }
TEST(Lines, bf16) { run(3, Fp32Precision::strict, 4e-2, "", "bf16", 5); }
TEST(Lines, strips) { run(4, Fp32Precision::tf32, 6e-3, " strip"); }

}  // namespace
}  // namespace transfuse::cuda
