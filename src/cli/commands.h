// The commands of `transfuse`. Each takes its arguments and returns the exit status: 0 done, 1 a check failed; a wrong
// call or a bad file is an Error (status 2).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transfuse/graph.h"
#include "transfuse/plan.h"

namespace transfuse::cli {

int explain(const std::vector<std::string>& arguments);
int check(const std::vector<std::string>& arguments);
int collect_env(const std::vector<std::string>& arguments);

// Splits `arguments` into one FILE and the options named in `with_value` ("--seed") and `flags` ("--full").
struct Options {
    std::string command, file;
    std::vector<std::pair<std::string, std::string>> given;
    bool has(std::string_view option) const;
    std::string text(std::string_view option, std::string fallback) const;
    int64_t integer(std::string_view option, int64_t fallback) const;  // a whole number >= 0
    double number(std::string_view option, double fallback) const;
};
Options read_options(std::string command, const std::vector<std::string>& arguments,
                     const std::vector<std::string_view>& with_value, const std::vector<std::string_view>& flags);

Graph read_graph(const std::string& file);       // "-": standard input
Machine machine_named(const std::string& name);  // "h200", "cpu", "cpu:8"; "" for the device found

// The same graph with smaller inputs: batch, then spatial extents are halved until the graph as written takes at most
// `flops`, as far as it still makes sense (pools that fit, shapes that agree). Parameters keep their shapes.
Graph shrink(const Graph& graph, double flops);

}  // namespace transfuse::cli
