#include "program/kept.h"

#include <algorithm>
#include <optional>
#include <string>

namespace transfuse {
namespace {

constexpr int64_t small = 16;  // kept where the leaf has so many times more elements

std::optional<size_t> leaf_position(const Graph& graph, ValueId id) {
    const auto& leaves = graph.leaves();
    const auto found = std::find(leaves.begin(), leaves.end(), id);
    if (found == leaves.end()) return std::nullopt;
    return static_cast<size_t>(found - leaves.begin());
}

Operands moved_args(const Node& node, const std::vector<ValueId>& moved) {
    Operands args;
    for (ValueId arg : node.args) args.push_back(moved[static_cast<size_t>(arg)]);
    return args;
}

}  // namespace

std::vector<ValueId> kept_sums(const Graph& forward) {
    std::vector<ValueId> kept;
    for (ValueId id = 0; id < forward.size(); ++id) {
        const Node& node = forward[id];
        if (node.op != Op::box_sums || !is_leaf(forward[node.args[0]].op)) continue;
        const auto& outputs = forward.outputs();
        if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) continue;
        if (small * numel(node.type.shape) <= numel(forward[node.args[0]].type.shape)) kept.push_back(id);
    }
    return kept;
}

Graph giving(const Graph& forward, const std::vector<ValueId>& kept) {
    Builder builder(forward.name());
    std::vector<ValueId> moved;
    for (const Node& node : forward.nodes())
        moved.push_back(node.op == Op::input ? builder.input(node.name, node.type)
                        : node.op == Op::param
                            ? builder.param(node.name, node.type)
                            : builder.add(node.op, moved_args(node, moved), node.attributes, node.name));
    std::vector<ValueId> outputs;
    for (ValueId id : forward.outputs()) outputs.push_back(moved[static_cast<size_t>(id)]);
    for (ValueId id : kept) outputs.push_back(moved[static_cast<size_t>(id)]);
    return builder.finish(std::move(outputs));
}

Graph taking(const Graph& backward, const Graph& forward, const std::vector<ValueId>& kept) {
    Builder builder(backward.name());
    std::vector<ValueId> moved(backward.nodes().size(), -1), given;
    for (ValueId leaf : backward.leaves()) {
        const Node& node = backward[leaf];
        moved[static_cast<size_t>(leaf)] =
            node.op == Op::input ? builder.input(node.name, node.type) : builder.param(node.name, node.type);
    }
    for (ValueId id : kept)
        given.push_back(builder.input("kept_sums" + std::to_string(given.size()), forward[id].type));
    // The gradient's leaves begin with the forward graph's.
    const auto same = [&](const Node& node, ValueId id) {
        const auto position = leaf_position(backward, node.args[0]);
        return position && node.attributes == forward[id].attributes && node.type == forward[id].type &&
               position == leaf_position(forward, forward[id].args[0]);
    };
    for (ValueId id = 0; id < backward.size(); ++id) {
        ValueId& to = moved[static_cast<size_t>(id)];
        const Node& node = backward[id];
        if (to >= 0) continue;
        if (node.op == Op::box_sums)
            for (size_t k = 0; k < kept.size(); ++k)
                if (same(node, kept[k])) to = given[k];
        if (to < 0) to = builder.add(node.op, moved_args(node, moved), node.attributes, node.name);
    }
    std::vector<ValueId> outputs;
    for (ValueId id : backward.outputs()) outputs.push_back(moved[static_cast<size_t>(id)]);
    return builder.finish(std::move(outputs), backward.output_names());
}

}  // namespace transfuse
