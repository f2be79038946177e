// Sums and concatenations of convolutions: of one input, by one weight.
#include "random_layers.h"

namespace transfuse::tests {
namespace {

std::string input(Random& random, size_t d) {
    Sizes x = {2, 4};
    for (size_t i = 0; i < d; ++i) x.push_back(random.between(3, d == 3 ? 4 : 7));
    return "input f64" + list(x);
}

// Two convolutions of one input, in any groups, each with what may lie behind it, added or concatenated.
std::optional<Graph> of_one_input(uint64_t seed, bool concat) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer a = Layer::random(random, d, concat ? 1 : random.pick(Sizes{1, 1, 2, 4}));
    const std::optional<Layer> b = a.beside(random, concat ? 1 : random.pick(Sizes{1, 1, 2, 4}));
    if (!b) return std::nullopt;
    const std::string ones = d == 1 ? ",1" : d == 2 ? ",1,1" : ",1,1,1";
    std::string text = "%x = " + input(random, d) + "\n%w = " + a.weight(4, 8) + "\n%v = " + b->weight(4, 8) +
                       "\n%b = param f64[8]\n%s = param f64[8" + ones + "]\n%t = param f64[]\n";
    text += "%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") + "\n";
    text += "%z = " + b->call(random.chance(0.5) ? "%x, %v, %b" : "%x, %v") + "\n";
    if (concat) {
        const std::string f = random.pick(std::vector<std::string>{"relu", "tanh", "identity"});
        text += "%f = " + f + "(%y)\n%g = " + f + "(%z)\n%o = concat(%f, %g) axis=1";
    } else {
        const std::vector<std::string> between = {"identity(%z)", "mul(%z, %s)", "add(%z, %s)", "sub(%s, %z)",
                                                  "div(%z, %t)",  "neg(%z)",     "mul(%z, 0.5)"};
        text += "%m = " + random.pick(between) + "\n%o = " + random.pick(std::vector<std::string>{"add", "sub"}) +
                (random.chance(0.5) ? "(%y, %m)" : "(%m, %y)");
    }
    return valid(text + "\nreturn %o");
}

// Convolutions of channels one after another, concatenated: kernels may differ, groups and channels too.
std::optional<Graph> of_own_channels(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer a = Layer::random(random, d, random.pick(Sizes{1, 2}));
    const std::optional<Layer> b = a.beside(random, random.pick(Sizes{1, 2}));
    if (!b) return std::nullopt;
    const int64_t in = 2 * a.groups, out = a.groups, more = 2 * b->groups;
    Sizes x = {2, in + more + random.between(0, 1)};
    for (size_t i = 0; i < d; ++i) x.push_back(random.between(3, d == 3 ? 4 : 7));
    const auto channels = [](int64_t from, int64_t to) {
        return "slice(%x) axis=1 start=" + std::to_string(from) + " end=" + std::to_string(to) + "\n";
    };
    const int64_t first = x[1] - in - more;
    const std::string bias = random.chance(0.5) ? ", %b" : "", f = random.chance(0.5) ? "relu" : "identity";
    return valid("%x = input f64" + list(x) + "\n%p = " + channels(first, first + in) +
                 "%q = " + channels(first + in, first + in + more) + "%w = " + a.weight(in, out) +
                 "\n%v = " + b->weight(more, b->groups) + "\n%b = param f64[" + std::to_string(out) +
                 "]\n%y = " + a.call("%p, %w" + bias) + "\n%z = " + b->call("%q, %v") + "\n%f = " + f +
                 "(%y)\n%g = " + f + "(%z)\n%o = concat(%f, %g) axis=1\nreturn %o");
}

std::optional<Graph> of_one_weight(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer a = Layer::random(random, d, random.pick(Sizes{1, 1, 2, 4}));
    const std::string x = input(random, d);
    std::string text = "%x = " + x + "\n%u = " + x + "\n%w = " + a.weight(4, 8) +
                       "\n%b = param f64[8]\n%t = param f64[]\n%f = flip(%u) dims=[0]\n";
    const std::vector<std::string> between = {"identity(%z)", "mul(%z, %t)",  "add(%z, 2)",       "sub(%t, %z)",
                                              "div(%z, %t)",  "mul(%z, 0.5)", "flip(%z) dims=[0]"};
    text += "%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") + "\n";
    text += "%z = " + a.call(random.chance(0.5) ? "%f, %w, %b" : "%f, %w") + "\n";
    text += "%m = " + random.pick(between) + "\n%o = " + random.pick(std::vector<std::string>{"add", "sub"}) +
            (random.chance(0.5) ? "(%y, %m)" : "(%m, %y)");
    return valid(text + "\nreturn %o");
}

