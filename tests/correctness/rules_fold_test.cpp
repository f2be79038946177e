// Folding of scales, shifts and constants, and the simplifications.
#include "rules.h"

namespace transfuse::tests {
namespace {

// Six output channels in two groups: the per-channel axis lies within the group.
const std::string conv =
    "%x = input f64[2,4,5,6]\n%w = param f64[4,3,3,3]\n%b = param f64[6]\n%p = param f64[6,1,1]\n%q = param "
    "f64[1,6,1,1]\n%s = param f64[]\n%one = param f64[1]\n"
    "%nc = param f64[2,6,1,1]\n%full = param f64[2,6,9,11]\n%row = param f64[11]\n"
    "%y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] groups=2\n%bare = conv_transpose(%x, %w) stride=[2,2] "
    "padding=[1,1] groups=2\n";

TEST(rules_fold, scale_into_weights) {
    for (const char* term : {"mul(%y, 0.5)", "mul(%y, %p)", "mul(%q, %y)", "mul(%y, %s)", "mul(%bare, %p)",
                             "div(%y, 3)", "div(%y, %positive_d)", "neg(%y)", "mul(%y, %one)"}) {
        const Derivation d =
            expect_fires("fold_scale", conv + "%positive_d = param f64[6,1,1]\n%z = " + term + "\nreturn %z");
        EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].op, Op::lattice) << term;
    }
    // Not per channel: it stays where it is.
    for (const char* term : {"mul(%y, %nc)", "mul(%y, %full)", "mul(%y, %row)", "div(2, %y)"})
        expect_stays("fold_scale", conv + "%z = " + term + "\nreturn %z");
    // A scale made of data stays as well: weights are made before any data is there.
    expect_stays("fold_scale", conv + "%m = sum(%x) dims=[]\n%z = mul(%y, %m)\nreturn %z");
}

TEST(rules_fold, shift_into_bias) {
    for (const char* term : {"add(%y, 0.5)", "add(%y, %p)", "sub(%y, %q)", "add(%s, %y)", "add(%bare, %p)",
                             "sub(%bare, %s)", "add(%bare, 2)", "sub(%bare, %p)", "add(%y, %one)"}) {
        const Derivation d = expect_fires("fold_shift", conv + "%z = " + term + "\nreturn %z");
        EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].op, Op::lattice) << term;
    }
    for (const char* term : {"add(%y, %nc)", "add(%y, %full)", "sub(%y, %row)", "sub(%p, %y)"})
        expect_stays("fold_shift", conv + "%z = " + term + "\nreturn %z");
}

TEST(rules_fold, input_scale) {
    const std::string x =
        "%x = input f64[2,4,5]\n%w = param f64[4,3,3]\n%p = param f64[4,1]\n%r = param f64[5]\n%s = param f64[]\n";
    for (const char* term : {"mul(%x, 3)", "mul(%x, %p)", "mul(%s, %x)"})
        for (const char* groups : {"1", "2"})
            expect_fires("fold_input_scale", x + "%u = " + term +
                                                 "\n%y = conv_transpose(%u, %w) stride=2 padding=1 groups=" + groups +
                                                 "\nreturn %y");
    expect_stays("fold_input_scale", x + "%u = mul(%x, %r)\n%y = conv_transpose(%u, %w)\nreturn %y");
    expect_stays("fold_input_scale", x + "%u = add(%x, %p)\n%y = conv_transpose(%u, %w)\nreturn %y");
}

TEST(rules_fold, evaluation_batch_norm_vanishes) {
    const Derivation d = expect_exact(
        graph_of(conv + "%g = param f64[6]\n%m = param f64[6]\n%positive_v = param f64[6]\n%z = batch_norm(%y, %m, "
                        "%positive_v, %g, %b)\n%t = mul(%z, 3)\n%u = sub(%t, %p)\nreturn %u"),
        {.inference = true, .without = {}, .only = {}, .heed_cost = false}, 1);
    EXPECT_EQ(d.rewritten[d.rewritten.outputs()[0]].op, Op::lattice);
}

// A shared convolution is not computed twice for a fold.
TEST(rules_fold, a_shared_convolution_stays_one) {
    const Derivation d = rewrite(graph_of(conv + "%z = mul(%y, %p)\n%t = tanh(%y)\nreturn %z, %t"));
    EXPECT_EQ(count(d.rewritten, Op::lattice), 1);
}

TEST(rules_fold, sixteen_bit_weights_are_scaled_by_powers_of_two_only) {
    const std::string half = "%x = input f16[2,4,500]\n%w = param f16[4,6,3]\n%y = conv_transpose(%x, %w)\n";
    EXPECT_EQ(count(rewrite(graph_of(half + "%z = mul(%y, 0.5)\nreturn %z")), "fold_scale"), 1);
    EXPECT_EQ(count(rewrite(graph_of(half + "%z = mul(%y, 0.3)\nreturn %z")), "fold_scale"), 0);
    // The bias is kept in f32, where the sum of two halves is not rounded.
    const Derivation d = rewrite(graph_of(half + "%p = param f16[6,1]\n%z = add(%y, %p)\nreturn %z"));
    ASSERT_EQ(count(d, "fold_shift"), 1);
    const Node& lattice = d.rewritten[d.rewritten.outputs()[0]];
    EXPECT_EQ(lattice.type.dtype, DType::f16);
    EXPECT_EQ(d.rewritten[lattice.args.at(2)].type.dtype, DType::f32);
}

