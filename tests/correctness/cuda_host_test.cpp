// The general CUDA kernels, generated for random graphs and executed on the CPU, against the float64 reference.
#include <gtest/gtest.h>

#include <random>
#include <span>

#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

Target general() {
    Target target;
    target.general_only = true;
    return target;
}

void random_cases(uint64_t first, uint64_t count, DType dtype, double tolerance, bool last, bool aligned) {
    std::vector<HostCase> cases;
    if (!tests::thorough()) count = (count + 1) / 2;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        RandomGraphOptions options;
        options.dtype = dtype;
        const Graph graph = random_graph(seed, options);
        cases.push_back(make(graph, random_leaves(graph, seed), last, aligned, general()));
    }
    check(cases, tolerance);
}

TEST(CudaHost, RandomGraphsFloat64) { random_cases(1, 40, DType::f64, 1e-9, false, true); }
TEST(CudaHost, RandomGraphsFloat32) { random_cases(101, 40, DType::f32, 2e-5, false, true); }
TEST(CudaHost, RandomGraphsChannelsLast) { random_cases(201, 25, DType::f32, 2e-5, true, true); }
TEST(CudaHost, RandomGraphsUnaligned) { random_cases(301, 15, DType::f64, 1e-9, false, false); }
TEST(CudaHost, RandomGraphsHalf) { random_cases(401, 20, DType::f16, 3e-2, false, true); }

// Collapsed chains large enough for the moments kernel: cut borders, steps, several axes, partial reductions, every
// layout.
const char* const collapsed[] = {
    "%x = input f32[2,3,24,32]  %w = param f32[3,4,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] "
    "output_padding=[1,1]  %m = mean(%y) dims=[2,3] keepdim=1",
    "%x = input f32[2,3,33,35]  %w = param f32[3,4,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %m = mean(%y) "
    "dims=[2,3]",
    "%x = input f32[2,4,64,64]  %w = param f32[4,5,3,3]  %b = param f32[5]  %y = conv_transpose(%x, %w, %b)  %m = "
    "mean(%y) dims=[2,3] keepdim=1  %l = logsumexp(%m) dims=[1] keepdim=1  %s = mul(%l, 10)",
    "%x = input f32[2,3,6,12,16]  %w = param f32[3,4,3,3,3]  %y = conv_transpose(%x, %w) stride=[1,2,1] "
    "padding=[1,1,1]  %m = mean(%y) dims=[2,3,4] keepdim=1",
    "%x = input f32[1,2,32,12,16]  %w = param f32[2,4,3,3,3]  %y = conv_transpose(%x, %w) padding=[1,1,1]  %m = "
    "mean(%y) dims=[2] keepdim=1",
    "%x = input f32[1,2,24,14,16]  %w = param f32[2,4,3,3,3]  %y = conv_transpose(%x, %w) padding=[1,1,1]  %m = "
    "sum(%y) dims=[2,4] keepdim=1",
    "%x = input f32[2,3,40,44]  %w = param f32[4,3,3,3]  %y = conv(%x, %w) stride=[2,3] padding=[1,0]  %m = mean(%y) "
    "dims=[2,3]",
    "%x = input f32[2,3,2048]  %w = param f32[3,4,5]  %y = conv_transpose(%x, %w) stride=[3] padding=[2]  %m = "
    "mean(%y) dims=[2]",
    "%x = input f32[2,3,40,32]  %w = param f32[3,4,3,3]  %r = relu(%x)  %y = conv_transpose(%r, %w) padding=[1,1]  %m "
    "= mean(%y) dims=[2,3]",
    "%x = input f32[2,8,40,32]  %w = param f32[8,4,5,5]  %y = conv_transpose(%x, %w) padding=[2,2]  %t = tanh(%y)  %m "
    "= mean(%y) dims=[2,3]  %k = sum(%t) dims=[0,2,3]  %v = var(%t) dims=[2,3]  %e = amax(%t) dims=[3]",
    "%x = input f32[2,2,96,100]  %v = var(%x) dims=[0,2,3] keepdim=1  %m = mean(%x) dims=[0,2,3]  %mm = reshape(%m) "
    "shape=[1,2,1,1]  %c = sub(%x, %mm)  %e = add(%v, 0.001)  %r = rsqrt(%e)  %y = mul(%c, %r)",
    "%x = input f32[3,2,80,100]  %l = logsumexp(%x) dims=[0,1,2,3]  %a = amax(%x) dims=[0,2,3] keepdim=1  %s = sub(%x, "
    "%a)  %z = sub(%s, %l)  %q = mean(%z) dims=[1,2,3]",
};

