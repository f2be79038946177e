// Random graphs through rewrite, plan and the CPU engine, against the fp64 reference.
#include "cpu_check.h"
#include "random_graphs.h"

namespace transfuse {
namespace {

void check(uint64_t first, uint64_t count, RandomGraphOptions options, CpuCase c) {
    c.tolerance = tolerance_of(options.dtype);
    for (uint64_t seed = first; seed < first + count; ++seed) {
        const Graph graph = random_graph(seed, options);
        try {
            expect_matches_reference(graph, random_leaves(graph, seed), c);
        } catch (const Error& error) {
            ADD_FAILURE() << error.what() << "\n" << print(graph);
        }
        ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    }
}

TEST(CpuRandom, Fp64) { check(0, 250, {.dtype = DType::f64}, {}); }
TEST(CpuRandom, Fp32) { check(1000, 250, {.dtype = DType::f32}, {}); }
TEST(CpuRandom, Fp32WiderChannels) { check(2000, 80, {.dtype = DType::f32, .max_extent = 13, .max_channels = 40}, {}); }
TEST(CpuRandom, ChannelsLast) {
    check(3000, 150, {.dtype = DType::f32}, {.inputs = Layout::channels_last, .outputs = Layout::channels_last});
}
TEST(CpuRandom, Gaps) { check(4000, 100, {.dtype = DType::f32}, {.inputs = Layout::gaps, .outputs = Layout::gaps}); }
TEST(CpuRandom, Reversed) {
    check(5000, 100, {.dtype = DType::f64}, {.inputs = Layout::reversed, .outputs = Layout::reversed});
}
TEST(CpuRandom, Ample) { check(10000, 120, {.dtype = DType::f32, .max_channels = 12, .ample = true}, {}); }
TEST(CpuRandom, Frozen) { check(6000, 60, {.dtype = DType::f32}, {.freeze = true}); }
TEST(CpuRandom, Half) {
    check(7000, 80, {.dtype = DType::f16, .max_steps = 3, .norms = false}, {});
    check(8000, 80, {.dtype = DType::bf16, .max_steps = 3, .norms = false}, {});
}

TEST(CpuRandom, SameBitsWhateverTheThreadCount) {
    for (uint64_t seed = 9000; seed < 9060; ++seed) {
        const Graph graph = random_graph(seed, {.dtype = DType::f32, .max_extent = 19, .max_channels = 20});
        const auto leaves = random_leaves(graph, seed);
        const Plan ready = plan_for_cpu(graph);
        const auto one = run_cpu(ready, leaves, {.threads = 1});
        for (int threads : {2, 5}) {
            const auto many = run_cpu(ready, leaves, {.threads = threads});
            for (size_t o = 0; o < one.size(); ++o)
                ASSERT_EQ(0, std::memcmp(one[o].data(), many[o].data(), one[o].size() * sizeof(double)))
                    << threads << " threads, seed " << seed << "\n"
                    << print(ready);
        }
    }
}

}  // namespace
}  // namespace transfuse
