// The CPU engine at the edges: nothing to do, almost nothing to do, far too much to do, and several callers at once.
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "cpu/threads/thread_pool.h"
#include "cpu_check.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

void check(const std::string& text, CpuCase c = {}) {
    const Graph graph = parse(text);
    expect_matches_reference(graph, random_leaves(graph, 3), c);
}

TEST(CpuEdges, EmptyBatch) {
    check(
        "graph g { %x = input f32[0,3,5,5] %w = param f32[3,4,3,3] %y = conv_transpose(%x, %w) stride=[2,2] %z = "
        "relu(%y) return %z }");
    check(
        "graph g { %x = input f32[0,3,5,5] %w = param f32[3,4,3,3] %y = conv_transpose(%x, %w) %m = mean(%y) "
        "dims=[2,3] return %m }");
    check("graph g { %x = input f32[0,4] %y = exp(%x) %s = sum(%y) dims=[0] return %s, %y }");
}

TEST(CpuEdges, AxesOfSizeOne) {
    check("graph g { %x = input f32[1,1,1] %w = param f32[1,1,1] %y = conv_transpose(%x, %w) return %y }");
    check(
        "graph g { %x = input f32[2,3,1,7] %w = param f32[3,5,1,3] %y = conv_transpose(%x, %w) stride=[3,2] "
        "output_padding=[2,1] %z = tanh(%y) return %z }");
    check(
        "graph g { %x = input f32[1,8,1,1,1] %w = param f32[8,3,2,2,2] %y = conv_transpose(%x, %w) stride=[2,2,2] %z = "
        "softmax(%y) dims=[1] return %z }");
}

TEST(CpuEdges, PhasesWithoutTaps) {
    // Stride 2 with dilation 2: odd outputs meet no input and hold their bias.
    check(
        "graph g { %x = input f32[2,4,5,6] %w = param f32[4,8,3,3] %b = param f32[8] %y = conv_transpose(%x, %w, %b) "
        "stride=[2,2] dilation=[2,2] padding=[1,1] %z = sigmoid(%y) return %z }");
    // A stride larger than the kernel on every axis.
    check(
        "graph g { %x = input f64[2,3,4,5,3] %w = param f64[3,4,1,2,1] %b = param f64[4] %y = conv_transpose(%x, %w, "
        "%b) stride=[3,4,2] return %y }",
        {.tolerance = 1e-12});
}

TEST(CpuEdges, GroupsAndDepthwise) {
    check(
        "graph g { %x = input f32[2,12,9,11] %w = param f32[12,5,3,3] %b = param f32[15] %y = conv_transpose(%x, %w, "
        "%b) stride=[2,1] padding=[1,0] groups=3 %z = gelu(%y) return %z }");
    check(
        "graph g { %x = input f32[2,19,9,37] %w = param f32[19,1,3,5] %b = param f32[19] %y = conv_transpose(%x, %w, "
        "%b) padding=[1,2] groups=19 return %y }");
    check(
        "graph g { %x = input f32[2,6,40] %w = param f32[12,1,5] %y = conv(%x, %w) stride=[3] padding=[2] groups=6 %z "
        "= relu(%y) return %z }");
}

TEST(CpuEdges, StridedConvolutionsSplitThePatch) {
    check(
        "graph g { %x = input f32[2,7,21,50] %w = param f32[9,7,3,5] %b = param f32[9] %y = conv(%x, %w, %b) "
        "stride=[2,3] padding=[1,2] dilation=[2,1] return %y }");
    check(
        "graph g { %x = input f32[1,5,9,10,23] %w = param f32[6,5,2,3,4] %y = conv(%x, %w) stride=[1,2,4] "
        "padding=[1,1,2] %z = tanh(%y) return %z }");
}

TEST(CpuEdges, ManyInputChannelsComeInChunks) {
    check(
        "graph g { %x = input f32[1,300,7,40] %w = param f32[300,10,5,3] %b = param f32[10] %y = conv_transpose(%x, "
        "%w, %b) stride=[2,2] padding=[1,1] %z = logsumexp(%y) dims=[1] keepdim=1 %s = sub(%y, %z) return %s }",
        {.tolerance = 3e-5});
    check(
        "graph g { %x = input f32[1,260,3,5,36] %w = param f32[260,3,3,5,5] %y = conv_transpose(%x, %w) %m = mean(%y) "
        "dims=[0,2,3,4] %v = square(%y) %q = sum(%v) dims=[4] return %m, %q, %y }",
        {.tolerance = 3e-5});
}

