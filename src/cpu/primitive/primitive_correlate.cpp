// The weight gradient as a blocked product:  dw[ci, co, k] = Σ_{n, u} x[n, ci, advance·u + shift_k] · g[n, co, period·u
// + residue_k].
//
// A tile of positions u is packed, g with all output channels side by side for several panels of input channels, and x
// with each of these panels side by side; then each tap and row is one call of the register-tiled product, whose terms
// are the positions of the row. A fixed number of jobs share the positions, each with sums of its own, which are added
// in fp64 in a fixed order.
#include <algorithm>
#include <array>

#include "algebra/lattice/integer.h"
#include "cpu/kernels/kernels.h"
#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "cpu/tensors/plane.h"
#include "cpu/threads/thread_pool.h"
#include "transfuse/error.h"
#include "transfuse/lattice.h"

namespace transfuse::cpu {
namespace {

struct Axis {
    int64_t period, advance, least = 0, span = 0, in, out, positions;  // positions: u of the longest residue
    struct Place {
        int64_t residue = -1, shift = 0;  // residue −1: the tap never meets an input
    };
    std::vector<Place> taps;

    explicit Axis(const Lattice& lattice)
        : period(lattice.period()),
          advance(lattice.advance()),
          in(lattice.in),
          out(lattice.out),
          positions(ceil_div(lattice.out, period)),
          taps(static_cast<size_t>(lattice.taps)) {
        bool first = true;
        int64_t most = 0;
        for (const Phase& phase : lattice.phases())
            for (const PhaseTap& tap : phase.taps) {
                taps[static_cast<size_t>(tap.tap)] = {phase.residue, tap.shift};
                least = first ? tap.shift : std::min(least, tap.shift);
                most = first ? tap.shift : std::max(most, tap.shift);
                first = false;
            }
        span = most - least;
    }
    // u in [begin, end) whose output and input both exist.
    std::pair<int64_t, int64_t> range(const Place& tap, int64_t begin, int64_t end) const {
        begin = std::max(begin, ceil_div(-tap.shift, advance));
        end = std::min(
            {end, tap.residue < out ? (out - tap.residue - 1) / period + 1 : 0, ceil_div(in - tap.shift, advance)});
        return {begin, std::max(begin, end)};
    }
};

template <class T>
class Correlation {
public:
    Correlation(const Lattices& axes, const TensorView& x, const TensorView& g, const TensorView& out)
        : axes_{Axis(axes[0]), Axis(axes[1]), Axis(axes[2])},
          x_(Placed::under(x, x.shape)),
          g_(Placed::under(g, g.shape)),
          out_(out) {
        batch_ = x.shape[0];
        groups_ = out.shape[0];
        in_ = out.shape[1];
        outs_ = out.shape[2];
        const Kernels<T>& k = kernels<T>();
        pitch_ = round_up(outs_, k.lanes);
        rows_ = in_ >= 5 ? k.panel_rows : in_ > 2 ? 4 : in_;
        panels_ = ceil_div(in_, rows_);
        for (int64_t v = 0; v < pitch_; v += k.lanes)
            spots_.push_back({static_cast<int32_t>(v), static_cast<int32_t>(v)});
        taps_ = static_cast<int64_t>(axes_[0].taps.size() * axes_[1].taps.size() * axes_[2].taps.size());
        const int64_t residues = axes_[0].period * axes_[1].period * axes_[2].period;
        block3_ = std::min<int64_t>(axes_[2].positions, 256);
        block2_ = std::clamp<int64_t>((192 << 10) / (residues * block3_ * pitch_ * static_cast<int64_t>(sizeof(T))), 1,
                                      axes_[1].positions);
        blocks2_ = ceil_div(axes_[1].positions, block2_);
        blocks3_ = ceil_div(axes_[2].positions, block3_);
        tiles_ = batch_ * axes_[0].positions * blocks2_ * blocks3_;
        slot_ = taps_ * rows_ * pitch_;
        const int64_t sums_bytes = groups_ * panels_ * slot_ * static_cast<int64_t>(sizeof(T));
        together_ = std::min(panels_, ceil_div(multiplied_once, taps_));
        const int64_t positions = batch_ * axes_[0].positions * axes_[1].positions * axes_[2].positions;
        const int64_t wanted =
            std::max(ceil_div(positions, share_positions), ceil_div(most_shares, groups_ * blocks()));
        shares_ =
            std::max<int64_t>(1, std::min<int64_t>({tiles_, most_shares, wanted, (int64_t{64} << 20) / sums_bytes}));
        offsets_.resize(static_cast<size_t>(block3_) + 4, 0);
        for (int64_t u = 0; u < block3_; ++u)
            offsets_[static_cast<size_t>(u)] = static_cast<int32_t>(u * pitch_ * static_cast<int64_t>(sizeof(T)));
    }

