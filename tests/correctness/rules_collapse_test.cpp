// Collapse: linear reductions move before the convolution, exactly, wherever borders are cut.
#include "rules.h"

namespace transfuse::tests {
namespace {

std::string list(const Sizes& sizes) { return to_string(sizes); }

// Lattices with any up, down, dil and offset, reduced over any axes.
TEST(rules_collapse, random_lattices) {
    Random random(5);
    int collapsed = 0, stepped = 0;
    for (uint64_t round = 0; round < 1500; ++round) {
        const int64_t d = random.between(1, 3), groups = random.between(1, 2);
        const int64_t in = groups * random.between(1, 2), out = groups * random.between(1, 2);
        Sizes x = {random.between(1, 2), in}, w = {groups, in / groups, out / groups}, up, down, dil, offset, extent,
              dims;
        for (int64_t j = 0; j < d; ++j) {
            x.push_back(random.between(1, 6));
            w.push_back(random.between(1, 4));
            up.push_back(random.between(1, 3));
            down.push_back(random.between(1, 3));
            dil.push_back(random.between(1, 3));
            offset.push_back(random.between(-5, 9));
            extent.push_back(random.between(1, 7));
            if (random.chance(0.6)) dims.push_back(j + 2);
        }
        if (dims.empty()) dims.push_back(2);
        if (random.chance(0.2)) dims.insert(dims.begin(), 1);
        if (random.chance(0.2)) dims.insert(dims.begin(), 0);
        const std::string op = random.chance(0.5) ? "mean" : "sum", keep = random.chance(0.5) ? "1" : "0";
        std::string body = "%x = input f64" + list(x) + "\n%w = param f64" + list(w) + "\n%b = param f64[" +
                           std::to_string(out) + "]\n";
        body += std::string("%y = lattice(%x, %w") + (random.chance(0.5) ? ", %b" : "") + ") up=" + list(up) +
                " down=" + list(down) + " dil=" + list(dil) + " offset=" + list(offset) + " out=" + list(extent) + "\n";
        body += "%z = " + op + "(%y) dims=" + list(dims) + " keepdim=" + keep + "\nreturn %z";
        RewriteOptions options;
        options.heed_cost = false;
        const Derivation d1 = expect_exact(graph_of(body), options, round);
        collapsed += count(d1, "collapse");
        for (const Node& node : d1.rewritten.nodes())
            if (node.op == Op::box_sums)
                for (int64_t step : node.attributes.integers(Key::steps)) stepped += step > 1;
        if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(collapsed, 900);
    EXPECT_GT(stepped, 200);
}

const std::string conv =
    "%x = input f64[2,4,9,11]\n%w = param f64[4,6,3,3]\n%b = param f64[6]\n%p = param f64[6,1,1]\n%nc = param "
    "f64[2,6,1,1]\n%row = param f64[21]\n"
    "%y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]\n";

TEST(rules_collapse, through_scales_and_shifts) {
    for (const char* terms : {"%a = mul(%y, %p)\n%z = add(%a, %nc)", "%a = sub(%nc, %y)\n%z = div(%a, 3)",
                              "%a = neg(%y)\n%z = mul(%nc, %a)", "%z = add(2, %y)"})
        for (const char* reduction : {"mean(%z) dims=[2,3] keepdim=1", "sum(%z) dims=[2,3]", "mean(%z) dims=[0,2,3]",
                                      "sum(%z) dims=[0,1,2,3]"}) {
            const Derivation d = expect_fires("collapse", conv + terms + "\n%r = " + reduction + "\nreturn %r");
            EXPECT_EQ(count(d.rewritten, Op::box_sums), 1);
        }
    // What varies along a reduced axis, or is not affine, stays in the way.
    expect_stays("collapse", conv + "%z = mul(%y, %row)\n%r = mean(%z) dims=[2,3]\nreturn %r");
    expect_stays("collapse", conv + "%z = relu(%y)\n%r = mean(%z) dims=[2,3]\nreturn %r");
    expect_stays("collapse", conv + "%r = amax(%y) dims=[2,3]\nreturn %r");
    // Along one axis it does not vary: only that one is reduced.
    expect_fires("collapse", conv + "%z = mul(%y, %row)\n%r = mean(%z) dims=[2] keepdim=1\nreturn %r");
}

TEST(rules_collapse, seed_chains_end_without_a_dense_product) {
    const Derivation d = expect_exact(
        graph_of(
            conv +
            "%s = mul(%y, 0.5)\n%m = mean(%s) dims=[2,3] keepdim=1\n%z = mean(%m) dims=[2,3] keepdim=1\nreturn %z"),
        {}, 1);
    for (const Node& node : d.rewritten.nodes())
        if (node.op == Op::lattice) {
            EXPECT_EQ(Sizes(node.type.shape.begin() + 2, node.type.shape.end()), Sizes({1, 1}));
        }
    // Written with flatten and without keepdim.
    const Derivation f =
        expect_exact(graph_of(conv + "%f = reshape(%y) shape=[2,6,-1]\n%m = mean(%f) dims=[2]\nreturn %m"), {}, 2);
    EXPECT_EQ(count(f.rewritten, Op::box_sums), 1) << explain(f);
}

TEST(rules_collapse, partial_axes_leave_a_smaller_convolution) {
    const Derivation d = expect_exact(
        graph_of("%x = input f64[2,3,6,7,8]\n%w = param f64[3,4,3,3,3]\n%b = param f64[4]\n%t = param f64[1,4,1,1,1]\n"
                 "%y = conv_transpose(%x, %w, %b) padding=[1,1,1]\n%m = mean(%y) dims=[2] keepdim=1\n%a = add(%m, "
                 "%t)\n%s = softmax(%a) dims=[1]\n%h = tanh(%s)\n%z = mul(%h, 2)\nreturn %z"),
        {}, 1);
    // A 2-d convolution on 3·3 channels, the chain behind it on its own grid, one reshape at the end.
    for (const Node& node : d.rewritten.nodes())
        if (node.op == Op::lattice) {
            EXPECT_EQ(node.type.shape, Sizes({2, 4, 7, 8}));
            EXPECT_EQ(d.rewritten[node.args[1]].type.shape, Sizes({1, 9, 4, 3, 3}));
        }
    EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].op, Op::reshape);
}

TEST(rules_collapse, pools_collapse_to_one_box) {
    const Derivation d = expect_fires(
        "collapse", "%x = input f64[2,3,9,8]\n%y = avg_pool(%x) kernel=[2,2]\n%z = mean(%y) dims=[2,3]\nreturn %z");
    for (const Node& node : d.rewritten.nodes())
        if (node.op == Op::box_sums) {
            EXPECT_EQ(node.attributes.integers(Key::counts), Sizes({1, 1}));
        }
}

TEST(rules_collapse, channels_and_batch) {
    const std::string grouped =
        "%x = input f64[3,4,9]\n%w = param f64[4,3,3]\n%b = param f64[6]\n%y = conv_transpose(%x, %w, %b) groups=2\n";
    for (const char* op : {"sum", "mean"}) {
        expect_fires("sum_of_channels", grouped + "%z = " + op + "(%y) dims=[1] keepdim=1\nreturn %z");
        expect_fires("sum_of_batch", grouped + "%z = " + op + "(%y) dims=[0] keepdim=1\nreturn %z");
    }
}

TEST(rules_collapse, reductions_merge) {
    const std::string x = "%x = input f64[2,3,4,5]\n%v = input f64[2,3,4,5]\n";
    for (const char* op : {"sum", "mean", "amax", "amin", "logsumexp"})
        expect_fires("merge_reductions",
                     x + "%a = " + op + "(%x) dims=[2] keepdim=1\n%b = " + op + "(%a) dims=[0,3] keepdim=1\nreturn %b");
    expect_stays("merge_reductions",
                 x + "%a = sum(%x) dims=[2] keepdim=1\n%b = mean(%a) dims=[3] keepdim=1\nreturn %b");
    expect_stays("merge_reductions", x + "%a = var(%x) dims=[2] keepdim=1\n%b = var(%a) dims=[3] keepdim=1\nreturn %b");
    for (const char* op : {"sum", "mean", "amax", "logsumexp"})
        expect_fires("size_one_axes",
                     "%x = input f64[2,1,4]\n%y = " + std::string(op) + "(%x) dims=[1,2] keepdim=1\nreturn %y");
    expect_stays("size_one_axes", "%x = input f64[2,1,4]\n%y = var(%x) dims=[1] correction=0 keepdim=1\nreturn %y");
    for (const char* op : {"sum", "mean", "amax", "amin"})
        expect_fires("reduce_expanded", "%x = input f64[2,1,4]\n%e = expand(%x) shape=[3,2,5,4]\n%y = " +
                                            std::string(op) + "(%e) dims=[0,2,3]\nreturn %y");
    expect_fires("reduce_full",
                 "%x = input f64[4]\n%o = full() dtype=f64 shape=[3,4] value=2\n%s = sum(%o) dims=[0]\n%y = add(%x, "
                 "%s)\nreturn %y");
    for (const char* op : {"sum", "mean", "amax", "logsumexp", "var"}) {
        expect_fires("reduce_reshaped",
                     x + "%f = reshape(%x) shape=[2,3,20]\n%y = " + std::string(op) + "(%f) dims=[2]\nreturn %y");
        expect_fires("reduce_reshaped", x + "%f = reshape(%x) shape=[2,1,3,2,2,5]\n%y = " + std::string(op) +
                                            "(%f) dims=[2,5] keepdim=1\nreturn %y");
        // Half of a run of axes: no whole axis of x.
        expect_stays("reduce_reshaped",
                     x + "%f = reshape(%x) shape=[2,3,10,2]\n%y = " + std::string(op) + "(%f) dims=[2]\nreturn %y");
    }
    expect_fires(
        "reduce_affine",
        x + "%p = param f64[3,1,1]\n%a = mul(%x, %p)\n%b = add(%a, 2)\n%y = sum(%b) dims=[2,3] keepdim=1\nreturn %y");
    expect_fires("reduce_sum_of_two",
                 conv + "%e = input f64[2,6,17,21]\n%a = add(%e, %y)\n%r = mean(%a) dims=[2,3] keepdim=1\nreturn %r");
}

TEST(rules_collapse, sixteen_bit_sums_are_f32) {
    const Derivation d =
        rewrite(graph_of("%x = input bf16[2,4,50]\n%w = param bf16[4,6,3]\n%b = param bf16[6]\n%y = conv_transpose(%x, "
                         "%w, %b)\n%s = mul(%y, 0.3)\n%z = mean(%s) dims=[2]\nreturn %z"));
    ASSERT_EQ(count(d, "collapse"), 1) << explain(d);
    for (const Node& node : d.rewritten.nodes())
        if (node.op == Op::lattice || node.op == Op::box_sums || node.op == Op::mul || node.op == Op::add) {
            EXPECT_EQ(node.type.dtype, DType::f32) << name(node.op);
        }
    EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].type.dtype, DType::bf16);
}

