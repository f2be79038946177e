// The kernels of sm_90a executed on the CPU (wgmma, bulk copies and mbarriers of tests/cuda_host/machine.h) against the float64
// reference: chains in the store role, and reductions on the accumulators themselves.
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

struct Pass {
    const char* text;
    bool fragments;   // no store role
};

// Odd sizes: every load mode but those that need alignment, borders everywhere.
const Pass passes[] = {
    // statistics, few channels: phases alternate within a warp's rows
    {"%x = input f32[2,5,3,5,7]  %w = param f32[5,16,3,3,3]  %b = param f32[16]  %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2,2] padding=[1,1,1]  %t = tanh(%y)  %q = square(%t)  %s = mean(%q) dims=[0,2,3,4]  %z = mean(%t) dims=[0,2,3,4]", true},
    {"%x = input f32[2,6,9,5]  %w = param f32[6,7,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
     "output_padding=[1,0]  %t = tanh(%y)  %s = amin(%t) dims=[2,3]  %z = sum(%t) dims=[2,3] keepdim=1", true},
    // two blocks of channels, and groups of them: a thread's channels change from tile to tile
    {"%x = input f32[2,6,7,9]  %w = param f32[6,140,2,3]  %b = param f32[140]  %y = conv_transpose(%x, %w, %b)  %t = tanh(%y)"
     "  %s = amax(%t) dims=[0,2,3]  %z = mean(%t) dims=[0,2,3]", true},
    {"%x = input f32[2,8,9,7]  %w = param f32[8,20,3,3]  %y = conv_transpose(%x, %w) stride=[2,1] padding=[1,1] "
     "output_padding=[1,0] groups=2  %t = tanh(%y)  %s = var(%t) dims=[0,2,3] correction=1  %z = mean(%t) dims=[2,3]", true},
    // variances, and an operand for each image and channel
    {"%x = input f32[2,5,17,19]  %m = input f32[2,48,1,1]  %w = param f32[5,48,3,3]  %y = conv_transpose(%x, %w) "
     "padding=[1,1]  %d = sub(%y, %m)  %t = tanh(%d)  %s = var(%t) dims=[2,3] correction=0  %z = sum(%d) dims=[0,2,3]", true},
    {"%x = input f32[3,9,23]  %w = param f32[9,33,8]  %y = conv_transpose(%x, %w) stride=[4] padding=[2]  %t = gelu(%y)  %s = "
     "var(%t) dims=[0,2] correction=0  %z = amax(%t) dims=[2]", true},
    // sums of exponentials, of values far from zero as well, of images and of the batch
    {"%x = input f32[2,5,9,13]  %w = param f32[5,40,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %t = mul(%y, "
     "90)  %s = logsumexp(%t) dims=[2,3]  %z = logsumexp(%y) dims=[0,2,3]", true},
    // pools: over columns, rows, phases in accumulators, rows and lanes
    {"%x = input f32[2,5,7,11]  %w = param f32[5,40,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %t = tanh(%y)  %p = "
     "max_pool(%t) kernel=[2,2] stride=[2,2]  %s = sum(%p) dims=[2,3]  %z = amin(%p) dims=[2,3]", true},
    {"%x = input f32[2,5,4,5,9]  %w = param f32[5,16,3,3,3]  %b = param f32[16]  %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2,2] padding=[1,1,1]  %t = tanh(%y)  %p = max_pool(%t) kernel=[2,2,4] stride=[2,2,4]  %s = sum(%p) dims=[2,3,4]  %z = amax(%p) "
     "dims=[2,3,4]", true},
    {"%x = input f32[2,6,9,10]  %w = param f32[6,24,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %t = "
     "tanh(%y)  %p = avg_pool(%t) kernel=[4,2] stride=[4,2]  %c = clamp(%p) lo=-0.2 hi=0.3  %s = sum(%c) dims=[2,3]  %z = mean(%c) dims=[2,3]", true},
    // the store role: softmax within a warp and across warps, a norm, a pool with stores, sums beside them
    {"%x = input f32[2,5,6,7]  %w = param f32[5,33,2,2]  %y = conv_transpose(%x, %w) stride=[2,2]  %s = softmax(%y) dims=[1]  "
     "%z = logsumexp(%y) dims=[1] keepdim=1", false},
    {"%x = input f32[2,5,6,9]  %w = param f32[5,70,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
     "output_padding=[1,1]  %s = softmax(%y) dims=[1]  %z = amin(%y) dims=[1] keepdim=1", false},
    {"%x = input f32[2,5,17,16]  %w = param f32[5,36,3,3]  %m = input f32[2,36,1,1]  %y = conv_transpose(%x, %w) padding=[1,1]  %d = "
     "mul(%y, %m)  %s = sum(%d) dims=[2,3]  %z = gelu(%d)", false},
};