    void run(int threads) {
        std::vector<T> sums(static_cast<size_t>(shares_ * groups_ * panels_ * slot_), T(0));
        parallel_for(threads, shares_ * groups_ * blocks(), [&](int64_t job) {
            const int64_t first = job % blocks() * together_, group = job / blocks() % groups_,
                          share = job / blocks() / groups_;
            Scratch scratch;
            const int64_t rows2 = axes_[1].advance * (block2_ - 1) + axes_[1].span + 1;
            const int64_t rows1 = axes_[0].span + 1;
            const int64_t columns = block3_ + axes_[2].span / axes_[2].advance + 1;
            Packed p;
            p.columns = columns;
            p.rows2 = rows2;
            p.x = scratch.acquire<T>(rows1 * rows2 * axes_[2].advance * columns * rows_ + 4 * row_padding);
            p.g = scratch.acquire<T>(axes_[0].period * axes_[1].period * axes_[2].period * block2_ * block3_ * pitch_ +
                                     4 * row_padding);
            p.transposed = scratch.acquire<T>(std::max(rows_ * padded(columns), outs_ * padded(block3_)) + row_padding);
            for (int64_t t = tiles_ * share / shares_; t < tiles_ * (share + 1) / shares_; ++t)
                tile(p, t, group, first, sums.data() + (share * groups_ + group) * panels_ * slot_);
        });
        add_shares(sums, threads);
    }

private:
    // Of a tile of g that is packed once; of a job, unless there would be too few of them.
    static constexpr int64_t multiplied_once = 32, share_positions = 1024, most_shares = 16;
    int64_t blocks() const { return ceil_div(panels_, together_); }

    struct Packed {
        T *x, *g, *transposed;
        int64_t columns, rows2;
    };

    // Adds the products of a block of panels to their slots.
    void tile(const Packed& p, int64_t t, int64_t group, int64_t first, T* slots) const {
        const int64_t b3 = t % blocks3_, b2 = t / blocks3_ % blocks2_,
                      u1 = t / blocks3_ / blocks2_ % axes_[0].positions;
        const int64_t n = t / blocks3_ / blocks2_ / axes_[0].positions;
        const int64_t u2 = b2 * block2_, u3 = b3 * block3_;
        const int64_t end2 = std::min(axes_[1].positions, u2 + block2_),
                      end3 = std::min(axes_[2].positions, u3 + block3_);
        pack_g(p, n, group * outs_, u1, u2, u3, end2, end3);
        for (int64_t panel = first; panel < std::min(panels_, first + together_); ++panel) {
            pack_x(p, n, group * in_ + panel * rows_, std::min(rows_, in_ - panel * rows_), u1, u2, u3, end2, end3);
            multiply(p, u1, u2, u3, end2, end3, slots + panel * slot_);
        }
    }

    void multiply(const Packed& p, int64_t u1, int64_t u2, int64_t u3, int64_t end2, int64_t end3, T* slot) const {
        const Axis &a1 = axes_[0], &a2 = axes_[1], &a3 = axes_[2];
        int64_t k = 0;
        for (const Axis::Place& k1 : a1.taps)
            for (const Axis::Place& k2 : a2.taps)
                for (const Axis::Place& k3 : a3.taps) {
                    T* sums = slot + k++ * rows_ * pitch_;
                    if (k1.residue < 0 || k2.residue < 0 || k3.residue < 0) continue;
                    const auto [begin1, last1] = a1.range(k1, u1, u1 + 1);
                    const auto [begin2, last2] = a2.range(k2, u2, end2);
                    const auto [begin3, last3] = a3.range(k3, u3, end3);
                    if (begin1 == last1 || begin3 == last3) continue;
                    for (int64_t v2 = begin2; v2 < last2; ++v2) {
                        const int64_t row1 = k1.shift - a1.least, row2 = a2.advance * (v2 - u2) + k2.shift - a2.least;
                        const int64_t column = k3.shift - a3.least;
                        const T* x = p.x + (((row1 * p.rows2 + row2) * a3.advance + column % a3.advance) * p.columns +
                                            column / a3.advance + begin3 - u3) *
                                               rows_;
                        const int64_t residue = (k1.residue * a2.period + k2.residue) * a3.period + k3.residue;
                        const T* g = p.g + ((residue * block2_ + v2 - u2) * block3_ + begin3 - u3) * pitch_;
                        kernels<T>().product({x, offsets_.data(), last3 - begin3, rows_, g, spots_.data(),
                                              static_cast<int64_t>(spots_.size()), sums, pitch_, nullptr, true});
                    }
                }
    }

