// The dense pass by lines: a line of pixels for every tap, products of lines, the tile program on each image's planes.
#include <algorithm>
#include <sstream>

#include "algebra/integer.h"
#include "cpu/dense_frame.h"
#include "cpu/line_staging.h"
#include "cpu/line_weights.h"

namespace transfuse::cpu {
namespace {

template <class T>
class LinePass final : public DenseFrame<T> {
    using Base = DenseFrame<T>;
    using Base::bias_of;
    using Base::program_;
    using typename Base::Call;

public:
    LinePass(DenseParts& parts, LineGeometry geometry)
        : Base(parts), geometry_(std::move(geometry)), weights_(geometry_) {
        this->lay_out(geometry_.tiling);
        // Products read term k of input channel c of the patch at offsets[c·terms + k].
        for (const LineGeometry::Product& product : geometry_.products) {
            std::vector<int32_t>& offsets = offsets_.emplace_back();
            for (int64_t c = 0; c < geometry_.chunk; ++c)
                for (int64_t line : product.line)
                    offsets.push_back(static_cast<int32_t>((c * geometry_.all_lines() + line) * geometry_.line_pitch *
                                                           static_cast<int64_t>(sizeof(T))));
            offsets.insert(offsets.end(), 4, 0);
        }
        const int64_t lanes = kernels<T>().lanes;
        for (int64_t at = 0; at < geometry_.pixels; at += lanes)
            spots_.push_back({static_cast<int32_t>(at), static_cast<int32_t>(at)});
        closed_ = program_->pool_window() == std::array<int64_t, 3>{1, 1, 1};
    }

    std::string describe() const override {
        std::ostringstream text;
        text << "lines " << level().name << ": " << geometry_.describe() << ", " << program_->stages() << " stages, "
             << program_->registers() << " registers" << (this->prologue_ ? ", prologue" : "");
        return text.str();
    }
    bool any_pairs() const override { return geometry_.any_pairs(); }

protected:
    size_t packed_bytes() const override { return weights_.bytes(); }
    void pack(const TensorView& w, T* packed, int threads) const override { weights_.pack(w, packed, threads); }

    // Each thread gets tiles, and where these are few, parts of their output channels: every sum is formed in the same
    // order whoever forms it.
    void compute(const Call& call) const override {
        const LineGeometry& g = geometry_;
        const auto panels = static_cast<int64_t>(weights_.panels().size());
        const int64_t threads = call.run.threads > 0 ? call.run.threads : hardware_threads();
        int64_t parts = 1;
        if (program_->cuts_channels() && threads > 1)
            parts = std::clamp<int64_t>(ceil_div(2 * threads, g.tiles()), 1, g.groups * panels);
        parallel_for(call.run.threads, g.tiles() * parts, [&](int64_t task) {
            const int64_t part = task % parts, all = g.groups * panels;
            run_tile(call, task / parts, all * part / parts, all * (part + 1) / parts);
        });
    }

private:
    // A tile as one task works on it.
    struct Work {
        Box box;                        // of the first image
        int64_t images, image, pixels;  // pixels of an image, of all
        std::array<int64_t, 3> t;
        std::vector<std::unique_ptr<TileRun<T>>> programs;  // one an image
        T *patch, *sums, *merged, *planes;
        int64_t line, sums_pitch;  // from line to line, from channel to channel
    };

    // Panels begin … end, counted over all groups.
    void run_tile(const Call& call, int64_t tile, int64_t begin, int64_t end) const {
        const LineGeometry& g = geometry_;
        const auto panels = static_cast<int64_t>(weights_.panels().size());
        Scratch scratch;
        Work work;
        const int64_t spatial = g.spatial_tiles(), n = tile / spatial * g.images;
        work.box = g.tiling.box(n * spatial + tile % spatial);
        work.images = std::min(g.images, g.y[0] - n);
        work.t = g.extent(work.box);
        work.image = work.t[0] * work.t[1] * work.t[2];
        work.pixels = work.images * work.image;
        for (int64_t i = 0; i < work.images; ++i) {
            Box box = closed_ ? work.box.closed() : work.box;
            box.n = n + i;
            work.programs.push_back(
                std::make_unique<TileRun<T>>(*program_, call.bound, scratch, box, closed_ ? box : this->pooled(box),
                                             box.n * spatial + tile % spatial, kernels<T>().panel_rows,
                                             channel_of(begin), channel_of(end) - channel_of(begin)));
        }
        LineStager<T> stager(g, call.x, this->prologue_.get(), call.prologue.get(), this->prologue_slot_, scratch);
        work.patch = scratch.acquire<T>(g.chunk * g.all_lines() * g.line_pitch + row_padding);
        std::fill_n(work.patch + g.chunk * g.all_lines() * g.line_pitch, row_padding, T(0));
        const auto products = static_cast<int64_t>(g.products.size());
        work.line = padded(work.pixels);
        work.sums_pitch = products * work.line + row_padding;
        const int64_t most = std::min(panels, end - begin) * kernels<T>().panel_rows;
        work.sums = scratch.acquire<T>(most * work.sums_pitch + row_padding);
        work.merged = g.any_pairs() ? scratch.acquire<T>(merged_lines() * work.line) : nullptr;
        work.planes = scratch.acquire<T>(kernels<T>().panel_rows * work.images *
                                         (closed_ ? work.box.closed() : work.box).elements());
        for (int64_t group = begin / panels; group * panels < end; ++group) {
            const int64_t first = std::max(begin - group * panels, int64_t{0}),
                          last = std::min(end - group * panels, panels);
            for (int64_t c = 0; c < g.in; c += g.chunk) {
                const int64_t channels = std::min(g.chunk, g.in - c);
                stager.stage(work.patch, work.box, work.images, group * g.in + c, channels);
                for (size_t i = 0; i < g.products.size(); ++i) multiply(call, work, group, i, first, last, c, channels);
            }
            for (int64_t p = first; p < last; ++p) complete(call, work, group, first, p);
        }
        for (const auto& program : work.programs) program->finish();
    }

