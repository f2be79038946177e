// Dense configurations: they print and parse, a kernel that does not compile gives way to the next best, and what
// tuning remembers survives only as long as it makes sense.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>

#include "cuda/assemble/build.h"
#include "cuda/dense/dense.h"
#include "cuda/dense/schedule/schedule.h"
#include "cuda_host/host.h"
#include "cuda_host/nvrtc.h"
#include "transfuse/error.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {
namespace {

Plan small_plan() {
    return plan(rewrite(parse(R"(graph g {
  %x = input f32[4,64,32,64]
  %w = param f32[64,64,3,3]
  %y = conv_transpose(%x, %w)
  return %y
})"))
                    .rewritten,
                Machine::h200());
}

size_t dense_pass(const Plan& plan) {
    for (size_t p = 0; p < plan.passes.size(); ++p)
        if (plan.passes[p].kind == PassKind::dense) return p;
    return plan.passes.size();
}

// Looks at the text only: nothing is compiled.
struct Pretended {
    std::set<std::string> refused;
    int asked = 0;
    std::string log;
    std::shared_ptr<const Binary> operator()(const Source& source, int) {
        static std::mutex mutex;
        const std::lock_guard lock(mutex);
        asked += source.entry == dense_entry;
        for (const std::string& config : refused)
            if (source.text.find(config) != std::string::npos) fail("forced failure");
        return std::make_shared<Binary>(Binary{"code", source.entry == dense_entry ? log : ""});
    }
};

TEST(CudaDenseConfig, TextsParseBack) {
    const Plan planned = small_plan();
    const Target target;
    const Assembly assembly = assemble(planned, {}, target, true);
    const auto texts = configs_of(planned, dense_pass(planned), assembly, {}, target, true, 20);
    ASSERT_GT(texts.size(), 8u);
    EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
    EXPECT_EQ(texts[0], assembly.configs.at(dense_pass(planned))) << "the heuristic's own comes first";
    for (const std::string& text : texts) {
        const auto config = config_named(text);
        ASSERT_TRUE(config.has_value()) << text;
        EXPECT_EQ(to_string(*config), text);
    }
    for (const char* other : {"", "none", "run 1x1x1x8",
                              "run 1x1x2x88 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 3x3 slabs"})
        EXPECT_FALSE(config_named(other).has_value()) << other;
}

// A tile of more chunks than twice the buffers: in turn where the product warps reduce, in 16 bits too; not where they
// do not.
TEST(CudaDenseConfig, ChunksInTurn) {
    auto in_turn = [](const std::string& chain) {
        const Plan planned =
            plan(rewrite(parse("graph g {\n  %x = input f16[16,32,16,32,32]\n  %w = param f16[32,64,3,3,3]\n  %b = "
                               "param f16[64]\n  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1] "
                               "output_padding=[1,1,1]\n  %l = " +
                               chain + "\n  %z = sigmoid(%l)\n  return %z\n}\n"))
                     .rewritten,
                 Machine::h200());
        return assemble(planned, {}, Target{}, true).configs.at(dense_pass(planned)).find("alternates") !=
               std::string::npos;
    };
    EXPECT_TRUE(in_turn("softmax(%y) dims=[1]"));
    EXPECT_FALSE(in_turn("tanh(%y)"));
}

// Channels last, in 16 bits: tiles that compute hardly a column in vain. Strips, whose rows have nothing between them;
// and whole rows that share their padding, for which the patch of a volume leaves room beside few stages.
TEST(CudaDenseConfig, ChannelsLastTilesComputeLittleInVain) {
    auto chosen = [](const std::string& statements) {
        const Plan planned =
            plan(rewrite(parse("graph g {\n" + statements + "\n  return %z\n}\n")).rewritten, Machine::h200());
        CompileOptions options;
        for (ValueId leaf : planned.graph.leaves())
            options.leaf_strides.push_back(planned.graph[leaf].op == Op::input
                                               ? channels_last(planned.graph[leaf].type.shape)
                                               : contiguous_strides(planned.graph[leaf].type.shape));
        for (ValueId output : planned.graph.outputs())
            options.output_strides.push_back(channels_last(planned.graph[output].type.shape));
        return assemble(planned, options, Target{}, true).configs.at(dense_pass(planned));
    };
    const std::string image =
        chosen("  %x = input f16[64,64,128,256]\n  %w = param f16[64,128,3,5]\n  %z = conv_transpose(%x, %w)");
    EXPECT_NE(image.find(" strip"), std::string::npos) << image;
    const std::string volume = chosen(
        "  %x = input f16[16,64,16,32,32]\n  %w = param f16[64,128,5,5,5]\n  %g = param f16[128]\n  %h = param "
        "f16[128]\n"
        "  %y = conv_transpose(%x, %w)\n  %n = batch_norm(%y, %g, %h) training=1\n  %z = mean(%n) dims=[2,3,4] "
        "keepdim=1");
    EXPECT_NE(volume.find("x36 runs"), std::string::npos) << volume;
    EXPECT_NE(volume.find(" shared_padding"), std::string::npos) << volume;
}

TEST(CudaDenseConfig, ConfigAskedForIsTaken) {
    const Plan planned = small_plan();
    const Target target;
    const size_t pass = dense_pass(planned);
    const Assembly assembly = assemble(planned, {}, target, true);
    const auto texts = configs_of(planned, pass, assembly, {}, target, true, 6);
    ASSERT_GT(texts.size(), 2u);
    EXPECT_EQ(assemble(planned, {}, target, true, {{pass, texts[2]}}).configs.at(pass), texts[2]);
    EXPECT_EQ(assemble(planned, {}, target, true, {{pass, "nonsense"}}).configs.at(pass), texts[0]);
}

// What an average moved into the weights is multiplied in strict fp32; what upsampling repeats is not, also where the
// axis it worked on has gone since.
TEST(CudaDenseConfig, Tf32OnlyWhereNothingWasAddedBefore) {
    auto strict = [](const std::string& statements) {
        Plan planned =
            plan(rewrite(parse("graph g {\n%w = param f32[32,64,4,3]\n" + statements + "\nreturn %y\n}")).rewritten,
                 Machine::h200());
        planned.machine.launch = 0;  // else a small problem is multiplied in strict fp32 in any case
        CompileOptions options;
        options.precision = Fp32Precision::tf32;
        for (const BoundLaunch& bound : assemble(planned, options, Target{}, true).launches)
            if (bound.launch.source->entry == dense_entry)
                return bound.launch.source->text.find("#define TF_ROUNDED_PRODUCT") == std::string::npos;
        ADD_FAILURE() << "no dense kernel\n" << print(planned);
        return false;
    };
    const std::string narrow = "%x = input f32[3,32,80,1]\n",
                      then = "%y = conv_transpose(%p, %w) stride=[2,2] padding=[0,1]";
    EXPECT_FALSE(strict(narrow + "%p = upsample(%x) scale=[1,1]\n" + then));
    EXPECT_FALSE(strict(narrow + "%p = upsample(%x) scale=[2,1]\n" + then));
    EXPECT_TRUE(strict("%x = input f32[3,32,80,20]\n%c = conv_transpose(%x, %w)\n%y = avg_pool(%c) kernel=[2,2]"));
}

TEST(CudaDenseConfig, FailureTakesTheNext) {
    const Plan planned = small_plan();
    const Target target;
    const size_t pass = dense_pass(planned);
    const auto texts = configs_of(planned, pass, assemble(planned, {}, target, true), {}, target, true, 6);
    ASSERT_GT(texts.size(), 2u);
    Pretended compiler;
    compiler.refused = {texts[0], texts[1]};
    testing::internal::CaptureStderr();
    const Assembly assembly = assemble_compiled(planned, {}, target, true, {}, std::ref(compiler));
    const std::string words = testing::internal::GetCapturedStderr();
    EXPECT_EQ(assembly.configs.at(pass), texts[2]);
    EXPECT_EQ(compiler.asked, 3);
    EXPECT_NE(words.find("forced failure"), std::string::npos) << words;
    EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), 2) << words;
}