void collapsed_cases(size_t manner, const std::string& dtype, double tolerance, bool last, bool aligned,
                     bool needs_moments) {
    std::vector<HostCase> cases;
    int moments = 0;
    uint64_t seed = 7000;
    for (size_t i = 0; i < std::size(collapsed); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 3)) continue;
        std::string text = with(with(collapsed[i], "f32", dtype), "  %", "\n  %"),
                    name = text.substr(text.rfind("\n  %") + 3);
        name = name.substr(0, name.find(' '));
        std::string outputs = name;
        if (text.find("%k = ") != std::string::npos) outputs = "%m, %k, %v, %e";
        const Graph graph = parse("graph g {\n  " + text + "\n  return " + outputs + "\n}\n");
        cases.push_back(make(graph, random_leaves(graph, seed), last, aligned, general()));
        for (const BoundLaunch& bound : cases.back().assembly.launches)
            moments += bound.launch.source->entry.starts_with("tf_moments");
    }
    if (needs_moments && tests::thorough()) {
        EXPECT_GE(moments, 8);
    }
    check(cases, tolerance);
}

TEST(CudaHost, BoxSpread) {
    std::vector<HostCase> cases;
    uint64_t seed = 8000;
    for (const char* sizes : {"16,20", "13,9"})
        for (const char* dtype : {"f32", "f64", "f16"}) {
            const std::string n = std::string(sizes) == "16,20" ? "15,14,18,19" : "12,11,8,7";
            const Graph graph =
                parse("graph g {\n  %h = input " + std::string(dtype) +
                      "[2,12,1,1]\n  %y = box_spread(%h) dims=[2,3] counts=[2,2] los=[0,1,0,2] his=[" + n +
                      "] steps=[1,1,2,1] sizes=[" + sizes + "]\n  %z = mul(%y, 0.5)\n  return %z\n}\n");
            for (bool last : {false, true})
                cases.push_back(make(graph, random_leaves(graph, ++seed), last, true, general()));
        }
    check(cases, 1e-3);
}

// Weight gradients: every relation between x, g and taps, groups, channel counts beside the tiles, a prologue.
const char* const correlations[] = {
    "%x = input f32[2,5,12,13]  %g = input f32[2,7,14,15]  %w = correlate(%x, %g) taps=[3,3]",
    "%x = input f32[2,4,12,13]  %g = input f32[2,6,24,26]  %w = correlate(%x, %g) up=[2,2] offset=[1,1] taps=[3,3]",
    "%x = input f32[2,12,25,26]  %g = input f32[2,10,12,13]  %w = correlate(%x, %g) down=[2,2] offset=[1,1] taps=[3,3] "
    "groups=2",
    "%x = input f32[1,70,260]  %g = input f32[1,40,262]  %w = correlate(%x, %g) taps=[3]",
    "%x = input f32[1,3,6,7,8]  %g = input f32[1,33,6,7,8]  %w = correlate(%x, %g) offset=[1,1,1] taps=[3,3,3]",
    "%x = input f32[2,5,12,13]  %g = input f32[2,7,22,25]  %r = relu(%x)  %s = tanh(%g)  %w = correlate(%r, %s) "
    "up=[2,2] dil=[2,1] offset=[2,1] taps=[3,4]",
    // Several bundles of taps: many residues, one residue with many taps, turns far apart, both operands strided.
    "%x = input f32[2,6,140]  %g = input f32[2,5,1120]  %w = correlate(%x, %g) up=[8] offset=[4] taps=[16]",
    "%x = input f32[1,33,5,52]  %g = input f32[1,70,5,52]  %w = correlate(%x, %g) offset=[1,4] taps=[3,9]",
    "%x = input f32[1,4,3,200]  %g = input f32[1,3,3,200]  %w = correlate(%x, %g) dil=[1,40] offset=[0,80] taps=[1,5]",
    "%x = input f32[2,3,300]  %g = input f32[2,4,450]  %w = correlate(%x, %g) up=[3] down=[2] offset=[3] taps=[7]",
    "%x = input f32[2,40,7,61]  %g = input f32[2,70,7,30]  %w = correlate(%x, %g) down=[1,2] offset=[1,2] taps=[3,5]",
};