    // x under the tile as [row1][row2][residue][column][channel of the panel].
    void pack_x(const Packed& p, int64_t n, int64_t c, int64_t count, int64_t u1, int64_t u2, int64_t u3, int64_t end2,
                int64_t end3) const {
        const Axis &a1 = axes_[0], &a2 = axes_[1], &a3 = axes_[2];
        const int64_t columns = end3 - u3 + a3.span / a3.advance + 1;
        for (int64_t row1 = 0; row1 <= a1.span; ++row1)
            for (int64_t row2 = 0; row2 < a2.advance * (end2 - u2 - 1) + a2.span + 1; ++row2) {
                const int64_t i1 = a1.advance * u1 + a1.least + row1, i2 = a2.advance * u2 + a2.least + row2;
                if (i1 < 0 || i1 >= a1.in || i2 < 0 || i2 >= a2.in) continue;  // never read: no range reaches there
                for (int64_t residue = 0; residue < a3.advance; ++residue) {
                    const int64_t base = a3.advance * u3 + a3.least + residue;
                    const int64_t begin = std::clamp<int64_t>(ceil_div(-base, a3.advance), 0, columns);
                    const int64_t end = std::clamp<int64_t>(ceil_div(a3.in - base, a3.advance), begin, columns);
                    if (begin == end) continue;
                    T* to = p.x + (((row1 * p.rows2 + row2) * a3.advance + residue) * p.columns + begin) * rows_;
                    side_by_side(p, to, rows_, x_, x_.at(n, c, i1, i2, base + a3.advance * begin), a3.advance,
                                 end - begin, count);
                }
            }
    }

    // g on the tile as [residues][u2][u3][output channel].
    void pack_g(const Packed& p, int64_t n, int64_t c, int64_t u1, int64_t u2, int64_t u3, int64_t end2,
                int64_t end3) const {
        const Axis &a1 = axes_[0], &a2 = axes_[1], &a3 = axes_[2];
        for (int64_t r1 = 0; r1 < a1.period; ++r1)
            for (int64_t r2 = 0; r2 < a2.period; ++r2)
                for (int64_t r3 = 0; r3 < a3.period; ++r3)
                    for (int64_t v2 = u2; v2 < end2; ++v2) {
                        const int64_t o1 = a1.period * u1 + r1, o2 = a2.period * v2 + r2;
                        const int64_t count = std::min(end3, r3 < a3.out ? (a3.out - r3 - 1) / a3.period + 1 : 0) - u3;
                        if (o1 >= a1.out || o2 >= a2.out || count <= 0) continue;
                        const int64_t residue = (r1 * a2.period + r2) * a3.period + r3;
                        side_by_side(p, p.g + (residue * block2_ + v2 - u2) * block3_ * pitch_, pitch_, g_,
                                     g_.at(n, c, o1, o2, a3.period * u3 + r3), a3.period, count, outs_);
                    }
    }

