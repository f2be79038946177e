// Gradients against finite differences in float64, through the reference engine: every primitive, random graphs, and
// the benchmark chains; before and after rewriting, and after rewriting the gradient itself.
#include <gtest/gtest.h>

#include <cmath>

#include "random_graphs.h"
#include "rows.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

using Values = std::vector<std::vector<double>>;

GradientRequest everything(const Graph& graph) {
    GradientRequest request;
    for (size_t i = 0; i < graph.outputs().size(); ++i) request.outputs.push_back(static_cast<ValueId>(i));
    for (size_t i = 0; i < graph.leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
    return request;
}

Values random_cotangents(const Graph& graph, uint64_t seed) {
    Random random(seed ^ 0xc0);
    Values result;
    for (ValueId id : graph.outputs()) {
        std::vector<double> values(static_cast<size_t>(numel(graph[id].type.shape)));
        for (double& value : values) value = random.uniform(-1, 1);
        result.push_back(std::move(values));
    }
    return result;
}

double inner(const Values& a, const Values& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
        for (size_t j = 0; j < a[i].size(); ++j) sum += a[i][j] * b[i][j];
    return sum;
}

double magnitude(const Values& a) {
    double largest = 0;
    for (const auto& tensor : a)
        for (double value : tensor) largest = std::max(largest, std::abs(value));
    return largest;
}

Values moved(const Values& leaves, const Values& direction, double by) {
    Values result = leaves;
    for (size_t i = 0; i < result.size(); ++i)
        for (size_t j = 0; j < result[i].size(); ++j) result[i][j] += by * direction[i][j];
    return result;
}

// d/dh of <cotangents, f(leaves + h·direction)> at 0, by a central difference of fourth order.
double slope(const Graph& graph, const Values& leaves, const Values& direction, const Values& cotangents, double h) {
    auto at = [&](double by) { return inner(evaluate(graph, moved(leaves, direction, by)), cotangents); };
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
}

Values evaluate_gradient(const Graph& gradient, Values leaves, const Values& cotangents) {
    leaves.insert(leaves.end(), cotangents.begin(), cotangents.end());
    return evaluate(gradient, leaves);
}

double difference(const Values& a, const Values& b) {
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        double scale = 1;
        for (double value : a[i]) scale = std::max(scale, std::abs(value));
        for (size_t j = 0; j < a[i].size(); ++j) worst = std::max(worst, std::abs(a[i][j] - b[i][j]) / scale);
    }
    return worst;
}

// The gradient agrees with differences along random directions.
void expect_gradient(const Graph& graph, uint64_t seed, double tolerance = 1e-7, double h = 1e-4) {
    const Values leaves = random_leaves(graph, seed), cotangents = random_cotangents(graph, seed);
    const Graph backward = gradient(graph, everything(graph));
    const Values grads = evaluate_gradient(backward, leaves, cotangents);
    for (size_t i = 0; i < graph.leaves().size(); ++i) {
        ASSERT_EQ(backward[backward.outputs()[i]].type, graph[graph.leaves()[i]].type);
        ASSERT_EQ(backward.output_names()[i], "grad_" + graph[graph.leaves()[i]].name);
    }
    for (uint64_t round = 0; round < 2; ++round) {
        Values direction = random_leaves(graph, seed * 31 + round + 7);
        for (auto& tensor : direction)
            for (double& value : tensor) value = 2 * value - 0.7;
        const double expected = slope(graph, leaves, direction, cotangents, h), actual = inner(grads, direction);
        const double scale = std::max({1.0, std::abs(expected), magnitude(grads)});
        ASSERT_LE(std::abs(expected - actual) / scale, tolerance)
            << print(graph) << "seed " << seed << " expected " << expected << " got " << actual;
    }
}

Graph one_op(const std::string& leaves, const std::string& term) {
    return parse("graph g {\n" + leaves + "\n  %y = " + term + "\n  return %y\n}\n");
}

TEST(gradient, every_pointwise_op) {
    const std::string x = "  %x = input f64[2,3,4]", positive = "  %positive_x = input f64[2,3,4]";
    for (const char* term :
         {"neg(%x)", "exp(%x)", "square(%x)", "sin(%x)", "cos(%x)", "erf(%x)", "tanh(%x)", "sigmoid(%x)", "gelu(%x)",
          "gelu(%x) approximate=1", "silu(%x)", "mish(%x)", "softplus(%x) beta=1.5", "identity(%x)", "mul(%x, %x)",
          "div(%x, 3)", "pow(%x, 2)", "pow(%x, 3)", "sub(2, %x)"})
        expect_gradient(one_op(x, term), 1);
    for (const char* term :
         {"log(%positive_x)", "sqrt(%positive_x)", "rsqrt(%positive_x)", "reciprocal(%positive_x)",
          "pow(%positive_x, 1.5)", "pow(%positive_x, %positive_x)", "abs(%positive_x)", "relu(%positive_x)"})
        expect_gradient(one_op(positive, term), 2);
}

