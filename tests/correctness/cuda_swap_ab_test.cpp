// Swap-AB products, whose rows are pixels and whose columns are all channels, executed on the CPU against the float64
// reference: chains that reduce over channels, rows that begin anywhere in memory, windows that go on from row to row.
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // rows of an odd length, of two phases; windows across their ends; more weights than the ring holds
    "%x = input f32[1,64,6,64]  %w = param f32[64,128,4,4]  %b = param f32[128]  %t = param f32[128,1,1]  %y = "
    "conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]  %s = softmax(%y) dims=[1]  %a = add(%s, %t)  "
    "%m = mul(%a, 2)  %z = sigmoid(%m)",
    // channels that fill no vector and no part, several images, both phases of the height in a tile
    "%x = input f32[3,12,3,72]  %w = param f32[12,61,3,3]  %b = param f32[61]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1] output_padding=[1,0]  %z = softmax(%y) dims=[1]",
    // no phases; in 16 bits two taps in the halves of K
    "%x = input f32[2,8,5,75]  %w = param f32[8,100,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %z = log_softmax(%y) "
    "dims=[1]",
    // a wide image: windows are parts of a row
    "%x = input f32[1,16,3,260]  %w = param f32[16,72,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %z = softmax(%y) "
    "dims=[1]",
    // one axis, four phases; three axes
    "%x = input f32[2,16,200]  %w = param f32[16,40,8]  %y = conv_transpose(%x, %w) stride=[4] padding=[2]  %z = softmax(%y) "
    "dims=[1]",
    "%x = input f32[1,8,3,3,64]  %w = param f32[8,80,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,1,1] padding=[1,1,1]  %z = "
    "softmax(%y) dims=[1]",
    // narrow images: a window has pieces of many rows, of whole vectors and of others; shares, scaled and shifted
    "%x = input f32[2,16,9,16]  %w = param f32[16,128,4,4]  %t = param f32[128,1,1]  %y = conv_transpose(%x, %w) stride=[2,2] "
    "padding=[1,1]  %s = softmax(%y) dims=[1]  %d = sub(%t, %s)  %q = div(%d, 3)  %a = add(%q, 0.5)  %z = neg(%a)",
    "%x = input f32[2,16,9,12]  %w = param f32[16,72,3,3]  %t = param f32[72,1,1]  %u = param f32[72,1,1]  %y = "
    "conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,0]  %s = softmax(%y) dims=[1]  %d = sub(%s, %t)  %m = "
    "mul(%d, -4)  %n = add(%m, %u)  %a = sub(%n, %t)  %g = sigmoid(%a)  %z = mul(%g, %t)",
    // so many channels that a tile has one phase
    "%x = input f32[1,24,3,40]  %w = param f32[24,200,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %z = "
    "softmax(%y) dims=[1]",
    // other reductions: the largest channel, moments
    "%x = input f32[2,48,3,80]  %w = param f32[48,96,2,2]  %y = conv_transpose(%x, %w) stride=[2,2]  %m = amax(%y) dims=[1] "
    "keepdim=1  %z = sub(%y, %m)",
    "%x = input f32[2,16,4,65]  %w = param f32[16,256,3,3]  %g = param f32[256,1,1]  %y = conv_transpose(%x, %w) "
    "padding=[1,1]  %q = square(%y)  %m = mean(%q) dims=[1] keepdim=1  %e = add(%m, 0.01)  %r = rsqrt(%e)  %n = mul(%y, %r)  "
    "%z = mul(%n, %g)",
};

// Few blocks, so that every ring goes round.
void run(size_t manner, const char* dtype, double tolerance, bool last = false) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 3;
    uint64_t seed = 17;
    for (size_t i = 0; i < std::size(passes); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const std::string text = with(with(passes[i], "f32", dtype), "  %", "\n  %");
        const Graph graph = parse("graph g {\n  " + text + "\n  return %z\n}\n");
        cases.push_back(make(graph, random_leaves(graph, seed), last, true, target, Fp32Precision::tf32, " swap_ab"));
        size_t taken = 0;
        for (const BoundLaunch& bound : cases.back().assembly.launches)
            taken += bound.launch.note.find(" swap_ab") != std::string::npos;
        EXPECT_EQ(taken, 1u) << text;
    }
    check(cases, tolerance);
}

TEST(SwapAb, tf32) { run(0, "f32", 6e-3); }
TEST(SwapAb, f16) { run(1, "f16", 6e-3); }
TEST(SwapAb, bf16) { run(2, "bf16", 4e-2); }
TEST(SwapAb, tf32_channels_last) { run(3, "f32", 6e-3, true); }
TEST(SwapAb, f16_channels_last) { run(4, "f16", 6e-3, true); }

}  // namespace
}  // namespace transfuse::cuda
