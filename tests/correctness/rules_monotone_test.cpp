// Monotone ops move behind maxima and minima; what cannot be known to be monotone stays.
#include "rules.h"

namespace transfuse::tests {
namespace {

const std::string x = "%x = input f64[2,3,6,8]\n%p = param f64[3,1,1]\n%q = param f64[3,1,1]\n%row = param f64[8]\n";

TEST(rules_monotone, rising_and_falling_ops) {
    for (const char* term :
         {"relu(%x)", "tanh(%x)", "sigmoid(%x)", "exp(%x)", "erf(%x)", "selu(%x)", "elu(%x) alpha=0.7",
          "hardsigmoid(%x)", "softplus(%x) beta=2", "leaky_relu(%x) negative_slope=0.1", "clamp(%x) lo=-0.2 hi=0.4",
          "neg(%x)", "mul(%x, 0.5)", "mul(%x, -2)", "div(%x, -3)", "add(%x, %p)", "sub(%p, %x)", "maximum(%x, %p)",
          "minimum(%p, %x)"}) {
        for (const char* pool : {"max_pool(%y) kernel=[2,2]", "min_pool(%y) kernel=[3,2] stride=[2,2] padding=[1,1]",
                                 "max_pool(%y) kernel=[2,3] ceil_mode=1"}) {
            const Derivation d = expect_fires("monotone_pool", x + "%y = " + term + "\n%z = " + pool + "\nreturn %z");
            EXPECT_TRUE(d.rewritten[d.rewritten.outputs()[0]].op != Op::max_pool &&
                        d.rewritten[d.rewritten.outputs()[0]].op != Op::min_pool);
        }
        for (const char* reduction : {"amax(%y) dims=[2,3] keepdim=1", "amin(%y) dims=[0,3]"})
            expect_fires("monotone_reduction", x + "%y = " + term + "\n%z = " + reduction + "\nreturn %z");
    }
}

TEST(rules_monotone, unknown_direction_stays) {
    for (const char* term :
         {"gelu(%x)", "silu(%x)", "mish(%x)", "abs(%x)", "square(%x)", "hardswish(%x)", "mul(%x, %p)",
          "div(%x, %positive_d)", "sin(%x)", "mul(%x, 0)", "leaky_relu(%x) negative_slope=-0.1",
          "clamp(%x) lo=0.5 hi=-0.5", "add(%x, %row)", "mul(%x, %x)", "prelu(%x, %slope)"}) {
        const std::string body = x + "%positive_d = param f64[3,1,1]\n%slope = param f64[3]\n%y = " + term + "\n";
        expect_stays("monotone_pool", body + "%z = max_pool(%y) kernel=[2,2]\nreturn %z");
        expect_stays("monotone_reduction", body + "%z = amax(%y) dims=[2,3]\nreturn %z");
    }
}

TEST(rules_monotone, a_window_of_padding_alone_stays) {
    // Three elements, two taps four apart, one of padding: positions −1 and 3.
    const std::string one = "%x = input f64[1,1,3]\n%y = mul(%x, 0.5)\n";
    expect_stays("monotone_pool", one + "%z = max_pool(%y) kernel=2 dilation=4 padding=1\nreturn %z");
    // Dilated windows on either side of a short input.
    Random random(3);
    for (int round = 0; round < 300; ++round) {
        const int64_t in = random.between(1, 6), kernel = random.between(1, 4), dilation = random.between(1, 4);
        const int64_t reach = dilation * (kernel - 1) + 1, padding = random.between(0, reach / 2),
                      stride = random.between(1, 4);
        if (in + 2 * padding < reach) continue;
        const std::string body =
            "%x = input f64[1,2," + std::to_string(in) +
            "]\n%y = tanh(%x)\n%n = mul(%y, -0.5)\n%z = max_pool(%n) kernel=" + std::to_string(kernel) +
            " dilation=" + std::to_string(dilation) + " padding=" + std::to_string(padding) +
            " stride=" + std::to_string(stride) + " ceil_mode=" + std::to_string(random.between(0, 1)) + "\nreturn %z";
        RewriteOptions options;
        options.heed_cost = false;
        try {
            expect_exact(graph_of(body), options, 1);
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("padding"), std::string::npos) << error.what();
        }
    }
}

TEST(rules_monotone, on_fewer_elements_only) {
    EXPECT_EQ(count(rewrite(graph_of(x + "%y = tanh(%x)\n%z = max_pool(%y) kernel=[2,2]\nreturn %z")), "monotone_pool"),
              1);
    EXPECT_EQ(count(rewrite(graph_of(
                        x + "%y = tanh(%x)\n%z = max_pool(%y) kernel=[3,3] stride=[1,1] padding=[1,1]\nreturn %z")),
                    "monotone_pool"),
              0);
}

}  // namespace
}  // namespace transfuse::tests
