// Two convolutions as one: every stride, padding, dilation, output_padding and grouping, 1 to 3 axes, with what may lie
// between them.
#include <regex>

#include "random_layers.h"

namespace transfuse::tests {
namespace {

std::string two_layers(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const int64_t first = random.pick(Sizes{1, 1, 2, 4}), second = random.pick(Sizes{1, 1, 2, 4});
    const Layer a = Layer::random(random, d, first), b = Layer::random(random, d, second);
    Sizes x = {2, 4};
    for (size_t i = 0; i < d; ++i) x.push_back(random.between(3, d == 3 ? 4 : 7));
    const std::string ones = d == 1 ? ",1" : d == 2 ? ",1,1" : ",1,1,1";
    const bool bias = random.chance(0.5), last = random.chance(0.5);
    std::string text = "%x = input f64" + list(x) + "\n%w = " + a.weight(4, 8) + "\n%v = " + b.weight(8, 4) +
                       "\n%b = param f64[8]\n%c = param f64[4]\n%s = param f64[8" + ones + "]\n";
    text += "%y = " + a.call(bias ? "%x, %w, %b" : "%x, %w") + "\n";
    const std::string between = random.pick(std::vector<std::string>{
        "identity(%y)", "mul(%y, %s)", "add(%y, %s)", "sub(%s, %y)", "div(%y, 2)", "batch_norm(%y, %b, %b2)"});
    if (between.starts_with("batch_norm")) text += "%b2 = param f64[8]\n%positive = exp(%b2)\n";
    text += "%m = " + std::regex_replace(between, std::regex("%b2"), "%positive") + "\n";
    return text + "%z = " + b.call(last ? "%m, %v, %c" : "%m, %v") + "\nreturn %z";
}

TEST(rules_sequence, random_pairs_are_exact) {
    int fired = 0, stayed = 0;
    for (uint64_t seed = 0; seed < 1500; ++seed) {
        const std::optional<Graph> graph = valid(two_layers(seed));
        if (!graph) continue;
        RewriteOptions options;
        options.heed_cost = false;
        options.inference = seed % 2 == 0;
        const Derivation d = expect_exact(*graph, options, seed, 1e-11);
        ++(count(d, "compose_lattices") ? fired : stayed);
        if (HasFailure()) return;
    }
    EXPECT_GT(fired, 300);
    EXPECT_GT(stayed, 100);
}

TEST(rules_sequence, gradients_of_random_pairs_are_exact) {
    int fired = 0;
    for (uint64_t seed = 2000; seed < 2250; ++seed) {
        const std::optional<Graph> graph = valid(two_layers(seed));
        if (!graph) continue;
        RewriteOptions options;
        options.heed_cost = false;
        options.inference = false;
        options.differentiated = true;
        const Derivation d = rewrite(*graph, options);
        fired += count(d, "compose_lattices");
        GradientRequest request{{0}, {}};
        for (size_t i = 0; i < graph->leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
        const Graph written = gradient(*graph, request), composed = gradient(d.rewritten, request);
        const auto leaves = random_leaves(written, seed);
        EXPECT_LE(error(evaluate(written, leaves), evaluate(composed, leaves)), 1e-10) << "seed " << seed << "\n"
                                                                                       << explain(d);
        if (HasFailure()) return;
    }
    EXPECT_GT(fired, 40);
}

const std::string decoder =
    "%x = input f64[2,3,5,6]\n%w = param f64[3,8,2,2]\n%b = param f64[8]\n%v = param f64[2,8,1,1]\n%c = param f64[2]\n"
    "%y = conv_transpose(%x, %w, %b) stride=[2,2]\n";

TEST(rules_sequence, fires_alone) {
    const Derivation d = expect_fires("compose_lattices", decoder + "%z = conv(%y, %v, %c)\nreturn %z");
    EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].op, Op::lattice) << explain(d);  // its bias is one a channel
    // Nonlinear ops between, inputs as weights, products that cost more.
    expect_stays("compose_lattices", decoder + "%r = relu(%y)\n%z = conv(%r, %v, %c)\nreturn %z");
    expect_stays("compose_lattices",
                 "%x = input f64[2,3,5]\n%w = param f64[3,8,2]\n%v = input f64[2,8,1]\n%y = "
                 "conv_transpose(%x, %w) stride=2\n%z = conv(%y, %v)\nreturn %z");
    const std::string bottleneck =
        "%x = input f32[1,64,32,32]\n%w = param f32[8,64,1,1]\n%v = param f32[64,8,3,3]\n%y = conv(%x, %w)\n"
        "%z = conv(%y, %v) padding=[1,1]\nreturn %z";
    EXPECT_EQ(count(rewrite(graph_of(bottleneck)), "compose_lattices"), 0);
}

TEST(rules_sequence, a_shift_between_differs_at_borders) {
    const std::string x =
        "%x = input f64[2,3,6,7]\n%w = param f64[4,3,1,1]\n%b = param f64[4]\n%y = conv(%x, %w, %b)\n";
    const Derivation d =
        expect_fires("compose_lattices", x + "%v = param f64[2,4,3,3]\n%z = conv(%y, %v) padding=[1,1]\nreturn %z");
    EXPECT_EQ(count(d.rewritten, Op::add), 1);
    EXPECT_GT(count(d.rewritten, Op::concat), 0);
    // Inside, and along an axis that is not padded, it is one number a channel.
    const Derivation inside =
        expect_fires("compose_lattices", x + "%v = param f64[2,4,3,3]\n%z = conv(%y, %v)\nreturn %z");
    EXPECT_EQ(count(inside.rewritten, Op::add), 0);
}

// A linear layer on a flattened image: its weight is that of a convolution as large as the image.
TEST(rules_sequence, flattened_images_are_exact) {
    int fired = 0;
    for (uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
        Random random(seed);
        const auto d = static_cast<size_t>(random.between(1, 3));
        const Layer a = Layer::random(random, d, random.pick(Sizes{1, 2}));
        Sizes x = {2, 4};
        for (size_t i = 0; i < d; ++i) x.push_back(random.between(2, d == 3 ? 4 : 6));
        std::string text = "%x = input f64" + list(x) + "\n%w = " + a.weight(4, 6) +
                           "\n%b = param f64[6]\n%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") + "\n";
        const std::optional<Graph> first = valid(text + "return %y");
        if (!first) continue;
        const int64_t flat = numel((*first)[first->outputs()[0]].type.shape) / 2;
        const std::string ones = random.chance(0.5) ? ",1]" : ",1,1]", features = std::to_string(flat);
        text += "%f = reshape(%y) shape=[2," + features + ones + "\n%v = param f64[5," + features + ones +
                "\n%z = conv(%f, %v)\nreturn %z";
        const std::optional<Graph> graph = valid(text);
        if (!graph) continue;
        RewriteOptions options;
        options.heed_cost = false;
        options.inference = options.differentiated = false;
        fired += count(expect_exact(*graph, options, seed, 1e-11), "compose_flattened");
        if (seed % 5 == 0) expect_exact_gradients(*graph, seed);
    }
    EXPECT_GT(fired, 100);
    const std::string image =
        "%x = input f64[2,3,5,6]\n%w = param f64[4,3,3,3]\n%y = conv(%x, %w) padding=1\n%f = "
        "reshape(%y) shape=[2,120,1]\n%v = param f64[5,120,1]\n%z = conv(%f, %v)\nreturn %z";
    expect_fires("compose_flattened", image);
}

