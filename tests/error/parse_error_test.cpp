// A parse error names line, column, and what was expected.
#include <gtest/gtest.h>

#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse {
namespace {

struct Case {
    const char* text;
    const char* sentence;
};

class ParseError : public ::testing::TestWithParam<Case> {};

TEST_P(ParseError, NamesThePlace) {
    try {
        parse(GetParam().text);
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), GetParam().sentence);
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseError,
    ::testing::Values(
        Case{"", "line 1, column 1: expected 'graph', got the end of the text"},
        Case{"grape g {", "line 1, column 1: expected 'graph', got 'grape'"},
        Case{"graph {", "line 1, column 7: expected the graph's name, got '{'"},
        Case{"graph g\n  %x", "line 2, column 3: expected '{', got '%x'"},
        Case{"graph g {\n  %x input f32[1]", "line 2, column 6: expected '=', got 'input'"},
        Case{"graph g {\n  %x = input f32(1)", "line 2, column 17: expected '[', got '('"},
        Case{"graph g {\n  %x = input f31[1]",
             "line 2, column 14: unknown dtype 'f31', expected f64, f32, f16 or bf16"},
        Case{"graph g {\n  %x = input f32[1;2]", "line 2, column 19: unexpected character ';'"},
        Case{"graph g {\n  %x = input f32[1.5]", "line 2, column 18: an extent must be an integer of 63 bits"},
        Case{"graph g {\n  %x = input f32[1]\n  %y = relu(%x = 3", "line 3, column 16: expected ')' or ',', got '='"},
        Case{"graph g {\n  %x = input f32[1]\n  %y = rely(%x)", "line 3, column 8: there is no op 'rely'"},
        Case{"graph g {\n  %y = relu(%x)", "line 2, column 13: %x is not defined above"},
        Case{"graph g {\n  %x = input f32[1]\n  %x = relu(%x)", "line 3, column 3: %x is defined twice"},
        Case{"graph g {\n  %0 = input f32[1]", "line 2, column 3: an input needs a name, not a number"},
        Case{"graph g {\n  %x = input f32[1]\n  %y = relu(%x) lo=1",
             "line 3, column 17: relu: there is no attribute 'lo'"},
        Case{"graph g {\n  %x = input f32[1]\n  %y = clamp(%x) lo=1 lo=2",
             "line 3, column 23: attribute 'lo' is given twice"},
        Case{"graph g {\n  %x = input f32[1]\n  %y = clamp(%x) lo=",
             "line 3, column 21: expected a number or '[', got the end of the text"},
        Case{"graph g {\n  %x = input f32[1]\n  %y = clamp(%x) lo=1e",
             "line 3, column 21: expected a number, got '1e'"},
        Case{"graph g {\n  %x = input f32[1]\n  %y = clamp(%x) lo=1e999",
             "line 3, column 21: the number 1e999 is out of range"},
        Case{"graph g {\n  %x = input f32[2]\n  %y = sum(%x) dims=[0 1]",
             "line 3, column 24: expected ']' or ',', got '1'"},
        Case{"graph g {\n  %x = input f32[2]\n  %y = sum(%x) : f32[2]",
             "line 3, column 16: the value is f32[], not f32[2]"},
        Case{"graph g {\n  %x = input f32[2]\n  %y = sum(%x) dims=[3]",
             "line 3, column 8: sum: dim must be between -1 and 0 for a tensor of rank 1, got 3"},
        Case{"graph g {\n  %x = input f32[2]\n}",
             "line 3, column 1: expected a statement '%name = ...' or 'return', got '}'"},
        Case{"graph g {\n  %x = input f32[2]\n  return x }", "line 3, column 12: expected '=', got '}'"},
        Case{"graph g {\n  %x = input f32[2]\n  return %x",
             "line 3, column 12: expected ',' or '}', got the end of the text"},
        Case{"graph g {\n  %x = input f32[2]\n  return %x } x",
             "line 3, column 15: expected the end of the text, got 'x'"},
        Case{"graph g {\n  %x = input f32[2]\n  return a=%x, a=%x }",
             "line 3, column 10: graph g: two outputs are named 'a'"},
        Case{"graph g {\n  % = input f32[2]", "line 2, column 3: expected a name after '%'"},
        Case{"graph \x01", "line 1, column 7: unexpected character '\\x01'"}));

}  // namespace
}  // namespace transfuse
