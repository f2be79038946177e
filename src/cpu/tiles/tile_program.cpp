#include "cpu/tiles/tile_program.h"

#include <algorithm>
#include <map>

#include "transfuse/error.h"

namespace transfuse::cpu {

class TileProgramMaker {
public:
    TileProgramMaker(const Plan& plan, const Pass& pass, const Sizes& grid)
        : plan_(plan), pass_(pass), graph_(plan.graph) {
        program_->grid_shape_ = program_->pooled_shape_ = grid;
        program_->grid_ = program_->pooled_ = to_five(grid, 1);
    }

    std::unique_ptr<TileProgram> make(const std::vector<ValueId>& steps, ValueId given) {
        if (given >= 0) program_->given_ = add_given(given);
        for (ValueId v : steps)
            if (v != given && !add_step(v)) return nullptr;
        if (!add_sinks()) return nullptr;
        program_->stages_ = std::max<int>(1, static_cast<int>(program_->steps_.size()));
        program_->steps_.resize(static_cast<size_t>(program_->stages_));
        program_->assign_registers();
        return std::move(program_);
    }

private:
    using Slot = TileProgram::Slot;
    using Step = TileProgram::Step;

    Slot& slot(int s) { return program_->slots_[static_cast<size_t>(s)]; }

    int add_slot(Slot s) {
        program_->slots_.push_back(std::move(s));
        return static_cast<int>(program_->slots_.size()) - 1;
    }

    int add_given(ValueId v) {
        Slot s;
        s.value = v;
        s.type = graph_[v].type;
        s.given = true;
        return known_[v] = add_slot(s);
    }

    const Sizes& grid_of(int level) const { return level ? program_->pooled_shape_ : program_->grid_shape_; }

    // An operand as a slot; reads get a load in the stage that uses them. −1: cannot be expressed.
    int operand(ValueId v, int level, int stage) {
        if (const auto at = known_.find(v); at != known_.end()) return at->second;
        const Type& type = graph_[v].type;
        Slot s;
        s.value = v;
        s.type = type;
        s.level = level;
        if (is_literal(graph_, v)) {
            s.literal = s.uniform = s.once = true;
            s.number = graph_[v].attributes.number(Key::value);
            return known_[v] = add_slot(s);
        }
        const auto key = std::make_pair(v, level * 64 + stage);
        if (const auto at = loaded_.find(key); at != loaded_.end()) return at->second;
        const Sizes& grid = grid_of(level);
        if (type.shape.size() > grid.size()) return -1;
        const size_t lead = grid.size() - type.shape.size();
        s.read = s.uniform = s.once = true;
        for (size_t axis = 0; axis < type.shape.size(); ++axis) {
            if (type.shape[axis] == 1) continue;
            if (type.shape[axis] != grid[lead + axis]) return -1;
            if (lead + axis == 1) s.once = false;
            if (lead + axis >= 2) s.uniform = false;
        }
        s.stage = stage;
        s.read_index = static_cast<int>(program_->reads_.size());
        const int index = add_slot(s);
        program_->reads_.push_back(index);
        loaded_[key] = index;
        Step step{};
        step.kind = Step::Kind::load;
        step.slot = index;
        place(step, stage, s.once);
        return index;
    }

    TileProgram::Stage& stage_at(int stage) {
        const auto at = static_cast<size_t>(stage);
        if (at >= program_->steps_.size()) program_->steps_.resize(at + 1);
        return program_->steps_[at];
    }
    void place(const Step& step, int stage, bool once) {
        (once ? stage_at(stage).once : stage_at(stage).channel).push_back(step);
    }
    // Behind all channels of a stage: what it makes can be read from the next stage on.
    void place_at_barrier(const Step& step, int stage) {
        ready_[step.slot] = stage + 1;
        stage_at(stage).barrier.push_back(step);
    }

    bool add_step(ValueId v) {
        const Node& node = graph_[v];
        if (is_reduction(node.op)) return add_reduction(v);
        if (is_pointwise(node.op)) return add_pointwise(v);
        return add_pool(v);
    }

    bool add_pointwise(ValueId v) {
        const Node& node = graph_[v];
        int level = 0, stage = 0;
        for (ValueId a : node.args)
            if (const auto at = known_.find(a); at != known_.end() && !slot(at->second).literal) {
                level = std::max(level, slot(at->second).level);
                stage = std::max(stage, ready_[at->second]);
            }
        Step step{};
        step.kind = Step::Kind::pointwise;
        step.function = row_function(node);
        Slot s;
        s.value = v;
        s.type = node.type;
        s.level = level;
        s.stage = stage;
        s.uniform = s.once = true;
        for (ValueId a : node.args) {
            const int arg = operand(a, level, stage);
            if (arg < 0) return false;
            if (!slot(arg).uniform && slot(arg).level != level) return false;
            step.args[step.arg_count++] = arg;
            s.uniform = s.uniform && slot(arg).uniform;
            s.once = s.once && slot(arg).once;
            use(arg, stage);
        }
        step.slot = known_[v] = add_slot(s);
        ready_[step.slot] = stage;
        place(step, stage, s.once);
        return true;
    }