// Where several linear maps read what lies between, each is made one with what makes it, if that is less work.
TEST(rules_sequence, several_readers) {
    const auto text = [](int64_t few, const std::string& more) {
        return "%x = input f32[2,32,24,24]\n%a = param f32[64,32,3,3]\n%b = param f32[64]\n%v = param f32[" +
               std::to_string(few) + ",64,1,1]\n%w = param f32[" + std::to_string(few) +
               ",64,1,1]\n%y = conv(%x, %a, %b) padding=1\n%p = conv(%y, %v)\n%q = conv(%y, %w)\n" + more;
    };
    const Derivation d = rewrite(graph_of(text(4, "return %p, %q")));
    EXPECT_EQ(count(d, "compose_lattices"), 2) << explain(d);
    const Derivation mean = rewrite(graph_of(text(4, "%m = mean(%y) dims=[2,3]\nreturn %p, %q, %m")));
    EXPECT_EQ(count(mean, "compose_lattices"), 2) << explain(mean);
    EXPECT_EQ(count(mean, "collapse"), 1) << explain(mean);
    for (const std::string& other :
         {text(4, "return %p, %q, %y"), text(4, "%r = relu(%y)\nreturn %p, %q, %r"), text(60, "return %p, %q")}) {
        const Derivation stays = rewrite(graph_of(other));
        EXPECT_EQ(count(stays, "compose_lattices"), 0) << explain(stays);
    }
}

