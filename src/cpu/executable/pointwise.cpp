// The pointwise pass: a tile program over memory alone.
#include <algorithm>
#include <sstream>

#include "cpu/pass/pass.h"
#include "cpu/primitive/tail.h"
#include "cpu/tiles/tile_program.h"
#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

constexpr int64_t most_pixels = 4096;
constexpr int64_t resident_bytes = 512 << 10;

template <class T>
class PointwisePass final : public CompiledPass {
public:
    PointwisePass(const Plan& plan, const Pass& pass, std::unique_ptr<TileProgram> program)
        : plan_(plan), program_(std::move(program)), tiling_(choose(*program_)), tail_(plan, pass, true, layout_) {
        for (const TileProgram::GridSink& sink : program_->grids()) {
            reductions_.emplace_back(plan.graph[sink.value], program_->type(sink.slot), tiling_);
            partials_.push_back(layout_.add(reductions_.back().slots_bytes()));
        }
        if (std::any_of(pass.stores.begin(), pass.stores.end(), [&](const Store& s) {
                return s.start.empty() && plan.graph[s.value].type.shape != plan.graph[s.target].type.shape;
            }))
            fallback_ = compile_steps(plan, pass);
    }

    size_t workspace_bytes() const override {
        return std::max(layout_.total(), fallback_ ? fallback_->workspace_bytes() : 0);
    }

    void run(const Run& run) const override {
        for (const TileProgram::StoreSink& sink : program_->stores())
            if (run.memory->target(sink.store).shape != program_->type(sink.slot).shape) return fallback_->run(run);
        BoundProgram bound(*program_, *run.memory);
        for (size_t r = 0; r < reductions_.size(); ++r) {
            bound.reductions.push_back(&reductions_[r]);
            bound.partials.push_back(reinterpret_cast<double*>(run.workspace + partials_[r]));
        }
        constexpr int64_t block = 16;
        parallel_for(run.threads, tiling_.tiles(), [&](int64_t t) {
            Scratch scratch;
            const Box box = tiling_.box(t);
            TileRun<T> program(*program_, bound, scratch, box, box, t, block);
            for (int64_t c = 0; c < program_->channels(); c += block)
                program.channels(c, std::min(block, program_->channels() - c), nullptr, 0);
            program.finish();
        });
        for (size_t r = 0; r < reductions_.size(); ++r)
            reductions_[r].combine(bound.partials[r], tail_.place(run, program_->grids()[r].value), run.threads);
        tail_.run(run);
    }

    std::string describe() const override {
        std::ostringstream text;
        text << "pointwise " << level().name << ": " << tiling_.tiles() << " tiles of " << tiling_.tile[0] << "x"
             << tiling_.tile[1] << "x" << tiling_.tile[2] << ", " << program_->stages() << " stages, "
             << program_->registers() << " registers";
        return text.str();
    }

private:
    static Tiling choose(const TileProgram& program) {
        const Five& grid = program.grid();
        std::array<int64_t, 3> tile{grid[2], grid[3], grid[4]};
        if (!program.needs_whole_planes()) {
            const int64_t planes = program.resident_bytes(1, sizeof(T));
            const int64_t limit = std::clamp<int64_t>(planes ? resident_bytes / planes : most_pixels, 64, most_pixels);
            const auto pixels = [&] { return tile[0] * tile[1] * padded(tile[2]); };
            for (size_t a : {size_t{0}, size_t{1}, size_t{2}})
                while (pixels() > limit && tile[a] > (a == 2 ? 64 : 1)) tile[a] = (tile[a] + 1) / 2;
        }
        return Tiling::of(grid, tile);
    }

    const Plan& plan_;
    std::unique_ptr<TileProgram> program_;
    Tiling tiling_;
    WorkspaceLayout layout_;
    Tail tail_;
    std::vector<GridReduction> reductions_;
    std::vector<size_t> partials_;
    std::unique_ptr<CompiledPass> fallback_;
};

}  // namespace

std::unique_ptr<CompiledPass> compile_pointwise(const Plan& plan, const Pass& pass) {
    const Graph& graph = plan.graph;
    std::vector<ValueId> tile;
    bool f64 = false, other = false;
    const auto note = [&](ValueId v) {
        if (!is_literal(graph, v)) (graph[v].type.dtype == DType::f64 ? f64 : other) = true;
    };
    for (const TileStep& step : pass.steps) {
        if (step.scope == Scope::tile) tile.push_back(step.value);
        if (step.scope == Scope::tile || step.scope == Scope::grid) {
            note(step.value);
            for (ValueId a : graph[step.value].args) note(a);
        } else if (step.scope == Scope::prologue) {
            return nullptr;
        }
    }
    const bool has_grid =
        std::any_of(pass.steps.begin(), pass.steps.end(), [](const TileStep& s) { return s.scope == Scope::grid; });
    if ((tile.empty() && !has_grid) || (f64 && other)) return nullptr;
    const Sizes& domain = graph[pass.anchor].type.shape;
    Sizes grid = domain;
    // A pass that only reduces has a small anchor: its domain is what it reads.
    if (is_reduction(graph[pass.anchor].op))
        for (const TileStep& step : pass.steps)
            if (step.value == pass.anchor) grid = graph[graph[pass.anchor].args[0]].type.shape;
    if (grid.size() < 3 || grid.size() > 5 || numel(grid) == 0) return nullptr;
    auto program = TileProgram::compile(plan, pass, tile, -1, grid);
    if (!program) return nullptr;
    if (f64) return std::make_unique<PointwisePass<double>>(plan, pass, std::move(program));
    return std::make_unique<PointwisePass<float>>(plan, pass, std::move(program));
}

}  // namespace transfuse::cpu
