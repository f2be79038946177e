// Shape and dtype inference, one family of ops a file. Each function checks the operands and attributes of one node
// with PyTorch's rules, completes the attributes (one integer an axis, positive dims) and returns the result's type.
#pragma once

#include <span>

#include "graph/schema.h"
#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse {

struct Inference {
    const Schema& schema;
    std::span<const Node* const> args;
    Attributes& attributes;

    Op op() const { return schema.op; }
    size_t count() const { return args.size(); }
    const Type& type(size_t i) const { return args[i]->type; }
    const Sizes& shape(size_t i) const { return args[i]->type.shape; }

    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        fail(schema.name, ": ", parts...);
    }

    // The attribute with one integer for each of `axes` axes; a list of one is spread.
    const Sizes& per_axis(Key key, int64_t axes) const;
    const Sizes& per_axis(Key key, int64_t axes, int64_t at_least) const;
    // A dim of a tensor of this rank made positive.
    int64_t axis(int64_t dim, int64_t rank) const;
    // The attribute `dims` made positive, ascending, without repetition; stored back.
    const Sizes& dims(int64_t rank, bool empty_means_all) const;
    // The operand must be a vector of `extent` elements.
    void require_vector(size_t arg, std::string_view what, int64_t extent) const;
    // PyTorch's promotion: tensors with axes decide; then tensors of rank 0; then numbers.
    DType promoted(size_t first = 0) const;
};

Type infer_constant(const Inference& node);
Type infer_conv(const Inference& node);     // conv_transpose, conv, upsample
Type infer_lattice(const Inference& node);  // lattice, correlate
Type infer_covariance(const Inference& node);
Type infer_pool(const Inference& node);
Type infer_interpolate(const Inference& node);  // interpolate, interpolate_grad
Type infer_pointwise(const Inference& node);
Type infer_reduction(const Inference& node);  // sum … var
Type infer_softmax(const Inference& node);
Type infer_norm(const Inference& node);
Type infer_shape(const Inference& node);  // reshape … cast
Type infer_taps(const Inference& node);   // weight_norm, taps
Type infer_box(const Inference& node);    // box_sums, box_spread

// Refuses ranks above 16, negative extents and tensors whose size in bytes does not fit 63 bits.
void check_type(std::string_view op, const Type& type);
// A bound of a slice as PyTorch reads it: negative counts from the end, then clamped to [0, extent].
int64_t slice_bound(int64_t bound, int64_t extent);

// Completes the attributes and gives the node its type.
void infer(Node& node, std::span<const Node* const> args);

}  // namespace transfuse
