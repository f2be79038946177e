// Weights that pairs of CTAs share, executed on the CPU (each CTA of a cluster with shared memory and barriers of its own) against
// the float64 reference: every way patches come and results go, an odd number of places, one place, slabs left out at borders.
#include "cuda/dense/config.h"
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

const std::string shared_weights = " shared weights";

// Places along rows and images, odd and even; blocks of channels and phases, several of them a CTA's turn.
const char* const passes[] = {
    "%x = input f32[3,24,11,24]  %w = param f32[24,140,3,5]  %z = conv_transpose(%x, %w)",
    "%x = input f32[2,24,9,16]  %w = param f32[24,70,3,3]  %b = param f32[70]  %y = conv_transpose(%x, %w, %b) stride=[2,2] "
    "padding=[1,1] output_padding=[1,1]  %z = tanh(%y)",
    "%x = input f32[1,20,3,7,16]  %w = param f32[20,70,3,4,2]  %z = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,0]",
    // rows that begin anywhere; groups
    "%x = input f32[3,32,7,9]  %w = param f32[32,40,3,3]  %z = conv_transpose(%x, %w) stride=[1,2] groups=2",
    "%x = input f32[3,48,88]  %w = param f32[48,70,8]  %z = conv_transpose(%x, %w) stride=[4] padding=[2]",
    // one place alone: the second CTA takes weights only
    "%x = input f32[1,24,2,8]  %w = param f32[24,70,2,2]  %z = conv_transpose(%x, %w)",
    // sums of images and of the batch; a chain with another tensor; a softmax; a pool
    "%x = input f32[3,24,11,16]  %w = param f32[24,70,3,3]  %y = conv_transpose(%x, %w)  %t = tanh(%y)  %s = mean(%t) dims=[2,3]  %z = "
    "var(%t) dims=[0,2,3] correction=0  return %s, %z",
    "%x = input f32[3,24,11,16]  %w = param f32[24,70,3,3]  %y = conv_transpose(%x, %w)  %s = mean(%y) dims=[2,3]  %z = gelu(%y)  return "
    "%s, %z",
    "%x = input f32[3,24,10,16]  %r = input f32[3,70,20,32]  %w = param f32[24,70,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] "
    "padding=[1,1]  %z = add(%y, %r)",
    "%x = input f32[3,24,11,16]  %w = param f32[24,70,3,3]  %y = conv_transpose(%x, %w)  %z = softmax(%y) dims=[1]",
    "%x = input f32[3,24,12,16]  %w = param f32[24,70,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %z = max_pool(%y) kernel=[2,2] "
    "stride=[2,2]",
};

// Few pixels and many taps.
const char* const padded_passes[] = {
    "%x = input f32[1,24,2,4,12]  %w = param f32[24,70,4,4,5]  %z = conv_transpose(%x, %w)",
    "%x = input f32[3,24,2,3,8]  %w = param f32[24,20,3,5,3]  %y = conv_transpose(%x, %w)  %t = tanh(%y)  %z = sum(%t) dims=[2,3,4]",
    "%x = input f32[1,24,4,8]  %w = param f32[24,70,3,3]  %p = conv_transpose(%x, %w) dilation=[9,1]  %z = tanh(%p)",
};

struct Kind {
    const char* dtype;
    Fp32Precision precision;
    bool last, aligned;
    double tolerance;
};
constexpr Kind tf32{"f32", Fp32Precision::tf32, false, true, 6e-3};
constexpr Kind tf32_anywhere{"f32", Fp32Precision::tf32, false, false, 6e-3};
constexpr Kind tf32_last{"f32", Fp32Precision::tf32, true, true, 6e-3};
constexpr Kind strict{"f32", Fp32Precision::strict, false, true, 5e-6};
constexpr Kind half{"f16", Fp32Precision::strict, false, true, 6e-3};
constexpr Kind half_last{"f16", Fp32Precision::strict, true, true, 6e-3};

