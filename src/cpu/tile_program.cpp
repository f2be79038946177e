#include "cpu/tile_program.h"

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
        finish();
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

    void place(const Step& step, int stage, bool once) {
        if (static_cast<size_t>(stage) >= program_->steps_.size())
            program_->steps_.resize(static_cast<size_t>(stage) + 1);
        TileProgram::Stage& s = program_->steps_[static_cast<size_t>(stage)];
        (once ? s.once : s.channel).push_back(step);
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
        if (node.op == Op::var) step.correction = static_cast<double>(node.attributes.integer(Key::correction));
        Slot s;
        s.value = v;
        s.type = node.type;
        s.level = level;
        s.stage = stage;
        s.once = s.resident = true;
        step.slot = known_[v] = add_slot(s);
        ready_[step.slot] = stage + 1;
        program_->steps_.resize(std::max(program_->steps_.size(), static_cast<size_t>(stage) + 1));
        program_->steps_[static_cast<size_t>(stage)].barrier.push_back(step);
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
        ready_[step.slot] = stage + 1;
        program_->steps_.resize(std::max(program_->steps_.size(), static_cast<size_t>(stage) + 1));
        program_->steps_[static_cast<size_t>(stage)].barrier.push_back(step);
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

    bool add_sinks() {
        for (const Store& store : pass_.stores) {
            const bool late = std::any_of(pass_.steps.begin(), pass_.steps.end(), [&](const TileStep& s) {
                return s.value == store.value && (s.scope == Scope::grid || s.scope == Scope::tail);
            });
            if (late) continue;
            auto at = known_.find(store.value);
            if (at == known_.end()) {  // a copy: the value is read and stored
                const int s = operand(store.value, 0, 0);
                if (s < 0) return false;
                at = known_.emplace(store.value, s).first;
            }
            if (!covers_tile(at->second, graph_[store.value].type.shape)) return false;
            slot(at->second).store_sinks.push_back(static_cast<int>(program_->stores_.size()));
            program_->stores_.push_back({at->second, store});
        }
        for (const TileStep& step : pass_.steps) {
            if (step.scope != Scope::grid) continue;
            const ValueId x = graph_[step.value].args[0];
            auto at = known_.find(x);
            if (at == known_.end()) {
                const int s = operand(x, 0, 0);
                if (s < 0) return false;
                at = known_.emplace(x, s).first;
            }
            if (!covers_tile(at->second, graph_[x].type.shape)) return false;
            slot(at->second).grid_sinks.push_back(static_cast<int>(program_->grids_.size()));
            program_->grids_.push_back({at->second, step.value});
        }
        return true;
    }

    // exp(x − logsumexp(x)) needs each exponential once: the reduction leaves exp(x − top) where x was and yields 1/Σ.
    // Only where nothing else reads x afterwards, the logarithm, or the difference.
    void fuse_softmax() {
        for (size_t stage = 0; stage + 1 < program_->steps_.size(); ++stage)
            for (Step& reduce : program_->steps_[stage].barrier) {
                if (reduce.kind != Step::Kind::reduce || reduce.reduction != Op::logsumexp) continue;
                const int x = reduce.args[0], sum = reduce.slot;
                Step *difference = nullptr, *exponential = nullptr;
                int uses_of_x = 0, uses_of_sum = 0, uses_of_difference = 0;
                for (size_t s = stage; s < program_->steps_.size(); ++s) {
                    TileProgram::Stage& later = program_->steps_[s];
                    for (std::vector<Step>* list : {&later.once, &later.channel, &later.barrier}) {
                        if (s == stage && list != &later.barrier) continue;
                        for (Step& step : *list)
                            for (int a = 0; a < step.arg_count; ++a) {
                                if (&step != &reduce && step.args[a] == x) ++uses_of_x;
                                if (step.args[a] == sum) ++uses_of_sum;
                                if (difference && step.args[a] == difference->slot) {
                                    ++uses_of_difference;
                                    if (step.function.op == RowOp::exp) exponential = &step;
                                }
                                if (a == 1 && step.kind == Step::Kind::pointwise && step.function.op == RowOp::sub &&
                                    step.args[0] == x && step.args[1] == sum)
                                    difference = &step;
                            }
                    }
                }
                if (!difference || !exponential || uses_of_x != 1 || uses_of_sum != 1 || uses_of_difference != 1)
                    continue;
                if (has_sinks(sum) || has_sinks(difference->slot)) continue;
                reduce.softmax = true;
                // The difference becomes the quotient, the exponential a copy that costs nothing beside it.
                exponential->function = {RowOp::mul, {0, 0}};
                exponential->args[0] = x;
                exponential->args[1] = sum;
                exponential->arg_count = 2;
                for (TileProgram::Stage& later : program_->steps_)
                    std::erase_if(later.channel, [&](const Step& s) { return &s == difference; });
            }
    }
    bool has_sinks(int s) { return !slot(s).store_sinks.empty() || !slot(s).grid_sinks.empty(); }

    // Registers: within a stage, a plane is free again after its last use; what is computed once keeps its own.
    void finish() {
        program_->stages_ = std::max<int>(1, static_cast<int>(program_->steps_.size()));
        program_->steps_.resize(static_cast<size_t>(program_->stages_));
        fuse_softmax();
        int registers = 0;
        for (const TileProgram::Stage& stage : program_->steps_) {
            std::map<int, size_t> last;
            for (size_t i = 0; i < stage.channel.size(); ++i)
                for (int a = 0; a < stage.channel[i].arg_count; ++a) last[stage.channel[i].args[a]] = i;
            std::vector<int> free;
            int used = 0;
            const auto needs = [&](int s) {
                const Slot& info = slot(s);
                return !info.uniform && !info.once && !info.resident && !info.given && !info.literal;
            };
            const auto take = [&](int s) {
                if (!needs(s)) return;
                if (free.empty()) free.push_back(used++);
                slot(s).reg = free.back();
                free.pop_back();
            };
            for (size_t i = 0; i < stage.channel.size(); ++i) {
                const Step& step = stage.channel[i];
                const auto give_back = [&] {
                    for (int a = 0; a < step.arg_count; ++a) {
                        const int s = step.args[a];
                        const bool again = a > 0 && (step.args[0] == s || (a > 1 && step.args[1] == s));
                        if (!again && needs(s) && last[s] == i) free.push_back(slot(s).reg);
                    }
                };
                if (step.kind == Step::Kind::pool) {  // reads windows: not in place
                    take(step.slot);
                    give_back();
                } else {
                    give_back();
                    take(step.slot);
                }
                if (needs(step.slot) && !last.contains(step.slot)) free.push_back(slot(step.slot).reg);
            }
            registers = std::max(registers, used);
        }
        program_->registers_ = registers;
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
