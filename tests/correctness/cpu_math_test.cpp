// The vector functions of every instruction-set level against libm in fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "cpu/kernels/kernels.h"

namespace transfuse::cpu {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// Distance in units of the last place of the true value (of the smallest normal number below that).
double ulps(float got, double want) {
    if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
    const auto rounded = static_cast<float>(want);
    if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : std::fabs(want) > 3.4e38 ? 1 : 1e9;
    int exponent;
    std::frexp(want, &exponent);
    return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Every sign and exponent, random fractions, and the hard places.
std::vector<float> arguments(float largest) {
    std::vector<float> xs = {0.f,     -0.f,   1.f,    -1.f,       inf,        -inf,        std::nanf(""), 1e-45f,
                             -1e-45f, 1e-38f, 0.625f, 0.925f,     88.72f,     88.73f,      -87.3f,        -103.97f,
                             -104.1f, 3.92f,  4.01f,  1.5707963f, 3.1415927f, 0.70710677f, 1.4142135f};
    std::mt19937 random(7);
    std::uniform_real_distribution<float> fraction(1, 2), plain(-20, 20), narrow(-1.5f, 1.5f);
    for (int e = -149; e < 128; ++e)
        for (int i = 0; i < 40; ++i) {
            const float x = std::ldexp(fraction(random), e);
            if (std::fabs(x) <= largest) xs.insert(xs.end(), {x, -x});
        }
    for (int i = 0; i < 40000; ++i) xs.insert(xs.end(), {plain(random), narrow(random)});
    std::erase_if(xs, [&](float x) { return std::fabs(x) > largest; });
    xs.resize(static_cast<size_t>(padded(static_cast<int64_t>(xs.size()))), 0.5f);
    return xs;
}

struct Case {
    RowOp op;
    const char* name;
    std::function<double(double)> exact;
    double ulps;
    float largest = inf;
};

class EachLevel : public testing::TestWithParam<int> {
protected:
    const Level& level() const { return *available_levels().begin[GetParam()]; }
};

TEST_P(EachLevel, FunctionsAreWithinTwoUlps) {
    const std::vector<Case> cases = {
        {RowOp::exp, "exp", [](double x) { return std::exp(x); }, 2},
        {RowOp::log, "log", [](double x) { return std::log(x); }, 2},
        {RowOp::tanh, "tanh", [](double x) { return std::tanh(x); }, 2},
        {RowOp::erf, "erf", [](double x) { return std::erf(x); }, 2},
        {RowOp::sigmoid, "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 3},
        {RowOp::sin, "sin", [](double x) { return std::sin(x); }, 2},
        {RowOp::cos, "cos", [](double x) { return std::cos(x); }, 2},
        {RowOp::sqrt, "sqrt", [](double x) { return std::sqrt(x); }, 1},
        {RowOp::reciprocal, "reciprocal", [](double x) { return 1 / x; }, 1},
        {RowOp::elu, "expm1", [](double x) { return x > 0 ? x : std::expm1(x); }, 2},
        {RowOp::silu, "silu", [](double x) { return x / (1 + std::exp(-x)); }, 4, 80},
    };
    for (const Case& c : cases) {
        const std::vector<float> x = arguments(c.largest);
        std::vector<float> y(x.size());
        const RowArgs<float> args{
            y.data(), {x.data(), nullptr, nullptr}, {false, false, false}, {1, 20}, static_cast<int64_t>(x.size())};
        level().f32.row(c.op, args);
        double worst = 0;
        float where = 0;
        for (size_t i = 0; i < x.size(); ++i) {
            double error = ulps(y[i], c.exact(x[i]));
            // Where a function's value lies below 2^-8 times its argument's place, cancellation in the argument is all
            // there is (sin and cos near their zeros): judge those by the place of the argument.
            if ((c.op == RowOp::sin || c.op == RowOp::cos) && std::fabs(x[i]) > 3)
                error = std::fabs(y[i] - c.exact(x[i])) / 1.2e-7;
            if (error > worst) worst = error, where = x[i];
        }
        EXPECT_LE(worst, c.ulps) << level().name << " " << c.name << " at " << where;
    }
}

TEST_P(EachLevel, LargeSoftplusMishAndGeluKeepTheirLimits) {
    std::vector<float> x = {-200, -100, -50, -20, -5, 0, 5, 20, 50, 100, 200, inf, -1e-3f, 1e-3f, -3, 3}, y(16);
    const auto run = [&](RowOp op) {
        level().f32.row(op, {y.data(), {x.data(), nullptr, nullptr}, {false, false, false}, {1, 20}, 16});
    };
    run(RowOp::softplus);
    for (size_t i = 0; i + 1 < 16; ++i) {
        if (std::isinf(x[i])) continue;
        const double want = x[i] > 20 ? x[i] : std::log1p(std::exp(static_cast<double>(x[i])));
        EXPECT_NEAR(y[i], want, 1e-6 * want + 2e-45) << x[i];
    }
    run(RowOp::mish);
    EXPECT_EQ(y[10], 200);
    EXPECT_NEAR(y[0], 0, 1e-30);
    run(RowOp::gelu);
    EXPECT_EQ(y[10], 200);
    EXPECT_EQ(y[0], 0);
}

TEST_P(EachLevel, HalfPrecisionRowsRoundToNearestEven) {
    std::vector<uint16_t> all(65536), back(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> numbers(65536);
    for (Storage storage : {Storage::f16, Storage::bf16}) {
        level().f32.load(numbers.data(), all.data(), storage, 1, 65536);
        level().f32.store(back.data(), storage, 1, numbers.data(), 65536);
        for (size_t i = 0; i < all.size(); ++i)
            if (!std::isnan(numbers[i]))
                ASSERT_EQ(all[i], back[i]) << i;
            else
                ASSERT_TRUE(storage == Storage::f16 ? (back[i] & 0x7fff) > 0x7c00 : (back[i] & 0x7fff) > 0x7f80);
        // Between two neighbours: halfway goes to the even one, anything past it upwards.
        for (uint16_t i = 1; i + 1 < (storage == Storage::f16 ? 0x7c00 : 0x7f80); ++i) {
            const float middle = 0.5f * numbers[i] + 0.5f * numbers[i + 1u], above = std::nextafter(middle, inf);
            const float in[2] = {middle, above};
            if (storage == Storage::bf16 && middle != numbers[i] / 2 + numbers[i + 1u] / 2) continue;
            level().f32.store(back.data(), storage, 1, in, 2);
            ASSERT_EQ(back[0], i % 2 ? i + 1 : i) << middle;
            ASSERT_EQ(back[1], i + 1) << above;
        }
    }
    const float huge[3] = {65519.f, 65520.f, -1e9f};
    level().f32.store(back.data(), Storage::f16, 1, huge, 3);
    EXPECT_EQ(back[0], 0x7bff);
    EXPECT_EQ(back[1], 0x7c00);
    EXPECT_EQ(back[2], 0xfc00);
}

template <class T>
void check_product(const Kernels<T>& k) {
    std::mt19937 random(3);
    std::uniform_real_distribution<T> uniform(-1, 1);
    for (int64_t rows : {k.panel_rows, int64_t{4}, int64_t{2}, int64_t{1}})
        for (int64_t terms : {0, 1, 3, 81, 1100, 2500})
            for (int64_t spots_count : {1, 2, 3, 4, 5, 7, 8, 10, 16}) {
                const int64_t width = spots_count * k.lanes;
                std::vector<T> patch(static_cast<size_t>(width + 200)), panel(static_cast<size_t>((terms + 1) * rows)),
                    bias(static_cast<size_t>(rows));
                for (T& v : patch) v = uniform(random);
                for (T& v : panel) v = uniform(random);
                for (T& v : bias) v = uniform(random);
                std::vector<int32_t> offsets(static_cast<size_t>(terms + 2), 0);
                for (int64_t t = 0; t < terms; ++t)
                    offsets[static_cast<size_t>(t)] = static_cast<int32_t>(random() % 190 * sizeof(T));
                std::vector<Spot> spots;
                for (int64_t s = 0; s < spots_count; ++s)
                    spots.push_back(
                        {static_cast<int32_t>(s * k.lanes), static_cast<int32_t>((spots_count - 1 - s) * k.lanes)});
                std::vector<T> out(static_cast<size_t>(rows * width), std::numeric_limits<T>::quiet_NaN());
                k.product({panel.data(), offsets.data(), terms, rows, patch.data(), spots.data(), spots_count,
                           out.data(), width, bias.data(), false});
                for (int64_t m = 0; m < rows; ++m)
                    for (int64_t i = 0; i < width; ++i) {
                        double want = bias[static_cast<size_t>(m)];
                        for (int64_t t = 0; t < terms; ++t)
                            want += static_cast<double>(panel[static_cast<size_t>(t * rows + m)]) *
                                    patch[static_cast<size_t>(i) +
                                          static_cast<size_t>(offsets[static_cast<size_t>(t)]) / sizeof(T)];
                        const int64_t spot = spots_count - 1 - i / k.lanes;
                        const double tolerance =
                            4 * std::numeric_limits<T>::epsilon() * (static_cast<double>(terms) / 8 + 1);
                        ASSERT_NEAR(out[static_cast<size_t>(m * width + spot * k.lanes + i % k.lanes)], want, tolerance)
                            << rows << " rows, " << terms << " terms, " << spots_count << " spots";
                    }
            }
}

TEST_P(EachLevel, ProductsAreSumsOverTheTable) {
    check_product(level().f32);
    check_product(level().f64);
}

TEST_P(EachLevel, RowReductionsMatchPlainLoops) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(-2, 2);
    for (int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 9000}) {
        std::vector<float> x(static_cast<size_t>(n));
        for (float& v : x) v = uniform(random);
        double sum = 0, squares = 0, exponentials = 0, top = -inf, bottom = inf;
        for (float v : x) {
            sum += v;
            squares += (v - 0.5) * (v - 0.5);
            exponentials += std::exp(v - 1.0);
            top = std::max<double>(top, v);
            bottom = std::min<double>(bottom, v);
        }
        const Kernels<float>& k = level().f32;
        EXPECT_NEAR(k.sum(x.data(), n), sum, 1e-5 * std::max<double>(1, static_cast<double>(n) / 1000));
        EXPECT_NEAR(k.sum_memory(x.data(), Storage::f32, n), sum, 1e-14 * static_cast<double>(n));  // all in fp64
        EXPECT_NEAR(k.sum_square(x.data(), 0.5, n), squares, 1e-6 * squares);
        EXPECT_NEAR(k.sum_exp(x.data(), 1.f, n), exponentials, 1e-6 * exponentials);
        EXPECT_EQ(k.max(x.data(), n), top);
        EXPECT_EQ(k.min(x.data(), n), bottom);
        x[static_cast<size_t>(n / 2)] = std::nanf("");
        EXPECT_TRUE(std::isnan(k.max(x.data(), n)));
        EXPECT_TRUE(std::isnan(k.min(x.data(), n)));
    }
}

// Small integers add without rounding, so every element must be in the lanes exactly once; gaps between rows hold NaN.
TEST_P(EachLevel, LanesTakeInEveryElementOnce) {
    const Kernels<float>& k = level().f32;
    for (int64_t rows : {1, 2, 3, 4, 5, 8, 13, 66})
        for (int64_t n : {1, 3, 4, 5, 31, 32, 33, 63, 64, 100, 127, 128, 131})
            for (int64_t gap : {0, 3})
                for (Storage storage : {Storage::f64, Storage::f32, Storage::f16, Storage::bf16}) {
                    const int64_t pitch = n + gap;
                    std::vector<float> row(static_cast<size_t>(rows * pitch), std::nanf(""));
                    double want = 1;
                    for (int64_t i = 0; i < rows * n; ++i) {
                        row[static_cast<size_t>(i / n * pitch + i % n)] = static_cast<float>(i * 37 % 101 - 50);
                        want += static_cast<double>(i * 37 % 101 - 50);
                    }
                    std::vector<double> memory(row.size());  // room for any storage
                    k.store(memory.data(), storage, 1, row.data(), rows * pitch);
                    double lanes[sum_lanes] = {1}, sum = 0;
                    k.add_lanes(lanes, memory.data(), storage, n, rows, pitch);
                    for (double lane : lanes) sum += lane;
                    EXPECT_EQ(sum, want) << rows << " rows of " << n << ", " << pitch << " apart, storage "
                                         << static_cast<int>(storage);
                }
}

INSTANTIATE_TEST_SUITE_P(Cpu, EachLevel, testing::Range(0, available_levels().count),
                         [](const auto& info) { return available_levels().begin[info.param]->name; });

}  // namespace
}  // namespace transfuse::cpu