// Few CTAs, so that every ring goes round, and not all tiles in one.
template <class Texts>
void run(const Texts& texts, const Kind& kind, const std::string& wanted) {
    std::vector<HostCase> cases;
    Target target;
    target.multiprocessors = 5;
    uint64_t seed = 1700;
    size_t taken = 0;
    for (const char* text : texts) {
        const Graph graph = graph_of(text, kind.dtype);
        cases.push_back(make(graph, random_leaves(graph, ++seed), kind.last, kind.aligned, target, kind.precision, wanted, {}, {},
                             shared_weights));
        for (const BoundLaunch& bound : cases.back().assembly.launches) {
            const bool shares = bound.launch.note.find(shared_weights) != std::string::npos;
            EXPECT_EQ(bound.launch.source->text.find("copy_to_pair") != std::string::npos, shares);
            if (!shares) continue;
            EXPECT_EQ(bound.launch.cluster, 2u);
            EXPECT_EQ(bound.launch.grid[0] % 2, 0u);
            ++taken;
        }
    }
    EXPECT_GE(taken + 2, cases.size());  // not every list of configurations has one
    check(cases, kind.tolerance);
}

TEST(SharedWeights, Tf32) { run(passes, tf32, " slabs "); }
TEST(SharedWeights, Tf32AnywhereInMemory) { run(passes, tf32_anywhere, " slabs "); }
TEST(SharedWeights, Tf32ChannelsLast) { run(passes, tf32_last, " slabs "); }
TEST(SharedWeights, Strict) { run(passes, strict, " slabs "); }
TEST(SharedWeights, Half) { run(passes, half, " slabs "); }
TEST(SharedWeights, HalfChannelsLast) { run(passes, half_last, " slabs "); }
TEST(SharedWeights, SlabsLeftOut) { run(padded_passes, tf32, " skips"); }
TEST(SharedWeights, Strips) { run(passes, tf32, " strip"); }
// Weights are shared where a tile's take longer from L2 than its products do: not where they stay, where tiles are few, where products
// are strict (not measured), or in texts whose sizes are stated.
TEST(SharedWeights, ChosenWhereTheyPay) {
    auto chosen = [](const std::string& x, const std::string& w, const std::string& how, Fp32Precision precision, Decisions* decisions = nullptr) {
        const Plan planned = plan(rewrite(graph_of("%x = input f32[" + x + "]  %w = param f32[" + w + "]  %y = conv_transpose(%x, %w) " + how +
                                                       "  %z = relu(%y)",
                                                   "f32"))
                                      .rewritten,
                                  Machine::h200());
        CompileOptions options;
        options.precision = precision;
        Target target;
        target.decisions = decisions;
        const Assembly assembly = assemble(planned, options, target, true);
        for (const BoundLaunch& bound : assembly.launches)
            if (bound.launch.note.find(" run ") != std::string::npos) {
                EXPECT_EQ(bound.launch.cluster == 2, bound.launch.note.find(shared_weights) != std::string::npos);
                return std::string(bound.launch.note);
            }
        ADD_FAILURE() << "no dense tiles";
        return std::string();
    };
    using enum Fp32Precision;
    auto shared = [](const std::string& note) { return note.find(shared_weights) != std::string::npos; };
    const std::string phases = "stride=[2,2,2] padding=[1,1,1]", volume = "16,64,32,32,32", kernel = "64,128,3,3,3";
    EXPECT_TRUE(shared(chosen(volume, kernel, phases, tf32)));
    EXPECT_TRUE(shared(chosen("16,512,1024", "512,256,16", "stride=[8] padding=[4]", tf32)));
    EXPECT_FALSE(shared(chosen("2,64,4,8,16", kernel, phases, tf32)));
    EXPECT_FALSE(shared(chosen(volume, kernel, phases, strict)));
    EXPECT_FALSE(shared(chosen("16,512,32,32", "512,256,4,4", "stride=[2,2] padding=[1,1]", tf32)));
    const std::string resident = chosen("16,64,256,256", "64,64,2,2", "stride=[2,2]", tf32);
    EXPECT_NE(resident.find("resident"), std::string::npos);
    EXPECT_FALSE(shared(resident));
    Decisions decisions;
    EXPECT_FALSE(shared(chosen(volume, kernel, phases, tf32, &decisions)));
}

TEST(SharedWeights, WordsOfAConfiguration) {
    const std::string words = "run 1x1x2x24 runs 1x1x1x1 split channels bundles 1 k_steps 2 stages 2 raw 3x4 slabs 3x5 chunks "
                              "3x32 stores 1 registers 64/96/176";
    ASSERT_TRUE(config_named(words));
    EXPECT_FALSE(config_named(words)->shared_weights);
    ASSERT_TRUE(config_named(words + shared_weights));
    EXPECT_TRUE(config_named(words + shared_weights)->shared_weights);
}

}  // namespace
}  // namespace transfuse::cuda