// Cut borders, phases, groups, lags beyond the input and farther apart than shared memory reaches, more channels than a
// block of them, edges inside a chunk of places and whole chunks beside them, sums too long for fp32, a prologue. Of 16
// bits, also so small ones that no fp16 lies as near their mean as a float would.
TEST(CudaHost, Covariances) {
    std::vector<HostCase> cases;
    uint64_t seed = 9800;
    int summed = 0;
    Target target = general();
    target.multiprocessors = 4;
    for (const char* body :
         {"%x = input f32[2,3,5,6,7]  %v = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[9,11,13] taps=[3,3,3]",
          "%x = input f32[2,8,9,31]  %v = covariance(%x) up=[2,3] dil=[2,1] offset=[1,2] out=[19,93] taps=[3,5] "
          "groups=4",
          "%x = input f32[3,5,12,80]  %r = relu(%x)  %v = covariance(%r) offset=[1,1] out=[12,80] taps=[3,3]",
          "%x = input f32[2,2,300]  %v = covariance(%x) up=[2] offset=[3] out=[590] taps=[7]",
          "%x = input f64[2,1,30,4]  %v = covariance(%x) dil=[2,3] offset=[7,1] out=[30,9] taps=[9,3]",
          "%x = input f32[2,2,9,40,70]  %v = covariance(%x) offset=[1,1,1] out=[9,40,70] taps=[3,3,3]",
          "%x = input f32[1,10,9,40]  %v = covariance(%x) up=[2,2] offset=[1,1] out=[17,79] taps=[3,3]",
          "%x = input f32[1,2,150,150]  %v = covariance(%x) dil=[40,35] offset=[40,35] out=[150,150] taps=[3,3]",
          "%x = input f32[40,1,3,600]  %v = covariance(%x) offset=[1,1] out=[3,600] taps=[3,3]",
          "%x = input bf16[2,3,5,6,37]  %v = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[9,11,73] taps=[3,3,3]",
          "%x = input f16[2,3,9,40]  %v = covariance(%x) up=[2,2] offset=[1,1] out=[17,79] taps=[3,3]"}) {
        const Graph graph = graph_of(std::string(body) + "  return %v");
        auto leaves = random_leaves(graph, ++seed);
        const DType dtype = graph[graph.leaves()[0]].type.dtype;
        for (double& value : leaves[0])
            value = dtype == DType::f16    ? std::ldexp(std::round(8 * value) + 5, -24)
                    : dtype == DType::bf16 ? std::round(32 * value) / 32 + 2
                                           : value + 50;
        cases.push_back(make(graph, leaves, seed % 2 == 0, true, target));
        summed += kernels_named(cases.back().assembly, "tf_covariance");
    }
    EXPECT_EQ(summed, 11);
    check(cases, 1e-9);
}

