// The covariance of what a lattice's outputs meet, from products of rows with rows some lag away.
//
// For every row (n, d, h) of x, every lag and every pair of channels the products are summed in fp64 over the segments
// of the row (see algebra/lags.h) into the sums of the row's segments on the other axes. A fixed number of shares take
// the rows, each with sums of its own, which are added in a fixed order.
#include <algorithm>
#include <array>

#include "algebra/lattice/lags.h"
#include "cpu/kernels/kernels.h"
#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "cpu/tensors/plane.h"
#include "cpu/threads/thread_pool.h"
#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

double dot(const double* a, const double* b, int64_t n) {
    constexpr int64_t lanes = 8;
    double part[lanes] = {};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int64_t l = 0; l < lanes; ++l) part[l] += a[i + l] * b[i + l];
    for (; i < n; ++i) part[0] += a[i] * b[i];
    for (int64_t step = lanes / 2; step > 0; step /= 2)
        for (int64_t l = 0; l < step; ++l) part[l] += part[l + step];
    return part[0];
}

class Covariance {
public:
    Covariance(const Node& node, const Lattices& axes, const TensorView& x, const TensorView& out)
        : axes_{lags(axes[0]), lags(axes[1]), lags(axes[2])},
          x_(Placed::under(x, x.shape)),
          extent_(to_five(x.shape, 1)),
          out_(out),
          groups_(node.attributes.integer(Key::groups)),
          channels_(x.shape[1] / groups_),
          lines_((axes_[0].count() * axes_[1].count() + 1) / 2),
          count_(static_cast<double>(x.shape[0])) {
        for (const Lattice& axis : axes) count_ *= static_cast<double>(axis.out);
        slot_ = channels_ * axes_[2].segments() * (lines_ * axes_[2].count() * channels_ + 1);
        size_ = axes_[0].segments() * axes_[1].segments() * slot_;
        shares_ = std::min<int64_t>(extent_[0] * extent_[2], 16);
    }

    void run(int threads) {
        sums_.assign(static_cast<size_t>(shares_ * size_), 0.0);
        for (int64_t group = 0; group < groups_; ++group) {
            parallel_for(threads, shares_, [&](int64_t share) { sum_rows(group, share); });
            for (int64_t share = 1; share < shares_; ++share)
                for (int64_t i = 0; i < size_; ++i)
                    sums_[static_cast<size_t>(i)] += sums_[static_cast<size_t>(share * size_ + i)];
            write(group);
            std::fill(sums_.begin(), sums_.end(), 0.0);
        }
    }

private:
    using Taps = std::array<int64_t, 3>;

    // Lags (d, h) of which one is positive, or both zero: the others are the same products seen from the other side.
    int64_t line(int64_t d, int64_t h) const { return d * axes_[1].count() + h; }
    // Where in a slot the sums of the segments along w lie: of products, then of single values.
    int64_t at(int64_t line, int64_t lag, int64_t a, int64_t b) const {
        return (((line * axes_[2].count() + lag + axes_[2].most) * channels_ + a) * channels_ + b) *
               axes_[2].segments();
    }
    int64_t at(int64_t a) const {
        return (lines_ * axes_[2].count() * channels_ * channels_ + a) * axes_[2].segments();
    }

    void load(double* to, int64_t pitch, int64_t n, int64_t group, int64_t d, int64_t h) const {
        for (int64_t c = 0; c < channels_; ++c)
            kernels<double>().load(to + c * pitch, x_.at(n, group * channels_ + c, d, h, 0), x_.storage, x_.strides[4],
                                   extent_[4]);
    }

    void sum_rows(int64_t group, int64_t share) {
        const AxisLags &deep = axes_[0], &high = axes_[1], &wide = axes_[2];
        const int64_t margin = wide.most * wide.step, pitch = padded(extent_[4] + 2 * margin);
        Scratch scratch;
        double* own = scratch.acquire<double>(channels_ * pitch + row_padding);
        double* other = scratch.acquire<double>(channels_ * pitch + row_padding);
        std::fill_n(other, channels_ * pitch, 0.0);
        const int64_t planes = extent_[0] * extent_[2];
        for (int64_t plane = planes * share / shares_; plane < planes * (share + 1) / shares_; ++plane)
            for (int64_t h = 0; h < extent_[3]; ++h) {
                const int64_t n = plane / extent_[2], d = plane % extent_[2];
                const auto segment = [](const AxisLags& axis, int64_t i) {
                    return std::upper_bound(axis.edges.begin(), axis.edges.end(), i) - axis.edges.begin() - 1;
                };
                double* slot =
                    sums_.data() + share * size_ + (segment(deep, d) * high.segments() + segment(high, h)) * slot_;
                load(own, pitch, n, group, d, h);
                for (int64_t c = 0; c < channels_; ++c)
                    for (int64_t s = 0; s < wide.segments(); ++s)
                        for (int64_t w = wide.edges[static_cast<size_t>(s)]; w < wide.edges[static_cast<size_t>(s) + 1];
                             ++w)
                            slot[at(c) + s] += own[c * pitch + w];
                for (int64_t j = 0; j <= deep.most; ++j)
                    for (int64_t k = j == 0 ? 0 : -high.most; k <= high.most; ++k) {
                        const int64_t d2 = d + j * deep.step, h2 = h + k * high.step;
                        if (d2 >= extent_[2] || h2 < 0 || h2 >= extent_[3]) continue;
                        load(other + margin, pitch, n, group, d2, h2);
                        products(slot, own, other + margin, pitch, line(j, k));
                    }
            }
    }

