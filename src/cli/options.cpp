#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "cli/commands.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"

namespace transfuse::cli {

namespace {

// The whole of `text` as a number, or an Error that names the option.
template <class Parse>
auto parse_number(std::string_view option, const std::string& text, const char* expected, Parse parse) {
    size_t used = 0;
    try {
        auto value = parse(text, &used);
        if (used == text.size() && value >= 0) return value;
    } catch (const std::logic_error&) {
    }
    fail(option, " must be ", expected, ", got '", text, "'.");
}

}  // namespace

bool Options::has(std::string_view option) const {
    return std::any_of(given.begin(), given.end(), [&](const auto& pair) { return pair.first == option; });
}

std::string Options::text(std::string_view option, std::string fallback) const {
    for (const auto& [name, value] : given)
        if (name == option) fallback = value;
    return fallback;
}

int64_t Options::integer(std::string_view option, int64_t fallback) const {
    if (!has(option)) return fallback;
    return parse_number(option, text(option, ""), "a whole number >= 0",
                        [](const std::string& t, size_t* used) { return std::stoll(t, used); });
}

double Options::number(std::string_view option, double fallback) const {
    if (!has(option)) return fallback;
    return parse_number(option, text(option, ""), "a number >= 0",
                        [](const std::string& t, size_t* used) { return std::stod(t, used); });
}

Options read_options(std::string command, const std::vector<std::string>& arguments,
                     const std::vector<std::string_view>& with_value, const std::vector<std::string_view>& flags) {
    Options options;
    options.command = std::move(command);
    auto one_of = [](const std::vector<std::string_view>& names, const std::string& word) {
        return std::find(names.begin(), names.end(), word) != names.end();
    };
    for (size_t i = 0; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        const size_t equals = word.find('=');
        if (one_of(flags, word)) {
            options.given.emplace_back(word, "");
        } else if (one_of(with_value, word)) {
            require(i + 1 < arguments.size(), word, " needs a value.");
            options.given.emplace_back(word, arguments[++i]);
        } else if (equals != std::string::npos && one_of(with_value, word.substr(0, equals))) {
            options.given.emplace_back(word.substr(0, equals), word.substr(equals + 1));
        } else if (word.size() > 1 && word[0] == '-') {
            fail(options.command, " does not know the option ", word, " (see transfuse --help).");
        } else {
            require(options.file.empty(), options.command, " takes one FILE, got '", options.file, "' and '", word,
                    "'.");
            options.file = word;
        }
    }
    require(!options.file.empty(), options.command, " needs a FILE (see transfuse --help).");
    return options;
}

Graph read_graph(const std::string& file) {
    std::string text;
    if (file == "-") {
        text.assign(std::istreambuf_iterator<char>(std::cin), {});
    } else {
        require(!std::filesystem::is_directory(file), "cannot read ", file, ": it is a directory.");
        std::ifstream stream(file, std::ios::binary);
        require(stream.good(), "cannot read ", file, ": ", std::strerror(errno), ".");
        text.assign(std::istreambuf_iterator<char>(stream), {});
    }
    try {
        return parse(text);
    } catch (const Error& error) {
        fail(file == "-" ? "standard input" : file, ": ", error.what());
    }
}

Machine machine_named(const std::string& name) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (name == "h200") return Machine::h200();
    if (name == "cpu") return Machine::cpu(cores);
    if (name.rfind("cpu:", 0) == 0) {
        const int64_t threads = parse_number("--machine cpu:", name.substr(4), "followed by a number of threads",
                                             [](const std::string& t, size_t* used) { return std::stoi(t, used); });
        require(threads > 0, "--machine cpu: needs at least one thread.");
        return Machine::cpu(static_cast<int>(threads));
    }
    require(name.empty(), "--machine must be h200, cpu or cpu:THREADS, got '", name, "'.");
#ifdef TRANSFUSE_CUDA_ENGINE
    if (cuda_available()) return Machine::h200();
#endif
    return Machine::cpu(cores);
}

}  // namespace transfuse::cli
