// Pairs of rows from fewer products: the algebra alone, then inside the dense pass.
#include <array>
#include <random>

#include "cpu/dense/cut/row_pairs.h"
#include "cpu_check.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

// y[u] and y[u + 1] from parts must be the plain sums, for every set of shifts: neighbours, gaps, and in any order.
TEST(RowPairs, PartsAddUpToThePlainSums) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (unsigned set = 1; set < 256; ++set) {
        std::vector<PhaseTap> taps;
        for (int64_t shift = 0; shift < 8; ++shift)
            if (set >> shift & 1) taps.push_back({7 - shift, shift - 3});
        std::shuffle(taps.begin(), taps.end(), random);
        std::vector<cpu::PairRow> rows;
        const std::vector<cpu::PairTerm> terms = cpu::pair_terms(taps, -3, rows);
        EXPECT_LE(terms.size(), 2 * taps.size());
        std::vector<double> x(12), w(8);
        for (double& v : x) v = uniform(random);
        for (double& v : w) v = uniform(random);
        double want[2] = {0, 0}, part[cpu::pair_parts] = {};
        for (const PhaseTap& tap : taps)
            for (size_t u : {0, 1})
                want[u] += w[static_cast<size_t>(tap.tap)] * x[u + static_cast<size_t>(tap.shift + 3)];
        for (const cpu::PairTerm& term : terms) {
            const cpu::PairRow& row = rows[static_cast<size_t>(term.row)];
            double weight = 0;
            for (const cpu::PairTerm::Share& share : term.weight)
                weight += share.factor * w[static_cast<size_t>(share.tap)];
            part[static_cast<size_t>(term.part)] +=
                weight * (x[static_cast<size_t>(row.a)] + row.sign * x[static_cast<size_t>(row.b)]);
        }
        EXPECT_NEAR(part[0] + part[1] + part[2], want[0], 1e-14) << set;
        EXPECT_NEAR(part[1] - part[2] - part[3], want[1], 1e-14) << set;
    }
    std::vector<cpu::PairRow> rows;
    EXPECT_EQ(cpu::pair_terms({{0, 0}, {1, 1}, {2, 2}}, 0, rows).size(), 4u);
    EXPECT_EQ(cpu::pair_terms({{0, 0}, {1, 1}}, 0, rows).size(), 3u);
    EXPECT_EQ(cpu::pair_terms({{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}, 0, rows).size(), 7u);
}

struct Shape {
    const char* name;
    const char* text;
    bool paired = true, planes = false;
};

// Odd and even numbers of rows, strides, dilations, groups, three axes, pools, chunks of input channels.
const Shape shapes[] = {
    {"OddRows",
     "%x = input f32[2,16,13,37] %w = param f32[16,20,3,5] %b = param f32[20] %y = conv_transpose(%x, %w, %b)"},
    {"Padding", "%x = input f32[1,32,8,21] %w = param f32[32,5,3,3] %y = conv_transpose(%x, %w) padding=[1,1]"},
    {"StrideTwo",
     "%x = input f32[2,40,9,17] %w = param f32[40,6,4,4] %b = param f32[6] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2] "
     "padding=[1,1] output_padding=[1,1]"},
    {"StrideTwoOdd",
     "%x = input f32[1,40,7,9] %w = param f32[40,9,5,3] %b = param f32[9] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2] padding=[1,1]"},
    {"StrideThree",
     "%x = input f32[1,40,6,9] %w = param f32[40,8,7,4] %b = param f32[8] %y = conv_transpose(%x, %w, %b) "
     "stride=[3,3]"},
    {"PhaseWithoutTaps",
     "%x = input f32[1,40,7,9] %w = param f32[40,9,3,3] %b = param f32[9] %y = conv_transpose(%x, %w, "
     "%b) stride=[2,2] padding=[1,1] dilation=[2,2]"},
    {"Groups",
     "%x = input f32[2,48,11,19] %w = param f32[48,7,3,3] %b = param f32[21] %y = conv_transpose(%x, %w, %b) "
     "groups=3 padding=[1,0]"},
    {"ThreeAxes",
     "%x = input f32[1,24,5,9,14] %w = param f32[24,12,3,5,3] %b = param f32[12] %y = conv_transpose(%x, %w, "
     "%b) stride=[1,1,2]",
     true, true},
    // Planes in pairs: odd numbers of them, borders that cut taps, strides, groups, chunks of channels.
    {"OddPlanes",
     "%x = input f32[2,40,4,6,9] %w = param f32[40,9,4,3,3] %b = param f32[9] %y = conv_transpose(%x, %w, %b)", true,
     true},
    {"CutPlanes", "%x = input f32[1,48,7,7,8] %w = param f32[48,10,5,5,5] %y = conv_transpose(%x, %w) padding=[3,1,4]",
     true, true},
    {"StridedPlanes",
     "%x = input f32[1,64,5,6,7] %w = param f32[64,8,5,4,3] %b = param f32[8] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2,1] padding=[1,1,1]",
     true, true},
    {"GroupsOfPlanes",
     "%x = input f32[1,96,4,5,11] %w = param f32[96,5,3,3,3] %b = param f32[10] %y = conv_transpose(%x, %w, %b) "
     "groups=2 padding=[1,1,1]",
     true, true},
    {"ChunksOfPlanes",
     "%x = input f32[1,200,6,9,12] %w = param f32[200,36,3,5,3] %b = param f32[36] %y = conv_transpose(%x, %w, %b)",
     true, true},
    {"Chunks",
     "%x = input f32[1,300,6,40] %w = param f32[300,10,5,3] %b = param f32[10] %y = conv_transpose(%x, %w, %b)"},
    {"ChunksOfPhases",
     "%x = input f32[1,300,5,33] %w = param f32[300,10,6,6] %b = param f32[10] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,2]"},
    {"Convolution",
     "%x = input f32[2,24,14,23] %w = param f32[8,24,5,3] %b = param f32[8] %y = conv(%x, %w, %b) "
     "stride=[1,2] padding=[2,1]"},
    {"GapsBetweenTaps",
     "%x = input f32[2,24,14,23] %w = param f32[24,8,3,3] %y = conv_transpose(%x, %w) dilation=[2,1]", false},
    {"StridedRows", "%x = input f32[2,24,14,23] %w = param f32[8,24,5,3] %y = conv(%x, %w) stride=[2,1]", false},
    // Zeros between rows that are the end of one and the beginning of the next.
    {"WideKernel",
     "%x = input f32[2,24,9,13] %w = param f32[24,9,3,9] %b = param f32[9] %y = conv_transpose(%x, %w, %b)"},
    {"WideDilation",
     "%x = input f32[1,24,10,11] %w = param f32[24,9,3,3] %b = param f32[9] %y = conv_transpose(%x, %w, %b) "
     "dilation=[1,25] padding=[1,3]"},
    {"CutColumns",
     "%x = input f32[1,24,10,31] %w = param f32[24,9,3,5] %b = param f32[9] %y = conv_transpose(%x, %w, %b) "
     "padding=[0,8]"},
    {"WideThreeAxes",
     "%x = input f32[1,24,4,9,10] %w = param f32[24,12,3,5,5] %b = param f32[12] %y = conv_transpose(%x, %w, %b) "
     "stride=[2,1,1] output_padding=[1,0,0]",
     true, true},
    {"TwoRows", "%x = input f32[1,64,1,30] %w = param f32[64,8,2,3] %y = conv_transpose(%x, %w)"},
};

