#pragma once

#include <string>
#include <string_view>

namespace transfuse::cuda {

// Kernel text in which values, v12 and r12 by their places in a graph, are numbered in the order in which they appear:
// what a graph computes several times then has one text.
std::string numbered_in_order(std::string_view text);

}  // namespace transfuse::cuda