void run(size_t manner, Fp32Precision precision, const char* dtype, bool last, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 7000;
    for (size_t i = 0; i < std::size(passes); ++i) {
        const Pass& pass = passes[i];
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const Graph graph = graph_of(std::string(pass.text) + "  return %s, %z", dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), last, false, Target{}, precision));
        EXPECT_GE(kernels_with(cases.back().assembly, "#else\n    multiply_group"), 1) << print(graph);
        EXPECT_EQ(kernels_with(cases.back().assembly, "FRAGMENTS = true") > 0, pass.fragments) << print(graph);
    }
    check(cases, tolerance);
}

// Rows on 16 bytes: the load role meets memory in boxes. Few blocks, so that every ring goes round.
const char* const boxed_passes[] = {
    // two blocks of channels, a last stage that is not full
    "%x = input f32[2,12,9,24]  %w = param f32[12,70,3,5]  %z = conv_transpose(%x, %w)",
    // phases, bias, a chain
    "%x = input f32[3,8,7,16]  %w = param f32[8,24,3,3]  %b = param f32[24]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1] output_padding=[1,1]  %z = tanh(%y)",
    // a prologue that is not zero at zero: padding stays zero; of an image and channel, too
    "%x = input f32[2,24,18,20]  %q = input f32[2,24,1,1]  %w = param f32[24,40,3,3]  %m = mul(%x, %q)  %r = exp(%m)  %z = conv_transpose(%r, %w) padding=[1,1]",
    // rows of an odd length inside longer ones: of two 16-bit pixels one lies beside the image
    "%x = input f32[2,24,18,24]  %w = param f32[24,40,3,3]  %s = slice(%x) axis=3 start=0 end=23  %r = exp(%s)  %z = conv_transpose(%r, %w) padding=[1,1]",
    // groups whose channels do not fill a stage
    "%x = input f32[2,32,5,8]  %w = param f32[32,5,3,5]  %z = conv_transpose(%x, %w) stride=[2,3] padding=[1,2] dilation=[2,1] groups=4",
    // one dimension, many stages
    "%x = input f32[2,48,88]  %w = param f32[48,16,3]  %z = conv_transpose(%x, %w)",
    // odd rows, stored one by one, a chain that reads values of channels and of images; rows of two blocks of channels
    "%x = input f32[2,8,3,6,16]  %w = param f32[8,24,3,3,3]  %b = param f32[24]  %m = param f32[24,1,1,1]  %n = input f32[2,24,1,1,1]  "
    "%y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]  %c = sub(%y, %m)  %d = sub(%c, %n)  %z = mul(%d, %m)",
    "%x = input f32[2,12,7,40]  %w = param f32[12,70,3,3]  %z = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]",
    // few channels, three dimensions
    "%x = input f32[2,3,4,6,16]  %w = param f32[3,8,3,3,3]  %z = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]",
    // two results stored side by side in a third, the second behind an odd number of channels
    "%x = input f32[2,8,5,16]  %v = param f32[8,13,4,4]  %w = param f32[8,24,2,2]  %p = conv_transpose(%x, %v) stride=[2,2] padding=[1,1]  "
    "%q = conv_transpose(%x, %w) stride=[2,2]  %a = tanh(%p)  %z = concat(%a, %q) axis=1",
};

