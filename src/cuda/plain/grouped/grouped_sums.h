// Reductions over space of a grouped product: collected in each thread's registers, then in the block's shared memory,
// left in one slot a block, in fp64 and in a fixed order.
#pragma once

#include <unordered_map>

#include "cuda/general/kernel_text.h"
#include "cuda/plain/grouped/grouped_shape.h"

namespace transfuse::cuda {

class GroupedSums {
public:
    GroupedSums(const Graph& graph, ValueId anchor, const GroupedShape& shape, KernelText& kernel)
        : graph_(graph), anchor_(anchor), shape_(shape), body_(kernel.body), kernel_(kernel) {}

    // Where each value's slots lie; `scratch` grows by them. A mean beside a variance shares its slots.
    Places place(int64_t& scratch);
    const std::vector<ValueId>& collected() const { return collected_; }

    void declare_shared();
    void declare();
    void add(ValueId v, const std::string& column, const Lanes& lanes);
    void leave(const std::string& image, const std::string& slot, const std::string& channel, const std::string& place);

private:
    bool extremum(ValueId v) const { return graph_[v].op == Op::amax || graph_[v].op == Op::amin; }
    int64_t lanes() const { return shape_.by_channel ? shape_.lanes : 1; }  // of channels
    std::string loops() const;
    static std::string name_of(ValueId v) { return "grid" + number(v); }

    const Graph& graph_;
    const ValueId anchor_;
    const GroupedShape& shape_;
    Body& body_;
    KernelText& kernel_;
    std::vector<ValueId> collected_;
    std::unordered_map<ValueId, int64_t> slot_at_;
};

}  // namespace transfuse::cuda
