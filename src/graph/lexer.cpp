#include "graph/lexer.h"

#include "graph/names.h"

namespace transfuse {

namespace {

constexpr std::string_view symbols = "(){}[],=:";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool starts_number(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.'; }
// A number's characters, "1e-5" and "-inf" among them; what it means is the parser's business.
bool is_number_character(char c) { return is_name_character(c) || c == '+'; }

size_t length(std::string_view text, bool (*belongs)(char)) {
    size_t count = 0;
    while (count < text.size() && belongs(text[count])) ++count;
    return count;
}

// Control characters and bytes outside ASCII are shown by their code.
std::string shown(std::string_view text) {
    std::string result;
    for (char c : text.substr(0, 40)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            result += c;
        } else {
            constexpr char digits[] = "0123456789abcdef";
            (result += "\\x") += {digits[byte >> 4], digits[byte & 15]};
        }
    }
    return text.size() > 40 ? result + "..." : result;
}

}  // namespace

void Lexer::skip(size_t count) {
    for (char c : rest_.substr(0, count)) {
        if (c == '\n') {
            ++place_.line;
            place_.column = 1;
        } else {
            ++place_.column;
        }
    }
    rest_.remove_prefix(count);
}

void Lexer::advance() {
    while (!rest_.empty() && (is_space(rest_[0]) || rest_[0] == '#'))
        skip(rest_[0] == '#' ? length(rest_, [](char c) { return c != '\n'; }) : length(rest_, is_space));
    token_ = {TokenKind::end, {}, place_};
    if (rest_.empty()) return;
    const char first = rest_[0];
    if (symbols.find(first) != std::string_view::npos) {
        token_ = {TokenKind::symbol, rest_.substr(0, 1), place_};
        skip(1);
    } else if (first == '%') {
        const size_t count = length(rest_.substr(1), is_name_character);
        if (count == 0) fail_at(place_, "expected a name after '%'");
        token_ = {TokenKind::value, rest_.substr(1, count), place_};
        skip(count + 1);
    } else if (starts_number(first) || is_name_character(first)) {
        const bool number = starts_number(first);
        const size_t count = length(rest_, number ? is_number_character : is_name_character);
        const std::string_view text = rest_.substr(0, count);
        token_ = {number || text == "inf" || text == "nan" ? TokenKind::number : TokenKind::word, text, place_};
        skip(count);
    } else {
        fail_at(place_, "unexpected character '", shown(rest_.substr(0, 1)), "'");
    }
}

Token Lexer::take() {
    Token taken = token_;
    advance();
    return taken;
}

bool Lexer::take(char symbol) {
    if (!at(symbol)) return false;
    advance();
    return true;
}

void Lexer::expected(std::string_view what) const {
    if (token_.kind == TokenKind::end) fail_at(token_.place, "expected ", what, ", got the end of the text");
    fail_at(token_.place, "expected ", what, ", got '", token_.kind == TokenKind::value ? "%" : "", shown(token_.text),
            "'");
}

}  // namespace transfuse
