// The dense pass by tiles: one patch of the input for all taps, the register-tiled product, the tile program on each.
#include <algorithm>
#include <sstream>

#include "cpu/dense/cut/dense_geometry.h"
#include "cpu/dense/dense_frame.h"
#include "cpu/dense/dense_rows.h"
#include "cpu/dense/stage/packing.h"
#include "cpu/dense/stage/staging.h"

namespace transfuse::cpu {
namespace {

template <class T>
class TilePass final : public DenseFrame<T> {
    using Base = DenseFrame<T>;
    using Base::bias_of;
    using Base::program_;
    using typename Base::Call;

public:
    TilePass(DenseParts& parts, DenseGeometry geometry)
        : Base(parts), geometry_(std::move(geometry)), packing_(geometry_) {
        this->lay_out(geometry_.tiling);
        make_offsets();
    }

    std::string describe() const override {
        std::ostringstream text;
        text << "dense " << level().name << ": " << geometry_.describe() << ", " << program_->stages() << " stages, "
             << program_->registers() << " registers" << (this->prologue_ ? ", prologue" : "");
        return text.str();
    }
    bool any_pairs() const override { return geometry_.paired; }

protected:
    size_t packed_bytes() const override { return packing_.bytes(); }
    void pack(const TensorView& w, T* packed, int threads) const override { packing_.pack(w, packed, threads); }
    void compute(const Call& call) const override {
        parallel_for(call.run.threads, geometry_.tiling.tiles(), [&](int64_t t) { run_tile(call, t); });
    }

private:
    // One table for full chunks, one for a shorter last chunk; in the order of the packed weights.
    void make_offsets() {
        const int64_t last = geometry_.in % geometry_.chunk;
        for (const DensePhase& phase : geometry_.phases) {
            const auto per_shift = static_cast<size_t>(phase.taps_per_shift());
            std::array<std::vector<int32_t>, 2> tables;
            for (size_t which = 0; which < 2; ++which) {
                for (size_t t = 0; t < phase.taps.size(); t += per_shift)
                    for (int64_t ci = 0; ci < (which ? last : geometry_.chunk); ++ci)
                        for (size_t j = t; j < t + per_shift; ++j)
                            tables[which].push_back(
                                static_cast<int32_t>((ci * geometry_.channel_stride + phase.taps[j].offset) *
                                                     static_cast<int64_t>(sizeof(T))));
                tables[which].insert(tables[which].end(), 4, 0);
            }
            offsets_.push_back(std::move(tables));
        }
    }

    // Taps of the first axis that meet input for some output of the tile: [begin, end) of the phase's shifts.
    std::pair<int64_t, int64_t> meeting(const DensePhase& phase, const Box& box) const {
        const DenseGeometry& g = geometry_;
        const int64_t u0 = box.origin[0] / g.period[0], u1 = u0 + g.u_count(0, box.extent[0], phase.residue[0]) - 1;
        const auto within = [&](int64_t shift) {
            return g.advance[0] * u1 + shift >= 0 && g.advance[0] * u0 + shift < g.x[2];
        };
        const auto meets = [&](const DensePhase::Shift& shift) { return within(shift.a) || within(shift.b); };
        auto begin = static_cast<int64_t>(0), end = static_cast<int64_t>(phase.shifts.size());
        while (begin < end && !meets(phase.shifts[static_cast<size_t>(begin)])) ++begin;
        while (end > begin && !meets(phase.shifts[static_cast<size_t>(end - 1)])) --end;
        return {begin, end};
    }

