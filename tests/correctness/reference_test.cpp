// The reference engine against results worked out by hand and against identities that hold for every input: transposes,
// definitions, and one op written with others.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "one_statement.h"
#include "random_graphs.h"
#include "transfuse/engine.h"

namespace transfuse {
namespace {

using Values = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Values result(const std::string& inputs, const std::string& statement, const std::vector<Values>& leaves,
              Arithmetic arithmetic = Arithmetic::f64) {
    return evaluate(parse(one_statement(inputs, statement)), leaves, arithmetic)[0];
}

void expect_near(const Values& got, const Values& expected, double tolerance = 1e-12) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i]) || std::isinf(expected[i]))
            EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])))
                << i << ": " << got[i];
        else
            EXPECT_NEAR(got[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
    }
}

Values random_values(int64_t count, uint64_t seed) {
    Random random(seed);
    Values values(static_cast<size_t>(count));
    for (double& value : values) value = random.uniform(-1, 1);
    return values;
}

double dot(const Values& a, const Values& b) {
    EXPECT_EQ(a.size(), b.size());
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

TEST(ReferenceConv, ByHand) {
    // x = [1, 2], w = [1, 10, 100], stride 2: 1, 10, 100+2, 20, 200
    expect_near(result("x f64[1,1,2]; w f64[1,1,3]", "conv_transpose(%x, %w) stride=2", {{1, 2}, {1, 10, 100}}),
                {1, 10, 102, 20, 200});
    expect_near(result("x f64[1,1,2]; w f64[1,1,3]", "conv_transpose(%x, %w) stride=2 padding=1 output_padding=1",
                       {{1, 2}, {1, 10, 100}}),
                {10, 102, 20, 200});
    expect_near(
        result("x f64[1,2]; w f64[1,1,2]; b f64[1]", "conv_transpose(%x, %w, %b) dilation=2", {{1, 2}, {1, 10}, {5}}),
        {6, 7, 15, 25});
    expect_near(result("x f64[1,1,4]; w f64[1,1,2]", "conv(%x, %w) stride=2 padding=1", {{1, 2, 3, 4}, {1, 10}}),
                {10, 32, 4});
    // Two groups of one channel: each weight sees its own.
    expect_near(result("x f64[1,2,1]; w f64[2,2,1]", "conv_transpose(%x, %w) groups=2", {{1, 10}, {2, 3, 5, 7}}),
                {2, 3, 50, 70});
    expect_near(result("x f64[1,1,2,2]", "upsample(%x) scale=[1,2]", {{1, 2, 3, 4}}), {1, 1, 2, 2, 3, 3, 4, 4});
}

// conv_transpose and conv through their lattices: two definitions of one thing.
TEST(ReferenceLattice, AgreesWithTheOpsItGeneralises) {
    int seen = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
        const Graph g = random_graph(seed);
        for (ValueId id = 0; id < g.size(); ++id) {
            const Node& node = g[id];
            if (node.op != Op::conv_transpose && node.op != Op::conv) continue;
            const int64_t groups = node.attributes.integer(Key::groups), in_channels = g[node.args[0]].type.shape[1];
            const Sizes& weight_shape = g[node.args[1]].type.shape;
            Builder b("direct"), l("lattice");
            std::vector<ValueId> direct, args;
            for (size_t i = 0; i < node.args.size(); ++i) {
                direct.push_back(b.input("a" + std::to_string(i), g[node.args[i]].type));
                args.push_back(l.input("a" + std::to_string(i), g[node.args[i]].type));
            }
            direct = {b.add(node.op, direct, node.attributes)};
            Sizes canonical{groups, in_channels / groups, node.type.shape[1] / groups};
            canonical.insert(canonical.end(), weight_shape.begin() + 2, weight_shape.end());
            ValueId w = args[1];
            if (node.op == Op::conv) {  // [G, Cout/G, Cin/G, K…], taps flipped
                std::swap(canonical[1], canonical[2]);
                w = l.reshape(w, canonical);
                Sizes order, taps;
                for (int64_t axis = 0; axis < static_cast<int64_t>(canonical.size()); ++axis) {
                    order.push_back(axis == 1 ? 2 : axis == 2 ? 1 : axis);
                    if (axis >= 3) taps.push_back(axis);
                }
                w = l.add(Op::flip, {l.add(Op::permute, {w}, {{Key::order, order}})}, {{Key::dims, taps}});
            } else {
                w = l.reshape(w, canonical);
            }
            const ValueId y = l.lattice(args[0], w, args.size() > 2 ? args[2] : -1, lattices(g, id), groups);
            const Graph one = b.finish(direct), two = l.finish({y});
            const auto leaves = random_leaves(one, seed);
            expect_near(evaluate(two, leaves)[0], evaluate(one, leaves)[0]);
            ++seen;
        }
    }
    EXPECT_GT(seen, 300);
}