// On tensor cores: what few bits hold is multiplied exactly. Channels that do not fill blocks, several blocks of them,
// several groups of lags, strips with edges in them and without, rows that end beside a stack.
TEST(CudaHost, CovariancesOnTensorCores) {
    std::vector<HostCase> cases;
    uint64_t seed = 9900;
    int summed = 0;
    Target target = general();
    target.multiprocessors = 4;
    for (const char* body :
         {"%x = input f16[2,16,5,6,7]  %v = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[9,11,13] taps=[3,3,3]",
          "%x = input bf16[2,40,6,9]  %v = covariance(%x) up=[2,2] offset=[1,1] out=[11,17] taps=[3,3] groups=2",
          "%x = input f16[1,9,9,70]  %r = relu(%x)  %v = covariance(%r) offset=[1,1] out=[9,70] taps=[3,3]",
          "%x = input f16[2,18,11,9]  %v = covariance(%x) dil=[1,1] offset=[3,4] out=[13,9] taps=[5,4]",
          "%x = input f16[3,8,100]  %v = covariance(%x) up=[2] offset=[3] out=[190] taps=[7]",
          "%x = input f32[2,20,3,6,34]  %v = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[5,11,67] taps=[3,3,3]"}) {
        const Graph graph = graph_of(std::string(body) + "  return %v");
        auto leaves = random_leaves(graph, ++seed);
        for (double& value : leaves[0]) value = std::round(64 * value) / 64 + 2;
        cases.push_back(make(graph, leaves, seed % 2 == 0, true, target, Fp32Precision::tf32));
        summed += kernels_noted(cases.back().assembly, "tensor cores");
    }
    EXPECT_EQ(summed, 6);
    check(cases, 1e-6);
}

void weight_gradients(size_t manner, Fp32Precision precision, double tolerance) {
    std::vector<HostCase> cases;
    int tiled = 0;
    uint64_t seed = 9000;
    for (size_t i = 0; i < std::size(correlations); ++i) {
        ++seed;
        if (!tests::taken(i, manner, 2)) continue;
        const Graph graph = graph_of(std::string(correlations[i]) + "  return %w");
        cases.push_back(make(graph, random_leaves(graph, seed), seed % 2 == 0, true, general(), precision));
        for (const BoundLaunch& bound : cases.back().assembly.launches)
            tiled += bound.launch.source->entry.starts_with("tf_correlate") && bound.launch.shared_bytes > 0;
    }
    if (tests::thorough()) {
        EXPECT_EQ(tiled, 11);
    }
    check(cases, tolerance);
}

// Sums that rise far above what is left of them: tensor cores cut what they add, so chains have to be short. Factors
// are what TF32 holds.
TEST(CudaHost, WeightGradientsThatCancel) {
    std::vector<HostCase> cases;
    Target target = general();
    target.multiprocessors = 1;
    for (const auto& [body, entry] :
         {std::pair{"%x = input f32[1,9,1,7000]  %g = input f32[1,12,4,7002]  %w = correlate(%x, %g) taps=[4,3]",
                    "tf_correlate_columns"},
          std::pair{"%x = input f32[1,9,1,7000]  %g = input f32[1,12,2,7002]  %w = correlate(%x, %g) up=[2,1] "
                    "down=[3,1] taps=[4,3]",
                    "tf_correlate"},
          std::pair{"%x = input f32[1,40,1,7000]  %g = input f32[1,10,4,7002]  %w = correlate(%x, %g) taps=[4,3]",
                    "tf_correlate_groups"}}) {
        const Graph graph = graph_of(std::string(body) + "  return %w");
        auto leaves = random_leaves(graph, 9100);
        std::mt19937 draw(9100);
        for (std::vector<double>& leaf : leaves) {
            const size_t row = &leaf == leaves.data() ? 7000 : 7002;
            for (size_t k = 0; k < leaf.size(); ++k)
                leaf[k] = (row == 7002 && k % row > row / 2 ? -1 : 1) * (1 + static_cast<double>(draw() % 1024) / 1024);
        }
        cases.push_back(make(graph, leaves, false, true, target, Fp32Precision::tf32));
        EXPECT_EQ(cases.back().assembly.launches[0].launch.source->entry, entry);
    }
    check(cases, 8e-5);
}