void run_boxed(size_t manner, Fp32Precision precision, const char* dtype, bool last, double tolerance, int least) {
    std::vector<HostCase> cases;
    uint64_t seed = 9000;
    int boxed = 0, prologues = 0;
    Target target;
    target.multiprocessors = 2;
    for (size_t i = 0; i < std::size(boxed_passes); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const Graph graph = graph_of(boxed_passes[i], dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), last, true, target, precision));
        for (const BoundLaunch& bound : cases.back().assembly.launches) {
            boxed += bound.launch.source->text.find("load_boxes(shared") != std::string::npos;
            prologues += bound.launch.source->text.find("PROLOGUE = true") != std::string::npos;
        }
    }
    if (tests::thorough()) {
        EXPECT_GE(boxed, least);
        EXPECT_GE(prologues, 1);
    }
    check(cases, tolerance);
}

// Strides: neighbours in memory go to the sub-patches of their residues. In each axis, in one, of three; a prologue; borders.
const char* const strided_passes[] = {
    "%x = input f32[2,40,17,32]  %w = param f32[48,40,3,3]  %z = conv(%x, %w) stride=[2,2] padding=[1,1]",
    "%x = input f32[2,12,9,64]  %w = param f32[70,12,3,5]  %z = conv(%x, %w) stride=[1,3] padding=[1,2]",
    "%x = input f32[2,8,6,11,16]  %w = param f32[24,8,3,4,2]  %b = param f32[24]  %y = conv(%x, %w, %b) stride=[2,3,2] "
    "padding=[1,1,0]  %z = tanh(%y)",
    "%x = input f32[2,24,18,24]  %q = input f32[2,24,1,1]  %w = param f32[40,24,4,4]  %m = mul(%x, %q)  %r = exp(%m)  %z = "
    "conv(%r, %w) stride=[2,2] padding=[1,1]",
    "%x = input f32[2,48,88]  %w = param f32[16,48,4]  %z = conv(%x, %w) stride=[2]",
    "%x = input f32[2,64,12,16]  %w = param f32[48,32,3,3]  %z = conv(%x, %w) stride=[2,1] padding=[2,1] dilation=[2,1] groups=2",
};
void run_strided(size_t manner, Fp32Precision precision, const char* dtype, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 9700;
    Target target;
    target.multiprocessors = 2;
    for (size_t i = 0; i < std::size(strided_passes); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const char* const body = strided_passes[i];
        const Graph graph = graph_of(body, dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), false, true, target, precision));
        int boxed = 0;
        boxed += kernels_with(cases.back().assembly, "load_boxes(shared");
        EXPECT_EQ(boxed, 1) << body;
    }
    check(cases, tolerance);
}
TEST(CudaHopper, StridedBoxesStrict) { run_strided(0, Fp32Precision::strict, "f32", 5e-6); }
TEST(CudaHopper, StridedBoxesTf32) { run_strided(1, Fp32Precision::tf32, "f32", 5e-3); }
TEST(CudaHopper, StridedBoxesHalf) { run_strided(2, Fp32Precision::strict, "f16", 6e-3); }

// Few pixels and many taps: whole rows of taps lie outside the image for a tile and are left out; one tile takes a whole row, and
// rows share their padding.
const char* const padded_passes[] = {
    "%x = input f32[1,8,2,4,12]  %w = param f32[8,70,4,4,5]  %z = conv_transpose(%x, %w)",
    "%x = input f32[2,12,2,3,8]  %w = param f32[12,20,3,5,3]  %y = conv_transpose(%x, %w)  %t = tanh(%y)  %z = sum(%t) dims=[2,3,4]",
    // phases, of which some have fewer taps; the odd rows of the second come by copies
    "%x = input f32[1,8,2,3,8]  %w = param f32[8,12,7,5,3]  %z = conv_transpose(%x, %w) stride=[2,2,1]",
    "%x = input f32[1,9,3,4,7]  %w = param f32[9,40,4,4,5]  %b = param f32[40]  %z = conv_transpose(%x, %w, %b)",
    // taps so far apart that a tile meets no pixel of the image
    "%x = input f32[1,8,4,8]  %w = param f32[8,12,3,3]  %p = conv_transpose(%x, %w) dilation=[9,1]  %z = tanh(%p)",
};

