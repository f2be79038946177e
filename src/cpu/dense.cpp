// The dense pass: lattice-convolution tiles by the register-tiled product, the tile program on each, then reductions
// and tail.
#include <algorithm>
#include <atomic>
#include <sstream>

#include "cpu/dense_geometry.h"
#include "cpu/dense_rows.h"
#include "cpu/packing.h"
#include "cpu/pass.h"
#include "cpu/staging.h"
#include "cpu/tail.h"
#include "cpu/tile_program.h"
#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

template <class T>
class DensePass final : public CompiledPass {
public:
    DensePass(const Plan& plan, const Pass& pass, std::unique_ptr<TileProgram> program,
              std::unique_ptr<TileProgram> prologue, bool pairs)
        : plan_(plan),
          node_(plan.graph[pass.anchor]),
          program_(std::move(program)),
          prologue_(std::move(prologue)),
          geometry_(geometry(plan, pass.anchor, *program_, pairs)),
          packing_(geometry_),
          tail_(plan, pass, true, layout_) {
        for (const TileProgram::GridSink& sink : program_->grids()) {
            Tiling tiling = geometry_.tiling;
            if (program_->level(sink.slot) == 1) {
                for (size_t a = 0; a < 3; ++a)
                    tiling.tile[a] = std::max<int64_t>(1, tiling.tile[a] / program_->pool_window()[a]);
                tiling.grid = program_->pooled();
            }
            reductions_.emplace_back(plan.graph[sink.value], program_->type(sink.slot), tiling);
            partials_.push_back(layout_.add(reductions_.back().slots_bytes()));
        }
        packed_ = layout_.add(packing_.bytes());
        bias_ = layout_.add(static_cast<size_t>(geometry_.y[1] + row_padding) * sizeof(T));
        make_offsets();
        if (prologue_) prologue_slot_ = prologue_->slot_of(node_.args[0]);
        if (std::any_of(pass.stores.begin(), pass.stores.end(), [&](const Store& s) { return reshapes(s); }))
            fallback_ = compile_steps(plan, pass);
    }

    size_t workspace_bytes() const override {
        return std::max({layout_.total(), fallback_ ? fallback_->workspace_bytes() : 0,
                         row_by_row_ ? row_by_row_->workspace_bytes() : 0});
    }

    void run(const Run& run) const override {
        for (const TileProgram::StoreSink& sink : program_->stores())
            if (run.memory->target(sink.store).shape != program_->type(sink.slot).shape) return fallback_->run(run);
        Call call{run, BoundProgram(*program_, *run.memory),          {},
                  {},  reinterpret_cast<T*>(run.workspace + packed_), nullptr};
        if (prologue_) call.prologue = std::make_unique<BoundProgram>(*prologue_, *run.memory);
        const ValueId x = prologue_ ? prologue_source_ : node_.args[0];
        const TensorView source = run.memory->source(x);
        call.x = Placed::under(source, source.shape);
        packing_.pack(run.memory->source(node_.args[1]), call.packed, run.threads);
        if (node_.args.size() > 2) {
            auto* bias = reinterpret_cast<T*>(run.workspace + bias_);
            const TensorView view = run.memory->source(node_.args[2]);
            std::fill_n(bias, geometry_.y[1] + row_padding, T(0));
            kernels<T>().load(bias, view.data, static_cast<Storage>(view.dtype), view.strides[0], geometry_.y[1]);
            call.bias = bias;
        }
        for (size_t r = 0; r < reductions_.size(); ++r) {
            call.bound.reductions.push_back(&reductions_[r]);
            call.bound.partials.push_back(reinterpret_cast<double*>(run.workspace + partials_[r]));
        }
        parallel_for(run.threads, geometry_.tiling.tiles(), [&](int64_t t) { run_tile(call, t); });
        if (call.overflown) return row_by_row_->run(run);
        for (size_t r = 0; r < reductions_.size(); ++r)
            reductions_[r].combine(call.bound.partials[r], tail_.place(run, program_->grids()[r].value), run.threads);
        tail_.run(run);
    }

    std::string describe() const override {
        std::ostringstream text;
        text << "dense " << level().name << ": " << geometry_.describe() << ", " << program_->stages() << " stages, "
             << program_->registers() << " registers" << (prologue_ ? ", prologue" : "");
        return text.str();
    }

    void set_prologue_source(ValueId x) { prologue_source_ = x; }
    bool paired() const { return geometry_.paired; }
    // Sums of pairs take differences of inputs: where one is infinite they are NaN, and the plain sum need not be. Then
    // the same pass without pairs does everything once more.
    void set_row_by_row(std::unique_ptr<CompiledPass> pass) { row_by_row_ = std::move(pass); }

private:
    struct Call {
        const Run& run;
        BoundProgram bound;
        std::unique_ptr<BoundProgram> prologue;
        Placed x;
        T* packed;
        const T* bias;
        mutable std::atomic<bool> overflown = false;
    };

    static DenseGeometry geometry(const Plan& plan, ValueId anchor, const TileProgram& program, bool pairs) {
        const Node& node = plan.graph[anchor];
        DenseDemands demands;
        demands.window = program.pool_window();
        demands.element_bytes = sizeof(T);
        demands.lanes = kernels<T>().lanes;
        demands.resident_planes = program.resident_bytes(1, 1);
        demands.pairs = pairs;
        return dense_geometry(lattices(plan.graph, anchor), plan.graph[node.args[0]].type.shape, node.type.shape,
                              plan.graph[node.args[1]].type.shape[0], demands);
    }

