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
        return static_cast<size_t>(geometry_.y[1] * geometry_.all_terms) * sizeof(T);
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
    }

    // Each thread gets tiles, and where these are few, parts of their channels.
    void compute(const Call& call) const override {
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
};

}  // namespace

template <class T>
std::unique_ptr<DensePass> dense_by_channels(DenseParts& parts, LineGeometry geometry) {
    return std::make_unique<ChannelPass<T>>(parts, std::move(geometry));
}
template std::unique_ptr<DensePass> dense_by_channels<float>(DenseParts&, LineGeometry);
template std::unique_ptr<DensePass> dense_by_channels<double>(DenseParts&, LineGeometry);

}  // namespace transfuse::cpu
