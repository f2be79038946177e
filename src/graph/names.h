// Names of values, graphs and outputs in the text form.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "transfuse/graph.h"

namespace transfuse {

// Letters, digits, '_', '.', '-' and '/'; not digits alone, which number the values without a name.
bool is_name_character(char c);
bool is_name(std::string_view text);
bool is_number_name(std::string_view text);

// The name output i has when none is given: its value's, or "output<i>" where that has none or is taken by an output
// before.
std::string default_output_name(const Node& node, size_t i, const std::unordered_set<std::string>& before);

}  // namespace transfuse
