// Reductions along the rows of a tile (layer norm and softmax over the last axis, and whatever a chain has of them): on
// the kernels of sm_90a and on the portable ones, executed on the CPU against the float64 reference.
#include <span>

#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // a norm of rows that fill their lanes, with weights along the row, in three dimensions
    "%x = input f32[2,9,3,4,32]  %w = param f32[9,64,4,4,4]  %b = param f32[64]  %g = param f32[64]  %h = param "
    "f32[64]  "
    "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %n = layer_norm(%y, %g, %h) normalized_shape=[64] "
    " "
    "%z = gelu(%n)  return %z",
    // rows of an odd length, channels beyond a block, no phases
    "%x = input f32[2,24,5,19]  %w = param f32[24,70,3,3]  %y = conv_transpose(%x, %w)  %s = softmax(%y) dims=[3]  "
    "%t = mul(%s, 3)  return %t",
    // every reduction, stored beside a value that uses it
    "%x = input f32[1,12,4,9]  %w = param f32[12,33,3,3]  %y = conv_transpose(%x, %w) stride=[1,2] padding=[1,1]  "
    "%a = amax(%y) dims=[3] keepdim=1  %i = amin(%y) dims=[3] keepdim=1  %m = mean(%y) dims=[3] keepdim=1  %v = "
    "var(%y) "
    "dims=[3] keepdim=1  %l = logsumexp(%y) dims=[3] keepdim=1  %u = sum(%y) dims=[3] keepdim=1  %d = sub(%a, %i)  %e "
    "= "
    "add(%d, %m)  %f = mul(%e, %v)  %k = add(%f, %l)  %q = mul(%u, %k)  %z = sub(%y, %q)  return %z, %k",
    // few channels: phases side by side in the rows of a product; a norm whose mean is far from zero
    "%x = input f32[2,8,6,21]  %w = param f32[8,12,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
    "output_padding=[1,1]  %t = add(%y, 100)  %n = layer_norm(%t) normalized_shape=[42]  return %n",
    // outputs that no tap meets; a row of one pixel's phases; three phases
    "%x = input f32[2,16,5,11]  %w = param f32[16,40,2,2]  %b = param f32[40]  %y = conv_transpose(%x, %w, %b) "
    "stride=[3,3]  %s = softmax(%y) dims=[3]  return %s",
    // one axis, a tensor beside it and values per image
    "%x = input f32[3,20,30]  %w = param f32[20,48,4]  %r = input f32[3,48,60]  %c = input f32[3,48,1]  %y = "
    "conv_transpose(%x, %w) stride=[2] padding=[1]  %a = add(%y, %r)  %p = mul(%a, %c)  %n = layer_norm(%p) "
    "normalized_shape=[60]  %z = silu(%n)  return %z",
    // many rows of few pixels
    "%x = input f32[4,40,6,3]  %w = param f32[40,136,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %n = "
    "layer_norm(%y) normalized_shape=[3]  return %n",
    // nothing but the rows' own values: one number a channel, which lie together as if channels were last
    "%x = input f32[2,12,1,1,4]  %w = param f32[5,12,1,1,2]  %y = conv(%x, %w) dilation=[1,2,2]  %m = mean(%y) "
    "dims=[2,3,4] keepdim=1  return %m",
    "%x = input f32[2,24,5,9]  %w = param f32[24,40,3,3]  %b = param f32[40]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2]  %c = clamp(%y) lo=-0.7 hi=1.1  %m = mean(%c) dims=[3] keepdim=1  return %m",
    // a strided convolution
    "%x = input f32[2,16,9,64]  %w = param f32[48,16,3,3]  %y = conv(%x, %w) stride=[2,2] padding=[1,1]  %m = mean(%y) "
    "dims=[3] keepdim=1  %z = sub(%y, %m)  return %z",
};

void run(size_t manner, const Target& target, Fp32Precision precision, double tolerance,
         size_t most = std::size(passes), const char* dtype = "f32") {
    std::vector<HostCase> cases;
    uint64_t seed = 900;
    for (size_t i = 0; i < most; ++i) {
        ++seed;
        if (!tests::taken(i, manner, 2)) continue;
        std::string pass = passes[i];
        for (size_t at = 0; (at = pass.find("f32", at)) != std::string::npos; at += 3) pass.replace(at, 3, dtype);
        const Graph graph = graph_of(pass.c_str());
        // By slow memory even so little is not stored in between.
        cases.push_back(make(graph, random_leaves(graph, seed), false, true, target, precision, "", {}, 1e9));
        const Assembly& assembly = cases.back().assembly;
        int products = 0, loops = 0;
        for (const BoundLaunch& bound : assembly.launches) {
            products += bound.launch.source->entry == "transfuse_dense";
            loops += bound.launch.source->entry == "tf_loop";
        }
        EXPECT_TRUE(products == 1 && loops == 0) << pass;  // tiles hold the rows
    }
    check(cases, tolerance);
}

TEST(CudaRowReductions, Hopper) { run(0, {}, Fp32Precision::tf32, 6e-3); }
TEST(CudaRowReductions, HopperStrict) { run(1, {}, Fp32Precision::strict, 3e-5, 3); }
TEST(CudaRowReductions, HopperHalf) { run(0, {}, Fp32Precision::strict, 2e-2, 3, "f16"); }
TEST(CudaRowReductions, Portable) {
    Target target;
    target.portable_only = true;
    run(1, target, Fp32Precision::strict, 3e-5);
}

// What tiles do not hold is a product and a loop: channels last, and rows that are too long.
TEST(CudaRowReductions, Parts) {
    std::vector<HostCase> cases;
    for (const auto& [body, last] :
         {std::pair{
              "%x = input f32[2,24,6,20]  %w = param f32[24,40,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %n = "
              "layer_norm(%y) normalized_shape=[20]  %z = gelu(%n)  return %z",
              true},
          std::pair{
              "%x = input f32[1,24,4,252]  %w = param f32[24,40,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %n = "
              "layer_norm(%y) normalized_shape=[252]  %z = gelu(%n)  return %z",
              false}}) {
        const Graph graph = graph_of(body);
        cases.push_back(make(graph, random_leaves(graph, 77), last, true, {}, Fp32Precision::tf32));
        std::string entries;
        for (const BoundLaunch& bound : cases.back().assembly.launches) entries += bound.launch.source->entry + " ";
        EXPECT_NE(entries.find("transfuse_dense tf_loop"), std::string::npos) << entries;
    }
    check(cases, 6e-3);
}

}  // namespace
}  // namespace transfuse::cuda
