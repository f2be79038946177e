// Convolutions by lines of pixels (line_geometry.h), one for every tap or shared by taps: small images, several in a
// line, every stride, groups of one channel and of many, pairs along up to two axes; and packed weights that are kept
// for as long as the weights are the same numbers.
#include <array>
#include <cfenv>
#include <random>
#include <set>

#include "cpu/dense/stage/kept_weights.h"
#include "cpu/kernels/kernels.h"
#include "cpu/primitive/primitive.h"
#include "cpu/threads/thread_pool.h"
#include "cpu_check.h"
#include "random_graphs.h"
#include "random_layers.h"

namespace transfuse {
namespace {

std::string how(const Plan& plan) { return compile_cpu(plan)->describe(); }
bool by_lines(const Plan& plan) { return how(plan).find(" in lines of ") != std::string::npos; }
bool goes(cpu::DenseWay way, const Plan& plan) {
    if (way == cpu::DenseWay::channels) return how(plan).find("channels ") != std::string::npos && !by_lines(plan);
    const bool shared = how(plan).find(" shared lines of ") != std::string::npos;
    return by_lines(plan) && shared == (way == cpu::DenseWay::shared_lines);
}

struct Shape {
    const char* name;
    const char* text;
};

const Shape shapes[] = {
    {"Point", "%x = input f32[3,70,7,7] %w = param f32[45,70,1,1] %b = param f32[45] %y = conv(%x, %w, %b)"},
    // Read in place, but for what lies too near to the end of the last image.
    {"PointLarge", "%x = input f32[3,30,13,17] %w = param f32[45,30,1,1] %b = param f32[45] %y = conv(%x, %w, %b)"},
    {"PointGroups", "%x = input f32[2,36,16,20] %w = param f32[20,9,1,1] %y = conv(%x, %w) groups=4"},
    {"PointUp",
     "%x = input f32[2,24,14,15] %w = param f32[24,20,2,2] %b = param f32[20] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2]"},
    {"PointUpBehind",
     "%x = input f32[2,24,301] %w = param f32[24,20,2] %y = conv_transpose(%x, %w) stride=[2] output_padding=[1]"},
    {"PointStrided", "%x = input f32[3,70,9,7] %w = param f32[45,70,1,1] %y = conv(%x, %w) stride=[2,3]"},
    {"ThreeByThree",
     "%x = input f32[5,64,7,7] %w = param f32[33,64,3,3] %b = param f32[33] %y = conv(%x, %w, %b) padding=[1,1]"},
    {"OneImage", "%x = input f32[1,300,5,6] %w = param f32[64,300,3,3] %y = conv(%x, %w) padding=[1,0]"},
    {"Strided",
     "%x = input f32[2,50,9,10] %w = param f32[40,50,3,3] %b = param f32[40] %y = conv(%x, %w, %b) stride=[2,2] "
     "padding=[1,1]"},
    {"Patches", "%x = input f32[2,24,8,12] %w = param f32[32,24,4,4] %y = conv(%x, %w) stride=[4,4]"},
    {"Dilated", "%x = input f32[2,40,9,11] %w = param f32[32,40,3,3] %y = conv(%x, %w) padding=[2,3] dilation=[2,3]"},
    {"Groups",
     "%x = input f32[3,96,6,5] %w = param f32[75,32,3,3] %b = param f32[75] %y = conv(%x, %w, %b) groups=3 "
     "padding=[1,1]"},
    {"Depthwise",
     "%x = input f32[3,37,9,7] %w = param f32[37,1,3,3] %b = param f32[37] %y = conv(%x, %w, %b) groups=37 "
     "padding=[1,1]"},
    {"DepthwiseStrided",
     "%x = input f32[2,20,14,13] %w = param f32[20,1,5,5] %y = conv(%x, %w) groups=20 stride=[2,2] padding=[2,2]"},
    {"DepthwiseWide",
     "%x = input f32[1,18,40,70] %w = param f32[18,1,7,3] %y = conv(%x, %w) groups=18 padding=[3,1] dilation=[1,2]"},
    {"DepthwiseUp",
     "%x = input f32[3,11,6,5] %w = param f32[11,1,4,4] %b = param f32[11] %y = conv_transpose(%x, %w, %b) groups=11 "
     "stride=[2,2] padding=[1,1]"},
    {"DepthwiseVolume",
     "%x = input f32[2,17,4,5,6] %w = param f32[17,1,3,3,3] %y = conv(%x, %w) groups=17 padding=[1,1,1]"},
    {"DepthwiseMultiplied",
     "%x = input f32[2,12,7,8] %w = param f32[36,1,3,3] %b = param f32[36] %y = conv(%x, %w, %b) groups=12 "
     "stride=[3,1] padding=[1,1]"},
    {"PairsOfChannels",
     "%x = input f32[3,26,8,7] %w = param f32[26,2,3,3] %y = conv(%x, %w) groups=13 padding=[1,1] stride=[1,2]"},
    {"First",
     "%x = input f32[2,3,21,30] %w = param f32[20,3,7,7] %b = param f32[20] %y = conv(%x, %w, %b) "
     "stride=[2,2] padding=[3,3]"},
    {"Last",
     "%x = input f32[3,40,9,10] %w = param f32[3,40,3,3] %b = param f32[3] %y = conv(%x, %w, %b) "
     "padding=[1,1]"},
    {"CutBelowOnePeriod",
     "%x = input f32[3,2,1,1,2] %w = param f32[2,2,2,1,3] %b = param f32[2] %y = conv_transpose(%x, %w, %b) "
     "stride=[3,2,3] padding=[0,0,3] output_padding=[2,1,1]"},
    {"LessThanItsTaps",
     "%x = input f32[3,4,7,1,2] %w = param f32[1,4,2,3,3,2] %y = lattice(%x, %w) groups=1 "
     "down=[3,2,1] offset=[-1,0,1] out=[4,2,1]"},
    {"UpTwo",
     "%x = input f32[7,64,4,4] %w = param f32[64,40,4,4] %b = param f32[40] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2] padding=[1,1]"},
    {"UpOdd",
     "%x = input f32[2,64,5,3] %w = param f32[64,29,3,3] %b = param f32[29] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2] padding=[1,1] output_padding=[1,0]"},
    {"UpThree", "%x = input f32[2,32,5,3] %w = param f32[32,24,2,5] %y = conv_transpose(%x, %w) stride=[3,2]"},
    {"PhasesWithoutTaps",
     "%x = input f32[2,64,4,5] %w = param f32[64,32,3,3] %b = param f32[32] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2] dilation=[2,2] padding=[1,1]"},
    {"Signal", "%x = input f32[3,64,37] %w = param f32[40,64,7] %b = param f32[40] %y = conv(%x, %w, %b) padding=[3]"},
    {"SignalUp", "%x = input f32[2,64,19] %w = param f32[64,32,8] %y = conv_transpose(%x, %w) stride=[4] padding=[2]"},
    {"Volume",
     "%x = input f32[2,48,4,5,3] %w = param f32[32,48,3,3,3] %b = param f32[32] %y = conv(%x, %w, %b) "
     "padding=[1,1,1]"},
    {"VolumeUp",
     "%x = input f32[2,64,2,3,4] %w = param f32[64,24,4,4,2] %y = conv_transpose(%x, %w) stride=[2,2,2] "
     "padding=[1,1,0]"},
    {"Tiles", "%x = input f32[1,128,40,50] %w = param f32[32,128,3,3] %y = conv(%x, %w) padding=[1,1]"},
    {"Prologue",
     "%i = input f32[3,64,7,6] %q = param f32[64,1,1] %c = cos(%i) %x = mul(%c, %q) %w = param "
     "f32[32,64,3,3] %y = conv(%x, %w) stride=[1,2] padding=[1,1]"},
};

// Each output channel depends on one input channel.
const Shape channel_shapes[] = {
    {"ManyChannels",
     "%x = input f32[2,83,9,31] %w = param f32[83,1,5,3] %b = param f32[83] %y = conv(%x, %w, %b) groups=83 "
     "stride=[1,2] padding=[2,1] dilation=[1,2]"},
    {"OneTap", "%x = input f32[2,19,9,7] %w = param f32[19,1,1,1] %b = param f32[19] %y = conv(%x, %w, %b) groups=19"},
    {"ThreeByThree",
     "%x = input f32[3,37,9,7] %w = param f32[37,1,3,3] %b = param f32[37] %y = conv(%x, %w, %b) groups=37 "
     "padding=[1,1]"},
    {"Strided",
     "%x = input f32[2,20,14,13] %w = param f32[20,1,5,5] %y = conv(%x, %w) groups=20 stride=[2,2] padding=[2,2]"},
    {"Dilated",
     "%x = input f32[1,18,40,70] %w = param f32[18,1,7,3] %y = conv(%x, %w) groups=18 padding=[6,4] dilation=[2,4]"},
    {"Tiles",
     "%x = input f32[1,3,70,131] %w = param f32[3,1,7,7] %b = param f32[3] %y = conv(%x, %w, %b) groups=3 "
     "padding=[3,2]"},
    {"Up",
     "%x = input f32[3,11,6,5] %w = param f32[11,1,4,4] %b = param f32[11] %y = conv_transpose(%x, %w, %b) groups=11 "
     "stride=[2,2] padding=[1,1]"},
    {"UpOdd",
     "%x = input f32[2,7,5,3] %w = param f32[7,1,3,2] %b = param f32[7] %y = conv_transpose(%x, %w, %b) groups=7 "
     "stride=[2,3] padding=[1,0] output_padding=[1,0]"},
    {"UpAlongRows",
     "%x = input f32[2,7,5,9] %w = param f32[7,1,3,3] %y = conv_transpose(%x, %w) groups=7 stride=[2,1] padding=[0,1]"},
    {"Signal", "%x = input f32[2,5,1500] %w = param f32[5,1,31] %y = conv(%x, %w) groups=5 padding=[15]"},
    {"Volume", "%x = input f32[2,17,4,5,6] %w = param f32[17,1,3,3,3] %y = conv(%x, %w) groups=17 padding=[1,1,1]"},
    {"VolumeUp",
     "%x = input f32[1,5,3,4,6] %w = param f32[5,1,4,2,3] %b = param f32[5] %y = conv_transpose(%x, %w, %b) groups=5 "
     "stride=[2,1,2] padding=[1,0,1]"},
    {"Multiplied",
     "%x = input f32[2,12,7,8] %w = param f32[36,1,3,3] %b = param f32[36] %y = conv(%x, %w, %b) groups=12 "
     "stride=[3,1] padding=[1,1]"},
    {"Prologue",
     "%i = input f32[2,48,30,26] %q = param f32[48,1,1] %c = cos(%i) %x = mul(%c, %q) %w = param f32[48,1,3,3] %y = "
     "conv(%x, %w) groups=48 stride=[1,2] padding=[1,1]"},
};

class Lines : public testing::TestWithParam<std::tuple<Shape, cpu::DenseWay>> {
protected:
    const Shape& shape() const { return std::get<0>(GetParam()); }
    DenseBy way_{std::get<1>(GetParam())};
    std::string graph(const char* tail) const { return std::string("graph g { ") + shape().text + tail; }
};

TEST_P(Lines, MatchTheReference) {
    for (const char* tail :
         {" return %y }", " %z = tanh(%y) return %z, %y }", " %z = relu(%y) %m = mean(%z) dims=[0,2] return %m }",
          " %s = softmax(%y) dims=[1] return %s }"}) {
        const Graph g = parse(graph(tail));
        const Plan ready = plan_for_cpu(g);
        EXPECT_TRUE(goes(std::get<1>(GetParam()), ready)) << how(ready);
        const auto leaves = random_leaves(g, 31);
        for (Layout layout : {Layout::contiguous, Layout::channels_last, Layout::reversed, Layout::gaps})
            expect_matches_reference(
                g, leaves, {.inputs = layout, .outputs = layout, .tolerance = 2e-5, .freeze = layout == Layout::gaps});
        const auto one = run_cpu(ready, leaves, {.threads = 1});
        for (int threads : {2, 3, 7}) EXPECT_EQ(one, run_cpu(ready, leaves, {.threads = threads}));
    }
}

TEST_P(Lines, OtherDtypes) {
    for (const char* dtype : {"f16", "bf16", "f64"}) {
        std::string text = graph(" return %y }");
        for (size_t at; (at = text.find("f32[")) != std::string::npos;) text.replace(at, 3, dtype);
        const Graph g = parse(text);
        expect_matches_reference(g, random_leaves(g, 32), {.tolerance = tolerance_of(g[g.outputs()[0]].type.dtype)});
    }
}

TEST_P(Lines, ComputeWithNothingUnwritten) {
    const Graph g = parse(graph(" %z = tanh(%y) return %z, %y }"));
    const Plan ready = plan_for_cpu(g);
    const auto leaves = random_leaves(g, 33);
    for (Layout layout : {Layout::contiguous, Layout::channels_last}) {
        const auto want = run_cpu(ready, leaves, {.inputs = layout, .outputs = layout, .threads = 1});
        cpu::Scratch::found = cpu::Scratch::Found::poison;
        std::feclearexcept(FE_ALL_EXCEPT);
        const auto got = run_cpu(ready, leaves, {.inputs = layout, .outputs = layout, .threads = 1});
        cpu::Scratch::found = cpu::Scratch::Found::anything;
        EXPECT_FALSE(std::fetestexcept(FE_INVALID));
        EXPECT_EQ(want, got);
    }
}

// Sums of pairs make NaN of infinities; the result must not show it.
TEST_P(Lines, InfinityIsThatOfThePlainSum) {
    const Graph g = parse(graph(" return %y }"));
    const Plan ready = plan_for_cpu(g);
    auto leaves = random_leaves(g, 34);
    leaves[0][leaves[0].size() / 2] = std::numeric_limits<double>::infinity();
    if (std::string(shape().name) == "Prologue") return;  // cos of it is NaN
    const auto got = run_cpu(ready, leaves, {})[0], want = evaluate(g, leaves)[0];
    for (size_t i = 0; i < want.size(); ++i) {
        if (std::isfinite(want[i]))
            EXPECT_NEAR(got[i], want[i], 2e-5 * std::max(1.0, std::fabs(want[i])) * 8);
        else
            EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << got[i] << " " << want[i];
    }
}

INSTANTIATE_TEST_SUITE_P(CpuChannels, Lines,
                         testing::Combine(testing::ValuesIn(channel_shapes), testing::Values(cpu::DenseWay::channels)),
                         [](const auto& info) { return std::string(std::get<0>(info.param).name); });
INSTANTIATE_TEST_SUITE_P(Cpu, Lines,
                         testing::Combine(testing::ValuesIn(shapes),
                                          testing::Values(cpu::DenseWay::lines, cpu::DenseWay::shared_lines)),
                         [](const auto& info) {
                             const bool shared = std::get<1>(info.param) == cpu::DenseWay::shared_lines;
                             return std::string(std::get<0>(info.param).name) + (shared ? "Shared" : "");
                         });

// Rows of a plane that lie a little farther apart than they are long; some meet no input.
TEST(CpuLines, OperandsBesideSharedLines) {
    const DenseBy lines(cpu::DenseWay::shared_lines);
    const Graph g = parse(
        "graph g { %x = input f64[3,4,7,1,2] %w = param f64[1,4,2,3,3,2] %y = lattice(%x, %w) groups=1 down=[3,2,1] "
        "offset=[-1,0,1] out=[4,2,1] %c = input f64[3,2,4,1,1] %d = input f64[3,2,4,2,1] %e = div(%y, %c) %f = "
        "mul(%y, %d) %m = sum(%f) dims=[3] return %e, %m }");
    expect_matches_reference(g, random_leaves(g, 31), {.tolerance = 1e-11});
}

TEST(CpuLines, PoolsInTheTile) {
    const DenseBy lines(cpu::DenseWay::lines);
    for (const char* text :
         {"graph g { %x = input f32[3,64,7,9] %w = param f32[40,64,3,3] %y = conv(%x, %w) padding=[1,1] %p = "
          "max_pool(%y) kernel=[2,3] %t = tanh(%p) return %t }",
          "graph g { %x = input f32[2,64,5,6] %w = param f32[64,32,4,4] %y = conv_transpose(%x, %w) stride=[2,2] "
          "padding=[1,1] %p = max_pool(%y) kernel=[3,2] %m = mean(%p) dims=[2,3] return %m, %p }"}) {
        const Graph g = parse(text);
        EXPECT_TRUE(by_lines(plan_for_cpu(g))) << how(plan_for_cpu(g));
        expect_matches_reference(g, random_leaves(g, 35), {});
    }
}

// Weights of a plan that is not frozen may change at any time, and in any single number.
TEST(CpuLines, ChangedWeightsAreSeen) {
    const DenseBy lines(cpu::DenseWay::lines);
    for (const char* text : {"graph g { %x = input f32[2,32,5,5] %w = param f32[32,32,3,3] %y = conv(%x, %w) "
                             "padding=[1,1] return %y }",
                             "graph g { %x = input f32[2,5,33,70] %w = param f32[5,4,3,3] %y = conv_transpose(%x, %w) "
                             "return %y }"}) {
        const Graph g = parse(text);
        const Plan ready = plan_for_cpu(g);
        auto leaves = random_leaves(g, 36);
        HostTensor x(g[g.leaves()[0]].type, Layout::contiguous), w(g[g.leaves()[1]].type, Layout::contiguous),
            y(g[g.outputs()[0]].type, Layout::contiguous);
        x.fill(leaves[0]);
        for (bool freeze : {false, true}) {
            CompileOptions options;
            options.freeze = freeze;
            const auto engine = compile_cpu(ready, options);
            std::vector<char> workspace(engine->workspace_bytes() + 256);
            RunContext context;
            context.workspace =
                reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 255) / 256 * 256);
            const auto run = [&](const std::vector<double>& weights) {
                w.fill(weights);
                const TensorView in[] = {x.view(), w.view()}, out[] = {y.view()};
                engine->run(in, out, context);
                return y.values();
            };
            const auto first = run(leaves[1]);
            for (size_t i = 0; i < leaves[1].size(); i += 1 + leaves[1].size() / 50) {
                auto changed = leaves[1];
                changed[i] = -changed[i];  // one bit
                if (freeze) {
                    EXPECT_EQ(run(changed), first);
                    continue;
                }
                const auto got = run(changed);
                EXPECT_NE(got, first);
                std::string why;
                EXPECT_TRUE(close({got}, evaluate(g, {leaves[0], changed}), 1e-5, &why)) << why;
                changed[i + 1] = -changed[i + 1];
                EXPECT_NE(run(changed), got);
            }
            EXPECT_EQ(run(leaves[1]), first);
        }
    }
}

