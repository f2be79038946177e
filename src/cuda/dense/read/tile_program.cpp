#include "cuda/dense/read/tile_program.h"

#include <algorithm>

#include "cuda/dense/read/refusal.h"
#include "cuda/dense/schedule/figures.h"
#include "graph/has.h"

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

class TileReader {
public:
    TileReader(const Surroundings& around, std::string* why_not)
        : around_(around), graph_(around.plan.graph), pass_(around.pass), no_{why_not} {}

    std::optional<TileProgram> program() {
        if (pass_.kind != PassKind::dense) return no_("not a dense pass");
        const Node& anchor = graph_[pass_.anchor];
        program_.around = &around_;
        program_.spatial = static_cast<int>(anchor.type.rank()) - 2;
        if (program_.spatial < 1 || program_.spatial > 3) return no_("more than three spatial axes");
        program_.grid_shape = spread(anchor.type.shape, 1);
        if (!prologue(anchor.args[0])) return std::nullopt;
        program_.weight = anchor.args[1];
        if (anchor.args.size() > 2 && anchor.args[2] >= 0) bias(anchor.args[2]);
        if (!steps() || !stores() || !rows()) return std::nullopt;
        if (program_.stores.empty() && program_.grid.empty()) return no_("nothing is stored");
        count_instructions();
        program_.pixel_major = is_pixel_major();
        return std::move(program_);
    }

private:
    bool refuse(std::string sentence) const {
        no_(std::move(sentence));
        return false;
    }
    std::array<int64_t, 5> spread(const Sizes& sizes, int64_t missing) const {
        return cuda::spread(sizes, program_.spatial, missing);
    }
    Operand operand(ValueId v) const { return cuda::operand(around_, v, program_.spatial); }
    bool is_step(ValueId v) const {
        return std::any_of(pass_.steps.begin(), pass_.steps.end(), [&](const TileStep& s) { return s.value == v; });
    }
    void read(ValueId v) {
        if (is_literal(graph_, v) || is_step(v) || has(read_, v)) return;
        read_.push_back(v);
        program_.reads.push_back(operand(v));
    }

    // From the streamed tensor to the lattice's x.
    bool prologue(ValueId x) {
        for (const TileStep& step : pass_.steps)
            if (step.scope == Scope::prologue) program_.prologue.push_back(step.value);
        Operand& input = program_.input;
        if (program_.prologue.empty()) input = operand(x);
        for (ValueId v : program_.prologue)
            for (ValueId arg : graph_[v].args) {
                if (is_literal(graph_, arg) || is_step(arg)) continue;
                if (input.value < 0 && graph_[arg].type.shape == graph_[x].type.shape)
                    input = operand(arg);  // the chain may read it as well
                else if (arg != input.value)
                    read(arg);
            }
        if (input.value < 0) return refuse("the prologue reads no tensor of x's shape");
        if (input.dtype != graph_[x].type.dtype) return refuse("the prologue changes the dtype of x");
        input.strides = spread(strides_of(input.value, input.root).strides, 0);  // those of axes of one pixel, too
        return true;
    }
    StridedView strides_of(ValueId v, ValueId root) const {
        return view_strides(around_.plan, v, around_.strides[static_cast<size_t>(root)]);
    }

    void bias(ValueId v) {
        program_.bias = v;
        if (is_literal(graph_, v)) return;
        Operand bias;
        bias.value = v, bias.root = view_root(around_.plan, v);
        const StridedView view = strides_of(v, bias.root);
        bias.offset = view.offset, bias.dtype = graph_[v].type.dtype;
        bias.strides[1] = view.strides[0], bias.depends[1] = true;
        program_.reads.push_back(bias);
        read_.push_back(v);
    }

    bool steps() {
        for (const TileStep& step : pass_.steps) {
            if (step.value == pass_.anchor || step.scope == Scope::prologue || step.scope == Scope::tail) continue;
            if (!(step.scope == Scope::grid ? grid_reduction(step.value) : tile_step(step.value))) return false;
        }
        for (const GridReduction& g : program_.grid)
            if (has(before_pool_, g.of)) return refuse("a reduction of a value before the pool");
        return true;
    }

    bool grid_reduction(ValueId v) {
        const Node& node = graph_[v];
        if (!is_reduction(node.op)) return refuse("a grid " + std::string(name(node.op)));
        GridReduction reduction;
        reduction.value = v, reduction.of = node.args[0], reduction.op = node.op;
        const Type& of = graph_[node.args[0]].type;
        for (int64_t dim : node.attributes.integers(Key::dims))
            reduction.reduced[static_cast<size_t>(axis_of(dim, of.rank(), program_.spatial))] = true;
        reduction.whole = true;
        const auto shape = spread(of.shape, 1);
        for (size_t a = 2; a < 5; ++a)
            if (!reduction.reduced[a] && shape[a] > 1) reduction.whole = false;
        if (!has_grid_of(shape)) return refuse("a reduction of a value smaller than the grid");
        program_.grid.push_back(reduction);
        return true;
    }
    bool has_grid_of(const std::array<int64_t, 5>& shape, bool but_for_rows = false) const {
        for (size_t a : {size_t{0}, size_t{2}, size_t{3}, size_t{4}})
            if (shape[a] != program_.grid_shape[a] && !(but_for_rows && a == 4 && shape[a] == 1)) return false;
        return true;
    }