TEST(CpuEdges, PrologueIsAppliedInsideOnly) {
    // cos(0) = 1: padding must stay zero all the same.
    check(
        "graph g { %x = input f32[2,5,9,10] %s = param f32[5,1,1] %c = cos(%x) %p = mul(%c, %s) %w = param "
        "f32[5,7,3,3] %y = conv_transpose(%p, %w) stride=[2,2] padding=[1,1] %z = relu(%y) return %z }");
    check(
        "graph g { %x = input f32[2,5,9,31] %c = cos(%x) %w = param f32[7,5,3,3] %y = conv(%c, %w) stride=[2,3] "
        "padding=[1,1] return %y }",
        {.inputs = Layout::channels_last});
}

TEST(CpuEdges, PoolsInTheTile) {
    check(
        "graph g { %x = input f32[2,5,17,23] %w = param f32[5,9,3,3] %y = conv_transpose(%x, %w) padding=[1,1] %p = "
        "max_pool(%y) kernel=[2,3] %h = clamp(%p) lo=-0.5 hi=0.5 %m = mean(%h) dims=[2,3] keepdim=1 %t = tanh(%m) "
        "return %t, %h }");
    check(
        "graph g { %x = input f32[1,4,6,7,9] %w = param f32[4,8,3,3,3] %b = param f32[8] %y = conv_transpose(%x, %w, "
        "%b) stride=[2,2,2] padding=[1,1,1] %e = exp(%y) %p = max_pool(%e) kernel=[2,2,2] return %p }");
}

TEST(CpuEdges, ReductionsOverEverySetOfAxes) {
    for (const char* dims : {"[0]", "[2]", "[3]", "[0,1]", "[0,2]", "[1,2]", "[2,3]", "[0,2,3]", "[1,3]", "[0,1,2,3]"})
        for (const char* op : {"sum", "mean", "amax", "amin", "logsumexp", "var"}) {
            const std::string tail = std::string(" %r = ") + op + "(%t) dims=" + dims + " return %r }";
            check(
                "graph g { %x = input f32[3,4,19,21] %w = param f32[4,8,3,3] %y = conv_transpose(%x, %w) %t = "
                "tanh(%y)" +
                    tail,
                {.tolerance = 2e-5});
            check("graph g { %x = input f32[3,8,19,21] %s = param f32[8,1,1] %y = mul(%x, %s) %t = sin(%y)" + tail,
                  {.tolerance = 2e-5});
        }
}

TEST(CpuEdges, MomentsOfEveryLayoutAndSetOfAxes) {
    for (Layout layout : {Layout::contiguous, Layout::channels_last, Layout::gaps, Layout::reversed})
        for (const char* dims : {"[2,3,4]", "[2]", "[3]", "[4]", "[2,4]", "[3,4]"})
            check(std::string("graph g { %x = input f32[2,9,7,8,20] %w = param f32[9,8,3,3,2] %b = param f32[8] %y = "
                              "conv_transpose(%x, %w, %b) "
                              "stride=[2,1,2] padding=[1,1,1] output_padding=[1,0,1] %m = mean(%y) dims=") +
                      dims + " return %m }",
                  {.inputs = layout});
}

TEST(CpuEdges, StoresIntoASliceOfTheResult) {
    check(
        "graph g { %x = input f32[2,3,8,9] %u = input f32[2,5,16,18] %w = param f32[3,4,2,2] %y = conv_transpose(%x, "
        "%w) stride=[2,2] %r = relu(%y) %c = concat(%r, %u) axis=1 return %c }");
    check(
        "graph g { %x = input f32[2,3,8,9] %u = input f32[2,5,16,18] %w = param f32[3,4,2,2] %y = conv_transpose(%x, "
        "%w) stride=[2,2] %c = concat(%u, %y, %y) axis=1 return %c, %y }",
        {.outputs = Layout::channels_last});
}

TEST(CpuEdges, AxesOfSizeZero) {
    check("graph g { %x = input f32[2,3,0,5] %y = exp(%x) %m = sum(%y) dims=[2] return %y, %m }");
    check("graph g { %x = input f32[2,0,4,5] %y = relu(%x) %s = sum(%y) dims=[1,2,3] return %y, %s }");
    // Nothing is left of the convolution's result, and of what is computed from it; its neighbour is whole.
    check(
        "graph g { %x = input f32[2,3,5,6] %w = param f32[3,4,3,3] %y = conv_transpose(%x, %w) %s = slice(%y) axis=2 "
        "start=3 end=3 %z = tanh(%s) return %z, %y }");
}

