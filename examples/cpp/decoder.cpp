// Transfuse from C++: write a graph as text (or build it node by node), rewrite it, see what happened, plan and compile
// it, and run it on memory of your own. Copy this file and start from it.
#include <transfuse/transfuse.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

using namespace transfuse;

namespace {

// One stage of a decoder: upsample by two with a transposed convolution, add the skip connection, squash, pool to
// features.
constexpr const char* stage = R"(
graph stage {
  %x = input f32[2,16,12,12]
  %skip = input f32[2,8,24,24]
  %weight = param f32[16,8,4,4]
  %bias = param f32[8]
  %up = conv_transpose(%x, %weight, %bias) stride=[2,2] padding=[1,1]
  %sum = add(%up, %skip)
  %image = silu(%sum)
  %features = mean(%image) dims=[2,3]
  return %image, %features
}
)";

// The same graph without text.
Graph build_stage() {
    Builder graph("stage");
    const ValueId x = graph.input("x", {DType::f32, {2, 16, 12, 12}});
    const ValueId skip = graph.input("skip", {DType::f32, {2, 8, 24, 24}});
    const ValueId weight = graph.param("weight", {DType::f32, {16, 8, 4, 4}});
    const ValueId bias = graph.param("bias", {DType::f32, {8}});
    const ValueId up = graph.add(Op::conv_transpose, {x, weight, bias},
                                 {{Key::stride, Sizes{2, 2}}, {Key::padding, Sizes{1, 1}}}, "up");
    const ValueId image = graph.add(Op::silu, {graph.add(Op::add, {up, skip}, {}, "sum")}, {}, "image");
    const ValueId features = graph.add(Op::mean, {image}, {{Key::dims, Sizes{2, 3}}}, "features");
    return graph.finish({image, features});
}

std::vector<float> random_values(const Type& type, float scale) {
    std::vector<float> values(static_cast<size_t>(numel(type.shape)));
    for (float& value : values) value = scale * (static_cast<float>(std::rand()) / RAND_MAX - 0.5f);
    return values;
}

TensorView view(std::vector<float>& values, const Type& type) {
    return {values.data(), DType::f32, type.shape, contiguous_strides(type.shape)};
}

}  // namespace

int main() try {
    const Graph graph = parse(stage);
    if (graph != build_stage()) fail("the two ways to write the graph should give the same one.");

    // Algebra: what can be computed with less.  Plan: which steps share a pass over memory.
    const Derivation derivation = rewrite(graph);
    const Plan chosen = plan(derivation.rewritten, Machine::cpu(2));
    std::printf("%s\n%s\n", explain(derivation).c_str(), print(chosen).c_str());

    // Tensors are yours: any memory, any strides. Leaves come in the order of the graph's inputs and params.
    std::vector<std::vector<float>> leaves, outputs;
    std::vector<TensorView> leaf_views, output_views;
    for (ValueId leaf : graph.leaves()) leaves.push_back(random_values(graph[leaf].type, 1.0f));
    for (ValueId output : graph.outputs()) outputs.push_back(random_values(graph[output].type, 0.0f));
    for (size_t i = 0; i < leaves.size(); ++i) leaf_views.push_back(view(leaves[i], graph[graph.leaves()[i]].type));
    for (size_t i = 0; i < outputs.size(); ++i)
        output_views.push_back(view(outputs[i], graph[graph.outputs()[i]].type));

    // Compile once, run often; from several threads at once if each brings its own workspace.
    const std::unique_ptr<Executable> executable = compile_cpu(chosen);
    std::vector<std::byte> memory(executable->workspace_bytes() + 256);
    RunContext context;
    context.threads = 2;
    size_t room = memory.size();
    context.workspace = memory.data();
    std::align(256, executable->workspace_bytes(), context.workspace, room);
    executable->run(leaf_views, output_views, context);

    // The plain interpreter in float64 says what should have come out.
    std::vector<std::vector<double>> exact_leaves;
    for (const auto& leaf : leaves) exact_leaves.emplace_back(leaf.begin(), leaf.end());
    const auto exact = evaluate(graph, exact_leaves);
    double worst = 0;
    for (size_t output = 0; output < outputs.size(); ++output)
        for (size_t i = 0; i < outputs[output].size(); ++i)
            worst = std::max(worst, std::abs(outputs[output][i] - exact[output][i]));
    std::printf("largest difference from float64: %.2g\n", worst);
    return worst < 1e-4 ? 0 : 1;
} catch (const Error& error) {
    std::fprintf(stderr, "decoder: %s\n", error.what());
    return 2;
}
