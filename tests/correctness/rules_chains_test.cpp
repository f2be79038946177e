// Chains of several convolutions drawn at random: what the rewriter makes of them is exact, and as cheap as what any
// other order of the rules that compete gives, each pair of them left out in turn.
#include "algebra/rewriter/rewriter.h"
#include "random_layers.h"

namespace transfuse::tests {
namespace {

// A chain of layers, branches of one input and reductions, as text.
class Chain {
public:
    explicit Chain(uint64_t seed) : random_(seed) {
        text_ = "%x = input f32[4,32,24,24]\n";
        const int64_t layers = random_.between(2, 4);
        for (int64_t i = 0; i < layers; ++i) layer();
        if (random_.chance(0.4)) set("mean(" + value_ + ") dims=[2,3]");
    }
    Graph graph() const { return graph_of(text_ + "return " + value_); }

private:
    std::string fresh() { return "%v" + std::to_string(count_++); }
    void set(const std::string& expression) {
        const std::string name = fresh();
        text_ += name + " = " + expression + "\n";
        value_ = name;
    }
    std::string param(const Sizes& shape) {
        const std::string name = fresh();
        text_ += name + " = param f32" + list(shape) + "\n";
        return name;
    }
    std::string conv(const std::string& x, int64_t in, int64_t out, int64_t k) {
        const std::string w = param({out, in, k, k}), b = random_.chance(0.5) ? ", " + param({out}) : "", y = fresh();
        text_ += y + " = conv(" + x + ", " + w + b + ") padding=" + list({k / 2, k / 2}) + "\n";
        return y;
    }
    void layer() {
        const int64_t out = random_.pick(Sizes{4, 16, 32, 64}), in = channels_;
        const std::string x = value_;
        channels_ = out;
        switch (random_.between(0, 6)) {
            case 0:
                return void(value_ = conv(x, in, out, 1));
            case 1:
                return void(value_ = conv(x, in, out, 3));
            case 2:
                return set("conv_transpose(" + x + ", " + param({in, out, 2, 2}) + ") stride=[2,2]");
            case 3: {
                const std::string a = conv(x, in, out, 3), b = conv(x, in, out, 1);
                return set("add(" + a + ", " + b + ")");
            }
            case 4: {
                const std::string a = conv(x, in, out, 3), b = conv(x, in, out, 3);
                channels_ = 2 * out;
                return set("concat(" + a + ", " + b + ") axis=1");
            }
            case 5:
                set("mul(" + conv(x, in, out, 1) + ", " + param({out, 1, 1}) + ")");
                return set("add(" + value_ + ", " + param({out, 1, 1}) + ")");
            default:
                value_ = conv(x, in, out, 3);
                return set(random_.chance(0.5) ? "relu(" + value_ + ")" : "avg_pool(" + value_ + ") kernel=[2,2]");
        }
    }

    Random random_;
    std::string text_, value_ = "%x";
    int64_t channels_ = 32;
    int count_ = 0;
};

TEST(rules_chains, no_order_of_rules_is_cheaper) {
    const std::vector<std::string> competing = {
        "compose_lattices",   "sum_of_one_input", "concat_of_one_input", "pool_after_lattice",
        "lattice_after_pool", "collapse_boxes",   "reduce_sum_of_two",   "collapse"};
    for (uint64_t seed = 0; seed < 20; ++seed) {
        const Graph graph = Chain(seed).graph();
        const Derivation chosen = rewrite(graph);
        const double own = objective(chosen.rewritten);
        for (size_t i = 0; i < competing.size(); ++i)
            for (size_t j = i; j < competing.size(); ++j)
                for (const bool outer_first : {false, true}) {
                    RewriteOptions options;
                    options.outer_first = outer_first;
                    options.without = {competing[i], competing[j]};
                    const Derivation other = rewrite(graph, options);
                    EXPECT_LE(own, 1.05 * objective(other.rewritten) + 1e7)  // a launch takes longer
                        << "seed " << seed << " without " << competing[i] << ", " << competing[j] << "\n"
                        << explain(chosen) << explain(other);
                    if (HasFailure()) return;
                }
    }
}

TEST(rules_chains, are_exact) {
    for (uint64_t seed = 0; seed < 20 && !HasFailure(); ++seed) {
        const Graph graph = Chain(seed).graph();
        std::vector<Type> types;
        for (const ValueId leaf : graph.leaves()) {
            Type type = graph[leaf].type;
            type.dtype = DType::f64;
            if (graph[leaf].op == Op::input) type.shape = {1, type.shape[1], 4, 6};
            types.push_back(type);
        }
        for (const bool heed_cost : {true, false}) {
            RewriteOptions options;
            options.heed_cost = heed_cost;
            expect_exact(graph.with_leaf_types(types), options, seed, 1e-11);
        }
    }
}

}  // namespace
}  // namespace transfuse::tests
