// Tokens of the text form, with their places.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "transfuse/error.h"

namespace transfuse {

struct Place {
    int line = 1, column = 1;
};

enum class TokenKind : uint8_t { word, value, number, symbol, end };

struct Token {
    TokenKind kind = TokenKind::end;
    std::string_view text;  // a value's name comes without its '%'
    Place place;
};

// "%x", "input", "-1.5e3", "inf", "(" …; '#' begins a comment that ends with the line.
class Lexer {
public:
    explicit Lexer(std::string_view text) : rest_(text) { advance(); }

    const Token& token() const { return token_; }
    bool at(char symbol) const { return token_.kind == TokenKind::symbol && token_.text[0] == symbol; }
    Token take();
    // Takes the symbol if it comes next.
    bool take(char symbol);

    [[noreturn]] void expected(std::string_view what) const;  // … at the current token
    template <class... Parts>
    [[noreturn]] static void fail_at(Place place, const Parts&... parts) {
        fail("line ", place.line, ", column ", place.column, ": ", parts...);
    }

private:
    void advance();
    void skip(size_t count);

    std::string_view rest_;
    Place place_;
    Token token_;
};

}  // namespace transfuse
