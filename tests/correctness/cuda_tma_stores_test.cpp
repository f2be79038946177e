// Results that leave in boxes: kernels of sm_90a whose product warps run the chain and ask for the copy, executed on the CPU
// against the float64 reference.
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // plain, borders everywhere, channels that end within a box
    "%x = input f16[2,16,9,21]  %w = param f16[16,40,3,5]  %z = conv_transpose(%x, %w)",
    // two blocks of channels and a part of the third; bias and a chain
    "%x = input f16[1,16,7,19]  %w = param f16[16,136,3,3]  %b = param f16[136]  %y = conv_transpose(%x, %w, %b) padding=[1,1]  %z = tanh(%y)",
    // phases: each a tensor of its own, in accumulators of their own
    "%x = input f16[2,24,7,9]  %w = param f16[24,64,4,3]  %p = param f16[64,1,1]  %q = input f16[2,64,1,1]  %y = conv_transpose(%x, %w) "
    "stride=[2,3] padding=[1,0] output_padding=[1,2]  %s = mul(%y, %p)  %z = add(%s, %q)",
    // tiles of many chunks
    "%x = input f16[1,64,20,37]  %w = param f16[64,64,4,4]  %b = param f16[64]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]  %z = relu(%y)",
    // phases side by side in the rows of an accumulator
    "%x = input f16[2,16,3,5,6]  %w = param f16[16,16,3,3,3]  %b = param f16[16]  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1] "
    "output_padding=[1,0,1]  %z = relu(%y)",
    "%x = input f16[1,16,11,13]  %w = param f16[16,32,3,3]  %y = conv_transpose(%x, %w) stride=[2,1] padding=[1,1]  %z = sigmoid(%y)",
    "%x = input f16[2,16,5,14]  %w = param f16[16,8,3,3]  %z = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,1]",
    // reductions over channels: within a warp, across the warps of a warpgroup
    "%x = input f16[2,16,5,14]  %w = param f16[16,16,3,3]  %b = param f16[16]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]  %z = softmax(%y) dims=[1]",
    "%x = input f16[2,16,4,5,6]  %w = param f16[16,56,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]  %s = softmax(%y) dims=[1]  %z = sigmoid(%s)",
    // a signal
    "%x = input f16[2,32,70]  %w = param f16[32,48,8]  %y = conv_transpose(%x, %w) stride=[4] padding=[2]  %z = leaky_relu(%y) negative_slope=0.1",
};

// Tensors that come in the boxes results leave in.
const char* const beside[] = {
    // borders everywhere, channels that end within a box; it stands on both sides of a product
    "%x = input f16[2,16,9,21]  %t = input f16[2,40,11,25]  %w = param f16[16,40,3,5]  %y = conv_transpose(%x, %w)  %z = add(%y, %t)",
    "%x = input f16[1,16,7,19]  %t = input f16[1,136,7,19]  %w = param f16[16,136,3,3]  %b = param f16[136]  %y = conv_transpose(%x, %w, %b) padding=[1,1]  %s = add(%t, %y)  %z = tanh(%s)",
    // phases, of odd sizes, and a tensor that is met twice
    "%x = input f16[3,72,7,9]  %t = input f16[3,64,15,29]  %w = param f16[72,64,4,3]  %y = conv_transpose(%x, %w) stride=[2,3] padding=[1,0] output_padding=[1,2]  %s = add(%y, %t)  %z = mul(%s, %t)",
    "%x = input f16[2,64,10,17]  %t = input f16[2,64,20,34]  %w = param f16[64,64,2,2]  %b = param f16[64]  %y = conv_transpose(%x, %w, %b) stride=[2,2]  %s = add(%y, %t)  %z = relu(%s)",
    // phases side by side in the rows of an accumulator
    "%x = input f16[2,48,3,5,6]  %t = input f16[2,16,6,9,12]  %w = param f16[48,16,3,3,3]  %b = param f16[16]  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1] "
    "output_padding=[1,0,1]  %s = add(%y, %t)  %z = relu(%s)",
    "%x = input f16[2,64,5,14]  %t = input f16[2,8,10,28]  %w = param f16[64,8,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,1]  %z = sub(%t, %y)",
    // two and three of them, values of channels beside; one is of the other 16 bits, or another word
    "%x = input f16[2,136,9,11]  %t = input f16[2,72,18,22]  %u = input f16[2,72,18,22]  %w = param f16[136,72,2,2]  %p = param f16[72,1,1]  %y = conv_transpose(%x, %w) stride=[2,2]  %s = add(%y, %t)  %q = mul(%s, %p)  %z = add(%q, %u)",
    "%x = input f16[2,16,7,30]  %t = input f16[2,48,7,30]  %u = input f16[2,48,7,30]  %v = input f16[2,48,7,30]  %w = param f16[48,16,3,3]  %y = conv(%x, %w) padding=[1,1]  %s = add(%y, %t)  %r = mul(%s, %u)  %z = maximum(%r, %v)",
    // a signal
    "%x = input f16[2,32,70]  %t = input f16[2,48,280]  %w = param f16[32,48,8]  %y = conv_transpose(%x, %w) stride=[4] padding=[2]  %s = add(%y, %t)  %z = leaky_relu(%s) negative_slope=0.1",
    // behind another convolution, whose result lies in planes
    "%x = input f16[2,32,6,16]  %t = input f16[2,48,12,32]  %v = param f16[64,32,3,3]  %w = param f16[64,48,4,4]  %y = conv(%x, %v) padding=[1,1]  %r = relu(%y)  "
    "%u = conv_transpose(%r, %w) stride=[2,2] padding=[1,1]  %z = add(%u, %t)",
    // a sum over channels follows
    "%x = input f16[2,16,5,14]  %t = input f16[2,16,9,27]  %w = param f16[16,16,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %s = add(%y, %t)  %z = softmax(%s) dims=[1]",
};

