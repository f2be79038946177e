#include "cuda/dense/exits/swap_ab/swap_ab_chain.h"

#include <algorithm>

#include "cuda/kernel/expression.h"
#include "graph/has.h"

namespace transfuse::cuda {

SwapAbChain::SwapAbChain(const Epilogue& epilogue, Lines& lines)
    : Chain(epilogue, lines, true),
      anchor_(epilogue.program().around->pass.anchor),
      result_(epilogue.stores()[0].value) {
    const auto& steps = epilogue.program().steps;
    size_t split = steps.size();
    while (split > 0 && is_pointwise(epilogue.graph()[steps[split - 1]].op)) --split;
    early_.assign(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(split));
    const std::vector<ValueId> rest(steps.begin() + static_cast<ptrdiff_t>(split), steps.end());
    late_ = rest;
    std::vector<ValueId> needed;
    for (auto v = rest.rbegin(); v != rest.rend(); ++v) {
        const bool used = *v == result_ || has(needed, *v);
        if (!used) {
            late_.erase(std::find(late_.begin(), late_.end(), *v));
            continue;
        }
        if (sum_of_share(*v) < 0)
            for (ValueId a : epilogue.graph()[*v].args) needed.push_back(a);
    }
    if (late_.empty()) look_back(result_);
    for (ValueId v : late_) {
        if (const ValueId sum = sum_of_share(v); sum >= 0) {
            carry("v" + num(sum) + "_exp", true), carry("v" + num(sum) + "_share", false);
        } else {
            for (ValueId a : epilogue.graph()[v].args) look_back(a);
        }
    }
    if (by_channel_.size() > 1) {
        // The accumulators have room for one value: all steps at once.
        early_ = steps, late_.clear(), by_channel_.clear(), pixel_.clear();
        look_back(result_);
    }
    find_affine();
    for (ValueId v : late_)
        for (ValueId a : epilogue.graph()[v].args)
            if (is_channel_table(a) && !has(ahead_, a)) ahead_.push_back(a);
}

// What follows a share at once; its steps are not taken one by one then.
void SwapAbChain::find_affine() {
    auto is_share = [&](ValueId v) { return sum_of_share(v) >= 0; };
    if (std::count_if(late_.begin(), late_.end(), is_share) != 1) return;
    affine_ = affine_chain(epilogue_.graph(), late_, *std::find_if(late_.begin(), late_.end(), is_share), result_,
                           [&](ValueId v) { return is_channel_table(v); });
    std::erase_if(late_, [&](ValueId v) { return has(affine_.steps, v); });
}

bool SwapAbChain::is_channel_table(ValueId v) const {
    for (size_t k = 0; k < epilogue_.reads().size(); ++k)
        if (epilogue_.reads()[k].value == v) return epilogue_.table_of(k) >= 0 && epilogue_.reads()[k].depends[1];
    return false;
}

// exp(x − logsumexp(x)), of exponentials that the first step has made.
ValueId SwapAbChain::sum_of_share(ValueId v) const {
    const Graph& graph = epilogue_.graph();
    if (graph[v].op != Op::exp || graph[graph[v].args[0]].op != Op::sub) return -1;
    const Node& difference = graph[graph[v].args[0]];
    const ValueId sum = difference.args[1];
    return graph[sum].op == Op::logsumexp && graph[sum].args[0] == difference.args[0] && has(early_, sum) ? sum : -1;
}

bool SwapAbChain::varies_by_channel(ValueId v) const {
    if (v == anchor_) return true;
    const Graph& graph = epilogue_.graph();
    if (is_literal(graph, v)) return false;
    if (!has(early_, v)) {
        for (const Operand& read : epilogue_.reads())
            if (read.value == v) return read.depends[1];
        return true;
    }
    if (!is_pointwise(graph[v].op)) return false;
    return std::any_of(graph[v].args.begin(), graph[v].args.end(), [&](ValueId a) { return varies_by_channel(a); });
}

void SwapAbChain::look_back(ValueId v) {
    if (v == anchor_ || has(early_, v)) carry("v" + num(v), varies_by_channel(v));
}

void SwapAbChain::carry(const std::string& name, bool by_channel) {
    auto& list = by_channel ? by_channel_ : pixel_;
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

void SwapAbChain::declare() {
    for (const std::string& name : pixel_) t.line("REAL kept_" + name + "[BLOCKS][BATCH];");
}

void SwapAbChain::before(const std::string& block) {
    const std::string value = "v" + num(anchor_);
    t.line("REAL " + value + "[BATCH][VECTOR];");
    loops({true, true});
    t.line(value + "[i][e] = acc[" + block + "][e / 2 * 4 + i * 2 + e % 2];");
    anchor();
    for (ValueId v : early_) step(v);
    for (const std::string& name : by_channel_) {
        loops({true, true});
        t.line("acc[" + block + "][e / 2 * 4 + i * 2 + e % 2] = " + name + "[i][e];");
    }
    for (const std::string& name : pixel_) {
        loops({false, true});
        const bool scaled = affine_ && affine_.scale != 1 && name == "v" + num(sum_of_share(affine_.of)) + "_share";
        t.line("kept_" + name + "[" + block + "][i] = " + name + "[i]" +
               (scaled ? " * " + literal(affine_.scale, epilogue_.real()) : "") + ";");
    }
    for (const Operand& read : epilogue_.reads()) forget(read.value);
}

void SwapAbChain::declare_ahead() {
    for (ValueId v : ahead_) t.line("REAL r" + num(v) + "[VECTOR];");
    if (affine_) t.line("REAL shift[VECTOR];");
}

void SwapAbChain::load_ahead() {
    in_parts_ = true;
    auto load = [&](ValueId v, const std::string& to) {
        for (size_t k = 0; k < epilogue_.reads().size(); ++k)
            if (epilogue_.reads()[k].value == v)
                load_channels(to, "table + " + num(epilogue_.table_of(k) * epilogue_.channels()));
    };
    for (ValueId v : ahead_) load(v, "r" + num(v));
    if (affine_) shift(load);
    in_parts_ = false;
}

// What is added to a share: a sum of values per channel, the first of them in its place.
void SwapAbChain::shift(const std::function<void(ValueId, const std::string&)>& load) {
    auto number = [&](double value) { return literal(value, epilogue_.real()); };
    std::string sum = number(affine_.offset);
    for (size_t k = 0; k < affine_.terms.size(); ++k) {
        const auto& [v, factor] = affine_.terms[k];
        const std::string name = k == 0 ? "shift" : "r" + num(v);
        if (k > 0 && !has(ahead_, v)) t.line("REAL " + name + "[VECTOR];");
        if (k == 0 || !has(ahead_, v)) load(v, name);
        const std::string term = name + "[e] * " + number(factor);
        sum = k == 0 && affine_.offset == 0 ? term : sum + " + " + term;
    }
    loops({true, false});
    t.line("shift[e] = " + sum + ";");
}

// The steps from a share to the end of an affine chain, or to the sigmoid behind it.
std::string SwapAbChain::affine_value() const {
    const std::string of = "v" + num(sum_of_share(affine_.of));
    const std::string value = of + "_exp[i][e] * " + of + "_share[i] + shift[e]";
    return affine_.sigmoid >= 0 ? "tf_logistic(" + value + ")" : value;
}

void SwapAbChain::after(const std::string& block) {
    in_parts_ = true;
    for (ValueId v : ahead_) define(v, "r" + num(v), {true, false});
    for (const std::string& name : by_channel_) {
        t.line("REAL " + name + "[BATCH][VECTOR];");
        loops({true, true});
        t.line(name + "[i][e] = acc[" + block + "][e / 2 * 4 + i * 2 + e % 2];");
    }
    for (const std::string& name : pixel_) {
        t.line("REAL " + name + "[BATCH];");
        loops({false, true});
        t.line(name + "[i] = kept_" + name + "[" + block + "][i];");
    }
    std::string result;
    if (const ValueId v = affine_.steps.empty() ? -1 : affine_.steps.back(); v == result_) {
        result = affine_value();
    } else {
        if (affine_) {
            define(v, "v" + num(v), {true, true});
            t.line("REAL " + name(v) + "[BATCH][VECTOR];");
            loops({true, true});
            t.line(name(v) + "[i][e] = " + affine_value() + ";");
        }
        for (ValueId step_of : late_) step(step_of);
        result = operand(result_);
    }
    loops({true, true});
    t.line("acc[" + block + "][e / 2 * 4 + i * 2 + e % 2] = " + result + ";");
    for (const Operand& read : epilogue_.reads()) forget(read.value);
    in_parts_ = false;
}

std::string SwapAbChain::columns() const { return in_parts_ ? "int e = FIRST_E; e < LAST_E; e++" : Chain::columns(); }

void SwapAbChain::across(const std::string& result, Op op, const std::string& term) {
    const Kind x{false, true};
    t.line("REAL " + result + dims(x) + ";");
    loops(x);
    t.line(ref(result, x) + " = over_channels<VECTOR>([&](int e) { return CHANNEL_OK(e) ? " + term + " : " +
           identity(op) + "; }, [](REAL a, REAL b) { return " + combined(op, "a", "b") + "; });");
}

void SwapAbChain::load_channels(const std::string& name, const std::string& from) {
    if (epilogue_.channels() % 2) return Chain::load_channels(name, from);
    t.line("load_channels(" + name + ", " + from + " + first_channel, " +
           (in_parts_ ? "FIRST_E, LAST_E" : "0, VECTOR") + ");");
}

}  // namespace transfuse::cuda