// A tensor of more than 2³¹ elements by its strides: one row, repeated (stride 0).
TEST(CpuEdges, RepeatedRowsStandForHugeTensors) {
    const Graph graph = parse("graph g { %x = input f32[1,2,70000,40000] %m = mean(%x) dims=[2,3] return %m }");
    const Plan ready = plan_for_cpu(graph);
    const auto engine = compile_cpu(ready);
    std::vector<float> row(40000);
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 7);
    double want = 0;
    for (float v : row) want += v;
    want /= static_cast<double>(row.size());
    float out[2] = {-1, -1};
    const TensorView x{row.data(), DType::f32, {1, 2, 70000, 40000}, {0, 0, 0, 1}};
    const TensorView y{out, DType::f32, {1, 2}, {2, 1}};
    std::vector<char> workspace(engine->workspace_bytes() + 256);
    RunContext context;
    context.workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 255) / 256 * 256);
    engine->run(std::span(&x, 1), std::span(&y, 1), context);
    EXPECT_NEAR(out[0], want, 1e-5);
    EXPECT_NEAR(out[1], want, 1e-5);
}

// Memory that exists only where it is touched.
struct SparseMemory {
    size_t size;
    void* data;
    explicit SparseMemory(size_t bytes)
        : size(bytes),
          data(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
    ~SparseMemory() {
        if (data != MAP_FAILED) munmap(data, size);
    }
};

// Images, then channels, then rows lie more than 2³¹ elements apart, in the input and in the result, forwards and
// backwards: every index is 64 bits wide, or some element lands elsewhere.
TEST(CpuEdges, OffsetsBeyondTwoToThe31) {
    constexpr int64_t far = (int64_t{1} << 31) + 64;
    const Graph graph = parse(
        "graph g { %x = input f32[2,24,6,9] %w = param f32[24,8,3,3] %y = conv_transpose(%x, %w) padding=[1,1] %t = "
        "tanh(%y) %m = mean(%x) dims=[3] return %t, %m }");
    const Plan ready = plan_for_cpu(graph);
    const auto engine = compile_cpu(ready);
    const auto leaves = random_leaves(graph, 21);
    const auto want = run_cpu(ready, leaves, {});
    HostTensor w(graph[graph.leaves()[1]].type, Layout::contiguous),
        m(graph[graph.outputs()[1]].type, Layout::contiguous);
    w.fill(leaves[1]);
    std::vector<char> workspace(engine->workspace_bytes() + 512);
    RunContext context;
    context.workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 255) / 256 * 256);
    for (size_t axis : {size_t{0}, size_t{1}, size_t{2}})
        for (bool backwards : {false, true}) {
            const auto spread = [&](const Type& type, SparseMemory& memory) {
                TensorView view{memory.data, type.dtype, type.shape, contiguous_strides(type.shape)};
                view.strides[axis] = backwards ? -far : far;
                if (backwards) view.data = static_cast<float*>(memory.data) + far * (type.shape[axis] - 1);
                return view;
            };
            const Type &in = graph[graph.leaves()[0]].type, &out = graph[graph.outputs()[0]].type;
            const auto reach = [&](const Type& t) { return static_cast<size_t>(4 * (far * t.shape[axis] + 4096)); };
            SparseMemory x_memory(reach(in)), y_memory(reach(out));
            if (x_memory.data == MAP_FAILED || y_memory.data == MAP_FAILED)
                GTEST_SKIP() << "no address space for " << reach(in) << " bytes";
            const TensorView x = spread(in, x_memory), y = spread(out, y_memory);
            cpu::Odometer at(in.shape, 0);
            for (size_t i = 0; i < leaves[0].size(); ++i, at.next())
                cpu::set(x, at.offset(x.strides), static_cast<float>(leaves[0][i]));
            const TensorView ins[] = {x, w.view()}, outs[] = {y, m.view()};
            engine->run(ins, outs, context);
            std::vector<double> got(want[0].size());
            cpu::Odometer place(out.shape, 0);
            for (double& v : got) {
                v = cpu::get(y, place.offset(y.strides));
                place.next();
            }
            EXPECT_EQ(got, want[0]) << "axis " << axis << (backwards ? ", backwards" : "");
            EXPECT_EQ(m.values(), want[1]) << "axis " << axis;
        }
}

