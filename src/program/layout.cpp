#include "program/layout.h"

#include <algorithm>
#include <numeric>

namespace transfuse {

bool channels_last(const TensorView& view) {
    const size_t rank = view.shape.size();
    if ((rank != 4 && rank != 5) || view.strides[1] == 0) return false;
    // Strides do not fall from the channels over width, height, depth to the batch; gaps are allowed.
    int64_t least = 0;
    const auto reaches = [&](size_t axis) {
        if (view.shape[axis] == 0 || view.strides[axis] < least) return false;
        if (axis == 0 && least == view.strides[1]) return false;  // images of one number: as good as contiguous
        least = view.strides[axis] * std::max<int64_t>(view.shape[axis], 1);
        return true;
    };
    if (!reaches(1)) return false;
    for (size_t axis = rank - 1; axis >= 2; --axis)
        if (!reaches(axis)) return false;
    return reaches(0);
}

Sizes dense_like(const TensorView& view) {
    std::vector<size_t> order(view.shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return view.strides[a] > view.strides[b]; });
    int64_t step = 1;
    for (size_t i = order.size(); i-- > 0;) {
        if (view.shape[order[i]] != 1 && view.strides[order[i]] != step) return contiguous_strides(view.shape);
        step *= std::max<int64_t>(view.shape[order[i]], 1);
    }
    return view.strides;
}

namespace {

// Ops whose results PyTorch makes contiguous, whatever their operand.
bool makes_contiguous(const Node& node) {
    switch (node.op) {
        case Op::softmax:
        case Op::log_softmax:
        case Op::layer_norm:
        case Op::instance_norm:
        case Op::reshape:
        case Op::permute:
            return true;
        case Op::avg_pool:
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
            return node.type.rank() == 5;
        default:
            return is_reduction(node.op);
    }
}

// Whether a result is channels last because operands are.
bool follows(const Graph& written, const Node& node, const std::vector<bool>& last) {
    const auto is_last = [&](ValueId arg) { return last[static_cast<size_t>(arg)]; };
    const auto& args = node.args;
    if (node.op == Op::conv || node.op == Op::conv_transpose) return std::any_of(args.begin(), args.end(), is_last);
    if (node.op == Op::concat) return std::all_of(args.begin(), args.end(), is_last);
    // Of several, the first that is not broadcast.
    const auto whole = std::find_if(args.begin(), args.end(), [&](ValueId arg) {
        return written[arg].op != Op::expand && written[arg].type.shape == node.type.shape;
    });
    if (is_pointwise(node.op) && whole != args.end()) return is_last(*whole);
    return std::any_of(args.begin(), args.end(),
                       [&](ValueId arg) { return is_last(arg) && written[arg].type.rank() == node.type.rank(); });
}

}  // namespace

std::vector<Sizes> output_layout(const Graph& written, std::span<const TensorView> leaves) {
    std::vector<bool> last(static_cast<size_t>(written.size()), false);
    bool any = false;
    for (size_t i = 0; i < leaves.size(); ++i)
        any |= last[static_cast<size_t>(written.leaves()[i])] = channels_last(leaves[i]);
    for (ValueId id = 0; any && id < written.size(); ++id) {
        const Node& node = written[id];
        if (is_leaf(node.op) || node.type.rank() < 4 || makes_contiguous(node)) continue;
        last[static_cast<size_t>(id)] = follows(written, node, last);
    }
    std::vector<Sizes> strides;
    for (ValueId id : written.outputs())
        strides.push_back(last[static_cast<size_t>(id)] ? channels_last_strides(written[id].type.shape)
                                                        : contiguous_strides(written[id].type.shape));
    return strides;
}

}  // namespace transfuse