// ⟨lattice(x, w), g⟩ = ⟨w, correlate(x, g)⟩ for any relation whatever.
TEST(ReferenceLattice, CorrelateIsItsTransposeInTheWeight) {
    Random random(7);
    for (int trial = 0; trial < 200; ++trial) {
        const int64_t d = random.between(1, 3), groups = random.between(1, 2), n = random.between(1, 2);
        const int64_t cin = groups * random.between(1, 2), cout = groups * random.between(1, 2);
        Sizes x{n, cin}, g{n, cout}, w{groups, cin / groups, cout / groups}, up, down, dil, offset, out, taps;
        for (int64_t j = 0; j < d; ++j) {
            x.push_back(random.between(1, 4));
            out.push_back(random.between(1, 5));
            taps.push_back(random.between(1, 3));
            for (Sizes* list : {&up, &down, &dil}) list->push_back(random.between(1, 3));
            offset.push_back(random.between(-4, 4));
        }
        g.insert(g.end(), out.begin(), out.end());
        w.insert(w.end(), taps.begin(), taps.end());
        const std::string relation = " up=" + to_string(up) + " down=" + to_string(down) + " dil=" + to_string(dil) +
                                     " offset=" + to_string(offset);
        const Values xs = random_values(numel(x), trial), ws = random_values(numel(w), trial + 1000),
                     gs = random_values(numel(g), trial + 2000);
        const Values y = result("x f64" + to_string(x) + "; w f64" + to_string(w),
                                "lattice(%x, %w) out=" + to_string(out) + relation, {xs, ws});
        const Values dw = result(
            "x f64" + to_string(x) + "; g f64" + to_string(g),
            "correlate(%x, %g) groups=" + std::to_string(groups) + " taps=" + to_string(taps) + relation, {xs, gs});
        EXPECT_NEAR(dot(y, gs), dot(ws, dw), 1e-12);
    }
}

TEST(ReferencePool, ByHand) {
    const Values x{1, 5, 2, 4, 3};
    expect_near(result("x f64[1,1,5]", "max_pool(%x) kernel=[2]", {x}), {5, 4});
    expect_near(result("x f64[1,1,5]", "max_pool(%x) kernel=[2] ceil_mode=1", {x}), {5, 4, 3});
    expect_near(result("x f64[1,1,5]", "min_pool(%x) kernel=[2] padding=[1]", {x}), {1, 2, 3});
    expect_near(result("x f64[1,1,5]", "max_pool(%x) kernel=[2] stride=[1] dilation=[3]", {x}), {4, 5});
    expect_near(result("x f64[1,1,5]", "max_pool(%x) kernel=[2]", {{1, nan, 2, 4, 3}}), {nan, 4});
    expect_near(result("x f64[1,1,5]", "avg_pool(%x) kernel=[2] padding=[1]", {x}), {0.5, 3.5, 3.5});
    expect_near(result("x f64[1,1,5]", "avg_pool(%x) kernel=[2] padding=[1] count_include_pad=0", {x}), {1, 3.5, 3.5});
    // The last window of ceil_mode hangs over: what lies beyond the padding never counts.
    expect_near(result("x f64[1,1,5]", "avg_pool(%x) kernel=[4] padding=[1] stride=[3] ceil_mode=1", {x}),
                {2, 9.0 / 4});
    expect_near(result("x f64[1,1,5]", "avg_pool(%x) kernel=[3] stride=[3] ceil_mode=1", {x}), {8.0 / 3, 3.5});
    expect_near(result("x f64[1,1,5]", "avg_pool(%x) kernel=[2] divisor=4", {x}), {1.5, 1.5});
    expect_near(result("x f64[1,1,5]", "adaptive_avg_pool(%x) output_size=[2]", {x}), {8.0 / 3, 3});
    expect_near(result("x f64[1,1,5]", "adaptive_max_pool(%x) output_size=[3]", {x}), {5, 5, 4});
}

