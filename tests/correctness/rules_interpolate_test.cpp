// Linear interpolation as a lattice: every factor, both alignments, borders, gradients; and as a primitive where the
// factor is no small fraction.
#include "random_layers.h"

namespace transfuse::tests {
namespace {

std::optional<Graph> interpolation(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    Sizes x = {2, 4}, size;
    std::string scale = "[";
    for (size_t a = 0; a < d; ++a) {
        x.push_back(random.between(1, 6));
        size.push_back(random.between(1, 12));
        scale += std::string(a ? "," : "") +
                 random.pick(std::vector<std::string>{"0.25", "0.5", "1", "1.5", "2", "2.5", "3", "4", "0.75"});
    }
    const std::string told = random.chance(0.5) ? "scale=" + scale + "]" : "output_size=" + list(size);
    std::string text = "%x = input f64" + list(x) + "\n";
    const Layer layer = Layer::random(random, d, 1);
    const bool behind = random.chance(0.5);
    if (behind) text += "%w = " + layer.weight(4, 4) + "\n%u = " + layer.call("%x, %w") + "\n";
    text += "%y = interpolate(" + std::string(behind ? "%u" : "%x") + ") " + told +
            " align_corners=" + std::to_string(random.between(0, 1)) + "\n";
    const std::string along = d == 1 ? ",1]" : d == 2 ? ",1,1]" : ",1,1,1]";
    if (!behind && random.chance(0.5))
        text += "%w = " + layer.weight(4, 4) + "\n%s = param f64[4" + along + "\n%p = param f64[1" + along + "\n" +
                random.pick(std::vector<std::string>{"%m = identity(%y)\n", "%m = add(%y, %s)\n", "%m = mul(%s, %y)\n",
                                                     "%n = mul(%y, %s)\n%m = sub(%p, %n)\n"}) +
                "%z = " + layer.call("%m, %w") + "\nreturn %z";
    else
        text += random.chance(0.3) ? "%z = mean(%y) dims=[2]\nreturn %z" : "return %y";
    return valid(text);
}

TEST(rules_interpolate, random_interpolations_are_exact) {
    int times = 0, graphs = 0;
    for (uint64_t seed = 0; seed < 1200 && !HasFailure(); ++seed) {
        const auto graph = interpolation(seed);
        if (!graph) continue;
        ++graphs;
        RewriteOptions options;
        options.heed_cost = false;
        options.inference = options.differentiated = false;
        const Derivation d = expect_exact(*graph, options, seed, 1e-11);
        times += count(d, "expand_interpolation");
        if (seed % 5 != 0) continue;
        GradientRequest request{{0}, {}};
        for (size_t i = 0; i < graph->leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
        const Graph written = gradient(*graph, request), rewritten = gradient(d.rewritten, request);
        const auto leaves = random_leaves(written, seed);
        EXPECT_LE(error(evaluate(written, leaves), evaluate(rewritten, leaves)), 1e-10) << "seed " << seed << "\n"
                                                                                        << explain(d);
    }
    EXPECT_GT(graphs, 600);
    EXPECT_GT(times, 300);
}

// A sum or mean over some axes, of what was interpolated, through scales that vary along others.
TEST(rules_interpolate, means_of_random_interpolations_are_exact) {
    int fired = 0;
    for (uint64_t seed = 0; seed < 800 && !HasFailure(); ++seed) {
        Random random(seed);
        const auto d = static_cast<size_t>(random.between(1, 3));
        Sizes x = {2, 4}, size, dims;
        for (size_t a = 0; a < d; ++a) {
            x.push_back(random.between(1, 8));
            size.push_back(x.back() * random.between(1, 4));
            if (random.chance(0.3)) size.back() = random.between(1, 12);
            if (random.chance(0.7)) dims.push_back(static_cast<int64_t>(a) + 2);
        }
        if (dims.empty()) dims.push_back(2);
        if (random.chance(0.2)) dims.insert(dims.begin(), random.between(0, 1));
        const Layer layer = Layer::random(random, d, 1);
        std::string text = "%x = input f64" + list(x) + "\n", v = "%x";
        if (random.chance(0.5)) {
            text += "%w = " + layer.weight(4, 4) + "\n%u = " + layer.call("%x, %w") + "\n";
            v = "%u";
        }
        text += "%y = interpolate(" + v + ") output_size=" + list(size) +
                " align_corners=" + std::to_string(random.between(0, 1)) + "\n";
        v = "%y";
        if (random.chance(0.3)) {
            Sizes scale(d + 1, 1);
            scale[0] = 4;
            if (random.chance(0.3)) scale[1] = size[0];
            text += "%s = param f64" + list(scale) + "\n%p = mul(%y, %s)\n";
            v = "%p";
        }
        const auto graph = valid(text + "%z = " + (random.chance(0.5) ? "sum" : "mean") + "(" + v +
                                 ") dims=" + list(dims) + "\nreturn %z");
        if (!graph) continue;
        if (seed % 8 == 0) expect_exact_gradients(*graph, seed);
        RewriteOptions options;
        options.heed_cost = seed % 3 == 0;
        fired += count(expect_exact(*graph, options, seed, 1e-11), "collapse_resampled");
    }
    EXPECT_GT(fired, 200);
}

TEST(rules_interpolate, means_meet_no_enlarged_image) {
    expect_fires("collapse_resampled",
                 "%x = input f64[2,3,6,7]\n%u = interpolate(%x) scale=[2,3]\n%m = mean(%u) dims=[2,3]\nreturn %m");
    expect_stays("collapse_resampled",  // weights that are no product over the axes
                 "%x = input f64[2,3,6,7]\n%p = param f64[12,14]\n%u = interpolate(%x) scale=[2,2]\n%v = mul(%u, "
                 "%p)\n%m = mean(%v) dims=[2,3]\nreturn %m");
    const std::string x = "%x = input f32[2,8,24,24]\n%w = param f32[8,8,3,3]\n%y = conv(%x, %w) padding=1\n";
    for (const char* how : {"scale=[2,2]", "scale=[1.5,1.5]", "scale=[0.5,0.5]", "output_size=[47,47] align_corners=1",
                            "scale=[2,2] align_corners=1"}) {
        const Derivation d =
            rewrite(graph_of(x + "%u = interpolate(%y) " + how + "\n%m = mean(%u) dims=[2,3]\nreturn %m"));
        EXPECT_LE(cost(d.rewritten).flops, 4e5) << explain(d);
    }
}

TEST(rules_interpolate, by_half_is_an_average_pool) {
    const Derivation d = expect_fires("expand_interpolation", R"(%x = input f64[2,3,6,8]
        %w = param f64[3,4,4,4]
        %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]
        %z = interpolate(%y) scale=[0.5,0.5]
        return %z)");
    EXPECT_EQ(count(d.rewritten, Op::mul), 0);
    const Derivation all = rewrite(graph_of(R"(%x = input f64[2,3,6,8]
        %w = param f64[3,4,4,4]
        %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]
        %z = interpolate(%y) scale=[0.5,0.5]
        return %z)"));
    EXPECT_EQ(count(all.rewritten, Op::lattice), 1) << explain(all);
}

TEST(rules_interpolate, stays_where_phases_are_many) {
    expect_stays("expand_interpolation", "%x = input f64[2,3,6,8]\n%y = interpolate(%x) output_size=[17,8]\nreturn %y");
    expect_stays("expand_interpolation",
                 "%x = input f64[2,3,10,8]\n%y = interpolate(%x) output_size=[21,8] align_corners=1\nreturn %y");
}

}  // namespace
}  // namespace transfuse::tests
