// What the planner asks of every value again and again, found once per plan.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "plan/fusion.h"

namespace transfuse {

bool is_view_op(Op op);  // slice, permute, expand, flip, reshape

// A value that its readers would make of what it is made of, in the place of its being stored.
struct Moved {
    Few<ValueId, 8> made;      // the value, and those below it that are made with it
    Few<ValueId, 8> read;      // what is read for it
    Few<ValueId, 4> kept;      // statistics of rows that are stored for it
    Few<ValueId, 8> products;  // anchors of the dense passes that would make it while they load
    size_t readers = 0;
    bool stays = false;  // the pass it comes from is there all the same
};

struct Facts {
    Facts(const Graph& graph, const Machine& machine);

    const Graph& graph;
    const Machine& machine;
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

    bool takes_elements(ValueId product) const;  // x: thin ones (machine.thin_work), pools and the like
    double gain(const Moved& moved) const;       // seconds

private:
    void count(ValueId v);
    double delay(double work, ValueId x, ValueId anchor) const;

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
