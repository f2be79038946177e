// Views: values that are read where another one lies, through strides alone.
#include "graph/infer.h"
#include "plan/facts.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

Sizes reshaped_strides(const Sizes& from, const Sizes& strides, const Sizes& to) {
    if (splits_only(from, to)) {
        Sizes result(to.size(), 1);
        size_t j = 0;
        for (size_t i = 0; i < from.size(); ++i) {
            if (from[i] == 1) continue;
            size_t begin = j;
            int64_t product = 1;
            while (product < from[i]) product *= to[j++];
            int64_t stride = strides[i];
            for (size_t k = j; k-- > begin;) {
                result[k] = stride;
                stride *= to[k];
            }
        }
        return result;
    }
    require(strides == contiguous_strides(from), "reshape from ", to_string(from), " to ", to_string(to),
            " needs contiguous memory.");
    return contiguous_strides(to);
}

StridedView through(const Graph& graph, ValueId id, StridedView view) {
    const Node& node = graph[id];
    const Sizes& from = graph[node.args[0]].type.shape;
    const Sizes& to = node.type.shape;
    switch (node.op) {
        case Op::slice: {
            const auto axis = static_cast<size_t>(node.attributes.integer(Key::axis));
            view.offset += slice_bound(node.attributes.integer(Key::start), from[axis]) * view.strides[axis];
            view.strides[axis] *= node.attributes.integer(Key::step);
            return view;
        }
        case Op::permute: {
            Sizes strides;
            for (int64_t axis : node.attributes.integers(Key::order))
                strides.push_back(view.strides[static_cast<size_t>(axis)]);
            view.strides = std::move(strides);
            return view;
        }
        case Op::expand: {
            Sizes strides(to.size(), 0);
            const size_t skip = to.size() - from.size();
            for (size_t i = 0; i < from.size(); ++i)
                if (from[i] == to[i + skip]) strides[i + skip] = view.strides[i];
            view.strides = std::move(strides);
            return view;
        }
        case Op::flip:
            for (int64_t axis : node.attributes.integers(Key::dims)) {
                const auto a = static_cast<size_t>(axis);
                view.offset += (from[a] - 1) * view.strides[a];
                view.strides[a] = -view.strides[a];
            }
            return view;
        case Op::reshape:
            view.strides = reshaped_strides(from, view.strides, to);
            return view;
        default:
            fail("value %", id, " (", name(node.op), ") is not a view.");
    }
}

}  // namespace

bool is_literal(const Graph& graph, ValueId id) { return graph[id].op == Op::scalar || graph[id].op == Op::full; }

ValueId view_root(const Plan& plan, ValueId id) {
    while (plan.views[static_cast<size_t>(id)]) id = plan.graph[id].args[0];
    return id;
}

StridedView view_strides(const Plan& plan, ValueId id, const Sizes& root_strides) {
    if (!plan.views[static_cast<size_t>(id)]) return {0, root_strides};
    return through(plan.graph, id, view_strides(plan, plan.graph[id].args[0], root_strides));
}

}  // namespace transfuse