TEST(CpuEdges, ViewsThatDoNotFitAreRefused) {
    const Plan ready = plan_for_cpu(parse("graph g { %x = input f32[2,3] %y = exp(%x) return %y }"));
    const auto engine = compile_cpu(ready);
    float data[6] = {}, out[6] = {};
    std::vector<char> workspace(engine->workspace_bytes() + 256);
    RunContext context;
    context.workspace = workspace.data();
    const auto run = [&](const TensorView& x, const TensorView& y) {
        engine->run(std::span(&x, 1), std::span(&y, 1), context);
    };
    const TensorView good_x{data, DType::f32, {2, 3}, {3, 1}}, good_y{out, DType::f32, {2, 3}, {3, 1}};
    EXPECT_NO_THROW(run(good_x, good_y));
    EXPECT_THROW(run({data, DType::f64, {2, 3}, {3, 1}}, good_y), Error);
    EXPECT_THROW(run({data, DType::f32, {3, 2}, {2, 1}}, good_y), Error);
    EXPECT_THROW(run({nullptr, DType::f32, {2, 3}, {3, 1}}, good_y), Error);
    EXPECT_THROW(run(good_x, {out, DType::f32, {2, 3}, {0, 1}}), Error);  // rows on top of each other
    EXPECT_THROW(engine->run({}, {}, context), Error);
}

TEST(CpuEdges, FrozenParametersStillFillOutputs) {
    check(
        "graph g { %x = input f32[2,3,5,5] %w = param f32[3,4,3,3] %s = param f32[4,1,1] %e = exp(%s) %y = "
        "conv_transpose(%x, %w) %z = mul(%y, %e) return %z, %e }",
        {.freeze = true});
}

TEST(CpuEdges, ManyCallersAtOnce) {
    const Graph graph = parse(
        "graph g { %x = input f32[2,8,20,30] %w = param f32[8,16,3,3] %y = conv_transpose(%x, %w) stride=[2,2] %t = "
        "tanh(%y) %m = mean(%t) dims=[2,3] return %m, %t }");
    const Plan ready = plan_for_cpu(graph);
    const auto leaves = random_leaves(graph, 5);
    const auto want = run_cpu(ready, leaves, {.threads = 1});
    std::vector<std::thread> callers;
    std::vector<std::vector<std::vector<double>>> got(6);
    for (size_t i = 0; i < got.size(); ++i)
        callers.emplace_back([&, i] {
            for (int repeat = 0; repeat < 5; ++repeat)
                got[i] = run_cpu(ready, leaves, {.threads = static_cast<int>(i % 4) + 1});
        });
    for (std::thread& t : callers) t.join();
    for (const auto& result : got) EXPECT_EQ(result, want);
}

TEST(ThreadPool, RunsEachIndexOnceAndReportsTheFirstError) {
    for (int threads : {1, 2, 7}) {
        std::vector<int> hits(1000, 0);
        cpu::parallel_for(threads, 1000, [&](int64_t i) { ++hits[static_cast<size_t>(i)]; });
        EXPECT_EQ(hits, std::vector<int>(1000, 1));
        EXPECT_THROW(cpu::parallel_for(threads, 100, [&](int64_t i) { require(i != 57, "fifty-seven"); }), Error);
    }
    // Loops within loops.
    std::vector<int> hits(64, 0);
    cpu::parallel_for(
        3, 8, [&](int64_t i) { cpu::parallel_for(3, 8, [&](int64_t j) { ++hits[static_cast<size_t>(8 * i + j)]; }); });
    EXPECT_EQ(hits, std::vector<int>(64, 1));
}

// A loop takes as many threads as its caller allows and no more, whatever other loops left behind.
TEST(ThreadPool, TakesNoMoreThreadsThanAllowed) {
    for (int threads : {4, 1, 2, 3}) {
        std::atomic<int> inside{0}, most{0};
        cpu::parallel_for(threads, 200, [&](int64_t) {
            const int now = ++inside;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            std::this_thread::yield();
            --inside;
        });
        EXPECT_LE(most, threads);
    }
}

}  // namespace
}  // namespace transfuse
