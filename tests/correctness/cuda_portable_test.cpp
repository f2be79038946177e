// The portable tensor-core kernels: executed on the CPU (mma.sync, ldmatrix, cp.async and mbarriers of tests/cuda_host/
// machine.h) against the float64 reference, and compiled for every architecture within its shared memory.
#include <string>
#include <thread>

#include "cuda/runtime/nvrtc.h"
#include "cuda_host/cases.h"
#include "cuda_host/nvrtc.h"
#include "rows.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

// Every sort of lattice and of tile program.
const char* const passes[] = {
    // phases, bias, chain with a per-channel and a full operand
    "%x = input f32[2,5,6,9]  %w = param f32[5,8,3,3]  %b = param f32[8]  %p = param f32[8,1,1]  %r = input "
    "f32[2,8,12,18]  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]  %a = mul(%y, %p)"
    "  %s = add(%a, %r)  %z = tanh(%s)",
    // more channels than a tile, several K steps
    "%x = input f32[1,20,5,24]  %w = param f32[20,70,3,3]  %z = conv_transpose(%x, %w) padding=[1,1]",
    // few channels in three dimensions, a pool in the tile, a mean across tiles
    "%x = input f32[2,5,4,6,10]  %w = param f32[5,6,3,3,3]  %b = param f32[6]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2,2] padding=[1,1,1]  %t = tanh(%y)  %m = max_pool(%t) kernel=[2,2,2] stride=[2,2,2]  %z = mean(%m) "
    "dims=[2,3,4] keepdim=1",
    // one dimension, many phases
    "%x = input f32[2,12,40]  %w = param f32[12,6,8]  %y = conv_transpose(%x, %w) stride=[4] padding=[2]  %z = "
    "leaky_relu(%y) negative_slope=0.1",
    // a strided convolution with a prologue
    "%x = input f32[2,9,30,31]  %w = param f32[24,9,3,3]  %r = cos(%x)  %z = conv(%r, %w) stride=[2,3] padding=[1,1]",
    // groups, dilation, residues without taps
    "%x = input f32[2,36,6,8]  %w = param f32[36,13,3,5]  %z = conv_transpose(%x, %w) stride=[2,3] padding=[1,2] "
    "dilation=[2,1] groups=3",
    // softmax over channels
    "%x = input f32[2,8,7,10]  %w = param f32[8,33,2,2]  %y = conv_transpose(%x, %w) stride=[2,2]  %z = softmax(%y) "
    "dims=[1]",
    // sums and logsumexp across tiles
    "%x = input f32[3,8,9,20]  %w = param f32[8,24,3,3]  %y = conv_transpose(%x, %w)  %t = tanh(%y)  %s = sum(%t) "
    "dims=[0,2,3]  %l = logsumexp(%t) dims=[2,3]  %z = amax(%t) dims=[3]",
    // variances across tiles, of images and of all, and a row's
    "%x = input f32[3,8,9,20]  %w = param f32[8,24,3,3]  %y = conv_transpose(%x, %w)  %t = tanh(%y)  %s = var(%t) "
    "dims=[0,2,3] correction=1  %l = var(%t) dims=[2,3] correction=0  %z = var(%t) dims=[3] correction=0",
    // norms: values per image and channel
    "%x = input f32[2,6,17,16]  %w = param f32[6,12,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %t = gelu(%y)  %z = "
    "group_norm(%t) num_groups=3",
    // two results stored side by side in a third, the second behind an odd number of channels
    "%x = input f32[2,8,5,16]  %v = param f32[8,13,4,4]  %w = param f32[8,24,2,2]  %p = conv_transpose(%x, %v) stride=[2,2] padding=[1,1]  "
    "%q = conv_transpose(%x, %w) stride=[2,2]  %a = tanh(%p)  %z = concat(%a, %q) axis=1",
};

struct Mode {
    const char* dtype;
    Fp32Precision precision;
    double tolerance;
};
const Mode modes[] = {
    {"f32", Fp32Precision::strict, 3e-6}, {"f32", Fp32Precision::tf32, 3e-3},    {"f64", Fp32Precision::strict, 1e-13},
    {"f16", Fp32Precision::strict, 4e-3}, {"bf16", Fp32Precision::strict, 3e-2},
};

Target portable(int arch) {
    Target target;
    target.arch = arch, target.portable_only = true;
    target.multiprocessors = 3;  // several tiles a block, so that every ring goes round
    target.shared_bytes = (arch == 86 || arch == 89 || arch == 120 ? 99 : arch == 80 ? 163 : 227) * 1024;
    return target;
}

Graph pass_graph(const char* body, const std::string& dtype) {
    const std::string text = body;
    return graph_of(text.find("%l = ") != std::string::npos ? text + "  return %s, %l, %z" : text, dtype);
}

int portable_kernels(const Assembly& assembly) {
    int count = 0;
    for (const BoundLaunch& bound : assembly.launches)
        count += bound.launch.source->entry == "transfuse_dense" &&
                 bound.launch.source->text.find("#define MMA") != std::string::npos;
    return count;
}