// Rounded once, after the reduction. Rounding is monotone, so a maximum is the same bit for bit; a sum comes nearer.
TEST(rules_collapse, sixteen_bits_come_last) {
    const std::string x = "%x = input f32[2,3,40]\n%h = cast(%x) dtype=f16\n";
    for (const char* op : {"amax", "amin"})
        expect_fires("narrow_last", x + "%y = " + std::string(op) + "(%h) dims=[2]\nreturn %y");
    const Graph graph = graph_of(x + "%y = sum(%h) dims=[2]\nreturn %y");
    const Derivation d =
        rewrite(graph, {.inference = true, .without = {}, .only = {"narrow_last"}, .heed_cost = false});
    ASSERT_EQ(count(d, "narrow_last"), 1) << explain(d);
    const auto leaves = random_leaves(graph, 3);
    const auto wide = evaluate(graph_of("%x = input f64[2,3,40]\n%y = sum(%x) dims=[2]\nreturn %y"), leaves);
    EXPECT_LE(error(wide, evaluate(d.rewritten, leaves)), std::max(0x1p-11, error(wide, evaluate(graph, leaves))));
    expect_stays("narrow_last", "%x = input f16[2,3,40]\n%w = cast(%x) dtype=f32\n%y = amax(%w) dims=[2]\nreturn %y");
}

// Reading a wide input once more can cost more than reading the narrow result.
TEST(rules_collapse, only_where_it_pays) {
    const std::string narrow =
        "%x = input f64[1,64,40]\n%w = param f64[64,1,3]\n%y = conv_transpose(%x, %w)\n%t = tanh(%y)\n%m = mean(%y) "
        "dims=[2]\nreturn %t, %m";
    EXPECT_EQ(count(rewrite(graph_of(narrow)), "collapse"), 0);
}

}  // namespace
}  // namespace transfuse::tests
