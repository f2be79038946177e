// The dense pass channel by channel: depthwise convolutions, and those of a few output channels for each input channel.
// There are no panels: lanes run along rows, and what is computed is bound by how often rows are loaded.
#include <algorithm>
#include <numeric>
#include <sstream>

#include "algebra/lattice/integer.h"
#include "cpu/dense/dense_frame.h"
#include "cpu/dense/stage/line_staging.h"

namespace transfuse::cpu {
namespace {

template <class T>
class ChannelPass final : public DenseFrame<T> {
    using Base = DenseFrame<T>;
    using Base::program_;
    using typename Base::Call;

public:
    ChannelPass(DenseParts& parts, LineGeometry geometry) : Base(parts), geometry_(std::move(geometry)) {
        this->lay_out(geometry_.tiling);
        for (const LineGeometry::Product& product : geometry_.products) add_runs(product);
        if (sizeof(T) == 4 && geometry_.outs == 1 && geometry_.direct() && !this->prologue_ && program_->by_elements())
            find_pixel_taps();
    }

    std::string describe() const override {
        std::ostringstream text;
        const auto& tile = geometry_.tiling.tile;
        text << "channels " << level().name << ": " << geometry_.tiles() << " tiles of " << tile[0] << "x" << tile[1]
             << "x" << tile[2] << ", " << geometry_.products.size() << " phases, " << geometry_.gathered
             << " channels together, " << program_->stages() << " stages, " << program_->registers() << " registers"
             << (this->prologue_ ? ", prologue" : "");
        return text.str();
    }
    bool any_pairs() const override { return false; }

protected:
    size_t packed_bytes() const override {
        const int64_t by_pixels = static_cast<int64_t>(pixel_taps_.size()) * padded(geometry_.y[1]);
        return static_cast<size_t>(geometry_.y[1] * geometry_.all_terms + by_pixels) * sizeof(T);
    }
    void pack(const TensorView& w, T* packed, int) const override {
        Sizes strides = w.strides;
        strides.insert(strides.begin() + 3, 6 - strides.size(), 0);  // missing tap axes
        for (int64_t c = 0; c < geometry_.y[1]; ++c)
            for (const Taps& taps : taps_)
                for (const std::array<int64_t, 3>& k : taps.weights)
                    kernels<T>().load(packed++,
                                      address(w, c / geometry_.outs * strides[0] + c % geometry_.outs * strides[2] +
                                                     k[0] * strides[3] + k[1] * strides[4] + k[2] * strides[5]),
                                      static_cast<Storage>(w.dtype), 1, 1);
        for (const auto& [k, shift] : pixel_taps_) {
            kernels<T>().load(packed, address(w, k[0] * strides[3] + k[1] * strides[4] + k[2] * strides[5]),
                              static_cast<Storage>(w.dtype), strides[0], geometry_.y[1]);
            clear_padding(packed, geometry_.y[1]);
            packed += padded(geometry_.y[1]);
        }
    }

    // Each thread gets tiles, and where these are few, parts of their channels.
    void compute(const Call& call) const override {
        if constexpr (sizeof(T) == 4)
            if (channels_innermost(call)) return compute_pixels(call);
        const LineGeometry& g = geometry_;
        const int64_t threads = call.run.threads > 0 ? call.run.threads : hardware_threads();
        int64_t parts = 1;
        if (program_->cuts_channels() && threads > 1)
            parts = std::clamp<int64_t>(4 * threads / g.tiles(), 1, ceil_div(g.groups, g.gathered));
        parallel_for(call.run.threads, g.tiles() * parts, [&](int64_t task) {
            const int64_t part = task % parts;
            run_tile(call, g.tiling.box(task / parts), task / parts, g.groups * part / parts,
                     g.groups * (part + 1) / parts);
        });
    }

private:
    // Taps of a phase in the order in which they are multiplied: those above one another follow one another.
    struct Taps {
        std::vector<TapRun> runs;
        std::vector<std::array<int64_t, 3>> weights;
    };
    void add_runs(const LineGeometry::Product& product) {
        const LineGeometry& g = geometry_;
        std::vector<size_t> order(product.line.size());
        std::iota(order.begin(), order.end(), size_t{0});
        const auto place = [&](size_t k) {
            const std::array<int64_t, 3>& at = product.at[k];
            return std::array<int64_t, 4>{product.line[k], at[0], at[2], at[1]};
        };
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
        Taps& taps = taps_.emplace_back();
        std::array<int64_t, 4> next{-1};
        for (size_t k : order) {
            std::array<int64_t, 4> here = place(k);
            if (here != next || taps.runs.back().taps == most_run)
                taps.runs.push_back({static_cast<int32_t>(here[0] * g.line_pitch +
                                                          (here[1] * g.room[1] + here[3]) * g.room[2] + here[2]),
                                     0});
            ++taps.runs.back().taps;
            next = here, ++next[3];
            const int64_t tap = product.tap[k], taps1 = g.axis[1].taps, taps2 = g.axis[2].taps;
            taps.weights.push_back({tap / taps2 / taps1, tap / taps2 % taps1, tap % taps2});
        }
    }