    // The channel that a panel, counted over all groups, begins with.
    int64_t channel_of(int64_t panel) const {
        const auto panels = static_cast<int64_t>(weights_.panels().size());
        const int64_t first = panel % panels ? weights_.panels()[static_cast<size_t>(panel % panels)].first : 0;
        return panel / panels * geometry_.outs + first;
    }

    T* sums_of(const Work& work, int64_t first, int64_t panel) const {
        const auto channel = [&](int64_t p) { return weights_.panels()[static_cast<size_t>(p)].first; };
        return work.sums + (channel(panel) - channel(first)) * work.sums_pitch;
    }

    // A few vectors of pixels of a block of input channels fit the first-level cache: all panels pass by them.
    void multiply(const Call& call, const Work& work, int64_t group, size_t i, int64_t first, int64_t last, int64_t c,
                  int64_t channels) const {
        const LineGeometry& g = geometry_;
        const int64_t terms = g.products[i].terms(), lanes = kernels<T>().lanes;
        const int64_t spots = ceil_div(work.pixels, lanes);
        const int64_t most = kernels<T>().panel_rows;
        // The last panel may have fewer rows than the others.
        const bool rest = weights_.panels()[static_cast<size_t>(last - 1)].rows < most;
        for (int64_t b = 0; b < channels; b += g.block) {
            const int64_t count = std::min(g.block, channels - b);
            const bool completes = c + b + count == g.in, adds = c + b > 0;
            const auto weights = [&](int64_t p) {
                return weights_.block(call.packed, group, c + b, count, i, static_cast<size_t>(p));
            };
            const auto bias = [&](int64_t p) {
                return completes && !g.any_pairs() ? bias_of(call, group * g.outs + p * most) : nullptr;
            };
            const auto sums = [&](int64_t p) { return sums_of(work, first, p) + static_cast<int64_t>(i) * work.line; };
            const int32_t* offsets = offsets_[i].data() + b * terms;
            for (int64_t s = 0; s < spots;) {
                const int64_t together = spots - s == 4 ? 2 : std::min<int64_t>(3, spots - s);
                kernels<T>().line_product({weights(first), offsets, count * terms, last - first - rest,
                                           work.patch + s * lanes, together, sums(first) + s * lanes, work.sums_pitch,
                                           bias(first), adds});
                if (rest)
                    kernels<T>().product({weights(last - 1), offsets, count * terms,
                                          weights_.panels()[static_cast<size_t>(last - 1)].rows, work.patch,
                                          spots_.data() + s, together, sums(last - 1), work.sums_pitch, bias(last - 1),
                                          adds, count * terms});
                s += together;
            }
        }
    }

    int64_t merged_lines() const {
        return 3 * pair_parts * pair_parts * 2 + geometry_.out_step[0] * geometry_.out_step[1] * geometry_.out_step[2];
    }