void run_padded(size_t manner, Fp32Precision precision, const char* dtype, bool last, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 9500;
    int skipping = 0, sharing = 0;
    Target target;
    target.multiprocessors = 2;
    for (size_t i = 0; i < std::size(padded_passes); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        const Graph graph = graph_of(padded_passes[i], dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), last, true, target, precision));
        for (const BoundLaunch& bound : cases.back().assembly.launches) {
            skipping += bound.launch.source->text.find("SKIPS = true") != std::string::npos;
            sharing += bound.launch.source->text.find("shared padding") != std::string::npos;
        }
    }
    if (tests::thorough()) {
        EXPECT_GE(skipping, 2);
        EXPECT_GE(sharing, 2);
    }
    check(cases, tolerance);
}

TEST(CudaHopper, PaddedStrict) { run_padded(0, Fp32Precision::strict, "f32", false, 5e-6); }
TEST(CudaHopper, PaddedTf32) { run_padded(1, Fp32Precision::tf32, "f32", false, 3e-3); }
TEST(CudaHopper, PaddedHalfChannelsLast) { run_padded(2, Fp32Precision::strict, "f16", true, 6e-3); }

// A reduction over channels is formed by the product warps; what follows it is the store role's.
const char* const folded_passes[] = {
    "%x = input f32[2,6,5,12]  %w = param f32[6,70,3,3]  %b = param f32[70]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] "
    "output_padding=[1,1]  %m = amin(%y) dims=[1] keepdim=1  %s = sum(%m) dims=[2] keepdim=1  %z = gelu(%s)",
    "%x = input f32[2,8,6,9]  %w = param f32[8,40,3,2]  %y = conv_transpose(%x, %w)  %t = tanh(%y)  %l = logsumexp(%t) dims=[1] keepdim=1  %z = mul(%l, 2)",
    "%x = input f32[3,8,5,8]  %w = param f32[8,128,3,3]  %b = param f32[128]  %y = conv_transpose(%x, %w, %b) padding=[1,1]  %t = sigmoid(%y)  %m = mean(%t) "
    "dims=[1] keepdim=1  %z = sum(%m) dims=[2,3]",
    "%x = input f32[2,5,140]  %k = input f32[2,66,1]  %w = param f32[5,66,4]  %y = conv_transpose(%x, %w) stride=[2] padding=[1]  %d = mul(%y, %k)  %z = amax(%d) dims=[1] keepdim=1",
};

void run_folded(size_t manner, Fp32Precision precision, const char* dtype, bool last, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 9900;
    int folded = 0;
    Target target;
    target.multiprocessors = 3;
    for (size_t i = 0; i < std::size(folded_passes); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 2)) continue;
        const Graph graph = graph_of(folded_passes[i], dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), last, true, target, precision));
        folded += kernels_with(cases.back().assembly, "FOLDED = true");
    }
    EXPECT_EQ(folded, static_cast<int>(cases.size()));
    check(cases, tolerance);
}

TEST(CudaHopper, FoldedStrict) { run_folded(0, Fp32Precision::strict, "f32", false, 5e-6); }
TEST(CudaHopper, FoldedTf32) { run_folded(1, Fp32Precision::tf32, "f32", false, 3e-3); }
TEST(CudaHopper, FoldedHalfChannelsLast) { run_folded(2, Fp32Precision::strict, "f16", true, 6e-3); }

