// The store role: statistics beside stores, tensor operands, channels within a thread, and what tensor cores do not
// take whole; on the kernels of sm_90a and on the portable ones, executed on the CPU against the float64 reference.
#include "cuda/dense/schedule/schedule.h"
#include "cuda_host/cases.h"
#include "thorough.h"

namespace transfuse::cuda {
namespace {

const char* const passes[] = {
    // every reduction of an image's channels, beside the value; a mean and a variance of the same
    "%x = input f32[2,5,9,21]  %w = param f32[5,20,3,3]  %b = param f32[20]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2] "
    "padding=[1,1]  %t = tanh(%y)  %m = mean(%t) dims=[2,3]  %v = var(%t) dims=[2,3]  %a = amax(%t) dims=[2,3]  %i = "
    "amin(%y) dims=[2,3]  %l = logsumexp(%y) dims=[2,3]  return %t, %m, %v, %a, %i, %l",
    // values that grow along the image and differ by image: pivots are found again
    "%x = input f32[2,4,6,34]  %w = param f32[4,72,1,3]  %r = input f32[2,1,6,34]  %y = conv_transpose(%x, %w) "
    "padding=[0,1]  "
    "%s = mul(%r, 120)  %t = add(%y, %s)  %l = logsumexp(%t) dims=[2,3]  %v = var(%t) dims=[2,3] correction=0  return "
    "%t, %l, %v",
    // a mean far from zero, of the whole batch
    "%x = input f32[3,6,8,17]  %w = param f32[6,33,3,3]  %y = conv_transpose(%x, %w)  %t = add(%y, 1000)  %m = "
    "mean(%t) "
    "dims=[0,2,3]  %v = var(%t) dims=[0,2,3]  return %t, %m, %v",
    // windows that cut a period of phases: the product alone is for tensor cores
    "%x = input f32[2,12,9,12]  %w = param f32[12,24,3,3]  %b = param f32[24]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2]  %t = relu(%y)  %p = "
    "max_pool(%t) kernel=[3,3] stride=[3,3]  %q = tanh(%p)  %m = mean(%q) dims=[2,3]  return %q, %m",
    // operands of every shape, in vectors and not
    "%x = input f32[2,5,6,16]  %w = param f32[5,20,3,3]  %r = input f32[2,20,12,32]  %q = param f32[12,32]  %u = input "
    "f32[2,1,12,32]  %y = "
    "conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,1]  %a = add(%y, %r)  %b = mul(%a, %q)  %c = "
    "add(%b, %u)  return %c",
    "%x = input f32[1,5,5,19]  %w = param f32[5,70,3,3]  %r = input f32[1,70,7,21]  %q = param f32[21]  %u = input "
    "f32[1,70,1,21]  %y = "
    "conv_transpose(%x, %w)  %a = add(%y, %r)  %b = mul(%a, %q)  %c = add(%b, %u)  return %c",
    // a thread has all channels of its pixel
    "%x = input f32[1,5,3,5,31]  %w = param f32[5,16,3,3,3]  %b = param f32[16]  %y = conv_transpose(%x, %w, %b) "
    "stride=[2,2,2] padding=[1,1,1]  "
    "%l = logsumexp(%y) dims=[1] keepdim=1  %s = sigmoid(%l)  %m = mul(%l, %s)  return %m",
    // behind a pool, and of one channel
    "%x = input f32[2,6,8,12]  %w = param f32[6,24,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %p = "
    "max_pool(%y) kernel=[2,2] stride=[2,2]  %m = mean(%p) dims=[2,3]  %v = var(%p) dims=[2,3]  %c = sum(%p) dims=[1] "
    "keepdim=1  %k "
    "= var(%c) dims=[2,3]  %n = mean(%c) dims=[2,3]  return %p, %m, %v, %k, %n",
};

void run(const Target& target, double tolerance) {
    std::vector<HostCase> cases;
    uint64_t seed = 300;
    for (const char* pass : passes) {
        const Graph graph = graph_of(pass);
        cases.push_back(make(graph, random_leaves(graph, ++seed), false, true, target));
        EXPECT_TRUE(cases.back().assembly.configs.size() > 0) << print(graph);
    }
    check(cases, tolerance);
}

// The threads beyond the last channel of a chunk's last rows stay inside shared memory.
TEST(CudaStoreRole, MoreThreadsThanChannels) {
    const Graph graph = parse(
        "graph g {\n  %x = input f16[2,3,5,6,7]\n  %w = param f16[3,16,3,3,3]\n  %y = conv_transpose(%x, %w) "
        "stride=[2,2,2] padding=[1,1,1]\n  %e = exp(%y)\n  %p = max_pool(%e) kernel=[4,4,4] stride=[4,4,4]\n  "
        "return %p\n}\n");
    Target target;
    target.multiprocessors = 1;  // a block takes all tiles, and every buffer is used
    const std::vector<HostCase> cases{
        make(graph, random_leaves(graph, 7), false, true, target, Fp32Precision::strict, "run 1x2x6x8")};
    EXPECT_NE(cases[0].assembly.configs.begin()->second.find("run 1x2x6x8"), std::string::npos);
    check(cases, 2e-3);
}

// A residual comes a chunk ahead: over many tiles of one block, in vectors and element by element, beside statistics.
TEST(CudaStoreRole, TensorsAhead) {
    std::vector<HostCase> cases;
    uint64_t seed = 40;
    int ahead = 0;
    for (
        const char* body :
        {"%x = input f32[2,8,3,5,8]  %w = param f32[8,64,3,3,3]  %r = input f32[2,64,6,10,16]  %y = conv_transpose(%x, "
         "%w) stride=[2,2,2] padding=[1,1,1] output_padding=[1,1,1]  %s = add(%y, %r)  %t = mul(%s, %r)  return %t",
         "%x = input f32[2,8,7,9]  %w = param f32[8,70,3,3]  %r = input f32[2,70,13,17]  %y = conv_transpose(%x, %w) "
         "stride=[2,2] padding=[1,1]  %s = add(%y, %r)  %m = mean(%s) dims=[2,3]  return %s, %m",
         "%x = input f16[2,16,7,16]  %w = param f16[16,130,3,3]  %r = input f16[2,130,7,16]  %q = input "
         "f16[2,130,7,16]  %y = conv_transpose(%x, %w) padding=[1,1]  %s = add(%y, %r)  %t = mul(%s, %q)  return %t"}) {
        const Graph graph = graph_of(body);
        for (int multiprocessors : {1, 3, 132}) {
            ++seed;
            if (!tests::taken(seed - 41, (seed - 41) / 3, 3)) continue;  // every tensor with one of them
            Target target;
            target.multiprocessors = multiprocessors;
            cases.push_back(make(graph, random_leaves(graph, seed), false, true, target));
            ahead += kernels_with(cases.back().assembly, "auto ask");
        }
    }
    if (tests::thorough()) {
        EXPECT_GE(ahead, 5);
    }
    check(cases, 2e-3);
}

// The order in which the store role takes the warpgroups' chunks, either way: chunks and phases of both, rings that
// come round, a tensor that comes a chunk ahead, statistics, channels that the product warps reduced.
TEST(CudaStoreRole, ChunksInEitherOrder) {
    std::vector<HostCase> cases;
    uint64_t seed = 120;
    for (const char* body :
         {"%x = input f32[2,8,9,35]  %w = param f32[8,64,4,4]  %b = param f32[64]  %y = conv_transpose(%x, %w, %b) "
          "stride=[2,2] padding=[1,1] output_padding=[1,1]  %t = tanh(%y)  return %t",
          "%x = input f32[2,8,3,5,8]  %w = param f32[8,64,3,3,3]  %r = input f32[2,64,6,10,16]  %y = "
          "conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1] output_padding=[1,1,1]  %s = add(%y, %r)  return %s",
          "%x = input f32[2,8,7,40]  %w = param f32[8,130,3,3]  %y = conv_transpose(%x, %w)  %m = mean(%y) dims=[2,3]  "
          "return %y, %m",
          "%x = input f16[2,16,4,5,16]  %w = param f16[16,64,3,3,3]  %b = param f16[64]  %y = conv_transpose(%x, %w, "
          "%b) stride=[2,2,2] padding=[1,1,1] output_padding=[1,1,1]  %l = softmax(%y) dims=[1]  %s = sigmoid(%l)  "
          "return %s"}) {
        const Graph graph = graph_of(body);
        for (const bool alternates : {false, true}) {
            Target target;
            target.multiprocessors = 2;
            HostCase one = make(graph, random_leaves(graph, ++seed), false, true, target);
            ASSERT_EQ(one.assembly.configs.size(), 1u);
            auto [pass, text] = *one.assembly.configs.begin();
            auto config = config_named(text);
            ASSERT_TRUE(config.has_value()) << text;
            config->alternates = alternates;
            CompileOptions options;
            options.leaf_strides = one.leaf_strides, options.output_strides = one.output_strides,
            options.precision = Fp32Precision::strict;
            one.assembly = assemble(one.plan, options, target, true, {{pass, to_string(*config)}});
            EXPECT_EQ(one.assembly.configs.at(pass), to_string(*config));
            cases.push_back(std::move(one));
        }
    }
    check(cases, 2e-3);
}

// Where the store role reduces over channels the product warps add the bias: blocks of channels and what is left of the
// last one, both warpgroups' channels together, both orders of memory, whole vectors and parts of them.
TEST(CudaStoreRole, BiasBeforeChannelReductions) {
    std::vector<HostCase> cases;
    uint64_t seed = 80;
    int biased = 0;
    for (const char* body :
         {"%x = input f32[2,8,9,24]  %w = param f32[8,64,4,4]  %b = param f32[64]  %y = conv_transpose(%x, %w, %b) "
          "stride=[2,2] padding=[1,1]  %l = softmax(%y) dims=[1]  %s = sigmoid(%l)  return %s",
          "%x = input f32[2,8,5,17]  %w = param f32[8,120,4,4]  %b = param f32[120]  %y = conv_transpose(%x, %w, %b) "
          "stride=[2,2] padding=[1,1] output_padding=[1,1]  %l = softmax(%y) dims=[1]  return %l",
          "%x = input f32[2,8,5,16]  %w = param f32[8,40,3,3]  %b = param f32[40]  %y = conv_transpose(%x, %w, %b)  %m "
          "= mean(%y) dims=[1] keepdim=1  %d = sub(%y, %m)  return %d"}) {
        const Graph graph = graph_of(body);
        for (const bool last : {false, true}) {
            Target target;
            target.multiprocessors = last ? 132 : 2;
            cases.push_back(make(graph, random_leaves(graph, ++seed), last, true, target));
            biased += kernels_with(cases.back().assembly, "BIASED = true");
        }
    }
    EXPECT_GE(biased, 4);
    check(cases, 2e-5);
}

// Warps that go along rows which begin anywhere: words and 16 bits, runs of one row and, with outputs that no tap
// reaches, of several, channels that are no multiple of a warp's, ends of rows, tensors that begin anywhere themselves.
// Runs of several rows with taps everywhere, and chains that reduce over channels, keep to columns.
TEST(CudaStoreRole, RowsThatBeginAnywhere) {
    std::vector<HostCase> cases;
    uint64_t seed = 240;
    const std::string k4 = " stride=[2,2] padding=[1,1] output_padding=[1,1]", soft = "  %l = softmax(%y) dims=[1]",
                      bend = "  %l = tanh(%y)";
    auto add = [&](const std::string& x, const std::string& w, const std::string& rest, const std::string& chain,
                   const std::string& type, const std::string& marks) {
        const std::string body = "%x = input " + type + "[" + x + "]\n  %w = param " + type + "[" + w +
                                 "]\n  %y = conv_transpose(%x, %w)" + rest + "\n" + chain + "\n  return " +
                                 (chain.empty() ? "%y" : "%l");
        const Graph graph = parse("graph g {\n  " + body + "\n}\n");
        Target target;
        target.multiprocessors = 2;
        for (const bool aligned : {true, false}) {
            ++seed;
            if (!tests::taken(seed - 241, (seed - 241) / 2, 2)) continue;
            cases.push_back(make(graph, random_leaves(graph, seed), false, aligned, target, Fp32Precision::tf32));
            bool found = false;
            for (const BoundLaunch& bound : cases.back().assembly.launches)
                found = found || bound.launch.source->text.find(marks) != std::string::npos;
            EXPECT_TRUE(found) << body;
        }
    };
    const std::string along = "* LANES_W < count)", lines = "bool inside[VECTOR]";
    add("2,16,5,132", "16,64,4,4", k4, bend, "f32", along);
    add("9,16,141", "16,72,3", " padding=[1]", bend, "f32", along);
    add("9,16,133", "16,64,4", " stride=[2] padding=[1] output_padding=[1]", bend, "f16", along);
    add("2,32,5,128", "32,48,3,5", " stride=[2,2] padding=[1,2] dilation=[2,1]", "", "f32", along);
    add("2,32,3,5,31", "32,64,3,3,3", " stride=[2,2,2] padding=[1,1,1] dilation=[2,2,2]", "", "f32", lines);
    add("2,16,9,40", "16,128,4,4", k4, soft, "f32", "exchange_turn ^= 1");
    check(cases, 6e-3);
}

// Where a chain follows and rows are whole vectors there is no text for single elements; where memory may begin
// anywhere or nothing follows the product, there is.
TEST(CudaStoreRole, WholeRowsHaveNoSingleElements) {
    std::vector<HostCase> cases;
    uint64_t seed = 210;
    auto singles = [&](const std::string& width, const std::string& chain, bool aligned) {
        const Graph graph = parse(
            "graph g {\n  %x = input f32[2,8,5," + width +
            "]\n  %w = param f32[8,64,4,4]\n  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n  %t = " + chain +
            "\n  return %t\n}\n");
        cases.push_back(make(graph, random_leaves(graph, ++seed), false, aligned, Target{}));
        int found = 0;
        found += kernels_with(cases.back().assembly, "if (e == 0 || VALID(e))");
        return found;
    };
    EXPECT_EQ(singles("16", "tanh(%y)", true), 0);
    EXPECT_EQ(singles("16", "tanh(%y)", false), 1);
    EXPECT_EQ(singles("17", "tanh(%y)", true), 0);  // rows of 34: pairs
    EXPECT_EQ(singles("16", "identity(%y)", true), 1);
    check(cases, 2e-5);
}

// Reductions over channels of rounded products: the product warps meet and hand over what comes of them. Whole blocks
// of channels and parts of one, several reductions, steps before and behind, whole vectors and single outputs, values
// far from zero and far apart; statistics beside it.
TEST(CudaStoreRole, ReductionsBeforeTheHandover) {
    std::vector<HostCase> cases;
    uint64_t seed = 180;
    int handed = 0;
    for (const char* body :
         {"%x = input f16[2,16,3,5,16]  %w = param f16[16,64,3,3,3]  %b = param f16[64]  %y = conv_transpose(%x, %w, "
          "%b) stride=[2,2,2] padding=[1,1,1] output_padding=[1,1,1]  %l = softmax(%y) dims=[1]  %s = sigmoid(%l)  "
          "return %s",
          "%x = input bf16[2,16,6,17]  %w = param bf16[16,60,4,4]  %b = param bf16[60]  %p = param bf16[60,1,1]  %y = "
          "conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]  %l = softmax(%y) dims=[1]  %a = "
          "add(%l, %p)  %m = mul(%a, 2)  %s = sigmoid(%m)  return %s",
          "%x = input f16[3,16,7,40]  %w = param f16[16,50,3,3]  %p = param f16[50,1,1]  %y = conv_transpose(%x, %w) "
          "padding=[1,1]  %g = mul(%y, 40)  %q = add(%g, %p)  %l = softmax(%q) dims=[1]  return %l",
          "%x = input f16[2,16,5,24]  %w = param f16[16,40,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] "
          "padding=[1,1] output_padding=[1,1]  %g = add(%y, 500)  %l = softmax(%g) dims=[1]  %t = mul(%l, 3)  return "
          "%t",
          "%x = input f16[2,16,5,24]  %w = param f16[16,48,3,3]  %y = conv_transpose(%x, %w) stride=[2,2] "
          "padding=[1,1] output_padding=[1,1]  %l = logsumexp(%y) dims=[1] keepdim=1  %d = sub(%y, %l)  return %d",
          "%x = input f16[2,16,8,12]  %w = param f16[16,64,3,3]  %g = param f16[64,1,1]  %y = conv_transpose(%x, %w) "
          "padding=[1,1]  %m = mean(%y) dims=[1] keepdim=1  %v = var(%y) dims=[1] keepdim=1 correction=0  %d = sub(%y, "
          "%m)  %e = add(%v, 1e-3)  %r = rsqrt(%e)  %n = mul(%d, %r)  %z = mul(%n, %g)  %t = tanh(%z)  return %t",
          "%x = input f16[2,16,9,13]  %w = param f16[16,44,3,3]  %b = param f16[44]  %y = conv_transpose(%x, %w, %b)  "
          "%l = softmax(%y) dims=[1]  %m = mean(%l) dims=[2,3]  return %l, %m"}) {
        const Graph graph = graph_of(body);
        Target target;
        target.multiprocessors = 2;  // every buffer is used several times
        cases.push_back(make(graph, random_leaves(graph, ++seed), false, true, target));
        handed += kernels_with(cases.back().assembly, "REDUCED = true");
    }
    EXPECT_EQ(handed, 7);
    check(cases, 6e-3);
}

// One channel to four, of 16 phases and of 64: all of them in the rows of one product.
TEST(CudaStoreRole, FewChannelsOfManyPhases) {
    std::vector<HostCase> cases;
    uint64_t seed = 90;
    for (const char* body : {"%x = input f32[2,12,6,9]  %w = param f32[12,1,9,9]  %b = param f32[1]  %y = "
                             "conv_transpose(%x, %w, %b) stride=[4,4] padding=[4,4] output_padding=[3,3]  return %y",
                             "%x = input f32[2,8,3,3,5]  %w = param f32[8,1,6,6,6]  %y = conv_transpose(%x, %w) "
                             "stride=[4,4,4] padding=[1,1,1]  %m = mean(%y) dims=[2,3,4]  return %y, %m",
                             "%x = input f32[2,8,5,7]  %w = param f32[8,3,7,7]  %y = conv_transpose(%x, %w) "
                             "stride=[4,4] padding=[2,2]  %s = softmax(%y) dims=[1]  return %s"}) {
        const Graph graph = graph_of(body);
        for (const bool last : {false, true})
            cases.push_back(make(graph, random_leaves(graph, ++seed), last, true, Target{}));
    }
    check(cases, 2e-5);
}

TEST(CudaStoreRole, Hopper) { run(Target{}, 2e-5); }
TEST(CudaStoreRole, Portable) {
    Target target;
    target.portable_only = true;
    run(target, 2e-5);
}

}  // namespace
}  // namespace transfuse::cuda
