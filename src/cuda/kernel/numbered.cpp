#include "cuda/kernel/numbered.h"

#include <functional>
#include <map>

namespace transfuse::cuda {

std::string numbered_in_order(std::string_view text) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    std::map<std::string, size_t, std::less<>> numbers;
    std::string made;
    made.reserve(text.size());
    char before = ' ';
    bool instruction = false;  // in quotes: ".v4" there is none. (They end with their line.)
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (c == '\n' || (c == '"' && before != '\\')) instruction = c == '"' && !instruction;
        size_t end = at + 1;
        const bool begins = !instruction && !is_letter(before) && !is_digit(before) && before != '_';
        if (begins && (c == 'v' || c == 'r'))
            while (end < text.size() && is_digit(text[end])) ++end;
        if (end > at + 1 && (end == text.size() || !is_letter(text[end]))) {
            const std::string_view digits = text.substr(at + 1, end - at - 1);
            const auto known = numbers.find(digits);
            const size_t number = known != numbers.end() ? known->second : numbers.size();
            if (known == numbers.end()) numbers.emplace(digits, number);
            made += c;
            made += std::to_string(number);
        } else {
            made += text.substr(at, end - at);
        }
        before = text[end - 1];
        at = end;
    }
    return made;
}

}  // namespace transfuse::cuda
