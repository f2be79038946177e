// The places where a shortcut looks right and is not, one test for each. A rule is exact there or stays away; and each
// test shows that the shortcut would have been caught.
#include <numeric>

#include "rules.h"

namespace transfuse::tests {
namespace {

const RewriteOptions every_rule{.inference = true, .without = {}, .only = {}, .heed_cost = false};

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

std::vector<std::vector<double>> rewritten_and_run(const Graph& graph, const std::vector<std::vector<double>>& leaves) {
    return evaluate(rewrite(graph, every_rule).rewritten, leaves);
}

// The sum of all inputs times the sum of all taps counts samples that padding has cut away.
TEST(rules_traps, padding_cuts_borders) {
    for (const char* attributes :
         {"padding=[1,1]", "stride=[2,2] padding=[1,0]", "stride=[2,2] padding=[2,2]",
          "stride=[2,3] padding=[1,2] output_padding=[1,2]", "stride=[3,2] dilation=[2,1] padding=[3,1]"}) {
        const std::string body = "%x = input f64[1,1,5,4]\n%w = param f64[1,1,3,3]\n%y = conv_transpose(%x, %w) " +
                                 std::string(attributes) + "\n%z = sum(%y) dims=[2,3]\nreturn %z";
        const Derivation d = expect_fires("collapse", body);
        EXPECT_EQ(count(d.rewritten, Op::box_sums), 1) << attributes;
        const auto leaves = random_leaves(d.written, 7);
        const double shortcut = sum_of(leaves[0]) * sum_of(leaves[1]);
        EXPECT_GT(std::abs(evaluate(d.written, leaves)[0][0] - shortcut), 1e-3) << attributes << " cuts nothing";
    }
}

// Of the inputs between a tap's first and last only those with up·i + dil·k ≡ offset (mod down) are met.
TEST(rules_traps, outputs_in_steps) {
    for (const char* lattice :
         {"up=[1] down=[2] dil=[1] offset=[1] out=[4]", "up=[1] down=[3] dil=[1] offset=[0] out=[3]",
          "up=[2] down=[3] dil=[1] offset=[1] out=[5]", "up=[3] down=[2] dil=[2] offset=[-1] out=[9]",
          "up=[2] down=[4] dil=[1] offset=[1] out=[4]"}) {
        const std::string body =
            "%x = input f64[2,3,8]\n%w = param f64[1,3,2,3]\n%b = param f64[2]\n%y = lattice(%x, %w, %b) " +
            std::string(lattice) + "\n%z = mean(%y) dims=[2]\nreturn %z";
        const Derivation d = expect_fires("collapse", body);
        int64_t most = 0;
        for (const Node& node : d.rewritten.nodes())
            if (node.op == Op::box_sums)
                for (int64_t step : node.attributes.integers(Key::steps)) most = std::max(most, step);
        EXPECT_GT(most, 1) << lattice << ": no interval has a step";
    }
    // A strided convolution, and a pool behind one, as they are written.
    const std::string strided =
        "%x = input f64[2,3,9,8]\n%w = param f64[4,3,3,3]\n%y = conv(%x, %w) stride=[2,3] padding=[1,1]\n";
    expect_fires("collapse", strided + "%z = mean(%y) dims=[2,3]\nreturn %z");
    expect_fires("pool_after_lattice", strided + "%z = avg_pool(%y) kernel=[2,2] stride=[1,1]\nreturn %z");
}

// Stride 2 with dilation 2: half the outputs of an axis meet no tap. They still hold their bias, and the chain runs.
TEST(rules_traps, residues_without_taps) {
    const std::string body =
        "%x = input f64[1,2,3,4]\n%w = param f64[2,3,3,3]\n%b = param f64[3]\n%p = param f64[3,1,1]\n"
        "%y = conv_transpose(%x, %w, %b) stride=[2,2] dilation=[2,2] padding=[1,1]\n";
    const Graph plain = graph_of(body + "return %y");
    const auto leaves = random_leaves(plain, 3);
    const auto y = evaluate(plain, leaves)[0];
    const Sizes shape = plain[plain.outputs()[0]].type.shape;
    int64_t bias_alone = 0;  // of channel 0
    for (int64_t i = 0; i < shape[2] * shape[3]; ++i) bias_alone += y[static_cast<size_t>(i)] == leaves[2][0];
    EXPECT_GE(bias_alone, shape[2] * shape[3] / 2);
    for (const char* chain : {"%s = mul(%y, %p)\n%z = tanh(%s)", "%z = mean(%y) dims=[2,3]",
                              "%s = softmax(%y) dims=[1]\n%z = sigmoid(%s)", "%z = avg_pool(%y) kernel=[2,2]",
                              "%s = exp(%y)\n%z = max_pool(%s) kernel=[2,2]", "%z = slice(%y) axis=2 step=2"})
        expect_exact(graph_of(body + chain + "\nreturn %z"), every_rule, 5);
}

// With ceil_mode the last window sticks out. Its divisor counts what lies inside the padded input, so an average pool
// is one convolution only where that changes nothing; a maximum never minds.
TEST(rules_traps, ceil_mode_pools) {
    const std::string x = "%x = input f64[2,3,7,9]\n%w = param f64[3,3,3,3]\n%t = tanh(%x)\n";
    for (const char* pool : {"kernel=[2,2] ceil_mode=1", "kernel=[3,2] stride=[2,2] ceil_mode=1",
                             "kernel=[3,3] stride=[3,3] padding=[1,1] ceil_mode=1",
                             "kernel=[3,3] stride=[3,2] padding=[1,1] ceil_mode=1 count_include_pad=0"}) {
        const std::string behind =
            x + "%y = conv_transpose(%t, %w) stride=[2,2]\n%z = avg_pool(%y) " + pool + "\nreturn %z";
        const std::string alone = x + "%z = avg_pool(%t) " + pool + "\nreturn %z";
        const Graph graph = graph_of(alone);
        const Sizes kernel = [&] {
            for (const Node& node : graph.nodes())
                if (node.op == Op::avg_pool) return node.attributes.integers(Key::kernel);
            return Sizes{};
        }();
        // The shortcut: a pool of ones by one divisor. Where windows stick out it is not one everywhere.
        auto leaves = random_leaves(graph, 1);
        const Graph ones = graph_of("%x = input f64[2,3,7,9]\n%z = avg_pool(%x) " + std::string(pool) +
                                    " divisor=" + std::to_string(kernel[0] * kernel[1]) + "\nreturn %z");
        leaves = {std::vector<double>(2 * 3 * 7 * 9, 1.0)};
        const auto shares = evaluate(ones, leaves)[0];
        EXPECT_LT(*std::min_element(shares.begin(), shares.end()), 1) << pool << ": no window sticks out";
        expect_stays("expand_avg_pool", alone);
        expect_exact(graph_of(behind), every_rule, 2);
        // Under one divisor it is a convolution again.
        expect_fires("expand_avg_pool", x + "%z = avg_pool(%t) " + pool + " divisor=5\nreturn %z");
    }
    // Windows that end with the input: ceil_mode changes nothing.
    expect_fires("expand_avg_pool", "%x = input f64[2,3,8,9]\n%z = avg_pool(%x) kernel=[2,3] ceil_mode=1\nreturn %z");
    for (const char* pool : {"kernel=[2,2] ceil_mode=1", "kernel=[3,2] stride=[2,3] padding=[1,1] ceil_mode=1"}) {
        expect_fires("monotone_pool", x + "%z = max_pool(%t) " + pool + "\nreturn %z");
        expect_stays("merge_pools", x + "%y = max_pool(%t) " + pool + "\n%z = max_pool(%y) kernel=[2,2]\nreturn %z");
        expect_stays("pool_of_affine", x + "%s = add(%t, 1)\n%z = avg_pool(%s) " + pool + "\nreturn %z");
    }
}

// A window of padding alone holds −∞ before and after: tanh(−∞) = −1 is not what the pool gives.
TEST(rules_traps, windows_of_padding_alone) {
    const std::string windows = "kernel=2 dilation=4 padding=1";  // positions −1 and 3 of three elements
    const Graph graph = graph_of("%x = input f64[1,1,3]\n%y = tanh(%x)\n%z = max_pool(%y) " + windows + "\nreturn %z");
    const auto leaves = random_leaves(graph, 1);
    EXPECT_EQ(evaluate(graph, leaves)[0][0], -HUGE_VAL);
    EXPECT_EQ(rewritten_and_run(graph, leaves)[0][0], -HUGE_VAL);
    for (const char* op : {"tanh(%x)", "mul(%x, -2)", "add(%x, 1)", "clamp(%x) lo=-1 hi=1"})
        expect_stays("monotone_pool", "%x = input f64[1,1,3]\n%y = " + std::string(op) + "\n%z = max_pool(%y) " +
                                          windows + "\nreturn %z");
}

// A parameter's sign is not known when planning: its values are those of the next step, and any of them may be
// negative.
TEST(rules_traps, parameters_of_unknown_sign) {
    const std::string x =
        "%x = input f64[2,3,6,8]\n%scale = param f64[]\n%p = param f64[3,1,1]\n%slope = param f64[1]\n";
    for (const char* op : {"mul(%x, %scale)", "mul(%p, %x)", "div(%x, %p)", "prelu(%x, %slope)"})
        for (const char* top :
             {"max_pool(%y) kernel=[2,2]", "min_pool(%y) kernel=[2,2]", "amax(%y) dims=[2,3]", "amin(%y) dims=[2,3]"}) {
            const std::string body = x + "%y = " + op + "\n%z = " + top + "\nreturn %z";
            const std::string rule =
                std::string(top).find("pool") != std::string::npos ? "monotone_pool" : "monotone_reduction";
            expect_stays(rule, body);
            // The rewritten graph is right for either sign.
            const Graph graph = graph_of(body);
            auto leaves = random_leaves(graph, 6);
            for (int sign : {1, -1}) {
                for (size_t leaf = 1; leaf < leaves.size(); ++leaf)
                    for (double& value : leaves[leaf]) value = sign * (0.5 + std::abs(value));
                EXPECT_LE(error(evaluate(graph, leaves), rewritten_and_run(graph, leaves)), 1e-12) << body;
            }
        }
    // A number's sign is known.
    expect_fires("monotone_pool", x + "%y = mul(%x, -0.5)\n%z = max_pool(%y) kernel=[2,2]\nreturn %z");
}

// detach is the identity of values alone. Rewritten with gradients in mind it stands, and gradients stay what they
// were, though everything around it is rewritten.
TEST(rules_traps, detach) {
    const std::string conv =
        "%x = input f64[2,3,4,5]\n%w = param f64[3,4,3,3]\n%b = param f64[4]\n%p = param f64[4,1,1]\n"
        "%y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]\n";
    RewriteOptions training = every_rule;
    training.inference = false;
    for (const char* chain : {"%d = detach(%y)\n%a = add(%y, %p)\n%c = add(%a, %d)\n%m = mul(%c, %d)\n%z = add(%m, %d)",
                              "%d = detach(%y)\n%a = mul(%y, %d)\n%z = mean(%a) dims=[2,3]",
                              "%m = mean(%y) dims=[2,3] keepdim=1\n%d = detach(%m)\n%z = sub(%y, %d)",
                              "%s = mul(%y, 0.5)\n%d = detach(%s)\n%a = add(%d, %p)\n%z = mean(%a) dims=[2,3]"}) {
        const Graph graph = graph_of(conv + chain + "\nreturn %z");
        const Graph kept = expect_exact(graph, training, 8).rewritten;
        EXPECT_EQ(count(kept, Op::detach), 1) << chain;
        const auto gradients = [](const Graph& forward) {
            GradientRequest request{{0}, {}};
            for (size_t leaf = 0; leaf < forward.leaves().size(); ++leaf)
                request.wrt.push_back(static_cast<ValueId>(leaf));
            const Graph backward = gradient(forward, request);
            return evaluate(backward, random_leaves(backward, 9));
        };
        const auto expected = gradients(graph);
        EXPECT_LE(error(expected, gradients(kept)), 1e-12) << chain;
        // Dropped, it would have let gradients pass.
        EXPECT_GT(error(expected, gradients(rewrite(graph, every_rule).rewritten)), 1e-6) << chain;
    }
}

}  // namespace
}  // namespace transfuse::tests