// Broadcasting operands receive sums.
TEST(gradient, binary_ops_broadcast) {
    for (const char* other : {"f64[]", "f64[1]", "f64[4]", "f64[3,1]", "f64[2,1,1]", "f64[1,3,4]", "f64[2,3,4]"})
        for (const char* op :
             {"add(%x, %positive_p)", "sub(%positive_p, %x)", "mul(%x, %positive_p)", "div(%x, %positive_p)",
              "div(%positive_x, %positive_p)", "pow(%positive_x, %positive_p)"})
            expect_gradient(
                one_op(
                    std::string("  %x = input f64[2,3,4]\n  %positive_x = input f64[2,3,4]\n  %positive_p = param ") +
                        other,
                    op),
                3);
}

// Away from their kinks: small steps around random points.
TEST(gradient, kinked_ops) {
    const std::string x = "  %x = input f64[2,3,4]";
    for (const char* term : {"abs(%x)", "relu(%x)", "leaky_relu(%x) negative_slope=0.2", "elu(%x) alpha=1.3",
                             "selu(%x)", "hardsigmoid(%x)", "hardswish(%x)", "hardtanh(%x) lo=-0.5 hi=0.5",
                             "clamp(%x) lo=-0.3 hi=0.6", "clamp(%x) lo=0.1", "sign(%x)"})
        expect_gradient(one_op(x, term), 4, 1e-7, 1e-7);
    const std::string two = "  %x = input f64[2,3,4]\n  %p = param f64[3,1]";
    for (const char* term : {"minimum(%x, %p)", "maximum(%x, %p)", "prelu(%x, %p)", "greater(%x, %p)"})
        expect_gradient(one_op(two, term), 5, 1e-7, 1e-7);
    expect_gradient(parse("graph g {\n  %x = input f64[2,3]\n  %p = param f64[3]\n  %c = greater(%x, 0)\n  %y = "
                          "select(%c, %p, %x)\n  return %y\n}"),
                    6, 1e-7, 1e-7);
}

TEST(gradient, at_a_kink_as_pytorch) {
    struct Case {
        const char* term;
        double x, slope;
    };
    for (const Case& c : {Case{"relu(%x)", 0, 0},
                          {"abs(%x)", 0, 0},
                          {"clamp(%x) lo=0 hi=1", 0, 1},
                          {"clamp(%x) lo=0 hi=1", 1, 1},
                          {"hardtanh(%x) lo=0 hi=1", 0, 0},
                          {"hardtanh(%x) lo=0 hi=1", 1, 0},
                          {"hardtanh(%x) lo=0 hi=inf", 0, 0},
                          {"hardtanh(%x) lo=0 hi=inf", INFINITY, 1},
                          {"hardtanh(%x) lo=-inf hi=1", 1, 0},
                          {"hardtanh(%x) lo=-inf hi=1", -INFINITY, 1},
                          {"leaky_relu(%x) negative_slope=0.5", 0, 0.5},
                          {"elu(%x) alpha=2", 0, 2},
                          {"hardsigmoid(%x)", 3, 0},
                          {"hardsigmoid(%x)", -3, 0},
                          {"maximum(%x, 1)", 1, 0.5},
                          {"minimum(%x, 1)", 1, 0.5},
                          {"hardswish(%x)", 3, 1},
                          {"hardswish(%x)", -3, 0}}) {
        const Graph graph = one_op("  %x = input f64[1]", c.term);
        const Graph backward = gradient(graph, everything(graph));
        EXPECT_EQ(evaluate(backward, {{c.x}, {1.0}})[0][0], c.slope) << c.term;
        // And after rewriting for training.
        RewriteOptions training;
        training.inference = false;
        const Graph rewritten = rewrite(graph, training).rewritten;
        EXPECT_EQ(evaluate(gradient(rewritten, everything(rewritten)), {{c.x}, {1.0}})[0][0], c.slope) << c.term;
    }
}

TEST(gradient, reductions) {
    const std::string x = "  %x = input f64[2,3,4]";
    for (const char* op : {"sum", "mean", "logsumexp", "var"})
        for (const char* dims : {"dims=[0]", "dims=[1,2] keepdim=1", "dims=[]", "dims=[2]"})
            expect_gradient(one_op(x, std::string(op) + "(%x) " + dims), 7);
    expect_gradient(one_op(x, "var(%x) dims=[1] correction=0"), 7);
    for (const char* op : {"amax", "amin"})
        for (const char* dims : {"dims=[0]", "dims=[1,2] keepdim=1"})
            expect_gradient(one_op(x, std::string(op) + "(%x) " + dims), 8, 1e-7, 1e-8);
    // Equal extremes share the gradient.
    const Graph ties = one_op("  %x = input f64[3]", "amax(%x) dims=[0]");
    EXPECT_EQ(evaluate(gradient(ties, everything(ties)), {{2, 1, 2}, {1}})[0], (std::vector<double>{0.5, 0, 0.5}));
}