// The gradient goes to the first of the largest.
TEST(ReferencePool, MaxGradientByHand) {
    expect_near(result("x f64[1,1,4]; g f64[1,1,2]", "max_pool_grad(%x, %g) kernel=[2]", {{3, 3, 1, 2}, {10, 20}}),
                {10, 0, 0, 20});
    expect_near(
        result("x f64[1,1,3]; g f64[1,1,2]", "max_pool_grad(%x, %g) kernel=[2] stride=[1]", {{1, 3, 2}, {10, 20}}),
        {0, 30, 0});
    expect_near(result("x f64[1,1,3]; g f64[1,1,2]", "max_pool_grad(%x, %g) output_size=[2]", {{1, 3, 2}, {10, 20}}),
                {0, 30, 0});
}

TEST(ReferencePool, AverageGradientIsItsTranspose) {
    const char* windows[] = {"kernel=[3,2] stride=[2,1] padding=[1,1]",
                             "kernel=[3,2] stride=[2,1] padding=[1,0] count_include_pad=0",
                             "kernel=[2,3] stride=[2,2] ceil_mode=1", "kernel=[2,2] divisor=3", "output_size=[3,2]"};
    for (const std::string window : windows) {
        const bool adaptive = window.starts_with("output");
        const Graph pool =
            parse(one_statement("x f64[2,3,7,5]", (adaptive ? "adaptive_avg_pool(%x) " : "avg_pool(%x) ") + window));
        const Type pooled = pool[pool.outputs()[0]].type;
        const Values x = random_values(210, 1), g = random_values(numel(pooled.shape), 2);
        const Values dx = result("g " + to_string(pooled), "avg_pool_grad(%g) sizes=[7,5] " + window, {g});
        EXPECT_NEAR(dot(evaluate(pool, {x})[0], g), dot(x, dx), 1e-12) << window;
    }
}

TEST(ReferencePointwise, ByHand) {
    const struct {
        const char* op;
        double x, y;
    } cases[] = {{"relu(%x)", -2, 0},
                 {"relu(%x)", nan, nan},
                 {"leaky_relu(%x) negative_slope=0.1", -2, -0.2},
                 {"elu(%x) alpha=2", -1, 2 * std::expm1(-1)},
                 {"selu(%x)", -1, 1.0507009873554805 * 1.6732632423543772 * std::expm1(-1)},
                 {"gelu(%x)", 1, 0.8413447460685429},
                 {"gelu(%x) approximate=1", 1, 0.8411919906082768},
                 {"silu(%x)", 1, 0.7310585786300049},
                 {"mish(%x)", 1, 0.8650983882673103},
                 {"mish(%x)", 800, 800},
                 {"softplus(%x)", 1, 1.3132616875182228},
                 {"softplus(%x) beta=2 threshold=4", 3, 3},
                 {"hardsigmoid(%x)", 1, 4.0 / 6},
                 {"hardswish(%x)", 1, 4.0 / 6},
                 {"hardtanh(%x)", -3, -1},
                 {"clamp(%x) lo=2 hi=1", 0, 1},
                 {"clamp(%x) lo=0", nan, nan},
                 {"sign(%x)", -3, -1},
                 {"rsqrt(%x)", 4, 0.5},
                 {"maximum(%x, nan)", 1, nan},
                 {"minimum(nan, %x)", 1, nan},
                 {"pow(%x, 2)", -3, 9},
                 {"greater(%x, 3)", 3, 0},
                 {"greater_equal(%x, 3)", 3, 1},
                 {"equal(%x, 3)", 3, 1},
                 {"select(%x, 5, 7)", 0, 7},
                 {"prelu(%x, 0.5)", -3, -1.5}};
    for (const auto& c : cases) {
        SCOPED_TRACE(c.op);
        expect_near(result("x f64[1]", c.op, {{c.x}}), {c.y});
    }
}

