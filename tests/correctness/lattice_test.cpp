// The lattice arithmetic against brute force over random parameters: every statement of transfuse/lattice.h.
#include "transfuse/lattice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "transfuse/error.h"

namespace transfuse {
namespace {

using Signal = std::vector<double>;

struct Random {
    std::mt19937 engine;
    int64_t in(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine); }
    Signal signal(int64_t size) {
        Signal s(static_cast<size_t>(size));
        for (double& v : s) v = static_cast<double>(in(-9, 9));
        return s;
    }
    // Nothing is assumed of the parameters: empty outputs, kernels beyond the input, offsets of either sign.
    Lattice lattice() {
        return {.up = in(1, 6),
                .down = in(1, 6),
                .dil = in(1, 5),
                .offset = in(-12, 20),
                .in = in(0, 12),
                .out = in(0, 15),
                .taps = in(1, 6)};
    }
};

// The definition, by enumeration. Small integers: double arithmetic is exact.
Signal apply(const Lattice& l, const Signal& x, const Signal& w) {
    Signal y(static_cast<size_t>(l.out), 0.0);
    for (int64_t o = 0; o < l.out; ++o)
        for (int64_t i = 0; i < l.in; ++i)
            for (int64_t k = 0; k < l.taps; ++k)
                if (l.down * o + l.offset == l.up * i + l.dil * k)
                    y[static_cast<size_t>(o)] += w[static_cast<size_t>(k)] * x[static_cast<size_t>(i)];
    return y;
}

TEST(lattice, input_is_the_relation) {
    Random random{std::mt19937(1)};
    for (int round = 0; round < 2000; ++round) {
        const Lattice l = random.lattice();
        for (int64_t o = 0; o < l.out; ++o)
            for (int64_t k = 0; k < l.taps; ++k) {
                std::optional<int64_t> expected;
                for (int64_t i = 0; i < l.in; ++i)
                    if (l.down * o + l.offset == l.up * i + l.dil * k) expected = i;
                ASSERT_EQ(l.input(o, k), expected) << to_string(l) << " o=" << o << " k=" << k;
            }
    }
}

TEST(lattice, conv_transpose_scatters) {
    Random random{std::mt19937(2)};
    int checked = 0;
    for (int round = 0; round < 4000; ++round) {
        const int64_t in = random.in(1, 9), kernel = random.in(1, 6), stride = random.in(1, 4),
                      dilation = random.in(1, 4);
        const int64_t padding = random.in(0, 7);
        const int64_t output_padding = random.in(0, std::max(stride, dilation) - 1);
        const int64_t out = (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1;
        if (out < 0) {
            EXPECT_THROW(Lattice::conv_transpose(in, kernel, stride, padding, output_padding, dilation), Error);
            continue;
        }
        const Lattice l = Lattice::conv_transpose(in, kernel, stride, padding, output_padding, dilation);
        const Signal x = random.signal(in), w = random.signal(kernel);
        Signal expected(static_cast<size_t>(out), 0.0);
        for (int64_t i = 0; i < in; ++i)
            for (int64_t k = 0; k < kernel; ++k) {
                const int64_t o = i * stride - padding + dilation * k;
                if (o >= 0 && o < out)
                    expected[static_cast<size_t>(o)] += x[static_cast<size_t>(i)] * w[static_cast<size_t>(k)];
            }
        ASSERT_EQ(apply(l, x, w), expected) << to_string(l);
        ++checked;
    }
    EXPECT_GT(checked, 2000);
}

TEST(lattice, conv_and_pool_gather) {
    Random random{std::mt19937(3)};
    int checked = 0;
    for (int round = 0; round < 4000; ++round) {
        const int64_t in = random.in(1, 14), kernel = random.in(1, 6), stride = random.in(1, 4),
                      padding = random.in(0, 7);
        const int64_t dilation = round % 2 == 0 ? 1 : random.in(1, 4);
        if (in + 2 * padding < dilation * (kernel - 1) + 1) {
            EXPECT_THROW(Lattice::conv(in, kernel, stride, padding, dilation), Error);
            continue;
        }
        const int64_t out = (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
        const Lattice l = Lattice::conv(in, kernel, stride, padding, dilation);
        if (dilation == 1) {
            ASSERT_EQ(l, Lattice::avg_pool(in, kernel, stride, padding));
        }
        const Signal x = random.signal(in), w = random.signal(kernel);
        Signal expected(static_cast<size_t>(out), 0.0);
        for (int64_t o = 0; o < out; ++o)
            for (int64_t k = 0; k < kernel; ++k) {
                const int64_t i = o * stride - padding + dilation * k;
                if (i >= 0 && i < in)
                    expected[static_cast<size_t>(o)] += x[static_cast<size_t>(i)] * w[static_cast<size_t>(k)];
            }
        ASSERT_EQ(apply(l, x, Signal(w.rbegin(), w.rend())), expected) << to_string(l);
        ++checked;
    }
    EXPECT_GT(checked, 2000);
}

TEST(lattice, upsample_repeats) {
    const Lattice l = Lattice::upsample(3, 4);
    EXPECT_EQ(apply(l, {1, 2, 3}, {1, 1, 1, 1}), (Signal{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
}

TEST(lattice, constructors_refuse_what_pytorch_refuses) {
    EXPECT_THROW(Lattice::conv_transpose(4, 0, 1, 0, 0, 1), Error);
    EXPECT_THROW(Lattice::conv_transpose(4, 3, 0, 0, 0, 1), Error);
    EXPECT_THROW(Lattice::conv_transpose(4, 3, 1, -1, 0, 1), Error);
    EXPECT_THROW(Lattice::conv_transpose(4, 3, 2, 0, 2, 1), Error);
    EXPECT_THROW(Lattice::conv_transpose(4, 3, 1, 0, 0, 0), Error);
    EXPECT_NO_THROW(Lattice::conv_transpose(4, 3, 1, 0, 1, 2));
    EXPECT_THROW(Lattice::conv_transpose(int64_t{1} << 62, 3, 8, 0, 0, 1), Error);
    EXPECT_THROW(Lattice::conv(2, 4, 1, 0, 1), Error);
    EXPECT_THROW(Lattice::upsample(2, 0), Error);
    EXPECT_THROW(Lattice::upsample(int64_t{1} << 40, int64_t{1} << 40), Error);
}

TEST(lattice, transposed_swaps_input_and_output) {
    Random random{std::mt19937(4)};
    for (int round = 0; round < 3000; ++round) {
        const Lattice l = random.lattice(), t = l.transposed();
        ASSERT_EQ(t.transposed(), l);
        const Signal x = random.signal(l.in), g = random.signal(l.out), w = random.signal(l.taps);
        const Signal y = apply(l, x, w), dx = apply(t, g, Signal(w.rbegin(), w.rend()));
        double forward = 0, backward = 0;
        for (size_t o = 0; o < y.size(); ++o) forward += y[o] * g[o];
        for (size_t i = 0; i < x.size(); ++i) backward += dx[i] * x[i];
        ASSERT_EQ(forward, backward) << to_string(l);
    }
}

TEST(lattice, phases_cover_every_product_once) {
    Random random{std::mt19937(5)};
    bool saw_empty_residue = false;
    for (int round = 0; round < 3000; ++round) {
        const Lattice l = random.lattice();
        const std::vector<Phase> phases = l.phases();
        ASSERT_EQ(static_cast<int64_t>(phases.size()), l.period());
        const Signal x = random.signal(l.in), w = random.signal(l.taps);
        Signal y(static_cast<size_t>(l.out), 0.0);
        int64_t outputs = 0;
        for (int64_t r = 0; r < l.period(); ++r) {
            const Phase& phase = phases[static_cast<size_t>(r)];
            ASSERT_EQ(phase.residue, r);
            saw_empty_residue |= phase.taps.empty();
            outputs += phase.count;
            for (int64_t u = 0; u < phase.count; ++u)
                for (const PhaseTap& tap : phase.taps) {
                    const int64_t i = l.advance() * u + tap.shift;
                    if (i >= 0 && i < l.in)
                        y.at(static_cast<size_t>(l.period() * u + r)) +=
                            w[static_cast<size_t>(tap.tap)] * x[static_cast<size_t>(i)];
                }
        }
        ASSERT_EQ(outputs, l.out);
        ASSERT_EQ(y, apply(l, x, w)) << to_string(l);
    }
    EXPECT_TRUE(saw_empty_residue);
}

TEST(lattice, intervals_collapse_the_sum) {
    Random random{std::mt19937(6)};
    int stepped = 0;
    for (int round = 0; round < 4000; ++round) {
        const Lattice l = random.lattice();
        int64_t products = 0;
        bool cut = false;
        for (int64_t k = 0; k < l.taps; ++k) {
            std::set<int64_t> met;
            for (int64_t o = 0; o < l.out; ++o) {
                const int64_t position = l.down * o + l.offset - l.dil * k;
                if (position % l.up != 0) continue;
                if (const auto i = l.input(o, k))
                    met.insert(*i), ++products;
                else
                    cut = true;
            }
            const Interval interval = l.interval(k);
            std::set<int64_t> listed;
            for (int64_t i = interval.lo; i <= interval.hi; i += interval.step) listed.insert(i);
            ASSERT_EQ(listed, met) << to_string(l) << " k=" << k;
            ASSERT_EQ(interval.size(), static_cast<int64_t>(met.size()));
            if (!interval.empty()) {
                ASSERT_EQ(interval.hi, *met.rbegin());
            }
            for (int64_t i = 0; i < l.in; ++i) ASSERT_EQ(interval.contains(i), met.count(i) == 1);
            stepped += interval.step > 1;
        }
        ASSERT_EQ(l.products(), products) << to_string(l);
        ASSERT_EQ(l.never_cut(), !cut) << to_string(l);

        const IntervalSet set = intervals(l);
        ASSERT_EQ(static_cast<int64_t>(set.of_tap.size()), l.taps);
        for (size_t a = 0; a < set.intervals.size(); ++a) {
            ASSERT_FALSE(set.intervals[a].empty());
            for (size_t b = 0; b < a; ++b) ASSERT_NE(set.intervals[a], set.intervals[b]);
        }
        const Signal x = random.signal(l.in), w = random.signal(l.taps);
        double direct = 0, collapsed = 0;
        for (double v : apply(l, x, w)) direct += v;
        for (int64_t k = 0; k < l.taps; ++k) {
            const int64_t which = set.of_tap[static_cast<size_t>(k)];
            if (which < 0) continue;
            const Interval& interval = set.intervals[static_cast<size_t>(which)];
            for (int64_t i = interval.lo; i <= interval.hi; i += interval.step)
                collapsed += w[static_cast<size_t>(k)] * x[static_cast<size_t>(i)];
        }
        ASSERT_EQ(direct, collapsed) << to_string(l);

        const std::vector<int64_t> edges = cell_edges(set.intervals, l.in);
        ASSERT_TRUE(std::is_sorted(edges.begin(), edges.end()));
        for (const Interval& interval : set.intervals)
            for (size_t cell = 0; cell + 1 < edges.size(); ++cell) {
                // Within a cell, membership is decided by the residue alone.
                std::map<int64_t, bool> member;
                for (int64_t i = edges[cell]; i < edges[cell + 1]; ++i) {
                    const int64_t residue = ((i - interval.lo) % interval.step + interval.step) % interval.step;
                    const auto [at, fresh] = member.emplace(residue, interval.contains(i));
                    ASSERT_EQ(at->second, interval.contains(i));
                }
            }
    }
    EXPECT_GT(stepped, 1000);
}

TEST(lattice, reduce_keeps_the_map) {
    Random random{std::mt19937(7)};
    int dropped = 0;
    for (int round = 0; round < 4000; ++round) {
        const Lattice l = random.lattice();
        const Reduced r = reduce(l);
        ASSERT_EQ(r.kept.size(), static_cast<size_t>(r.lattice.taps));
        ASSERT_EQ(std::gcd(r.lattice.up, r.lattice.down), 1);
        const Signal x = random.signal(l.in), w = random.signal(l.taps);
        Signal kept;
        for (int64_t k : r.kept) kept.push_back(w.at(static_cast<size_t>(k)));
        ASSERT_EQ(apply(r.lattice, x, kept), apply(l, x, w)) << to_string(l) << " -> " << to_string(r.lattice);
        ASSERT_EQ(reduce(r.lattice).lattice, r.lattice);
        dropped += r.lattice.taps < l.taps;
    }
    EXPECT_GT(dropped, 500);
}

// Whether second ∘ first, with first extended beyond its borders by its own relation, equals the real thing.
bool exact_by_enumeration(const Lattice& a, const Lattice& b) {
    const std::vector<int64_t> kept1 = reduce(a).kept, kept2 = reduce(b).kept;
    for (int64_t o = 0; o < b.out; ++o)
        for (int64_t k2 : kept2) {
            const int64_t position = b.down * o + b.offset - b.dil * k2;
            if (position % b.up != 0) continue;
            const int64_t m = position / b.up;
            if (m >= 0 && m < a.out) continue;
            for (int64_t k1 : kept1)
                if (a.input(m, k1)) return false;
        }
    return true;
}

TEST(lattice, compose_is_exact_or_refuses) {
    Random random{std::mt19937(8)};
    int composed = 0, refused = 0;
    for (int round = 0; round < 30000; ++round) {
        Lattice a = random.lattice(), b = random.lattice();
        if (round % 2 == 0) {  // realistic pairs: a transposed convolution, then a pool or an upsampling
            const int64_t stride = random.in(1, 3);
            a = Lattice::conv_transpose(random.in(4, 8), random.in(2, 5), stride, random.in(0, 2),
                                        random.in(0, stride - 1), 1);
            const int64_t window = random.in(1, 3);
            if (a.out < window) continue;
            b = round % 4 == 0 ? Lattice::avg_pool(a.out, window, random.in(1, 3), 0)
                               : Lattice::upsample(a.out, window);
        }
        b.in = a.out;
        const bool bias = random.in(0, 3) == 0;
        const auto c = compose(a, b, bias);
        if (!c) {
            ++refused;
            const bool coprime = std::gcd(reduce(a).lattice.down, reduce(b).lattice.up) == 1;
            // Refusals have a reason.
            ASSERT_TRUE(!coprime || (bias && !b.never_cut()) || !exact_by_enumeration(a, b))
                << to_string(a) << " then " << to_string(b);
            continue;
        }
        ++composed;
        ASSERT_TRUE(!bias || b.never_cut());
        const Signal x = random.signal(a.in), w1 = random.signal(a.taps), w2 = random.signal(b.taps);
        Signal w(static_cast<size_t>(c->lattice.taps), 0.0);
        for (size_t k1 = 0; k1 < w1.size(); ++k1)
            for (size_t k2 = 0; k2 < w2.size(); ++k2)
                if (const int64_t k = c->position[k1][k2]; k >= 0) w.at(static_cast<size_t>(k)) += w1[k1] * w2[k2];
        ASSERT_EQ(apply(c->lattice, x, w), apply(b, apply(a, x, w1), w2))
            << to_string(a) << " then " << to_string(b) << " as " << to_string(c->lattice);
    }
    EXPECT_GT(composed, 5000);
    EXPECT_GT(refused, 1000);
}

TEST(lattice, a_pool_after_a_strided_transposed_convolution_leaves_two_taps) {
    // ConvT(k3, s2, p1) then AvgPool(2): 2 taps at stride 1.
    const Lattice a = Lattice::conv_transpose(16, 3, 2, 1, 0, 1);
    const auto c = compose(a, Lattice::avg_pool(a.out, 2, 2, 0), true);
    ASSERT_TRUE(c.has_value());
    EXPECT_EQ(c->lattice.taps, 2);
    EXPECT_EQ(c->lattice.up, 1);
    EXPECT_EQ(c->lattice.down, 1);
}

}  // namespace
}  // namespace transfuse
