// Every primitive on its own, on strided views of any dtype: plain loops with fp64 arithmetic. Tails, prepared
// parameters and whatever no fused pass expresses come here; what is large has its own fast pass.
#pragma once

#include <span>

#include "transfuse/graph.h"
#include "transfuse/tensor.h"

namespace transfuse::cpu {

// out = node(args). Parallel over elements of the result, each computed by one thread in a fixed order.
void evaluate_primitive(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);

// One place per family of ops.
void evaluate_pointwise(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_movement(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_reduction(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_pool(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_interpolation(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_lattice(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
// False where a lattice is small, or no dense pass expresses it: then nothing is done.
bool evaluate_lattice_dense(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_correlate(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_covariance(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);
void evaluate_boxes(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads);

// out = in, element by element, converted; shapes alike.
void copy(const TensorView& in, const TensorView& out, int threads);

}  // namespace transfuse::cpu