    struct PixelTaps {
        std::array<int64_t, 3> k, shift;
    };
    void find_pixel_taps() {
        std::array<std::vector<PhaseTap>, 3> taps;
        for (size_t a = 0; a < 3; ++a) taps[a] = geometry_.axis[a].phases()[0].taps;
        for (const PhaseTap& t0 : taps[0])
            for (const PhaseTap& t1 : taps[1])
                for (const PhaseTap& t2 : taps[2])
                    pixel_taps_.push_back({{t0.tap, t1.tap, t2.tap}, {t0.shift, t1.shift, t2.shift}});
    }
    // Channels lie side by side on both sides, those of one pixel behind those of another.
    bool channels_innermost(const Call& call) const {
        const auto follow = [&](const Placed& y) { return y.channels_innermost() && y.strides[4] == geometry_.y[1]; };
        const std::vector<Placed>& stores = call.bound.stores;
        return !pixel_taps_.empty() && call.x.storage == Storage::f32 && call.x.channels_innermost() &&
               std::all_of(stores.begin(), stores.end(), follow);
    }
    // Then lanes run along channels and nothing is staged. To the tile program a row of pixels is a row of elements.
    void compute_pixels(const Call& call) const {
        constexpr int64_t most_bytes = 64 << 10;
        const LineGeometry& g = geometry_;
        const int64_t channels = g.y[1], row = g.y[4] * channels;
        const int64_t rows = std::clamp<int64_t>(most_bytes / (row * 4), 1, g.y[3]), pieces = ceil_div(g.y[3], rows);
        BoundProgram bound = call.bound;
        for (Placed& y : bound.stores) y.strides[1] = 0, y.strides[4] = 1;
        parallel_for(call.run.threads, g.y[0] * g.y[2] * pieces, [&](int64_t task) {
            const int64_t o1 = task % pieces * rows, o0 = task / pieces % g.y[2], n = task / pieces / g.y[2];
            const Box box = Box::of(n, {o0, o1, 0}, {1, std::min(rows, g.y[3] - o1), row}).closed();
            Scratch scratch;
            TileRun<T> program(*program_, bound, scratch, box, box, 0, 1, 0, 1);
            T* sums = scratch.acquire<T>(box.elements());
            std::vector<PixelTap> taps(pixel_taps_.size());
            for (int64_t r = 0; r < box.rows(); ++r) {
                int64_t count = 0;
                for (size_t t = 0; t < pixel_taps_.size(); ++t) {
                    const std::array<int64_t, 3>& shift = pixel_taps_[t].shift;
                    const int64_t i0 = g.in_step[0] * o0 + shift[0], i1 = g.in_step[1] * (o1 + r) + shift[1];
                    if (i0 < 0 || i0 >= g.x[2] || i1 < 0 || i1 >= g.x[3]) continue;
                    taps[static_cast<size_t>(count++)] = {i0 * call.x.strides[2] + i1 * call.x.strides[3],
                                                          static_cast<int32_t>(shift[2]), static_cast<int32_t>(t)};
                }
                kernels<T>().pixel_row({reinterpret_cast<const float*>(call.x.at(n, 0, 0, 0, 0)), call.x.strides[4],
                                        g.in_step[2], g.x[4], taps.data(), count, call.packed + channels * g.all_terms,
                                        padded(channels), call.bias, sums + r * row, g.y[4], channels});
            }
            clear_padding(sums, box);
            program.channels(0, 1, sums, box.elements());
            program.finish();
        });
    }

