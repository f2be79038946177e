// The one error type. Its message is a sentence a user can act on: op, argument, value, expectation.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace transfuse {

class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// There was no memory for a call, which says nothing of the next one.
class OutOfMemory : public Error {
public:
    explicit OutOfMemory(const std::string& what) : Error("out of memory: " + what) {}
};

// Throws Error with all parts streamed together:  fail("conv: stride must be positive, got ", s)
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
    std::ostringstream sentence;
    (sentence << ... << parts);
    throw Error(sentence.str());
}

template <class... Parts>
void require(bool condition, const Parts&... parts) {
    if (!condition) fail(parts...);
}

}  // namespace transfuse
