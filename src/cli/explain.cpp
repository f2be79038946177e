#include <algorithm>
#include <iostream>
#include <sstream>

#include "algebra/gradient/differentiable.h"
#include "cli/commands.h"
#include "program/kept.h"
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
    const Options options =
        read_options("explain", arguments, {"--machine", "--without", "--only"}, {"--training", "--gradient"});
    RewriteOptions rewriting;
    rewriting.inference = !options.has("--training");
    rewriting.without = rules(options, "--without");
    rewriting.only = rules(options, "--only");
    const Machine machine = machine_named(options.text("--machine", ""));
    rewriting.prices = machine.prices;
    if (options.has("--gradient")) {
        const Graph written = read_graph(options.file);
        GradientRequest all;
        for (size_t i = 0; i < written.outputs().size(); ++i) all.outputs.push_back(static_cast<ValueId>(i));
        for (size_t i = 0; i < written.leaves().size(); ++i) all.wrt.push_back(static_cast<ValueId>(i));
        const Differentiable form = differentiable(written, all, machine.prices);
        const Graph& forward = form.forward;
        const Graph backward = gradient(form.forward, all);
        const std::vector<ValueId> kept = kept_values(forward, backward, {}, machine);
        std::cout << "forward\n" << print(plan(giving(forward, kept), machine)) << "\nkept\n";
        for (ValueId id : kept)
            std::cout << "  " << name(forward[id].op) << " " << forward[id].name << " " << to_string(forward[id].type)
                      << "\n";
        std::cout << "\nbackward\n"
                  << print(plan(rewrite(taking(backward, forward, kept), form.options).rewritten, machine));
        return 0;
    }
    const Derivation derivation = rewrite(read_graph(options.file), rewriting);
    std::cout << transfuse::explain(derivation) << "\n" << print(plan(derivation.rewritten, machine));
    return 0;
}

}  // namespace transfuse::cli
