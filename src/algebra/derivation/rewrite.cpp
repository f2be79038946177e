// The driver: rounds of rules to a fixed point.
//
// It ends. Every rule but the expansions must lower (cost, number of values), and each expansion removes an op that no
// rule creates. The bound on rounds is a seat belt.
#include <algorithm>
#include <array>

#include "algebra/derivation/rules.h"
#include "algebra/rewriter/cost.h"
#include "algebra/rewriter/rewriter.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

constexpr int most_rounds = 200;
constexpr int most_firings_on_a_value = 100;
constexpr size_t op_count = static_cast<size_t>(Op::box_spread) + 1;

using Dispatch = std::array<std::vector<const Rule*>, op_count>;

// Which rules are tried, one after another.
enum class Stage : uint8_t { lowering, usual, finishing };

Dispatch dispatch(const RewriteOptions& options, Stage stage) {
    Dispatch table;
    auto listed = [](const std::vector<std::string>& names, std::string_view name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (const Rule* rule : all_rules()) {
        if (stage == Stage::lowering && !rule->at_any_size) continue;
        if (rule->family == Family::finish && stage != Stage::finishing) continue;
        if (rule->family == Family::statistics && stage == Stage::finishing) continue;
        if (listed(options.without, rule->name)) continue;
        if (!options.only.empty() && rule->family != Family::expand && !listed(options.only, rule->name)) continue;
        for (Op op : rule->ops) table[static_cast<size_t>(op)].push_back(rule);
    }
    return table;
}

// The usual tables, made once.
const Dispatch& usual_dispatch(Stage stage) {
    static const std::array<Dispatch, 3> tables = {dispatch({}, Stage::lowering), dispatch({}, Stage::usual),
                                                   dispatch({}, Stage::finishing)};
    return tables[static_cast<size_t>(stage)];
}

// The rules of a stage, and how they are applied.
struct Rules {
    Stage stage;
    const Dispatch& table;
    const RewriteOptions& options;
    std::vector<Step>& steps;  // where firings are told
    int& competed;             // firings of rules that compete
};

// Tries the rules on one value until none applies; returns what stands for it.
ValueId improve(Rewriter& r, ValueId id, const Rules& rules, const Cost& rest) {
    const RewriteOptions& options = rules.options;
    const bool lowering = rules.stage == Stage::lowering;
    for (int firing = 0; firing < most_firings_on_a_value; ++firing) {
        bool fired = false;
        for (const Rule* rule : rules.table[static_cast<size_t>(r.op(id))]) {
            if (lowering && !rule->at_any_size(r, id)) continue;
            const Rewriter::Total before = r.total();
            r.begin();
            const ValueId next = rule->apply(r, id);
            if (next < 0 || next == id) {
                r.drop_unused();
                continue;
            }
            r.hold(next);
            r.release(id);
            r.drop_unused();
            const bool dearer = options.heed_cost && !rule->any_cost && !lowering && !(r.total() < before) &&
                                !(rule->moves && r.is_one_of_readers());
            const bool forked =
                !options.forks && rule->family != Family::expand && r.total().convolutions > before.convolutions;
            if (dearer || forked) {
                r.hold(id);
                r.release(next);
                r.drop_unused();
                continue;
            }
            if (r[next].type != r[id].type)
                fail("rule ", rule->name, ": turned ", to_string(r[id].type), " into ", to_string(r[next].type));
            Step step{std::string(rule->name), r.take_remark(), before.cost, r.total().cost};
            step.before += rest;
            step.after += rest;
            rules.steps.push_back(std::move(step));
            rules.competed += rule->competes;
            id = next;
            fired = true;
            break;
        }
        if (!fired) break;
    }
    return id;
}

// A graph, what each of its nodes costs, and all of them together.
struct Priced {
    Graph graph;
    std::vector<Cost> costs;
    Cost total;

    explicit Priced(const Graph& of) : graph(of) {
        costs.reserve(graph.nodes().size());
        for (const Node& node : graph.nodes()) costs.push_back(node_cost(graph, node));
        add_up();
    }
    void become(Rewriter& r) {
        graph = r.finish(graph.output_names(), costs);
        add_up();
    }

private:
    void add_up() {
        total = {};
        for (const Cost& cost : costs) total += cost;
    }
};

// One round; true if any rule fired.
bool round(Priced& priced, const Rules& rules) {
    const Graph& graph = priced.graph;
    Rewriter r(graph, rules.options);
    bool fired = false;
    Cost rest = priced.total;  // of what this round has not reached
    for (ValueId old = 0; old < graph.size(); ++old) {
        const Cost& cost = priced.costs[static_cast<size_t>(old)];
        rest.flops -= cost.flops;
        rest.bytes -= cost.bytes;
        const ValueId id = r.rebuild(old, cost);
        const ValueId improved = improve(r, id, rules, rest);
        fired = fired || improved != id;
        r.settle(old, improved);
    }
    if (!fired) return false;
    priced.become(r);
    rules.steps.back().after = priced.total;  // what became of no use only now is gone as well
    return true;
}

// A lattice that may have an axis on which nothing happens.
bool is_thin_lattice(const Node& node) {
    if (node.op != Op::lattice) return false;
    const Sizes& shape = node.type.shape;
    const auto thin = std::count(shape.begin() + std::min<int64_t>(2, node.type.rank()), shape.end(), 1);
    return thin > 0 && thin + 2 < node.type.rank();
}

// A value centred on its own mean: direct_variance may have work.
bool is_centred_value(const Graph& graph, const Node& node) {
    return node.op == Op::sub && graph[node.args[1]].op == Op::mean && graph[node.args[1]].args[0] == node.args[0];
}

bool may_be_finished(const Graph& graph) {
    return std::ranges::any_of(
        graph.nodes(), [&](const Node& node) { return is_thin_lattice(node) || is_centred_value(graph, node); });
}

// Flops for an element of what the convolutions compute whose variance is taken.
double thickness(const Graph& graph) {
    double flops = 0, elements = 0;
    for (const Node& node : graph.nodes()) {
        if (node.op != Op::var) continue;
        ValueId of = node.args[0];
        while (is_pointwise(graph[of].op)) of = graph[of].args[0];
        if (graph[of].op != Op::lattice || numel(graph[of].type.shape) == 0) continue;
        flops += cost(graph, of).flops;
        elements += static_cast<double>(numel(graph[of].type.shape));
    }
    return elements > 0 ? flops / elements : 0;
}

// Whether a variance may be taken in some form of a graph: it is written, or a norm or a square that one comes from.
bool may_take_variance(const Graph& graph) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
        switch (node.op) {
            case Op::var:
            case Op::group_norm:
            case Op::layer_norm:
            case Op::instance_norm:
            case Op::square:
            case Op::pow:
                return true;
            case Op::batch_norm:
                return node.attributes.flag(Key::training);
            case Op::mul:
                return node.args[0] == node.args[1];
            default:
                return false;
        }
    });
}

