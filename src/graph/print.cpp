// The text form, written.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "graph/names.h"
#include "graph/schema.h"

namespace transfuse {

namespace {

void write(std::string& text, double value) {
    if (std::isnan(value)) {
        text += "nan";
        return;
    }
    if (std::isinf(value)) {
        text += value < 0 ? "-inf" : "inf";
        return;
    }
    char buffer[32];
    text.append(buffer,
                std::to_chars(buffer, buffer + sizeof buffer, value).ptr);  // the shortest that reads back exactly
}

void write(std::string& text, int64_t value) {
    char buffer[24];
    text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

template <class List>
void write(std::string& text, const List& list) {
    text += '[';
    for (size_t i = 0; i < list.size(); ++i) {
        if (i) text += ',';
        write(text, list[i]);
    }
    text += ']';
}

void write_type(std::string& text, const Type& type) {
    text += name(type.dtype);
    write(text, type.shape);
}

// A default goes without saying, also where it was spread over the axes.
bool is_default(const AttributeSchema& schema, const Number& value) {
    if (!schema.value) return false;
    const auto *standard = std::get_if<Sizes>(&*schema.value), *list = std::get_if<Sizes>(&value);
    if (standard && list && standard->size() == 1)
        return std::all_of(list->begin(), list->end(), [&](int64_t element) { return element == standard->front(); });
    return same(*schema.value, value);
}

struct Printer {
    const Graph& graph;
    std::string text;
    std::vector<int64_t> number = std::vector<int64_t>(graph.nodes().size(), -1);  // of values without a name

    void value(ValueId id) {
        const Node& node = graph[id];
        if (node.op == Op::scalar) return write(text, node.attributes.number(Key::value));
        text += '%';
        if (node.name.empty())
            write(text, number[static_cast<size_t>(id)]);
        else
            text += node.name;
    }

    void attribute(const AttributeSchema& schema, const Number& value) {
        text += ' ';
        text += name(schema.key);
        text += '=';
        if (schema.kind == Kind::dtype)
            text += name(static_cast<DType>(std::get<int64_t>(value)));
        else
            std::visit([&](const auto& v) { write(text, v); }, value);
    }

    void statement(ValueId id) {
        const Node& node = graph[id];
        const Schema& schema = transfuse::schema(node.op);
        text += "  ";
        value(id);
        text += " = ";
        text += schema.name;
        if (is_leaf(node.op)) {
            text += ' ';
            write_type(text, node.type);
        } else {
            text += '(';
            for (size_t i = 0; i < node.args.size(); ++i) {
                if (i) text += ", ";
                value(node.args[i]);
            }
            text += ')';
            for (const auto& [key, value] : node.attributes.items()) {
                const AttributeSchema* attribute = find(schema, key);
                if (!is_default(*attribute, value)) this->attribute(*attribute, value);
            }
        }
        text += '\n';
    }

    void outputs() {
        text += "  return ";
        std::unordered_set<std::string> before;
        for (size_t i = 0; i < graph.outputs().size(); ++i) {
            if (i) text += ", ";
            const ValueId id = graph.outputs()[i];
            const std::string& name = graph.output_names()[i];
            if (name != default_output_name(graph[id], i, before)) {
                text += name;
                text += '=';
            }
            value(id);
            before.insert(name);
        }
        text += '\n';
    }
};

}  // namespace

std::string print(const Graph& graph) {
    Printer printer{graph, {}};
    int64_t next = 0;
    for (ValueId id = 0; id < graph.size(); ++id)
        if (graph[id].name.empty() && graph[id].op != Op::scalar) printer.number[static_cast<size_t>(id)] = next++;
    printer.text = "graph " + graph.name() + " {\n";
    for (ValueId id = 0; id < graph.size(); ++id)
        if (graph[id].op != Op::scalar) printer.statement(id);
    printer.outputs();
    printer.text += "}\n";
    return std::move(printer.text);
}

}  // namespace transfuse
