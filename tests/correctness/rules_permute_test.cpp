// Permutations that are undone, and channels that are taken apart.
#include "rules.h"

namespace transfuse::tests {
namespace {

const std::string conv =
    "%x = input f64[2,3,4,5]\n%w = param f64[3,8,3,3]\n%b = param f64[8]\n%g = param f64[8]\n%h = param f64[8]\n"
    "%y = conv_transpose(%x, %w, %b) stride=[2,1] padding=[1,0]\n";

TEST(rules_permute, norm_over_channels_written_for_channels_last) {
    const std::string norm = conv +
                             "%p = permute(%y) order=[0,2,3,1]\n%n = layer_norm(%p, %g, %h) normalized_shape=[8]\n"
                             "%q = permute(%n) order=[0,3,1,2]\n%z = gelu(%q)\nreturn %z";
    expect_fires("permuted_back", norm);
    const Plan planned = plan(rewrite(graph_of(norm)).rewritten, Machine::h200());
    EXPECT_EQ(planned.passes.size(), 1u) << print(planned);  // in the tile, with the convolution
    expect_fires("permuted_back",
                 "%x = input f64[2,3,7]\n%w = param f64[3,6,2]\n%y = conv_transpose(%x, %w) stride=[2]\n%p = "
                 "permute(%y) order=[0,2,1]\n%s = softmax(%p) dims=[2]\n%q = permute(%s) order=[0,2,1]\nreturn %q");
    expect_fires("permuted_back",  // an order that is not its own inverse, and an operand in the permuted axes
                 conv +
                     "%k = param f64[2,1,8]\n%p = permute(%y) order=[2,0,3,1]\n%t = mul(%p, %k)\n%m = amax(%t) "
                     "dims=[3] keepdim=1\n%u = sub(%t, %m)\n%q = permute(%u) order=[1,3,0,2]\nreturn %q");
}

TEST(rules_permute, stays_where_a_value_would_be_permuted_or_computed_twice) {
    const std::string norm =
        conv + "%p = permute(%y) order=[0,2,3,1]\n%n = layer_norm(%p, %g, %h) normalized_shape=[8]\n";
    expect_stays("permuted_back", norm + "return %n");
    expect_stays("permuted_back", norm + "%q = permute(%n) order=[0,3,1,2]\nreturn %n, %q");
    expect_stays("permuted_back", norm + "%q = permute(%n) order=[0,3,2,1]\nreturn %q");
    expect_stays("permuted_back",
                 "%s = input f64[2,7,7,8]\n" + norm + "%t = add(%n, %s)\n%q = permute(%t) order=[0,3,1,2]\nreturn %q");
}

const std::string halves =
    "%x = input f64[2,3,9]\n%w = param f64[3,8,4]\n%b = param f64[8]\n%v = param f64[4,4,3]\n%y = conv_transpose(%x, "
    "%w, "
    "%b) stride=[3]\n%l = slice(%y) axis=1 start=0 end=4 step=1\n%h = slice(%y) axis=1 start=4 end=8 step=1\n";

TEST(rules_permute, parts_that_meet_are_convolutions_of_their_own) {
    const Derivation d = expect_fires("parts_of_lattice", halves + "%s = sigmoid(%h)\n%z = mul(%l, %s)\nreturn %z");
    EXPECT_EQ(count(d.rewritten, Op::lattice), 2);
    for (const Pass& pass : plan(d.rewritten, Machine::h200()).passes)
        EXPECT_TRUE(pass.kind == PassKind::dense || pass.kind == PassKind::prepare);  // no loop over what was stored
    expect_fires("parts_of_lattice",
                 halves + "%t = tanh(%l)\n%s = sigmoid(%h)\n%m = mul(%t, %s)\n%z = mul(%m, 0.5)\nreturn %z");
}

TEST(rules_permute, parts_that_stay) {
    expect_stays("parts_of_lattice", halves + "%s = sigmoid(%h)\n%z = mul(%l, %s)\nreturn %z, %y");
    expect_stays("parts_of_lattice", halves + "%s = sigmoid(%h)\n%z = mul(%l, %s)\nreturn %z, %s");
    // The convolution that reads the product makes it of both parts.
    expect_stays("parts_of_lattice",
                 halves + "%s = sigmoid(%h)\n%m = mul(%l, %s)\n%r = relu(%m)\n%z = conv(%r, %v)\nreturn %z");
    // The input is larger than what is stored and read again.
    expect_stays("parts_of_lattice",
                 "%x = input f64[2,9,9]\n%w = param f64[4,9,1]\n%y = conv(%x, %w)\n%l = slice(%y) axis=1 start=0 end=2 "
                 "step=1\n%h = slice(%y) axis=1 start=2 end=4 step=1\n%s = sigmoid(%h)\n%z = mul(%l, %s)\nreturn %z");
    // Gradients are taken of one convolution.
    expect_stays("parts_of_lattice", halves + "%s = sigmoid(%h)\n%z = mul(%l, %s)\nreturn %z",
                 {.without = {}, .only = {}, .forks = false});
}

}  // namespace
}  // namespace transfuse::tests