    // Over channels within the tile: its operand must be complete, its result opens the next stage.
    bool add_reduction(ValueId v) {
        const Node& node = graph_[v];
        const Sizes& dims = node.attributes.integers(Key::dims);
        const auto at = known_.find(node.args[0]);
        if (is_grid(v)) return true;  // a sink
        if (!node.attributes.flag(Key::keepdim)) return false;
        if (dims != Sizes{1}) return add_plane_reduction(v);
        const int stage = at != known_.end() ? ready_[at->second] : 0;
        const int level = at != known_.end() ? slot(at->second).level : 0;
        const int arg = operand(node.args[0], level, stage);
        if (arg < 0 || slot(arg).uniform || slot(arg).once) return false;
        slot(arg).resident = true;
        Step step{};
        step.kind = Step::Kind::reduce;
        step.args[0] = arg;
        step.arg_count = 1;
        step.reduction = node.op;
        step.finite = node.op == Op::logsumexp && node.attributes.flag(Key::finite);
        if (node.op == Op::var) step.correction = static_cast<double>(node.attributes.integer(Key::correction));
        Slot s;
        s.value = v;
        s.type = node.type;
        s.level = level;
        s.stage = stage;
        s.once = s.resident = true;
        step.slot = known_[v] = add_slot(s);
        place_at_barrier(step, stage);
        return true;
    }

    // Over all spatial axes, alone or with the channels: one number a plane, or one a tile.
    bool add_plane_reduction(ValueId v) {
        const Node& node = graph_[v];
        Sizes spatial;
        for (int64_t axis = 2; axis < static_cast<int64_t>(program_->grid_shape_.size()); ++axis)
            spatial.push_back(axis);
        Sizes all = spatial;
        all.insert(all.begin(), 1);
        const Sizes& dims = node.attributes.integers(Key::dims);
        if (spatial.empty() || (dims != spatial && dims != all)) return false;
        const auto at = known_.find(node.args[0]);
        const int stage = at != known_.end() ? ready_[at->second] : 0;
        const int arg = operand(node.args[0], 0, stage);
        if (arg < 0 || slot(arg).uniform || slot(arg).level != 0 || !covers_tile(arg, graph_[node.args[0]].type.shape))
            return false;
        Step step{};
        step.kind = Step::Kind::reduce_plane;
        step.args[0] = arg;
        step.arg_count = 1;
        step.reduction = node.op;
        step.across_channels = dims == all && !slot(arg).once;
        step.finite = node.op == Op::logsumexp && node.attributes.flag(Key::finite);
        if (node.op == Op::var) step.correction = static_cast<double>(node.attributes.integer(Key::correction));
        Slot s;
        s.value = v;
        s.type = node.type;
        s.stage = stage;
        s.uniform = true;
        s.once = step.across_channels || slot(arg).once;
        s.resident = step.across_channels;
        program_->whole_planes_ = true;
        use(arg, stage);
        if (step.across_channels) slot(arg).resident = true;
        step.slot = known_[v] = add_slot(s);
        if (!step.across_channels) {
            ready_[step.slot] = stage;
            place(step, stage, s.once);
            return true;
        }
        place_at_barrier(step, stage);
        return true;
    }

    bool add_pool(ValueId v) {
        const Node& node = graph_[v];
        const std::optional<TilePool> pool = tile_pool(graph_, v);
        const auto at = known_.find(node.args[0]);
        if (!pool || at == known_.end() || slot(at->second).uniform || slot(at->second).level != 0) return false;
        if (program_->window_ != std::array<int64_t, 3>{1, 1, 1}) return false;
        const int stage = ready_[at->second];
        for (size_t a = 0; a < pool->window.size(); ++a)
            program_->window_[a + 3 - pool->window.size()] = pool->window[a];
        program_->pooled_shape_ = node.type.shape;
        program_->pooled_ = to_five(node.type.shape, 1);
        Step step{};
        step.kind = Step::Kind::pool;
        step.args[0] = at->second;
        step.arg_count = 1;
        step.pool = *pool;
        Slot s;
        s.value = v;
        s.type = node.type;
        s.level = 1;
        s.stage = stage;
        s.once = slot(at->second).once;
        use(at->second, stage);
        step.slot = known_[v] = add_slot(s);
        ready_[step.slot] = stage;
        place(step, stage, s.once);
        return true;
    }

    // A value computed in an earlier stage must outlive it; what is computed once lives on anyway.
    void use(int s, int stage) {
        if (slot(s).literal || slot(s).read) return;
        if (slot(s).stage < stage) slot(s).resident = true;
    }

    bool is_grid(ValueId v) const {
        return std::any_of(pass_.steps.begin(), pass_.steps.end(),
                           [&](const TileStep& s) { return s.value == v && s.scope == Scope::grid; });
    }

