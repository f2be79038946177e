// Convolutions of sums, of concatenated channels, of slices, beside what resamples: taken apart, moved and read in
// place.
#include "algebra/rewriter/rewriter.h"
#include "random_layers.h"

namespace transfuse::tests {
namespace {

// Exact by this rule alone, by all together, and so is the gradient.
int fired(const Graph& graph, uint64_t seed, const std::string& rule) {
    RewriteOptions options;
    options.heed_cost = false;
    options.inference = options.differentiated = false;
    expect_exact(graph, options, seed, 1e-11);
    options.only = {rule};
    const Derivation d = expect_exact(graph, options, seed, 1e-11);
    if (seed % 5 == 0) {
        GradientRequest request{{0}, {}};
        for (size_t i = 0; i < graph.leaves().size(); ++i) request.wrt.push_back(static_cast<ValueId>(i));
        const Graph written = gradient(graph, request), rewritten = gradient(d.rewritten, request);
        const auto leaves = random_leaves(written, seed);
        EXPECT_LE(error(evaluate(written, leaves), evaluate(rewritten, leaves)), 1e-10) << "seed " << seed << "\n"
                                                                                        << explain(d);
    }
    return count(d, rule);
}

template <class Draw>
int times(int seeds, const std::string& rule, Draw draw) {
    int found = 0;
    for (int seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) {
        Random random(static_cast<uint64_t>(seed));
        if (const std::optional<Graph> graph = draw(random))
            found += fired(*graph, static_cast<uint64_t>(seed), rule) > 0;
    }
    return found;
}

Sizes image(Random& random, size_t d, int64_t channels) {
    Sizes x = {2, channels};
    for (size_t i = 0; i < d; ++i) x.push_back(random.between(3, d == 3 ? 4 : 7));
    return x;
}

std::optional<Sizes> shape_of(const std::string& text, const std::string& value) {
    const auto graph = valid(text + "return " + value);
    if (!graph) return std::nullopt;
    return (*graph)[graph->outputs()[0]].type.shape;
}

std::string ones(size_t d) { return d == 1 ? ",1" : d == 2 ? ",1,1" : ",1,1,1"; }

// A convolution behind a sum, or a concatenation, of a convolution and another input, with a scale and a shift between.
TEST(rules_parts, random_convolutions_of_parts_are_exact) {
    for (const bool concat : {false, true}) {
        const int found = times(800, "distributed", [&](Random& random) -> std::optional<Graph> {
            const auto d = static_cast<size_t>(random.between(1, 3));
            const Layer a = Layer::random(random, d, random.pick(Sizes{1, 2}));
            const Layer c = Layer::random(random, d, concat ? 1 : random.pick(Sizes{1, 1, 2}));
            std::string text = "%x = input f64" + list(image(random, d, 4)) + "\n%w = " + a.weight(4, 4) +
                               "\n%b = param f64[4]\n%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") +
                               "\n";
            const auto between = shape_of(text, "%y");
            if (!between) return std::nullopt;
            text += "%u = input f64" + list(*between) + "\n";
            if (concat)
                text += random.chance(0.5) ? "%z = concat(%u, %y) axis=1\n" : "%z = concat(%y, %u, %u) axis=1\n";
            else
                text += std::string(random.chance(0.5) ? "%z = add(%y, %u)\n" : "%z = sub(%u, %y)\n");
            const int64_t channels = (*shape_of(text, "%z"))[1];
            const std::string by = "param f64[" + std::to_string(channels) + ones(d) + "]";
            text += "%s = " + by + "\n%t = " + by + "\n%v = " + c.weight(channels, 4) + "\n";
            text += random.pick(std::vector<std::string>{"%m = identity(%z)\n", "%m = mul(%z, %s)\n",
                                                         "%n = mul(%z, %s)\n%m = add(%n, %t)\n"});
            text += "%o = " + c.call(random.chance(0.5) ? "%m, %v" : "%m, %v, %b") + "\n";
            return valid(text + "return %o");
        });
        EXPECT_GT(found, 40);
    }
}

// One value a channel of each sample added between two convolutions: an embedding, or a mean taken away.
TEST(rules_parts, random_shifts_of_samples_go_through_convolutions) {
    const int found = times(300, "distributed", [](Random& random) -> std::optional<Graph> {
        const auto d = static_cast<size_t>(random.between(1, 3));
        const Layer a = Layer::random(random, d, random.pick(Sizes{1, 2})), c = Layer::random(random, d, 1);
        std::string text = "%x = input f64" + list(image(random, d, 4)) + "\n%w = " + a.weight(4, 4) +
                           "\n%b = param f64[4]\n%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") + "\n";
        Sizes one(d + 2, 1);
        one[0] = random.pick(Sizes{1, 2}), one[1] = random.pick(Sizes{1, 4, 4});
        const std::string dims = d == 1 ? "2" : d == 2 ? "2,3" : "2,3,4";
        text += random.chance(0.7)
                    ? "%e = input f64" + list(one) + "\n"
                    : "%e = mean(%y) dims=[" + std::string(random.chance(0.3) ? "1," : "") + dims + "] keepdim=1\n";
        text += random.pick(std::vector<std::string>{"%z = add(%e, %y)\n", "%z = sub(%y, %e)\n", "%z = sub(%e, %y)\n"});
        text += "%s = param f64[4" + ones(d) + "]\n%t = param f64[4" + ones(d) + "]\n%v = " + c.weight(4, 3) +
                "\n%k = param f64[3]\n";
        text += random.pick(std::vector<std::string>{"%m = identity(%z)\n", "%n = mul(%z, %s)\n%m = add(%n, %t)\n"});
        text += "%o = " + c.call(random.chance(0.5) ? "%m, %v" : "%m, %v, %k") + "\n";
        return valid(text + "return %o");
    });
    EXPECT_GT(found, 40);
}

