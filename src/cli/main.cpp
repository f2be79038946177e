#include <iostream>

#include "cli/commands.h"
#include "transfuse/error.h"

namespace {

constexpr std::string_view usage = R"(transfuse: compiles transposed convolutions together with everything around them

usage: transfuse explain FILE.tf [--machine NAME] [--without RULE,...] [--only RULE,...] [--training]
           the graph as written, every rewrite with what it saved, and the plan
       transfuse check FILE.tf [--seed N] [--scale S] [--flops F | --full] [--machine NAME]
           runs the graph as written and its plan on random data and prints the largest relative error; inputs are
           cut down until the graph takes at most F flops (default 2e7), unless --full is given
       transfuse collect-env
           what a bug report needs: versions, processor, GPU, environment
       transfuse --help | --version

FILE.tf is a graph in text form; "-" reads it from standard input.
NAME is h200, cpu or cpu:THREADS; by default the device found.
Exit status: 0 done, 1 a check failed, 2 wrong call or bad input.
)";

}  // namespace

int main(int count, char** values) {
    const std::vector<std::string> words(values + 1, values + count);
    const std::string command = words.empty() ? "" : words[0];
    const std::vector<std::string> rest(words.empty() ? words.begin() : words.begin() + 1, words.end());
    try {
        if (command == "--help" || command == "-h" || command == "help") {
            std::cout << usage;
            return 0;
        }
        if (command == "--version") {
            std::cout << "transfuse " << TRANSFUSE_VERSION << "\n";
            return 0;
        }
        for (const std::string& word : rest)
            if (word == "--help" || word == "-h") {
                std::cout << usage;
                return 0;
            }
        if (command == "explain") return transfuse::cli::explain(rest);
        if (command == "check") return transfuse::cli::check(rest);
        if (command == "collect-env") return transfuse::cli::collect_env(rest);
        if (command.empty())
            std::cerr << usage;
        else
            std::cerr << "transfuse: unknown command '" << command
                      << "'; expected explain, check or collect-env (see transfuse --help).\n";
        return 2;
    } catch (const transfuse::Error& error) {
        std::cerr << "transfuse: " << error.what() << "\n";
        return 2;
    } catch (const std::exception& error) {
        std::cerr << "transfuse: " << command << " failed: " << error.what() << "\n";
        return 2;
    }
}
