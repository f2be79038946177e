// Expansions: every framework op becomes primitives with the same values.
#include "algebra/gradient/gradient.h"
#include "rules.h"

namespace transfuse::tests {
namespace {

TEST(rules_expand, convolutions) {
    for (const char* attributes : {"", "stride=[2,3]", "padding=[1,2]", "dilation=[2,1] padding=[3,0]", "groups=2",
                                   "stride=[2,1] groups=4 padding=[0,1]"}) {
        const std::string groups = std::string(attributes).find("groups=2") != std::string::npos   ? "2"
                                   : std::string(attributes).find("groups=4") != std::string::npos ? "4"
                                                                                                   : "1";
        const int64_t g = std::stoll(groups);
        for (const char* x : {"f64[2,4,7,6]", "f64[4,7,6]"}) {
            expect_fires("expand_conv", std::string("%x = input ") + x + "\n%w = param f64[4," + std::to_string(8 / g) +
                                            ",3,2]\n%b = param f64[8]\n%y = conv_transpose(%x, %w, %b) " + attributes +
                                            "\nreturn %y");
            expect_fires("expand_conv", std::string("%x = input ") + x + "\n%w = param f64[8," + std::to_string(4 / g) +
                                            ",3,2]\n%b = param f64[8]\n%y = conv(%x, %w, %b) " + attributes +
                                            "\nreturn %y");
        }
    }
    expect_fires("expand_conv",
                 "%x = input f64[1,2,3]\n%w = param f64[2,3,5]\n%y = conv_transpose(%x, %w) stride=4 padding=6 "
                 "output_padding=3\nreturn %y");
    expect_fires("expand_upsample", "%x = input f64[2,3,4,5]\n%y = upsample(%x) scale=[2,3]\nreturn %y");
    expect_fires("expand_upsample", "%x = input f64[3,4,5]\n%y = upsample(%x) scale=[1,3]\nreturn %y");
}

TEST(rules_expand, average_pools_with_one_divisor) {
    const std::string x = "%x = input f64[2,3,7,8]\n";
    for (const char* fine :
         {"kernel=[2,3]", "kernel=[2,2] stride=[1,3]", "kernel=[3,3] padding=[1,1] stride=[2,1]",
          "kernel=[3,2] padding=[1,1] divisor=5 ceil_mode=1 count_include_pad=0", "kernel=[1,2] ceil_mode=1"})
        expect_fires("expand_avg_pool", x + "%y = avg_pool(%x) " + fine + "\nreturn %y");
    for (const char* varies : {"kernel=[3,3] padding=[1,1] count_include_pad=0", "kernel=[2,3] ceil_mode=1",
                               "kernel=[3,3] stride=[2,2] ceil_mode=1 padding=[1,1]"})
        expect_stays("expand_avg_pool", x + "%y = avg_pool(%x) " + varies + "\nreturn %y");
    // A window that holds everything is a mean, whatever the divisor.
    const Derivation all = expect_fires("expand_avg_pool", x + "%y = avg_pool(%x) kernel=[7,8] divisor=10\nreturn %y");
    EXPECT_EQ(count(all.rewritten, Op::mean), 1);
    expect_fires("expand_avg_pool", "%x = input f64[3,7,8]\n%y = avg_pool(%x) kernel=[2,2]\nreturn %y");
    // Windows of one element: a scale, or nothing at all.
    const std::string one = "kernel=[1,1] stride=[1,1]";
    const Derivation scale = expect_fires("expand_avg_pool", x + "%y = avg_pool(%x) " + one + " divisor=3\nreturn %y");
    EXPECT_EQ(count(scale.rewritten, Op::lattice), 0);
    expect_fires("expand_avg_pool", x + "%y = avg_pool(%x) " + one + " ceil_mode=1 count_include_pad=0\nreturn %y");
    expect_fires("drop_max_pool", x + "%y = max_pool(%x) " + one + "\nreturn %y");
    expect_stays("drop_max_pool", x + "%y = max_pool(%x) kernel=[1,1] stride=[2,1]\nreturn %y");
    expect_stays("drop_max_pool", x + "%y = max_pool(%x) kernel=[1,2] stride=[1,1]\nreturn %y");
    // 1/9 has no 16-bit form: the pool stays a pool.
    EXPECT_EQ(count(rewrite(graph_of("%x = input f16[1,2,6,6]\n%y = avg_pool(%x) kernel=[3,3]\nreturn %y")).rewritten,
                    Op::avg_pool),
              1);
    EXPECT_EQ(count(rewrite(graph_of("%x = input f16[1,2,6,6]\n%y = avg_pool(%x) kernel=[2,2]\nreturn %y")).rewritten,
                    Op::lattice),
              1);
}

TEST(rules_expand, adaptive_pools_with_equal_windows) {
    const std::string x = "%x = input f64[2,3,6,8]\n";
    EXPECT_EQ(count(expect_fires("expand_adaptive_pool", x + "%y = adaptive_avg_pool(%x) output_size=[1,1]\nreturn %y")
                        .rewritten,
                    Op::mean),
              1);
    EXPECT_EQ(count(expect_fires("expand_adaptive_pool", x + "%y = adaptive_max_pool(%x) output_size=[1,1]\nreturn %y")
                        .rewritten,
                    Op::amax),
              1);
    expect_fires("expand_adaptive_pool", x + "%y = adaptive_avg_pool(%x) output_size=[3,2]\nreturn %y");
    expect_fires("expand_adaptive_pool", x + "%y = adaptive_max_pool(%x) output_size=[-1,4]\nreturn %y");
    expect_fires("expand_adaptive_pool",
                 "%x = input f64[3,6,8]\n%y = adaptive_max_pool(%x) output_size=[2,1]\nreturn %y");
    expect_stays("expand_adaptive_pool", x + "%y = adaptive_avg_pool(%x) output_size=[4,2]\nreturn %y");
    expect_stays("expand_adaptive_pool", x + "%y = adaptive_max_pool(%x) output_size=[3,3]\nreturn %y");
}

TEST(rules_expand, norms) {
    const std::string x =
        "%x = input f64[3,4,5,6]\n%gamma = param f64[4]\n%beta = param f64[4]\n%mean = param f64[4]\n%positive_var = "
        "param f64[4]\n";
    const std::string conv = "%w = param f64[4,4,3,3]\n%y = conv_transpose(%x, %w, %beta) stride=[2,2] padding=[1,1]\n";
    for (const std::string& y : {std::string("%y = relu(%x)\n"), conv}) {
        expect_fires("expand_batch_norm", x + y + "%z = batch_norm(%y, %gamma, %beta) training=1\nreturn %z");
        expect_fires("expand_batch_norm", x + y + "%z = batch_norm(%y) training=1 eps=0.1\nreturn %z");
        expect_fires("expand_batch_norm",
                     x + y + "%z = batch_norm(%y, %mean, %positive_var, %gamma, %beta)\nreturn %z");
        expect_fires("expand_batch_norm", x + y + "%z = batch_norm(%y, %mean, %positive_var)\nreturn %z");
        for (const char* groups : {"1", "2", "4"})
            expect_fires("expand_group_norm",
                         x + y + "%z = group_norm(%y, %gamma, %beta) num_groups=" + groups + "\nreturn %z");
        expect_fires("expand_instance_norm", x + y + "%z = instance_norm(%y, %gamma, %beta)\nreturn %z");
        expect_fires("expand_instance_norm", x + y + "%z = instance_norm(%y)\nreturn %z");
    }
    expect_fires("expand_layer_norm",
                 "%x = input f64[3,4,5]\n%g = param f64[4,5]\n%b = param f64[4,5]\n%y = layer_norm(%x, %g, %b) "
                 "normalized_shape=[4,5]\nreturn %y");
    expect_fires("expand_layer_norm", "%x = input f64[3,4,5]\n%y = layer_norm(%x) normalized_shape=[5]\nreturn %y");
    expect_fires("expand_batch_norm", "%x = input f64[5,4]\n%y = batch_norm(%x) training=1\nreturn %y");
    expect_fires("expand_group_norm", "%x = input f64[5,4]\n%y = group_norm(%x) num_groups=2\nreturn %y");
}

TEST(rules_expand, softmax_and_the_rest) {
    const std::string x = "%x = input f64[3,4,5]\n";
    for (const char* dims : {"dims=[1]", "dims=[0,2]", "dims=[-1]"}) {
        expect_fires("expand_softmax", x + "%y = softmax(%x) " + dims + "\nreturn %y");
        expect_fires("expand_softmax", x + "%y = log_softmax(%x) " + dims + "\nreturn %y");
    }
    expect_fires("expand_weight_norm",
                 "%v = param f64[4,3,2]\n%g = param f64[4,1,1]\n%x = input f64[1,3,5]\n%w = weight_norm(%v, %g)\n%y = "
                 "conv(%x, %w)\nreturn %y");
    expect_fires("hardtanh_is_clamp", x + "%y = hardtanh(%x) lo=-0.2 hi=0.3\nreturn %y");
    expect_fires("drop_identity", x + "%y = identity(%x)\n%z = exp(%y)\nreturn %z");
    expect_fires("drop_detach", x + "%y = detach(%x)\n%z = exp(%y)\nreturn %z");
    RewriteOptions training;
    training.inference = false;
    expect_stays("drop_detach", x + "%y = detach(%x)\n%z = exp(%y)\nreturn %z", training);
    expect_stays("hardtanh_is_clamp", x + "%y = hardtanh(%x)\nreturn %y", training);
    expect_fires("keep_dims", x + "%y = sum(%x) dims=[0,2]\nreturn %y");
    expect_fires("keep_dims", x + "%y = var(%x)\nreturn %y");
}

TEST(rules_expand, only_primitives_remain) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const Derivation derivation = rewrite(random_graph(seed));
        for (const Node& node : derivation.rewritten.nodes())
            ASSERT_TRUE(is_primitive(node.op)) << name(node.op) << " seed " << seed;
    }
}

}  // namespace
}  // namespace transfuse::tests