    void make_spots(size_t p, const Box& box, int64_t phase_pitch, std::vector<Spot>& spots) const {
        const DenseGeometry& g = geometry_;
        const DensePhase& phase = g.phases[p];
        std::array<int64_t, 3> count;
        for (size_t a = 0; a < 3; ++a) count[a] = g.u_count(a, box.extent[a], phase.residue[a]);
        if (g.paired) count[1] = (count[1] + 1) / 2;
        if (g.planes_paired) count[0] = (count[0] + 1) / 2;
        const bool interleaved = g.period[2] > 1;
        const int64_t lanes = kernels<T>().lanes;
        spots.clear();
        const auto add = [&](int64_t in, int64_t out, int64_t columns) {
            for (int64_t x = 0; x < columns; x += lanes)
                spots.push_back({static_cast<int32_t>(in + x), static_cast<int32_t>(out + x)});
        };
        if (count[1] == 0 || count[2] == 0) return;
        for (int64_t u1 = 0; u1 < count[0]; ++u1) {
            const int64_t in = g.advance[0] * u1 * g.plane_stride;
            const int64_t sums = static_cast<int64_t>(p) * g.product_stride + u1 * g.sum_plane_stride;
            if (g.paired && g.flat) {
                add(in, sums, (count[1] - 1) * g.row_stride + count[2]);
                continue;
            }
            for (int64_t u2 = 0; u2 < count[1]; ++u2) {
                if (g.paired) {
                    add(in + u2 * g.row_stride, sums + u2 * g.sum_row_stride, count[2]);
                    continue;
                }
                const int64_t row = g.row_of(phase.residue, u1, u2, box);
                add(in + g.advance[1] * u2 * g.row_stride,
                    interleaved ? (phase.residue[2] * box.rows() + row) * phase_pitch : row * box.pitch, count[2]);
            }
        }
    }

    void multiply(const Call& call, const Box& box, const T* patch, int64_t group, size_t p, int64_t first,
                  int64_t channels, const Destination<T>& to, const std::vector<std::vector<Spot>>& spots) const {
        const Panel& panel = packing_.panels()[p];
        struct Weights {
            const T* data;
            int64_t begin, terms;
        };
        const auto weights = [&](size_t i, size_t q) -> Weights {
            const DensePhase& phase = geometry_.phases[i];
            const auto [begin, end] = meeting(phase, box);
            const auto taps = static_cast<int64_t>(phase.taps.size());
            const int64_t per_shift = channels * phase.taps_per_shift();
            return {packing_.panel(call.packed, i, group, q) +
                        (first * taps + begin * per_shift) * packing_.panels()[q].rows,
                    begin * per_shift, (end - begin) * per_shift};
        };
        for (size_t i = 0; i < geometry_.phases.size(); ++i) {
            if (spots[i].empty()) continue;
            const Weights now = weights(i, p);
            Product<T> product{now.data,
                               offsets_[i][channels == geometry_.chunk ? 0 : 1].data() + now.begin,
                               now.terms,
                               panel.rows,
                               patch,
                               spots[i].data(),
                               static_cast<int64_t>(spots[i].size()),
                               to.data,
                               to.pitch,
                               geometry_.paired || first + channels < geometry_.in
                                   ? nullptr
                                   : bias_of(call, group * geometry_.outs + panel.first),
                               first > 0,
                               geometry_.chain(now.terms)};
            const bool last = i + 1 == geometry_.phases.size();
            if (!last || p + 1 < packing_.panels().size()) {
                const Weights next = last ? weights(0, p + 1) : weights(i + 1, p);
                product.next = next.data;
                product.next_count = next.terms * packing_.panels()[last ? p + 1 : p].rows;
            }
            kernels<T>().product(product);
        }
    }

