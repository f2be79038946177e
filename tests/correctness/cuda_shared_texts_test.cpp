// Passes that are alike have one kernel, wherever in a graph they stand.
#include <atomic>
#include <set>

#include "cuda/assemble/build.h"
#include "cuda/kernel/numbered.h"
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

TEST(SharedTexts, have_values_numbered_in_the_order_of_the_text) {
    EXPECT_EQ(numbered_in_order("v12 = r7 + v12_exp; f(v7);"), "v0 = r1 + v0_exp; f(v1);");
    EXPECT_EQ(numbered_in_order("v1 v0 v10"), "v0 v1 v2");
    EXPECT_EQ(numbered_in_order("struct S { float v3; }; s.v3 + t->r3"), "struct S { float v0; }; s.v0 + t->r0");
    EXPECT_EQ(numbered_in_order("asm(\"ld.v4.f32 %r3\" : \"=r\"(v9)); v4"), "asm(\"ld.v4.f32 %r3\" : \"=r\"(v0)); v1");
    EXPECT_EQ(numbered_in_order("curve12, v5x, r, dev9, 5"), "curve12, v5x, r, dev9, 5");
}

TEST(SharedTexts, of_residual_blocks_share_their_texts) {
    std::string text = "graph g {\n  %x0 = input f32[2,32,16,16]\n";
    for (int i = 0; i < 8; ++i) text += "  %w" + std::to_string(i) + " = param f32[32,32,3,3]\n";
    for (int i = 0; i < 4; ++i) {
        const auto n = [&](const std::string& of, int number) { return "%" + of + std::to_string(number); };
        text += "  " + n("y", i) + " = conv(" + n("x", i) + ", " + n("w", 2 * i) + ") padding=[1,1]\n  " + n("a", i) +
                " = gelu(" + n("y", i) + ")\n  " + n("z", i) + " = conv(" + n("a", i) + ", " + n("w", 2 * i + 1) +
                ") padding=[1,1]\n  " + n("x", i + 1) + " = add(" + n("x", i) + ", " + n("z", i) + ")\n";
    }
    const Graph graph = parse(text + "  return %x4\n}\n");
    const HostCase c = make(graph, random_leaves(graph, 3), false, true, Target{}, Fp32Precision::tf32);
    std::set<std::string> texts;
    for (const BoundLaunch& bound : c.assembly.launches)
        if (bound.launch.source->entry == "transfuse_dense") texts.insert(bound.launch.source->text);
    EXPECT_EQ(kernels_named(c.assembly, "transfuse_dense"), 8);
    EXPECT_LE(texts.size(), 3U);  // one block reads an input, one writes the result
    check({c}, 3e-3);

    std::atomic<int> compilations = 0;
    CompileOptions options;
    options.precision = Fp32Precision::tf32;
    options.leaf_strides = c.leaf_strides, options.output_strides = c.output_strides;
    const Assembly compiled = assemble_compiled(c.plan, options, Target{}, true, {}, [&](const Source& source, int) {
        if (source.entry == "transfuse_dense") ++compilations;
        return std::make_shared<const Binary>(Binary{"code", ""});
    });
    EXPECT_EQ(kernels_named(compiled, "transfuse_dense"), 8);
    EXPECT_LE(compilations, 3) << "each text once";
}

}  // namespace
}  // namespace transfuse::cuda
