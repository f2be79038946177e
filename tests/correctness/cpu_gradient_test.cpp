// Weight gradients and whole backward graphs on the CPU engine, against the fp64 reference.
#include "cpu_check.h"
#include "one_statement.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

// One correlate node per lattice: up, down, dil, offset, input extent, output extent, taps, per axis.
struct Case {
    Sizes up, down, dil, offset, in, out, taps;
    int64_t groups, ci, co;
};

void check(const Case& c, DType dtype, Layout layout, int threads) {
    Sizes x{2, c.groups * c.ci}, g{2, c.groups * c.co};
    x.insert(x.end(), c.in.begin(), c.in.end());
    g.insert(g.end(), c.out.begin(), c.out.end());
    Builder builder("correlate");
    const ValueId a = builder.input("x", {dtype, x}), b = builder.input("g", {dtype, g});
    const ValueId y = builder.add(Op::correlate, {a, b},
                                  {{Key::up, c.up},
                                   {Key::down, c.down},
                                   {Key::dil, c.dil},
                                   {Key::offset, c.offset},
                                   {Key::taps, c.taps},
                                   {Key::groups, c.groups}});
    const Graph graph = builder.finish({y});
    CpuCase run{.inputs = layout, .outputs = layout, .threads = threads};
    run.tolerance = tolerance_of(dtype);
    expect_matches_reference(graph, random_leaves(graph, 11), run);
}

// Cut borders, phases without taps, lags beyond the input, groups, a mean far from zero.
TEST(CpuGradient, CovarianceOfEveryKindOfLattice) {
    const std::pair<const char*, const char*> cases[] = {
        {"x f32[2,3,40]", "offset=[2] out=[40] taps=[5]"},
        {"x f32[2,8,9,31]", "up=[2,3] dil=[2,1] offset=[1,2] out=[19,93] taps=[3,5] groups=4"},
        {"x f32[3,2,5,6,7]", "up=[2,2,2] offset=[1,1,1] out=[9,11,13] taps=[3,3,3]"},
        {"x f16[2,3,3,4,70]", "offset=[1,4,3] out=[3,2,70] taps=[3,3,6]"},
        {"x f64[2,2,2,3]", "up=[1,2] dil=[3,2] offset=[0,1] out=[8,9] taps=[3,3]"}};
    for (const auto& [inputs, relation] : cases)
        for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
            const Graph graph = parse(one_statement(inputs, "covariance(%x) " + std::string(relation)));
            auto leaves = random_leaves(graph, 12);
            for (double& value : leaves[0]) value += 100;
            CpuCase run{.inputs = layout, .threads = 2};
            run.tolerance = 1e-10;
            expect_matches_reference(graph, leaves, run);
        }
}

TEST(CpuGradient, CorrelateOfEveryKindOfLattice) {
    const std::vector<Case> cases = {
        {{1}, {1}, {1}, {2}, {40}, {40}, {5}, 1, 3, 5},                          // stride 1
        {{2, 3}, {1, 1}, {2, 1}, {1, 2}, {9, 31}, {19, 93}, {3, 5}, 4, 8, 16},   // transposed, dilated, grouped
        {{1, 1}, {2, 3}, {1, 2}, {1, 3}, {21, 50}, {10, 16}, {3, 4}, 1, 9, 33},  // strided convolution
        {{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {5, 6, 7}, {9, 11, 13}, {3, 3, 3}, 1, 4, 6},
        {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {4, 3, 300}, {6, 5, 302}, {3, 3, 3}, 2, 2, 1},
        {{2, 2}, {3, 3}, {1, 1}, {1, 0}, {12, 13}, {9, 8}, {4, 3}, 1, 1, 7},  // up and down at once
        {{3}, {1}, {1}, {0}, {7}, {21}, {2}, 5, 1, 1},                        // residues without taps, depthwise
        {{1, 1}, {1, 1}, {1, 1}, {7, 7}, {3, 3}, {3, 3}, {2, 2}, 1, 2, 2},    // nothing meets
    };
    for (const Case& c : cases)
        for (DType dtype : {DType::f32, DType::f64, DType::f16})
            for (Layout layout : {Layout::contiguous, Layout::channels_last, Layout::reversed})
                check(c, dtype, layout, 2);
}

TEST(CpuGradient, RandomGraphsBackward) {
    for (uint64_t seed = 0; seed < 120; ++seed) {
        const Graph graph = random_graph(seed, {.dtype = DType::f64, .max_steps = 4, .smooth_only = true});
        GradientRequest request;
        for (ValueId i = 0; i < static_cast<ValueId>(graph.outputs().size()); ++i) request.outputs.push_back(i);
        for (ValueId i = 0; i < static_cast<ValueId>(graph.leaves().size()); ++i) request.wrt.push_back(i);
        RewriteOptions training;
        training.inference = false;
        const Graph backward = gradient(rewrite(graph, training).rewritten, request);
        expect_matches_reference(backward, random_leaves(backward, seed), {.tolerance = 1e-10});
        ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << "\n" << print(graph);
    }
}

// Sums over the batch of what is one number a plane, and planes' numbers that are stored: the pass stays one loop.
TEST(CpuGradient, NumbersOfPlanesAreSummedAndStoredByTheLoopThatMakesThem) {
    for (const char* norm : {"instance_norm(%x, %g, %b)", "group_norm(%x, %g, %b) num_groups=3"})
        for (const char* spatial : {"7", "5,9", "3,4,5"}) {
            const Graph graph = parse("graph g {\n  %x = input f32[4,6," + std::string(spatial) +
                                      "]\n  %g = param f32[6]\n  %b = param f32[6]\n  %n = " + norm +
                                      "\n  %y = silu(%n)\n  return %y\n}");
            const Graph backward = derive_gradient(graph, {.outputs = {0}, .wrt = {0, 1, 2}}).rewritten;
            for (const Layout layout : {Layout::contiguous, Layout::channels_last, Layout::gaps})
                expect_matches_reference(backward, random_leaves(backward, 3),
                                         {.inputs = layout, .outputs = layout, .threads = 2, .tolerance = 2e-6});
            const Plan planned = plan(backward, Machine::cpu(2));
            const std::string said = compile_cpu(planned, {})->describe();
            for (size_t p = 0; p < planned.passes.size(); ++p) {
                const std::string start = "pass " + std::to_string(p) + ": ";
                const bool small = numel(planned.graph[planned.passes[p].anchor].type.shape) <= 4 * 6;
                EXPECT_TRUE(small || said.find(start + "step by step") == std::string::npos) << said << print(planned);
            }
        }
}

// What a pass needs for itself, here its partial sums, lies where others have done with their memory.
TEST(CpuGradient, PassesTakeTheirOwnMemoryWhereBuffersAreDone) {
    const Graph graph = parse(
        "graph g {\n  %x = input f32[4,8,128,128]\n  %a = max_pool(%x) kernel=3 stride=1 padding=1\n"
        "  %b = max_pool(%a) kernel=3 stride=1 padding=1\n  %c = tanh(%b)\n  %y = sum(%c) dims=[0,2,3]\n  return "
        "%y\n}");
    const Plan planned = plan(graph, Machine::cpu(2));
    ASSERT_EQ(planned.passes.size(), 3) << print(planned);
    EXPECT_EQ(compile_cpu(planned, {})->workspace_bytes(), 2 * 4 * 4 * 8 * 128 * 128);
    expect_matches_reference(graph, random_leaves(graph, 5), {});
}

}  // namespace
}  // namespace transfuse
