// Tails behind a product: sums that its blocks left in slots, joined in a fixed order, and what follows from them.
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

// Enough blocks that threads share the slots of a statistic.
HostCase many_blocks(const std::string& body, bool portable) {
    const Graph graph = graph_of(body);
    auto leaves = random_leaves(graph, 5);
    Target target;
    target.multiprocessors = 24, target.portable_only = portable;
    return make(graph, std::move(leaves), false, true, target);
}

const std::string product =
    "%x = input f32[3,4,24,16]  %w = param f32[4,72,1,1]  %g = param f32[72]  %h = param f32[72]  "
    "%y = conv_transpose(%x, %w)  %t = tanh(%y)  ";

// One launch behind the product, whatever is stored of a variance and of the mean beside it: of all images, of each,
// with axes of one element and without, of channels too; a variance alone; what both a mean and a variance give.
TEST(CudaTails, FinishStatisticsInOneLaunch) {
    std::vector<HostCase> cases;
    for (const char* statistics :
         {"%m = mean(%t) dims=[0,2,3]  %v = var(%t) dims=[0,2,3] correction=0  %u = mul(%v, 1.01)  %e = add(%v, 1e-05) "
          " "
          "%r = rsqrt(%e)  %s = mul(%r, %g)  return %m, %u, %s",
          "%m = mean(%t) dims=[2,3]  %v = var(%t) dims=[2,3] correction=1  %e = add(%v, 1e-05)  %r = rsqrt(%e)  "
          "%s = mul(%r, %g)  %k = mul(%m, %s)  %b = sub(%h, %k)  return %s, %b",
          "%m = mean(%t) dims=[0,2,3] keepdim=1  %v = var(%t) dims=[0,2,3] correction=0 keepdim=1  %r = sqrt(%v)  "
          "%q = reshape(%r) shape=[72]  %s = mul(%q, %g)  %k = add(%m, %r)  return %v, %s, %k",
          "%m = mean(%t) dims=[1,2,3]  %v = var(%t) dims=[1,2,3] correction=0  %r = sqrt(%v)  %k = add(%m, %r)  return "
          "%r, %k",
          "%v = var(%t) dims=[0,1,2,3] correction=1  %r = sqrt(%v)  return %v, %r"})
        for (bool portable : {false, true}) {
            if (portable && cases.size() > 1) continue;
            cases.push_back(many_blocks(product + statistics, portable));
            const Assembly& assembly = cases.back().assembly;
            EXPECT_EQ(kernels_named(assembly, "transfuse_dense"), 1) << statistics;
            EXPECT_EQ(kernels_named(assembly, "tf_dense_tail0"), 1) << statistics;
            EXPECT_EQ(assembly.launches.size(), 3u) << statistics;  // and the weights
            EXPECT_EQ(assembly.launches.back().launch.note.find("stages"), std::string::npos) << statistics;
            EXPECT_EQ(kernels_with(assembly, "tf_shared"), 1) << statistics;  // threads share the slots
        }
    check(cases, 2e-6);
}

// As many at once as shared memory holds; more come one after another.
TEST(CudaTails, ManyStatisticsFitSharedMemory) {
    for (int count : {6, 7}) {
        static const char* const functions[] = {"tanh", "relu", "sigmoid", "abs", "exp", "gelu", "silu"};
        std::string body = product, sum;
        for (int k = 0; k < count; ++k) {
            const std::string n = std::to_string(k);
            body +=
                "%t" + n + " = " + functions[k] + "(%y)  %v" + n + " = var(%t" + n + ") dims=[0,2,3] correction=0  ";
            body += k == 0 ? "%s0 = sqrt(%v0)  " : "%s" + n + " = add(%s" + std::to_string(k - 1) + ", %v" + n + ")  ";
        }
        const HostCase c = many_blocks(body + "return %s" + std::to_string(count - 1), false);
        int64_t doubles = 0;
        for (const BoundLaunch& bound : c.assembly.launches) {
            const std::string& text = bound.launch.source->text;
            if (const size_t at = text.find("double tf_shared["); at != std::string::npos)
                doubles = std::max<int64_t>(doubles, std::stoll(text.substr(at + 17)));
        }
        EXPECT_EQ(doubles, count == 6 ? 6 * 4 * 256 : 4 * 256) << count;
        EXPECT_LE(doubles * 8, 48 * 1024);
    }
}

// A value that readers take by channel is no element of each image's statistics: it is made before.
TEST(CudaTails, StatisticsOfOtherElementsComeBefore) {
    check({many_blocks(product + "%v = var(%t) dims=[2,3] correction=0  %c = var(%t) dims=[0,2,3] correction=0  %k = "
                                 "div(%v, %c)  return %k, %v",
                       false)},
          3e-6);
}

// Sums in a few slots, a result by themselves, that a small product reads again and again: added up once, in a launch
// before.
TEST(CudaTails, WhatIsStoredAndReadIsNotMadeAgain) {
    const auto few_slots = [](const std::string& results) {
        const Graph graph = graph_of(
            "%x = input f32[3,16,24,20]  %g = input f32[3,8,24,20]  %k = param f32[512,8,1]  %z = correlate(%x, %g) "
            "offset=[1,1] taps=[3,3]  %p = permute(%z) order=[0,1,3,4,2]  %q = reshape(%p) shape=[144,8,1]  " +
            results);
        Target target;
        target.multiprocessors = 4;
        return make(graph, random_leaves(graph, 5), false, true, target);
    };
    const HostCase alone = few_slots("return %q");
    const HostCase read = few_slots("%r = conv(%q, %k)  return %q, %r");
    EXPECT_EQ(read.assembly.launches.size(), alone.assembly.launches.size() + 1);
    check({alone, read}, 2e-6);
}

// Far from zero, and with an image whose mean is no one else's: slots about pivots that lie apart.
TEST(CudaTails, VariancesFarFromZero) {
    const std::string far =
        "%x = input f32[3,4,24,16]  %w = param f32[4,72,1,1]  %m = input f32[3,1,1,1]  %y = conv_transpose(%x, %w)  %d "
        "= "
        "add(%y, %m)  %t = abs(%d)  %v = var(%t) dims=[0,2,3] correction=0  %s = sqrt(%v)  return %v, %s";
    const Graph graph = graph_of(far);
    std::vector<HostCase> cases;
    for (const auto& means : {std::vector<double>{800, 800, 801}, std::vector<double>{-9000, 10, 0}}) {
        auto leaves = random_leaves(graph, 9);
        for (auto& leaf : leaves)
            if (leaf.size() == 3) leaf = means;
        Target target;
        target.multiprocessors = 24;
        cases.push_back(make(graph, std::move(leaves), false, true, target));
    }
    check(cases, 2e-5);
}

}  // namespace
}  // namespace transfuse::cuda
