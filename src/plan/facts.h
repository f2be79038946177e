// What the planner asks of every value again and again, found once per plan.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "plan/fusion.h"
#include "plan/questions.h"

namespace transfuse {

bool is_view_op(Op op);  // slice, permute, expand, flip, reshape

struct Facts {
    // asked: where questions about sizes are written down; null: nowhere.
    Facts(const Graph& graph, const Machine& machine, Questions* asked = nullptr);
    // Of a graph of the same nodes (alike() of form.cpp) whose sizes, and those of its operands, are others where
    // `changed`. Users are not told.
    Facts(const Facts& like, const Graph& graph, const std::vector<bool>& changed);

    const Graph& graph;
    const Machine& machine;
    Questions* const asked;
    std::vector<bool> literal;    // scalar, full
    std::vector<bool> parameter;  // depends on params and constants alone
    std::vector<bool> output;
    std::vector<int64_t> elements;
    std::vector<double> flops;    // of this node alone
    std::vector<bool> product;    // flops run at the dense rate (lattice, correlate)
    std::vector<double> padding;  // of a product: work with channels padded to the machine's granule, over work
    std::vector<bool> ordinary;   // a product that ordinary arithmetic makes: there is no matrix in it

    double bytes(ValueId v) const {
        return static_cast<double>(elements[at(v)] * transfuse::bytes(graph[v].type.dtype));
    }
    // What reading v touches: of an expanded value only what was expanded.
    double read_bytes(ValueId v) const {
        return is_view_op(graph[v].op) ? std::min(bytes(v), read_bytes(graph[v].args[0])) : bytes(v);
    }
    const Sizes& shape(ValueId v) const { return graph[v].type.shape; }
    double work(ValueId v) const { return flops[at(v)] * weight(graph[v].op); }
    static double weight(Op op);                           // of a pointwise op, in simple ones
    bool small(ValueId v) const { return small_[at(v)]; }  // within the limits of a tail step
    std::span<const ValueId> users(ValueId v) const {
        return {users_.data() + first_user_[at(v)], users_.data() + first_user_[at(v) + 1]};
    }
    static size_t at(ValueId v) { return static_cast<size_t>(v); }

    // All that is asked about sizes but for which of them are equal.
    bool at_most(const Sizes& extents, int64_t most) const;  // their product
    bool splits(const Sizes& from, const Sizes& to) const;   // splits_only
    std::optional<TilePool> pool(ValueId v) const;           // tile_pool
    bool takes_elements(ValueId product) const;              // x: thin ones (machine.thin_work), pools and the like
    bool gains(const Moved& moved) const { return note_gain(moved, gain(moved) > 0); }

    double gain(const Moved& moved) const;  // seconds
    const std::vector<bool>& smalls() const { return small_; }

private:
    void count(ValueId v, bool product_too);
    double delay(double work, ValueId x, ValueId anchor) const;
    bool note_gain(const Moved& moved, bool answer) const;

    std::vector<bool> small_;
    std::vector<ValueId> users_;
    std::vector<size_t> first_user_;
};

// PyTorch's right-aligned broadcasting: every extent of `shape` is that of `grid` or 1, and its rank is at most the
// grid's.
bool broadcasts_to(const Sizes& shape, const Sizes& grid);

// A reshape that any strides allow: axes are split, and axes of extent 1 come and go; none are merged.
bool splits_only(const Sizes& from, const Sizes& to);

}  // namespace transfuse
