// The reference engine on plans and on raw memory.
#include <gtest/gtest.h>

#include <cmath>

#include "random_graphs.h"
#include "reference/element.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"

namespace transfuse {
namespace {

Graph small_graph() {
    return parse(R"(graph g {
        %x = input f64[2,3]
        %p = param f64[3]
        %a = mul(%x, 2)
        %b = add(%a, %p)
        %c = concat(%a, %b) axis=1
        return %c, %b
    })");
}

ValueId id(const Graph& graph, const std::string& name) {
    for (ValueId v = 0; v < graph.size(); ++v)
        if (graph[v].name == name) return v;
    throw Error("no value " + name);
}

Plan plan_of(Graph graph, std::vector<Pass> passes) {
    Plan plan;
    plan.views.resize(graph.nodes().size());
    plan.graph = std::move(graph);
    plan.passes = std::move(passes);
    plan.machine = Machine::cpu(1);
    return plan;
}

Pass pass_of(ValueId anchor, std::vector<TileStep> steps, std::vector<ValueId> reads, std::vector<Store> stores) {
    Pass pass;
    pass.kind = PassKind::pointwise;
    pass.anchor = anchor;
    pass.steps = std::move(steps);
    pass.reads = std::move(reads);
    pass.stores = std::move(stores);
    return pass;
}

// One pass that computes everything and stores a and b straight into their slices of c.
Plan small_plan() {
    const Graph g = small_graph();
    const ValueId x = id(g, "x"), p = id(g, "p"), a = id(g, "a"), b = id(g, "b"), c = id(g, "c");
    return plan_of(
        g, {pass_of(a, {{a, Scope::tile}, {b, Scope::tile}}, {x, p}, {{a, c, {0, 0}}, {b, c, {0, 3}}, {b, b, {}}})});
}

const std::vector<std::vector<double>> small_leaves{{1, 2, 3, 4, 5, 6}, {10, 20, 30}};

std::string refusal(const Plan& plan) {
    try {
        evaluate(plan, small_leaves);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ReferencePlan, StoresPiecesOfAConcat) {
    EXPECT_EQ(evaluate(small_plan(), small_leaves), evaluate(small_graph(), small_leaves));
}

TEST(ReferencePlan, RefusesAPassThatUsesWhatItDoesNotRead) {
    Plan plan = small_plan();
    plan.passes[0].reads.pop_back();
    EXPECT_NE(refusal(plan).find("pass 0 uses %p (param) in %b (add) without reading it"), std::string::npos)
        << refusal(plan);
}

TEST(ReferencePlan, RefusesAReadThatNoPassStored) {
    Plan plan = small_plan();
    Pass& pass = plan.passes[0];
    pass.steps.erase(pass.steps.begin());
    pass.reads.push_back(id(plan.graph, "a"));
    EXPECT_NE(refusal(plan).find("reads %a (mul), which no earlier pass has stored"), std::string::npos)
        << refusal(plan);
}

TEST(ReferencePlan, RefusesAnOutputThatIsNotAllStored) {
    Plan plan = small_plan();
    plan.passes[0].stores.erase(plan.passes[0].stores.begin());
    EXPECT_NE(refusal(plan).find("no pass stores the output %c (concat)"), std::string::npos) << refusal(plan);
    plan = small_plan();
    plan.passes[0].stores.pop_back();
    EXPECT_NE(refusal(plan).find("no pass stores the output %b (add)"), std::string::npos) << refusal(plan);
}

TEST(ReferencePlan, RefusesAStoreOutsideItsTarget) {
    Plan plan = small_plan();
    plan.passes[0].stores[1].start = {0, 4};
    EXPECT_NE(refusal(plan).find("leaves %c (concat)"), std::string::npos) << refusal(plan);
}

TEST(ReferencePlan, RefusesATileStepThatNeedsAGridValue) {
    const Graph g = parse("graph g { %x = input f64[2,3] %m = mean(%x) %y = sub(%x, %m) return %y }");
    const ValueId x = id(g, "x"), m = id(g, "m"), y = id(g, "y");
    const Plan plan = plan_of(g, {pass_of(y, {{m, Scope::grid}, {y, Scope::tile}}, {x}, {{y, y, {}}})});
    EXPECT_THROW(evaluate(plan, {small_leaves[0]}), Error);
}

TEST(ReferencePlan, ReadsViewsThroughTheirRoot) {
    const Graph g = parse(R"(graph g {
        %x = input f64[2,3]
        %t = permute(%x) order=[1,0]
        %y = exp(%t)
        return %y
    })");
    const ValueId t = id(g, "t"), y = id(g, "y");
    Plan plan = plan_of(g, {pass_of(y, {{y, Scope::tile}}, {t}, {{y, y, {}}})});
    EXPECT_THROW(evaluate(plan, {small_leaves[0]}), Error);
    plan.views = {false, true, false};
    EXPECT_EQ(evaluate(plan, {small_leaves[0]}), evaluate(g, {small_leaves[0]}));
}

// Strided leaves and outputs; the elements between them stay as they were.
TEST(ReferenceExecutable, RunsOnStridedMemory) {
    const Plan plan = small_plan();
    const double poison = -12345;
    std::vector<double> x(2 * 3 * 4, poison), p{10, 20, 30}, c(12 * 2, poison), b(6, poison);
    for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 3; ++j)
            x[static_cast<size_t>(i + 2 * j)] = small_leaves[0][static_cast<size_t>(3 * i + j)];
    CompileOptions options;
    options.leaf_strides = {{1, 2}, {1}};
    options.output_strides = {{12, 2}, {-3, -1}};
    auto executable = compile_reference(plan, options);
    const TensorView leaves[] = {{x.data(), DType::f64, {2, 3}, {1, 2}}, {p.data(), DType::f64, {3}, {1}}};
    const TensorView outputs[] = {{c.data(), DType::f64, {2, 6}, {12, 2}},
                                  {b.data() + 5, DType::f64, {2, 3}, {-3, -1}}};
    executable->run(leaves, outputs, {});
    const auto expected = evaluate(plan, small_leaves);
    for (size_t i = 0; i < 12; ++i) {
        EXPECT_EQ(c[2 * i], expected[0][i]);
        EXPECT_EQ(c[2 * i + 1], poison);
    }
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(b[5 - i], expected[1][i]);
}

