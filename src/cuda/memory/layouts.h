// What the tensors of a call are, as its executable was compiled for them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse::cuda {

struct Layout {
    Type type;
    Sizes strides;
    bool operator==(const Layout&) const = default;
};

// Of all leaves, or all outputs. Most leaves are parameters, which are the same at all sizes of a program: sizes share
// one list, and each keeps those that it has otherwise.
class Layouts {
public:
    Layouts() = default;
    // strides: none given, all are contiguous. like: of another size, whose list is shared where that saves something.
    Layouts(const Graph& graph, const std::vector<ValueId>& values, const std::vector<Sizes>& strides,
            const Layouts& like = {});

    size_t size() const { return list_ ? list_->size() : 0; }
    // use(layout), one after another.
    template <class Use>
    void each(const Use& use) const {
        auto other = own_.begin();
        for (size_t i = 0; i < size(); ++i)
            use(other != own_.end() && other->first == i ? (other++)->second : (*list_)[i]);
    }
    std::vector<Type> types() const;
    std::vector<Sizes> strides() const;
    size_t own() const { return own_.size(); }  // how many are not in the list that is shared

private:
    std::shared_ptr<const std::vector<Layout>> list_;
    std::vector<std::pair<size_t, Layout>> own_;  // by position, in order
};

}  // namespace transfuse::cuda
