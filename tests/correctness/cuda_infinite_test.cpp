// Rows with infinities: softmax and log_softmax are NaN where a row has ∞ in it or nothing but −∞, logsumexp is ∞ or −∞
// there. Rows whose numbers have much in common: it is subtracted before anything is rounded. Every kind of kernel that
// sums exponentials, executed on the CPU against the float64 reference.
#include <cmath>
#include <limits>

#include "cuda/kernel/shares.h"
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// %s, the last leaf, has infinities among zeros. A `?` stands for the sums.
const char* const passes[] = {
    // rows in memory: long ones, of channels, few of them
    "%s = input f32[13,1500]  ? dims=[1]",
    "%s = input f32[3,20,18,21]  ? dims=[1]",
    "%s = input f32[4,3]  ? dims=[1]",
    // whole images, in many blocks
    "%s = input f32[2,2,160,140]  ? dims=[1,2,3]",
    // behind products: of tensor cores, with all channels in a tile, or more than that; of space
    "%x = input f32[3,16,5,9]  %w = param f32[16,64,3,3]  %s = input f32[3,64,1,1]  %y = conv_transpose(%x, %w)  ? "
    "dims=[1]",
    "%x = input f32[3,16,5,9]  %w = param f32[16,72,4,4]  %s = input f32[3,72,1,1]  %y = conv_transpose(%x, %w) "
    "stride=[2,2] padding=[1,1]  ? dims=[1]",
    "%x = input f32[3,16,5,9]  %w = param f32[16,24,3,3]  %s = input f32[3,24,1,9]  %y = conv_transpose(%x, %w) "
    "padding=[1,1]  "
    "? dims=[2,3]",
    // of few channels, and of groups
    "%x = input f32[3,3,4,5,6]  %w = param f32[3,16,3,3,3]  %s = input f32[3,16,1,1,1]  %y = conv_transpose(%x, %w) "
    "stride=[2,2,2] padding=[1,1,1]  ? dims=[1]",
    "%x = input f32[3,5,4,3]  %w = param f32[5,1,16,16]  %s = input f32[3,5,1,1]  %y = conv_transpose(%x, %w) "
    "stride=[8,8] "
    "padding=[4,4] groups=5  ? dims=[1]",
};

// One row with ∞ beside numbers, one of −∞ alone, one with ∞ and −∞, others of numbers and −∞.
std::vector<double> with_infinities(const Sizes& shape) {
    const auto rows = static_cast<size_t>(shape[0]);
    const size_t each = static_cast<size_t>(numel(shape)) / rows;
    std::vector<double> values(rows * each, 0.0);
    values[each / 2] = infinity;
    for (size_t i = 0; i < each; ++i) values[each + i] = -infinity;
    if (rows < 3) return values;
    values[2 * each] = -infinity, values[3 * each - 1] = infinity;
    for (size_t row = 3; row < rows; ++row) values[row * each + 1] = -infinity;
    return values;
}

TEST(CudaInfinite, RowsOfExponentials) {
    std::vector<HostCase> cases;
    size_t number = 0;
    for (const char* dtype : {"f32", "f64"})
        for (const char* pass : passes)
            for (const char* sums : {"%z = softmax(%t)", "%z = log_softmax(%t)", "%z = logsumexp(%t)"}) {
                const size_t at = number++;
                if (!tests::taken(at, at / 3, 3)) continue;
                const bool product = std::string(pass).find("%y") != std::string::npos;
                if (std::string(dtype) == "f64" && (product || sums[5] != 's')) continue;
                const std::string line =
                    with(pass, "?", (product ? "%t = add(%y, %s)  " : "%t = mul(%s, 1)  ") + std::string(sums));
                const Graph graph = graph_of(line, dtype);
                auto leaves = random_leaves(graph, 3);
                for (size_t i = 0; i < leaves.size(); ++i)
                    if (graph[graph.leaves()[i]].name == "s")
                        leaves[i] = with_infinities(graph[graph.leaves()[i]].type.shape);
                cases.push_back(make(graph, leaves, false, true, Target{}));
            }
    check(cases, 1e-5);
}

// Over every axis, values and gradients. Products are sums of few eighths: all logits are exact. (A softmax of a tile's
// channels rounds exponents as it rounds logits, which are sums.)
TEST(CudaInfinite, LargeLogits) {
    std::vector<HostCase> cases, of_tiles;
    size_t number = 0;
    for (const char* dims : {"[0]", "[1]", "[2]", "[3]", "[2,3]", "[0,2]", "[1,3]", "[1,2,3]"})
        for (const char* sums : {"softmax", "log_softmax"}) {
            const size_t at = number++;
            if (!tests::taken(at, at / 2, 2)) continue;  // one or the other over every axis
            const Graph graph = graph_of(
                "%x = input f32[3,16,5,9]  %w = param f32[16,24,3,3]  %y = conv_transpose(%x, %w) stride=[2,2]  "
                "%t = add(%y, 10000)  %z = " +
                std::string(sums) + "(%t) dims=" + dims);
            for (const Graph& asked : {graph, derive_gradient(graph, {{0}, {0}}).written}) {
                auto leaves = random_leaves(asked, 3);
                for (size_t i = 0; i < 2; ++i)
                    for (double& v : leaves[i]) v = std::round(8 * v) / 8;
                HostCase c = make(asked, leaves, false, true, Target{});
                (with_shares(c.plan) && dims == std::string("[1]") ? of_tiles : cases).push_back(std::move(c));
            }
        }
    check(cases, 3e-6);
    check(of_tiles, 3e-4);
}

// A tile that has whole rows takes their maximum and their sum in one go; a reduction across tiles is the maximum's
// alone.
TEST(CudaInfinite, OneReductionWhereATileHasTheRow) {
    const std::string conv = "%x = input f32[2,16,20,30]  %w = param f32[16,64,3,3]  %y = conv_transpose(%x, %w)  ";
    const auto shares = [&](const std::string& sums) {
        return with_shares(plan(rewrite(graph_of(conv + sums)).rewritten, Machine::h200()));
    };
    const auto channels = shares("%z = softmax(%y) dims=[1]");
    ASSERT_TRUE(channels);
    ASSERT_EQ(channels->passes.size(), 1u);
    std::vector<Op> ops;
    for (const TileStep& step : channels->passes[0].steps) ops.push_back(channels->graph[step.value].op);
    EXPECT_EQ(ops, (std::vector{Op::lattice, Op::logsumexp, Op::sub, Op::exp}));
    EXPECT_TRUE(shares("%h = cast(%y) dtype=f16  %z = softmax(%h) dims=[1]"));
    EXPECT_FALSE(shares("%z = softmax(%y) dims=[2,3]"));
    EXPECT_FALSE(shares("%z = log_softmax(%y) dims=[1]"));
    // The maximum is asked for, too.
    EXPECT_FALSE(shares("%z = softmax(%y) dims=[1]  %m = amax(%y) dims=[1] keepdim=1  return %z, %m"));
}

}  // namespace
}  // namespace transfuse::cuda