TEST(CudaHost, WeightGradients) { weight_gradients(0, Fp32Precision::strict, 1e-5); }
TEST(CudaHost, WeightGradientsTf32) { weight_gradients(1, Fp32Precision::tf32, 2e-3); }

// By warpgroups: they share the positions, or the channels of the operand in shared memory; x is turned, or g; several
// planes, bundles of taps, tiles of channels, groups, slices; channels that fill no tile.
TEST(CudaHost, WeightGradientsByWarpgroups) {
    std::vector<HostCase> cases;
    uint64_t seed = 9100;
    Target target = general();
    target.multiprocessors = 4;
    for (const char* body :
         {"%x = input f32[2,64,7,20]  %g = input f32[2,64,9,22]  %w = correlate(%x, %g) taps=[3,3]",
          "%x = input f32[2,40,11,13]  %g = input f32[2,72,22,26]  %w = correlate(%x, %g) up=[2,2] offset=[1,1] "
          "taps=[3,3]",
          "%x = input f32[2,70,25,26]  %g = input f32[2,36,12,13]  %w = correlate(%x, %g) down=[2,2] offset=[1,1] "
          "taps=[3,3]",
          "%x = input f32[1,130,260]  %g = input f32[1,150,262]  %w = correlate(%x, %g) taps=[3]",
          "%x = input f32[1,50,6,7,8]  %g = input f32[1,9,6,7,8]  %w = correlate(%x, %g) offset=[1,1,1] taps=[3,3,3]",
          "%x = input f32[2,80,5,33]  %g = input f32[2,80,5,33]  %r = relu(%x)  %s = tanh(%g)  %w = correlate(%r, %s) "
          "offset=[1,1] taps=[3,3] groups=2",
          "%x = input f32[2,33,140]  %g = input f32[2,64,1120]  %w = correlate(%x, %g) up=[8] offset=[4] taps=[16]",
          "%x = input f32[1,48,4,80]  %g = input f32[1,100,4,80]  %w = correlate(%x, %g) offset=[1,4] taps=[3,9]",
          "%x = input f32[1,34,3,200]  %g = input f32[1,20,3,200]  %w = correlate(%x, %g) dil=[1,40] offset=[0,80] "
          "taps=[1,5]",
          "%x = input f16[2,64,6,40]  %g = input f16[2,48,6,40]  %w = correlate(%x, %g) offset=[1,1] taps=[3,3]",
          "%x = input bf16[3,36,300]  %g = input bf16[3,24,450]  %w = correlate(%x, %g) up=[3] down=[2] offset=[3] "
          "taps=[7]"}) {
        const Graph graph = graph_of(std::string(body) + "  return %w");
        ++seed;
        cases.push_back(make(graph, random_leaves(graph, seed), seed % 2 == 0, true, target, Fp32Precision::tf32));
        int grouped = 0;
        grouped += kernels_named(cases.back().assembly, "tf_correlate_groups");
        EXPECT_EQ(grouped, 1) << body;
    }
    check(cases, 4e-3);
}

