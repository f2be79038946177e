#include "cuda/dense/read/tile_program.h"

#include <algorithm>

#include "cuda/dense/read/refusal.h"
#include "cuda/dense/schedule/figures.h"

namespace transfuse::cuda {

namespace {

// The kernel's axis (n, c, d, h, w) of dimension `k` of a value of rank `rank`, right-aligned to a grid of `spatial`
// + 2.
int axis_of(int64_t k, int64_t rank, int spatial) {
    const int64_t g = k + (spatial + 2 - rank);
    return g < 2 ? static_cast<int>(g) : static_cast<int>(g + 3 - spatial);
}

std::array<int64_t, 5> spread(const Sizes& sizes, int spatial, int64_t missing) {
    std::array<int64_t, 5> result;
    result.fill(missing);
    for (size_t k = 0; k < sizes.size(); ++k)
        result[static_cast<size_t>(axis_of(static_cast<int64_t>(k), static_cast<int64_t>(sizes.size()), spatial))] =
            sizes[k];
    return result;
}

// The strides of `shape` in memory of shape `target`, where the two differ only by axes of extent 1.
std::optional<Sizes> without_ones(const Sizes& shape, const Sizes& target, const Sizes& strides) {
    Sizes result(shape.size(), 0);
    size_t at = 0;
    for (size_t k = 0; k < shape.size(); ++k) {
        if (shape[k] == 1) continue;
        while (at < target.size() && target[at] == 1) ++at;
        if (at == target.size() || target[at] != shape[k]) return std::nullopt;
        result[k] = strides[at++];
    }
    while (at < target.size() && target[at] == 1) ++at;
    if (at != target.size()) return std::nullopt;
    return result;
}

Operand operand(const Surroundings& around, ValueId value, int spatial) {
    const Graph& graph = around.plan.graph;
    Operand o;
    o.value = value;
    o.root = view_root(around.plan, value);
    const StridedView view = view_strides(around.plan, value, around.strides[static_cast<size_t>(o.root)]);
    o.offset = view.offset;
    o.dtype = graph[value].type.dtype;
    o.strides = spread(view.strides, spatial, 0);
    const auto shape = spread(graph[value].type.shape, spatial, 1);
    for (size_t a = 0; a < 5; ++a) {
        o.depends[a] = shape[a] > 1;
        if (!o.depends[a]) o.strides[a] = 0;
    }
    return o;
}

// What a step's code takes for one value, the rare ways (large arguments, subnormal quotients) included: they are
// compiled with every copy.
int instructions(const Node& node, bool rounded) {
    switch (node.op) {
        case Op::pow:
            return 200;
        case Op::sin:
        case Op::cos:
            return 120;
        case Op::softplus:
            return rounded ? 30 : 60;
        case Op::gelu:
        case Op::erf:
            return 40;
        case Op::log:
        case Op::elu:
        case Op::selu:
            return 30;
        case Op::tanh:
        case Op::mish:
        case Op::div:
        case Op::reciprocal:
        case Op::sqrt:
            return 15;
        case Op::exp:
        case Op::sigmoid:
        case Op::silu:
        case Op::rsqrt:
            return 6;
        default:
            return 2;
    }
}

}  // namespace

std::optional<TileProgram> read_tile_program(const Surroundings& around, std::string* why_not) {
    const Refusal no{why_not};
    const Graph& graph = around.plan.graph;
    const Pass& pass = around.pass;
    TileProgram program;
    program.around = &around;
    if (pass.kind != PassKind::dense) return no("not a dense pass");
    const Node& anchor = graph[pass.anchor];
    program.spatial = static_cast<int>(anchor.type.rank()) - 2;
    if (program.spatial < 1 || program.spatial > 3) return no("more than three spatial axes");
    const int spatial = program.spatial;
    program.grid_shape = spread(anchor.type.shape, spatial, 1);

    // Prologue: from the streamed tensor to the lattice's x.
    Values seen;
    auto is_step = [&](ValueId v) {
        return std::any_of(pass.steps.begin(), pass.steps.end(), [&](const TileStep& s) { return s.value == v; });
    };
    auto read = [&](ValueId v) {
        if (is_literal(graph, v) || is_step(v) || std::find(seen.begin(), seen.end(), v) != seen.end()) return;
        seen.push_back(v);
        program.reads.push_back(operand(around, v, spatial));
    };
    ValueId x = anchor.args[0];
    for (const TileStep& step : pass.steps)
        if (step.scope == Scope::prologue) program.prologue.push_back(step.value);
    if (program.prologue.empty()) {
        program.input = operand(around, x, spatial);
    } else {
        for (ValueId v : program.prologue)
            for (ValueId arg : graph[v].args)
                if (!is_literal(graph, arg) && !is_step(arg)) {
                    if (program.input.value < 0 && graph[arg].type.shape == graph[x].type.shape)
                        program.input = operand(around, arg, spatial);  // the chain may read it as well
                    else if (arg != program.input.value)
                        read(arg);
                }
        if (program.input.value < 0) return no("the prologue reads no tensor of x's shape");
        if (program.input.dtype != graph[x].type.dtype) return no("the prologue changes the dtype of x");
    }
    const auto input_strides = spread(
        view_strides(around.plan, program.input.value, around.strides[static_cast<size_t>(program.input.root)]).strides,
        spatial, 0);
    program.input.strides = input_strides;

    // Weight and bias.
    const ValueId w = anchor.args[1];
    program.weight = w;
    if (anchor.args.size() > 2 && anchor.args[2] >= 0) program.bias = anchor.args[2];
    if (program.bias >= 0 && !is_literal(graph, program.bias)) {
        Operand bias;
        bias.value = program.bias;
        bias.root = view_root(around.plan, program.bias);
        const StridedView view =
            view_strides(around.plan, program.bias, around.strides[static_cast<size_t>(bias.root)]);
        bias.offset = view.offset, bias.dtype = graph[program.bias].type.dtype;
        bias.strides[1] = view.strides[0];
        bias.depends[1] = true;
        program.reads.push_back(bias);
        seen.push_back(program.bias);
    }

    // Tile steps and grid reductions.
    auto grid = program.grid_shape;
    Values before_pool;
    for (const TileStep& step : pass.steps) {
        if (step.value == pass.anchor || step.scope == Scope::prologue || step.scope == Scope::tail) continue;
        const Node& node = graph[step.value];
        if (step.scope == Scope::grid) {
            if (!is_reduction(node.op)) return no(std::string("a grid ") + std::string(name(node.op)));
            GridReduction reduction;
            reduction.value = step.value, reduction.of = node.args[0], reduction.op = node.op;
            const int64_t rank = graph[node.args[0]].type.rank();
            for (int64_t dim : node.attributes.integers(Key::dims))
                reduction.reduced[static_cast<size_t>(axis_of(dim, rank, spatial))] = true;
            reduction.whole = true;
            const auto shape = spread(graph[node.args[0]].type.shape, spatial, 1);
            for (size_t a = 2; a < 5; ++a)
                if (!reduction.reduced[a] && shape[a] > 1) reduction.whole = false;
            for (size_t a : {size_t(0), size_t(2), size_t(3), size_t(4)})
                if (shape[a] != grid[a]) return no("a reduction of a value smaller than the grid");
            program.grid.push_back(reduction);
            continue;
        }
        if (is_pointwise(node.op)) {
            for (ValueId arg : node.args) read(arg);
        } else if (is_reduction(node.op)) {
            const auto& dims = node.attributes.integers(Key::dims);
            const bool row = dims.size() == 1 && dims[0] == spatial + 1;
            if (dims.size() != 1 || (dims[0] != 1 && !row) || !node.attributes.flag(Key::keepdim))
                return no("a tile reduction over other axes than channels or rows");
            (row ? program.row_reductions : program.channel_reductions) = true;
        } else if (auto pool = tile_pool(graph, step.value)) {
            if (program.pool) return no("two pools in a tile");
            program.pool = pool, program.pool_value = step.value;
            grid = spread(node.type.shape, spatial, 1);
            if (program.channel_reductions || program.row_reductions) return no("a reduction before a pool");
            before_pool = program.steps;
            before_pool.push_back(pass.anchor);
        } else {
            return no(std::string(name(node.op)) + " in a tile program");
        }
        program.steps.push_back(step.value);
    }
    program.grid_shape = grid;
    auto early = [&](ValueId v) { return std::find(before_pool.begin(), before_pool.end(), v) != before_pool.end(); };
    for (const GridReduction& g : program.grid)
        if (early(g.of)) return no("a reduction of a value before the pool");

    // Sinks.
    for (const Store& store : pass.stores) {
        const bool tile = std::any_of(pass.steps.begin(), pass.steps.end(), [&](const TileStep& s) {
            return s.value == store.value && s.scope == Scope::tile;
        });
        if (!tile) continue;
        if (early(store.value)) return no("a value before the pool is stored");
        Operand o;
        o.value = store.value, o.root = store.target;
        o.dtype = graph[store.value].type.dtype;
        const Sizes& strides = around.strides[static_cast<size_t>(store.target)];
        const Type& type = graph[store.value].type;
        if (graph[store.target].type.shape == type.shape || !store.start.empty()) {
            o.strides = spread(strides, spatial, 0);
            for (size_t k = 0; k < store.start.size(); ++k) o.offset += store.start[k] * strides[k];
        } else if (auto aligned = without_ones(type.shape, graph[store.target].type.shape, strides)) {
            o.strides = spread(*aligned, spatial, 0);
        } else {
            if (strides != contiguous_strides(graph[store.target].type.shape))
                return no("a store reshaped into strided memory");
            o.strides = spread(contiguous_strides(type.shape), spatial, 0);
        }
        const auto shape = spread(type.shape, spatial, 1);
        for (size_t a = 0; a < 5; ++a) o.depends[a] = shape[a] > 1;
        for (size_t a : {size_t(0), size_t(2), size_t(3), size_t(4)})
            if (shape[a] != grid[a] && !(program.row_reductions && a == 4 && shape[a] == 1))
                return no("a stored value smaller than the grid");
        program.stores.push_back(o);
    }
    if (program.row_reductions) {
        if (program.channel_reductions || program.pool || !program.grid.empty())
            return no("rows reduced beside channels, images or windows");
        for (const Operand& o : program.stores)
            if (o.depends[4] && o.strides[4] != 1) return no("rows reduced that do not lie together in memory");
    }
    if (program.stores.empty() && program.grid.empty()) return no("nothing is stored");
    const bool rounded = graph[pass.anchor].type.dtype != DType::f64 &&
                         (graph[pass.anchor].type.dtype != DType::f32 ||
                          around.precision != Fp32Precision::strict);  // factors of the products
    for (ValueId v : program.steps) program.chain_instructions += instructions(graph[v], rounded);
    const Operand* main = program.stores.empty() ? nullptr : &program.stores[0];
    program.pixel_major = main && !program.pool && !program.row_reductions && main->depends[1] &&
                          main->strides[1] == 1 && main->strides[4] != 1;
    if (program.pixel_major)
        for (const GridReduction& g : program.grid)
            if (g.whole) program.pixel_major = false;
    return program;
}

Needs TileProgram::needs(int phases_w) const {
    Needs n;
    n.all_channels = channel_reductions;
    n.whole_rows = row_reductions;
    n.pooled = pool.has_value();
    if (pool)
        for (size_t k = 0; k < pool->window.size(); ++k) n.pool[4 - pool->window.size() + k] = pool->window[k];
    n.pixel_major = pixel_major;
    n.stores = !stores.empty();
    n.element_bytes = stores.empty() ? 4 : bytes(stores[0].dtype);
    n.vector = std::max(1, vector / phases_w);
    n.one_by_one = !stores.empty() && !pool && !pixel_major && vector == 1;
    n.beside = chain_instructions > figures::long_chain ? 32 : 0;
    n.epilogue_flops = 1 + 2.0 * static_cast<double>(steps.size());
    // Measured of 268 M outputs, rows of 64: 0.84 ms with a layer norm, 1.45 with a gelu behind it.
    constexpr int row_met = 6;
    if (row_reductions) {
        const Graph& graph = around->plan.graph;
        n.epilogue_flops = chain_instructions;
        for (ValueId v : steps) n.epilogue_flops += is_reduction(graph[v].op) ? row_met : 0;
    }
    return n;
}

}  // namespace transfuse::cuda
