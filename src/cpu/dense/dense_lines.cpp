// The dense pass by lines of pixels: products of lines, the tile program on each image's planes.
#include <algorithm>
#include <limits>
#include <sstream>

#include "algebra/lattice/integer.h"
#include "cpu/dense/dense_frame.h"
#include "cpu/dense/stage/line_staging.h"
#include "cpu/dense/stage/line_weights.h"

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
        const LineGeometry& g = geometry_;
        for (const LineGeometry::Product& product : g.products) {
            std::vector<int32_t>& offsets = offsets_.emplace_back();
            for (int64_t c = 0; c < g.chunk; ++c)
                for (size_t k = 0; k < product.line.size(); ++k) {
                    const std::array<int64_t, 3>& at = product.at[k];
                    const int64_t place = (at[0] * g.room[1] + at[1]) * g.room[2] + at[2];
                    const int64_t offset = (c * g.all_lines() + product.line[k]) * g.line_pitch + place;
                    offsets.push_back(static_cast<int32_t>(offset * static_cast<int64_t>(sizeof(T))));
                }
            offsets.insert(offsets.end(), 4, 0);
        }
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
        Box box;                        // of the first image, as the tile program sees it
        int64_t images, image, pixels;  // from image to image of a line; pixels of all
        std::array<int64_t, 3> t;
        bool direct;                                        // lines of products are the program's planes
        std::vector<std::unique_ptr<TileRun<T>>> programs;  // one an image
        T *patch, *sums, *merged, *planes;
        int64_t line, sums_pitch;      // from line to line, from channel to channel
        int64_t first;                 // channel that sums begin with
        int64_t together;              // channels that the tile program takes at a time
        const T* in_place = nullptr;   // the tile's pixels of channel 0, where products read x itself
        std::vector<int32_t> offsets;  // then, of each channel of a chunk
    };
    // Where x holds the pixels of the tile one behind the other, and what whole vectors read behind them, too.
    void read_in_place(const Call& call, Work& work) const {
        const LineGeometry& g = geometry_;
        const Box& box = work.box;
        constexpr Storage own = sizeof(T) == 8 ? Storage::f64 : Storage::f32;
        const Placed& x = call.x;
        if (!g.shared || !g.one_tap() || work.images > 1 || this->prologue_ || x.storage != own) return;
        int64_t follows = 1, begin = 0;  // from one to the next, of an axis; the tile's first pixel
        bool whole = true;               // all axes so far
        for (size_t a = 3; a-- > 0; follows *= g.x[a + 2]) {
            const int64_t origin = box.origin[a] / g.out_step[a];
            if (origin + work.t[a] > g.x[a + 2] || (work.t[a] > 1 && !whole)) return;
            if (g.x[a + 2] > 1 && x.strides[a + 2] != follows) return;
            begin += origin * follows;
            whole = whole && work.t[a] == g.x[a + 2];
        }
        const int64_t channels = g.x[1], behind = begin + round_up(work.pixels, kernels<T>().lanes);
        if (x.strides[0] < 0 || x.strides[1] < 0 || behind > (g.x[0] - 1 - box.n) * x.strides[0] + follows) return;
        if (channels * x.strides[1] * x.size > std::numeric_limits<int32_t>::max()) return;
        work.in_place = reinterpret_cast<const T*>(x.at(box.n, 0, 0, 0, 0)) + begin;
        for (int64_t c = 0; c < g.chunk; ++c) work.offsets.push_back(static_cast<int32_t>(c * x.strides[1] * x.size));
        work.offsets.insert(work.offsets.end(), 4, 0);
    }
    // Channels that the tile program takes at a time. Where results lie channel beside channel, a panel would fill but
    // a part of each cache line, and find it gone when the next panel comes.
    int64_t together(const Call& call) const {
        constexpr int64_t neighbours = 32;
        const auto side_by_side = [](const Placed& y) { return y.channels_innermost(); };
        const std::vector<Placed>& stores = call.bound.stores;
        const bool many = std::any_of(stores.begin(), stores.end(), side_by_side);
        return std::max(many ? neighbours : kernels<T>().panel_rows, geometry_.gathered * geometry_.outs);
    }

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
        work.image = g.image_places(work.t);
        work.pixels = g.results(work.t, work.images);
        const std::array<int64_t, 3> places = g.places(work.t);
        work.together = together(call);
        work.direct =
            g.direct() && closed_ && !program_->given_is_resident() && (work.t[0] == 1 || work.t[1] == places[1]);
        if (work.direct)
            work.box.pitch = places[2];
        else if (closed_)
            work.box = work.box.closed();
        for (int64_t i = 0; i < work.images; ++i) {
            Box box = work.box;
            box.n = n + i;
            work.programs.push_back(
                std::make_unique<TileRun<T>>(*program_, call.bound, scratch, box, closed_ ? box : this->pooled(box),
                                             box.n * spatial + tile % spatial, work.together, channel_of(begin),
                                             channel_of(end) - channel_of(begin)));
        }
        LineStager<T> stager(g, call.x, this->prologue_.get(), call.prologue.get(), this->prologue_slot_, scratch);
        const int64_t most_staged = std::max(g.chunk, g.gathered * g.in);
        work.patch = scratch.acquire<T>(LineStager<T>::elements(g, most_staged));
        read_in_place(call, work);
        if (!work.in_place) stager.begin(work.patch, work.box, most_staged);
        const auto products = static_cast<int64_t>(g.products.size());
        work.line = padded((work.images - 1) * work.image + ((work.t[0] - 1) * places[1] + work.t[1]) * places[2]);
        work.sums_pitch = products * work.line + row_padding;
        // A panel may be written with more rows than it has channels.
        const int64_t most = std::min(panels, end - begin) * kernels<T>().panel_rows + g.gathered * g.outs;
        work.sums = scratch.acquire<T>(most * work.sums_pitch + row_padding);
        work.merged = g.any_pairs() ? scratch.acquire<T>(merged_lines() * work.line) : nullptr;
        work.planes = work.direct ? nullptr : scratch.acquire<T>(work.together * work.images * work.box.elements());
        for (int64_t group = begin / panels; group * panels < end; group += g.gathered) {
            const int64_t groups = std::min(g.gathered, ceil_div(end - group * panels, panels));
            const int64_t first = std::max(begin - group * panels, int64_t{0}),
                          last = std::min(end - group * panels, panels);  // of one group
            work.first = channel_of(group * panels + first);
            for (int64_t c = 0; c < g.in; c += g.chunk) {
                const int64_t channels = std::min(g.chunk, g.in - c);
                if (!work.in_place)
                    stager.stage(work.patch, work.box, work.images, group * g.in + c,
                                 groups > 1 ? groups * g.in : channels);
                for (int64_t j = 0; j < groups; ++j)
                    for (size_t i = 0; i < g.products.size(); ++i)
                        multiply(call, work, group + j,
                                 work.in_place ? work.in_place + ((group + j) * g.in + c) * call.x.strides[1]
                                               : work.patch + j * g.in * g.all_lines() * g.line_pitch,
                                 i, first, last, c, channels);
            }
            if (groups > 1) {
                complete(call, work, work.first, groups * g.outs);
                continue;
            }
            for (int64_t p = first, most = work.together / kernels<T>().panel_rows; p < last; p += most) {
                const auto& final = weights_.panels()[static_cast<size_t>(std::min(p + most, last) - 1)];
                const int64_t channel = channel_of(group * panels + p);
                complete(call, work, channel, group * g.outs + final.first + final.count - channel);
            }
        }
        for (const auto& program : work.programs) program->finish();
    }

    // The channel that a panel, counted over all groups, begins with.
    int64_t channel_of(int64_t panel) const {
        const auto panels = static_cast<int64_t>(weights_.panels().size());
        const int64_t first = panel % panels ? weights_.panels()[static_cast<size_t>(panel % panels)].first : 0;
        return panel / panels * geometry_.outs + first;
    }

    T* sums_of(const Work& work, int64_t channel) const { return work.sums + (channel - work.first) * work.sums_pitch; }

    // A few vectors of pixels of a block of input channels fit the first-level cache: all panels pass by them.
    void multiply(const Call& call, const Work& work, int64_t group, const T* patch, size_t i, int64_t first,
                  int64_t last, int64_t c, int64_t channels) const {
        const LineGeometry& g = geometry_;
        const auto panels = static_cast<int64_t>(weights_.panels().size());
        const int64_t terms = g.products[i].terms(), vectors = ceil_div(work.pixels, kernels<T>().lanes);
        // The last panel may have fewer rows than the others.
        const auto rows = [&](int64_t p) { return weights_.panels()[static_cast<size_t>(p)].rows; };
        const bool rest = rows(last - 1) < rows(first);
        for (int64_t b = 0; b < channels; b += g.block) {
            const int64_t count = std::min(g.block, channels - b);
            const bool completes = c + b + count == g.in, adds = c + b > 0;
            const auto panels_of = [&](int64_t p, int64_t many) {
                if (many == 0) return;
                const int64_t channel = channel_of(group * panels + p);
                kernels<T>().line_product(
                    {weights_.block(call.packed, group, c + b, count, i, static_cast<size_t>(p)),
                     (work.in_place ? work.offsets : offsets_[i]).data() + b * terms, count * terms, many, rows(p),
                     patch, vectors, sums_of(work, channel) + static_cast<int64_t>(i) * work.line, work.sums_pitch,
                     completes && !g.any_pairs() ? bias_of(call, channel) : nullptr, adds, work.in_place != nullptr});
            };
            panels_of(first, last - first - rest);
            panels_of(last - 1, rest);
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

    // So many channels have all their products: they become planes, and the tile program's.
    void complete(const Call& call, const Work& work, int64_t channel, int64_t count) const {
        const LineGeometry& g = geometry_;
        T* sums = sums_of(work, channel);
        const Box& box = work.box;
        const std::array<int64_t, 3> places = g.places(work.t);
        for (int64_t j = 0; !work.direct && j < count; ++j) {
            const T* lines = sums + j * work.sums_pitch;
            if (g.any_pairs()) {
                const T* bias = bias_of(call, channel + j);
                if (!merge(work, lines, bias ? *bias : T(0))) call.overflown = true;
                lines = work.merged;
            }
            for (int64_t i = 0; i < work.images; ++i) {
                Spread<T> spread{lines + i * work.image, work.line, {}, {}, plane(work, i, channel, j), box.pitch, {}};
                for (size_t a = 0; a < 3; ++a) {
                    spread.period[a] = g.out_step[a];
                    spread.extent[a] = places[a];
                    spread.size[a] = box.extent[a];
                }
                kernels<T>().spread(spread);
                clear_padding(spread.out, box);
            }
        }
        if (work.direct) {
            // The tile program computes on whole vectors behind the last image, too.
            const int64_t written = round_up(work.pixels, kernels<T>().lanes);
            for (int64_t j = 0; j < count; ++j)
                std::fill(sums + j * work.sums_pitch + written, sums + j * work.sums_pitch + work.line + row_padding,
                          T(0));
        }
        for (int64_t i = 0; i < work.images; ++i) {
            TileRun<T>& program = *work.programs[static_cast<size_t>(i)];
            if (work.direct)
                program.channels(channel, count, sums + i * work.image, work.sums_pitch);
            else
                program.channels(channel, count, plane(work, i, channel, 0), box.elements());
        }
    }
    T* plane(const Work& work, int64_t image, int64_t channel, int64_t j) const {
        if (T* given = work.programs[static_cast<size_t>(image)]->given_planes())
            return given + (channel + j) * work.box.elements();
        return work.planes + (image * work.together + j) * work.box.elements();
    }

    LineGeometry geometry_;
    LineWeights<T> weights_;
    std::vector<std::vector<int32_t>> offsets_;  // per product
    bool closed_;                                // planes have no padding between rows
};

}  // namespace

template <class T>
std::unique_ptr<DensePass> dense_by_lines(DenseParts& parts, LineGeometry geometry) {
    return std::make_unique<LinePass<T>>(parts, std::move(geometry));
}
template std::unique_ptr<DensePass> dense_by_lines<float>(DenseParts&, LineGeometry);
template std::unique_ptr<DensePass> dense_by_lines<double>(DenseParts&, LineGeometry);

}  // namespace transfuse::cpu
