#include "cpu/pass/pass.h"
#include "cpu/tensors/element.h"
#include "transfuse/error.h"

namespace transfuse::cpu {

Memory::Memory(const Plan& plan, std::span<const TensorView> leaves, std::span<const TensorView> outputs)
    : plan_(&plan),
      sources_(plan.graph.nodes().size()),
      targets_(sources_.size()),
      literals_(sources_.size()),
      fixed_(sources_.size()) {
    const Graph& graph = plan.graph;
    for (size_t i = outputs.size(); i-- > 0;)
        targets_[static_cast<size_t>(graph.outputs()[i])] = outputs[i];  // the first place wins
    for (size_t v = 0; v < sources_.size(); ++v) sources_[v] = targets_[v];
    for (size_t i = 0; i < leaves.size(); ++i) sources_[static_cast<size_t>(graph.leaves()[i])] = leaves[i];
    for (ValueId v = 0; v < graph.size(); ++v)
        if (is_literal(graph, v)) literals_[static_cast<size_t>(v)] = graph[v].attributes.number(Key::value);
}

void Memory::place(ValueId buffer, void* data) {
    const Type& type = plan_->graph[buffer].type;
    const auto at = static_cast<size_t>(buffer);
    sources_[at] = targets_[at] = {data, type.dtype, type.shape, contiguous_strides(type.shape)};
}

TensorView Memory::source(ValueId value) const {
    const auto at = static_cast<size_t>(value);
    const Type& type = plan_->graph[value].type;
    if (is_literal(plan_->graph, value))
        return {const_cast<double*>(&literals_[at]), DType::f64, type.shape, Sizes(type.shape.size(), 0)};
    const ValueId root = view_root(*plan_, value);
    const TensorView& whole = sources_[static_cast<size_t>(root)];
    if (root == value) return whole;
    const StridedView view = view_strides(*plan_, value, whole.strides);
    return {address(whole, view.offset), whole.dtype, type.shape, view.strides};
}

const TensorView& Memory::target(ValueId value) const { return targets_[static_cast<size_t>(value)]; }

TensorView Memory::target(const Store& store) const {
    TensorView whole = target(store.target);
    const Sizes& shape = plan_->graph[store.value].type.shape;
    if (store.start.empty()) {
        if (whole.shape == shape) return whole;
        // A reshape: keep the value's shape where the target is contiguous.
        if (whole.strides == contiguous_strides(whole.shape))
            return {whole.data, whole.dtype, shape, contiguous_strides(shape)};
        return whole;
    }
    int64_t offset = 0;
    for (size_t axis = 0; axis < store.start.size(); ++axis) offset += store.start[axis] * whole.strides[axis];
    return {address(whole, offset), whole.dtype, shape, whole.strides};
}

}  // namespace transfuse::cpu
