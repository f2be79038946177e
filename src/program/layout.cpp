#include "program/layout.h"

#include <algorithm>
#include <numeric>

namespace transfuse {

Sizes channels_last_strides(const Sizes& shape) {
    Sizes strides(shape.size());
    int64_t step = 1;
    const auto place = [&](size_t axis) {
        strides[axis] = step;
        step *= std::max<int64_t>(shape[axis], 1);
    };
    place(1);
    for (size_t axis = shape.size() - 1; axis >= 2; --axis) place(axis);
    place(0);
    return strides;
}

namespace {

// Strides of axes of extent one mean nothing.
bool same_layout(const Sizes& shape, const Sizes& a, const Sizes& b) {
    for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] > 1 && a[i] != b[i]) return false;
    return true;
}

}  // namespace

bool channels_last(const TensorView& view) {
    if (view.shape.size() < 4) return false;
    return same_layout(view.shape, view.strides, channels_last_strides(view.shape)) &&
           !same_layout(view.shape, view.strides, contiguous_strides(view.shape));
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

std::vector<Sizes> output_layout(const Graph& written, std::span<const TensorView> leaves) {
    std::vector<bool> last(static_cast<size_t>(written.size()), false);
    for (size_t i = 0; i < leaves.size(); ++i)
        last[static_cast<size_t>(written.leaves()[i])] = channels_last(leaves[i]);
    for (ValueId id = 0; id < written.size(); ++id) {
        const Node& node = written[id];
        const auto is_last = [&](ValueId arg) { return last[static_cast<size_t>(arg)]; };
        if (is_leaf(node.op) || node.type.rank() < 4) continue;
        const bool follows = node.op == Op::conv || node.op == Op::conv_transpose
                                 ? std::any_of(node.args.begin(), node.args.end(), is_last)
                                 : std::any_of(node.args.begin(), node.args.end(), [&](ValueId arg) {
                                       return is_last(arg) && written[arg].type.rank() == node.type.rank();
                                   });
        last[static_cast<size_t>(id)] = follows && node.op != Op::reshape && node.op != Op::permute;
    }
    std::vector<Sizes> strides;
    for (ValueId id : written.outputs())
        strides.push_back(last[static_cast<size_t>(id)] ? channels_last_strides(written[id].type.shape)
                                                        : contiguous_strides(written[id].type.shape));
    return strides;
}

}  // namespace transfuse
