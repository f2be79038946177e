// The derivation as a text: the graph as written, what each rule did and saved, the graph at the end.
#include <cstdio>

#include "transfuse/algebra.h"

namespace transfuse {

namespace {

// 38.7 G, 1.2 M, 512
std::string quantity(double value) {
    constexpr const char* units[] = {"", " k", " M", " G", " T", " P"};
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < std::size(units)) value /= 1000, ++unit;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.3g%s", value, units[unit]);
    return text;
}

std::string ratio(double before, double after) {
    if (after <= 0 || before <= 0) return "";
    char text[32];
    const double factor = before / after;
    if (factor >= 0.995 && factor < 1.005) return "";
    std::snprintf(text, sizeof text,
                  factor >= 100 ? " (%.0fx fewer)"
                  : factor > 1  ? " (%.3gx fewer)"
                                : " (%.3g of it)",
                  factor);
    return text;
}

}  // namespace

std::string explain(const Derivation& derivation) {
    std::string text = "As written:\n" + print(derivation.written);
    if (!text.ends_with('\n')) text += '\n';
    const Cost written = cost(derivation.written), rewritten = cost(derivation.rewritten);
    text += "\n" + quantity(written.flops) + "flop, " + quantity(written.bytes) + "B\n\nDerivation:\n";
    size_t number = 0;
    for (const Step& step : derivation.steps) {
        char head[16];
        std::snprintf(head, sizeof head, "%4zu. ", ++number);
        text += head;
        text += step.rule;
        if (!step.what.empty()) text += ": " + step.what;
        const bool changed = step.before.flops != step.after.flops;
        if (changed)
            text += "\n        " + quantity(step.before.flops) + "flop -> " + quantity(step.after.flops) + "flop" +
                    ratio(step.before.flops, step.after.flops);
        text += '\n';
    }
    text += "\nRewritten:\n" + print(derivation.rewritten);
    if (!text.ends_with('\n')) text += '\n';
    text += "\n" + quantity(rewritten.flops) + "flop" + ratio(written.flops, rewritten.flops) + ", " +
            quantity(rewritten.bytes) + "B" + ratio(written.bytes, rewritten.bytes) + "\n";
    return text;
}

}  // namespace transfuse
