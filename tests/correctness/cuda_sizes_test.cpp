// Batch and image sizes are arguments of kernels: from its second size on, a program takes texts that serve any size, and
// they are right for sizes large and small.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "cuda_host/cases.h"
#include "rows.h"

namespace transfuse::cuda {
namespace {

namespace fs = std::filesystem;

// The graph with another batch and image.
Graph sized(const Graph& graph, int64_t batch, const Sizes& space) {
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) {
        Type type = graph[leaf].type;
        if (graph[leaf].op == Op::input) {
            type.shape[0] = batch;
            for (size_t axis = 2; axis < type.shape.size(); ++axis) type.shape[axis] = space[axis - 2];
        }
        types.push_back(std::move(type));
    }
    return graph.with_leaf_types(types);
}

Graph at_random(const Graph& graph, Random& random) {
    const size_t axes = graph[graph.leaves()[0]].type.shape.size() - 2;
    Sizes space;
    for (size_t axis = 0; axis < axes; ++axis)
        space.push_back(random.between(axes == 1 ? 50 : 8, axes == 1 ? 5000 : axes == 2 ? 150 : 40));
    return sized(graph, random.between(2, 32), space);
}

// Kernels that a program would compile as it meets its sizes one after another, by launch.
class Counted {
public:
    Counted() : folder_(fs::temp_directory_path() / ("transfuse-sizes-" + std::to_string(getpid()))) {
        setenv("TRANSFUSE_CACHE_DIR", folder_.c_str(), 1);
    }
    ~Counted() {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
    // How many texts are new.
    size_t meet(const Graph& graph) {
        const RewriteOptions rules{.without = {}, .only = {}, .prices = Machine::h200().prices};
        CompileOptions options;
        options.precision = Fp32Precision::tf32;
        const Assembly assembly =
            assemble(plan(rewrite(graph, rules).rewritten, Machine::h200()), options, Target{}, true, {}, &known_);
        size_t fresh = 0;
        for (const BoundLaunch& bound : assembly.launches)
            fresh += texts[bound.launch.source->entry].insert(bound.launch.source->text).second;
        for (const auto& [pass, taken] : assembly.taken) known_.remember(taken);
        return fresh;
    }
    std::map<std::string, std::set<std::string>> texts;  // by entry

private:
    fs::path folder_;
    KnownKernels known_;
};

// A text each for the first size, for rows that are whole vectors and for others; some passes differ where the device
// would stand idle. Dense kernels: two of a pass, C, f4 and f5 have several.
TEST(CudaSizes, FewTextsServeManySizesOfEveryRow) {
    for (const auto& [name, text] : tests::rows()) {
        const Graph graph = parse(text);
        Random random(7);
        Counted counted;
        size_t late = 0;
        for (int i = 0; i < 16; ++i) {
            const size_t fresh = counted.meet(at_random(graph, random));
            if (i >= 8) late += fresh;
        }
        EXPECT_LE(late, 6u) << name << ": texts that are new after eight sizes";
        for (const auto& [entry, set] : counted.texts) {
            const bool moments = entry.starts_with("tf_moments");
            EXPECT_LE(set.size(), entry == "tf_moments0" ? 7u : moments || entry == "transfuse_dense" ? 5u : 3u) << entry << " of " << name;
        }
    }
}

// Swap-AB products may rest on the width of their images, but not for every one.
TEST(CudaSizes, FewTextsServeManySizesOfManyChannels) {
    for (const char* dtype : {"f32", "f16"}) {
        const Graph graph = parse(with(
            "graph g {\n  %x = input f32[128,64,64,64]\n  %w = param f32[64,128,4,4]\n  %y = conv_transpose(%x, %w) "
            "stride=[2,2] padding=[1,1] output_padding=[1,1]\n  %z = softmax(%y) dims=[1]\n  return %z\n}\n",
            "f32", dtype));
        Counted counted;
        for (int64_t i = 0; i < 12; ++i) counted.meet(sized(graph, 128, {30 + i * 7, 40 + i * 5}));
        EXPECT_LE(counted.texts.at("transfuse_dense").size(), 4u) << dtype;
    }
}

// The texts are the same at all the sizes of a chain, and right.
void run(const std::string& body, const std::vector<std::pair<int64_t, Sizes>>& sizes, size_t most, const char* dtype,
         double tolerance) {
    Target target;
    target.multiprocessors = 3;
    target.any_size = true;
    const Graph graph = parse(with(with("graph g {  " + body + "  return %z  }", "  ", "\n  "), "f32[",
                                   std::string(dtype) + "["));
    std::vector<HostCase> cases;
    std::map<std::string, std::set<std::string>> texts;
    for (const auto& [batch, space] : sizes) {
        const Graph here = sized(graph, batch, space);
        cases.push_back(make(here, random_leaves(here, 5), false, true, target));
        for (const BoundLaunch& bound : cases.back().assembly.launches)
            texts[bound.launch.source->entry].insert(bound.launch.source->text);
    }
    for (const auto& [entry, set] : texts) EXPECT_LE(set.size(), most) << entry << " of " << body;
    check(cases, tolerance);
}

TEST(CudaSizes, RowSums) {
    const std::string body =
        "%x = input f32[1,3,9,9]  %w = param f32[3,4,3,3]  %b = param f32[4]  %a = tanh(%x)  %y = conv_transpose(%x, %w, "
        "%b) stride=[2,2] padding=[1,1] output_padding=[1,1]  %m = mul(%y, 0.5)  %z = mean(%m) dims=[2,3]";
    // Whole vectors: planes in parts, one a block, several a block; a text more for rows longer than a warp.
    run(body, {{2, {40, 64}}, {5, {24, 24}}, {3, {90, 128}}}, 1, "f32", 1e-6);
    run(body, {{2, {20, 300}}, {2, {41, 63}}, {7, {24, 25}}, {2, {20, 301}}}, 3, "f32", 1e-6);
    run(body, {{2, {40, 64}}, {5, {24, 24}}}, 1, "f16", 3e-3);
    // Values that are made while they are read.
    run(with(body, "conv_transpose(%x", "conv_transpose(%a"), {{2, {40, 64}}, {5, {24, 24}}}, 1, "f32", 1e-6);
}

TEST(CudaSizes, RowSumsOfThreeAxes) {
    run("%x = input f32[1,5,4,4,4]  %w = param f32[5,3,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] "
        "padding=[1,1,1]  %z = mean(%y) dims=[2,3,4]",
        {{3, {4, 12, 20}}, {2, {9, 11, 24}}, {2, {30, 9, 8}}, {2, {5, 70, 40}}}, 1, "f32", 1e-6);
}

TEST(CudaSizes, WholeSums) {
    run("%x = input f32[1,3,9,9]  %w = param f32[3,4,3,3]  %y = conv_transpose(%x, %w)  %m = mean(%y) dims=[2,3]  "
        "%z = logsumexp(%m) dims=[1]",
        {{2, {40, 64}}, {5, {24, 24}}, {2, {120, 130}}}, 2, "f32", 1e-6);
}

TEST(CudaSizes, SumsOfKeptColumns) {
    const std::string body =
        "%x = input f32[1,3,9,9,9]  %w = param f32[3,4,3,3,3]  %y = conv_transpose(%x, %w) padding=[1,1,1]  "
        "%z = mean(%y) dims=[2]";
    run(body, {{2, {40, 6, 8}}, {3, {64, 2, 10}}, {2, {90, 5, 4}}}, 2, "f32", 1e-6);
    run(body, {{2, {8, 40, 60}}, {3, {5, 33, 32}}}, 2, "f32", 1e-6);
    run(body, {{2, {40, 7, 9}}, {3, {64, 3, 11}}}, 2, "f32", 1e-6);
}

// Texts for rows of whole vectors and others, short and long; vectors that cross from row to row.
TEST(CudaSizes, Loops) {
    const std::vector<std::pair<int64_t, Sizes>> sizes = {{2, {6, 8}}, {3, {20, 20}}, {2, {5, 7}}, {2, {40, 34}}};
    run("%x = input f32[1,4,9,9]  %s = softmax(%x) dims=[2,3]  %z = mul(%s, 3.5)", sizes, 4, "f32", 2e-6);
    run("%x = input f32[1,4,9,9]  %g = param f32[4]  %b = param f32[4]  %n = group_norm(%x, %g, %b) num_groups=2  %z = "
        "tanh(%n)",
        sizes, 4, "f32", 5e-6);
    run("%x = input f32[1,4,9,9]  %t = param f32[4,1,1]  %a = mul(%x, %t)  %z = sigmoid(%a)", sizes, 2, "f16", 2e-3);
}

TEST(CudaSizes, ThinProducts) {
    run("%x = input f32[1,3,9,9,9]  %w = param f32[4,3,2,2,2]  %b = param f32[4]  %y = conv(%x, %w, %b)  %m = mul(%y, "
        "0.25)  %z = relu(%m)",
        {{2, {5, 6, 8}}, {3, {4, 9, 11}}, {2, {12, 12, 13}}}, 2, "f32", 2e-6);
}

}  // namespace
}  // namespace transfuse::cuda
