// Inference of pointwise ops: broadcasting and dtype promotion.
#include "graph/infer.h"

namespace transfuse {

Type infer_pointwise(const Inference& node) {
    if (node.count() == 1) return node.type(0);
    if (node.op() == Op::select) {
        // The condition only broadcasts; it does not take part in promotion.
        Sizes shape = broadcast(broadcast(node.shape(1), node.shape(2), "select"), node.shape(0), "select");
        return {node.promoted(1), std::move(shape)};
    }
    if (node.op() == Op::prelu && broadcast(node.shape(0), node.shape(1), "prelu") != node.shape(0))
        node.refuse("weight ", to_string(node.type(1)), " must broadcast to x ", to_string(node.type(0)));
    return {node.promoted(), broadcast(node.shape(0), node.shape(1), node.schema.name)};
}

}  // namespace transfuse
