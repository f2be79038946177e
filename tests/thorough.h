// What is left to long runs: `make test-long` sets TRANSFUSE_TESTS=long.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace transfuse::tests {

inline bool thorough() {
    const char* given = std::getenv("TRANSFUSE_TESTS");
    return given && std::string_view(given) == "long";
}

// Whether case `row` of a sweep runs in manner `column`: a long run has all of them, another one a `share`th, so that
// every case still runs in some manner and every manner has some of the cases.
inline bool taken(size_t row, size_t column, size_t share) { return thorough() || (row + column) % share == 0; }

}  // namespace transfuse::tests