    void products(double* slot, const double* own, const double* other, int64_t pitch, int64_t line) const {
        const AxisLags& wide = axes_[2];
        for (int64_t lag = line == 0 ? 0 : -wide.most; lag <= wide.most; ++lag)
            for (int64_t a = 0; a < channels_; ++a)
                for (int64_t b = 0; b < channels_; ++b)
                    for (int64_t s = 0; s < wide.segments(); ++s) {
                        const int64_t w = wide.edges[static_cast<size_t>(s)];
                        slot[at(line, lag, a, b) + s] +=
                            dot(own + a * pitch + w, other + b * pitch + w + lag * wide.step,
                                wide.edges[static_cast<size_t>(s) + 1] - w);
                    }
    }

    // What an output meets through a and b: the sum over the segments of both taps; zero where none meets both.
    double product(int64_t a, const Taps& k, int64_t b, const Taps& other) const {
        for (size_t axis = 0; axis < 3; ++axis)
            if (!axes_[axis].pair(k[axis], other[axis]).meets) return 0;
        const TapPair &d = axes_[0].pair(k[0], other[0]), &h = axes_[1].pair(k[1], other[1]),
                      &w = axes_[2].pair(k[2], other[2]);
        if (d.lag < 0 || (d.lag == 0 && (h.lag < 0 || (h.lag == 0 && w.lag < 0)))) return product(b, other, a, k);
        return total(d, h, w, at(line(d.lag, h.lag), w.lag, a, b));
    }
    double value(int64_t a, const Taps& k) const {
        for (size_t axis = 0; axis < 3; ++axis)
            if (!axes_[axis].pair(k[axis], k[axis]).meets) return 0;
        return total(axes_[0].pair(k[0], k[0]), axes_[1].pair(k[1], k[1]), axes_[2].pair(k[2], k[2]), at(a));
    }
    double total(const TapPair& d, const TapPair& h, const TapPair& w, int64_t where) const {
        double sum = 0;
        for (int64_t i = d.first; i < d.beyond; ++i)
            for (int64_t j = h.first; j < h.beyond; ++j)
                for (int64_t s = w.first; s < w.beyond; ++s)
                    sum += sums_[static_cast<size_t>((i * axes_[1].segments() + j) * slot_ + where + s)];
        return sum;
    }

    void write(int64_t group) const {
        const int64_t points = axes_[0].taps * axes_[1].taps * axes_[2].taps, patch = channels_ * points;
        const auto taps = [&](int64_t point) {
            return Taps{point / axes_[2].taps / axes_[1].taps, point / axes_[2].taps % axes_[1].taps,
                        point % axes_[2].taps};
        };
        std::vector<double> mean;
        for (int64_t a = 0; a < patch; ++a) mean.push_back(value(a / points, taps(a % points)) / count_);
        for (int64_t a = 0; a < patch; ++a) {
            set(out_, patch * out_.strides[0] + (group * patch + a) * out_.strides[1], mean[static_cast<size_t>(a)]);
            for (int64_t b = 0; b < patch; ++b)
                set(out_, a * out_.strides[0] + (group * patch + b) * out_.strides[1],
                    product(a / points, taps(a % points), b / points, taps(b % points)) / count_ -
                        mean[static_cast<size_t>(a)] * mean[static_cast<size_t>(b)]);
        }
    }

    std::array<AxisLags, 3> axes_;
    Placed x_;
    Five extent_;
    TensorView out_;
    int64_t groups_, channels_, lines_;
    double count_;
    int64_t slot_ = 0, size_ = 0, shares_ = 1;
    std::vector<double> sums_;  // [share][segment along d][along h][slot]
};

}  // namespace

void evaluate_covariance(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const TensorView& x = args[0];
    require(x.shape.size() <= 5, "covariance: at most 3 spatial axes, got x ", to_string(x.shape));
    Lattices axes(5 - x.shape.size());
    for (const Lattice& axis : lattices(node, Type{x.dtype, x.shape}, 0, Type{})) axes.push_back(axis);
    Covariance(node, axes, x, out).run(threads);
}

}  // namespace transfuse::cpu
