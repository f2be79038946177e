// Composition: pools, upsamplings, slices and padding become part of the lattice, or stay where that would not be
// exact.
#include "rules.h"

namespace transfuse::tests {
namespace {

std::string conv(const std::string& attributes, bool bias = true) {
    return "%x = input f64[2,3,7,8]\n%w = param f64[3,4,3,3]\n%b = param f64[4]\n%y = conv_transpose(%x, %w" +
           std::string(bias ? ", %b" : "") + ") " + attributes + "\n";
}

TEST(rules_compose, pool_after_convolution) {
    const Derivation d = expect_fires("pool_after_lattice",
                                      conv("stride=[2,2] padding=[1,1]") + "%z = avg_pool(%y) kernel=[2,2]\nreturn %z");
    const Node& lattice = d.rewritten[d.rewritten.outputs()[0]];
    ASSERT_EQ(lattice.op, Op::lattice);
    EXPECT_EQ(d.rewritten[lattice.args[1]].type.shape, Sizes({1, 3, 4, 2, 2}));  // two taps an axis, stride 1
    EXPECT_EQ(lattice.attributes.integers(Key::up), Sizes({1, 1}));
    for (const char* pool : {"kernel=[3,2] stride=[1,2]", "kernel=[2,3] stride=[3,1]", "kernel=[3,3] divisor=2",
                             "kernel=[2,2] ceil_mode=1 divisor=4"})
        for (const char* attributes :
             {"stride=[3,2] padding=[1,0]", "dilation=[2,2]", "stride=[2,1] output_padding=[1,0]", ""})
            expect_exact(graph_of(conv(attributes) + "%z = avg_pool(%y) " + pool + "\nreturn %z"),
                         {.inference = true, .without = {}, .only = {}, .heed_cost = false}, 1);
    // Padding that the pool adds is zero, the bias there is not: it is added as an image.
    expect_fires("pool_after_lattice", conv("") + "%z = avg_pool(%y) kernel=[2,2] padding=[1,1]\nreturn %z");
    // Without a bias, what the padding reads must have been zero as well: here the convolution's own border was cut.
    expect_stays("pool_after_lattice",
                 conv("padding=[1,1]", false) + "%z = avg_pool(%y) kernel=[2,2] padding=[1,1]\nreturn %z");
    expect_fires("pool_after_lattice", conv("", false) + "%z = avg_pool(%y) kernel=[2,2] padding=[1,1]\nreturn %z");
}

TEST(rules_compose, two_pools) {
    const Derivation d = expect_fires(
        "pool_after_lattice",
        "%x = input f64[2,3,17,16]\n%y = avg_pool(%x) kernel=[2,2]\n%z = avg_pool(%y) kernel=[2,2]\nreturn %z");
    const Node& lattice = d.rewritten[d.rewritten.outputs()[0]];
    EXPECT_EQ(d.rewritten[lattice.args[1]].op, Op::full);  // still one number: a pool of 4
    EXPECT_EQ(d.rewritten[lattice.args[1]].type.shape, Sizes({3, 1, 1, 4, 4}));
    expect_fires("pool_after_lattice",
                 "%x = input f64[2,3,17,16]\n%y = avg_pool(%x) kernel=[3,3] stride=[1,2]\n%z = avg_pool(%y) "
                 "kernel=[2,3] stride=[2,1]\nreturn %z");
}

TEST(rules_compose, two_maxima) {
    const std::string x = "%x = input f64[2,3,23,20]\n";
    for (const char* second : {"kernel=[3,2]", "kernel=[2,2] stride=[1,3]", "kernel=[4,3] stride=[2,2]"}) {
        expect_fires("merge_pools", x + "%y = max_pool(%x) kernel=[2,2]\n%z = max_pool(%y) " + second + "\nreturn %z");
        expect_fires("merge_pools",
                     x + "%y = min_pool(%x) kernel=[3,2] stride=[1,2]\n%z = min_pool(%y) " + second + "\nreturn %z");
        expect_stays("merge_pools", x + "%y = max_pool(%x) kernel=[2,2] stride=[3,2]\n%z = max_pool(%y) " + second +
                                        "\nreturn %z");  // gaps
        expect_stays("merge_pools",
                     x + "%y = max_pool(%x) kernel=[2,2] padding=[1,0]\n%z = max_pool(%y) " + second + "\nreturn %z");
        expect_stays("merge_pools", x + "%y = min_pool(%x) kernel=[2,2]\n%z = max_pool(%y) " + second + "\nreturn %z");
    }
}

TEST(rules_compose, upsampling_before_convolution) {
    expect_fires("lattice_after_pool",
                 "%x = input f64[2,3,5,6]\n%w = param f64[4,3,3,3]\n%b = param f64[4]\n%u = upsample(%x) "
                 "scale=[2,2]\n%y = conv(%u, %w, %b) padding=[1,1]\nreturn %y");
    expect_fires("lattice_after_pool",
                 "%x = input f64[2,3,5]\n%w = param f64[3,4,3]\n%u = upsample(%x) scale=3\n%y = conv_transpose(%u, %w) "
                 "stride=2\nreturn %y");
    // Reading past the upsampled signal would read real values.
    expect_exact(graph_of("%x = input f64[2,3,5]\n%w = param f64[3,4,3]\n%a = avg_pool(%x) kernel=2 stride=1\n%y = "
                          "conv_transpose(%a, %w) padding=1\nreturn %y"),
                 {.inference = true, .without = {}, .only = {}, .heed_cost = false}, 1);
}

TEST(rules_compose, affine_ops_move_behind_the_pool) {
    const std::string x =
        "%x = input f64[2,3,6,8]\n%p = param f64[3,1,1]\n%nc = param f64[2,3,1,1]\n%row = param f64[8]\n";
    for (const char* term : {"mul(%t, %p)", "add(%t, %nc)", "sub(%p, %t)", "div(%t, 3)"})
        expect_fires("pool_of_affine",
                     x + "%t = tanh(%x)\n%y = " + term + "\n%z = avg_pool(%y) kernel=[2,2]\nreturn %z");
    expect_stays("pool_of_affine", x + "%t = tanh(%x)\n%y = mul(%t, %row)\n%z = avg_pool(%y) kernel=[2,2]\nreturn %z");
    // A window that sticks out counts fewer constants.
    expect_stays("pool_of_affine",
                 x + "%t = tanh(%x)\n%y = add(%t, %p)\n%z = avg_pool(%y) kernel=[2,2] padding=[1,1]\nreturn %z");
    expect_fires("pool_of_affine",
                 x + "%t = tanh(%x)\n%y = mul(%t, %p)\n%z = avg_pool(%y) kernel=[2,2] padding=[1,1]\nreturn %z");
}

TEST(rules_compose, slices) {
    for (const char* slice : {"axis=2 start=1 end=9 step=2", "axis=3 start=3 step=3", "axis=3 start=-4 end=-1",
                              "axis=0 start=1", "axis=1 start=1 end=4 step=2"}) {
        const Derivation d = expect_fires(
            "slice_of_lattice", conv("stride=[2,3] padding=[1,2]") + "%z = slice(%y) " + slice + "\nreturn %z");
        EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].op, Op::lattice);
    }
    // Channels of several groups are not rows of one weight.
    expect_stays("slice_of_lattice",
                 "%x = input f64[2,4,9]\n%w = param f64[4,3,3]\n%y = conv_transpose(%x, %w) groups=2\n%z = slice(%y) "
                 "axis=1 start=2\nreturn %z");
    // A step of 2 after stride 2: one residue remains, the taps of the others are dropped.
    const Derivation d = expect_fires("slice_of_lattice",
                                      "%x = input f64[1,3,9]\n%w = param f64[3,4,5]\n%y = conv_transpose(%x, %w) "
                                      "stride=2 padding=1\n%z = slice(%y) axis=2 step=2\nreturn %z");
    const Node& lattice = d.rewritten[d.rewritten.outputs()[0]];
    EXPECT_EQ(d.rewritten[lattice.args[1]].type.shape[3], 2);
}

