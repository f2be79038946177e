// Brings the attributes of a node into the form its schema gives them.
#include <cmath>

#include "graph/schema.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

std::string_view describe(Kind kind) {
    switch (kind) {
        case Kind::integer:
            return "an integer";
        case Kind::flag:
            return "0 or 1";
        case Kind::dtype:
            return "a dtype";
        case Kind::number:
            return "a number";
        case Kind::integers:
            return "a list of integers";
        case Kind::numbers:
            return "a list of numbers";
    }
    return "";
}

// An integral double as an integer ("-0" and "1e3" are read as doubles).
std::optional<int64_t> integral(double value) {
    if (std::abs(value) > 9007199254740992.0 || value != std::trunc(value)) return std::nullopt;
    return static_cast<int64_t>(value);
}

std::optional<int64_t> as_integer(const Number& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
    if (const auto* number = std::get_if<double>(&value)) return integral(*number);
    return std::nullopt;
}

std::optional<Sizes> as_integers(const Number& value) {
    if (const auto* doubles = std::get_if<std::vector<double>>(&value)) {
        Sizes list;
        for (double element : *doubles) {
            auto integer = integral(element);
            if (!integer) return std::nullopt;
            list.push_back(*integer);
        }
        return list;
    }
    if (auto integer = as_integer(value)) return Sizes{*integer};
    return std::nullopt;
}

// Already in the schema's form: the common case when a graph is rebuilt.
bool fits(Kind kind, const Number& value) {
    switch (kind) {
        case Kind::integer:
            return std::holds_alternative<int64_t>(value);
        case Kind::flag:
        case Kind::dtype: {
            const auto* integer = std::get_if<int64_t>(&value);
            return integer && *integer >= 0 && *integer <= (kind == Kind::flag ? 1 : static_cast<int64_t>(DType::bf16));
        }
        case Kind::number:
            return std::holds_alternative<double>(value);
        case Kind::integers:
            return std::holds_alternative<Sizes>(value);
        case Kind::numbers:
            return std::holds_alternative<std::vector<double>>(value);
    }
    return false;
}

// nullopt where the value is of another kind.
std::optional<Number> convert(Kind kind, const Number& value) {
    std::optional<Number> converted;
    if (kind == Kind::integers) {
        if (auto list = as_integers(value)) converted = std::move(*list);
    } else if (kind == Kind::numbers) {
        if (const auto* list = std::get_if<Sizes>(&value)) converted = std::vector<double>(list->begin(), list->end());
    } else if (kind == Kind::number) {
        if (const auto* integer = std::get_if<int64_t>(&value)) converted = static_cast<double>(*integer);
    } else if (auto integer = as_integer(value)) {
        converted = *integer;
    }
    return converted && fits(kind, *converted) ? converted : std::nullopt;
}

[[noreturn]] void refuse_key(const Schema& schema, Key key) {
    std::string known;
    for (const AttributeSchema& attribute : schema.attributes)
        (known += known.empty() ? "" : ", ") += name(attribute.key);
    fail(schema.name, ": there is no attribute '", name(key), "', it takes ", known.empty() ? "none" : known);
}

}  // namespace

Attributes complete(const Schema& schema, Attributes given) {
    const Attributes as_given = given;  // it stays while what is completed changes
    for (const auto& [key, value] : as_given.items()) {
        const AttributeSchema* attribute = find(schema, key);
        if (!attribute) refuse_key(schema, key);
        if (fits(attribute->kind, value)) continue;
        std::optional<Number> converted = convert(attribute->kind, value);
        if (!converted) fail(schema.name, ": attribute '", name(key), "' must be ", describe(attribute->kind));
        given.set(key, std::move(*converted));
    }
    for (const AttributeSchema& attribute : schema.attributes) {
        if (attribute.optional || given.has(attribute.key)) continue;
        if (!attribute.value) fail(schema.name, ": attribute '", name(attribute.key), "' is missing");
        given.set(attribute.key, *attribute.value);
    }
    return given;
}

}  // namespace transfuse