// Exact, and so is the gradient.
int fired(const Graph& graph, uint64_t seed, std::string_view rule) {
    RewriteOptions options;
    options.heed_cost = false;
    options.inference = options.differentiated = false;
    const Derivation d = expect_exact(graph, options, seed, 1e-11);
    if (seed % 5 == 0) {
        GradientRequest request{{0}, {}};
        for (size_t i = 0; i < graph.leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
        const Graph written = gradient(graph, request), rewritten = gradient(d.rewritten, request);
        const auto leaves = random_leaves(written, seed);
        EXPECT_LE(error(evaluate(written, leaves), evaluate(rewritten, leaves)), 1e-10) << "seed " << seed << "\n"
                                                                                        << explain(d);
    }
    return count(d, rule);
}

TEST(rules_sums, random_sums_of_one_input_are_exact) {
    int times = 0;
    for (uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed)
        if (const auto graph = of_one_input(seed, false)) times += fired(*graph, seed, "sum_of_one_input");
    EXPECT_GT(times, 300);
}

TEST(rules_sums, random_concatenations_of_one_input_are_exact) {
    int times = 0;
    for (uint64_t seed = 0; seed < 800 && !HasFailure(); ++seed)
        if (const auto graph = of_one_input(seed, true)) times += fired(*graph, seed, "concat_of_one_input");
    EXPECT_GT(times, 200);
}

TEST(rules_sums, random_convolutions_of_own_channels_are_exact) {
    int times = 0;
    for (uint64_t seed = 0; seed < 800 && !HasFailure(); ++seed)
        if (const auto graph = of_own_channels(seed)) times += fired(*graph, seed, "concat_of_one_input");
    EXPECT_GT(times, 200);
}

TEST(rules_sums, random_sums_by_one_weight_are_exact) {
    int times = 0;
    for (uint64_t seed = 0; seed < 600 && !HasFailure(); ++seed)
        if (const auto graph = of_one_weight(seed)) times += fired(*graph, seed, "sum_of_one_weight");
    EXPECT_GT(times, 200);
}

const std::string x = "%x = input f64[2,4,6,7]\n%w = param f64[4,4,3,3]\n%y = conv(%x, %w) padding=[1,1]\n";

TEST(rules_sums, of_one_input) {
    // 1x1, the identity with a batch norm, a pool, a depthwise convolution, one with a hole in its middle.
    for (const char* other :
         {"%v = param f64[4,4,1,1]\n%z = conv(%x, %v)", "%s = param f64[4,1,1]\n%m = mul(%x, %s)\n%z = add(%m, %s)",
          "%z = avg_pool(%x) kernel=[3,3] stride=[1,1] padding=[1,1]",
          "%v = param f64[4,1,5,5]\n%z = conv(%x, %v) padding=[2,2] groups=4",
          "%v = param f64[4,2,3,3]\n%z = conv(%x, %v) padding=[2,2] dilation=[2,2] groups=2", "%z = identity(%x)"}) {
        const Derivation d = expect_fires("sum_of_one_input", x + other + std::string("\n%o = add(%y, %z)\nreturn %o"));
        EXPECT_EQ(count(d.rewritten, Op::lattice), 1) << explain(d);
    }
    expect_stays("sum_of_one_input", x + "%r = relu(%y)\n%v = param f64[4,4,1,1]\n%z = conv(%x, %v)\n%o = add(%r, "
                                         "%z)\nreturn %o");
    // A result that others use is needed anyway.
    expect_stays("sum_of_one_input", x + "%v = param f64[4,4,1,1]\n%z = conv(%x, %v)\n%o = add(%y, %z)\nreturn %o, %y");
}

// PyTorch adds an f32 identity in f32; as part of a product it might be multiplied in TF32.
TEST(rules_sums, an_identity_stays_out_of_products_of_f32) {
    const auto body = [](const std::string& dtype) {
        return "%x = input " + dtype + "[2,64,32,32]\n%w = param " + dtype +
               "[64,64,3,3]\n%y = conv(%x, %w) padding=[1,1]\n%z = add(%y, %x)\nreturn %z";
    };
    RewriteOptions options;
    options.heed_cost = false;
    EXPECT_EQ(count(rewrite(graph_of(body("f32")), options), "sum_of_one_input"), 0);
    EXPECT_EQ(count(rewrite(graph_of(body("f16")), options), "sum_of_one_input"), 1);
}

TEST(rules_sums, by_one_weight) {
    const std::string two =
        "%x = input f64[2,4,6,7]\n%u = input f64[2,4,6,7]\n%w = param f64[4,4,3,3]\n%y = conv(%x, "
        "%w) padding=[1,1]\n%z = conv(%u, %w) padding=[1,1]\n";
    const Derivation d = expect_fires("sum_of_one_weight", two + "%o = sub(%y, %z)\nreturn %o");
    EXPECT_EQ(count(d.rewritten, Op::lattice), 1);
    expect_stays("sum_of_one_weight", two + "%s = param f64[4,1,1]\n%m = mul(%z, %s)\n%o = add(%y, %m)\nreturn %o");
    expect_stays("sum_of_one_weight", two + "%o = mul(%y, %z)\nreturn %o");
}

TEST(rules_sums, concatenated) {
    const std::string head = x + "%v = param f64[3,4,3,3]\n%z = conv(%x, %v) padding=[1,1]\n";
    const Derivation d = expect_fires("concat_of_one_input", head + "%o = concat(%x, %y, %z, %x) axis=1\nreturn %o");
    EXPECT_EQ(count(d.rewritten, Op::lattice), 1);
    expect_stays("concat_of_one_input", head + "%r = relu(%z)\n%o = concat(%y, %r) axis=1\nreturn %o");
    // A 1x1 would be multiplied as a 3x3.
    const std::string thin =
        "%x = input f32[8,64,32,32]\n%w = param f32[64,64,3,3]\n%v = param f32[64,64,1,1]\n%y = "
        "conv(%x, %w) padding=[1,1]\n%z = conv(%x, %v)\n%o = concat(%y, %z) axis=1\nreturn %o";
    EXPECT_EQ(count(rewrite(graph_of(thin)), "concat_of_one_input"), 0);
}

TEST(rules_sums, of_own_channels_they_are_groups) {
    const auto text = [](int64_t second, int64_t end) {
        return "%x = input f64[2,6,6,7]\n%p = slice(%x) axis=1 end=3\n%q = slice(%x) axis=1 start=" +
               std::to_string(second) + " end=" + std::to_string(end) +
               "\n%w = param f64[2,3,3,3]\n%v = param f64[2,3,1,1]\n%y = conv(%p, %w) padding=1\n%z = conv(%q, %v)\n"
               "%o = concat(%y, %z) axis=1\nreturn %o";
    };
    const Derivation d = expect_fires("concat_of_one_input", text(3, 6));
    EXPECT_EQ(count(d.rewritten, Op::lattice), 1) << explain(d);
    EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].attributes.integer(Key::groups), 2) << explain(d);
    expect_stays("concat_of_one_input", text(2, 5));
}

