// Graphs, node by node.
#include "reference/evaluate.h"

#include <new>

#include "reference/element.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"

namespace transfuse::reference {

std::vector<Tensor> leaf_tensors(const Graph& graph, const std::vector<std::vector<double>>& leaves,
                                 Arithmetic arithmetic) {
    if (leaves.size() != graph.leaves().size())
        fail("graph ", graph.name(), " has ", graph.leaves().size(), " leaves, got ", leaves.size());
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < leaves.size(); ++i) {
        const Node& node = graph[graph.leaves()[i]];
        if (static_cast<int64_t>(leaves[i].size()) != numel(node.type.shape))
            fail("leaf %", node.name, " is ", to_string(node.type), ", got ", leaves[i].size(), " elements");
        tensors.push_back({node.type, leaves[i]});
        round(tensors.back(), arithmetic);
    }
    return tensors;
}

void round(Tensor& tensor, Arithmetic arithmetic) {
    if (arithmetic == Arithmetic::f64 || tensor.type.dtype == DType::f64) return;
    for (double& element : tensor.data) element = rounded(element, tensor.type.dtype);
}

Tensor evaluate(const Node& node, std::span<const Tensor* const> args, Arithmetic arithmetic) {
    constexpr int64_t most =
        int64_t{1} << 36;  // half a terabyte of doubles: no machine this engine is meant for has it
    if (numel(node.type.shape) > most)
        fail(name(node.op), ": the reference engine has no room for ", to_string(node.type));
    try {
        Tensor result = interpret({node, args});
        round(result, arithmetic);
        return result;
    } catch (const std::bad_alloc&) {
        fail(name(node.op), ": no memory for ", to_string(node.type));
    }
}

}  // namespace transfuse::reference

namespace transfuse {

std::vector<std::vector<double>> evaluate(const Graph& graph, const std::vector<std::vector<double>>& leaves,
                                          Arithmetic arithmetic) {
    using reference::Tensor;
    std::vector<Tensor> values(graph.nodes().size());
    std::vector<Tensor> given = reference::leaf_tensors(graph, leaves, arithmetic);
    for (size_t i = 0; i < given.size(); ++i) values[static_cast<size_t>(graph.leaves()[i])] = std::move(given[i]);

    std::vector<ValueId> last_use(values.size(), -1);
    for (ValueId id = 0; id < graph.size(); ++id)
        for (ValueId arg : graph[id].args) last_use[static_cast<size_t>(arg)] = id;
    for (ValueId output : graph.outputs()) last_use[static_cast<size_t>(output)] = graph.size();

    for (ValueId id = 0; id < graph.size(); ++id) {
        const Node& node = graph[id];
        if (is_leaf(node.op)) continue;
        std::vector<const Tensor*> args;
        for (ValueId arg : node.args) args.push_back(&values[static_cast<size_t>(arg)]);
        values[static_cast<size_t>(id)] = reference::evaluate(node, args, arithmetic);
        for (ValueId arg : node.args)
            if (last_use[static_cast<size_t>(arg)] == id) values[static_cast<size_t>(arg)].data = {};
    }
    std::vector<std::vector<double>> outputs;
    for (ValueId output : graph.outputs()) outputs.push_back(values[static_cast<size_t>(output)].data);
    return outputs;
}

}  // namespace transfuse
