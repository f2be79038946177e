// Kernels for small images on the CPU: whole rows that come as one box, several images in a tile, and prologues that read
// something for every channel, every image or every pixel.
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const small_passes[] = {
    // a norm and relu before the convolution, several images a tile; padding stays zero though relu(b) is not
    "%x = input f32[5,12,4,8]  %w = param f32[12,70,4,4]  %m = input f32[1,12,1,1]  %k = input f32[1,12,1,1]  %b = input f32[1,12,1,1]  %d = sub(%x, %m)  %s = mul(%d, "
    "%k)  %a = add(%s, %b)  %r = relu(%a)  %z = conv_transpose(%r, %w) stride=[2,2] padding=[1,1]",
    // a scale for each image and channel, one image a tile and several; a last stage that is not full
    "%x = input f32[3,12,8,8]  %w = param f32[12,24,3,3]  %k = input f32[3,12,1,1]  %s = mul(%x, %k)  %r = exp(%s)  %z = conv_transpose(%r, %w) padding=[1,1]",
    "%x = input f32[7,20,2,8]  %w = param f32[20,8,3,3]  %k = input f32[7,20,1,1]  %s = mul(%x, %k)  %r = exp(%s)  %z = conv_transpose(%r, %w) padding=[1,1]",
    // something for each pixel, and for each channel; groups
    "%x = input f32[2,16,8,8]  %w = param f32[16,12,3,3]  %p = input f32[1,1,8,8]  %k = input f32[1,16,1,1]  %a = add(%x, %p)  %s = mul(%a, %k)  %z = conv_transpose(%s, %w) "
    "padding=[1,1] groups=2",
    // three dimensions
    "%x = input f32[2,8,3,4,8]  %w = param f32[8,24,3,3,3]  %k = input f32[2,8,1,1,1]  %s = mul(%x, %k)  %r = cos(%s)  %z = conv_transpose(%r, %w) padding=[1,1,1]",
    // statistics beside the result
    "%x = input f32[4,8,4,8]  %w = param f32[8,40,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %v = var(%y) dims=[0,2,3] correction=1 keepdim=1  %d = "
    "div(%y, %v)  %z = relu(%d)",
    // one pixel, on both axes or on one: an output's phase is its place
    "%x = input f32[9,12,1,1]  %w = param f32[12,70,4,4]  %b = param f32[70]  %y = conv_transpose(%x, %w, %b)  %m = mean(%y) dims=[0,2,3] keepdim=1  %d = sub(%y, %m)  %z = relu(%d)",
    "%x = input f32[3,8,1,8]  %w = param f32[8,24,5,3]  %z = conv_transpose(%x, %w) padding=[1,1] output_padding=[0,0]",
    // a pool whose windows are single outputs, several images a tile
    "%x = input f32[6,12,2,4]  %w = param f32[12,24,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %t = tanh(%y)  %k = full() dtype=f32 shape=[24,1,1,1,1] value=0.5  %z = "
    "lattice(%t, %k) out=[2,4]",
    // columns of the input that no output needs
    "%x = input f32[2,8,6,16]  %w = param f32[8,16,3,3]  %z = conv_transpose(%x, %w) padding=[2,5]",
};

void run(size_t manner, Fp32Precision precision, const char* dtype, double tolerance, int least) {
    std::vector<HostCase> cases;
    uint64_t seed = 4100;
    int flat = 0;
    Target target;
    target.multiprocessors = 2;
    for (size_t i = 0; i < std::size(small_passes); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const Graph graph = graph_of(small_passes[i], dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), false, true, target, precision));
        flat += kernels_with(cases.back().assembly, "FLAT = true");
    }
    if (tests::thorough()) {
        EXPECT_GE(flat, least);
    }
    check(cases, tolerance);
}

TEST(CudaSmallImages, Strict) { run(0, Fp32Precision::strict, "f32", 5e-6, 5); }
TEST(CudaSmallImages, Tf32) { run(1, Fp32Precision::tf32, "f32", 3e-3, 5); }
TEST(CudaSmallImages, Half) { run(2, Fp32Precision::strict, "f16", 6e-3, 5); }

}  // namespace
}  // namespace transfuse::cuda