TEST(rules_fold, constants_merge) {
    const std::string x = "%x = input f64[2,3,4]\n%p = param f64[3,1]\n%q = param f64[4]\n";
    expect_fires("merge_scales", x + "%a = mul(%x, %p)\n%b = mul(3, %a)\nreturn %b");
    expect_fires("merge_scales", x + "%a = mul(%x, 2)\n%b = mul(%a, 3)\nreturn %b");
    for (const char* terms : {"%a = add(%x, %p)\n%b = add(%a, %q)", "%a = sub(%x, %p)\n%b = add(%a, %q)",
                              "%a = add(%x, %p)\n%b = sub(%a, %q)", "%a = sub(%x, %p)\n%b = sub(%a, %q)",
                              "%a = add(%x, 2)\n%b = sub(%a, 5)"})
        expect_fires("merge_shifts", x + terms + "\nreturn %b");
    // Not (p − x) − q.
    expect_stays("merge_shifts", x + "%a = sub(%p, %x)\n%b = sub(%a, %q)\nreturn %b");
}

TEST(rules_fold, clamps_merge) {
    const std::string x = "%x = input f64[40]\n";
    for (const char* terms :
         {"%a = clamp(%x) lo=-0.5 hi=0.7\n%b = clamp(%a) lo=-0.2 hi=2",
          "%a = clamp(%x) lo=0 hi=1\n%m = mul(%a, 2)\n%b = clamp(%m) lo=0 hi=1",
          "%a = clamp(%x) lo=-1 hi=0.5\n%m = mul(%a, -3)\n%b = clamp(%m) lo=-1 hi=1.2",
          "%a = relu(%x)\n%b = clamp(%a) lo=-1 hi=0.5", "%a = clamp(%x) lo=-0.5 hi=0.5\n%b = relu(%a)",
          "%a = relu(%x)\n%m = add(%a, -0.3)\n%b = clamp(%m) lo=0 hi=0.5", "%a = relu(%x)\n%b = relu(%a)"})
        expect_fires("merge_clamps", x + terms + "\nreturn %b");
    // All of [f1]: one clamp remains.
    const Derivation d = expect_exact(
        graph_of(x + "%a = clamp(%x) lo=0 hi=1\n%m = mul(%a, 2)\n%b = clamp(%m) lo=0 hi=1\n%c = div(%b, 2)\nreturn %c"),
        {}, 1);
    EXPECT_EQ(d.rewritten.size(), 2);
    // Bounds the wrong way round mean something else.
    expect_stays("merge_clamps", x + "%a = clamp(%x) lo=1 hi=-1\n%b = clamp(%a) lo=0 hi=1\nreturn %b");
    // A constant has no slope; a clamp to one point has.
    expect_stays("merge_clamps", x + "%a = clamp(%x) lo=0 hi=1\n%b = clamp(%a) lo=2 hi=3\nreturn %b");
}

