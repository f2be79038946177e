// The text form, read.
#include <charconv>
#include <unordered_map>

#include "graph/lexer.h"
#include "graph/names.h"
#include "graph/schema.h"

namespace transfuse {

namespace {

// An integer where the text is one ("-0" is not: its sign would be lost), else a double.
std::variant<int64_t, double> read_number(const Token& token) {
    std::string_view text = token.text;
    if (text.starts_with('+')) text.remove_prefix(1);
    const char *begin = text.data(), *end = begin + text.size();
    int64_t integer;
    const auto whole = std::from_chars(begin, end, integer);
    if (whole.ec == std::errc() && whole.ptr == end && !(integer == 0 && text[0] == '-')) return integer;
    double number;
    const auto real = std::from_chars(begin, end, number);
    if (real.ec == std::errc::result_out_of_range)
        Lexer::fail_at(token.place, "the number ", token.text, " is out of range");
    if (real.ec != std::errc() || real.ptr != end)
        Lexer::fail_at(token.place, "expected a number, got '", token.text, "'");
    return number;
}

double as_double(const std::variant<int64_t, double>& number) {
    return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

// Errors of the graph get the place of the statement they come from.
template <class Build>
auto at(Place place, const Build& build) {
    try {
        return build();
    } catch (const Error& error) {
        Lexer::fail_at(place, error.what());
    }
}

class Parser {
public:
    explicit Parser(std::string_view text) : lexer_(text) {}

    Graph graph() {
        if (!take_word("graph")) lexer_.expected("'graph'");
        Builder builder(std::string(name("the graph's name")));
        expect('{', "'{'");
        while (lexer_.token().kind == TokenKind::value) statement(builder);
        if (!take_word("return")) lexer_.expected("a statement '%name = ...' or 'return'");
        std::vector<ValueId> outputs;
        std::vector<std::string> names;
        const Place place = lexer_.token().place;
        do {
            names.emplace_back();
            outputs.push_back(output(builder, names.back()));
        } while (lexer_.take(','));
        expect('}', "',' or '}'");
        if (lexer_.token().kind != TokenKind::end) lexer_.expected("the end of the text");
        return at(place, [&] { return builder.finish(std::move(outputs), std::move(names)); });
    }

private:
    void expect(char symbol, std::string_view what) {
        if (!lexer_.take(symbol)) lexer_.expected(what);
    }

    bool take_word(std::string_view word) {
        if (lexer_.token().kind != TokenKind::word || lexer_.token().text != word) return false;
        lexer_.take();
        return true;
    }

    // "1d_decoder" is lexed as a number, and yet a name.
    static bool is_name_token(const Token& token) {
        return (token.kind == TokenKind::word || token.kind == TokenKind::number) && is_name(token.text);
    }

    std::string_view name(std::string_view what) {
        if (!is_name_token(lexer_.token())) lexer_.expected(what);
        return lexer_.take().text;
    }

    void statement(Builder& builder) {
        const Token target = lexer_.take();
        if (values_.contains(target.text)) Lexer::fail_at(target.place, "%", target.text, " is defined twice");
        expect('=', "'='");
        if (lexer_.token().kind != TokenKind::word) lexer_.expected("an op");
        const Token op_token = lexer_.take();
        const auto op = op_named(op_token.text);
        if (!op) Lexer::fail_at(op_token.place, "there is no op '", op_token.text, "'");
        const std::string given = is_number_name(target.text) ? std::string() : std::string(target.text);
        ValueId id;
        if (is_leaf(*op)) {
            if (given.empty()) Lexer::fail_at(target.place, "an ", op_token.text, " needs a name, not a number");
            const Type type = this->type();
            id = at(op_token.place,
                    [&] { return *op == Op::input ? builder.input(given, type) : builder.param(given, type); });
        } else {
            Operands args = operands(builder);
            Attributes attributes = this->attributes(transfuse::schema(*op));
            id = at(op_token.place, [&] { return builder.add(*op, std::move(args), std::move(attributes), given); });
            annotation(builder[id].type);
        }
        values_.emplace(target.text, id);
    }

    Operands operands(Builder& builder) {
        Operands args;
        expect('(', "'('");
        if (lexer_.take(')')) return args;
        do args.push_back(operand(builder));
        while (lexer_.take(','));
        expect(')', "')' or ','");
        return args;
    }

    // "%y", "0.5", or with a name "mean=%y".
    ValueId output(Builder& builder, std::string& given) {
        if (!is_name_token(lexer_.token())) return operand(builder);
        const Token first = lexer_.take();
        if (lexer_.take('=')) {
            given = first.text;
            return operand(builder);
        }
        if (first.kind == TokenKind::word) lexer_.expected("'='");
        return builder.scalar(as_double(read_number(first)));
    }

    ValueId operand(Builder& builder) {
        if (lexer_.token().kind == TokenKind::number) return builder.scalar(as_double(read_number(lexer_.take())));
        if (lexer_.token().kind != TokenKind::value) lexer_.expected("%name or a number");
        const Token token = lexer_.take();
        auto found = values_.find(token.text);
        if (found == values_.end()) Lexer::fail_at(token.place, "%", token.text, " is not defined above");
        return found->second;
    }

    Attributes attributes(const Schema& schema) {
        Attributes result;
        while (lexer_.token().kind == TokenKind::word && lexer_.token().text != "return") {
            const Token token = lexer_.take();
            const auto key = key_named(token.text);
            const AttributeSchema* attribute = key ? find(schema, *key) : nullptr;
            if (!attribute) Lexer::fail_at(token.place, schema.name, ": there is no attribute '", token.text, "'");
            if (result.has(*key)) Lexer::fail_at(token.place, "attribute '", token.text, "' is given twice");
            expect('=', "'='");
            result.set(*key, number(attribute->kind));
        }
        return result;
    }

    Number number(Kind kind) {
        if (kind == Kind::dtype) return static_cast<int64_t>(dtype());
        if (lexer_.take('[')) return list(kind);
        if (lexer_.token().kind != TokenKind::number) lexer_.expected("a number or '['");
        return std::visit([](auto value) { return Number(value); }, read_number(lexer_.take()));
    }

    // Integers if all of them are, doubles otherwise.
    Number list(Kind kind) {
        std::vector<std::variant<int64_t, double>> elements;
        bool integers = kind != Kind::numbers;
        if (!lexer_.take(']')) {
            do {
                if (lexer_.token().kind != TokenKind::number) lexer_.expected("a number");
                elements.push_back(read_number(lexer_.take()));
                integers = integers && std::holds_alternative<int64_t>(elements.back());
            } while (lexer_.take(','));
            expect(']', "']' or ','");
        }
        if (integers) {
            Sizes result;
            result.reserve(elements.size());
            for (const auto& element : elements) result.push_back(std::get<int64_t>(element));
            return result;
        }
        std::vector<double> result;
        result.reserve(elements.size());
        for (const auto& element : elements) result.push_back(as_double(element));
        return result;
    }

    DType dtype() {
        if (lexer_.token().kind != TokenKind::word) lexer_.expected("a dtype (f64, f32, f16 or bf16)");
        const Token token = lexer_.take();
        return at(token.place, [&] { return dtype_named(token.text); });
    }

    Type type() {
        Type result{dtype(), {}};
        expect('[', "'['");
        if (lexer_.take(']')) return result;
        do {
            const Place place = lexer_.token().place;
            if (lexer_.token().kind != TokenKind::number) lexer_.expected("an extent");
            const auto extent = read_number(lexer_.take());
            if (!std::holds_alternative<int64_t>(extent))
                Lexer::fail_at(place, "an extent must be an integer of 63 bits");
            result.shape.push_back(std::get<int64_t>(extent));
        } while (lexer_.take(','));
        expect(']', "']' or ','");
        return result;
    }

    // ": f32[…]" after a statement says what the reader may expect; it must be true.
    void annotation(const Type& inferred) {
        const Place place = lexer_.token().place;
        if (!lexer_.take(':')) return;
        const Type said = type();
        if (said != inferred) Lexer::fail_at(place, "the value is ", to_string(inferred), ", not ", to_string(said));
    }

    Lexer lexer_;
    std::unordered_map<std::string_view, ValueId> values_;
};

}  // namespace

Graph parse(std::string_view text) { return Parser(text).graph(); }

}  // namespace transfuse
