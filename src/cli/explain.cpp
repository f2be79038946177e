#include <algorithm>
#include <iostream>
#include <sstream>

#include "algebra/differentiable.h"
#include "cli/commands.h"
#include "transfuse/algebra.h"
#include "transfuse/error.h"

namespace transfuse::cli {

namespace {

// "a,b" as rule names, each checked.
std::vector<std::string> rules(const Options& options, std::string_view option) {
    std::vector<std::string> chosen;
    const std::vector<std::string> known = rule_names();
    std::istringstream words(options.text(option, ""));
    for (std::string word; std::getline(words, word, ',');) {
        if (std::find(known.begin(), known.end(), word) == known.end()) {
            std::ostringstream list;
            for (const std::string& name : known) list << (list.tellp() > 0 ? ", " : "") << name;
            fail(option, ": there is no rule '", word, "'; the rules are ", list.str(), ".");
        }
        chosen.push_back(word);
    }
    return chosen;
}

}  // namespace

int explain(const std::vector<std::string>& arguments) {
    const Options options = read_options("explain", arguments, {"--machine", "--without", "--only"}, {"--training"});
    RewriteOptions rewriting;
    rewriting.inference = !options.has("--training");
    rewriting.without = rules(options, "--without");
    rewriting.only = rules(options, "--only");
    const Machine machine = machine_named(options.text("--machine", ""));
    rewriting.prices = machine.prices;
    const Derivation derivation = rewrite(read_graph(options.file), rewriting);
    std::cout << transfuse::explain(derivation) << "\n" << print(plan(derivation.rewritten, machine));
    return 0;
}

}  // namespace transfuse::cli