// Rounds to a fixed point; true if any rule fired.
bool run(Stage stage, Priced& now, const RewriteOptions& options, std::vector<Step>& steps, int& competed) {
    const bool usual = options.without.empty() && options.only.empty();
    const Dispatch own = usual ? Dispatch{} : dispatch(options, stage);
    const Rules rules{stage, usual ? usual_dispatch(stage) : own, options, steps, competed};
    bool fired = round(now, rules);
    for (int rounds = 1; fired && rounds < most_rounds; ++rounds)
        if (!round(now, rules)) break;
    return fired;
}

Derivation derive(const Graph& graph, const RewriteOptions& options, int& competed) {
    Derivation derivation;
    derivation.written = graph;
    Priced now(graph);
    run(Stage::lowering, now, options, derivation.steps, competed);
    run(Stage::usual, now, options, derivation.steps, competed);
    if (may_be_finished(now.graph)) run(Stage::finishing, now, options, derivation.steps, competed);
    derivation.rewritten = now.graph;
    return derivation;
}

// What decides between orders of rules: products of weights are dear (pays() of channelwise.h).
double dearness(const Graph& graph) {
    const std::vector<bool> parameter = parameter_values(graph);
    double sum = objective(graph);
    for (ValueId id = 0; id < graph.size(); ++id)
        if (parameter[static_cast<size_t>(id)]) sum += 63 * cost(graph, id).flops;
    return sum;
}