TEST(rules_fold, simplifications) {
    const std::string x = "%x = input f64[2,3,4]\n";
    expect_fires("drop_neutral", x + "%y = mul(%x, 1)\n%z = exp(%y)\nreturn %z");
    expect_fires("drop_neutral",
                 x + "%o = full() dtype=f64 shape=[4] value=0\n%y = add(%o, %x)\n%z = exp(%y)\nreturn %z");
    // It would change the shape.
    expect_stays("drop_neutral", x + "%o = full() dtype=f64 shape=[5,1,1,1] value=0\n%y = add(%x, %o)\nreturn %y");
    expect_fires("one_form", x + "%y = sub(%x, 3)\nreturn %y");
    expect_fires("one_form", x + "%y = div(%x, 4)\nreturn %y");
    expect_stays("one_form", x + "%y = div(%x, 3)\nreturn %y");
    expect_fires("double_neg", x + "%y = neg(%x)\n%z = neg(%y)\nreturn %z");
    expect_fires("fold_numbers",
                 x + "%o = full() dtype=f64 shape=[4] value=2\n%p = exp(%o)\n%y = add(%p, %x)\nreturn %y");
    expect_fires("reshape_of_reshape", x + "%y = reshape(%x) shape=[6,4]\n%z = reshape(%y) shape=[24]\nreturn %z");
    expect_fires("permute_of_permute", x + "%y = permute(%x) order=[2,0,1]\n%z = permute(%y) order=[1,2,0]\nreturn %z");
    expect_fires("permute_of_permute", "%x = input f64[2,1,4]\n%y = permute(%x) order=[1,0,2]\nreturn %y");
    expect_fires("expand_of_expand",
                 "%x = input f64[1,4]\n%y = expand(%x) shape=[3,4]\n%z = expand(%y) shape=[2,3,4]\nreturn %z");
    expect_fires("flip_of_flip", x + "%y = flip(%x) dims=[0,1]\n%z = flip(%y) dims=[1,2]\nreturn %z");
    expect_fires(
        "taps_of_taps",
        x + "%y = taps(%x) axis=1 rows=2 matrix=[1,2,3,4,5,6]\n%z = taps(%y) axis=1 rows=1 matrix=[1,-1]\nreturn %z");
    expect_fires("taps_of_taps", x + "%y = taps(%x) axis=1 rows=3 matrix=[1,0,0,0,1,0,0,0,1]\nreturn %y");
    expect_fires("whole_slice", x + "%y = slice(%x) axis=1\nreturn %y");
    expect_fires("no_pad", x + "%y = pad(%x) start=[0,0,0] end=[0,0,0]\nreturn %y");
    expect_fires("single_concat", x + "%y = concat(%x) axis=1\nreturn %y");
    expect_fires("broadcast_unexpanded",
                 x + "%p = param f64[3,1]\n%e = expand(%p) shape=[2,3,4]\n%y = mul(%x, %e)\nreturn %y");
    expect_fires("cast_chain", x + "%y = cast(%x) dtype=f64\nreturn %y");
    const Derivation d =
        rewrite(graph_of("%x = input f16[4]\n%y = cast(%x) dtype=f32\n%z = cast(%y) dtype=f16\nreturn %z"));
    EXPECT_EQ(d.rewritten.size(), 1);
    // Narrowing on the way loses bits, so it stays.
    EXPECT_EQ(count(rewrite(graph_of("%x = input f32[4]\n%y = cast(%x) dtype=f16\n%z = cast(%y) dtype=f32\nreturn %z")),
                    "cast_chain"),
              0);
}

TEST(rules_fold, reshapes_sink) {
    expect_fires("sink_reshape",
                 "%x = input f64[2,3,4]\n%p = param f64[3,1,4]\n%y = reshape(%x) shape=[2,3,1,4]\n%z = add(%y, %p)\n%t "
                 "= tanh(%z)\nreturn %t");
    expect_fires("sink_reshape",
                 "%x = input f64[1,3,4]\n%v = input f64[1,3,4]\n%y = reshape(%x) shape=[3,4]\n%u = reshape(%v) "
                 "shape=[3,4]\n%z = mul(%y, %u)\nreturn %z");
    // Softmax over flattened space, written with views: they meet and are gone.
    const Derivation flat =
        expect_fires("sink_reshape",
                     "%x = input f64[2,3,4,5]\n%p = param f64[3,1]\n%f = reshape(%x) shape=[2,3,20]\n%s = softmax(%f) "
                     "dims=[2]\n%t = mul(%s, %p)\n%y = reshape(%t) shape=[2,3,4,5]\nreturn %y");
    EXPECT_EQ(count(rewrite(flat.written).rewritten, Op::reshape), 1)
        << explain(rewrite(flat.written));  // the parameter's
    // An operand that varies along half of a flattened run has no shape before it.
    expect_stays(
        "sink_reshape",
        "%x = input f64[2,6,4]\n%p = param f64[3,1]\n%f = reshape(%x) shape=[2,2,3,4]\n%y = mul(%f, %p)\nreturn %y");
    expect_fires("pool_before_reshape",
                 "%x = input f64[1,3,6]\n%y = reshape(%x) shape=[3,6]\n%z = max_pool(%y) kernel=2\nreturn %z");
    // Without a batch axis the chain folds all the same.
    const Derivation d =
        expect_exact(graph_of("%x = input f64[4,20]\n%w = param f64[4,6,3]\n%b = param f64[6]\n%p = param f64[6,1]\n%y "
                              "= conv_transpose(%x, %w, %b)\n%z = mul(%y, %p)\n%t = add(%z, %p)\nreturn %t"),
                     {}, 1);
    EXPECT_EQ(count(d, "fold_scale") + count(d, "fold_shift"), 2) << explain(d);
}

TEST(rules_fold, numbers_stand_on_the_right) {
    for (const char* op : {"add", "mul"}) {
        const Derivation d =
            expect_fires("number_on_the_right", "%x = input f64[2,3]\n%y = " + std::string(op) + "(2, %x)\nreturn %y");
        const Node& y = d.rewritten[d.rewritten.outputs()[0]];
        EXPECT_EQ(d.rewritten[y.args[1]].op, Op::scalar) << explain(d);
    }
    expect_stays("number_on_the_right", "%x = input f64[2,3]\n%y = sub(2, %x)\nreturn %y");  // it does not commute
}

}  // namespace
}  // namespace transfuse::tests
