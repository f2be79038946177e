// The dense pass: what it consists of, and which of two ways it goes.
#include <algorithm>
#include <limits>

#include "cpu/dense/dense_frame.h"

namespace transfuse::cpu {
namespace {

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

template <class T>
std::unique_ptr<DensePass> shorter_way(DenseParts parts, bool pairs) {
    const Node& node = parts.plan.graph[parts.pass.anchor];
    const Sizes &x = parts.plan.graph[node.args[0]].type.shape, &w = parts.plan.graph[node.args[1]].type.shape;
    const TileProgram& program = *parts.program;
    const DenseDemands demands{.window = program.pool_window(),
                               .resident_planes = program.resident_bytes(1, 1),
                               .element_bytes = sizeof(T),
                               .lanes = kernels<T>().lanes,
                               .panel_rows = kernels<T>().panel_rows,
                               .cuts_channels = program.cuts_channels(),
                               .pairs = pairs};
    const Lattices axes = lattices(parts.plan.graph, parts.pass.anchor);
    constexpr int64_t few = 4;  // output channels that an input channel is read for, one after another
    const bool apart =
        w[1] == 1 && (dense_way == DenseWay::channels || (dense_way == DenseWay::shorter && w[2] <= few));
    if (apart && !program.needs_whole_planes())
        return dense_by_channels<T>(parts, line_geometry(axes, x, node.type.shape, w[0], demands, DenseWay::channels));
    DenseGeometry tiles = dense_geometry(axes, x, node.type.shape, w[0], demands);
    if (!program.needs_whole_planes() && dense_way != DenseWay::tiles) {
        LineGeometry lines = line_geometry(axes, x, node.type.shape, w[0], demands, dense_way);
        const double most =
            dense_way == DenseWay::shorter ? tiles.cycles(demands) : std::numeric_limits<double>::infinity();
        if (lines.cycles < most) return dense_by_lines<T>(parts, std::move(lines));
    }
    return dense_by_tiles<T>(parts, std::move(tiles));
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
    DenseParts parts{plan, pass, std::move(program), std::move(before), source < 0 ? node.args[0] : source};
    std::unique_ptr<DensePass> compiled = node.type.dtype == DType::f64 ? shorter_way<double>(std::move(parts), pairs)
                                                                        : shorter_way<float>(std::move(parts), pairs);
    if (compiled->any_pairs()) compiled->set_plain(compile_dense(plan, pass, false));
    return compiled;
}

std::unique_ptr<CompiledPass> compile_dense(const Plan& plan, const Pass& pass) {
    return compile_dense(plan, pass, true);
}

}  // namespace transfuse::cpu
