#include "cuda/dense/read/keys.h"

#include <algorithm>
#include <bit>

#include "plan/facts.h"

namespace transfuse::cuda {

// Structures are taken apart by all their members, so that a new one cannot be forgotten.
namespace {

// Whether a size or a stride is negative, 0, 1 or more. (One byte: keys are as long as what is compared.)
int8_t few(int64_t size) { return static_cast<int8_t>(std::clamp<int64_t>(size, -1, 2)); }

// How many of its elements make the largest vector that divides it, of those there are: the logarithm.
int8_t divided(int64_t size) {
    constexpr int widest = 3;  // 8 elements
    return static_cast<int8_t>(size == 0 ? widest : std::min(widest, std::countr_zero(static_cast<uint64_t>(size))));
}

void add(KeyText& key, const Config& config) {
    each_field(config, [&](const char*, const auto& field) { key.add(field); });
}

void add(KeyText& key, const Needs& needs) {
    const auto& [all_channels, whole_rows, pooled, pool, pixel_major, vector, one_by_one, element_bytes, stores,
                 epilogue_flops, table_bytes, group_bytes, one_image, ahead, beside, exit, added, folded] = needs;
    key.add(all_channels, whole_rows, pooled, pool, pixel_major, vector, one_by_one, element_bytes, stores,
            epilogue_flops, table_bytes, group_bytes, one_image, ahead, beside, exit, added, folded);
}

void add(KeyText& key, const Operand& operand) {
    const auto& [value, root, offset, dtype, strides, depends] = operand;
    int8_t vectors = divided(offset);  // that every row may be read or stored by
    for (size_t a = 0; a < 4; ++a) vectors = std::min(vectors, divided(strides[a]));
    key.add(value, root >= 0, dtype, depends, vectors);
    for (const int64_t stride : strides) key.add(few(stride));
}

void add(KeyText& key, const GridReduction& reduction) {
    const auto& [value, of, op, reduced, whole] = reduction;
    key.add(value, of, op, reduced, whole);
}

// A node as a chain sees it.
void add(KeyText& key, const Graph& graph, ValueId value) {
    const Node& node = graph[value];
    key.add(value, node.op, node.type.dtype, node.type.rank(), node.args, node.attributes);
    if (node.type.rank() > 1) key.add(node.type.shape[1]);
}

// What a chain begins with: texts look some steps back, for shares and their logarithms. Numbers stand in a text where
// a step has them for an operand, as such or by way of views; behind what is read from memory (a mean: one over the
// number of pixels) they do not.
void add_before(KeyText& key, const Graph& graph, ValueId value, int back, bool operand = true) {
    const Node& node = graph[value];
    if (operand && is_literal(graph, value)) return add(key, graph, value);
    key.add(value, node.op, node.args);
    if (back == 0 || is_leaf(node.op)) return;
    for (const ValueId arg : node.args)
        if (arg >= 0) add_before(key, graph, arg, back - 1, operand && is_view_op(node.op));
}

void add_steps(KeyText& key, const Graph& graph, const Values& steps, ValueId anchor) {
    constexpr int back = 3;
    for (const ValueId step : steps) {
        add(key, graph, step);
        for (const ValueId arg : graph[step].args)
            if (arg != anchor && std::find(steps.begin(), steps.end(), arg) == steps.end())
                add_before(key, graph, arg, back);
    }
}

}  // namespace

KeyText schedule_key(const Problem& problem, const Needs& needs, const Config& config, const Target& target) {
    const auto& [axes, groups, cin, cout, tap_rows, slices, arithmetic, family, load, wide_offsets, rows_adjoin,
                 any_size] = problem;
    KeyText key;
    key.add(groups, cin, cout, tap_rows, slices, arithmetic, family, load, wide_offsets, rows_adjoin, any_size,
            target.shared_bytes, target.multiprocessors);
    for (const auto& [up, down, dil, offset, in, out, taps] : axes) key.add(up, down, dil, offset, taps);
    add(key, config);
    add(key, needs);
    // Rows that share their padding, come as one or are gone through by swap-AB products have the image's width.
    if (config.shared_padding || config.flat || config.exit == Exit::swap_ab) key.add(axes[3].in, axes[3].out);
    return key;
}

KeyText pack_key(const Schedule& schedule, const TileProgram& program) {
    KeyText key;
    key.add(reinterpret_cast<uintptr_t>(&schedule), program.weight, program.spatial, program.around->number);
    return key;
}

KeyText text_key(const Schedule& schedule, const Epilogue& epilogue) {
    const auto& [around, spatial, input, weight, prologue, steps, pool, pool_value, reads, bias, stores, grid,
                 grid_shape, channel_reductions, row_reductions, pixel_major, vector, chain_instructions] =
        epilogue.program();
    const auto& [exit, handed, before, biased, maps, added] = epilogue.leaving();
    const Graph& graph = epilogue.graph();
    KeyText key;
    key.add(reinterpret_cast<uintptr_t>(&schedule));
    const Target& target = around->target;
    key.add(around->aligned, around->precision, around->pass.anchor, target.arch, target.any_size, target.general_only,
            target.portable_only);
    key.add(spatial, prologue, steps, pool_value, bias, channel_reductions, row_reductions, pixel_major, vector,
            chain_instructions);
    key.add(exit, handed, before, biased, maps, added);
    if (pool) key.add(pool->kind, pool->window, pool->scale);
    add(key, input);
    const std::array<Lattice, 4>& axes = epilogue.problem().axes;
    for (const Lattice& axis : axes) key.add(few(axis.in), few(axis.out), axis.out < axis.period());
    key.add(divided(axes[3].in), divided(axes[3].out));
    for (const int64_t extent : grid_shape) key.add(few(extent));
    for (const auto* operands : {&epilogue.reads(), &epilogue.stores()}) {
        key.add(operands->size());
        for (const Operand& operand : *operands) add(key, operand);
    }
    for (size_t k = 0; k < reads.size(); ++k) key.add(epilogue.table_of(k), epilogue.image_table_of(k));
    key.add(epilogue.prologue_tables(), epilogue.table_bytes(), epilogue.group_bytes(), epilogue.slots_at(),
            epilogue.images_at(), epilogue.exchange_at(), epilogue.per_tile(), epilogue.channels());
    key.add(grid.size(), stores.size());
    for (const Partial& partial : epilogue.partials()) {
        const auto& [reduction, first_stat, stats, pivot, rest, store] = partial;
        key.add(first_stat, stats, pivot, rest, store);
        add(key, reduction);
        add(key, graph, reduction.value);
    }
    for (const auto* list : {&prologue, &steps}) add_steps(key, graph, *list, around->pass.anchor);
    return key;
}

}  // namespace transfuse::cuda