class Pairs : public testing::TestWithParam<Shape> {
    const DenseBy tiles_{cpu::DenseWay::tiles};
};

TEST_P(Pairs, MatchTheReference) {
    const std::string head = std::string("graph g { ") + GetParam().text;
    for (const char* tail : {" return %y }", " %z = tanh(%y) %m = mean(%z) dims=[2,3] return %m, %z }",
                             " %s = softmax(%y) dims=[1] return %s }"}) {
        const Graph graph = parse(head + tail);
        const Plan ready = plan_for_cpu(graph);
        const std::string how = compile_cpu(ready)->describe();
        EXPECT_EQ(how.find("paired rows") != std::string::npos, GetParam().paired) << how;
        EXPECT_EQ(how.find("paired rows and planes") != std::string::npos, GetParam().planes) << how;
        const auto leaves = random_leaves(graph, 11);
        for (Layout layout : {Layout::contiguous, Layout::channels_last, Layout::reversed})
            expect_matches_reference(graph, leaves, {.inputs = layout, .outputs = layout, .tolerance = 3e-5});
        EXPECT_EQ(run_cpu(ready, leaves, {.threads = 1}), run_cpu(ready, leaves, {.threads = 5}));
    }
}

TEST_P(Pairs, StoreHalfPrecision) {
    for (const char* dtype : {"f16", "bf16"}) {
        std::string text = std::string("graph g { ") + GetParam().text + " return %y }";
        for (size_t at; (at = text.find("f32[")) != std::string::npos;) text.replace(at, 3, dtype);
        const Graph graph = parse(text);
        const DType type = graph[graph.outputs()[0]].type.dtype;
        expect_matches_reference(graph, random_leaves(graph, 12), {.tolerance = tolerance_of(type)});
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Pairs, testing::ValuesIn(shapes), [](const auto& info) { return info.param.name; });

// An infinite or undefined input is in the result what it is in the plain sum, and where differences of inputs overflow
// the plain sum is taken.
class Overflow : public testing::TestWithParam<const char*> {
    const DenseBy tiles_{cpu::DenseWay::tiles};
};

TEST_P(Overflow, InfinityIsThatOfThePlainSum) {
    const Graph graph = parse(GetParam());
    const Plan ready = plan_for_cpu(graph);
    EXPECT_NE(compile_cpu(ready)->describe().find("paired rows"), std::string::npos);
    const bool planes = graph[graph.leaves()[0]].type.rank() == 5;  // then they are what is touched
    EXPECT_EQ(compile_cpu(ready)->describe().find("planes") != std::string::npos, planes);
    const auto leaves = random_leaves(graph, 14);
    const double inf = std::numeric_limits<double>::infinity();
    struct Poison {
        double here, two_rows_on;
    };
    for (const Poison poison : {Poison{inf, 0}, {-inf, 0}, {inf, inf}, {std::nan(""), 0}, {1.75e38, -1.75e38}})
        for (int64_t row = 0; row < 9; ++row) {
            auto touched = leaves;
            const auto put = [&](int64_t r, double value) {
                if (r < 9 && value != 0) touched[0][static_cast<size_t>((5 * 9 + r) * 12 + 6)] = value;
            };
            put(row, poison.here), put(row + 2, poison.two_rows_on);
            const auto got = run_cpu(ready, touched, {})[0], want = evaluate(graph, touched)[0];
            ASSERT_EQ(got.size(), want.size());
            for (size_t i = 0; i < want.size(); ++i) {
                if (!std::isfinite(want[i]))
                    EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
                        << poison.here << " in row " << row << ": " << got[i] << " instead of " << want[i];
                else
                    EXPECT_NEAR(got[i], want[i], 1e-5 * std::max(1.0, std::fabs(want[i])));
            }
        }
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, Overflow,
    testing::Values("graph g { %x = input f32[1,24,9,12] %w = param f32[24,8,3,3] %y = conv_transpose(%x, %w) "
                    "padding=[1,1] return %y }",
                    "graph g { %x = input f32[1,24,9,3,4] %w = param f32[24,8,3,3,3] %y = conv_transpose(%x, %w) "
                    "padding=[1,1,1] return %y }"));

TEST(RowPairs, PoolsAndPrologues) {
    const DenseBy tiles(cpu::DenseWay::tiles);
    const auto check = [](const std::string& text) {
        const Graph graph = parse(text);
        EXPECT_NE(compile_cpu(plan_for_cpu(graph))->describe().find("paired rows"), std::string::npos);
        expect_matches_reference(graph, random_leaves(graph, 13), {});
    };
    check(
        "graph g { %x = input f32[2,24,13,23] %w = param f32[24,9,3,3] %y = conv_transpose(%x, %w) padding=[1,1] %p = "
        "max_pool(%y) kernel=[3,2] %t = tanh(%p) return %t }");
    check(
        "graph g { %x = input f32[1,48,7,6,9] %w = param f32[48,9,3,3,3] %y = conv_transpose(%x, %w) padding=[1,1,1] "
        "%p = max_pool(%y) kernel=[3,2,2] return %p }");
    // cos(0) = 1: padding must stay zero all the same.
    check(
        "graph g { %x = input f32[2,24,9,10] %c = cos(%x) %w = param f32[24,7,4,4] %y = conv_transpose(%c, %w) "
        "stride=[2,2] padding=[1,1] return %y }");
}

// Volumes of many channels with taps, strides, dilations, padding and groups as they come.
TEST(RowPairs, RandomVolumes) {
    const DenseBy tiles(cpu::DenseWay::tiles);
    int planes = 0;
    for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
        Random random(seed);
        const int64_t groups = random.chance(0.2) ? 2 : 1, in = random.between(12, 40) * groups,
                      outs = random.between(4, 18);
        std::array<int64_t, 3> extent, taps, stride, dilation, padding, extra;
        for (size_t a = 0; a < 3; ++a) {
            extent[a] = random.between(1, 7), taps[a] = random.between(1, 5);
            stride[a] = random.chance(0.6) ? 1 : random.between(1, 3), dilation[a] = random.chance(0.8) ? 1 : 2;
            padding[a] = random.between(0, (taps[a] - 1) * dilation[a]);
            extra[a] = random.between(0, std::max(stride[a], dilation[a]) - 1);
            padding[a] = std::min(padding[a], ((extent[a] - 1) * stride[a] + dilation[a] * (taps[a] - 1)) / 2);
        }
        const auto list = [](const std::array<int64_t, 3>& v) {
            return std::to_string(v[0]) + "," + std::to_string(v[1]) + "," + std::to_string(v[2]) + "]";
        };
        const Graph graph =
            parse("graph g { %x = input f32[2," + std::to_string(in) + "," + list(extent) + " %w = param f32[" +
                  std::to_string(in) + "," + std::to_string(outs) + "," + list(taps) + " %b = param f32[" +
                  std::to_string(outs * groups) + "] %y = conv_transpose(%x, %w, %b) groups=" + std::to_string(groups) +
                  " stride=[" + list(stride) + " padding=[" + list(padding) + " dilation=[" + list(dilation) +
                  " output_padding=[" + list(extra) + " %r = relu(%y) %m = mean(%r) dims=[0,2,3,4] return %m, %r }");
        if (compile_cpu(plan_for_cpu(graph))->describe().find("rows and planes") == std::string::npos) continue;
        ++planes;
        expect_matches_reference(graph, random_leaves(graph, seed),
                                 {.inputs = seed % 2 ? Layout::contiguous : Layout::channels_last, .tolerance = 3e-5});
    }
    EXPECT_GT(planes, 15);
}

}  // namespace
}  // namespace transfuse
