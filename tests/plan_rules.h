// The rules of src/plan/fusion.h, checked on a finished plan from its nodes alone: what engines rely on.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "plan/fusion.h"
#include "transfuse/error.h"

namespace transfuse {

class PlanRules {
public:
    explicit PlanRules(const Plan& plan) : plan_(plan), graph_(plan.graph) {
        for (ValueId leaf : graph_.leaves()) memory_.insert(leaf);
    }

    // Throws Error naming the first broken rule.
    void check() {
        for (size_t i = 0; i < plan_.passes.size(); ++i) {
            pass_ = &plan_.passes[i];
            where_ = "pass " + std::to_string(i + 1) + ": ";
            check_pass(i);
        }
    }

private:
    template <class... Parts>
    void must(bool holds, const Parts&... parts) {
        if (!holds) fail(where_, parts..., "\n", print(plan_));
    }
    const Node& node(ValueId v) const { return graph_[v]; }
    const Sizes& shape(ValueId v) const { return graph_[v].type.shape; }
    bool step(ValueId v) const { return scopes_.count(v) > 0; }
    bool in_scope(ValueId v, Scope scope) const { return step(v) && scopes_.at(v) == scope; }

    static bool broadcasts(const Sizes& shape, const Sizes& grid) {
        if (shape.size() > grid.size()) return false;
        for (size_t i = 0; i < shape.size(); ++i) {
            const int64_t extent = grid[grid.size() - shape.size() + i];
            if (shape[i] != 1 && shape[i] != extent) return false;
        }
        return true;
    }

    void check_pass(size_t number) {
        scopes_.clear();
        for (const TileStep& s : pass_->steps) {
            must(!step(s.value), "value ", s.value, " stands twice");
            scopes_[s.value] = s.scope;
        }
        check_operands();
        switch (pass_->kind) {
            case PassKind::prepare:
                must(number == 0, "prepare is not first");
                for (const TileStep& s : pass_->steps) must(s.scope == Scope::tail, "prepare step outside the tail");
                break;
            case PassKind::dense:
                check_dense();
                break;
            case PassKind::moments:
                check_moments();
                break;
            case PassKind::correlate:
                check_correlate();
                break;
            case PassKind::pointwise:
                check_pointwise();
                break;
            case PassKind::library:
                check_library();
                break;
        }
        if (pass_->kind != PassKind::prepare) check_tail();
        for (const Store& store : pass_->stores) check_store(store);
    }

    void check_operands() {
        std::set<ValueId> used;
        for (size_t i = 0; i < pass_->steps.size(); ++i) {
            const TileStep& s = pass_->steps[i];
            must(i == 0 || pass_->steps[i - 1].scope < s.scope ||
                     (pass_->steps[i - 1].scope == s.scope && pass_->steps[i - 1].value < s.value),
                 "steps out of order");
            must(!plan_.views[static_cast<size_t>(s.value)], "a view is a step");
            for (ValueId a : node(s.value).args) {
                if (is_literal(graph_, a)) continue;
                if (!step(a)) {
                    used.insert(a);
                    continue;
                }
                const Scope from = scopes_[a];
                const bool fine = s.scope == Scope::tail       ? from >= Scope::grid
                                  : s.scope == Scope::prologue ? from == Scope::prologue
                                                               : from <= Scope::tile;
                must(fine, "value ", s.value, " looks forward to ", a);
            }
        }
        for (const Store& store : pass_->stores)
            if (!step(store.value)) used.insert(store.value);
        must(std::vector<ValueId>(used.begin(), used.end()) == pass_->reads, "reads are not what its steps read");
        for (ValueId v : pass_->reads) must(memory_.count(view_root(plan_, v)), "reads ", v, " before it is stored");
    }

    void check_store(const Store& store) {
        must(step(store.value) || pass_->steps.empty(), "stores what it does not compute");
        if (step(store.value)) must(!in_scope(store.value, Scope::prologue), "stores a prologue value");
        if (node(store.target).op == Op::concat && store.target != store.value) {
            int64_t& filled = filled_[store.target];
            filled += numel(shape(store.value));
            if (filled == numel(shape(store.target))) memory_.insert(store.target);
        } else {
            must(numel(shape(store.value)) == numel(shape(store.target)), "store of another size");
            memory_.insert(store.target);
        }
    }

    // A product that ordinary arithmetic makes, thin or depthwise, in a pass of pointwise steps.
    bool takes_elements() const {
        if (pass_->kind != PassKind::dense || node(pass_->anchor).type.rank() < 4) return false;
        const Sizes &w = shape(node(pass_->anchor).args[1]), &up = node(pass_->anchor).attributes.integers(Key::up);
        const bool depthwise = w[0] > 1 && w[1] == 1 && w[2] == 1 && numel(w) <= 64 * w[0];
        bool fits = up == Sizes(up.size(), 1) && (depthwise || (w[0] == 1 && numel(w) <= plan_.machine.thin_work));
        for (const TileStep& s : pass_->steps)
            fits = fits && (s.scope == Scope::tile || s.scope == Scope::prologue) &&
                   (s.value == pass_->anchor || is_pointwise(node(s.value).op));
        return fits;
    }