void run_passes(size_t number, bool last, int arch) {
    const Mode& mode = modes[number];
    std::vector<HostCase> cases;
    uint64_t seed = 4000;
    int prologues = 0;
    for (size_t i = 0; i < std::size(passes); ++i) {
        ++seed;
        if (!tests::taken(i, number, 2)) continue;
        const Graph graph = pass_graph(passes[i], mode.dtype);
        cases.push_back(make(graph, random_leaves(graph, seed), last, true, portable(arch), mode.precision));
        EXPECT_GE(portable_kernels(cases.back().assembly), 1) << print(graph);
        prologues += kernels_with(cases.back().assembly, "PROLOGUE = true");
    }
    if (tests::thorough()) {
        EXPECT_EQ(prologues, 1);
    }
    check(cases, mode.tolerance);
}

TEST(CudaPortable, Strict) { run_passes(0, false, 80); }
TEST(CudaPortable, Tf32) { run_passes(1, true, 86); }
TEST(CudaPortable, Float64) { run_passes(2, false, 80); }
TEST(CudaPortable, Half) { run_passes(3, true, 80); }
TEST(CudaPortable, Bfloat) { run_passes(4, false, 89); }

// Windows narrower than the stride along one axis: whoever takes the pass, phases must not be pooled with one another.
TEST(CudaPortable, PoolsBesidePhases) {
    std::vector<HostCase> cases;
    for (const char* pool : {"kernel=[1,2] stride=[1,2]", "kernel=[2,1] stride=[2,1]", "kernel=[2,2] stride=[2,2]"}) {
        const std::string body =
            "%x = input f32[2,5,5,6]  %w = param f32[5,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] "
            "padding=[1,1] output_padding=[1,1]  %t = tanh(%y)  %z = max_pool(%t) ";
        const Graph graph = pass_graph((body + pool).c_str(), "f32");
        cases.push_back(make(graph, random_leaves(graph, 31), false, true, portable(80)));
    }
    EXPECT_EQ(portable_kernels(cases[2].assembly), 1);
    check(cases, 3e-6);
}

TEST(CudaPortable, RandomGraphs) {
    std::vector<HostCase> cases;
    int kernels = 0;
    for (uint64_t seed = 600; seed < 620; ++seed) {
        RandomGraphOptions options;
        options.dtype = seed % 2 ? DType::f64 : DType::f32;
        const Graph graph = random_graph(seed, options);
        cases.push_back(make(graph, random_leaves(graph, seed), seed % 4 < 2, true, portable(80)));
        kernels += portable_kernels(cases.back().assembly);
    }
    EXPECT_GE(kernels, 7);
    check(cases, 2e-5);
}

// Tiles are found for the benchmark chains at full size in the least shared memory there is, too.
TEST(CudaPortable, EveryRowFits) {
    int kernels = 0;
    for (const auto& [name, text] : tests::rows())
        for (const Mode& mode : modes) {
            const Plan planned =
                plan(rewrite(tests::row(name, tests::Scale::full, dtype_named(mode.dtype))).rewritten, Machine::h200());
            CompileOptions options;
            options.precision = mode.precision;
            const Target target = portable(86);
            const Assembly assembly = assemble(planned, options, target, true);
            kernels += portable_kernels(assembly);
            for (const std::string& note : assembly.notes)
                EXPECT_EQ(note.find("no tile fits"), std::string::npos) << name << " in " << mode.dtype;
            for (const BoundLaunch& bound : assembly.launches)
                EXPECT_LE(bound.launch.shared_bytes, static_cast<uint32_t>(target.shared_bytes)) << name;
        }
    EXPECT_GE(kernels, 80);
}

// Every pass in one arithmetic, each for another architecture; in a long run in three, and every arithmetic meets every
// architecture.
TEST(CudaPortable, CompilesForEveryArchitecture) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    const std::vector<int> architectures = swept_architectures();
    struct Unit {
        std::shared_ptr<const Source> source;
        int arch;
        std::string outcome;
    };
    std::vector<Unit> units;
    size_t turn = 0;
    for (const char* body : passes)
        for (int part = 0; part < (tests::thorough() ? 3 : 1); ++part, ++turn) {
            const Mode& mode = modes[turn % 5];
            const int arch = architectures[turn % architectures.size()];
            const Graph graph = pass_graph(body, mode.dtype);
            CompileOptions options;
            options.precision = mode.precision;
            const Target target = portable(arch);
            for (const BoundLaunch& bound :
                 assemble(plan(rewrite(graph).rewritten, Machine::h200()), options, target, true).launches) {
                EXPECT_LE(bound.launch.shared_bytes, static_cast<uint32_t>(target.shared_bytes));
                if (bound.launch.source->entry.starts_with("transfuse_"))
                    units.push_back({bound.launch.source, arch, ""});
            }
        }
    std::vector<std::thread> threads;
    for (size_t part = 0; part < 4; ++part)
        threads.emplace_back([&, part] {
            for (size_t k = part; k < units.size(); k += 4) try {
                    units[k].outcome = nvrtc_log(*units[k].source, units[k].arch);
                } catch (const Error& error) {
                    units[k].outcome = std::string("ERROR ") + error.what();
                }
        });
    for (std::thread& t : threads) t.join();
    for (const Unit& unit : units) {
        EXPECT_EQ(unit.outcome.find("ERROR"), std::string::npos) << unit.outcome.substr(0, 2000);
        // A few values of a role that has time.
        if (const size_t at = unit.outcome.find(" bytes spill stores"); at != std::string::npos) {
            EXPECT_LE(std::stoi(unit.outcome.substr(unit.outcome.rfind(' ', at - 1) + 1)), 512) << "sm_" << unit.arch;
        }
    }
}

}  // namespace
}  // namespace transfuse::cuda