TEST(rules_sums, a_convolution_of_concatenated_ones_is_one) {
    const Derivation d = expect_fires("compose_concatenated", R"(%x = input f64[2,3,5,6]
        %w = param f64[4,3,3,3]
        %b = param f64[4]
        %v = param f64[2,3,1,1]
        %u = param f64[3,6,1,1]
        %y = conv(%x, %w, %b) padding=[1,1]
        %z = conv(%x, %v)
        %c = concat(%y, %z) axis=1
        %o = conv(%c, %u)
        return %o)");
    EXPECT_EQ(count(d.rewritten, Op::concat), 2);  // of weights and biases
    expect_stays("compose_concatenated", R"(%x = input f64[2,3,5,6]
        %t = input f64[2,2,5,6]
        %w = param f64[4,3,1,1]
        %u = param f64[3,6,1,1]
        %y = conv(%x, %w)
        %c = concat(%y, %t) axis=1
        %o = conv(%c, %u)
        return %o)");
}

TEST(rules_sums, the_mean_of_concatenated_convolutions_is_taken_of_each) {
    const Derivation d = expect_fires("reduce_concat", R"(%x = input f64[2,3,5,6]
        %w = param f64[4,3,3,3]
        %y = conv(%x, %w)
        %s = slice(%x) axis=2 end=3
        %t = slice(%s) axis=3 end=4
        %c = concat(%y, %t) axis=1
        %m = mean(%c) dims=[2,3] keepdim=1
        return %m)");
    EXPECT_EQ(count(d.rewritten, Op::mean), 2);
    expect_fires("reduce_concat", R"(%x = input f64[2,3,5,6]
        %w = param f64[4,3,3,3]
        %y = conv(%x, %w) padding=[1,1]
        %c = concat(%y, %x) axis=1
        %m = box_sums(%c) dims=[2,3] counts=[2,1] los=[0,1,0] his=[4,3,5] steps=[1,1,1]
        return %m)");
    expect_stays("reduce_concat", R"(%x = input f64[2,3,5,6]
        %w = param f64[4,3,1,1]
        %y = conv(%x, %w)
        %c = concat(%y, %x) axis=1
        %m = sum(%c) dims=[1,2] keepdim=1
        return %m)");
}

}  // namespace
}  // namespace transfuse::tests