// Any bit, at any length; the same bit of two numbers wherever they stand, which a sum of multiples would not tell from
// none; and numbers that trade places.
TEST(CpuLines, ContentTellsOfEveryChange) {
    const cpu::LevelList levels = cpu::available_levels();
    for (const cpu::Level* const* at = levels.begin; at != levels.begin + levels.count; ++at) {
        const auto of = [&](const std::vector<uint64_t>& memory, size_t bytes) {
            std::array<uint64_t, 2> words;
            (*at)->content(words.data(), memory.data(), static_cast<int64_t>(bytes));
            return words;
        };
        std::vector<uint64_t> memory(300);
        std::mt19937_64 random(38);
        for (const bool zeros : {true, false}) {
            if (!zeros) std::generate(memory.begin(), memory.end(), random);
            std::set<std::array<uint64_t, 2>> seen{of(memory, 2400)};
            size_t made = 1;
            const auto differs = [&](std::vector<uint64_t> changed) {
                seen.insert(of(changed, 2400));
                ++made;
            };
            for (size_t i = 0; i < memory.size(); ++i)
                for (const int bit : {0, 31, 62, 63}) {
                    auto changed = memory;
                    changed[i] ^= uint64_t{1} << bit;
                    differs(changed);
                    for (const size_t ahead : {1, 8, 16, 32, 64, 128}) {
                        if (i + ahead >= memory.size()) continue;
                        auto both = changed;
                        both[i + ahead] ^= uint64_t{1} << bit;
                        differs(both);
                    }
                }
            for (size_t i = 1; !zeros && i < memory.size(); ++i) {
                auto changed = memory;
                std::swap(changed[0], changed[i]);
                differs(changed);
            }
            EXPECT_EQ(seen.size(), made) << (*at)->name;
        }
        for (size_t bytes = 1; bytes < 1100; ++bytes) {  // nothing behind is looked at, and everything before
            auto changed = memory;
            auto* last = reinterpret_cast<unsigned char*>(changed.data()) + bytes - 1;
            last[1] ^= 1;
            EXPECT_EQ(of(changed, bytes), of(memory, bytes)) << (*at)->name << " " << bytes;
            last[0] ^= 1;
            EXPECT_NE(of(changed, bytes), of(memory, bytes)) << (*at)->name << " " << bytes;
        }
    }
}

