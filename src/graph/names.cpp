#include "graph/names.h"

#include <algorithm>

namespace transfuse {

namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
}  // namespace

bool is_name_character(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-' ||
           c == '/';
}

bool is_number_name(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

bool is_name(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_name_character) && !is_number_name(text);
}

std::string default_output_name(const Node& node, size_t i, const std::unordered_set<std::string>& before) {
    std::string name = node.name;
    if (name.empty() || before.contains(name)) name = "output" + std::to_string(i);
    while (before.contains(name)) name += '_';
    return name;
}

}  // namespace transfuse
