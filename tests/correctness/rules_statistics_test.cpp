// Cancellation by a subtracted mean, and variances in the centred form.
#include "rules.h"

namespace transfuse::tests {
namespace {

const std::string conv =
    "%x = input f64[3,4,6,7]\n%w = param f64[4,5,3,3]\n%b = param f64[5]\n%gamma = param f64[5]\n%beta = param f64[5]\n"
    "%y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,0]\n";

TEST(rules_cancel, differences) {
    const std::string x = "%x = input f64[2,3,4]\n%v = input f64[2,3,1]\n%p = param f64[3,1]\n%q = param f64[3,1]\n";
    expect_fires("cancel_shift", x + "%a = add(%x, %p)\n%b = add(%p, %v)\n%z = sub(%a, %b)\nreturn %z");
    expect_fires("cancel_shift", x + "%a = sub(%x, %p)\n%b = sub(%v, %p)\n%z = sub(%a, %b)\nreturn %z");
    expect_stays("cancel_shift", x + "%a = add(%x, %p)\n%b = add(%v, %q)\n%z = sub(%a, %b)\nreturn %z");
    expect_stays("cancel_shift", x + "%a = sub(%p, %x)\n%b = sub(%p, %v)\n%z = sub(%a, %b)\nreturn %z");
    expect_fires("cancel_whole", x + "%a = add(%x, %p)\n%u = tanh(%a)\n%s = add(%u, %x)\n%z = sub(%x, %s)\nreturn %z");
    expect_fires("cancel_whole", x + "%u = tanh(%x)\n%s = add(%x, %u)\n%z = sub(%s, %x)\nreturn %z");
    const std::string biased =
        "%x = input f64[2,3,4]\n%w = param f64[3,2,3]\n%b = param f64[2]\n%v = input f64[2,2,1]\n"
        "%y = conv_transpose(%x, %w, %b)\n%c = reshape(%b) shape=[2,1]\n";
    expect_fires("cancel_bias", biased + "%s = add(%v, %c)\n%z = sub(%y, %s)\nreturn %z");
    expect_stays("cancel_bias", biased + "%s = mul(%v, %c)\n%z = sub(%y, %s)\nreturn %z");
    expect_fires("factor_scale", x + "%a = mul(%x, %p)\n%b = mul(%p, %v)\n%z = sub(%a, %b)\nreturn %z");
    expect_stays("factor_scale", x + "%a = mul(%x, %p)\n%b = mul(%q, %v)\n%z = sub(%a, %b)\nreturn %z");
}

TEST(rules_cancel, subtracting_a_spatial_mean) {
    // The bias of the convolution never reaches the result.
    const Derivation d =
        expect_exact(graph_of(conv + "%m = mean(%y) dims=[2,3] keepdim=1\n%z = sub(%y, %m)\nreturn %z"),
                     {.inference = true, .without = {}, .only = {}, .heed_cost = false}, 1);
    EXPECT_GE(count(d, "cancel_bias") + count(d, "cancel_shift"), 1) << explain(d);
    for (const Node& node : d.rewritten.nodes())
        if (node.op == Op::lattice) {
            EXPECT_EQ(node.args.size(), 2u) << explain(d);
        }
    // Nor do scale and shift of a norm, or its statistics, but for the scale.
    const Derivation n = expect_exact(graph_of(conv + "%n = batch_norm(%y, %gamma, %beta) training=1\n%m = mean(%n) "
                                                      "dims=[2,3] keepdim=1\n%z = sub(%n, %m)\nreturn %z"),
                                      {}, 2);
    EXPECT_GE(count(n, "cancel_shift"), 1) << explain(n);
    EXPECT_GE(count(n, "factor_scale"), 1) << explain(n);
    // Subtracting a mean over another axis does not cancel what varies along it.
    expect_exact(graph_of(conv + "%m = mean(%y) dims=[1,2] keepdim=1\n%z = sub(%y, %m)\nreturn %z"),
                 {.inference = true, .without = {}, .only = {}, .heed_cost = false}, 3);
}

TEST(rules_statistics, a_sum_over_its_count_is_a_mean) {
    const std::string x = "%x = input f64[2,3,4]\n";
    expect_fires("sum_is_mean", x + "%s = sum(%x) dims=[0,2] keepdim=1\n%z = mul(%s, 0.125)\nreturn %z");
    expect_fires("sum_is_mean",
                 x + "%s = sum(%x) dims=[1] keepdim=1\n%n = neg(%s)\n%z = mul(%n, 0.3333333333333333)\nreturn %z");
    expect_stays("sum_is_mean", x + "%s = sum(%x) dims=[0,2] keepdim=1\n%z = mul(%s, 0.25)\nreturn %z");
}

// wᵀ·C·w is the variance whatever padding cuts and phases leave out.
TEST(rules_statistics, variance_from_the_covariance_of_the_input) {
    const std::string leaves[] = {"%x = input f64[2,1,9]\n%w = param f64[1,300,5]\n",
                                  "%x = input f64[2,2,5,6]\n%w = param f64[2,300,3,4]\n",
                                  "%x = input f64[2,2,3,4,5]\n%w = param f64[2,300,3,2,3]\n",
                                  "%x = input f64[2,4,5,6]\n%w = param f64[4,75,3,3]\n"};
    const std::vector<std::string> options[] = {
        {"", "stride=[3] padding=[2]", "dilation=[2] padding=[5]", "stride=[2] padding=[3] output_padding=[1]"},
        {"padding=[1,1]", "stride=[2,3] padding=[1,2] output_padding=[1,0]", "stride=[2,2] dilation=[3,2]",
         "padding=[3,4] stride=[2,1]"},
        {"stride=[2,2,2] padding=[1,1,1]", "padding=[1,0,2]", "stride=[2,1,1] padding=[2,1,1] dilation=[2,1,1]"},
        {"groups=2 stride=[2,2] padding=[1,1]", "groups=4 padding=[0,2]"}};
    for (size_t i = 0; i < 4; ++i)
        for (const std::string& option : options[i]) {
            const std::string dims = i == 0 ? "[0,2]" : i == 2 ? "[0,2,3,4]" : "[0,2,3]";
            const Derivation d = expect_fires(
                "variance_of_input", leaves[i] + "%z = conv_transpose(%x, %w) " + option +
                                         "\n%y = add(%z, 10)\n%s = square(%y)\n%m = mean(%s) keepdim=1 dims=" + dims +
                                         "\n%e = mean(%y) keepdim=1 dims=" + dims +
                                         "\n%q = square(%e)\n%v = sub(%m, %q)\nreturn %v");
            EXPECT_EQ(count(d, "variance_of_input"), 1) << explain(d);
            EXPECT_EQ(count(d.rewritten, Op::covariance), 1);
        }
    // Many channels for few outputs: the convolution is cheaper. Nor variances of single samples, or what d is needed
    // for.
    const std::string narrow = "%x = input f64[2,1,9]\n%w = param f64[1,30,5]\n%y = conv_transpose(%x, %w)\n";
    for (const std::string& text :
         {std::string("%x = input f64[2,16,9]\n%w = param f64[16,32,5]\n%y = conv_transpose(%x, %w)\n%v = var(%y) "
                      "dims=[0,2]\nreturn %v"),
          narrow + "%v = var(%y) dims=[2]\nreturn %v", narrow + "%r = relu(%y)\n%v = var(%r) dims=[0,2]\nreturn %v",
          narrow + "%v = batch_norm(%y) training=1\nreturn %v"})
        EXPECT_EQ(count(expect_exact(graph_of(text), {}, 6), "variance_of_input"), 0) << text;
    const Graph graph = graph_of(narrow + "%v = var(%y) dims=[0,2]\nreturn %v");
    EXPECT_EQ(count(rewrite(graph, {.differentiated = true, .without = {}, .only = {}}), "variance_of_input"), 0);
}

// Each tap's inputs are a box: what their mean is, the covariance knows; x is read for both at once.
TEST(rules_statistics, means_from_the_covariance_of_the_input) {
    const auto both = [](const std::string& x, const std::string& boxes, const std::string& lattice) {
        return "%x = input f64" + x + "\n%b = box_sums(%x) " + boxes +
               "\n%m = mean(%b) dims=[0] keepdim=1\n%c = covariance(%x) " + lattice +
               "\n%s = sum(%c)\n%z = mul(%m, %s)\nreturn %z";
    };
    const std::string cut = "dims=[2,3] counts=[3,2] los=[1,0,0,0,1] his=[4,4,3,5,5] steps=[1,1,1,1,1]";
    const std::string taps = "up=[2,1] offset=[1,0] out=[9,6] taps=[3,2]";
    for (const std::string groups : {"1", "2"}) {
        const std::string lattice = "up=[2,1] offset=[1,1] out=[9,5] taps=[3,2] groups=" + groups;
        const Derivation d = expect_fires(
            "means_beside_covariance",
            both("[2,4,5,6]", "dims=[2,3] counts=[3,2] los=[1,0,0,1,0] his=[4,4,3,5,4] steps=[1,1,1,1,1]", lattice));
        EXPECT_EQ(count(d.rewritten, Op::box_sums), 0) << explain(d);
        EXPECT_EQ(count(d.rewritten, Op::covariance), 1) << explain(d);
    }
    // Other boxes; taps that share one; means of single samples.
    expect_stays("means_beside_covariance", both("[2,4,5,6]", cut, taps));
    const std::string x =
        "%x = input f64[2,2,5]\n%c = covariance(%x) up=[2] offset=[1] out=[10] taps=[4]\n%s = sum(%c)\n";
    const std::string boxes = "%b = box_sums(%x) dims=[2] counts=[3] los=[1,0,0] his=[4,4,3] steps=[1,1,1]\n";
    expect_stays("means_beside_covariance",
                 x + boxes + "%m = mean(%b) dims=[0] keepdim=1\n%z = mul(%m, %s)\nreturn %z");
    expect_stays("means_beside_covariance", x + boxes + "%z = mul(%b, %s)\nreturn %z");
}

TEST(rules_statistics, variances_that_differ_by_a_factor_are_one_sum) {
    const Derivation d =
        expect_fires("plain_variance", conv +
                                           "%r = relu(%y)\n%v = var(%r) dims=[0,2,3] correction=1\n%u = var(%r) "
                                           "dims=[0,2,3] correction=0\n%z = sub(%v, %u)\nreturn %z");
    EXPECT_EQ(count(d.rewritten, Op::var), 1);
    expect_stays("plain_variance", "%x = input f64[1,2]\n%v = var(%x) dims=[0]\nreturn %v");
}

// Statistics of a convolution that is worth storing come with it: nothing is collapsed for them alone.
TEST(rules_statistics, statistics_come_with_a_thick_convolution) {
    const auto chain = [](const std::string& channels, const std::string& rest) {
        return rewrite(graph_of("%x = input f32[16," + channels + ",64,64]\n%w = param f32[" + channels +
                                ",64,4,4]\n%y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n%m = mean(%y) "
                                "dims=[0,2,3]\n%v = var(%y) dims=[0,2,3]\n%n = batch_norm(%y) training=1\n" +
                                rest));
    };
    const Derivation thick = chain("128", "%z = relu(%n)\nreturn %z, %m, %v");
    EXPECT_EQ(count(thick.rewritten, Op::lattice), 1) << explain(thick);
    EXPECT_EQ(count(thick.rewritten, Op::box_sums), 0) << explain(thick);
    EXPECT_EQ(count(thick.rewritten, Op::var), 1) << explain(thick);
    // A thin one is computed twice, about the collapsed mean; and where the mean over the image is wanted as well, so
    // is a thick one.
    EXPECT_EQ(count(chain("16", "%z = relu(%n)\nreturn %z, %m, %v").rewritten, Op::box_sums), 1);
    EXPECT_EQ(count(chain("128", "%z = mean(%n) dims=[2,3]\nreturn %z, %m, %v").rewritten, Op::box_sums), 1);
}

TEST(rules_statistics, variance_is_centred) {
    for (const char* dims : {"[0,2,3]", "[2,3]", "[1,2,3]"})
        for (const char* correction : {"0", "1"}) {
            const Derivation d = expect_fires(
                "centred_variance", conv + "%v = var(%y) dims=" + dims + " correction=" + correction + "\nreturn %v");
            EXPECT_EQ(count(d.rewritten, Op::var), 0);
        }
    expect_stays("centred_variance", conv + "%r = relu(%y)\n%v = var(%r) dims=[2,3]\nreturn %v");
    expect_stays("centred_variance", conv + "%v = var(%y) dims=[0,1]\nreturn %v");
    // The statistics of a row come with the row: neither is its variance centred nor its mean collapsed.
    const std::string rows = conv +
                             "%v = var(%y) dims=[3] keepdim=1\n%m = mean(%y) dims=[3] keepdim=1\n%d = sub(%y, %m)\n%z "
                             "= mul(%d, %v)\nreturn %z";
    expect_stays("centred_variance", rows);
    expect_stays("collapse", rows);
}

// The mean is far from zero and the spread small: E[y²] − E[y]² would lose everything, the centred form loses nothing.
TEST(rules_statistics, no_cancellation) {
    const Graph graph = graph_of(conv + "%far = add(%y, 1e6)\n%v = var(%far) dims=[0,2,3]\nreturn %v");
    const auto leaves = random_leaves(graph, 7);
    const auto expected = evaluate(graph_of(conv + "%v = var(%y) dims=[0,2,3]\nreturn %v"), leaves);
    EXPECT_LE(error(expected, evaluate(rewrite(graph).rewritten, leaves)), 1e-9);
}

// Training BatchNorm and its running statistics share one convolution; its mean comes from the input.
TEST(rules_statistics, batch_norm_stores_nothing_twice) {
    const std::string norm = conv +
                             "%n = batch_norm(%y, %gamma, %beta) training=1\n%bm = mean(%y) dims=[0,2,3]\n%bv = "
                             "var(%y) dims=[0,2,3] correction=1\n";
    const Derivation d = expect_exact(graph_of(norm + "%g = mean(%n) dims=[2,3]\nreturn %g, %bm, %bv"), {}, 1);
    int dense = 0, squares = 0;
    for (const Node& node : d.rewritten.nodes()) {
        dense += node.op == Op::lattice && node.type.shape[2] > 1;
        squares += node.op == Op::square && numel(node.type.shape) > 1000;
        EXPECT_NE(node.op, Op::var);
        // Nothing of the large tensor's size but the convolution and the square that is summed at once.
        if (numel(node.type.shape) > 1000) {
            EXPECT_TRUE(node.op == Op::lattice || node.op == Op::square) << explain(d);
        }
    }
    EXPECT_EQ(dense, 1) << explain(d);
    EXPECT_EQ(squares, 1);
}

// E[d] takes away the rounding that all d share. Values that come from the input by another route (collapsed means,
// composed pools) do not share it: there E[d] only serves the variance.
TEST(rules_statistics, exact_numerators_take_exact_means) {
    for (const char* tail :
         {"%z = mean(%n) dims=[2,3]", "%z = mean(%n) dims=[2,3] keepdim=1", "%z = avg_pool(%n) kernel=[2,2]"}) {
        const Derivation d = expect_exact(
            graph_of(conv + "%n = batch_norm(%y, %gamma, %beta) training=1\n" + tail + "\nreturn %z"), {}, 1);
        const auto readers = uses(d.rewritten);
        for (ValueId id = 0; id < d.rewritten.size(); ++id) {
            const Node& node = d.rewritten[id];
            if (node.op != Op::mean || d.rewritten[node.args[0]].op != Op::lattice ||
                numel(d.rewritten[node.args[0]].type.shape) < 1000)
                continue;
            ASSERT_EQ(readers[static_cast<size_t>(id)].size(), 1u) << explain(d);
            EXPECT_EQ(d.rewritten[readers[static_cast<size_t>(id)][0]].op, Op::square) << explain(d);
        }
    }
}

// A mean over some of the axes that a value was centred on: exact means alone take part.
TEST(rules_statistics, means_of_centred_values) {
    const std::string centred = conv + "%a = add(%y, 3)\n%m = mean(%a) dims=[0,2,3] keepdim=1\n%d = sub(%a, %m)\n";
    for (const char* dims : {"[2,3]", "[2]", "[0,2,3]"}) {
        const Derivation d = expect_fires(
            "mean_of_centred", centred + "%z = mean(%d) dims=" + dims + " keepdim=1\n%s = mul(%z, 0.5)\nreturn %s");
        for (const Node& node : d.rewritten.nodes())
            if (node.op == Op::mean) {
                EXPECT_EQ(d.rewritten[node.args[0]].op, Op::lattice) << explain(d);
            }
    }
    expect_stays("mean_of_centred", centred + "%z = mean(%d) dims=[1] keepdim=1\nreturn %z");  // not an axis of it
}

// Where the mean is not collapsed, the mean square around it is the variance, which a pass that computes y takes along.
TEST(rules_statistics, the_mean_square_around_the_mean) {
    const std::string centred = "%x = input f64[2,3,5,6]\n%m = mean(%x) dims=[2,3] keepdim=1\n%d = sub(%x, %m)\n";
    const Derivation d =
        expect_fires("direct_variance", centred + "%q = square(%d)\n%z = mean(%q) dims=[2,3] keepdim=1\nreturn %z");
    EXPECT_EQ(count(d.rewritten, Op::var), 1) << explain(d);
    EXPECT_EQ(count(d.rewritten, Op::sub), 0) << explain(d);
    const Derivation none = expect_fires("direct_variance", centred + "%z = mean(%d) dims=[2,3] keepdim=1\nreturn %z");
    EXPECT_EQ(none.rewritten[none.rewritten.outputs()[0]].op, Op::full) << explain(none);
    expect_stays("direct_variance", centred + "%q = square(%d)\n%z = mean(%q) dims=[3] keepdim=1\nreturn %z");
}

// E[d] must be that of the same rounded values as E[d²]: it is not collapsed.
TEST(rules_statistics, first_moment_stays_with_the_second) {
    const Derivation d = rewrite(graph_of(conv + "%n = batch_norm(%y, %gamma, %beta) training=1\nreturn %n"));
    int means_of_dense = 0;
    for (const Node& node : d.rewritten.nodes())
        if ((node.op == Op::mean || node.op == Op::var) && numel(d.rewritten[node.args[0]].type.shape) > 1000)
            ++means_of_dense;
    EXPECT_EQ(means_of_dense, 2) << explain(d);
}

}  // namespace
}  // namespace transfuse::tests
