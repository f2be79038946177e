// The chains of tests/rewrites: rewritten they take no more than their cheapest form, are exact at a size the reference
// interpreter can do, in the CPU engine too, and so are their gradients.
#include "cpu_check.h"
#include "rewrite_cases.h"
#include "rules.h"
#include "thorough.h"

namespace transfuse::tests {
namespace {

class Rewrites : public testing::TestWithParam<RewriteCase> {};

TEST_P(Rewrites, TakeNoMoreThanTheCheapestForm) {
    RewriteOptions options;
    options.prices = Machine::h200().prices;
    const Derivation derivation = rewrite(parse(GetParam().text), options);
    const Plan chosen = plan(derivation.rewritten, Machine::h200());
    EXPECT_LE(cost(derivation.rewritten).flops, GetParam().flops) << explain(derivation);
    const auto passes = std::count_if(chosen.passes.begin(), chosen.passes.end(),
                                      [](const Pass& pass) { return pass.kind != PassKind::prepare; });
    EXPECT_LE(static_cast<size_t>(passes), GetParam().passes) << print(chosen);
}

TEST_P(Rewrites, AreExact) {
    for (const bool heed_cost : {true, false}) {
        RewriteOptions options;
        options.heed_cost = heed_cost;
        expect_exact(small(GetParam(), "f64"), options, 1);
    }
}

double rms(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
    double squares = 0, count = 0;
    for (size_t o = 0; o < a.size(); ++o)
        for (size_t i = 0; i < a[o].size(); ++i, ++count) squares += (a[o][i] - b[o][i]) * (a[o][i] - b[o][i]);
    return std::sqrt(squares / std::max(count, 1.0));
}

// With every value rounded to its type, as PyTorch rounds it.
TEST_P(Rewrites, AreAsExactAsWrittenInSixteenBits) {
    for (const char* dtype : {"f16", "bf16"}) {
        const Graph graph = small(GetParam(), dtype);
        if (cost(graph).flops > (thorough() ? 1e8 : 2e7))
            GTEST_SKIP() << "the reference interpreter would take seconds";
        RewriteOptions options;
        options.heed_cost = false;
        const Graph rewritten = rewrite(graph, options).rewritten;
        double own = 0, theirs = 0;
        for (uint64_t seed = 1; seed <= 3; ++seed) {
            auto leaves = random_leaves(graph, seed);
            for (size_t i = 0; i < leaves.size(); ++i)
                leaves[i] = rounded(leaves[i], graph[graph.leaves()[i]].type.dtype);
            const auto truth = evaluate(graph, leaves);
            theirs += rms(truth, evaluate(graph, leaves, Arithmetic::as_typed));
            own += rms(truth, evaluate(rewritten, leaves, Arithmetic::as_typed));
        }
        EXPECT_LE(own, 1.2 * theirs + 1e-6) << dtype;
    }
}

TEST_P(Rewrites, RunOnTheCpu) {
    const Graph graph = small(GetParam(), "f32");
    const auto leaves = random_leaves(graph, 2);
    std::string why;
    RewriteOptions options;
    options.heed_cost = false;
    const Plan ready = plan(rewrite(graph, options).rewritten, Machine::cpu(2));
    EXPECT_TRUE(close(run_cpu(ready, leaves, {}), evaluate(graph, leaves), 2e-5, &why)) << why << print(ready);
}

TEST_P(Rewrites, HaveExactGradients) { expect_exact_gradients(small(GetParam(), "f64"), 3); }

TEST_P(Rewrites, HaveGradientsOfOneProduct) {
    if (GetParam().gradient == 0) GTEST_SKIP() << "it does not say what its gradient takes";
    const Graph graph = parse(GetParam().text);
    const Derivation derivation = derive_gradient(graph, all_gradients(graph));
    EXPECT_LE(cost(derivation.rewritten).flops, GetParam().gradient) << explain(derivation);
}

std::string name_of(const testing::TestParamInfo<RewriteCase>& of) {
    std::string name = of.param.name;
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(tables, Rewrites, testing::ValuesIn(rewrite_cases()), name_of);

}  // namespace
}  // namespace transfuse::tests
