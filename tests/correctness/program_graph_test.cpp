// A program reads its text once and infers the graphs of other sizes from what was read: they are those its text says.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "random_graphs.h"
#include "rows.h"
#include "transfuse/program.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

std::vector<TensorView> views_of(const Graph& graph) {
    std::vector<TensorView> views;
    for (ValueId leaf : graph.leaves()) {
        const Type& type = graph[leaf].type;
        views.push_back({nullptr, type.dtype, type.shape, contiguous_strides(type.shape)});
    }
    return views;
}

// What a program says that has read other sizes, and what one says that has not: a graph, or why there is none.
std::string said(const Program& program, const std::vector<TensorView>& views) try {
    return print(program.graph(views, {}));
} catch (const Error& error) {
    return error.what();
}

void expect_as_read(const std::string& text, int64_t batch, std::initializer_list<int64_t> spaces) {
    const Program program(text);
    const Graph first = parse(text);
    program.graph(views_of(first), {});
    for (const int64_t space : spaces)
        for (const DType dtype : {DType::f32, DType::f16}) {
            std::vector<TensorView> views = views_of(first);
            for (size_t i = 0; i < views.size(); ++i) {
                views[i].dtype = dtype;
                if (first[first.leaves()[i]].op != Op::input) continue;
                Sizes& shape = views[i].shape;
                for (size_t axis = 0; axis < shape.size(); ++axis)
                    if (axis != 1) shape[axis] = axis == 0 ? batch : space + static_cast<int64_t>(axis);
            }
            EXPECT_EQ(said(program, views), said(Program(text), views)) << text;
        }
}

TEST(ProgramGraph, OtherSizesAreWhatTheTextSays) {
    for (const auto& [name, text] : tests::rows()) expect_as_read(std::string(text), 3, {1, 2, 5, 16, 31});
}

TEST(ProgramGraph, OtherSizesOfRandomGraphs) {
    for (uint64_t seed = 0; seed < 300; ++seed) expect_as_read(print(random_graph(seed)), 2, {1, 3, 6, 9});
}

TEST(ProgramGraph, AnotherRankIsReadAnew) {
    const std::string text =
        "graph g {\n  %x = input f32[2,4,6,8]\n  %w = param f32[4,3,3,3]\n  %y = conv_transpose(%x, %w) stride=2\n  %m "
        "= mean(%y) dims=[-1]\n"
        "  return %m\n}\n";
    const Program program(text);
    std::vector<TensorView> views = views_of(parse(text));
    const std::string before = said(program, views);
    views[0].shape = {4, 6, 8}, views[0].strides = contiguous_strides(views[0].shape);
    EXPECT_EQ(said(program, views), said(Program(text), views));
    EXPECT_NE(said(program, views), before);
    EXPECT_EQ(said(program, views_of(parse(text))), before);
}

// What was grown for one size becomes what is grown for the next, in whichever thread: none has another's.
TEST(ProgramGraph, SizesOfSeveralThreads) {
    const std::string text =
        "graph g {\n  %x = input f32[2,4,9]\n  %v = param f32[4,4,3]\n  %g = param f32[4,1,1]\n"
        "  %w = weight_norm(%v, %g) axis=0\n  %a = conv_transpose(%x, %w) stride=2\n  %b = leaky_relu(%a)\n"
        "  %y = conv_transpose(%b, %w) stride=3\n  %z = tanh(%y)\n  return %z\n}\n";
    constexpr int threads = 4, lengths = 40;
    const auto at = [&](int64_t length) {
        std::vector<TensorView> views = views_of(parse(text));
        views[0].shape[2] = length, views[0].strides = contiguous_strides(views[0].shape);
        return views;
    };
    const auto shown = [](Program& program, const std::vector<TensorView>& views) {
        const auto instance = program.forward(views, {}, CallMode{});
        return to_string(instance->output_types[0]) + instance->executable->describe() + said(program, views);
    };
    Program program(text);
    std::vector<std::vector<std::string>> got(threads);
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
            for (int i = 0; i < lengths; ++i) got[static_cast<size_t>(t)].push_back(shown(program, at(5 + t + 3 * i)));
        });
    for (std::thread& thread : all) thread.join();
    for (int t = 0; t < threads; ++t)
        for (int i = 0; i < lengths; ++i) {
            Program own(text);
            EXPECT_EQ(got[static_cast<size_t>(t)][static_cast<size_t>(i)], shown(own, at(5 + t + 3 * i)));
        }
}