TEST(CudaDenseConfig, SpillingKernelGivesWay) {
    const Plan planned = small_plan();
    const Target target;
    const size_t pass = dense_pass(planned);
    Pretended compiler;
    compiler.log =
        "ptxas info    : Compiling entry function 'transfuse_dense' for 'sm_90a'\n    0 bytes stack frame, 4096 bytes "
        "spill stores, 4096 bytes spill loads\n";
    testing::internal::CaptureStderr();
    const Assembly assembly = assemble_compiled(planned, {}, target, true, {}, std::ref(compiler));
    EXPECT_NE(testing::internal::GetCapturedStderr().find("spills"), std::string::npos);
    EXPECT_TRUE(assembly.configs.contains(pass)) << "a kernel that spills is better than none";
    EXPECT_GT(compiler.asked, 1);
}

TEST(CudaDenseConfig, NoWgmmaPortableFamilyFollows) {
    const Plan planned = small_plan();
    const Target target;
    Pretended compiler;
    compiler.refused = {"wgmma.mma_async"};
    testing::internal::CaptureStderr();
    const Assembly assembly = assemble_compiled(planned, {}, target, true, {}, std::ref(compiler));
    const std::string words = testing::internal::GetCapturedStderr();
    EXPECT_NE(words.find("the next is portable"), std::string::npos) << words;
    const size_t pass = dense_pass(planned);
    ASSERT_TRUE(assembly.configs.contains(pass));
    EXPECT_NE(assembly.notes.at(pass).find("mma.sync"), std::string::npos) << assembly.notes.at(pass);
}

TEST(CudaDenseConfig, NothingCompilesGeneralKernelRemains) {
    const Plan planned = small_plan();
    const Target target;
    Pretended compiler;
    compiler.refused = {"Dense tiles: run"};
    testing::internal::CaptureStderr();
    const Assembly assembly = assemble_compiled(planned, {}, target, true, {}, std::ref(compiler));
    EXPECT_NE(testing::internal::GetCapturedStderr().find("general kernel"), std::string::npos);
    EXPECT_FALSE(assembly.configs.contains(dense_pass(planned)));
    EXPECT_FALSE(assembly.launches.empty());
}

}  // namespace
}  // namespace transfuse::cuda