// Beside the convolution, what repeats itself along an axis, and an image of parameters.
TEST(rules_parts, random_repetitions_and_images_go_through_convolutions) {
    const int found = times(400, "distributed", [](Random& random) -> std::optional<Graph> {
        const auto d = static_cast<size_t>(random.between(1, 3));
        const Layer a = Layer::random(random, d, random.pick(Sizes{1, 2})),
                    c = Layer::random(random, d, random.pick(Sizes{1, 1, 2}));
        std::string text = "%x = input f64" + list(image(random, d, 4)) + "\n%w = " + a.weight(4, 4) +
                           "\n%b = param f64[4]\n%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") + "\n";
        const auto shape = shape_of(text, "%y");
        if (!shape) return std::nullopt;
        Sizes repeated = *shape, fixed = *shape;
        const auto axis = static_cast<size_t>(random.between(2, static_cast<int64_t>(d) + 1));
        repeated[axis] = 1, fixed[0] = 1;
        if (random.chance(0.3)) repeated[0] = 1;
        text += "%e = input f64" + list(repeated) + "\n%p = param f64" + list(fixed) + "\n";
        text += random.pick(std::vector<std::string>{"%z = add(%e, %y)\n", "%z = sub(%y, %p)\n",
                                                     "%f = add(%p, %e)\n%z = sub(%f, %y)\n",
                                                     "%f = sub(%e, %y)\n%z = sub(%p, %f)\n"});
        text += "%v = " + c.weight(4, 4) + "\n%s = param f64[4" + ones(d) + "]\n%t = param f64[4" + ones(d) + "]\n";
        text += random.pick(std::vector<std::string>{"%m = identity(%z)\n", "%n = mul(%z, %s)\n%m = add(%n, %t)\n"});
        text += "%o = " + c.call(random.chance(0.5) ? "%m, %v" : "%m, %v, %b") + "\n";
        return valid(text + "return %o");
    });
    EXPECT_GT(found, 40);
}

// Products of pixels beside pools, upsamplings and interpolations.
TEST(rules_parts, random_products_of_pixels_are_exact) {
    const auto draw = [](bool more) {
        return [more](Random& random) -> std::optional<Graph> {
            const auto d = static_cast<size_t>(random.between(1, 3));
            const int64_t groups = random.pick(Sizes{1, 1, 2});
            const std::string kernel = list(Sizes(d, 2));
            const std::string resample = random.pick(
                more ? std::vector<std::string>{"upsample(%a) scale=" + kernel,
                                                "interpolate(%a) scale=[2" + std::string(d > 1 ? ",2" : "") +
                                                    (d > 2 ? ",2]" : "]"),
                                                "interpolate(%a) align_corners=1 scale=[2" +
                                                    std::string(d > 1 ? ",2" : "") + (d > 2 ? ",2]" : "]")}
                     : std::vector<std::string>{"avg_pool(%a) stride=" + kernel + " kernel=" + kernel,
                                                "avg_pool(%a) stride=" + kernel + " padding=" + list(Sizes(d, 1)) +
                                                    " kernel=" + list(Sizes(d, 3))});
            std::string text = "%x = input f64" + list(image(random, d, 4)) + "\n%w = param f64[6," +
                               std::to_string(4 / groups) + ones(d) + "]\n%b = param f64[6]\n";
            const std::string product =
                std::string("conv(%c, %w") + (random.chance(0.5) ? ", %b)" : ")") + " groups=" + std::to_string(groups);
            const std::string &first = more ? resample : product, &second = more ? product : resample;
            text += "%a = identity(%x)\n%c = identity(%x)\n";
            const auto named = [](std::string call, const std::string& from, const std::string& to) {
                const auto at = call.find(from);
                return at == std::string::npos ? call : call.replace(at, from.size(), to);
            };
            text += "%y = " + named(named(first, "%a", "%x"), "%c", "%x") + "\n";
            text += "%z = " + named(named(second, "%a", "%y"), "%c", "%y") + "\n";
            return valid(text + "return %z");
        };
    };
    EXPECT_GT(times(80, "pixelwise_before", draw(true)), 40);
    EXPECT_GT(times(80, "pixelwise_behind", draw(false)), 24);
}