    bool reshapes(const Store& store) const {
        return store.start.empty() && plan_.graph[store.value].type.shape != plan_.graph[store.target].type.shape;
    }

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
                               geometry_.paired ? nullptr : bias_of(call, group, panel),
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

    const T* bias_of(const Call& call, int64_t group, const Panel& panel) const {
        return call.bias ? call.bias + group * geometry_.outs + panel.first : nullptr;
    }

    void run_tile(const Call& call, int64_t t) const {
        const DenseGeometry& g = geometry_;
        const Box box = g.tiling.box(t);
        Box pooled = box;
        if (program_->pool_window() != std::array<int64_t, 3>{1, 1, 1}) {
            std::array<int64_t, 3> origin, extent;
            for (size_t a = 0; a < 3; ++a) {
                const int64_t window = program_->pool_window()[a];
                origin[a] = box.origin[a] / window;
                extent[a] = std::min(box.extent[a] / window, program_->pooled()[a + 2] - origin[a]);
            }
            pooled = Box::of(box.n, origin, extent);
        }
        Scratch scratch;
        const int64_t most = kernels<T>().panel_rows;
        TileRun<T> program(*program_, call.bound, scratch, box, pooled, t, most);
        Stager<T> stager(g, call.x, prologue_.get(), call.prologue.get(), prologue_slot_, scratch);
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
                if (g.paired && !merge_pairs(g, destination(panel.first), interleaved ? phase_rows(panel.first) : to,
                                             box, phase_pitch, bias_of(call, group, panel), panel.count, rows))
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

    const Plan& plan_;
    const Node& node_;
    std::unique_ptr<TileProgram> program_, prologue_;
    ValueId prologue_source_ = -1;
    int prologue_slot_ = -1;
    DenseGeometry geometry_;
    Packing<T> packing_;
    WorkspaceLayout layout_;
    Tail tail_;
    std::vector<GridReduction> reductions_;
    std::vector<size_t> partials_;
    size_t packed_ = 0, bias_ = 0;
    std::vector<std::array<std::vector<int32_t>, 2>> offsets_;  // per phase
    std::unique_ptr<CompiledPass> fallback_, row_by_row_;
};

// fp64 values need fp64 planes, all others fp32; a pass that mixes them goes step by step.
bool one_arithmetic(const Plan& plan, const Pass& pass, DType dtype) {
    const auto agrees = [&](ValueId v) {
        return is_literal(plan.graph, v) || (plan.graph[v].type.dtype == DType::f64) == (dtype == DType::f64);
    };
    for (const TileStep& step : pass.steps) {
        if (step.scope == Scope::tail) continue;
        if (!agrees(step.value)) return false;
        for (ValueId a : plan.graph[step.value].args)
            if (!agrees(a)) return false;
    }
    return true;
}

}  // namespace

static std::unique_ptr<CompiledPass> compile_dense(const Plan& plan, const Pass& pass, bool pairs) {
    const Graph& graph = plan.graph;
    const Node& node = graph[pass.anchor];
    const Node& x = graph[node.args[0]];
    if (node.type.rank() > 5 || node.type.rank() < 2) return nullptr;
    for (ValueId v : {pass.anchor, node.args[0], node.args[1]})
        if (numel(graph[v].type.shape) == 0) return nullptr;
    if (!one_arithmetic(plan, pass, node.type.dtype) || is_literal(graph, node.args[0])) return nullptr;
    std::vector<ValueId> tile, prologue;
    for (const TileStep& step : pass.steps) {
        if (step.scope == Scope::tile) tile.push_back(step.value);
        if (step.scope == Scope::prologue) prologue.push_back(step.value);
    }
    auto program = TileProgram::compile(plan, pass, tile, pass.anchor, node.type.shape);
    if (!program) return nullptr;
    std::unique_ptr<TileProgram> before;
    ValueId source = -1;
    if (!prologue.empty()) {
        // The value whose rows are staged: a read of x's shape that the prologue uses.
        for (ValueId v : prologue)
            for (ValueId a : graph[v].args)
                if (source < 0 && !is_literal(graph, a) &&
                    std::find(prologue.begin(), prologue.end(), a) == prologue.end() &&
                    graph[a].type.shape == x.type.shape)
                    source = a;
        if (source < 0) return nullptr;
        const Pass alone{PassKind::pointwise, source, {}, {}, {}, {}, 0, {}};
        before = TileProgram::compile(plan, alone, prologue, source, x.type.shape);
        if (!before || before->stages() > 1) return nullptr;
    }
    const auto finish = [&](auto tag) -> std::unique_ptr<CompiledPass> {
        auto compiled =
            std::make_unique<DensePass<decltype(tag)>>(plan, pass, std::move(program), std::move(before), pairs);
        compiled->set_prologue_source(source);
        if (compiled->paired()) compiled->set_row_by_row(compile_dense(plan, pass, false));
        return compiled;
    };
    return node.type.dtype == DType::f64 ? finish(double{}) : finish(float{});
}

std::unique_ptr<CompiledPass> compile_dense(const Plan& plan, const Pass& pass) {
    return compile_dense(plan, pass, true);
}

}  // namespace transfuse::cpu