    // Prologue values have the shape of `operand` or broadcast to it.
    void check_prologue(const std::set<ValueId>& operands) {
        for (const TileStep& s : pass_->steps) {
            if (s.scope != Scope::prologue) continue;
            const Node& n = node(s.value);
            for (ValueId a : n.args)
                for (ValueId x : operands)
                    must(plan_.machine.prologue_casts || takes_elements() || step(a) || shape(a) != shape(x) ||
                             node(a).type.dtype == node(x).type.dtype || is_literal(graph_, a),
                         "cast in a prologue");
            if (n.op == Op::concat) {
                must(n.attributes.integer(Key::axis) == 1 &&
                         static_cast<int>(n.args.size()) <= plan_.machine.concat_sources,
                     "concat in a prologue");
                for (ValueId a : n.args) must(!step(a), "pieces of a prologue's concat are reads");
            } else {
                must(is_pointwise(n.op), "prologue op");
            }
            bool fine = false;
            for (ValueId x : operands) fine = fine || broadcasts(shape(s.value), shape(x));
            must(fine, "prologue shape");
        }
    }

    void check_dense() {
        const ValueId y = pass_->anchor;
        must(in_scope(y, Scope::tile) && node(y).op == Op::lattice, "dense anchor");
        check_prologue({node(y).args[0]});
        std::map<ValueId, bool> pooled;  // tile values: behind the pool?
        int pools = 0;
        Sizes grids[2] = {shape(y), {}};
        bool of_channels = false, of_rows = false;
        for (const TileStep& s : pass_->steps) {
            const Node& n = node(s.value);
            if (s.scope != Scope::tile && s.scope != Scope::grid) continue;
            if (s.value == y) {
                pooled[y] = false;
                continue;
            }
            std::set<bool> levels;
            for (ValueId a : n.args)
                if (in_scope(a, Scope::tile)) levels.insert(pooled.at(a));
            if (s.scope == Scope::grid) {
                must(is_reduction(n.op) && levels.size() == 1, "grid op");
                must(n.op != Op::var || plan_.machine.grid_var, "grid var");
                const Sizes& dims = n.attributes.integers(Key::dims);
                for (size_t axis = 2; axis < shape(n.args[0]).size(); ++axis)
                    must(plan_.machine.grid_rows || shape(n.args[0])[1] == 1 || shape(n.args[0])[axis] == 1 ||
                             std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis)) != dims.end(),
                         "grid reduction of some spatial axes");
                continue;
            }
            if (is_pointwise(n.op)) {
                must(levels.size() <= 1, "values before and behind the pool in one step");
                const bool behind = levels.empty() ? !broadcasts(n.type.shape, grids[0]) : *levels.begin();
                must(broadcasts(n.type.shape, grids[behind]), "tile shape of ", s.value);
                for (ValueId a : n.args) must(broadcasts(shape(a), grids[behind]), "operand shape of ", s.value);
                pooled[s.value] = behind;
            } else if (is_reduction(n.op)) {
                must(levels.size() == 1, "reduction of what is no tile value");
                const Sizes& dims = n.attributes.integers(Key::dims);
                must(dims.size() == 1 && n.attributes.flag(Key::keepdim), "tile reduction");
                if (dims[0] == 1) {
                    must(grids[0][1] <= plan_.machine.tile_channels, "too many channels for a tile");
                } else {
                    must(dims[0] + 1 == static_cast<int64_t>(grids[0].size()) && shape(n.args[0]) == grids[0],
                         "row reduction");
                    must(grids[0].back() <= plan_.machine.tile_row, "rows too long for a tile");
                    must(numel(grids[0]) <= plan_.machine.tile_row_values, "too many rows for tiles");
                }
                (dims[0] == 1 ? of_channels : of_rows) = true;
                pooled[s.value] = *levels.begin();
            } else {
                const auto pool = tile_pool(graph_, s.value);
                must(pool && numel(pool->window) <= plan_.machine.pool_outputs, "tile op");
                must(levels == std::set<bool>{false} && ++pools <= plan_.machine.pools_in_tile, "pools");
                grids[1] = n.type.shape;
                pooled[s.value] = true;
            }
        }
        for (const TileStep& s : pass_->steps)
            must(!of_rows || (s.scope != Scope::grid && s.scope != Scope::tail),
                 "rows and the grid reduced in one pass");
        must(!of_rows || (!of_channels && pools == 0), "rows beside channels or a pool");
        if (pools == 0 || plan_.machine.sinks_before_pool) return;
        for (const Store& store : pass_->stores)
            must(!in_scope(store.value, Scope::tile) || pooled.at(store.value), "a value before the pool is stored");
        for (const TileStep& s : pass_->steps) {
            if (s.scope == Scope::grid) must(pooled.at(node(s.value).args[0]), "a value before the pool is reduced");
            if (s.scope == Scope::tile && is_reduction(node(s.value).op))
                must(pooled.at(s.value), "channels reduced before the pool");
        }
    }

    void check_moments() {
        must(in_scope(pass_->anchor, Scope::grid) && node(pass_->anchor).op == Op::box_sums, "moments anchor");
        const ValueId x = node(pass_->anchor).args[0];
        check_prologue({x});
        for (const TileStep& s : pass_->steps) {
            must(s.scope != Scope::tile, "tile value in a moments pass");
            if (s.scope == Scope::grid)
                must(node(s.value).op == Op::box_sums && node(s.value).args[0] == x, "moments of two tensors");
        }
    }

    void check_correlate() {
        const Op op = node(pass_->anchor).op;
        must(in_scope(pass_->anchor, Scope::grid) && (op == Op::correlate || op == Op::covariance), "correlate anchor");
        const auto& args = node(pass_->anchor).args;
        check_prologue(op == Op::correlate ? std::set<ValueId>{args[0], args[1]} : std::set<ValueId>{args[0]});
        for (const TileStep& s : pass_->steps)
            must(s.scope != Scope::tile && (s.scope != Scope::grid || s.value == pass_->anchor), "correlate steps");
    }

    void check_pointwise() {
        const bool small =
            !pass_->steps.empty() && std::all_of(pass_->steps.begin(), pass_->steps.end(),
                                                 [](const TileStep& s) { return s.scope == Scope::tail; });
        if (small) return;
        if (pass_->steps.empty()) {
            must(pass_->reads.size() == 1 || !pass_->stores.empty(), "a pass that does nothing");
            return;
        }
        const bool anchored =
            step(pass_->anchor) || std::count(pass_->reads.begin(), pass_->reads.end(), pass_->anchor);
        must(anchored, "anchor is neither a step nor a read");
        const Sizes domain = shape(pass_->anchor);
        std::set<Sizes> rows;
        for (const TileStep& s : pass_->steps) {
            const Node& n = node(s.value);
            if (s.scope == Scope::tail) continue;
            must(s.scope != Scope::prologue, "prologue of a loop");
            if (is_literal(graph_, s.value)) continue;
            for (ValueId a : n.args) must(broadcasts(shape(a), domain), "operand outside the domain");
            if (s.scope == Scope::grid) {
                must(is_reduction(n.op), "grid op");
            } else if (is_reduction(n.op)) {
                must(n.attributes.flag(Key::keepdim), "row reduction without keepdim");
                rows.insert(n.attributes.integers(Key::dims));
                must(plan_.machine.any_rows || usual_row(n.attributes.integers(Key::dims), domain.size()),
                     "row over other axes");
                int64_t row = 1;
                for (int64_t axis : n.attributes.integers(Key::dims)) row *= domain[static_cast<size_t>(axis)];
                must(row <= plan_.machine.row_elements, "row too long");
            } else {
                must(is_pointwise(n.op) && broadcasts(n.type.shape, domain), "tile op");
            }
        }
        must(rows.size() <= 1, "rows over different axes");
    }

    // [1], all spatial axes, or both.
    static bool usual_row(const Sizes& dims, size_t rank) {
        Sizes spatial, all{1};
        for (size_t axis = 2; axis < rank; ++axis) spatial.push_back(static_cast<int64_t>(axis));
        all.insert(all.end(), spatial.begin(), spatial.end());
        return dims == Sizes{1} || dims == spatial || dims == all;
    }

    void check_library() {
        const ValueId y = pass_->anchor;
        must(in_scope(y, Scope::tile), "library anchor");
        if (pass_->steps.size() == 1) return;
        must(plan_.machine.pools_in_loop && tile_pool(graph_, y).has_value(), "library is one node");
        check_prologue({node(y).args[0]});
        for (const TileStep& s : pass_->steps)
            must(s.scope == Scope::prologue || s.value == y ||
                     (s.scope == Scope::tile && is_pointwise(node(s.value).op) && broadcasts(shape(s.value), shape(y))),
                 "step beside a pool");
    }

    void check_tail() {
        for (const TileStep& s : pass_->steps) {
            if (s.scope != Scope::tail) continue;
            must(numel(shape(s.value)) <= plan_.machine.tail_elements, "tail too large");
            must(cost(graph_, s.value).flops <= plan_.machine.tail_flops, "tail too long");
        }
    }

    const Plan& plan_;
    const Graph& graph_;
    const Pass* pass_ = nullptr;
    std::string where_;
    std::map<ValueId, Scope> scopes_;
    std::set<ValueId> memory_;
    std::map<ValueId, int64_t> filled_;
};

inline void check_rules(const Plan& plan) { PlanRules(plan).check(); }

}  // namespace transfuse