// Many phases along a row: tiles of some of them, whose outputs lie apart.
void run_apart(const char* dtype, Fp32Precision precision, bool last, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 9700;
    Target target;
    target.multiprocessors = 2;
    for (const char* body : {"%x = input f32[2,16,24]  %w = param f32[16,70,16]  %b = param f32[70]  %r = leaky_relu(%x)  %y = conv_transpose(%r, %w, %b) stride=[8] padding=[4]  %z = tanh(%y)",
                             "%x = input f32[1,8,5,12]  %w = param f32[8,66,3,5]  %z = conv_transpose(%x, %w) stride=[2,4] padding=[1,0]"})
        for (const char* phases : {"w_phases 2", "w_phases 4", "w_phases 1"}) {
            const Graph graph = graph_of(body, dtype);
            HostCase c = make(graph, random_leaves(graph, ++seed), last, true, target, precision, phases);
            int taken = 0;
            taken += kernels_with(c.assembly, phases);
            if (taken) cases.push_back(std::move(c));
        }
    EXPECT_GE(cases.size(), 3u);
    check(cases, tolerance);
}

TEST(CudaHopper, PhasesApartTf32) { run_apart("f32", Fp32Precision::tf32, false, 3e-3); }
TEST(CudaHopper, PhasesApartHalfChannelsLast) { run_apart("f16", Fp32Precision::strict, true, 6e-3); }

TEST(CudaHopper, BoxesStrict) { run_boxed(0, Fp32Precision::strict, "f32", false, 5e-6, 5); }
TEST(CudaHopper, BoxesTf32) { run_boxed(1, Fp32Precision::tf32, "f32", false, 3e-3, 5); }
TEST(CudaHopper, BoxesHalf) { run_boxed(2, Fp32Precision::strict, "f16", false, 6e-3, 5); }
TEST(CudaHopper, BoxesTf32ChannelsLast) { run_boxed(3, Fp32Precision::tf32, "f32", true, 3e-3, 1); }
TEST(CudaHopper, BoxesHalfChannelsLast) { run_boxed(4, Fp32Precision::strict, "f16", true, 6e-3, 1); }

// So many taps that slabs of weights share their text: several accumulators and phases, slabs outside the image left out.
TEST(CudaHopper, SlabsAlike) {
    const Graph graph = parse("graph g {\n  %x = input f32[1,20,4,5,7]\n  %w = param f32[20,36,5,5,5]\n  %b = param f32[36]\n  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[2,2,2]\n  return %y\n}\n");
    const std::vector<HostCase> cases{make(graph, random_leaves(graph, 77), false, true, Target{})};
    EXPECT_NE(cases[0].assembly.launches.back().launch.source->text.find("const int* window = windows + "), std::string::npos);
    check(cases, 5e-6);
}

// So many phases that those of a row whose products are alike share their text.
TEST(CudaHopper, VariantsAlike) {
    const Graph graph = parse("graph g {\n  %x = input f32[2,12,3,5]\n  %w = param f32[12,20,32,32]\n  %b = param f32[20]\n  %y = conv_transpose(%x, %w, %b) stride=[16,16] padding=[8,8]\n  return %y\n}\n");
    Target target;
    target.multiprocessors = 2;
    const std::vector<HostCase> cases{make(graph, random_leaves(graph, 78), false, true, target)};
    const std::string& text = cases[0].assembly.launches.back().launch.source->text;
    EXPECT_NE(text.find("if (rolled_as[at.variant] == 0) {"), std::string::npos);
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 2000);
    check(cases, 5e-6);
}

TEST(CudaHopper, Strict) { run(0, Fp32Precision::strict, "f32", false, 5e-6); }
TEST(CudaHopper, Tf32ChannelsLast) { run(1, Fp32Precision::tf32, "f32", true, 3e-3); }
TEST(CudaHopper, Half) { run(2, Fp32Precision::strict, "f16", false, 6e-3); }

}  // namespace
}  // namespace transfuse::cuda