    // Parts of pairs become lines of outputs, one axis after another. False where a number is not finite.
    bool merge(const Work& work, const T* sums, T bias) const {
        const LineGeometry& g = geometry_;
        T* result = work.merged;
        T* const room = result + g.out_step[0] * g.out_step[1] * g.out_step[2] * work.line;
        bool finite = true;
        size_t last = 0;  // the axis that is merged last
        while (!g.paired[last]) ++last;
        for (const LineGeometry::Residue& of : g.residues) {
            // parts[q0][q1][q2]; a merged axis has parts 0 and 1, the even and the odd outputs.
            std::array<const T*, pair_parts * pair_parts * pair_parts> parts;
            for (size_t q = 0; q < parts.size(); ++q)
                parts[q] = of.product[q] < 0 ? nullptr : sums + of.product[q] * work.line;
            std::array<size_t, 3> extent;
            for (size_t a = 0; a < 3; ++a) extent[a] = g.paired[a] ? pair_parts : 1;
            T* next = room;
            for (size_t a = 3; a-- > 0;) {
                if (!g.paired[a]) continue;
                constexpr std::array<size_t, 3> steps{16, 4, 1};
                extent[a] = 1;
                for (size_t q0 = 0; q0 < extent[0]; ++q0)
                    for (size_t q1 = 0; q1 < extent[1]; ++q1)
                        for (size_t q2 = 0; q2 < extent[2]; ++q2) {
                            const size_t at = q0 * 16 + q1 * 4 + q2;
                            const T* of_part[pair_parts];
                            for (size_t q = 0; q < pair_parts; ++q) of_part[q] = parts[at + q * steps[a]];
                            T* to[2] = {next, next + work.line};
                            for (size_t e = 0; a == last && e < 2; ++e) {
                                std::array<size_t, 3> odd{q0, q1, q2};
                                odd[a] = e;
                                to[e] = result + line_of(of.residue, odd) * work.line;
                            }
                            if (a != last) next += 2 * work.line;
                            const bool good =
                                kernels<T>().merge_pair(to[0], to[1], of_part, a == last ? bias : T(0), work.pixels);
                            finite &= good;
                            parts[at] = to[0];
                            parts[at + steps[a]] = to[1];
                        }
                extent[a] = 2;
            }
        }
        return finite;
    }
    // The line of outputs m = residue + period·odd.
    int64_t line_of(const std::array<int64_t, 3>& residue, const std::array<size_t, 3>& odd) const {
        int64_t line = 0;
        for (size_t a = 0; a < 3; ++a)
            line = line * geometry_.out_step[a] + residue[a] + geometry_.period[a] * static_cast<int64_t>(odd[a]);
        return line;
    }

    // The channels of a panel have all their products: they become planes, and the tile program's.
    void complete(const Call& call, const Work& work, int64_t group, int64_t first, int64_t p) const {
        const LineGeometry& g = geometry_;
        const Panel& panel = weights_.panels()[static_cast<size_t>(p)];
        const int64_t channel = group * g.outs + panel.first;
        T* sums = sums_of(work, first, p);
        const Box box = closed_ ? work.box.closed() : work.box;
        const bool direct = g.direct() && closed_ && !program_->given_is_resident();
        for (int64_t j = 0; !direct && j < panel.count; ++j) {
            const T* lines = sums + j * work.sums_pitch;
            if (g.any_pairs()) {
                const T* bias = bias_of(call, channel + j);
                if (!merge(work, lines, bias ? *bias : T(0))) call.overflown = true;
                lines = work.merged;
            }
            for (int64_t i = 0; i < work.images; ++i) {
                Spread<T> spread{lines + i * work.image,          work.line, {}, {},
                                 plane(work, i, channel, j, box), box.pitch, {}};
                for (size_t a = 0; a < 3; ++a) {
                    spread.period[a] = g.out_step[a];
                    spread.extent[a] = work.t[a];
                    spread.size[a] = box.extent[a];
                }
                kernels<T>().spread(spread);
                clear_padding(spread.out, box);
            }
        }
        if (direct) {
            // The tile program computes on whole vectors behind the last image, too.
            const int64_t written = round_up(work.pixels, kernels<T>().lanes);
            for (int64_t j = 0; j < panel.count; ++j)
                std::fill(sums + j * work.sums_pitch + written, sums + j * work.sums_pitch + work.line + row_padding,
                          T(0));
        }
        for (int64_t i = 0; i < work.images; ++i)
            if (direct)
                work.programs[static_cast<size_t>(i)]->channels(channel, panel.count, sums + i * work.image,
                                                                work.sums_pitch);
            else
                work.programs[static_cast<size_t>(i)]->channels(channel, panel.count, plane(work, i, channel, 0, box),
                                                                box.elements());
    }
    T* plane(const Work& work, int64_t image, int64_t channel, int64_t j, const Box& box) const {
        if (T* given = work.programs[static_cast<size_t>(image)]->given_planes())
            return given + (channel + j) * box.elements();
        return work.planes + (image * kernels<T>().panel_rows + j) * box.elements();
    }

    LineGeometry geometry_;
    LineWeights<T> weights_;
    std::vector<std::vector<int32_t>> offsets_;  // per product
    std::vector<Spot> spots_;
    bool closed_;  // planes have no gaps between rows
};

}  // namespace

template <class T>
std::unique_ptr<DensePass> dense_by_lines(DenseParts& parts, LineGeometry geometry) {
    return std::make_unique<LinePass<T>>(parts, std::move(geometry));
}
template std::unique_ptr<DensePass> dense_by_lines<float>(DenseParts&, LineGeometry);
template std::unique_ptr<DensePass> dense_by_lines<double>(DenseParts&, LineGeometry);

}  // namespace transfuse::cpu