// Whether several linear maps, and nobody else, read a convolution or a sum of one.
bool is_read_by_several(const Graph& graph) {
    const Survey survey(graph);
    return std::ranges::any_of(survey.values, [](const Survey::Value& value) { return value.for_each; });
}

// Convolutions in a row are made one from the first two on. Where that happened several times they may better begin
// with the last two, and where means are taken they may better stay, as the mean goes through all of them.
Derivation derive(const Graph& graph, const RewriteOptions& options) {
    int competed = 0;
    Derivation best = derive(graph, options, competed);
    if (!options.heed_cost) return best;
    const auto weigh = [&](const RewriteOptions& others, const char* what) {
        int ignored = 0;
        Derivation other = derive(graph, others, ignored);
        const Cost now = cost(best.rewritten), then = cost(other.rewritten);
        if (dearness(other.rewritten) >= dearness(best.rewritten)) return;
        other.steps.push_back({"weighed", what, now, then});
        best = std::move(other);
    };
    if (is_read_by_several(best.rewritten)) {
        RewriteOptions others = options;
        others.for_each = true;
        weigh(others, "what several linear maps read is taken apart for each");
    }
    if (competed == 0) return best;
    if (competed > 1) {
        RewriteOptions others = options;
        others.outer_first = true;
        weigh(others, "convolutions in a row are made one from the last two on");
    }
    if (std::ranges::any_of(best.rewritten.nodes(), [](const Node& node) { return node.op == Op::box_sums; })) {
        RewriteOptions others = options;
        others.without.emplace_back("compose_lattices");
        weigh(others, "means go through convolutions that stay apart");
    }
    return best;
}

}  // namespace

Derivation rewrite(const Graph& graph, const RewriteOptions& options) {
    for (const auto* names : {&options.without, &options.only})
        for (const std::string& name : *names) {
            const auto& rules = all_rules();
            require(std::any_of(rules.begin(), rules.end(), [&](const Rule* rule) { return rule->name == name; }),
                    "rewrite: there is no rule named '", name, "'");
        }
    Derivation derivation = derive(graph, options);
    // A convolution that takes long is stored, not computed twice, and its mean and variance come with it: a mean from
    // the collapse would be another reading. Where it is computed twice, sums about a mean known before are cheaper
    // than a variance by itself. H200: GroupNorm behind 1000 flops an element 0.154 ms, 0.181 with a collapse;
    // BatchNorm behind 130, 0.110 and 0.092.
    const bool untouched = &derivation.rewritten.nodes() == &graph.nodes();
    if (untouched || !options.forks || convolutions(derivation.rewritten) <= convolutions(graph)) return derivation;
    if (options.prices.stored_from > 0 && !may_take_variance(graph)) return derivation;  // of no thickness
    RewriteOptions single = options;
    single.forks = false;
    Derivation other = derive(graph, single);
    auto sums = [](const Graph& of) {
        return std::any_of(of.nodes().begin(), of.nodes().end(),
                           [](const Node& node) { return node.op == Op::box_sums || node.op == Op::covariance; });
    };
    if (sums(other.rewritten) || convolutions(other.rewritten) > convolutions(graph)) return derivation;
    if (thickness(other.rewritten) < options.prices.stored_from) return derivation;
    return objective(other.rewritten) <= objective(derivation.rewritten) ? other : derivation;
}

}  // namespace transfuse