TEST(rules_compose, zero_padding) {
    const std::string x = "%x = input f64[2,3,5,6]\n%w = param f64[3,4,3,3]\n";
    expect_fires("pad_before_lattice", x + "%p = pad(%x) start=[0,0,1,0] end=[0,0,2,3]\n%y = conv_transpose(%p, %w) "
                                           "stride=[2,1] padding=[1,2]\nreturn %y");
    expect_stays("pad_before_lattice",
                 x + "%p = pad(%x) start=[0,0,1,0] end=[0,0,2,3] value=1\n%y = conv_transpose(%p, %w)\nreturn %y");
    expect_stays("pad_before_lattice",
                 x + "%p = pad(%x) start=[0,0,-1,0] end=[0,0,2,3]\n%y = conv_transpose(%p, %w)\nreturn %y");
    expect_stays("pad_before_lattice", x + "%v = param f64[4,4,3,3]\n%p = pad(%x) start=[0,1,1,0] end=[0,0,0,0]\n%y = "
                                           "conv_transpose(%p, %v)\nreturn %y");
}

TEST(rules_compose, sixteen_bit_weights_are_composed_in_f32) {
    const Derivation d =
        rewrite(graph_of("%x = input f16[2,3,40,40]\n%w = param f16[3,4,3,3]\n%y = conv_transpose(%x, %w) stride=[2,2] "
                         "padding=[1,1]\n%z = avg_pool(%y) kernel=[2,2]\nreturn %z"));
    ASSERT_EQ(count(d, "pool_after_lattice"), 1);
    for (const Node& node : d.rewritten.nodes())
        if (node.op == Op::taps || node.op == Op::lattice) {
            EXPECT_EQ(node.type.dtype, DType::f32);
        }
}