// Of fewer channels, before a pool whose windows overlap.
TEST(rules_parts, random_pixels_of_fewer_channels_before_pools_are_exact) {
    const int found = times(120, "pixelwise_before", [](Random& random) -> std::optional<Graph> {
        const auto d = static_cast<size_t>(random.between(1, 3));
        const int64_t groups = random.pick(Sizes{1, 1, 2});
        const bool wide = random.chance(0.5);
        return valid("%x = input f64" + list(image(random, d, 8)) + "\n%w = param f64[4," + std::to_string(8 / groups) +
                     ones(d) + "]\n%b = param f64[4]\n%y = avg_pool(%x) kernel=" + list(Sizes(d, wide ? 5 : 3)) +
                     " stride=" + list(Sizes(d, 1)) + " padding=" + list(Sizes(d, wide ? 2 : 1)) + "\n%z = conv(%y, " +
                     (random.chance(0.5) ? "%w, %b" : "%w") + ") groups=" + std::to_string(groups) + "\nreturn %z");
    });
    EXPECT_GT(found, 80);
}

// Channels that are slices of one input, every step and start.
TEST(rules_parts, random_slices_are_read_in_place) {
    const int found = times(800, "lattice_of_slices", [](Random& random) -> std::optional<Graph> {
        const auto d = static_cast<size_t>(random.between(1, 3));
        Sizes x = {2, 2};
        for (size_t i = 0; i < d; ++i) x.push_back(2 * random.between(2, 4));
        std::string text = "%x = input f64" + list(x) + "\n", all;
        const int64_t pieces = random.between(1, 3), step = random.between(1, 2);
        for (int64_t p = 0; p < pieces; ++p) {
            std::string value = "%x";
            for (size_t a = 0; a < d; ++a) {
                const std::string next = "%s" + std::to_string(p) + std::to_string(a);
                const int64_t extent = x[a + 2], start = random.between(0, 1);
                text += next + " = slice(" + value + ") axis=" + std::to_string(a + 2) +
                        " start=" + std::to_string(start) +
                        " end=" + std::to_string(step == 2 ? extent : extent - 1 + start) +
                        " step=" + std::to_string(step) + "\n";
                value = next;
            }
            all += (p ? ", " : "") + value;
        }
        if (pieces > 1) text += "%z = concat(" + all + ") axis=1\n";
        const Layer c = Layer::random(random, d, 1);
        text += "%w = " + c.weight(2 * pieces, 4) + "\n%o = " + c.call((pieces > 1 ? "%z" : all) + ", %w") + "\n";
        return valid(text + "return %o");
    });
    EXPECT_GT(found, 150);
}

// Stacks on a new axis that becomes a digit of the channel or of a place.
TEST(rules_parts, random_stacks_are_one_convolution) {
    const int found = times(150, "stack_of_one_input", [](Random& random) -> std::optional<Graph> {
        const auto d = static_cast<size_t>(random.between(1, 3));
        const Layer a = Layer::random(random, d, 1);
        const std::optional<Layer> b = a.beside(random, 1);
        if (!b) return std::nullopt;
        std::string text = "%x = input f64" + list(image(random, d, 4)) + "\n%w = " + a.weight(4, 6) +
                           "\n%v = " + b->weight(4, 6) + "\n%b = param f64[6]\n%y = " + a.call("%x, %w, %b") +
                           "\n%z = " + b->call(random.chance(0.5) ? "%x, %v" : "%x, %v, %b") + "\n";
        const auto made = shape_of(text, "%y");
        if (!made) return std::nullopt;
        const auto axis = random.between(1, static_cast<int64_t>(made->size()));
        Sizes one = *made;
        one.insert(one.begin() + axis, 1);
        Sizes together = *made;
        together[static_cast<size_t>(axis) - 1 + (axis == 1)] *= 2;
        text += "%p = reshape(%y) shape=" + list(one) + "\n%q = reshape(%z) shape=" + list(one) +
                "\n%s = concat(%p, %q) axis=" + std::to_string(axis) + "\n%o = reshape(%s) shape=" + list(together);
        return valid(text + "\nreturn %o");
    });
    EXPECT_GT(found, 40);
}