TEST(ReferenceExecutable, RefusesViewsThatDoNotFit) {
    auto executable = compile_reference(small_plan());
    std::vector<double> memory(12);
    const TensorView x{memory.data(), DType::f64, {2, 3}, {3, 1}}, p{memory.data(), DType::f64, {3}, {1}},
        c{memory.data(), DType::f64, {2, 6}, {6, 1}};
    auto run = [&](std::vector<TensorView> leaves, std::vector<TensorView> outputs) {
        executable->run(leaves, outputs, {});
    };
    EXPECT_NO_THROW(run({x, p}, {c, x}));
    EXPECT_THROW(run({x}, {c, x}), Error);
    EXPECT_THROW(run({x, p}, {c}), Error);
    EXPECT_THROW(run({p, p}, {c, x}), Error);
    TensorView wrong = x;
    wrong.dtype = DType::f32;
    EXPECT_THROW(run({wrong, p}, {c, x}), Error);
    wrong = x;
    wrong.strides = {1, 2};
    EXPECT_THROW(run({wrong, p}, {c, x}), Error);
    wrong = x;
    wrong.data = nullptr;
    EXPECT_THROW(run({wrong, p}, {c, x}), Error);
}

TEST(ReferenceEvaluate, RefusesLeavesThatDoNotFit) {
    EXPECT_THROW(evaluate(small_graph(), {small_leaves[0]}), Error);
    EXPECT_THROW(evaluate(small_graph(), {small_leaves[0], {1, 2}}), Error);
}

// Far more than there is, yet a legal size: an Error, not a crash.
TEST(ReferenceEvaluate, RefusesWhatDoesNotFitInMemory) {
    const Graph g = parse("graph g { %x = input f64[1] %y = expand(%x) shape=[1152921504606846975] return %y }");
    EXPECT_THROW(evaluate(g, {{1}}), Error);
}

TEST(Elements, SixteenBitsGoBothWays) {
    using namespace reference;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto b = static_cast<uint16_t>(bits);
        const double half = from_f16(b), brain = from_bf16(b);
        if (!std::isnan(half)) {
            ASSERT_EQ(f16_bits(half), b);
            ASSERT_EQ(rounded(half, DType::f16), half);
        }
        if (!std::isnan(brain)) {
            ASSERT_EQ(bf16_bits(brain), b);
            ASSERT_EQ(rounded(brain, DType::bf16), brain);
        }
    }
    EXPECT_EQ(from_f16(0x3c00), 1);
    EXPECT_EQ(from_f16(0x0001), 0x1p-24);
    EXPECT_EQ(from_f16(0x7bff), 65504);
    EXPECT_EQ(from_bf16(0xc000), -2);
    EXPECT_TRUE(std::isnan(from_f16(f16_bits(NAN))));
    EXPECT_TRUE(std::isnan(from_bf16(bf16_bits(NAN))));
}

TEST(Elements, RoundToTheNearestTiesToEven) {
    using reference::rounded;
    for (uint32_t bits = 0; bits < 0x7c00 - 1; ++bits) {  // between neighbours of f16
        const double low = reference::from_f16(static_cast<uint16_t>(bits)),
                     high = reference::from_f16(static_cast<uint16_t>(bits + 1));
        const double middle = (low + high) / 2;
        ASSERT_EQ(rounded(middle, DType::f16), bits % 2 ? high : low);
        ASSERT_EQ(rounded(std::nextafter(middle, 0), DType::f16), low);
        ASSERT_EQ(rounded(std::nextafter(middle, 1e9), DType::f16), high);
        ASSERT_EQ(rounded(-middle, DType::f16), bits % 2 ? -high : -low);
    }
    EXPECT_EQ(rounded(65519.99, DType::f16), 65504);
    EXPECT_EQ(rounded(65520, DType::f16), INFINITY);
    EXPECT_EQ(rounded(1e39, DType::bf16), INFINITY);
}

}  // namespace
}  // namespace transfuse