// A chain of 16-bit scales and shifts between a thin convolution and a pool: all of it in f32, rounded once. Products
// that need tensor cores stay in 16 bits.
TEST(rules_compose, sixteen_bit_chains_to_a_pool) {
    const std::string x = "%x = input f16[2,3,12,10]\n%s = param f16[]\n%t = param f16[5,1,1]\n";
    const std::string thin =
        x + "%w = param f16[3,5,3,3]\n%b = param f16[5]\n%y = conv_transpose(%x, %w, %b) stride=[2,2]\n";
    const std::string pool = "%z = avg_pool(%c) kernel=[2,2]\nreturn %z";
    for (const char* chain : {"%c = mul(%y, %s)\n", "%a = mul(%y, %s)\n%d = sub(%t, %a)\n%c = div(%d, %s)\n",
                              "%a = add(%t, %y)\n%c = sub(%a, 3)\n"}) {
        const Derivation d = expect_fires("pool_of_narrow_affine", thin + chain + pool);
        EXPECT_EQ(count(d.rewritten, Op::taps), 2) << explain(d);
    }
    expect_fires("pool_after_lattice", thin + "%c = cast(%y) dtype=f32\n" + pool);
    expect_stays("pool_of_narrow_affine", thin + "%a = mul(%y, %s)\n%c = relu(%a)\n" + pool);
    const std::string thick =
        "%x = input f16[2,64,12,10]\n%s = param f16[]\n%w = param f16[64,64,3,3]\n"
        "%y = conv_transpose(%x, %w) stride=[2,2]\n";
    expect_stays("pool_of_narrow_affine", thick + "%c = mul(%y, %s)\n" + pool);
    expect_stays("pool_after_lattice", thick + "%z = avg_pool(%y) kernel=[2,2]\nreturn %z");
}

// Where a convolution's result has other readers it would be stored for the pool: then six products for one are worth
// it, unless they are many.
TEST(rules_compose, sixteen_bits_beside_statistics) {
    const auto composed = [](const std::string& channels, const std::string& between) {
        const Derivation d = rewrite(graph_of("%x = input f16[8," + channels + ",32,32]\n%w = param f16[" + channels +
                                              ",64,4,4]\n%y = "
                                              "conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n%c = " +
                                              between + "\n%z = avg_pool(%c) kernel=[4,4]\nreturn %z"));
        return count(d, "pool_after_lattice") + count(d, "pool_of_narrow_affine");
    };
    EXPECT_EQ(composed("16", "batch_norm(%y) training=1"), 1);
    EXPECT_EQ(composed("256", "batch_norm(%y) training=1"), 0);
    EXPECT_EQ(composed("16", "neg(%y)"), 0);
}

TEST(rules_compose, axes_on_which_nothing_happens) {
    const std::string x = "%x = input f64[2,3,1,5]\n%b = param f64[4]\n";
    expect_fires("drop_trivial_axes",
                 x + "%w = param f64[3,4,1,3]\n%y = conv_transpose(%x, %w, %b) stride=[1,2]\nreturn %y");
    expect_stays("drop_trivial_axes", x + "%w = param f64[3,4,2,3]\n%y = conv_transpose(%x, %w, %b)\nreturn %y");
}

TEST(rules_compose, sixteen_bits_come_after_the_pool) {
    const Graph graph =
        graph_of("%x = input f32[2,3,6,8]\n%h = cast(%x) dtype=bf16\n%y = avg_pool(%h) kernel=[2,2]\nreturn %y");
    const Derivation d =
        rewrite(graph, {.inference = true, .without = {}, .only = {"pool_before_cast"}, .heed_cost = false});
    ASSERT_EQ(count(d, "pool_before_cast"), 1) << explain(d);
    EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].op, Op::cast);
    const auto leaves = random_leaves(graph, 3);
    const auto wide = evaluate(graph_of("%x = input f64[2,3,6,8]\n%y = avg_pool(%x) kernel=[2,2]\nreturn %y"), leaves);
    EXPECT_LE(error(wide, evaluate(d.rewritten, leaves)), std::min(0x1p-8, error(wide, evaluate(graph, leaves))));
}

// Convolutions of many channels are not blown up for a pool that is cheap.
TEST(rules_compose, only_where_it_pays) {
    const std::string body =
        "%x = input f32[1,64,32,32]\n%w = param f32[64,64,3,3]\n%y = conv_transpose(%x, %w)\n%z = avg_pool(%y) "
        "kernel=[2,2] stride=[1,1]\nreturn %z";
    EXPECT_EQ(count(rewrite(graph_of(body)), "pool_after_lattice"), 0);
}

}  // namespace
}  // namespace transfuse::tests
