// The rules of fusion.h as predicates.
#include <algorithm>

#include "plan/draft.h"
#include "plan/fusion.h"

namespace transfuse {

Scope scope_of(Slot slot) {
    switch (slot) {
        case Slot::prologue:
            return Scope::prologue;
        case Slot::grid:
            return Scope::grid;
        case Slot::tail:
            return Scope::tail;
        default:
            return Scope::tile;
    }
}

namespace {

// An average pool: y = lattice with one group a channel, one tap pattern of literal weights, windows side by side.
std::optional<TilePool> average_pool(const Graph& graph, ValueId id) {
    const Node& node = graph[id];
    const Node& w = graph[node.args[1]];
    if (node.args.size() != 2 || w.op != Op::full) return std::nullopt;
    const Sizes& x = graph[node.args[0]].type.shape;
    if (x.size() < 3 || w.type.shape[0] != x[1] || w.type.shape[1] != 1 || w.type.shape[2] != 1) return std::nullopt;
    TilePool pool{TilePool::Kind::sum, {}, w.attributes.number(Key::value)};
    for (const Lattice& axis : lattices(graph, id)) {
        // o·K + (K−1) = i + k: taps K−1−k = i − o·K, the K inputs of window o.
        const bool beside = axis.up == 1 && axis.dil == 1 && axis.down == axis.taps && axis.offset == axis.taps - 1 &&
                            axis.out * axis.taps <= axis.in;
        if (!beside) return std::nullopt;
        pool.window.push_back(axis.taps);
    }
    return pool;
}

}  // namespace

std::optional<TilePool> tile_pool(const Graph& graph, ValueId id) {
    const Node& node = graph[id];
    if (node.op == Op::lattice) return average_pool(graph, id);
    if (node.op != Op::max_pool && node.op != Op::min_pool) return std::nullopt;
    const Sizes& kernel = node.attributes.integers(Key::kernel);
    if (!node.attributes.has(Key::stride) || node.attributes.integers(Key::stride) != kernel) return std::nullopt;
    for (int64_t p : node.attributes.integers(Key::padding))
        if (p != 0) return std::nullopt;
    for (int64_t d : node.attributes.integers(Key::dilation))
        if (d != 1) return std::nullopt;
    const Sizes& from = graph[node.args[0]].type.shape;
    if (from.size() != kernel.size() + 2) return std::nullopt;
    for (size_t axis = 0; axis < kernel.size(); ++axis)  // no window reaches past the end
        if (node.type.shape[axis + 2] * kernel[axis] > from[axis + 2]) return std::nullopt;
    return TilePool{node.op == Op::max_pool ? TilePool::Kind::max : TilePool::Kind::min, kernel, 1};
}

bool reduces_rows(const Graph& graph, const Pass& pass) {
    return pass.kind == PassKind::dense && std::any_of(pass.steps.begin(), pass.steps.end(), [&](const TileStep& step) {
               const Node& node = graph[step.value];
               return step.scope == Scope::tile && is_reduction(node.op) &&
                      node.attributes.integers(Key::dims) != Sizes{1};
           });
}

Slot Draft::twin_slot(int pass, ValueId v, int* from) const {
    const int origin = passes[static_cast<size_t>(pass)].origin;
    if (origin < 0) return Slot::absent;
    for (int other = 0; other < count(); ++other) {
        if (other == pass || (other != origin && passes[static_cast<size_t>(other)].origin != origin)) continue;
        const Slot found = slot(other, v);
        if (found != Slot::tile && found != Slot::pooled) continue;
        if (precedes(pass, other)) continue;
        const Sizes& row = passes[static_cast<size_t>(other)].row;  // what it is made of may be reduced along it
        if (!row.empty() && row != passes[static_cast<size_t>(pass)].row) continue;
        if (from) *from = other;
        return found;
    }
    return Slot::absent;
}

// One without a pool and other reductions: tiles of whole rows hold neither all channels nor whole images.
bool Draft::may_hold_rows(int p) const {
    const DraftPass& pass = passes[static_cast<size_t>(p)];
    if (!pass.row.empty()) return true;
    if (!pass.pooled.empty()) return false;
    for (ValueId v = 0; v < facts.graph.size(); ++v)
        if (const Slot place = slot(p, v);
            place == Slot::grid || place == Slot::tail || (place == Slot::tile && is_reduction(facts.graph[v].op)))
            return false;
    return true;
}

Slot Draft::fit_reduction(ValueId v, int p, Slot operand) const {
    const Node& node = facts.graph[v];
    const DraftPass& pass = passes[static_cast<size_t>(p)];
    const Sizes& shape = facts.shape(node.args[0]);
    const Sizes& grid = operand == Slot::pooled ? pass.pooled : pass.domain;
    if (shape.size() != grid.size()) return Slot::absent;
    const Sizes& dims = node.attributes.integers(Key::dims);
    for (int64_t axis : dims) {
        const auto a = static_cast<size_t>(axis);
        if (shape[a] != grid[a] && shape[a] != 1) return Slot::absent;
    }
    const bool keepdim = node.attributes.flag(Key::keepdim);
    if (pass.kind == PassKind::dense) {
        const Sizes last{static_cast<int64_t>(grid.size()) - 1};
        if (dims == last && keepdim && shape == grid && may_hold_rows(p) && grid.back() <= facts.machine.tile_row &&
            numel(grid) <= facts.machine.tile_row_values)
            return operand;
        if (!pass.row.empty()) return Slot::absent;
        if (dims == Sizes{1} && keepdim && grid[1] <= facts.machine.tile_channels) return operand;
        if (!facts.machine.grid_rows && shape[1] > 1)
            for (size_t axis = 2; axis < grid.size(); ++axis)
                if (shape[axis] > 1 && std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis)) == dims.end())
                    return Slot::absent;
        return node.op == Op::var && !facts.machine.grid_var ? Slot::absent : Slot::grid;
    }
    if (dims.empty()) return Slot::grid;
    Sizes row;
    for (int64_t axis : dims) row.push_back(grid[static_cast<size_t>(axis)]);
    // [1], [2…], or [1…]: a run of axes that ends with the last, or the channels alone.
    const bool usual =
        dims.front() >= 1 &&
        (dims == Sizes{1} || (dims.front() <= 2 && dims.back() + 1 == static_cast<int64_t>(grid.size()) &&
                              dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size())));
    const bool fits = keepdim && numel(row) <= facts.machine.row_elements && (pass.row.empty() || pass.row == dims);
    return fits && (usual || facts.machine.any_rows) ? Slot::tile : Slot::grid;
}