// What is kept goes with its plan, and never grows beyond its bound.
TEST(CpuLines, KeptWeightsAreBounded) {
    const size_t before = cpu::KeptWeights::kept_bytes();
    constexpr int64_t bytes = int64_t{300} << 20;
    const float w[4] = {1, 2, 3, 4};
    const TensorView view{const_cast<float*>(w), DType::f32, {1, 2, 2}, {4, 2, 1}};
    int packs = 0;
    {
        std::vector<cpu::KeptWeights> many(5);
        const auto use = [&](size_t i) {
            many[i].get(view, i % 2 == 0, 1, bytes, [&](void*) { ++packs; });
            EXPECT_LE(cpu::KeptWeights::kept_bytes(), cpu::KeptWeights::most_bytes);
        };
        for (size_t i = 0; i < 3; ++i) use(i);
        for (size_t i = 0; i < 3; ++i) use(i);
        EXPECT_EQ(packs, 3);
        use(0), use(3);  // 1 was not used for longest
        EXPECT_EQ(packs, 4);
        use(0), use(2), use(3);
        EXPECT_EQ(packs, 4);
        use(1);
        EXPECT_EQ(packs, 5);
    }
    EXPECT_EQ(cpu::KeptWeights::kept_bytes(), before);
}

// Where no pass expresses what a convolution stands in, it goes alone, and is as exact as what goes step by step.
TEST(CpuLines, AloneInFp64) {
    for (const char* text :
         {"graph g { %x = input f32[2,48,12,11] %w = param f32[48,40,3,3] %b = param f32[40] %y = conv_transpose(%x, "
          "%w, %b) stride=[2,1] return %y }",
          "graph g { %x = input f16[1,36,24,25] %w = param f16[12,6,5,5] %y = conv(%x, %w) groups=6 return %y }",
          "graph g { %x = input f32[3,5,4000] %w = param f32[7,5,3] %y = conv(%x, %w) return %y }"}) {
        const Plan ready = plan_for_cpu(parse(text));
        const Graph& graph = ready.graph;
        const Node& node = graph[ready.passes.back().anchor];
        ASSERT_EQ(node.op, Op::lattice);
        auto leaves = random_leaves(graph, 37);
        std::vector<HostTensor> tensors;
        for (size_t i = 0; i < leaves.size(); ++i) {
            const Type& type = graph[graph.leaves()[i]].type;
            leaves[i] = rounded(leaves[i], type.dtype);
            tensors.emplace_back(type, Layout::contiguous).fill(leaves[i]);
        }
        HostTensor y({DType::f64, node.type.shape}, Layout::channels_last);
        std::vector<TensorView> leaf_views, args;
        for (HostTensor& t : tensors) leaf_views.push_back(t.view());
        const cpu::Memory memory(ready, leaf_views, {});
        for (ValueId arg : node.args) args.push_back(memory.source(arg));
        ASSERT_TRUE(cpu::evaluate_lattice_dense(node, args, y.view(), 2));
        std::string why;
        EXPECT_TRUE(close({y.values()}, evaluate(graph, leaves), 1e-13, &why)) << why;
        EXPECT_TRUE(y.guards_hold());
    }
}

