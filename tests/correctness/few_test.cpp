// A list of few elements does what std::vector does, whether they lie in it or not.
#include <gtest/gtest.h>

#include <random>

#include "transfuse/lattice.h"
#include "transfuse/tensor.h"

namespace transfuse {
namespace {

using Vector = std::vector<int64_t>;

void expect_same(const Sizes& sizes, const Vector& vector) {
    ASSERT_EQ(Vector(sizes), vector);
    ASSERT_EQ(sizes.size(), vector.size());
    ASSERT_EQ(sizes.empty(), vector.empty());
    ASSERT_TRUE(std::equal(sizes.rbegin(), sizes.rend(), vector.rbegin(), vector.rend()));
    if (vector.empty()) return;
    ASSERT_EQ(sizes.front(), vector.front());
    ASSERT_EQ(sizes.back(), vector.back());
}

TEST(Few, IsMadeAsAVectorIs) {
    expect_same({}, {});
    expect_same({3, 4}, {3, 4});
    expect_same({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
    expect_same(Sizes(7, 2), Vector(7, 2));
    expect_same(Sizes(3), Vector(3));
    Vector many;
    for (int64_t k = 0; k < 100; ++k) many.push_back(k);
    expect_same(many, many);
    expect_same(Sizes(many.begin() + 2, many.end()), Vector(many.begin() + 2, many.end()));
}

// Steps at random, around the length up to which numbers lie in the list.
TEST(Few, ChangesAsAVectorDoes) {
    std::mt19937 random(1);
    for (int trial = 0; trial < 400; ++trial) {
        Sizes sizes;
        Vector vector;
        for (int64_t step = 0; step < 60; ++step) {
            const auto below = [&](size_t end) { return static_cast<size_t>(random() % end); };
            const auto at = static_cast<std::ptrdiff_t>(below(vector.size() + 1));
            switch (random() % 12) {
                case 0:
                case 1:
                    sizes.push_back(step), vector.push_back(step);
                    break;
                case 2:
                    sizes.insert(sizes.begin() + at, step), vector.insert(vector.begin() + at, step);
                    break;
                case 3: {
                    const Vector more(below(5), step);
                    sizes.insert(sizes.begin() + at, more.begin(), more.end());
                    vector.insert(vector.begin() + at, more.begin(), more.end());
                    break;
                }
                case 4:
                    if (at == static_cast<std::ptrdiff_t>(vector.size())) break;
                    sizes.erase(sizes.begin() + at), vector.erase(vector.begin() + at);
                    break;
                case 5:
                    sizes.erase(sizes.begin(), sizes.begin() + at), vector.erase(vector.begin(), vector.begin() + at);
                    break;
                case 6: {
                    const size_t count = below(10);
                    sizes.resize(count, step), vector.resize(count, step);
                    break;
                }
                case 7: {
                    const Sizes copy = sizes;
                    sizes.clear();
                    sizes = copy;
                    break;
                }
                case 8: {
                    Sizes moved = std::move(sizes);
                    sizes = Sizes(9, 1);
                    sizes = std::move(moved);
                    break;
                }
                case 9: {
                    std::vector<Sizes> list(3, sizes);  // moved as the list of them grows
                    for (int k = 0; k < 5; ++k) list.push_back(sizes);
                    sizes = list.back();
                    break;
                }
                case 10:
                    if (!vector.empty()) sizes.pop_back(), vector.pop_back();
                    break;
                default:
                    sizes.insert(sizes.begin() + at, size_t{2}, step), vector.insert(vector.begin() + at, 2, step);
            }
            expect_same(sizes, vector);
        }
    }
}

TEST(Few, ComparesAsAVectorDoes) {
    const std::vector<Vector> all = {
        {}, {1}, {1, 2}, {2}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 8}};
    for (const Vector& a : all)
        for (const Vector& b : all) {
            EXPECT_EQ(Sizes(a) == Sizes(b), a == b);
            EXPECT_EQ(Sizes(a) < Sizes(b), a < b);
        }
}

TEST(Few, GivenToItselfStays) {
    Sizes few = {1, 2}, many = {1, 2, 3, 4, 5, 6, 7};
    for (Sizes* sizes : {&few, &many}) {
        const Vector before = *sizes;
        const Sizes& same = *sizes;
        *sizes = same;
        expect_same(*sizes, before);
    }
}

TEST(Few, RefusesWhatItHasNot) { EXPECT_THROW(Sizes({1, 2}).at(2), std::out_of_range); }

// Elements that are made with values of their own.
TEST(Few, HoldsStructures) {
    Lattices axes(2);
    axes[1].taps = 3;
    for (int64_t k = 0; k < 5; ++k) axes.push_back({.taps = k});
    const Lattices copy = axes;
    ASSERT_EQ(copy.size(), 7u);
    EXPECT_EQ(copy[0], Lattice{});
    EXPECT_EQ(copy[1].taps, 3);
    EXPECT_EQ(copy.back().taps, 4);
}

}  // namespace
}  // namespace transfuse
