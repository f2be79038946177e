// Shuffles of channels and pixels next to convolutions: where they lie, they are the convolution's own.
#include <numeric>

#include "random_layers.h"

namespace transfuse::tests {
namespace {

Sizes shuffled(Random& random, Sizes list) {
    for (size_t i = list.size(); i > 1; --i)
        std::swap(list[i - 1], list[random.between(0, static_cast<int64_t>(i) - 1)]);
    return list;
}

// Channels of x as so many digits, in a random order, of which the last are digits of a place each: forth, or back.
std::string shuffle(Random& random, const std::string& x, const Sizes& shape, const Sizes& digits, bool back) {
    const auto d = static_cast<int64_t>(shape.size()) - 2, n = static_cast<int64_t>(digits.size());
    Sizes own(digits.size());  // where each digit lies in the channel
    std::iota(own.begin(), own.end(), int64_t{0});
    if (random.chance(0.5)) own = shuffled(random, own);
    const int64_t channels = n - d;  // digits that stay channels
    Sizes apart = {shape[0]}, order = {0}, together = {shape[0]};
    int64_t rest = 1;
    if (!back) {
        for (const int64_t j : own) apart.push_back(digits[j]);
        apart.insert(apart.end(), shape.begin() + 2, shape.end());
        const auto place = [&](int64_t j) { return 1 + (std::find(own.begin(), own.end(), j) - own.begin()); };
        for (int64_t j = 0; j < channels; ++j) order.push_back(place(j)), rest *= digits[j];
        together.push_back(rest);
        for (int64_t a = 0; a < d; ++a) {
            order.push_back(1 + n + a), order.push_back(place(channels + a));
            together.push_back(shape[a + 2] * digits[channels + a]);
        }
    } else {
        for (int64_t j = 0; j < channels; ++j) apart.push_back(digits[j]), rest *= digits[j];
        for (int64_t a = 0; a < d; ++a)
            apart.push_back(shape[a + 2] / digits[channels + a]), apart.push_back(digits[channels + a]);
        int64_t all = 1;
        for (const int64_t j : own) {
            order.push_back(j < channels ? 1 + j : 2 + channels + 2 * (j - channels));
            all *= digits[j];
        }
        together.push_back(all);
        for (int64_t a = 0; a < d; ++a)
            order.push_back(1 + channels + 2 * a), together.push_back(shape[a + 2] / digits[channels + a]);
    }
    return "%p = reshape(" + x + ") shape=" + list(apart) + "\n%q = permute(%p) order=" + list(order) +
           "\n%r = reshape(%q) shape=" + list(together) + "\n";
}

Sizes digits_of(Random& random, int64_t first, size_t d) {
    Sizes digits = {first};
    if (random.chance(0.3)) digits.push_back(2);
    for (size_t a = 0; a < d; ++a) digits.push_back(random.between(1, d == 1 ? 3 : 2));
    return digits;
}

std::optional<Graph> behind(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer a = Layer::random(random, d, random.pick(Sizes{1, 1, 2}));
    const Sizes digits = digits_of(random, 2, d);
    int64_t channels = 1;
    for (const int64_t digit : digits) channels *= digit;
    Sizes x = {2, 4};
    for (size_t i = 0; i < d; ++i) x.push_back(random.between(2, d == 3 ? 4 : 6));
    std::string text = "%x = input f64" + list(x) + "\n%w = " + a.weight(4, channels) + "\n%b = param f64[" +
                       std::to_string(channels) + "]\n%y = " + a.call(random.chance(0.5) ? "%x, %w, %b" : "%x, %w") +
                       "\n%f = " + random.pick(std::vector<std::string>{"relu", "identity", "tanh"}) + "(%y)\n";
    const auto before = valid(text + "return %f");
    if (!before) return std::nullopt;
    return valid(text + shuffle(random, "%f", (*before)[before->outputs()[0]].type.shape, digits, false) + "return %r");
}

std::optional<Graph> in_front(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer a = Layer::random(random, d, random.pick(Sizes{1, 1, 2}));
    const Sizes digits = digits_of(random, 2, d);
    int64_t channels = 1, all = 1;
    for (size_t j = 0; j < digits.size(); ++j) all *= digits[j], channels *= j + d < digits.size() ? digits[j] : 1;
    Sizes x = {2, channels};
    for (size_t i = 0; i < d; ++i) x.push_back(random.between(2, d == 3 ? 3 : 5) * digits[digits.size() - d + i]);
    return valid("%x = input f64" + list(x) + "\n%w = " + a.weight(all, 4) + "\n%b = param f64[4]\n" +
                 shuffle(random, "%x", x, digits, true) +
                 "%y = " + a.call(random.chance(0.5) ? "%r, %w, %b" : "%r, %w") + "\nreturn %y");
}

// A convolution or two between two flips, and what lies there element by element.
std::optional<Graph> between_flips(uint64_t seed) {
    Random random(seed);
    const auto d = static_cast<size_t>(random.between(1, 3));
    const Layer a = Layer::random(random, d, random.pick(Sizes{1, 1, 2})), b = Layer::random(random, d, 1);
    Sizes x = {2, 4}, dims;
    for (size_t i = 0; i < d; ++i) {
        x.push_back(random.between(2, d == 3 ? 4 : 6));
        if (random.chance(0.7)) dims.push_back(static_cast<int64_t>(i) + 2);
    }
    if (random.chance(0.3) || dims.empty()) dims.insert(dims.begin(), 0);
    std::string text = "%x = input f64" + list(x) + "\n%w = " + a.weight(4, 4) + "\n%v = " + b.weight(4, 4) +
                       "\n%b = param f64[4]\n%f = flip(%x) dims=" + list(dims) + "\n%y = " + a.call("%f, %w, %b") +
                       "\n%t = " + random.pick(std::vector<std::string>{"tanh(%y)", "mul(%y, 0.5)", "relu(%y)"}) + "\n";
    text += random.chance(0.5) ? "%z = " + b.call("%t, %v") + "\n" : "%z = identity(%t)\n";
    return valid(text + (random.chance(0.8) ? "%g = flip(%z) dims=" + list(dims) : "%g = mean(%z) dims=[0,2]") +
                 "\nreturn %g");
}

// Exact, and so is the gradient.
int fired(const Graph& graph, uint64_t seed, std::string_view rule) {
    RewriteOptions options;
    options.heed_cost = false;
    options.inference = options.differentiated = false;
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

TEST(rules_rearrange, random_shuffles_behind_a_convolution_are_exact) {
    int times = 0;
    for (uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed)
        if (const auto graph = behind(seed)) times += fired(*graph, seed, "rearranged_lattice");
    EXPECT_GT(times, 300);
}

TEST(rules_rearrange, random_shuffles_in_front_of_a_convolution_are_exact) {
    int times = 0;
    for (uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed)
        if (const auto graph = in_front(seed)) times += fired(*graph, seed, "lattice_of_rearranged");
    EXPECT_GT(times, 300);
}

TEST(rules_rearrange, random_convolutions_between_flips_are_exact) {
    int times = 0;
    for (uint64_t seed = 0; seed < 800 && !HasFailure(); ++seed)
        if (const auto graph = between_flips(seed)) times += fired(*graph, seed, "flip_undone");
    EXPECT_GT(times, 200);
}

TEST(rules_rearrange, flips_around_a_convolution_flip_its_taps) {
    const std::string between = R"(%x = input f64[2,3,5,6]
        %w = param f64[4,3,3,2]
        %f = flip(%x) dims=[2,3]
        %y = conv(%f, %w) stride=[2,1] padding=[1,0]
        %z = flip(%y) dims=[2,3]
        return %z)";
    expect_fires("flip_undone", between);
    expect_stays("flip_undone", R"(%x = input f64[2,3,5,6]
        %w = param f64[4,3,3,2]
        %f = flip(%x) dims=[2]
        %y = conv(%f, %w)
        %z = flip(%y) dims=[3]
        return %z)");
    expect_fires("flip_reduced", R"(%x = input f64[2,3,5,6]
        %f = flip(%x) dims=[0,3]
        %y = amax(%f) dims=[0,3]
        return %y)");
}

TEST(rules_rearrange, a_pixel_shuffle_is_where_a_convolution_writes) {
    const Derivation d = expect_fires("rearranged_lattice", R"(%x = input f64[2,3,5,6]
        %w = param f64[8,3,3,3]
        %b = param f64[8]
        %y = conv(%x, %w, %b) padding=[1,1]
        %p = reshape(%y) shape=[2,2,2,2,5,6]
        %q = permute(%p) order=[0,1,4,2,5,3]
        %r = reshape(%q) shape=[2,2,10,12]
        return %r)");
    EXPECT_EQ(count(d.rewritten, Op::lattice), 1);
}

TEST(rules_rearrange, a_pixel_unshuffle_is_where_a_convolution_reads) {
    const Derivation d = expect_fires("lattice_of_rearranged", R"(%x = input f64[2,3,6,10]
        %w = param f64[4,12,3,3]
        %b = param f64[4]
        %p = reshape(%x) shape=[2,3,3,2,5,2]
        %q = permute(%p) order=[0,1,3,5,2,4]
        %r = reshape(%q) shape=[2,12,3,5]
        %y = conv(%r, %w, %b) padding=[1,1]
        return %y)");
    EXPECT_EQ(count(d.rewritten, Op::lattice), 1);
}

TEST(rules_rearrange, stays_away_where_a_digit_is_no_residue) {
    // Strided by two, then shuffled by two: the place's parity says nothing of the tap.
    expect_stays("rearranged_lattice", R"(%x = input f64[2,3,8,8]
        %w = param f64[8,3,3,3]
        %y = conv(%x, %w) stride=[2,2] padding=[1,1]
        %p = reshape(%y) shape=[2,2,2,2,4,4]
        %q = permute(%p) order=[0,1,4,2,5,3]
        %r = reshape(%q) shape=[2,2,8,8]
        return %r)");
    // Of depthwise channels that leave their groups.
    expect_stays("rearranged_lattice", R"(%x = input f64[2,4,5,5]
        %w = param f64[4,1,3,3]
        %y = conv(%x, %w) padding=[1,1] groups=4
        %p = reshape(%y) shape=[2,2,2,5,5]
        %q = permute(%p) order=[0,2,1,3,4]
        %r = reshape(%q) shape=[2,4,5,5]
        return %r)");
    // The batch is no channel.
    expect_stays("rearranged_lattice", R"(%x = input f64[2,4,5,5]
        %w = param f64[4,4,3,3]
        %y = conv(%x, %w) padding=[1,1]
        %p = reshape(%y) shape=[1,8,5,5]
        return %p)");
}

}  // namespace
}  // namespace transfuse::tests