// A product of pixels behind a rearrangement of a convolution's: tokens, flattened images, other ranks.
TEST(rules_parts, products_of_pixels_that_are_rearranged) {
    const std::string y = "%x = input f64[2,3,4,5]\n%w = param f64[6,3,3,3]\n%y = conv(%x, %w) padding=[1,1]\n";
    RewriteOptions options;
    options.heed_cost = false;
    for (const std::string& rest : std::vector<std::string>{
             "%f = reshape(%y) shape=[2,6,20]\n%v = param f64[4,6,1]\n%o = conv(%f, %v)\nreturn %o",
             "%p = permute(%y) order=[0,2,3,1]\n%f = reshape(%p) shape=[40,6,1]\n%v = param f64[4,6,1]\n%o = conv(%f, "
             "%v)\nreturn %o",
             "%m = mean(%y) dims=[2,3]\n%f = reshape(%m) shape=[2,6,1]\n%v = param f64[4,6,1]\n%b = param f64[4]\n%o = "
             "conv(%f, %v, %b)\nreturn %o",
             "%f = reshape(%y) shape=[2,6,2,2,5]\n%v = param f64[4,3,1,1,1]\n%o = conv(%f, %v) groups=2\nreturn %o"}) {
        const Derivation d = expect_exact(graph_of(y + rest), options, 1);
        EXPECT_EQ(convolutions(d.rewritten), 1) << explain(d);
    }
    expect_fires("pixelwise_of_rearranged",
                 y + "%f = reshape(%y) shape=[2,6,20]\n%v = param f64[4,6,1]\n%o = conv(%f, %v)\nreturn %o");
    expect_fires("compose_reshaped",
                 "%x = input f64[2,3,4,1]\n%w = param f64[6,3,3,1]\n%y = conv(%x, %w) padding=[1,0]\n%f = reshape(%y) "
                 "shape=[2,6,4]\n%v = param f64[4,6,2]\n%o = conv(%f, %v)\nreturn %o");
    expect_fires("rearrangement_undone",
                 "%x = input f64[2,3,4,5]\n%f = reshape(%x) shape=[2,3,20]\n%p = permute(%f) order=[0,2,1]\n%q = "
                 "permute(%p) order=[0,2,1]\n%r = reshape(%q) shape=[2,3,4,5]\n%o = tanh(%r)\nreturn %o");
    expect_stays("pixelwise_of_rearranged",
                 "%x = input f64[2,6,4,5]\n%f = reshape(%x) shape=[2,6,20]\n%v = param f64[4,6,1]\n%o = conv(%f, "
                 "%v)\nreturn %o");
}

TEST(rules_parts, parts_and_places) {
    const std::string y = "%x = input f64[2,4,4,6]\n%w = param f64[4,4,3,3]\n%y = conv(%x, %w) padding=[1,1]\n";
    const std::string product = "%v = param f64[3,4,1,1]\n";
    expect_fires("distributed",
                 y + product + "%u = input f64[2,4,4,6]\n%z = add(%y, %u)\n%o = conv(%z, %v)\nreturn %o");
    expect_fires("pixelwise_before",
                 y + product + "%r = relu(%y)\n%u = upsample(%r) scale=[2,2]\n%o = conv(%u, %v)\nreturn %o");
    expect_fires("pixelwise_behind",
                 product +
                     "%x = input f64[2,4,4,6]\n%y = conv(%x, %v)\n%o = avg_pool(%y) kernel=[2,2] stride=[2,2]\n"
                     "return %o");
    expect_fires("lattice_of_slices",
                 "%x = input f64[2,4,4,6]\n%w = param f64[4,4,3,3]\n%e = slice(%x) axis=2 start=0 "
                 "end=4 step=2\n%o = conv(%e, %w) padding=[1,1]\nreturn %o");
    // Of a part that begins inside, padding is zero where the image is not.
    expect_stays("lattice_of_slices",
                 "%x = input f64[2,4,4,6]\n%w = param f64[4,4,3,3]\n%e = slice(%x) axis=2 start=1 "
                 "end=3\n%o = conv(%e, %w) padding=[1,1]\nreturn %o");
    expect_fires("stack_of_one_input",
                 y + "%v = param f64[4,4,1,1]\n%z = conv(%x, %v)\n%p = reshape(%y) shape=[2,4,1,4,6]\n%q = reshape(%z) "
                     "shape=[2,4,1,4,6]\n%s = concat(%p, %q) axis=2\n%o = tanh(%s)\nreturn %o");
    expect_fires("sum_by_way", y + "%a = param f64[2,4,1,1]\n%u = conv(%x, %a)\n%b = param f64[4,2,1,1]\n%z = conv(%u, "
                                   "%b)\n%o = sub(%y, %z)\nreturn %o");
    expect_fires("reduce_stack", y + "%p = reshape(%y) shape=[2,1,4,4,6]\n%q = reshape(%x) shape=[2,1,4,4,6]\n%s = "
                                     "concat(%p, %q) axis=1\n%o = mean(%s) dims=[1]\nreturn %o");
}

