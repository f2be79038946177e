// Pieces of generated text: index arithmetic that simplifies itself, kernel parameters, and an indented body.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/kernel/kernel.h"

namespace transfuse::cuda {

// Index arithmetic on texts. Literals fold, zeros and ones vanish; results are atoms or parenthesised.
bool is_number(const std::string& text);
std::string plus(const std::string& a, const std::string& b);
std::string minus(const std::string& a, const std::string& b);
std::string times(const std::string& a, const std::string& b);
std::string number(int64_t value);
// The pieces one behind the other, in memory that is asked for once.
std::string joined(std::initializer_list<std::string_view> pieces);

// The parameters of one kernel. Extents and strides that change from call to call are passed as integers (equal numbers
// share a parameter); those the graph fixes (channels, taps) are written into the text.
class Parameters {
public:
    // any_size: every size has a parameter of its own; that it is 1, or equals another, holds at one shape only.
    explicit Parameters(bool wide_index, bool any_size = false) : wide_index_(wide_index), any_size_(any_size) {}

    // The name of a pointer parameter. `type` is the pointee, e.g. "const float"; read-only memory is marked restrict.
    std::string pointer(const Argument& argument, const std::string& type, bool read_only);
    std::string integer(int64_t value, bool dynamic);
    // A parameter of its own: a count that may by chance equal something else.
    std::string count(int64_t value);
    // A factor or a summand: it may be one over a count, and then changes with sizes. Where texts serve all of them.
    std::string real(double value, bool f64);
    // Texts of a / extent and of the remainder for 0 <= a.
    std::string quotient(const std::string& a, int64_t extent, bool dynamic);
    std::string remainder(const std::string& a, const std::string& quotient, int64_t extent, bool dynamic);

    bool wide_index() const { return wide_index_; }
    bool any_size() const { return any_size_; }
    std::string declaration() const;  // "const float* __restrict__ p0, int n0, tf_divisor d0"
    std::vector<Argument> arguments() const;

private:
    std::string divisor(int64_t extent);                                                       // its name
    std::string numbered(std::string_view prefix, std::vector<int64_t>& list, int64_t value);  // the name of one more
    std::string_view integer_type() const { return wide_index_ ? "long long" : "int"; }
    Argument integer_argument(int64_t value) const;
    Argument divisor_argument(int64_t extent) const;
    struct Pointer {
        std::string type, name;
        Argument argument;
    };
    struct Number {
        double value;
        bool f64;
    };
    bool wide_index_;
    bool any_size_;
    std::vector<Pointer> pointers_;
    std::vector<int64_t> integers_, counts_;  // n0, n1, …; count0, …
    std::vector<Number> reals_;               // real0, …
    std::vector<int64_t> divisors_;           // d0, …
    std::map<int64_t, std::string> integer_names_, divisor_names_;
};

// tf_index (int, or long long when offsets need it) and tf_divisor with tf_quotient_of.
std::string_view index_code(bool wide_index);

// Statements, indented; open() and close() also bound the life of what a caller remembers about emitted names.
class Body {
public:
    using Pieces = std::initializer_list<std::string_view>;  // put one behind the other, none is copied before

    void line(std::string_view text) { line({text}); }
    void line(Pieces pieces) { begin(), put(pieces), end(); }
    void open(std::string_view head) { open({head}); }
    void open(Pieces head) { begin(), put(head), text_ += " {", end(), ++depth_; }
    void close() { --depth_, line("}"); }
    // const `type` `name` = `value`;
    void let(std::string_view type, std::string_view name, Pieces value) {
        begin(), put({"const ", type, " ", name, " = "}), put(value), text_ += ';', end();
    }
    std::string fresh(std::string_view prefix) { return joined({prefix, std::to_string(serial_++)}); }
    const std::string& text() const { return text_; }
    int depth() const { return depth_; }

private:
    static constexpr size_t usual = 6000;  // characters: as long as many become
    void begin() {
        if (text_.empty()) text_.reserve(usual);  // many writers refuse before they write
        text_.append(static_cast<size_t>(depth_) * 4, ' ');
    }
    void put(Pieces pieces) {
        for (const std::string_view piece : pieces) text_ += piece;
    }
    void end() { text_ += '\n'; }
    std::string text_;
    int depth_ = 1, serial_ = 0;
};

}  // namespace transfuse::cuda
