#include "cuda/dense/schedule/config.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <type_traits>

namespace transfuse::cuda {

namespace {

constexpr std::array<std::string_view, 3> split_names{"channels", "pixels", "phases"};

const auto& names(Split) { return split_names; }
const auto& names(Exit) { return exit_names; }

void write(std::ostream& text, int number) { text << number; }
void write(std::ostream& text, const std::array<int, 4>& a) {
    text << a[0] << 'x' << a[1] << 'x' << a[2] << 'x' << a[3];
}
template <class Named>
void write(std::ostream& text, Named value) {
    text << names(value)[static_cast<size_t>(value)];
}

void read(std::istream& text, int& number) { text >> number; }
void read(std::istream& text, std::array<int, 4>& a) {
    char x = 0;
    text >> a[0] >> x >> a[1] >> x >> a[2] >> x >> a[3];
}
template <class Named>
void read(std::istream& text, Named& value) {
    std::string word;
    text >> word;
    const auto at = std::ranges::find(names(value), word) - names(value).begin();
    if (at == static_cast<std::ptrdiff_t>(names(value).size())) return text.setstate(std::ios::failbit);
    value = static_cast<Named>(at);
}

}  // namespace

std::string to_string(const Config& config) {
    std::ostringstream text;
    each_field(config, [&](const char* name, const auto& field) {
        const char* const between = text.tellp() > 0 ? " " : "";
        if constexpr (std::is_same_v<decltype(field), const bool&>) {
            if (field) text << between << name;
        } else {
            text << between << name << ' ';
            write(text, field);
        }
    });
    return text.str();
}

std::optional<Config> config_named(const std::string& text) {
    std::istringstream words(text);
    Config config;
    std::string word;
    words >> word;
    each_field(config, [&](const char* name, auto& field) {
        if (word != name) return;
        if constexpr (std::is_same_v<decltype(field), bool&>)
            field = true;
        else
            read(words, field);
        if (!(words >> word)) word.clear();
    });
    return to_string(config) == text ? std::optional<Config>(config) : std::nullopt;
}

// Σ (registers of a role × its warps) ≤ registers a thread at launch × warps, or the products never start.
void Config::share_registers() {
    if (store_groups == 0)
        load_registers = 88, store_registers = 0, product_registers = 208;
    else if (store_groups > 1)
        load_registers = 56, store_registers = 56, product_registers = 152;
    else
        load_registers = 64, store_registers = 96, product_registers = 176;
}

}  // namespace transfuse::cuda
