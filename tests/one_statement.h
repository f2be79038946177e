// A graph of one statement, for tests that list cases one a line.
#pragma once

#include <algorithm>
#include <string>

namespace transfuse {

// one_statement("x f32[2,3]; w f32[3]", "mul(%x, %w)"): a graph with these inputs that returns %result.
inline std::string one_statement(const std::string& inputs, const std::string& statement) {
    std::string text = "graph g {\n";
    for (size_t begin = 0; begin < inputs.size();) {
        const size_t end = std::min(inputs.find(';', begin), inputs.size());
        const size_t name = inputs.find_first_not_of(' ', begin), type = inputs.find(' ', name) + 1;
        text += "  %" + inputs.substr(name, type - 1 - name) + " = input " + inputs.substr(type, end - type) + "\n";
        begin = end + 1;
    }
    return text + "  %result = " + statement + "\n  return %result\n}\n";
}

}  // namespace transfuse