    // Groups begin … end of a tile.
    void run_tile(const Call& call, const Box& box, int64_t tile, int64_t begin, int64_t end) const {
        const LineGeometry& g = geometry_;
        Scratch scratch;
        const std::array<int64_t, 3> t = g.extent(box);
        TileRun<T> program(*program_, call.bound, scratch, box, this->pooled(box), tile, g.gathered * g.outs,
                           begin * g.outs, (end - begin) * g.outs);
        LineStager<T> stager(g, call.x, this->prologue_.get(), call.prologue.get(), this->prologue_slot_, scratch);
        const int64_t elements = LineStager<T>::elements(g, g.gathered);
        T* patch = scratch.acquire<T>(elements);
        std::fill_n(patch, elements, T(0));
        stager.begin(patch, box, g.gathered);
        const Kernels<T>& k = kernels<T>();
        const int64_t lanes = k.lanes, vectors = ceil_div(t[2], lanes), pitch = padded(t[2]);
        const int64_t phase = padded(t[0] * t[1] * pitch);
        T* phases = g.direct() ? nullptr : scratch.acquire<T>(static_cast<int64_t>(g.products.size()) * phase);
        T* planes = program.given_planes();
        const int64_t held = planes ? program_->channels() : g.gathered * g.outs;
        const int64_t plane_elements = box.elements(), channel = g.all_lines() * g.line_pitch;
        if (!planes) planes = scratch.acquire<T>(held * plane_elements);
        // Behind rows stands what vectors wrote there, or zeros.
        std::fill_n(planes, held * plane_elements, T(0));
        for (int64_t group = begin; group < end; group += g.gathered) {
            const int64_t groups = std::min(g.gathered, end - group), first = group * g.outs;
            stager.stage(patch, box, 1, group, groups);
            T* const block = program.given_planes() ? planes + first * plane_elements : planes;
            const T *weights = call.packed + first * g.all_terms, *bias = call.bias ? call.bias + first : nullptr;
            T* plane = block;
            for (int64_t j = 0; j < groups * g.outs; ++j, plane += plane_elements) {
                const T* x = patch + (g.outs == 1 ? j : j / g.outs) * channel;
                for (size_t p = 0; p < taps_.size(); ++p) {
                    T* out = phases ? phases + static_cast<int64_t>(p) * phase : plane;
                    const Taps& taps = taps_[p];
                    for (int64_t t0 = 0; t0 < t[0]; ++t0)
                        k.channel_rows({weights, taps.runs.data(), static_cast<int64_t>(taps.runs.size()),
                                        x + t0 * g.room[1] * g.room[2], g.room[2], out + t0 * t[1] * pitch, pitch, t[1],
                                        vectors, bias ? bias[j] : T(0)});
                    weights += taps.weights.size();
                }
                if (phases)
                    k.spread({phases,
                              phase,
                              {g.out_step[0], g.out_step[1], g.out_step[2]},
                              {t[0], t[1], pitch},
                              plane,
                              box.pitch,
                              {box.extent[0], box.extent[1], box.extent[2]}});
            }
            program.channels(first, groups * g.outs, block, plane_elements);
        }
        program.finish();
    }

    LineGeometry geometry_;
    std::vector<Taps> taps_;  // per phase
    std::vector<PixelTaps> pixel_taps_;
};

}  // namespace

template <class T>
std::unique_ptr<DensePass> dense_by_channels(DenseParts& parts, LineGeometry geometry) {
    return std::make_unique<ChannelPass<T>>(parts, std::move(geometry));
}
template std::unique_ptr<DensePass> dense_by_channels<float>(DenseParts&, LineGeometry);
template std::unique_ptr<DensePass> dense_by_channels<double>(DenseParts&, LineGeometry);

}  // namespace transfuse::cpu
