#include "cuda/memory/layouts.h"

namespace transfuse::cuda {

Layouts::Layouts(const Graph& graph, const std::vector<ValueId>& values, const std::vector<Sizes>& strides,
                 const Layouts& like) {
    const auto type = [&](size_t i) -> const Type& { return graph[values[i]].type; };
    const auto layout = [&](size_t i) {
        return Layout{type(i), strides.empty() ? contiguous_strides(type(i).shape) : strides[i]};
    };
    if (like.size() == values.size()) {
        list_ = like.list_;
        for (size_t i = 0; i < values.size() && 2 * own_.size() <= values.size(); ++i) {
            const Layout& known = (*list_)[i];
            const bool same =
                known.type == type(i) && (strides.empty() ? known == layout(i) : known.strides == strides[i]);
            if (!same) own_.emplace_back(i, layout(i));
        }
        if (2 * own_.size() <= values.size()) return;
    }
    own_.clear();
    std::vector<Layout> list;
    list.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) list.push_back(layout(i));
    list_ = std::make_shared<const std::vector<Layout>>(std::move(list));
}

std::vector<Type> Layouts::types() const {
    std::vector<Type> all;
    all.reserve(size());
    each([&](const Layout& layout) { all.push_back(layout.type); });
    return all;
}

std::vector<Sizes> Layouts::strides() const {
    std::vector<Sizes> all;
    all.reserve(size());
    each([&](const Layout& layout) { all.push_back(layout.strides); });
    return all;
}

}  // namespace transfuse::cuda
