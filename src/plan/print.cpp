// A plan as text: one paragraph a pass.
#include <algorithm>
#include <cstdio>

#include "plan/pass_name.h"
#include "transfuse/plan.h"

namespace transfuse {

namespace {

constexpr std::string_view scope_names[] = {"prologue", "tile", "grid", "tail"};

std::string quantity(double value, const char* unit) {
    static constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
    int prefix = 0;
    while (value >= 1000 && prefix < 5) {
        value /= 1000;
        ++prefix;
    }
    char text[48];
    std::snprintf(text, sizeof text, "%.3g %s%s", value, prefixes[prefix], unit);
    return text;
}

std::string duration(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, seconds >= 1e-3 ? "%.3g ms" : "%.3g us", seconds * (seconds >= 1e-3 ? 1e3 : 1e6));
    return text;
}

std::string label(const Graph& graph, ValueId id) {
    const Node& node = graph[id];
    if (node.op == Op::scalar) {
        char text[32];
        std::snprintf(text, sizeof text, "%g", node.attributes.number(Key::value));
        return text;
    }
    return "%" + (node.name.empty() ? std::to_string(id) : node.name);
}

std::string typed(const Graph& graph, ValueId id) { return label(graph, id) + " " + to_string(graph[id].type); }

std::string step_text(const Graph& graph, ValueId id) {
    const Node& node = graph[id];
    std::string text = label(graph, id) + " = " + std::string(name(node.op)) + "(";
    for (size_t i = 0; i < node.args.size(); ++i) text += (i ? ", " : "") + label(graph, node.args[i]);
    text += ")";
    if (node.attributes.has(Key::dims)) text += " dims=" + to_string(node.attributes.integers(Key::dims));
    return text + " : " + to_string(node.type);
}

void lattice_text(const Graph& graph, ValueId id, std::string& out) {
    int64_t taps = 1;
    const auto axes = lattices(graph, id);
    for (const Lattice& axis : axes) taps *= axis.taps;
    out +=
        "  lattice   " + std::to_string(axes.size()) + "-d, " + std::to_string(taps) + (taps == 1 ? " tap" : " taps");
    for (const Lattice& axis : axes) out += "; " + to_string(axis);
    out += "\n";
}

}  // namespace

std::string print(const Plan& plan) {
    const Graph& graph = plan.graph;
    std::string out = "plan for " + plan.machine.name + ": " + std::to_string(plan.passes.size()) +
                      (plan.passes.size() == 1 ? " pass" : " passes") + ", estimated " + duration(plan.seconds) + "\n";
    for (size_t p = 0; p < plan.passes.size(); ++p) {
        const Pass& pass = plan.passes[p];
        out += "\npass " + std::to_string(p + 1) + ": " + std::string(pass_name(pass.kind));
        if (pass.kind != PassKind::prepare && pass.anchor >= 0) out += " " + typed(graph, pass.anchor);
        out += "   " + quantity(pass.cost.flops, "flop") + ", " + quantity(pass.cost.bytes, "B") + ", " +
               duration(pass.seconds) + "\n";
        if (!pass.why.empty()) out += "  why       " + pass.why + "\n";
        if (pass.kind == PassKind::dense) lattice_text(graph, pass.anchor, out);
        if (!pass.reads.empty()) {
            out += "  reads     ";
            for (size_t i = 0; i < pass.reads.size(); ++i) {
                const ValueId root = view_root(plan, pass.reads[i]);
                out += (i ? ", " : "") + typed(graph, pass.reads[i]);
                if (root != pass.reads[i]) out += " (a view of " + label(graph, root) + ")";
            }
            out += "\n";
        }
        for (const TileStep& step : pass.steps) {
            std::string scope(scope_names[static_cast<size_t>(step.scope)]);
            scope.resize(10, ' ');
            out += "  " + scope + step_text(graph, step.value) + "\n";
        }
        for (const Store& store : pass.stores) {
            out += "  store     " + label(graph, store.value);
            if (store.target != store.value) out += " into " + typed(graph, store.target);
            if (!store.start.empty()) out += " at " + to_string(store.start);
            out += "\n";
        }
    }
    return out;
}

}  // namespace transfuse