TEST(ReferencePointwise, Broadcasts) {
    expect_near(result("a f64[2,1]; b f64[3]", "add(%a, %b)", {{10, 20}, {1, 2, 3}}), {11, 12, 13, 21, 22, 23});
    expect_near(result("a f64[1,2,2]; w f64[2]", "prelu(%a, %w)", {{-1, -2, -3, 4}, {10, 100}}), {-10, -20, -300, 4});
}

TEST(ReferenceReduce, ByHand) {
    const Values x{1, 2, 3, 4, 5, 6};
    expect_near(result("x f64[2,3]", "sum(%x) dims=[0]", {x}), {5, 7, 9});
    expect_near(result("x f64[2,3]", "mean(%x) dims=[-1] keepdim=1", {x}), {2, 5});
    expect_near(result("x f64[2,3]", "amax(%x)", {x}), {6});
    expect_near(result("x f64[2,3]", "amin(%x) dims=[1]", {{1, nan, 3, 4, 5, 6}}), {nan, 4});
    expect_near(result("x f64[2,3]", "var(%x) dims=[1]", {x}), {1, 1});
    expect_near(result("x f64[2,3]", "var(%x) dims=[1] correction=0", {x}), {2.0 / 3, 2.0 / 3});
    expect_near(result("x f64[1,3]", "var(%x) dims=[0]", {{1, 2, 3}}), {nan, nan, nan});
    expect_near(result("x f64[2]", "logsumexp(%x)", {{1000, 1000}}), {1000 + std::log(2)});
    expect_near(result("x f64[2]", "logsumexp(%x)", {{-inf, -inf}}), {-inf});
    expect_near(result("x f64[2]", "logsumexp(%x)", {{inf, 1}}), {inf});
    expect_near(result("x f64[0,2]", "sum(%x) dims=[0]", {{}}), {0, 0});
    expect_near(result("x f64[0,2]", "mean(%x) dims=[0]", {{}}), {nan, nan});
    expect_near(result("x f64[2,2]", "softmax(%x) dims=[1]", {{0, 0, 1000, 0}}), {0.5, 0.5, 1, 0});
    expect_near(result("x f64[2,2]", "softmax(%x) dims=[0,1]", {{0, 0, 0, 0}}), {0.25, 0.25, 0.25, 0.25});
    expect_near(result("x f64[2]", "log_softmax(%x) dims=[0]", {{1000, 0}}), {0, -1000});
}

TEST(ReferenceNorm, ByHand) {
    // Each pair (1, 3) has mean 2 and variance 1.
    const Values x{1, 3, 11, 13};
    expect_near(result("x f64[1,2,2]", "instance_norm(%x) eps=0", {x}), {-1, 1, -1, 1});
    expect_near(
        result("x f64[1,2,2]; w f64[2]; b f64[2]", "batch_norm(%x, %w, %b) training=1 eps=3", {x, {2, 4}, {1, 0}}),
        {0, 2, -2, 2});
    expect_near(result("x f64[2,1,2]", "batch_norm(%x) training=1 eps=0", {{1, 3, 3, 1}}), {-1, 1, 1, -1});
    expect_near(result("x f64[1,2,2]; m f64[2]; v f64[2]", "batch_norm(%x, %m, %v) eps=0", {x, {1, 11}, {4, 1}}),
                {0, 1, 0, 2});
    expect_near(result("x f64[1,2,2]", "group_norm(%x) num_groups=1 eps=0", {{1, 3, 1, 3}}), {-1, 1, -1, 1});
    expect_near(result("x f64[1,2,2]; w f64[2]", "layer_norm(%x, %w) normalized_shape=[2] eps=0", {x, {10, 100}}),
                {-10, 100, -10, 100});
    expect_near(result("v f64[2,2]; g f64[2,1]", "weight_norm(%v, %g)", {{3, 4, 0, 2}, {10, 1}}), {6, 8, 0, 1});
    expect_near(result("v f64[2,2]; g f64[1,2]", "weight_norm(%v, %g) axis=1", {{3, 0, 4, 2}, {10, 1}}), {6, 0, 8, 1});
}