    // n positions, `step` apart in a row, with `channels` side by side and zeros up to the pitch.
    void side_by_side(const Packed& p, T* to, int64_t pitch, const Placed& from, const void* first, int64_t step,
                      int64_t n, int64_t channels) const {
        const Kernels<T>& k = kernels<T>();
        const int64_t stride = step * from.strides[4], channel = from.strides[1];
        if (channel == 1 || n == 1) {
            for (int64_t i = 0; i < n; ++i)
                k.load(to + i * pitch, static_cast<const char*>(first) + i * stride * from.size, from.storage, channel,
                       channels);
        } else if (stride == 1) {
            k.load_transposed(to, pitch, n, first, from.storage, channel, channels);
        } else {
            const int64_t row = padded(n);
            for (int64_t c = 0; c < channels; ++c)
                k.load(p.transposed + c * row, static_cast<const char*>(first) + c * channel * from.size, from.storage,
                       stride, n);
            k.load_transposed(to, pitch, n, p.transposed, own_storage, row, channels);
        }
        for (int64_t i = 0; i < n && channels < pitch; ++i)
            std::fill(to + i * pitch + channels, to + (i + 1) * pitch, T(0));
    }

    // A few output channels of a panel at a time, which then go where the result's memory has them.
    void add_shares(const std::vector<T>& sums, int threads) const {
        Sizes strides = out_.strides;
        strides.insert(strides.begin() + 3, 6 - strides.size(), 0);
        const Sizes taps{static_cast<int64_t>(axes_[0].taps.size()), static_cast<int64_t>(axes_[1].taps.size()),
                         static_cast<int64_t>(axes_[2].taps.size())};
        const int64_t blocks = ceil_div(outs_, sum_block);
        parallel_for(groups_ * in_ * outs_ * taps_ < 16384 ? 1 : threads, groups_ * panels_ * blocks, [&](int64_t job) {
            const int64_t first = job % blocks * sum_block, panel = job / blocks % panels_,
                          group = job / blocks / panels_;
            const int64_t outs = std::min(sum_block, outs_ - first), ins = std::min(rows_, in_ - panel * rows_);
            Scratch scratch;
            double* const found = scratch.acquire<double>(ins * taps_ * sum_block);
            std::fill_n(found, ins * taps_ * sum_block, 0.0);
            for (int64_t share = 0; share < shares_; ++share) {
                const T* slot = sums.data() + ((share * groups_ + group) * panels_ + panel) * slot_ + first;
                for (int64_t t = 0; t < taps_; ++t)
                    for (int64_t ci = 0; ci < ins; ++ci)
                        kernels<T>().add_to(found + (ci * taps_ + t) * sum_block, slot + (t * rows_ + ci) * pitch_,
                                            outs);
            }
            const Sizes shape{outs, ins, taps[0], taps[1], taps[2]};
            const int64_t place = group * strides[0] + panel * rows_ * strides[1] + first * strides[2];
            copy(
                {found,
                 DType::f64,
                 shape,
                 {1, taps_ * sum_block, taps[1] * taps[2] * sum_block, taps[2] * sum_block, sum_block}},
                {address(out_, place), out_.dtype, shape, {strides[2], strides[1], strides[3], strides[4], strides[5]}},
                1);
        });
    }

    static constexpr int64_t sum_block = 16;
    static constexpr Storage own_storage = sizeof(T) == 8 ? Storage::f64 : Storage::f32;

    std::array<Axis, 3> axes_;
    Placed x_, g_;
    TensorView out_;
    int64_t batch_, groups_, in_, outs_, pitch_, rows_, panels_, together_, taps_, block2_, block3_, blocks2_, blocks3_,
        tiles_, slot_, shares_;
    std::vector<Spot> spots_;
    std::vector<int32_t> offsets_;
};

}  // namespace

void evaluate_correlate(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const TensorView &x = args[0], &g = args[1];
    const Attributes& a = node.attributes;
    require(x.shape.size() <= 5, "correlate: at most 3 spatial axes, got x ", to_string(x.shape));
    Lattices axes(5 - x.shape.size());
    for (size_t d = 0; d + 2 < x.shape.size(); ++d)
        axes.push_back({a.integers(Key::up)[d], a.integers(Key::down)[d], a.integers(Key::dil)[d],
                        a.integers(Key::offset)[d], x.shape[d + 2], g.shape[d + 2], out.shape[d + 3]});
    if (numel(x.shape) == 0 || numel(g.shape) == 0) {
        double zero = 0;
        return copy({&zero, DType::f64, out.shape, Sizes(out.shape.size(), 0)}, out, threads);
    }
    if (out.dtype == DType::f64)
        Correlation<double>(axes, x, g, out).run(threads);
    else
        Correlation<float>(axes, x, g, out).run(threads);
}

}  // namespace transfuse::cpu
