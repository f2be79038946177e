#include "cuda/dense/exits/exits.h"

#include <algorithm>
#include <functional>

#include "cuda/dense/exits/accumulators/added_tensors.h"
#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/exits/accumulators/tma_stores.h"
#include "cuda/dense/schedule/figures.h"
#include "graph/has.h"

namespace transfuse::cuda {

namespace {

// The chain is written out for every accumulator, of every phase.
bool fits_accumulators(const Epilogue& epilogue) {
    return epilogue.problem().family == Family::wgmma &&  // others' warps hold other pixels
           epilogue.program().chain_instructions <= figures::longest_on_accumulators &&
           epilogue.problem().every_phase_has_taps();
}

// The one result of a pass whose product warps may run the chain on their accumulators and store it themselves; null:
// it goes through a store role.
const Operand* stored_by_product_warps(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (problem.groups > 1 || program.pool || !program.around->aligned) return nullptr;
    if (epilogue.stores().size() != 1 || !epilogue.partials().empty() || !fits_accumulators(epilogue)) return nullptr;
    const Operand& store = epilogue.stores()[0];
    for (size_t a = 0; a < 4; ++a)
        if (problem.axes[a].out > 1 && store.strides[a == 0 ? 0 : a + 1] <= 0) return nullptr;
    return store.root < 0 ? nullptr : &store;
}

bool keeps_statistics_alone(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (program.channel_reductions || !epilogue.stores().empty() || epilogue.partials().empty()) return false;
    if (!fits_accumulators(epilogue)) return false;
    for (const Partial& p : epilogue.partials()) {
        const Op op = p.reduction.op;
        if (!p.reduction.whole || (op == Op::logsumexp && program.chain_instructions > 30))
            return false;  // its values are looked at twice
        if (epilogue.graph()[p.reduction.of].type.shape[1] != epilogue.channels()) return false;
    }
    for (ValueId v : program.steps)
        if (!fragment_operands(epilogue, v)) return false;
    if (!program.pool) return true;
    const Needs needs = program.needs(static_cast<int>(problem.axes[3].period()));
    int64_t phases = 1;
    for (size_t a = 1; a < 4; ++a) {
        const int64_t period = problem.axes[a].period();
        phases *= period;
        if (needs.pool[a] % period != 0) return false;  // some phases apart, others together
    }
    const int64_t reach = needs.pool[3] / problem.axes[3].period();
    const int64_t side = problem.cout <= 8    ? 8
                         : problem.cout <= 16 ? 4
                         : problem.cout <= 32 ? 2
                                              : 1;  // phases in the rows of an accumulator
    if (reach != 1 && reach != 2 && reach != 4 && reach != 8) return false;
    // Every row of an accumulator has a phase.
    const int64_t along_w = problem.axes[3].period(), outer = phases / along_w;
    return side % along_w == 0 ? outer % (side / along_w) == 0 : along_w % side == 0;
}

bool leaves_by_tma(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (!program.pixel_major || problem.real_bytes() != 4) return false;
    if (program.channel_reductions && (problem.cout <= 8 || problem.cout > 64)) return false;
    const Operand* store = stored_by_product_warps(epilogue);
    if (!store) return false;
    const Few<size_t, 4> added = added_tensors(epilogue);
    for (ValueId v : program.steps)
        if (!fragment_operands(epilogue, v, added)) return false;
    if (!added.empty() && static_cast<int64_t>(1 + added.size()) * box_maps(problem) > figures::most_maps) return false;
    const int64_t element = bytes(store->dtype);
    // Words: strict products hide the store role, and reductions over channels are faster there (f8: 0.46 ms, in boxes
    // 0.74).
    if (element != 2 && (element != 4 || problem.terms() > 1 || program.channel_reductions)) return false;
    if (!lies_in_boxes(*store, problem)) return false;
    for (const Lattice& axis : problem.axes)
        if (axis.out < axis.period()) return false;
    return true;
}

bool stores_directly(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (problem.terms() > 1 || problem.cout <= 32 || program.channel_reductions || program.row_reductions) return false;
    if (!stored_by_product_warps(epilogue)) return false;
    for (ValueId v : program.steps)
        if (!fragment_operands(epilogue, v)) return false;
    return true;
}

bool swaps_operands(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (problem.terms() > 1 || problem.cout > 256 || !program.channel_reductions) return false;
    const Operand* store = stored_by_product_warps(epilogue);
    if (!store) return false;
    for (ValueId v : program.steps)
        for (ValueId a : epilogue.graph()[v].args)
            for (size_t k = 0; k < epilogue.reads().size(); ++k)
                if (epilogue.reads()[k].value == a && epilogue.table_of(k) < 0) return false;
    const int64_t element = bytes(store->dtype);
    if (!store->depends[1] || (!program.pixel_major && store->strides[4] != 1) || (element != 2 && element != 4))
        return false;
    int64_t reach = 1;  // of an image, in elements
    for (size_t a = 1; a < 4; ++a) reach += problem.axes[a].out * store->strides[a + 1];
    if (store->strides[1] <= 0 || reach + problem.cout * store->strides[1] >= (int64_t(1) << 31)) return false;
    return true;
}

std::optional<ChannelFold> fold_of(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    const Graph& graph = epilogue.graph();
    if (problem.family != Family::wgmma || !program.channel_reductions || program.pool || program.pixel_major)
        return std::nullopt;
    if (problem.groups > 1 || problem.cout <= 32 || problem.cout > 128)
        return std::nullopt;  // a tile has all channels, each in a row of its own
    if (!problem.every_phase_has_taps()) return std::nullopt;
    ValueId fold = -1;
    for (ValueId v : program.steps) {
        if (!is_reduction(graph[v].op)) continue;
        if (fold >= 0 || graph[v].op == Op::var) return std::nullopt;
        fold = v;
    }
    if (fold < 0) return std::nullopt;
    // What it needs, and whether anything else needs a value that varies by channel.
    Values before;
    std::function<void(ValueId)> need = [&](ValueId v) {
        if (!has(program.steps, v) || has(before, v)) return;
        before.push_back(v);
        for (ValueId a : graph[v].args) need(a);
    };
    need(graph[fold].args[0]);
    for (ValueId v : before)
        if (!fragment_operands(epilogue, v)) return std::nullopt;
    auto varies = [&](ValueId v) { return v == program.around->pass.anchor || has(before, v); };
    for (ValueId v : program.steps) {
        if (v == fold || has(before, v)) continue;
        for (ValueId a : graph[v].args) {
            if (varies(a)) return std::nullopt;
            for (const Operand& o : epilogue.reads())
                if (o.value == a && o.depends[1]) return std::nullopt;
        }
    }
    for (const Operand& o : epilogue.stores())
        if (varies(o.value)) return std::nullopt;
    for (const Partial& p : epilogue.partials())
        if (varies(p.reduction.of)) return std::nullopt;
    return ChannelFold{fold, std::move(before), graph[fold].op == Op::logsumexp ? 2 : 1};
}

// Multiply-adds of an output, as many of TF32 as take the same time.
double products_of_output(const Problem& problem) {
    double products = static_cast<double>(problem.cin) * 4 / problem.lanes();
    for (const Lattice& axis : problem.axes)
        products *= static_cast<double>(axis.taps) / static_cast<double>(axis.period());
    return products;
}

// Where the store role reduces over channels: the product warps add the bias before they hand over.
bool hands_over_biased(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (problem.family != Family::wgmma || !program.channel_reductions || program.pool || program.bias < 0 ||
        problem.cout <= 32)
        return false;  // each channel in a row of its own
    if (!problem.every_phase_has_taps()) return false;
    for (size_t k = 0; k < epilogue.reads().size(); ++k)
        if (epilogue.reads()[k].value == program.bias) return epilogue.table_of(k) >= 0;
    return false;
}

}  // namespace

std::optional<Handed> handed_of(const TileProgram& program, const Problem& problem) {
    const Graph& graph = program.around->plan.graph;
    if (problem.family != Family::wgmma || problem.terms() > 1 || problem.real_bytes() != 4 ||
        !program.channel_reductions || program.pool || program.pixel_major)
        return std::nullopt;
    if (problem.groups > 1 || problem.cout <= 32 || problem.cout > 64 || program.stores.empty())
        return std::nullopt;  // a warpgroup has all channels, each in a row of its own
    if (products_of_output(problem) > figures::few_products) return std::nullopt;
    if (!problem.every_phase_has_taps()) return std::nullopt;
    // What a value needs of the steps and the accumulators.
    const ValueId anchor = program.around->pass.anchor;
    auto needed = [&](ValueId of) {
        Values list;
        std::function<void(ValueId)> need = [&](ValueId v) {
            if ((v != anchor && !has(program.steps, v)) || has(list, v)) return;
            list.push_back(v);
            if (v == anchor) return;
            for (ValueId a : graph[v].args) need(a);
        };
        need(of);
        return list;
    };
    auto is_read = [&](ValueId v, const Values& by) {
        return std::any_of(by.begin(), by.end(),
                           [&](ValueId step) { return step == anchor ? v == program.bias : has(graph[step].args, v); });
    };
    auto is_enough = [&](ValueId v, const Values& before) {  // nobody else asks for what lies before v
        auto inside = [&](ValueId a) { return a != v && has(before, a); };
        for (ValueId step : program.steps)
            if (!has(before, step) &&
                (is_reduction(graph[step].op) || std::any_of(graph[step].args.begin(), graph[step].args.end(), inside)))
                return false;
        for (const Operand& o : program.stores)
            if (inside(o.value)) return false;
        for (const GridReduction& g : program.grid)
            if (inside(g.of)) return false;
        for (const Operand& o : program.reads)
            if (is_read(o.value, before) && !o.per_channel() && !o.constant()) return false;
        return true;
    };
    for (ValueId v : program.steps) {
        if (!is_pointwise(graph[v].op) || graph[v].type.shape[1] != problem.cout) continue;
        auto before = needed(v);
        if (!has(before, anchor) || !is_enough(v, before)) continue;
        // exp(x − logsumexp(x)) is made of exponentials that are there: the difference by itself is not.
        const auto next = std::find_if(program.steps.begin(), program.steps.end(), [&](ValueId step) {
            return graph[step].op == Op::exp && graph[step].args[0] == v;
        });
        if (graph[v].op == Op::sub && next != program.steps.end() && is_enough(*next, needed(*next))) continue;
        return Handed{v, std::move(before)};
    }
    return std::nullopt;
}

bool Exits::has(Exit exit) const {
    return exit == first || exit == behind() || (exit == Exit::direct && direct) || (exit == Exit::swap_ab && swap_ab);
}

Leaving Exits::by(Exit exit, const Epilogue& epilogue) const {
    switch (exit) {
        case Exit::store:
            return {.exit = exit, .biased = biased};
        case Exit::reduced:
            return {.exit = exit, .handed = handed->value, .before = handed->before};
        case Exit::fold:
            return {.exit = exit, .handed = fold->value, .before = fold->before};
        case Exit::tma:
            return {.exit = exit, .maps = box_maps(epilogue.problem()), .added = added_tensors(epilogue)};
        case Exit::statistics:
        case Exit::direct:
        case Exit::swap_ab:
            break;
    }
    return {.exit = exit};
}

Exits exits_of(const Epilogue& epilogue, std::optional<Handed> handed) {
    Exits exits;
    exits.fold = fold_of(epilogue), exits.handed = std::move(handed);
    exits.direct = stores_directly(epilogue), exits.swap_ab = swaps_operands(epilogue);
    exits.first = keeps_statistics_alone(epilogue) ? Exit::statistics
                  : exits.fold                     ? Exit::fold
                  : leaves_by_tma(epilogue)        ? Exit::tma
                                                   : exits.behind();
    exits.biased = exits.first == Exit::store && hands_over_biased(epilogue);
    return exits;
}

}  // namespace transfuse::cuda