TEST(ReferenceShape, ByHand) {
    const Values x{0, 1, 2, 3, 4, 5};
    expect_near(result("x f64[2,3]", "permute(%x) order=[1,0]", {x}), {0, 3, 1, 4, 2, 5});
    expect_near(result("x f64[2,1]", "expand(%x) shape=[2,2,2]", {{1, 2}}), {1, 1, 2, 2, 1, 1, 2, 2});
    expect_near(result("a f64[2,1]; b f64[2,2]", "concat(%a, %b) axis=1", {{1, 2}, {3, 4, 5, 6}}), {1, 3, 4, 2, 5, 6});
    expect_near(result("x f64[6]", "slice(%x) axis=0 start=-5 end=-1 step=2", {x}), {1, 3});
    expect_near(result("x f64[2,3]", "pad(%x) start=[0,1] end=[1,-2] value=9", {x}), {9, 0, 9, 3, 9, 9});
    expect_near(result("x f64[2,3]", "flip(%x) dims=[0]", {x}), {3, 4, 5, 0, 1, 2});
    expect_near(result("x f64[2,3]", "constant() dtype=f64 shape=[2] values=[7,8]", {x}), {7, 8});
    expect_near(result("w f64[1,3]", "taps(%w) axis=1 rows=2 matrix=[0,0,1, 1,1,0]", {{1, 10, 100}}), {100, 11});
}

TEST(ReferenceBox, SumsAndSpreadsAreTransposes) {
    // Boxes: intervals {0..3, 1,3} on axis 2 by {0..2} on axis 3.
    const std::string boxes = " dims=[2,3] counts=[2,1] los=[0,1,0] his=[3,3,2] steps=[1,2,1]";
    const Values x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    expect_near(result("x f64[1,1,4,3]", "box_sums(%x)" + boxes, {x}), {78, 4 + 5 + 6 + 10 + 11 + 12});
    const Values big = random_values(2 * 3 * 4 * 3 * 2, 1), h = random_values(2 * 6 * 2, 2);
    const Values sums = result("x f64[2,3,4,3,2]", "box_sums(%x)" + boxes, {big});
    const Values spread = result("h f64[2,6,1,1,2]", "box_spread(%h) sizes=[4,3]" + boxes, {h});
    EXPECT_NEAR(dot(sums, h), dot(big, spread), 1e-12);
}

TEST(ReferenceRounding, FollowsTheDtype) {
    expect_near(result("x f16[3]", "mul(%x, 1)", {{2049, 1e-8, 70000}}, Arithmetic::as_typed), {2048, 0, inf}, 0);
    expect_near(result("x bf16[2]", "add(%x, 1)", {{256, 1.00390625}}, Arithmetic::as_typed), {256, 2}, 0);
    expect_near(result("x f32[1]", "add(%x, 1e-9)", {{1}}, Arithmetic::as_typed), {1}, 0);
    expect_near(result("x f32[1]", "add(%x, 1e-9)", {{1}}, Arithmetic::f64), {1 + 1e-9}, 0);
    expect_near(result("x f64[1]", "cast(%x) dtype=f16", {{0.1}}, Arithmetic::as_typed), {0.0999755859375}, 0);
    expect_near(result("x f64[1]", "mul(%x, 0.1)", {{3}}, Arithmetic::as_typed), {3 * 0.1},
                0);  // numbers are not rounded
}

}  // namespace
}  // namespace transfuse