TEST(gradient, ops_that_move_elements) {
    const std::string x = "  %x = input f64[2,3,5]";
    for (const char* term : {"reshape(%x) shape=[3,10]", "permute(%x) order=[2,0,1]", "slice(%x) axis=2 start=1 end=4",
                             "slice(%x) axis=2 start=1 step=2", "slice(%x) axis=2 start=0 end=5 step=3",
                             "slice(%x) axis=1 start=-2 end=-1", "pad(%x) start=[0,1,2] end=[1,0,-1] value=0.5",
                             "flip(%x) dims=[0,2]", "concat(%x, %x) axis=1", "cast(%x) dtype=f64"})
        expect_gradient(one_op(x, term), 9);
    expect_gradient(one_op("  %x = input f64[3,1]", "expand(%x) shape=[2,3,4]"), 9);
}

TEST(gradient, detach_stops) {
    const Graph graph = parse("graph g {\n  %x = input f64[3]\n  %d = detach(%x)\n  %y = mul(%x, %d)\n  return %y\n}");
    const Values grads = evaluate(gradient(graph, everything(graph)), {{1, 2, 3}, {1, 1, 1}});
    EXPECT_EQ(grads[0], (std::vector<double>{1, 2, 3}));
    RewriteOptions training;
    training.inference = false;
    const Graph kept = rewrite(graph, training).rewritten;
    EXPECT_EQ(evaluate(gradient(kept, everything(kept)), {{1, 2, 3}, {1, 1, 1}})[0], (std::vector<double>{1, 2, 3}));
    // A leaf no gradient reaches gets zeros.
    const Graph none = parse(
        "graph g {\n  %x = input f64[2]\n  %p = param f64[2]\n  %d = detach(%p)\n  %y = mul(%x, %d)\n  return %y\n}");
    EXPECT_EQ(evaluate(gradient(none, everything(none)), {{1, 2}, {3, 4}, {1, 1}})[1], (std::vector<double>{0, 0}));
}

TEST(gradient, lattice_and_its_relatives) {
    const std::string x = "  %x = input f64[2,4,5,6]\n  %w = param f64[2,2,3,3,2]\n  %b = param f64[6]";
    for (const char* term : {"lattice(%x, %w, %b) up=[2,1] down=[1,2] dil=[1,2] offset=[1,-1] out=[7,4]",
                             "lattice(%x, %w) up=[3,2] down=[2,3] dil=[2,1] offset=[0,3] out=[5,3]"})
        expect_gradient(one_op(x, term), 10);
    expect_gradient(one_op("  %x = input f64[2,4,5,6]\n  %g = input f64[2,6,7,4]",
                           "correlate(%x, %g) up=[2,1] down=[1,2] dil=[1,2] offset=[1,-1] taps=[3,2] groups=2"),
                    11);
    const std::string image = "  %x = input f64[2,3,6,7]";
    expect_gradient(one_op(image, "taps(%x) axis=2 rows=2 matrix=[1,0,2,0,0,1,0.5,1,0,0,0,3]"), 12);
    expect_gradient(one_op(image, "box_sums(%x) dims=[2,3] counts=[2,1] los=[0,1,0] his=[5,4,6] steps=[1,3,2]"), 12);
    expect_gradient(one_op("  %x = input f64[2,6,1,7]",
                           "box_spread(%x) dims=[2] counts=[2] los=[0,1] his=[5,4] steps=[1,3] sizes=[6]"),
                    12);
    for (const char* term : {"avg_pool(%x) kernel=[2,3] stride=[2,2] padding=[1,1] count_include_pad=0",
                             "avg_pool(%x) kernel=[2,3] ceil_mode=1", "adaptive_avg_pool(%x) output_size=[4,3]",
                             "conv(%x, %w) stride=[2,1] padding=[1,1]",
                             "conv_transpose(%x, %v) stride=[2,1] padding=[1,0] output_padding=[1,0]",
                             "upsample(%x) scale=[2,3]", "interpolate(%x) scale=[2,0.5]",
                             "interpolate(%x) output_size=[9,4]", "interpolate(%x) output_size=[11,5] align_corners=1"})
        expect_gradient(one_op(image + "\n  %w = param f64[2,3,3,3]\n  %v = param f64[3,2,3,3]", term), 13);
    for (const char* term : {"max_pool(%x) kernel=[2,3] stride=[2,2] padding=[1,1] ceil_mode=1",
                             "min_pool(%x) kernel=[3,2] dilation=[1,2]", "adaptive_max_pool(%x) output_size=[4,3]"})
        expect_gradient(one_op(image, term), 14, 1e-7, 1e-8);
}

