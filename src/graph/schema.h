// The schema of every op: its name, how many operands it takes, and its attributes with their kinds and defaults.
#pragma once

#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

enum class Kind : uint8_t { integer, flag, dtype, number, integers, numbers };

struct AttributeSchema {
    Key key;
    Kind kind;
    std::optional<Number> value;  // the default; none: required, unless `optional`
    bool optional = false;        // may be absent, and then stays absent
};

struct Schema {
    Op op;
    std::string_view name;
    int min_args, max_args;
    std::vector<AttributeSchema> attributes;
    std::string_view operands;  // their names, for error messages: "x, w[, bias]"
};

constexpr int any_number = std::numeric_limits<int>::max();

const Schema& schema(Op op);
const AttributeSchema* find(const Schema& schema, Key key);
std::optional<Op> op_named(std::string_view text);

std::string_view name(Key key);
std::optional<Key> key_named(std::string_view text);

// Numbers are told apart by their bits: -0 is not 0, and a NaN is itself.
inline uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }
inline uint64_t bits(double value) { return value != value ? 1 : std::bit_cast<uint64_t>(value); }
bool same(const Number& a, const Number& b);

// Checks that the attributes are those of the op and of the right kinds, converts integers to numbers and single
// integers to lists where the schema says so, and fills in defaults.
Attributes complete(const Schema& schema, Attributes given);

// Those of a lattice with these axes; input extents and taps are its operands' own.
Attributes lattice_attributes(const Lattices& axes, int64_t groups);

}  // namespace transfuse