// Groups of few channels, as they come.
TEST(CpuLines, RandomGroups) {
    for (uint64_t seed = 1; seed <= 240 && !HasFailure(); ++seed) {
        const bool apart = seed > 160;
        const DenseBy way(apart ? cpu::DenseWay::channels : cpu::DenseWay::shared_lines);
        Random random(seed);
        const auto axes = static_cast<size_t>(random.between(1, 3));
        const int64_t groups = random.between(2, 40), in = groups * (apart ? 1 : random.between(1, 3)),
                      out = groups * random.between(1, 5);
        const tests::Layer layer = tests::Layer::random(random, axes, groups);
        Sizes x{random.between(1, 4), in};
        for (size_t a = 0; a < axes; ++a) x.push_back(random.between(5, axes == 1 ? 80 : axes == 2 ? 20 : 8));
        std::string weight = layer.weight(in, out);
        weight.replace(weight.find("f64"), 3, "f32");
        const auto g = tests::valid("%x = input f32" + tests::list(x) + " %w = " + weight +
                                    " %y = " + layer.call("%x, %w") + " %r = relu(%y) return %r");
        if (!g) continue;
        expect_matches_reference(*g, random_leaves(*g, seed),
                                 {.inputs = seed % 2 ? Layout::contiguous : Layout::channels_last,
                                  .outputs = seed % 3 ? Layout::contiguous : Layout::channels_last,
                                  .tolerance = 2e-5});
    }
}

