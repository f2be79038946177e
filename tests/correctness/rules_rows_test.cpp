// The benchmark chains: what the algebra makes of each, and that it is exact; then random graphs by the thousand.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "rows.h"
#include "rules.h"

namespace transfuse::tests {
namespace {

struct Shape {
    int lattices = 0, dense = 0, boxes = 0, pools = 0, reductions = 0;
    bool operator==(const Shape&) const = default;
};

// Convolutions with space left, box sums, pools, and reductions of more than 2²⁰ elements.
Shape shape_of(const Graph& graph) {
    Shape shape;
    for (const Node& node : graph.nodes()) {
        if (node.op == Op::lattice) {
            ++shape.lattices;
            shape.dense += std::any_of(node.type.shape.begin() + 2, node.type.shape.end(),
                                       [](int64_t extent) { return extent > 1; });
        }
        shape.boxes += node.op == Op::box_sums;
        shape.pools += node.op == Op::max_pool || node.op == Op::avg_pool;
        shape.reductions += is_reduction(node.op) && numel(graph[node.args[0]].type.shape) > (1 << 20);
    }
    return shape;
}

struct Expected {
    std::string_view row;
    Shape shape;
    double fewer_flops;                   // at least
    std::vector<std::string_view> rules;  // that must have fired
};

TEST(rules_rows, derivations) {
    const std::vector<Expected> all = {
        {"A", {1, 0, 1, 0, 0}, 2000, {"fold_scale", "collapse", "size_one_axes"}},
        {"B", {1, 0, 1, 0, 0}, 2300, {"collapse", "size_one_axes"}},
        {"C", {3, 1, 1, 0, 2}, 1, {"fold_scale", "expand_batch_norm", "collapse", "centred_variance", "fold_shift"}},
        {"C_eval", {1, 0, 1, 0, 0}, 20000, {"fold_scale", "collapse"}},
        {"D", {1, 1, 0, 0, 0}, 1, {"expand_conv"}},
        {"d1", {1, 1, 0, 0, 0}, 1, {"expand_conv"}},
        {"d2", {1, 1, 0, 0, 0}, 1, {"expand_conv"}},
        {"d3", {1, 1, 0, 0, 0}, 1, {"expand_conv"}},
        {"d4", {1, 1, 0, 0, 0}, 1, {"expand_conv"}},
        {"d5", {1, 1, 0, 0, 0}, 1, {"expand_conv"}},
        {"d6", {1, 1, 0, 0, 0}, 1, {"expand_conv"}},
        {"f1", {1, 1, 0, 0, 0}, 1, {"fold_shift", "merge_clamps", "merge_scales"}},
        {"f2", {1, 1, 0, 0, 0}, 1, {"fold_shift"}},
        {"f3", {1, 1, 0, 1, 1}, 1, {"hardtanh_is_clamp"}},
        {"f4", {1, 1, 1, 0, 2}, 20, {"collapse", "fold_shift", "drop_trivial_axes"}},
        {"f5", {2, 1, 1, 0, 2}, 1, {"collapse", "cancel_shift", "factor_scale", "fold_shift"}},
        {"f6", {1, 1, 0, 0, 0}, 1, {"drop_detach", "drop_identity"}},
        {"f7", {1, 1, 0, 0, 1}, 1, {}},
        {"f8", {1, 1, 0, 0, 2}, 1, {"expand_softmax"}},
        {"f9", {1, 1, 0, 0, 0}, 3.5, {"pool_after_lattice", "fold_scale", "fold_shift"}},
        {"f10",
         {3, 1, 0, 0, 0},
         8,
         {"pool_of_affine", "pool_after_lattice", "collapse", "variance_of_input", "means_beside_covariance"}},
        {"f11", {1, 1, 0, 0, 2}, 1, {"expand_softmax"}},
        {"f12", {1, 1, 0, 1, 1}, 1, {"fold_scale"}},
    };
    ASSERT_EQ(all.size(), rows().size());
    for (const Expected& expected : all) {
        const Graph graph = row(expected.row);
        const Derivation derivation = rewrite(graph);
        const Shape shape = shape_of(derivation.rewritten);
        EXPECT_TRUE(shape == expected.shape)
            << expected.row << ": lattices " << shape.lattices << " dense " << shape.dense << " boxes " << shape.boxes
            << " pools " << shape.pools << " reductions " << shape.reductions << "\n"
            << explain(derivation);
        EXPECT_GE(cost(graph).flops / cost(derivation.rewritten).flops, expected.fewer_flops * 0.99) << expected.row;
        for (std::string_view rule : expected.rules)
            EXPECT_GE(count(derivation, rule), 1) << expected.row << " without " << rule;
        // The trace adds up.
        EXPECT_EQ(derivation.steps.back().after.flops, cost(derivation.rewritten).flops) << expected.row;
        EXPECT_NE(explain(derivation).find(derivation.steps[0].rule), std::string::npos);
    }
}

TEST(rules_rows, exact) {
    for (const auto& [name, text] : rows())
        for (bool heed_cost : {true, false})
            for (bool inference : {true, false})
                expect_exact(row(name, Scale::tiny, DType::f64),
                             {.inference = inference, .without = {}, .only = {}, .heed_cost = heed_cost}, 1);
}

TEST(rules_rows, f1_is_one_clamp_and_f9_one_convolution) {
    const Graph f1 = rewrite(row("f1")).rewritten;
    EXPECT_EQ(f1[f1.outputs()[0]].op, Op::clamp);
    EXPECT_EQ(f1[f1[f1.outputs()[0]].args[0]].op, Op::lattice);
    const Graph f9 = rewrite(row("f9")).rewritten;
    const Node& lattice = f9[f9.outputs()[0]];
    ASSERT_EQ(lattice.op, Op::lattice);
    EXPECT_EQ(Sizes(f9[lattice.args[1]].type.shape.begin() + 3, f9[lattice.args[1]].type.shape.end()),
              Sizes({2, 2, 2}));
}

double rms(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
    double sum = 0, count = 0;
    for (size_t o = 0; o < a.size(); ++o)
        for (size_t i = 0; i < a[o].size(); ++i) sum += (a[o][i] - b[o][i]) * (a[o][i] - b[o][i]), ++count;
    return std::sqrt(sum / std::max(count, 1.0));
}

// In 16 bits the rewritten chain is at least about as accurate as the chain as written, each rounded after every op.
TEST(rules_rows, sixteen_bit_accuracy) {
    for (const auto& [name, text] : rows())
        for (DType dtype : {DType::f16, DType::bf16}) {
            const Graph graph = row(name, Scale::tiny, dtype);
            double written = 0, rewritten = 0;
            for (uint64_t seed = 1; seed <= 3; ++seed) {
                auto leaves = random_leaves(graph, seed);
                for (auto& leaf : leaves)
                    for (double& value : leaf) value = std::round(value * 64) / 64;  // exact in either
                const auto truth = evaluate(graph, leaves);
                written += rms(truth, evaluate(graph, leaves, Arithmetic::as_typed));
                rewritten += rms(truth, evaluate(rewrite(graph).rewritten, leaves, Arithmetic::as_typed));
            }
            EXPECT_LE(rewritten, 1.2 * written + 1e-6) << name << " " << transfuse::name(dtype);
        }
}

TEST(rules_random, exact_on_random_graphs) {
    for (uint64_t seed = 0; seed < 2500; ++seed)
        for (bool heed_cost : {true, false}) {
            expect_exact(random_graph(seed),
                         {.inference = seed % 2 == 0, .without = {}, .only = {}, .heed_cost = heed_cost}, seed);
            if (HasFailure()) return;
        }
}

// Each rule may be missing; the rest still give an exact graph.
TEST(rules_random, without_any_one_rule) {
    for (const std::string& rule : rule_names())
        for (uint64_t seed = 5000; seed < 5030; ++seed) {
            RewriteOptions options;
            options.without = {rule};
            options.heed_cost = false;
            expect_exact(random_graph(seed), options, seed);
            if (HasFailure()) {
                ADD_FAILURE() << "without " << rule;
                return;
            }
        }
}

TEST(rules_random, rewriting_again_gains_nothing) {
    int unchanged = 0;
    for (uint64_t seed = 0; seed < 500; ++seed) {
        const Graph once = rewrite(random_graph(seed)).rewritten;
        const Derivation twice = rewrite(once);
        EXPECT_EQ(cost(twice.rewritten).flops, cost(once).flops) << "seed " << seed << "\n" << explain(twice);
        if (twice.steps.empty()) {  // then the graph itself, though some rules built what was no gain
            EXPECT_TRUE(twice.rewritten == once) << "seed " << seed;
            ++unchanged;
        }
        if (HasFailure()) return;
    }
    EXPECT_GT(unchanged, 400);
}

TEST(rules_random, options_are_checked) {
    RewriteOptions options;
    options.without = {"no_such_rule"};
    EXPECT_THROW(rewrite(row("A"), options), Error);
    EXPECT_GT(rule_names().size(), 40u);
}

// A rule that is not seen to fire alone is not one of ours; but for the one that moves a rounding, which is better than
// exact.
TEST(rules_rows, every_rule_is_tested_alone) {
    std::string tests;
    for (const auto& file : std::filesystem::directory_iterator(TRANSFUSE_SOURCE_DIR "/tests/correctness")) {
        std::ifstream text(file.path());
        if (file.path().filename().string().starts_with("rules_"))
            tests.append(std::istreambuf_iterator<char>(text), {});
    }
    std::erase_if(tests, [](char c) { return c == ' ' || c == '\n'; });
    for (const std::string& rule : rule_names())
        EXPECT_NE(tests.find((rule == "pool_before_cast" ? "count(d,\"" : "expect_fires(\"") + rule + '"'),
                  std::string::npos)
            << rule << " does not fire alone in tests/correctness/rules_*";
}

}  // namespace
}  // namespace transfuse::tests