template <size_t N>
void run(size_t manner, const char* const (&passes)[N], int words, const char* dtype, double tolerance, Fp32Precision precision = Fp32Precision::strict, const char* text = "store_box(operands") {
    std::vector<HostCase> cases;
    uint64_t seed = 3100;
    int leaving = 0;
    Target target;
    target.multiprocessors = 3;   // few blocks: every slot is used again
    for (size_t i = 0; i < N; ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const char* const body = passes[i];
        const Graph graph = graph_of(with(body, "f16", dtype));
        cases.push_back(make(graph, random_leaves(graph, seed), true, true, target, precision));
        int by_tma = 0;
        by_tma += kernels_with(cases.back().assembly, text);
        leaving += by_tma;
        EXPECT_TRUE(by_tma == 1 || graph[graph.outputs()[0]].type.dtype == DType::f32) << body;
    }
    if (tests::thorough()) {
        EXPECT_EQ(leaving, std::string(dtype) == "f32" ? words : static_cast<int>(N));   // words: other products are strict, other results are reduced
    }
    check(cases, tolerance);
}

TEST(CudaTmaStores, Half) { run(0, passes, 7, "f16", 2e-3); }
TEST(CudaTmaStores, Bfloat) { run(1, passes, 7, "bf16", 1.6e-2); }
TEST(CudaTmaStores, Tf32) { run(2, passes, 7, "f32", 5e-3, Fp32Precision::tf32); }

constexpr const char* coming = "copy_box(boxes + (";
TEST(CudaTmaStores, HalfBeside) { run(0, beside, 9, "f16", 2e-3, Fp32Precision::strict, coming); }
TEST(CudaTmaStores, BfloatBeside) { run(1, beside, 9, "bf16", 1.6e-2, Fp32Precision::strict, coming); }
TEST(CudaTmaStores, Tf32Beside) { run(2, beside, 9, "f32", 5e-3, Fp32Precision::tf32, coming); }

// Patches so large that few of them fit shared memory: rings of two and three stages, with results that are stored and
// with sums that are kept.
TEST(CudaTmaStores, FewStages) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 2;
    target.shared_bytes = 80 << 10;
    uint64_t seed = 5200;
    for (const char* body :
         {"%x = input f16[1,64,3,6,12]  %w = param f16[64,72,3,3,3]  %z = conv_transpose(%x, %w)",
          "%x = input f16[1,64,3,6,12]  %w = param f16[64,72,3,3,3]  %g = param f16[72]  %h = param f16[72]  %y = "
          "conv_transpose(%x, %w)  %n = batch_norm(%y, %g, %h) training=1  %z = mean(%n) dims=[2,3,4]"})
        for (const char* stages : {" stages 2 ", " stages 3 "}) {
            const Graph graph = graph_of(body);
            cases.push_back(make(graph, random_leaves(graph, ++seed), true, true, target, Fp32Precision::strict, stages));
            EXPECT_EQ(kernels_noted(cases.back().assembly, stages), 1) << body;
        }
    check(cases, 4e-3);
}

// Other layouts, outputs that boxes cannot meet, and chains that need more than their own channel go through the store role.
TEST(CudaTmaStores, NotEverything) {
    for (const auto& [body, last] : std::initializer_list<std::pair<const char*, bool>>{
             {"%x = input f16[2,16,9,21]  %w = param f16[16,40,3,5]  %z = conv_transpose(%x, %w)", false},
             {"%x = input f16[2,16,9,21]  %w = param f16[16,42,3,5]  %z = conv_transpose(%x, %w)", true},
             {"%x = input f16[2,16,9,21]  %w = param f16[16,72,3,3]  %y = conv_transpose(%x, %w)  %z = softmax(%y) dims=[1]", true},
             {"%x = input f32[2,16,9,21]  %w = param f32[16,40,3,5]  %z = conv_transpose(%x, %w)", true},
             {"%x = input f16[2,16,9,21]  %w = param f16[16,24,3,3]  %z = conv_transpose(%x, %w) stride=[2,2] dilation=[2,2]", true}}) {
        const Graph graph = graph_of(body);
        for (const BoundLaunch& bound : make(graph, random_leaves(graph, 5), last, true, Target{}).assembly.launches)
            EXPECT_EQ(bound.launch.source->text.find("store_box(operands"), std::string::npos) << body;
    }
}

}  // namespace
}  // namespace transfuse::cuda
