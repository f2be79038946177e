// Chains of several convolutions whose cheapest exact form is known: tests/rewrites/<family>/<case>.tf. Each says in a
// comment what its cheapest form takes, without the pass that prepares weights, on an H200:
//
//     # cheapest: 14.6 Mflop, 1 pass
//     # gradient: 45 Mflop              (of all leaves, where that is said)
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <regex>
#include <string>
#include <vector>

#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse::tests {

struct RewriteCase {
    std::string name, text;
    double flops = 0, gradient = 0;
    size_t passes = 0;
    friend void PrintTo(const RewriteCase& of, std::ostream* stream) { *stream << of.name; }
};

inline std::vector<RewriteCase> rewrite_cases() {
    std::vector<RewriteCase> found;
    const std::filesystem::path folder = TRANSFUSE_SOURCE_DIR "/tests/rewrites";
    const std::regex cheapest("# cheapest: ([0-9.]+) Mflop, ([0-9]+) pass");
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
        if (file.path().extension() != ".tf") continue;
        std::ifstream stream(file.path());
        RewriteCase one{std::filesystem::relative(file.path(), folder).replace_extension().string(),
                 std::string(std::istreambuf_iterator<char>(stream), {})};
        std::smatch said, of_gradient;
        if (!std::regex_search(one.text, said, cheapest)) throw Error(one.name + " does not say what is cheapest");
        one.flops = 1e6 * std::stod(said[1]);
        one.passes = std::stoul(said[2]);
        if (std::regex_search(one.text, of_gradient, std::regex("# gradient: ([0-9.]+) Mflop")))
            one.gradient = 1e6 * std::stod(of_gradient[1]);
        found.push_back(std::move(one));
    }
    std::sort(found.begin(), found.end(), [](const RewriteCase& a, const RewriteCase& b) { return a.name < b.name; });
    return found;
}

// Batches of 4 become 2, images of 48 x 48 become 5 x 6, and 96 x 96 10 x 12, whole or cut in twos.
inline Graph small(const RewriteCase& of, const std::string& dtype) {
    std::string text = std::regex_replace(of.text, std::regex("\\b48,48\\b"), "5,6");
    text = std::regex_replace(text, std::regex("\\b96,96\\b"), "10,12");
    text = std::regex_replace(text, std::regex("\\b48,2,48,2\\b"), "5,2,6,2");
    text = std::regex_replace(text, std::regex("(input f32|shape=)\\[4,"), "$1[2,");
    return parse(std::regex_replace(text, std::regex("\\bf32\\b"), dtype));
}

}  // namespace transfuse::tests