    void run_tile(const Call& call, int64_t t) const {
        const DenseGeometry& g = geometry_;
        const Box box = g.tiling.box(t);
        const Box pooled = this->pooled(box);
        Scratch scratch;
        const int64_t most = kernels<T>().panel_rows;
        TileRun<T> program(*program_, call.bound, scratch, box, pooled, t, most);
        Stager<T> stager(g, call.x, this->prologue_.get(), call.prologue.get(), this->prologue_slot_, scratch);
        T* patch = scratch.acquire<T>(g.chunk * g.channel_stride + 4 * row_padding);

        const bool interleaved = g.period[2] > 1;
        const int64_t phase_pitch = padded(g.u_count(2, box.width(), 0));
        const int64_t phased = g.period[2] * box.rows() * phase_pitch;  // elements of a channel, phase by phase
        const int64_t kept = g.chunks() > 1 ? g.outs + most : most;     // channels held until all input is in
        // What products write to holds the kept channels; what follows from it holds a panel.
        T* sums = g.paired ? scratch.acquire<T>(kept * g.sums_stride()) : nullptr;
        T* rows = g.planes_paired ? scratch.acquire<T>(2 * pair_parts * padded(g.u_count(2, box.width(), 0))) : nullptr;
        T* phases = interleaved ? scratch.acquire<T>((g.paired ? most : kept) * phased) : nullptr;
        const bool direct = !g.paired && !interleaved;
        T* planes = program.given_planes() ? nullptr : scratch.acquire<T>((direct ? kept : most) * box.elements());

        std::vector<std::vector<Spot>> spots(g.phases.size());
        for (size_t p = 0; p < g.phases.size(); ++p) make_spots(p, box, phase_pitch, spots[p]);

        for (int64_t group = 0; group < g.groups; ++group) {
            const int64_t c0 = group * g.outs;
            const auto held = [&](int64_t first) { return g.chunks() > 1 ? first : 0; };
            // The planes that the tile program will read channel `first` of this group from.
            const auto plane = [&](int64_t first) -> Destination<T> {
                if (program.given_planes())
                    return {program.given_planes() + (c0 + first) * box.elements(), box.elements()};
                return {planes + (direct ? held(first) : 0) * box.elements(), box.elements()};
            };
            const auto phase_rows = [&](int64_t first) -> Destination<T> {
                return {phases + (g.paired ? 0 : held(first)) * phased, phased};
            };
            const auto destination = [&](int64_t first) -> Destination<T> {
                if (g.paired) return {sums + held(first) * g.sums_stride(), g.sums_stride()};
                return interleaved ? phase_rows(first) : plane(first);
            };
            const auto complete = [&](const Panel& panel) {
                const Destination<T> to = plane(panel.first);
                if (g.paired &&
                    !merge_pairs(g, destination(panel.first), interleaved ? phase_rows(panel.first) : to, box,
                                 phase_pitch, bias_of(call, group * geometry_.outs + panel.first), panel.count, rows))
                    call.overflown = true;
                if (interleaved) interleave_phases(g, phase_rows(panel.first), to.data, box, phase_pitch, panel.count);
                clear_padding(to.data, box, panel.count);
                program.channels(c0 + panel.first, panel.count, to.data, box.elements());
            };
            for (int64_t first = 0; first < g.in; first += g.chunk) {
                const int64_t channels = std::min(g.chunk, g.in - first);
                stager.stage(patch, box, group * g.in + first, channels);
                for (size_t p = 0; p < packing_.panels().size(); ++p) {
                    const Panel& panel = packing_.panels()[p];
                    multiply(call, box, patch, group, p, first, channels, destination(panel.first), spots);
                    if (g.chunks() == 1) complete(panel);
                }
            }
            if (g.chunks() > 1)
                for (const Panel& panel : packing_.panels()) complete(panel);
        }
        program.finish();
    }

    DenseGeometry geometry_;
    Packing<T> packing_;
    std::vector<std::array<std::vector<int32_t>, 2>> offsets_;  // per phase
};

}  // namespace

template <class T>
std::unique_ptr<DensePass> dense_by_tiles(DenseParts& parts, DenseGeometry geometry) {
    return std::make_unique<TilePass<T>>(parts, std::move(geometry));
}
template std::unique_ptr<DensePass> dense_by_tiles<float>(DenseParts&, DenseGeometry);
template std::unique_ptr<DensePass> dense_by_tiles<double>(DenseParts&, DenseGeometry);

}  // namespace transfuse::cpu