// Sums over parts of the channels.
TEST(rules_parts, sums_of_parts_of_the_channels) {
    const std::string y =
        "%x = input f64[2,3,4,5]\n%w = param f64[12,3,3,3]\n%b = param f64[12]\n%y = conv(%x, %w, %b) padding=[1,1]\n";
    for (const char* op : {"sum", "mean"})
        for (const char* rest :
             {"shape=[2,3,4,4,5]\n%o = OP(%r) dims=[1]\nreturn %o",
              "shape=[2,3,4,4,5]\n%o = OP(%r) dims=[2]\nreturn %o",
              "shape=[2,2,3,2,4,5]\n%o = OP(%r) dims=[1,3] keepdim=1\nreturn %o",
              "shape=[2,3,4,4,5]\n%p = permute(%r) order=[0,2,3,1,4]\n%o = OP(%p) dims=[3]\nreturn %o"}) {
            std::string text = y + "%r = reshape(%y) " + rest;
            text.replace(text.find("OP"), 2, op);
            const Derivation d = expect_fires("sum_of_channel_digits", text);
            EXPECT_GE(count(d, "sum_of_channel_digits"), 1);
        }
    expect_stays("sum_of_channel_digits", y + "%r = reshape(%y) shape=[2,12,2,2,5]\n%o = sum(%r) dims=[2]\nreturn %o");
}

// A branch by way of few channels beside a convolution of the same input (LoRA), and parts of one convolution's
// channels.
TEST(rules_parts, sums_of_convolutions_that_are_not_written_as_such) {
    const std::string x = "%x = input f32[4,64,24,24]\n%w = param f32[64,64,3,3]\n%y = conv(%x, %w) padding=[1,1]\n";
    for (const char* rest :
         {"%a = param f32[4,64,3,3]\n%u = conv(%x, %a) padding=[1,1]\n%b = param f32[64,4,1,1]\n%v = conv(%u, %b)\n%s "
          "= "
          "mul(%v, 0.5)\n%o = add(%y, %s)\nreturn %o",
          "%p = slice(%y) axis=1 start=0 end=32\n%q = slice(%y) axis=1 start=32 end=64\n%o = add(%p, %q)\nreturn %o",
          "%p = slice(%y) axis=1 start=0 end=32\n%q = slice(%y) axis=1 start=32 end=64\n%o = concat(%q, %p) "
          "axis=1\nreturn %o"}) {
        const Derivation d = rewrite(graph_of(x + rest));
        EXPECT_EQ(convolutions(d.rewritten), 1) << explain(d);
        EXPECT_LE(cost(d.rewritten).flops, 1.01 * 2 * 4 * 70 * 70 * 64 * 64) << explain(d);
    }
    // Others of its channels are asked for as well: it is made once.
    const Derivation d = rewrite(graph_of(
        x +
        "%p = slice(%y) axis=1 start=0 end=2\n%q = slice(%y) axis=1 start=2 end=4\n%o = add(%p, %q)\nreturn %o, %y"));
    EXPECT_EQ(convolutions(d.rewritten), 1) << explain(d);
}

// Three convolutions of which no two are worth one.
TEST(rules_parts, three_at_once) {
    const Derivation d = rewrite(
        graph_of("%x = input f32[4,64,48,48]\n%u = param f32[128,64,1,1]\n%v = param f32[128,1,3,3]\n%w = param "
                 "f32[16,128,1,1]\n"
                 "%y = conv(%x, %u)\n%z = conv(%y, %v) padding=[1,1] groups=128\n%o = conv(%z, %w)\nreturn %o"));
    EXPECT_EQ(convolutions(d.rewritten), 1) << explain(d);
}

}  // namespace
}  // namespace transfuse::tests