    bool covers_tile(int s, const Sizes& shape) {
        const Slot& info = slot(s);
        const Sizes& grid = grid_of(info.level);
        if (info.uniform || shape.size() != grid.size()) return false;
        for (size_t axis = 0; axis < shape.size(); ++axis) {
            if (axis == 1 && info.once && shape[1] == 1) continue;
            if (shape[axis] != grid[axis]) return false;
        }
        return info.once == (shape[1] == 1 && grid[1] != 1) || grid[1] == 1;
    }

    // Whether a value is one number for each plane of the tile, which holds planes whole.
    bool covers_planes(int s, const Sizes& shape) const {
        const Slot& info = program_->slots_[static_cast<size_t>(s)];
        const Sizes& grid = program_->grid_shape_;
        return program_->whole_planes_ && info.uniform && info.level == 0 && shape.size() == grid.size() &&
               shape[0] == grid[0] && shape[1] == (info.once ? 1 : grid[1]);
    }

    // The slot of a value that is complete on the tile, for a sink: an element for each of the tile's, or a number for
    // each plane. What no step makes is read. −1: none.
    int complete_tile(ValueId v) {
        const Sizes& shape = graph_[v].type.shape;
        auto at = known_.find(v);
        if (at == known_.end()) {
            const int s = operand(v, 0, 0);
            if (s < 0) return -1;
            at = known_.emplace(v, s).first;
        } else if (covers_planes(at->second, shape)) {
            return at->second;
        }
        return covers_tile(at->second, shape) ? at->second : -1;
    }

    bool add_sinks() {
        for (const Store& store : pass_.stores) {
            const bool late = std::any_of(pass_.steps.begin(), pass_.steps.end(), [&](const TileStep& s) {
                return s.value == store.value && (s.scope == Scope::grid || s.scope == Scope::tail);
            });
            if (late) continue;
            const int stored = complete_tile(store.value);
            if (stored < 0) return false;
            slot(stored).store_sinks.push_back(static_cast<int>(program_->stores_.size()));
            program_->stores_.push_back({stored, store});
        }
        for (const TileStep& step : pass_.steps) {
            if (step.scope != Scope::grid) continue;
            const int reduced = complete_tile(graph_[step.value].args[0]);
            if (reduced < 0) return false;
            slot(reduced).grid_sinks.push_back(static_cast<int>(program_->grids_.size()));
            program_->grids_.push_back({reduced, step.value});
            const Sizes& dims = graph_[step.value].attributes.integers(Key::dims);
            if (std::find(dims.begin(), dims.end(), 1) != dims.end()) program_->reduces_channels_ = true;
        }
        return true;
    }

    const Plan& plan_;
    const Pass& pass_;
    const Graph& graph_;
    std::unique_ptr<TileProgram> program_ = std::make_unique<TileProgram>();
    std::map<ValueId, int> known_;
    std::map<std::pair<ValueId, int>, int> loaded_;
    std::map<int, int> ready_;  // slot → first stage that may read it
};

std::unique_ptr<TileProgram> TileProgram::compile(const Plan& plan, const Pass& pass, const std::vector<ValueId>& steps,
                                                  ValueId given, const Sizes& grid) {
    if (grid.size() < 2 || grid.size() > 5) return nullptr;
    return TileProgramMaker(plan, pass, grid).make(steps, given);
}

int TileProgram::slot_of(ValueId value) const {
    for (size_t s = 0; s < slots_.size(); ++s)
        if (slots_[s].value == value) return static_cast<int>(s);
    fail("the tile program has no value %", value);
}

bool TileProgram::by_elements() const {
    return cuts_channels() && grids_.empty() && reads_.empty() && !whole_planes_ && !given_is_resident() &&
           window_ == std::array<int64_t, 3>{1, 1, 1};
}

bool TileProgram::cuts_channels() const {
    return stages_ == 1 && !reduces_channels_ && steps_[0].once.empty() && steps_[0].barrier.empty();
}

int64_t TileProgram::resident_bytes(int64_t elements, int64_t element_bytes) const {
    int64_t planes = 0;
    for (const Slot& slot : slots_)
        if (slot.resident && !slot.uniform) planes += slot.once ? 1 : channels();
    return planes * elements * element_bytes;
}

BoundProgram::BoundProgram(const TileProgram& program, const Memory& memory) {
    for (int s : program.reads_) {
        const TileProgram::Slot& slot = program.slots_[static_cast<size_t>(s)];
        reads.push_back(
            Placed::under(memory.source(slot.value), slot.level ? program.pooled_shape_ : program.grid_shape_));
    }
    for (const TileProgram::StoreSink& sink : program.stores_) {
        const TensorView view = memory.target(sink.store);
        const Sizes& shape = program.slots_[static_cast<size_t>(sink.slot)].type.shape;
        require(view.shape == shape, "a fused store cannot reshape ", to_string(shape), " into ",
                to_string(view.shape));
        stores.push_back(Placed::under(view, shape));
    }
}

}  // namespace transfuse::cpu
