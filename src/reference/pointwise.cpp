// Pointwise ops under PyTorch's broadcasting.
#include "graph/pointwise.h"

#include "reference/interpret.h"

namespace transfuse::reference {

Tensor interpret_pointwise(const Operation& operation) {
    const PointwiseFunction function = pointwise_function(operation.op(), operation.node.attributes);
    Tensor result = zeros(operation.node.type);
    const Sizes& shape = operation.node.type.shape;
    std::array<Sizes, 3> strides;
    for (size_t i = 0; i < operation.args.size(); ++i) strides[i] = broadcast_strides(operation.shape(i), shape);
    size_t next = 0;
    for_each_index(shape, [&](const Sizes& index) {
        std::array<double, 3> operands{};
        for (size_t i = 0; i < operation.args.size(); ++i) operands[i] = operation.arg(i).data[at(index, strides[i])];
        result.data[next++] = function(operands[0], operands[1], operands[2]);
    });
    return result;
}

}  // namespace transfuse::reference