    bool tile_step(ValueId v) {
        const Node& node = graph_[v];
        if (is_pointwise(node.op)) {
            for (ValueId arg : node.args) read(arg);
        } else if (is_reduction(node.op)) {
            const auto& dims = node.attributes.integers(Key::dims);
            const bool row = dims.size() == 1 && dims[0] == program_.spatial + 1;
            if (dims.size() != 1 || (dims[0] != 1 && !row) || !node.attributes.flag(Key::keepdim))
                return refuse("a tile reduction over other axes than channels or rows");
            (row ? program_.row_reductions : program_.channel_reductions) = true;
        } else if (auto pool = tile_pool(graph_, v)) {
            if (program_.pool) return refuse("two pools in a tile");
            program_.pool = pool, program_.pool_value = v;
            program_.grid_shape = spread(node.type.shape, 1);
            if (program_.channel_reductions || program_.row_reductions) return refuse("a reduction before a pool");
            before_pool_ = program_.steps;
            before_pool_.push_back(pass_.anchor);
        } else {
            return refuse(std::string(name(node.op)) + " in a tile program");
        }
        program_.steps.push_back(v);
        return true;
    }

    bool stores() {
        for (const Store& store : pass_.stores) {
            const bool tile = std::any_of(pass_.steps.begin(), pass_.steps.end(), [&](const TileStep& s) {
                return s.value == store.value && s.scope == Scope::tile;
            });
            if (tile && !this->store(store)) return false;
        }
        return true;
    }
    bool store(const Store& store) {
        if (has(before_pool_, store.value)) return refuse("a value before the pool is stored");
        const Type& type = graph_[store.value].type;
        const Sizes& target = graph_[store.target].type.shape;
        const Sizes& strides = around_.strides[static_cast<size_t>(store.target)];
        Operand o;
        o.value = store.value, o.root = store.target, o.dtype = type.dtype;
        if (target == type.shape || !store.start.empty()) {
            o.strides = spread(strides, 0);
            for (size_t k = 0; k < store.start.size(); ++k) o.offset += store.start[k] * strides[k];
        } else if (auto aligned = without_ones(type.shape, target, strides)) {
            o.strides = spread(*aligned, 0);
        } else {
            if (strides != contiguous_strides(target)) return refuse("a store reshaped into strided memory");
            o.strides = spread(contiguous_strides(type.shape), 0);
        }
        const auto shape = spread(type.shape, 1);
        for (size_t a = 0; a < 5; ++a) o.depends[a] = shape[a] > 1;
        if (!has_grid_of(shape, program_.row_reductions)) return refuse("a stored value smaller than the grid");
        program_.stores.push_back(o);
        return true;
    }

    bool rows() const {
        if (!program_.row_reductions) return true;
        if (program_.channel_reductions || program_.pool || !program_.grid.empty())
            return refuse("rows reduced beside channels, images or windows");
        for (const Operand& o : program_.stores)
            if (o.depends[4] && o.strides[4] != 1) return refuse("rows reduced that do not lie together in memory");
        return true;
    }

    void count_instructions() {
        const DType dtype = graph_[pass_.anchor].type.dtype;
        const bool rounded =  // factors of the products
            dtype != DType::f64 && (dtype != DType::f32 || around_.precision != Fp32Precision::strict);
        for (ValueId v : program_.steps) program_.chain_instructions += instructions(graph_[v], rounded);
    }

    bool is_pixel_major() const {
        if (program_.stores.empty() || program_.pool || program_.row_reductions) return false;
        const Operand& main = program_.stores[0];
        return main.depends[1] && main.strides[1] == 1 && main.strides[4] != 1 &&
               std::none_of(program_.grid.begin(), program_.grid.end(), [](const GridReduction& g) { return g.whole; });
    }

    const Surroundings& around_;
    const Graph& graph_;
    const Pass& pass_;
    const Refusal no_;
    TileProgram program_;
    Values read_, before_pool_;
};

}  // namespace

std::optional<TileProgram> read_tile_program(const Surroundings& around, std::string* why_not) {
    return TileReader(around, why_not).program();
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
    n.beside = chain_instructions > figures::long_chain ? figures::beside_long_chain : 0;
    n.epilogue_flops = 1 + 2.0 * static_cast<double>(steps.size());
    if (row_reductions) {
        const Graph& graph = around->plan.graph;
        n.epilogue_flops = chain_instructions;
        for (ValueId v : steps) n.epilogue_flops += is_reduction(graph[v].op) ? figures::row_reduced : 0;
    }
    return n;
}

}  // namespace transfuse::cuda