// Channels, extents, taps, strides, dilations and padding as they come.
TEST(CpuLines, RandomConvolutions) {
    for (uint64_t seed = 1; seed <= 160 && !HasFailure(); ++seed) {
        const DenseBy lines(seed <= 120 ? cpu::DenseWay::lines : cpu::DenseWay::shared_lines);
        Random random(seed);
        const auto axes = static_cast<size_t>(random.between(1, 3));
        const bool transposed = random.chance(0.5);
        const int64_t in = random.between(16, 90), outs = random.between(24, 70), batch = random.between(1, 5);
        std::string extent, taps, stride, padding, dilation;
        for (size_t a = 0; a < axes; ++a) {
            const int64_t k = random.between(1, axes == 3 ? 3 : 5), d = random.chance(0.8) ? 1 : 2;
            const int64_t size = random.between(k * d, axes == 1 ? 60 : axes == 2 ? 14 : 7);
            const auto append = [&](std::string& list, int64_t v) { list += (a ? "," : "") + std::to_string(v); };
            append(extent, size), append(taps, k), append(stride, random.between(1, 4)), append(dilation, d);
            append(padding, random.between(0, (k - 1) * d / 2));
        }
        const std::string weight =
            std::to_string(transposed ? in : outs) + "," + std::to_string(transposed ? outs : in) + "," + taps + "]";
        const Graph g = parse("graph g { %x = input f32[" + std::to_string(batch) + "," + std::to_string(in) + "," +
                              extent + "] %w = param f32[" + weight + " %b = param f32[" + std::to_string(outs) +
                              "] %y = " + (transposed ? "conv_transpose" : "conv") + "(%x, %w, %b) stride=[" + stride +
                              "] padding=[" + padding + "] dilation=[" + dilation + "] %r = relu(%y) return %r }");
        expect_matches_reference(g, random_leaves(g, seed),
                                 {.inputs = seed % 2 ? Layout::contiguous : Layout::channels_last,
                                  .outputs = seed % 3 ? Layout::contiguous : Layout::channels_last,
                                  .tolerance = 2e-5});
    }
}

}  // namespace
}  // namespace transfuse
