// Cell u holds the outputs o = up·u + r, one for every phase r. A tap belongs to the phases it reaches, and meets the
// input u + shift there; so a thread loads the few inputs its two cells meet, and for each phase multiplies those by
// the weights of the phase's taps (shared memory, the same for all threads). The chain then has every channel of an
// output: reductions over channels are loops over registers. A pool whose windows are cells collects over the phases.
// Reductions over space are collected over all cells of a thread and leave a slot for each block.
#include "cuda/plain/cells.h"

#include <algorithm>
#include <set>

#include "algebra/lattice/integer.h"
#include "cuda/plain/cells_writer.h"
#include "cuda/plain/figures.h"

namespace transfuse::cuda {

using namespace figures::cells;

namespace {

// How many channels a thread makes: all, or a share of them in vectors of four; 0: neither.
int64_t share_of(int64_t channels) {
    if (channels <= most_channels) return channels;
    for (int64_t share = most_channels; share >= least_share; share -= 4)
        if (channels % share == 0) return share;
    return 0;
}

}  // namespace

bool CellWriter::arrange(std::string* why_not) {
    auto refuse = [&](const std::string& why) {
        if (why_not) *why_not = why;
        return false;
    };
    if (const std::string why = unfit(); !why.empty()) return refuse(why);
    const Type& x = graph_[x_].type;
    own_ = share_of(cout_);
    if (cin_ > most_input_channels || own_ == 0) return refuse("many channels");
    int64_t inputs = cin_;
    for (const Lattice& axis : axes_) {
        if (axis.down != 1) return refuse("strides");
        phases_.emplace_back(static_cast<size_t>(axis.up));
        int64_t least = 0, most = 0;
        for (int64_t k = 0; k < axis.taps; ++k)
            for (int64_t r = 0; r < axis.up; ++r) {
                const int64_t reach = r + axis.offset - axis.dil * k;
                if (reach % axis.up != 0) continue;
                phases_.back()[static_cast<size_t>(r)].push_back({k, floor_div(reach, axis.up)});
                least = std::min(least, floor_div(reach, axis.up)), most = std::max(most, floor_div(reach, axis.up));
            }
        least_.push_back(least);
        reach_.push_back(most - least + 1);
        phase_count_ *= axis.up;
    }
    reach_.back() += cells - 1;
    for (int64_t reach : reach_) inputs *= reach;
    if (inputs > most_inputs) return refuse("many inputs a cell");
    if (phase_count_ == 1) return refuse("no phases");
    std::string why;
    if (!read_steps(why)) return refuse(why);
    auto reduces = [&](ValueId v) { return is_reduction(graph_[v].op); };
    const bool reduced =
        std::any_of(early_.begin(), early_.end(), reduces) || std::any_of(late_.begin(), late_.end(), reduces);
    // Shares of the channels: where pools are stored, whose every output a store role would take from a chunk.
    if (own_ < cout_ && (reduced || !grid_.empty() || late_sinks_.empty())) return refuse("many channels");
    // Tensor cores that round their factors are faster behind a pool (H200: f12 .19 ms against .20), not where channels
    // are reduced, nor for statistics of every output: two warpgroups of eight run that chain there. Of so few input
    // channels and less than three axes they round nothing (tf32_pays).
    const bool strict = x.dtype == DType::f32 && (s_.precision == Fp32Precision::strict || axes_.size() < 3);
    const bool every_output = pool_ < 0 && !grid_.empty();
    return strict || reduced || every_output || refuse("factors that may be rounded");
}

// What comes before the pool and what behind it; false with a sentence where another family must do it.
bool CellWriter::read_steps(std::string& why) {
    auto refuse = [&](const char* sentence) {
        why = sentence;
        return false;
    };
    std::set<ValueId> before{anchor_};
    for (const TileStep& step : s_.pass.steps) {
        const Node& node = graph_[step.value];
        if (step.scope == Scope::grid) {
            const Sizes& dims = node.attributes.integers(Key::dims);
            const bool known = node.op == Op::sum || node.op == Op::mean || node.op == Op::var || node.op == Op::amax ||
                               node.op == Op::amin;
            if (!known || graph_[node.args[0]].type.rank() != graph_[anchor_].type.rank())
                return refuse("a reduction of its own kind");
            for (int64_t axis = 2; axis < graph_[anchor_].type.rank(); ++axis)
                if (std::find(dims.begin(), dims.end(), axis) == dims.end())
                    return refuse("reductions over a part of space");
            if (std::find(dims.begin(), dims.end(), 1) != dims.end())
                return refuse("reductions over channels and space");
            const Sizes& of = graph_[node.args[0]].type.shape;
            const Sizes& grid = graph_[pool_ >= 0 && !before.count(node.args[0]) ? pool_ : anchor_].type.shape;
            if (of != grid) return refuse("a reduction of what is broadcast");
            grid_.push_back(step.value);
        } else if (step.scope == Scope::tile && step.value != anchor_) {
            if (is_pointwise(node.op) || is_reduction(node.op)) {
                const bool known = !is_reduction(node.op) || node.op == Op::sum || node.op == Op::mean ||
                                   node.op == Op::amax || node.op == Op::amin || node.op == Op::logsumexp;
                if (!known) return refuse("a reduction over channels of its own kind");
                const bool early =
                    std::any_of(node.args.begin(), node.args.end(), [&](ValueId a) { return before.count(a) > 0; });
                (early ? early_ : late_).push_back(step.value);
                if (early) before.insert(step.value);
            } else {
                const auto pool = tile_pool(graph_, step.value);
                if (!pool || pool_ >= 0) return refuse("a pool of its own kind");
                for (size_t a = 0; a < axes_.size(); ++a)
                    if (pool->window[a] != axes_[a].up) return refuse("windows that are no cells");
                pool_ = step.value;
                pool_kind_ = *pool;
            }
        }
    }
    // Values that come of reads alone stand where they are used.
    if (pool_ < 0)
        early_.insert(early_.end(), late_.begin(), late_.end()), late_.clear(), std::sort(early_.begin(), early_.end());
    for (ValueId v : grid_) (pool_ >= 0 && !before.count(graph_[v].args[0]) ? late_grid_ : early_grid_).push_back(v);
    for (const Sink& sink : sinks_) {
        if (std::none_of(s_.pass.steps.begin(), s_.pass.steps.end(),
                         [&](const TileStep& step) { return step.value == sink.value; }))
            return refuse("a store of another shape");
        const bool late = pool_ >= 0 && !before.count(sink.value);
        // Neighbouring threads' cells are far apart in memory. H200: 1.92 ms for a tensor that tensor cores store in
        // 0.77.
        if (!late && (has_channels(sink.value) || cout_ == 1)) return refuse("outputs that are stored");
        (late ? late_sinks_ : early_sinks_).push_back(&sink);
        if (graph_[sink.value].type.rank() != graph_[anchor_].type.rank()) return refuse("a store of another rank");
    }
    return true;
}

FamilyProgram CellWriter::write() {
    channels_ = (own_ + 3) / 4 * 4;
    const Sizes& out = graph_[anchor_].type.shape;
    pairs_ = 1;
    for (size_t a = 0; a < axes_.size(); ++a) {
        const int64_t own = (out[a + 2] + axes_[a].up - 1) / axes_[a].up;
        cell_extent_.push_back(a + 1 == axes_.size() ? (own + cells - 1) / cells : own);
        pairs_ *= cell_extent_.back();
    }
    slices_ = std::clamp<int64_t>(resident * s_.target.multiprocessors / (out[0] * shares()), 1,
                                  (pairs_ + threads - 1) / threads);
    FamilyProgram result;
    int64_t scratch = 0;
    for (ValueId v : grid_)
        if (with_var(v) < 0) place(v, result, scratch);
    for (ValueId v : grid_)
        if (with_var(v) >= 0) result.places.emplace(v, result.places.at(with_var(v)));
    for (auto* list : {&grid_, &early_grid_, &late_grid_})
        std::erase_if(*list, [&](ValueId v) { return with_var(v) >= 0; });
    write_body();
    result.program.launches.push_back(kernel_.launch("tf_cells", out[0] * slices_ * shares(), threads,
                                                     "thin product by cells" + to_string(out) + ", " +
                                                         number(phase_count_) + " phases of " + number(cells) +
                                                         " cells x " + number(own_) + " channels a thread",
                                                     "", resident));
    result.program.scratch_bytes = static_cast<size_t>(scratch);
    result.program.note = result.program.launches[0].note;
    return result;
}

std::optional<Offer> offer_cells(const Surroundings& surroundings, const Places& places, const std::vector<Sink>& sinks,
                                 std::string* why_not) {
    const auto writer = std::make_shared<CellWriter>(surroundings, places, sinks);
    if (!writer->arrange(why_not)) return std::nullopt;
    return Offer{.write = [writer] { return writer->write(); }};
}

}  // namespace transfuse::cuda
