// What the interpreters of graphs and of plans share.
#pragma once

#include <span>
#include <vector>

#include "reference/interpret.h"
#include "transfuse/engine.h"

namespace transfuse::reference {

// The tensors of the leaves, checked for size; rounded to their dtypes where arithmetic says so.
std::vector<Tensor> leaf_tensors(const Graph& graph, const std::vector<std::vector<double>>& leaves,
                                 Arithmetic arithmetic);
void round(Tensor& tensor, Arithmetic arithmetic);
Tensor evaluate(const Node& node, std::span<const Tensor* const> args, Arithmetic arithmetic);

}  // namespace transfuse::reference