TEST(rules_sequence, several_random_readers_are_exact) {
    int fired = 0;
    for (uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
        Random random(seed);
        const auto d = static_cast<size_t>(random.between(1, 3));
        const Layer a = Layer::random(random, d, random.pick(Sizes{1, 2})),
                    b = Layer::random(random, d, random.pick(Sizes{1, 1, 2})), c = Layer::random(random, d, 1);
        Sizes x = {2, 8};
        for (size_t i = 0; i < d; ++i) x.push_back(random.between(4, d == 3 ? 5 : 12));
        const auto graph = valid("%x = input f64" + list(x) + "\n%w = " + a.weight(8, 16) +
                                 "\n%b = param f64[16]\n%v = " + b.weight(16, 2) + "\n%u = " + c.weight(16, 1) +
                                 "\n%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") + "\n" +
                                 (random.chance(0.3) ? "%s = mul(%y, 0.5)\n" : "%s = identity(%y)\n") +
                                 "%p = " + b.call("%s, %v") + "\n%q = " + c.call("%s, %u") +
                                 "\n%m = mean(%y) dims=[2]\nreturn %p, %q" + (random.chance(0.5) ? ", %m" : ""));
        if (!graph) continue;
        if (seed % 8 == 0) expect_exact_gradients(*graph, seed);
        RewriteOptions options;
        options.for_each = true;
        const Derivation derived = expect_exact(*graph, options, seed, 1e-11);
        fired += count(derived, "compose_lattices") + count(derived, "collapse");
    }
    EXPECT_GT(fired, 100);
}

// What lies between the roundings of 16 bits: weights are multiplied in f32 and rounded once, also where three are one.
// A batch norm of 16 bits widens, scales and shifts in f32, and rounds: it is passed like one of f32.
TEST(rules_sequence, batch_norms_of_sixteen_bits_lie_between) {
    const std::string norm = "%m = param f16[8]\n%positive = param f16[8]\n%n = batch_norm(%y, %m, %positive)\n";
    const std::string x =
        "%x = input f16[2,8,5,6]\n%w = param f16[8,8,3,3]\n%b = param f16[8]\n%v = param f16[8,8,1,1]\n"
        "%y = conv(%x, %w, %b) padding=1\n" +
        norm;
    expect_fires("compose_lattices", x + "%z = conv(%n, %v)\nreturn %z");
    expect_fires("sum_of_one_input", x + "%u = conv(%x, %v)\n%z = add(%n, %u)\nreturn %z");
    expect_stays("compose_lattices", x + "%r = relu(%n)\n%z = conv(%r, %v)\nreturn %z");
    // What is rounded to 16 bits on the way is asked for.
    expect_stays("sum_of_one_input", x + "%u = conv(%x, %v)\n%z = add(%n, %u)\nreturn %z, %n");
}

TEST(rules_sequence, sixteen_bit_weights_are_rounded_once) {
    const Graph graph = graph_of(
        "%x = input f16[4,32,24,24]\n%w = param f16[64,32,1,1]\n%b = param f16[64]\n%v = param f16[64,64,3,3]\n"
        "%u = param f16[8,64,1,1]\n%y = conv(%x, %w, %b)\n%z = conv(%y, %v)\n%o = conv(%z, %u)\nreturn %o");
    const Derivation d = rewrite(graph);
    EXPECT_EQ(count(d, "compose_lattices"), 2) << explain(d);
    int narrowed = 0;
    for (const Node& node : d.rewritten.nodes())
        if (node.op == Op::cast && node.type.dtype == DType::f16) ++narrowed;
    EXPECT_EQ(narrowed, 1) << explain(d);
}

}  // namespace
}  // namespace transfuse::tests
