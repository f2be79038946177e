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

// Threads that meet sizes at once: none has another's.
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
    const int64_t many = 200;
    for (int64_t length = 1; length <= many; ++length) EXPECT_EQ(at(length), length);
    EXPECT_EQ(at(many), many);
    EXPECT_EQ(at(many - 30), many);
    EXPECT_EQ(at(1), many + 1);
    EXPECT_EQ(at(1), many + 1);
}

const char* const small =
    "graph g {\n  %x = input f32[2,4,6]\n  %w = param f32[4,4,3]\n  %t = tanh(%w)\n  %y = conv(%x, %t)\n  return "
    "%y\n}\n";

struct Met {
    explicit Met(size_t most) : program(small, most) {}
    std::shared_ptr<const Instance> at(int64_t length, const CallMode& mode = {}) {
        const Sizes shape{2, 4, length};
        const std::vector<TensorView> views{{weights, DType::f32, shape, contiguous_strides(shape)},
                                            {weights, DType::f32, {4, 4, 3}, contiguous_strides({4, 4, 3})}};
        return program.forward(views, {}, mode);
    }
    float weights[48]{};
    Program program;
};

// Bytes are what limits it: what was met last is kept, what is met again and again too.
TEST(ProgramKept, PlansOfTheLastSizesMet) {
    constexpr size_t most = 1 << 20;
    Met met(most);
    const auto first = met.at(3);
    const size_t one = met.program.bytes();
    const auto fits = static_cast<int64_t>(most / one);
    ASSERT_GT(fits, 8);
    for (int64_t i = 1; i < 3 * fits; ++i) {
        met.at(3 + i);
        ASSERT_EQ(met.at(3), first);
        ASSERT_LE(met.program.bytes(), most);
        ASSERT_LE(met.program.instances().size(), static_cast<size_t>(2 * fits));
    }
    const auto made = [&] { return met.program.statistics().plans; };
    EXPECT_EQ(made(), 3 * fits);
    for (int64_t i = 3 * fits - 1; i > 3 * fits - fits / 2; --i) met.at(3 + i);
    EXPECT_EQ(made(), 3 * fits);
    EXPECT_EQ(met.at(5)->output_types[0].shape, (Sizes{2, 4, 3}));
    EXPECT_EQ(made(), 3 * fits + 1);
}

// Prepared weights are counted, and those of a size that is still used are not given back.
TEST(ProgramKept, PreparedWeightsCount) {
    Met plain(1 << 30), frozen(1 << 30);
    CallMode mode;
    plain.at(9), mode.freeze = true, frozen.at(9, mode);
    EXPECT_GE(frozen.program.bytes(), plain.program.bytes() + 48 * sizeof(float));
    Met few(1);  // room for nothing: two stay, and what somebody holds
    const std::weak_ptr<const Instance> first = few.at(9, mode);
    const std::shared_ptr<const Instance> held = few.at(10, mode);
    for (int64_t length = 11; length < 20; ++length) few.at(length, mode);
    EXPECT_EQ(few.program.instances().size(), 2U);
    EXPECT_TRUE(first.expired());
    EXPECT_FALSE(held->executable->describe().empty());
}

TEST(ProgramKept, FrozenOnesAreForgottenAlone) {
    Met met(1 << 30);
    CallMode frozen;
    frozen.freeze = true;
    const auto a = met.at(9), b = met.at(9, frozen);
    met.program.forget_frozen();
    EXPECT_EQ(met.at(9), a);
    EXPECT_NE(met.at(9, frozen), b);
}

// Want of memory says nothing of the next call.
TEST(ProgramKept, WantOfMemoryIsNoFailure) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers end where there is no memory";
#endif
    Program program(
        "graph g {\n  %x = input f32[1,2,4]\n  %w = param f32[2,2,3]\n  %t = tanh(%w)\n  %y = conv(%x, %t)\n  return "
        "%y\n}\n");
    const Sizes w{2, int64_t{1} << 38, 3}, x{1, int64_t{1} << 38, 4};  // which no machine prepares
    const std::vector<TensorView> views{{nullptr, DType::f32, x, contiguous_strides(x)},
                                        {nullptr, DType::f32, w, contiguous_strides(w)}};
    CallMode mode;
    mode.freeze = true;
    EXPECT_THROW(program.forward(views, {}, mode), OutOfMemory);
    EXPECT_EQ(program.statistics().failures, 0);
}

// Programs stay for as long as they are held; of the others the last stay, unless nobody could name them.
TEST(ProgramKept, ProgramsAreHeldAndReleased) {
    const std::string text = "graph held {\n  %x = input f32[2]\n  %y = relu(%x)\n  return %y\n}\n";
    const int64_t handle = hold_program(text);
    EXPECT_EQ(define_program(text), handle);
    EXPECT_EQ(hold_program(text), handle);
    const std::weak_ptr<Program> held = program(handle);
    release_program(handle);
    EXPECT_EQ(program(handle), held.lock());
    release_program(handle);
    EXPECT_EQ(program(handle), held.lock()) << "it was used last";
    EXPECT_EQ(define_program(text), handle);
    for (int i = 0; i < 1000; ++i)
        define_program("graph g" + std::to_string(i) + " {\n  %x = input f32[2]\n  %y = relu(%x)\n  return %y\n}\n");
    EXPECT_TRUE(held.expired());
    EXPECT_THROW(program(handle), Error);

    const int64_t salted = hold_program(text, 7);
    const std::weak_ptr<Program> frozen = program(salted);
    const std::shared_ptr<Program> calling = program(salted);
    release_program(salted);
    EXPECT_THROW(program(salted), Error);
    EXPECT_FALSE(frozen.expired()) << "a call still runs";
}

}  // namespace
}  // namespace transfuse