// A plan is found by what inputs and parameters are: other strides or other types of either are another plan.
TEST(ProgramKept, PlansByInputsAndParameters) {
    Program program(
        "graph g {\n  %w = param f32[4,6]\n  %x = input f32[4,6]\n  %v = param f32[4,6]\n  %a = mul(%x, %w)\n  %y = "
        "add(%a, %v)\n  return %y\n}\n");
    const Sizes shape{4, 6}, rows{6, 1}, columns{1, 4};
    std::map<int, std::shared_ptr<const Instance>> met;
    for (const int round : {0, 1})
        for (int kind = 0; kind < 16; ++kind) {
            std::vector<TensorView> views;
            for (const int leaf : {0, 1, 2})
                views.push_back(
                    {nullptr, kind & 8 ? DType::f64 : DType::f32, shape, kind >> leaf & 1 ? columns : rows});
            const auto instance = program.forward(views, {}, {});
            if (round == 0) met[kind] = instance;
            EXPECT_EQ(met[kind], instance) << kind;
            EXPECT_EQ(program.statistics().plans, round == 0 ? kind + 1 : 16);
        }
}

// Of parameters that were met long ago nothing is kept; what comes again is planned again.
TEST(ProgramKept, ParametersOfTheLastCalls) {
    Program program("graph g {\n  %w = param f32[4]\n  %x = input f32[1]\n  %y = mul(%x, %w)\n  return %y\n}\n");
    const auto at = [&](int64_t length) {
        const std::vector<TensorView> views{{nullptr, DType::f32, {length}, {1}}, {nullptr, DType::f32, {1}, {1}}};
        EXPECT_EQ(program.forward(views, {}, {})->output_types[0].shape, Sizes{length});
        return program.statistics().plans;
    };
    const auto many = static_cast<int64_t>(Program::most_kept) + 100;
    for (int64_t length = 1; length <= many; ++length) EXPECT_EQ(at(length), length);
    EXPECT_EQ(at(many), many);
    EXPECT_EQ(at(many - 500), many);
    EXPECT_EQ(at(1), many + 1);
    EXPECT_EQ(at(1), many + 1);
}

TEST(ProgramKept, PlansOfTheLastSizesMet) {
    Program program("graph g {\n  %x = input f32[2,4,6]\n  %y = relu(%x)\n  return %y\n}\n");
    const auto at = [&](int64_t length) {
        const Sizes shape{2, 4, length};
        const TensorView view{nullptr, DType::f32, shape, contiguous_strides(shape)};
        return program.forward(std::span(&view, 1), {}, {});
    };
    const auto first = at(1);
    const auto made = [&] { return program.statistics().plans; };
    const auto most = static_cast<int64_t>(Program::most_kept);
    for (int64_t length = 2; length <= 3 * most; ++length) {
        at(length);
        ASSERT_EQ(at(1), first);  // met again and again
        ASSERT_LE(program.instances().size(), Program::most_kept);
    }
    EXPECT_EQ(made(), 3 * most);
    for (int64_t length = 3 * most; length > 3 * most - most / 2; --length) at(length);
    EXPECT_EQ(made(), 3 * most);
    EXPECT_EQ(at(2)->output_types[0].shape, (Sizes{2, 4, 2}));
    EXPECT_EQ(made(), 3 * most + 1);
}

}  // namespace
}  // namespace transfuse