// By columns: of x or of g; strides, dilation, borders, channels and columns that fill no tile, several tiles of them,
// groups, slices, one position an image, a prologue.
TEST(CudaHost, WeightGradientsByColumns) {
    const char* const bodies[] = {
        "%x = input f32[2,3,12,13]  %g = input f32[2,70,12,13]  %w = correlate(%x, %g) offset=[1,1] taps=[3,3]",
        "%x = input f32[3,36,9,10]  %g = input f32[3,1,36,40]  %w = correlate(%x, %g) up=[4,4] offset=[3,3] taps=[9,9]",
        "%x = input f32[2,5,25,26]  %g = input f32[2,40,12,26]  %w = correlate(%x, %g) down=[2,1] dil=[1,2] "
        "offset=[1,3] taps=[3,4]",
        "%x = input f32[2,33,5,6,7]  %g = input f32[2,2,10,12,14]  %w = correlate(%x, %g) up=[2,2,2] offset=[1,1,1] "
        "taps=[4,4,4]",
        "%x = input f32[2,10,331]  %g = input f32[2,12,331]  %r = relu(%x)  %s = tanh(%g)  %w = correlate(%r, %s) "
        "offset=[5] taps=[11] groups=2",
        "%x = input f16[2,64,1200]  %g = input f16[2,1,4800]  %w = correlate(%x, %g) up=[4] offset=[11] taps=[25]"};
    uint64_t seed = 9300;
    Target target = general();
    target.multiprocessors = 4;
    for (const auto precision : {Fp32Precision::strict, Fp32Precision::tf32}) {
        std::vector<HostCase> cases;
        const size_t count = std::size(bodies) - (precision == Fp32Precision::strict ? 1 : 0);
        for (const char* body : std::span(bodies).first(count)) {
            const Graph graph = graph_of(std::string(body) + "  return %w");
            ++seed;
            cases.push_back(make(graph, random_leaves(graph, seed), seed % 3 == 0, true, target, precision));
            EXPECT_EQ(kernels_named(cases.back().assembly, "tf_correlate_columns"), 1) << body;
        }
        check(cases, precision == Fp32Precision::strict ? 1e-5 : 4e-3);
    }
}

// The position of an image is one, and there are many channels: no general kernel.
TEST(CudaHost, WeightGradientsOfFewPositions) {
    const Graph graph =
        graph_of("%x = input f32[8,72,1,1]  %g = input f32[8,130,4,4]  %w = correlate(%x, %g) taps=[4,4]  return %w");
    Target target = general();
    target.multiprocessors = 4;
    std::vector<HostCase> cases;
    cases.push_back(make(graph, random_leaves(graph, 1), false, true, target, Fp32Precision::tf32));
    EXPECT_EQ(kernels_named(cases.back().assembly, "tf_correlate_groups"), 1);
    check(cases, 4e-3);
}

// Sums so long that several blocks share one: the bias and the divisor are still applied, once.
TEST(CudaHost, SplitSumsEndAsWholeOnesDo) {
    std::vector<HostCase> cases;
    uint64_t seed = 9500;
    for (const char* body : {"%x = input f64[3,70,5,5,1]  %w = param f64[4,70,3,3,1]  %b = param f64[4]  %y = conv(%x, "
                             "%w, %b) stride=[2,3,3] padding=[5,0,1] dilation=[3,1,1]",
                             "%x = input f64[1,1,64,64]  %y = avg_pool(%x) kernel=[64,60] stride=[64,60]",
                             "%x = input f64[1,2,64,64]  %y = adaptive_avg_pool(%x) output_size=[1,2]"}) {
        const Graph graph = graph_of(std::string(body) + "  return %y");
        ++seed;
        cases.push_back(make(graph, random_leaves(graph, seed), false, true, general()));
    }
    check(cases, 1e-12);
}

TEST(CudaHost, CollapsedFloat32) { collapsed_cases(0, "f32", 2e-6, false, true, true); }
TEST(CudaHost, CollapsedChannelsLast) { collapsed_cases(1, "f32", 2e-6, true, true, true); }
TEST(CudaHost, CollapsedFloat64) { collapsed_cases(2, "f64", 1e-12, false, true, true); }
TEST(CudaHost, CollapsedUnaligned) { collapsed_cases(3, "f32", 2e-6, false, false, true); }
TEST(CudaHost, CollapsedHalf) { collapsed_cases(4, "f16", 2e-3, false, true, true); }
TEST(CudaHost, CollapsedBfloat) { collapsed_cases(5, "bf16", 2e-2, true, true, true); }

}  // namespace
}  // namespace transfuse::cuda
