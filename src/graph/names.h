// Names of values, graphs and outputs in the text form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

// Letters, digits, '_', '.', '-' and '/'; not digits alone, which number the values without a name.
bool is_name_character(char c);
bool is_name(std::string_view text);
bool is_number_name(std::string_view text);

// The name an output has when none is given: its value's, else "output<i>"; made different from those before it.
std::string default_output_name(const Node& node, size_t i, const std::vector<std::string>& before);

}  // namespace transfuse
