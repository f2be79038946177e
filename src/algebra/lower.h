// What rewriting begins with, and what no extent of an input decides: convolutions and parametrisations as primitives,
// in the main. A program that meets many sizes makes it once.
#pragma once

#include <memory>
#include <optional>

#include "algebra/quiet.h"
#include "transfuse/algebra.h"

namespace transfuse {

struct Lowered {
    Graph graph;                   // that grows
    std::vector<Cost> costs;       // of each node
    std::shared_ptr<Quiet> quiet;  // one for all sizes
};

Lowered lowered(const Graph& written);
// What lowered() makes of the same graph for other extents of its inputs, made of what it made of one: the results of
// lattices grow with their inputs, out − up·in stays. (None may have been written: its `out` was, too.) Throws Error
// where something does not hold for these extents, or is better asked of what was written.
// spare: what it made of the same for others, and is needed no more; none: nullopt.
Lowered grown(const Lowered& lowered, const std::vector<Type>& leaf_types, std::optional<Lowered> spare = {});
// What rewrite() makes of what was written, made of what lowered() made of it.
Graph rewrite_lowered(const Lowered& lowered, const RewriteOptions& options);

}  // namespace transfuse