bool Draft::pools(int p) const {
    const DraftPass& pass = passes[static_cast<size_t>(p)];
    return pass.kind == PassKind::library && facts.machine.pools_in_loop && tile_pool(facts.graph, pass.anchor);
}

Slot Draft::fit(ValueId v, int p) const {
    const Node& node = facts.graph[v];
    const DraftPass& pass = passes[static_cast<size_t>(p)];
    const bool loop = pass.kind == PassKind::pointwise && !pass.small, pooling = pools(p);
    bool tile = false, pooled = false, late = false;
    for (ValueId a : node.args) {
        if (facts.literal[Facts::at(a)]) continue;
        Slot place = slot(p, a);
        if (place == Slot::absent) place = twin_slot(p, a);
        switch (place) {
            case Slot::absent:
                if (!can_read(p, a)) return Slot::absent;
                break;
            case Slot::prologue:
                return Slot::absent;
            case Slot::tile:
                tile = true;
                break;
            case Slot::pooled:
                pooled = true;
                break;
            case Slot::grid:
            case Slot::tail:
                late = true;
                break;
        }
    }
    if (late || pass.small) return !tile && !pooled && facts.small(v) ? Slot::tail : Slot::absent;
    if (loop) tile = true;  // what it reads is as good as what it computes
    if (tile == pooled || (!loop && !pooling && pass.kind != PassKind::dense)) return Slot::absent;
    const Slot here = pooled ? Slot::pooled : Slot::tile;
    const Sizes& grid = pooled ? pass.pooled : pass.domain;
    if (is_pointwise(node.op)) return broadcasts_to(node.type.shape, grid) ? here : Slot::absent;
    if (pooling) return Slot::absent;
    if (is_reduction(node.op)) return fit_reduction(v, p, here);
    if (pass.kind == PassKind::dense && tile && pass.pooled.empty() && pass.row.empty() &&
        facts.machine.pools_in_tile > 0 && !apart_.count(v) && slot(p, node.args[0]) != Slot::absent &&
        facts.shape(node.args[0]) == pass.domain)
        if (const auto pool = tile_pool(facts.graph, v); pool && numel(pool->window) <= facts.machine.pool_outputs)
            return Slot::pooled;
    return Slot::absent;
}

}  // namespace transfuse