TEST(gradient, random_graphs) {
    RandomGraphOptions options;
    options.smooth_only = true;
    options.detach = false;
    options.max_extent = 5;
    RewriteOptions training;
    training.inference = false;
    for (uint64_t seed = 0; seed < 250; ++seed) {
        const Graph graph = random_graph(seed, options);
        expect_gradient(graph, seed, 2e-6, 3e-4);
        if (HasFatalFailure()) return;
        const Graph backward = gradient(graph, everything(graph));
        const Values leaves = random_leaves(graph, seed), cotangents = random_cotangents(graph, seed);
        const Values expected = evaluate_gradient(backward, leaves, cotangents);
        // The gradient of the rewritten graph, and that gradient rewritten.
        for (bool heed_cost : {true, false}) {
            training.heed_cost = heed_cost;
            const Graph forward = rewrite(graph, training).rewritten;
            const Graph of_rewritten = gradient(forward, everything(forward));
            ASSERT_LE(difference(expected, evaluate_gradient(of_rewritten, leaves, cotangents)), 1e-8)
                << "seed " << seed;
            const Graph again = rewrite(of_rewritten, training).rewritten;
            ASSERT_LE(difference(expected, evaluate_gradient(again, leaves, cotangents)), 1e-8) << "seed " << seed;
        }
    }
}

// With kinks and detach, gradients before and after rewriting are compared with each other.
TEST(gradient, random_graphs_with_kinks) {
    RewriteOptions training;
    training.inference = false;
    for (uint64_t seed = 1000; seed < 1400; ++seed) {
        const Graph graph = random_graph(seed);
        const Graph backward = gradient(graph, everything(graph));
        const Values leaves = random_leaves(graph, seed), cotangents = random_cotangents(graph, seed);
        const Values expected = evaluate_gradient(backward, leaves, cotangents);
        const Graph forward = rewrite(graph, training).rewritten;
        const Graph of_rewritten = rewrite(gradient(forward, everything(forward)), training).rewritten;
        ASSERT_LE(difference(expected, evaluate_gradient(of_rewritten, leaves, cotangents)), 1e-8) << "seed " << seed;
        const Graph derived = derive_gradient(graph, everything(graph)).rewritten;
        ASSERT_LE(difference(expected, evaluate_gradient(derived, leaves, cotangents)), 1e-8) << "seed " << seed;
    }
}

TEST(gradient, rows) {
    RewriteOptions training;
    training.inference = false;
    for (const auto& [name, text] : tests::rows()) {
        const Graph graph = tests::row(name, tests::Scale::tiny, DType::f64);
        const Graph forward = rewrite(graph, training).rewritten;
        const Values cotangents = random_cotangents(graph, 1);
        const Values leaves = random_leaves(graph, 1);
        const Values expected = evaluate_gradient(gradient(graph, everything(graph)), leaves, cotangents);
        const Graph backward = rewrite(gradient(forward, everything(forward)), training).rewritten;
        EXPECT_LE(difference(expected, evaluate_gradient(backward, leaves, cotangents)), 1e-9) << name;
        const Graph derived = derive_gradient(graph, everything(graph)).rewritten;
        EXPECT_LE(difference(expected, evaluate_gradient(derived, leaves, cotangents)), 1e-9) << name;
    }
}

// Differentiating after the collapse: the gradient of seed A never makes the large tensor.
TEST(gradient, of_a_collapsed_graph_is_collapsed) {
    RewriteOptions training;
    training.inference = false;
    const Graph forward = rewrite(tests::row("A"), training).rewritten;
    const Graph backward = rewrite(gradient(forward, everything(forward)), training).rewritten;
    for (const Node& node : backward.nodes())
        EXPECT_LE(numel(node.type.shape), int64_t{16} * 64 * 128 * 128) << name(node.op);
    EXPECT_LT(cost(backward).flops, 1e8);
}

// A convolution that stays dense is differentiated in its dense form alone; one whose every use is collapsed,
// collapsed.
TEST(gradient, of_one_form_of_each_convolution) {
    const Graph norm = tests::row("f5");
    const Graph dense = derive_gradient(norm, {.outputs = {0}, .wrt = {0, 1}}).rewritten;
    for (const Node& node : dense.nodes()) EXPECT_TRUE(node.op != Op::box_sums && node.op != Op::box_spread);
    EXPECT_LT(cost(derive_gradient(tests::row("A"), {.outputs = {0}, .wrt = {0, 1}}).rewritten).flops, 1e8);
}

}  // namespace
}  // namespace transfuse
