// Weighted sums over the image, sums of several branches and means of several layers move before convolutions.
#include "random_layers.h"

namespace transfuse::tests {
namespace {

std::optional<Graph> weighted(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer a = Layer::random(random, d, random.pick(Sizes{1, 1, 2, 4}));
    Sizes x = {2, 4};
    for (size_t i = 0; i < d; ++i) x.push_back(random.between(3, d == 3 ? 4 : 7));
    const std::string layer = "%x = input f64" + list(x) + "\n%w = " + a.weight(4, 8) +
                              "\n%b = param f64[8]\n%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") +
                              "\n";
    const std::optional<Graph> alone = valid(layer + "return %y");
    if (!alone) return std::nullopt;
    Sizes map = (*alone)[alone->outputs()[0]].type.shape;
    map[1] = 1;
    if (random.chance(0.5)) map[0] = 1;
    if (random.chance(0.3)) map[static_cast<size_t>(random.between(2, static_cast<int64_t>(d) + 1))] = 1;
    if (map[0] == 1 && random.chance(0.5)) map.erase(map.begin());
    const std::string dims = d == 1 ? "2" : d == 2 ? "2,3" : "2,3,4";
    return valid(layer + "%m = " + (random.chance(0.5) ? "param f64" : "input f64") + list(map) + "\n%p = mul(" +
                 (random.chance(0.5) ? "%y, %m" : "%m, %y") + ")\n%z = " + (random.chance(0.5) ? "sum" : "mean") +
                 "(%p) dims=[" + (random.chance(0.3) ? "0," : "") + dims + "]\nreturn %z");
}

TEST(rules_weighted, random_weighted_sums_are_exact) {
    int fired = 0;
    for (uint64_t seed = 0; seed < 600 && !HasFailure(); ++seed) {
        const auto graph = weighted(seed);
        if (!graph) continue;
        RewriteOptions options;
        options.heed_cost = false;
        options.inference = options.differentiated = false;
        const Derivation d = expect_exact(*graph, options, seed, 1e-11);
        fired += count(d, "weighted_collapse");
        if (seed % 4) continue;
        GradientRequest request{{0}, {}};
        for (size_t i = 0; i < graph->leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
        const Graph written = gradient(*graph, request), rewritten = gradient(d.rewritten, request);
        const auto leaves = random_leaves(written, seed);
        EXPECT_LE(error(evaluate(written, leaves), evaluate(rewritten, leaves)), 1e-10) << "seed " << seed;
    }
    EXPECT_GT(fired, 200);
}

const std::string y = "%x = input f64[2,3,6,7]\n%w = param f64[3,4,3,3]\n%y = conv_transpose(%x, %w) stride=[2,2]\n";

TEST(rules_weighted, fires_alone) {
    const Derivation d =
        expect_fires("weighted_collapse", y + "%m = param f64[1,1,13,15]\n%p = mul(%y, %m)\n%z = sum(%p) "
                                              "dims=[2,3] keepdim=1\nreturn %z");
    EXPECT_EQ(count(d.rewritten, Op::correlate), 1);
    // A weight a channel needs the convolution; so does what lies between.
    expect_stays("weighted_collapse",
                 y + "%m = param f64[1,4,13,15]\n%p = mul(%y, %m)\n%z = sum(%p) dims=[2,3]\nreturn "
                     "%z");
    expect_stays("weighted_collapse",
                 y + "%m = param f64[13,15]\n%r = relu(%y)\n%p = mul(%r, %m)\n%z = sum(%p) dims=[2,3]\nreturn %z");
    expect_stays("weighted_collapse", y + "%m = param f64[13,15]\n%p = mul(%y, %m)\n%z = sum(%p) dims=[3]\nreturn %z");
}

// A mean behind sums of whatever: convolutions of several inputs, weighted ones, inputs.
TEST(rules_weighted, through_sums_of_branches) {
    const std::string two = y +
                            "%u = input f64[2,2,13,15]\n%v = param f64[4,2,3,3]\n%t = conv(%u, %v) padding=[1,1]\n"
                            "%r = input f64[2,4,13,15]\n%m = param f64[13,15]\n";
    for (const char* sum : {"%s = add(%y, %t)", "%a = sub(%r, %y)\n%s = add(%a, %t)",
                            "%p = mul(%y, %m)\n%a = add(%p, %r)\n%s = sub(%a, %t)"}) {
        RewriteOptions options;
        options.heed_cost = false;
        const Derivation d = expect_exact(graph_of(two + sum + "\n%z = mean(%s) dims=[2,3]\nreturn %z"), options, 1);
        EXPECT_GE(count(d, "reduce_sum_of_two"), 1) << explain(d);
        for (const Node& node : d.rewritten.nodes())
            EXPECT_TRUE(node.op != Op::lattice || numel(node.type.shape) == 8) << explain(d);
    }
}

// A mean of several layers over some axes: box sums of the input of the first, and convolutions of the other axes.
TEST(rules_weighted, means_of_random_layers_are_exact) {
    int fired = 0;
    for (uint64_t seed = 0; seed < 800 && !HasFailure(); ++seed) {
        Random random(seed);
        const auto d = static_cast<size_t>(random.between(1, 3));
        const Layer a = Layer::random(random, d, random.pick(Sizes{1, 1, 2, 4})),
                    b = Layer::random(random, d, random.pick(Sizes{1, 2, 4}));
        Sizes x = {2, 4};
        for (size_t i = 0; i < d; ++i) x.push_back(random.between(3, d == 3 ? 4 : 7));
        Sizes dims;
        for (size_t i = 0; i < d; ++i)
            if (random.chance(0.6)) dims.push_back(static_cast<int64_t>(i) + 2);
        if (dims.empty()) dims.push_back(random.between(2, static_cast<int64_t>(d) + 1));
        const auto graph = valid(
            "%x = input f64" + list(x) + "\n%w = " + a.weight(4, 8) + "\n%v = " + b.weight(8, 4) +
            "\n%b = param f64[8]\n%c = param f64[4]\n%y = " + a.call(random.chance(0.7) ? "%x, %w, %b" : "%x, %w") +
            "\n%z = " + b.call(random.chance(0.7) ? "%y, %v, %c" : "%y, %v") +
            "\n%m = " + (random.chance(0.5) ? "sum" : "mean") + "(%z) dims=" + list(dims) + "\nreturn %m");
        if (!graph) continue;
        if (seed % 8 == 0) expect_exact_gradients(*graph, seed);
        RewriteOptions options;
        options.heed_cost = false;
        if (seed % 2) options.without = {"compose_lattices"};
        const Derivation d2 = expect_exact(*graph, options, seed, 1e-11);
        fired += count(d2, "collapse_boxes");
    }
    EXPECT_GT(fired, 250);
}

TEST(rules_weighted, means_over_one_axis_of_two_layers_leave_products_of_the_other) {
    const Derivation d = expect_exact(
        graph_of("%x = input f64[2,16,24,24]\n%w = param f64[16,16,3,3]\n%v = param f64[16,16,3,3]\n"
                 "%y = conv(%x, %w) padding=1\n%z = conv(%y, %v) padding=1\n%m = mean(%z) dims=[3]\nreturn %m"),
        {}, 1);
    EXPECT_EQ(count(d, "collapse_boxes"), 1) << explain(d);
    EXPECT_LE(cost(d.rewritten).flops, cost(d.written).flops / 4) << explain(d);
}

TEST(rules_weighted, boxes_of_a_sum) {
    expect_fires("boxes_of_sum",
                 "%x = input f64[2,4,6,7]\n%w = param f64[4,4,3,3]\n%b = param f64[4]\n%y = conv(%x, %w, %b) "
                 "padding=1\n%u = sub(%y, %x)\n%s = add(%x, %u)\n%z = box_sums(%s) dims=[3] counts=[2] los=[0,1] "
                 "his=[6,4] steps=[1,3]\nreturn %z");
    expect_stays("boxes_of_sum",
                 "%x = input f64[2,4,6,7]\n%r = relu(%x)\n%s = add(%x, %r)\n%z = box_sums(%s) dims=[2,3] "
                 "counts=[1,1] los=[0,0] his=[5,6] steps=[1,1]\nreturn %z");
}

TEST(rules_weighted, boxes_of_a_convolution) {
    RewriteOptions options;
    options.heed_cost = false;
    const std::string body =
        "%x = input f64[2,3,6,7]\n%w = param f64[3,4,3,3]\n%b = param f64[4]\n%y = conv_transpose(%x, %w, %b) "
        "stride=[2,2]\n%z = box_sums(%y) dims=[2,3] counts=[2,1] los=[0,1,0] his=[11,12,14] steps=[1,3,2]\n";
    const Derivation d = expect_fires("collapse_boxes", body + "return %z");
    EXPECT_EQ(count(d.rewritten, Op::box_sums), 1);
    expect_stays("collapse_boxes",
                 "%x = input f64[2,3,6,7]\n%w = param f64[3,4,3,3]\n%y = conv_transpose(%x, "
                 "%w)\n%r = relu(%y)\n%z = mean(%r) dims=[2,3]\nreturn %z");
}

}  // namespace
}  // namespace transfuse::tests
