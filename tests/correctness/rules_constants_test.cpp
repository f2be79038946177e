// Input channels that do not vary over the image: embeddings, numbers, zeros.
#include <algorithm>
#include <random>
#include <regex>

#include "random_layers.h"

namespace transfuse::tests {
namespace {

std::optional<Graph> with_constants(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer layer = Layer::random(random, d, 1);
    Sizes space;
    for (size_t i = 0; i < d; ++i) space.push_back(random.between(3, d == 3 ? 5 : 8));
    const auto image = [&](int64_t batch, int64_t channels) {
        Sizes shape = {batch, channels};
        shape.insert(shape.end(), space.begin(), space.end());
        return list(shape);
    };
    Sizes one(d + 2, 1), row(d + 1, 1);
    one[0] = random.pick(Sizes{1, 2}), one[1] = 2, row[0] = 2;
    std::string text = "%x = input f64" + image(2, 2) + "\n%e = input f64" + list(one) + "\n%t = param f64" +
                       list(row) + "\n%i = expand(%e) shape=" + image(2, 2) + "\n%p = expand(%t) shape=" + image(2, 2) +
                       "\n%g = param f64" + image(1, 2) + "\n%q = expand(%g) shape=" + image(2, 2) +
                       "\n%n = full() dtype=f64 value=" + random.pick(std::vector<std::string>{"0", "0.5"}) +
                       " shape=" + image(2, 2) + "\n";
    std::vector<std::string> pieces;
    int64_t channels = 0;
    for (const char* piece : {"%x", "%i", "%p", "%n", "%x", "%q"})
        if (random.chance(0.5)) pieces.push_back(piece), channels += 2;
    if (pieces.size() < 2) return std::nullopt;
    std::shuffle(pieces.begin(), pieces.end(), std::mt19937_64(seed));
    text += "%c = concat(";
    for (size_t i = 0; i < pieces.size(); ++i) text += (i ? ", " : "") + pieces[i];
    text += ") axis=1\n%w = " + layer.weight(channels, 3) +
            "\n%b = param f64[3]\n%z = " + layer.call(random.chance(0.5) ? "%c, %w, %b" : "%c, %w") + "\nreturn %z";
    return valid(text);
}

TEST(rules_constants, random_channels_are_exact) {
    int fired = 0, again = 0;
    for (uint64_t seed = 0; seed < 900 && !HasFailure(); ++seed) {
        const auto graph = with_constants(seed);
        if (!graph) continue;
        RewriteOptions options;
        options.heed_cost = false;
        options.inference = options.differentiated = false;
        const Derivation d = expect_exact(*graph, options, seed, 1e-11);
        fired += count(d, "constant_channels");
        again += count(d, "channels_given_again");
        if (seed % 4) continue;
        GradientRequest request{{0}, {}};
        for (size_t i = 0; i < graph->leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
        const Graph written = gradient(*graph, request), rewritten = gradient(d.rewritten, request);
        const auto leaves = random_leaves(written, seed);
        EXPECT_LE(error(evaluate(written, leaves), evaluate(rewritten, leaves)), 1e-10) << "seed " << seed;
    }
    EXPECT_GT(fired, 300);
    EXPECT_GT(again, 80);
}

// Inputs that repeat themselves over the batch, over channels, along some axes: each convolved once.
std::optional<Graph> repeated_along_axes(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer layer = Layer::random(random, d, random.pick(Sizes{1, 1, 2, 4}));
    Sizes whole = {2, 4};
    for (size_t i = 0; i < d; ++i) whole.push_back(random.between(2, d == 3 ? 5 : 8));
    Sizes own = whole;
    for (int64_t& extent : own)
        if (random.chance(0.4)) extent = 1;
    return valid(
        "%e = input f64" + list(own) + "\n%x = expand(%e) shape=" + list(whole) + "\n%w = " + layer.weight(4, 4) +
        "\n%b = param f64[4]\n%y = " + layer.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") + "\nreturn %y");
}

TEST(rules_constants, random_repetitions_are_exact) {
    int fired = 0;
    for (uint64_t seed = 0; seed < 900 && !HasFailure(); ++seed) {
        const auto graph = repeated_along_axes(seed);
        if (!graph) continue;
        RewriteOptions options;
        options.heed_cost = false;
        options.inference = options.differentiated = false;
        const Derivation d = expect_exact(*graph, options, seed, 1e-11);
        fired += count(d, "constant_axes");
        if (seed % 4 == 0) expect_exact_gradients(*graph, seed);
    }
    EXPECT_GT(fired, 300);
}

TEST(rules_constants, what_repeats_itself_is_convolved_once) {
    const Derivation twice = expect_fires("channels_given_again",
                                          "%x = input f64[2,2,6,7]\n%y = input f64[2,1,6,7]\n%w = param f64[4,5,3,3]\n"
                                          "%c = concat(%x, %y, %x) axis=1\n%z = conv(%c, %w)\nreturn %z");
    EXPECT_EQ(numel(twice.rewritten[twice.rewritten[twice.rewritten.outputs()[0]].args[1]].type.shape), 4 * 3 * 9);
    const auto lattices_of = [](const std::string& text) {
        Sizes elements;
        for (const Node& node : rewrite(graph_of(text)).rewritten.nodes())
            if (node.op == Op::lattice) elements.push_back(numel(node.type.shape));
        return elements;
    };
    const std::string conv = " shape=[4,8,16,16]\n%w = param f32[8,8,3,3]\n%y = conv(%x, %w) padding=1\nreturn %y";
    EXPECT_EQ(lattices_of("%e = input f32[1,8,16,16]\n%x = expand(%e)" + conv), (Sizes{8 * 256}));
    EXPECT_EQ(lattices_of("%e = input f32[4,8,16,1]\n%x = expand(%e)" + conv), (Sizes{4 * 8 * 16 * 3}));
    const Derivation gray = rewrite(graph_of("%e = input f32[4,1,16,16]\n%x = expand(%e)" + conv));
    EXPECT_LT(cost(gray.rewritten).flops, cost(gray.written).flops / 6);
    // Of 16 bits the sums of weights are not rounded once more.
    const Derivation half = expect_fires("constant_axes",
                                         "%e = input f16[2,3,6,1]\n%x = expand(%e) shape=[2,3,6,7]\n%w = param "
                                         "f16[4,3,3,3]\n%y = conv(%x, %w)\nreturn %y");
    for (const Node& node : half.rewritten.nodes())
        EXPECT_TRUE(node.op != Op::lattice || node.type.dtype == DType::f32);
}

// Coordinates: channels of parameters, the same for all samples, become an image that is made with the weights.
TEST(rules_constants, coordinates_are_an_image) {
    const std::string text =
        "%x = input f64[2,3,6,7]\n%p = param f64[1,2,6,7]\n%i = expand(%p) shape=[2,2,6,7]\n%w = param f64[4,5,3,3]\n"
        "%c = concat(%x, %i) axis=1\n%y = conv(%c, %w) padding=1\nreturn %y";
    const Derivation d = expect_fires("constant_channels", text);
    EXPECT_EQ(count(d.rewritten, Op::lattice), 2) << explain(d);
    EXPECT_EQ(count(d.rewritten, Op::expand), 0) << explain(d);
    expect_exact_gradients(graph_of(text), 3);
    // A latent put everywhere, with coordinates beside it: no product of the image is left.
    const Graph broadcast = graph_of(
        "%e = input f32[4,8,1,1]\n%x = expand(%e) shape=[4,8,32,32]\n%p = param f32[1,2,32,32]\n%i = expand(%p) "
        "shape=[4,2,32,32]\n%w = param f32[16,10,3,3]\n%c = concat(%x, %i) axis=1\n%y = conv(%c, %w)\nreturn %y");
    const Graph added = graph_of(
        "%e = input f32[4,8,1,1]\n%x = expand(%e) shape=[4,8,32,32]\n%p = param f32[1,8,32,32]\n%s = add(%x, %p)\n%w = "
        "param f32[16,8,3,3]\n%y = conv(%s, %w) padding=1\nreturn %y");
    for (const Graph& graph : {broadcast, added}) {
        const Derivation latent = expect_exact(graph, {}, 2, 1e-5);
        for (const Node& node : latent.rewritten.nodes())
            EXPECT_TRUE(node.op != Op::lattice || node.type.shape[0] == 1 || node.type.shape.back() == 1);
    }
    // Of 16 bits it would be added after the product was rounded.
    expect_stays("constant_channels", std::regex_replace(text, std::regex("f64"), "f16"));
}

// As in the branch of a global pool among dilated ones.
TEST(rules_constants, a_single_pixel_interpolated_is_a_bias) {
    for (const char* how : {"interpolate(%m) output_size=[6,7]", "interpolate(%m) output_size=[6,7] align_corners=1",
                            "interpolate(%m) scale=[6,7]", "upsample(%m) scale=[6,7]"}) {
        const std::string text =
            "%x = input f64[2,3,6,7]\n%w = param f64[4,6,3,3]\n%m = mean(%x) dims=[2,3] "
            "keepdim=1\n%u = " +
            std::string(how) + "\n%c = concat(%x, %u) axis=1\n%y = conv(%c, %w) padding=1\n";
        const Derivation d = expect_fires("resampling_of_one", text + "return %y");
        EXPECT_EQ(count(d.rewritten, Op::interpolate) + count(d.rewritten, Op::upsample), 0);
        expect_exact_gradients(graph_of(text + "return %y"), 5);
    }
    expect_stays("resampling_of_one", "%x = input f64[2,3,1,7]\n%u = interpolate(%x) scale=[4,2]\nreturn %u");
}

TEST(rules_constants, fires_alone) {
    const std::string e =
        "%x = input f64[2,3,6,7]\n%e = input f64[2,4,1,1]\n%w = param f64[5,7,3,3]\n%i = expand(%e) "
        "shape=[2,4,6,7]\n%c = concat(%x, %i) axis=1\n";
    const Derivation border = expect_fires("constant_channels", e + "%z = conv(%c, %w) padding=[1,1]\nreturn %z");
    EXPECT_EQ(count(border.rewritten, Op::select), 4) << explain(border);
    const Derivation inside = expect_fires("constant_channels", e + "%z = conv(%c, %w)\nreturn %z");
    EXPECT_EQ(count(inside.rewritten, Op::select), 0);
    // All of it constant: nothing is convolved. Channels that vary along one axis stay; so do those of groups.
    const Derivation all = expect_fires("constant_channels",
                                        "%e = input f64[2,3,1,1]\n%w = param f64[3,5,4,4]\n%i = "
                                        "expand(%e) shape=[2,3,6,7]\n%z = conv_transpose(%i, %w) "
                                        "stride=[2,2] padding=[1,1]\nreturn %z");
    for (const Node& node : all.rewritten.nodes())
        EXPECT_TRUE(node.op != Op::lattice || numel(node.type.shape) == 2 * 5 * 16) << explain(all);
    expect_stays("constant_channels",
                 "%x = input f64[2,3,6,7]\n%e = input f64[2,4,6,1]\n%w = param f64[5,7,3,3]\n%i = "
                 "expand(%e) shape=[2,4,6,7]\n%c = concat(%x, %i) axis=1\n%z = conv(%c, %w)\nreturn %z");
}

// What a weight that is an input makes of parameters depends on the call: it is no image that is made with the weights.
// Zeros leave the bias alone, on borders as well.
TEST(rules_constants, weights_and_biases_that_are_inputs) {
    const std::string image = "%p = param f64[1,2,5,6]\n", zeros = "%p = full() dtype=f64 shape=[2,2,5,6] value=0\n";
    const std::string conv = "%y = conv(%p, %w) padding=[1,1]\nreturn %y",
                      biased = "%b = input f64[3]\n%y = conv(%p, %w, %b) padding=[1,1]\nreturn %y";
    RewriteOptions all;
    all.heed_cost = false;
    for (const RewriteOptions& options : {RewriteOptions{}, all}) {
        const Graph made = graph_of(image + "%w = input f64[3,2,3,3]\n" + conv);
        EXPECT_EQ(count(expect_exact(made, options, 6), "constant_channels"), 0);
        expect_exact(graph_of(image + "%w = input f64[3,2,3,3]\n" + biased), options, 7);
        expect_exact(graph_of(zeros + "%w = input f64[3,2,3,3]\n" + conv), options, 8);
        expect_exact(graph_of(zeros + "%w = param f64[3,2,3,3]\n" + biased), options, 9);
    }
}

// A product of 16 bits is rounded once, with all that is added to it; what depends on inputs would be added afterwards.
TEST(rules_constants, sixteen_bits) {
    const auto fires = [](const std::string& leaf, const std::string& padding) {
        return count(
            rewrite(graph_of("%x = input f16[4,16,32,32]\n%e = " + leaf +
                             "\n%w = param f16[32,64,3,3]\n%i = expand(%e) shape=[4,48,32,32]\n%c = concat(%x, "
                             "%i) axis=1\n%z = conv(%c, %w) padding=" +
                             padding + "\nreturn %z")),
            "constant_channels");
    };
    EXPECT_EQ(fires("input f16[4,48,1,1]", "[0,0]"), 0);
    EXPECT_EQ(fires("param f16[1,48,1,1]", "[1,1]"), 0);
    EXPECT_EQ(fires("param f16[1,48,1,1]", "[0,0]"), 1);
}

}  // namespace
}  // namespace transfuse::tests
