// The tensor-core kernels compile for sm_90a without a device: phases, pools, channel reductions, grid reductions, prologues,
// groups, few channels, both layouts, every precision; none serialises its products and none spills more than a trifle.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "cuda/dense/dense.h"
#include "cuda/runtime/nvrtc.h"
#include "cuda_host/nvrtc.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {
namespace {

struct Case {
    const char* name;
    const char* text;
    Fp32Precision precision = Fp32Precision::tf32;
    bool channels_last = false;
};

const Case cases[] = {
    {"strided chain", R"(graph g {
  %x = input f32[8,64,32,32]
  %w = param f32[64,64,3,3]
  %p = param f32[64,1,1]
  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %a = add(%y, %p)
  %z = tanh(%a)
  return %z
})"},
    {"wide channels", R"(graph g {
  %x = input f32[8,64,40,88]
  %w = param f32[64,128,3,5]
  %y = conv_transpose(%x, %w)
  return %y
})"},
    {"normalised before the product", R"(graph g {
  %x = input f32[8,128,128,128]
  %s = param f32[1,128,1,1]
  %t = param f32[1,128,1,1]
  %w = param f32[64,128,3,3]
  %a = mul(%x, %s)
  %b = add(%a, %t)
  %c = relu(%b)
  %y = conv(%c, %w) padding=[1,1]
  return %y
})"},
    {"channel softmax", R"(graph g {
  %x = input f32[4,64,33,31]
  %w = param f32[64,128,4,4]
  %b = param f32[128]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]
  %z = softmax(%y) dims=[1]
  return %z
})"},
    {"few channels, pool, mean", R"(graph g {
  %x = input f32[8,3,16,32,32]
  %w = param f32[3,16,3,3,3]
  %b = param f32[16]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]
  %t = tanh(%y)
  %m = max_pool(%t) kernel=[2,2,2] stride=[2,2,2]
  %s = mean(%m) dims=[2,3,4] keepdim=1
  return %s
})"},
    {"many taps, statistics", R"(graph g {
  %x = input f32[4,64,16,32,32]
  %w = param f32[64,128,5,5,5]
  %b = param f32[128]
  %y = conv_transpose(%x, %w, %b)
  %t = tanh(%y)
  %s = sum(%t) dims=[0,2,3,4]
  %l = logsumexp(%t) dims=[2,3,4]
  return %s, %l
})"},
    {"statistics of groups, by image and in all", R"(graph g {
  %x = input f32[3,32,33,21]
  %m = input f32[3,96,1,1]
  %w = param f32[32,48,3,3]
  %b = param f32[96]
  %y = conv_transpose(%x, %w, %b) stride=[2,1] padding=[1,1] groups=2
  %d = sub(%y, %m)
  %q = square(%d)
  %s = mean(%q) dims=[2,3]
  %l = amax(%d) dims=[0,2,3]
  return %s, %l
})", Fp32Precision::strict},
    {"softmax of odd rows", R"(graph g {
  %x = input f32[3,32,27,39]
  %w = param f32[32,100,4,4]
  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %z = softmax(%y) dims=[1]
  return %z
})"},
    {"grouped and dilated, strict", R"(graph g {
  %x = input f32[4,32,32,64]
  %w = param f32[32,16,3,5]
  %y = conv_transpose(%x, %w) stride=[2,3] padding=[1,2] dilation=[2,1] groups=4
  return %y
})", Fp32Precision::strict},
    {"convolution, prologue, channels_last", R"(graph g {
  %x = input f32[4,32,37,45]
  %w = param f32[48,32,3,3]
  %r = relu(%x)
  %y = conv(%r, %w) stride=[2,2] padding=[1,1]
  return %y
})", Fp32Precision::tf32, true},
    {"half, channels_last", R"(graph g {
  %x = input f16[4,64,40,40]
  %w = param f16[64,64,3,3]
  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]
  %z = relu(%y)
  return %z
})", Fp32Precision::tf32, true},
    {"bfloat, odd rows", R"(graph g {
  %x = input bf16[4,64,1001]
  %w = param bf16[64,32,16]
  %y = conv_transpose(%x, %w) stride=[8] padding=[4]
  %z = tanh(%y)
  return %z
})"},
};

Sizes last_strides(const Sizes& shape) {
    Sizes strides(shape.size());
    int64_t run = shape[1];
    strides[1] = 1;
    for (size_t k = shape.size(); k-- > 2;) strides[k] = run, run *= shape[k];
    strides[0] = run;
    return strides;
}

// The dense passes of a case as programs.
std::vector<FamilyProgram> programs(const Case& c) {
    Plan planned = plan(rewrite(parse(c.text)).rewritten, Machine::h200());
    planned.machine.launch = 0;   // else small problems are multiplied in strict fp32 though TF32 is asked for
    Strides strides;
    for (const Node& node : planned.graph.nodes())
        strides.push_back(c.channels_last && node.type.rank() > 3 && node.op != Op::param ? last_strides(node.type.shape) : contiguous_strides(node.type.shape));
    std::vector<FamilyProgram> list;
    for (const Pass& pass : planned.passes) {
        if (pass.kind != PassKind::dense) continue;
        const Surroundings around{.plan = planned, .pass = pass, .strides = strides, .precision = c.precision, .target = Target{}, .aligned = true, .config = {}};
        std::string why_not;
        auto offer = offer_dense(around, &why_not);
        EXPECT_TRUE(offer.has_value()) << c.name << ": " << why_not;
        if (offer) list.push_back(offer->write());
    }
    EXPECT_FALSE(list.empty()) << c.name << " has no dense pass:\n" << print(planned);
    return list;
}

TEST(CudaDenseCompile, EveryShapeOfPass) {
    std::string reason;
    if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
    struct Outcome { std::string name, log; };
    std::vector<std::pair<std::string, std::shared_ptr<const Source>>> sources;
    for (const Case& c : cases)
        for (const FamilyProgram& program : programs(c))
            for (const Launch& launch : program.program.launches) sources.push_back({c.name, launch.source});
    std::vector<Outcome> outcomes(sources.size());
    std::vector<std::thread> threads;
    for (size_t part = 0; part < 4; ++part)
        threads.emplace_back([&, part] {
            for (size_t k = part; k < sources.size(); k += 4) {
                outcomes[k].name = sources[k].first + ", " + sources[k].second->entry;
                try {
                    outcomes[k].log = nvrtc_log(*sources[k].second, 90);
                } catch (const Error& error) {
                    outcomes[k].log = std::string("ERROR ") + error.what();
                }
            }
        });
    for (std::thread& t : threads) t.join();
    for (const Outcome& o : outcomes) {
        EXPECT_EQ(o.log.find("ERROR"), std::string::npos) << o.name << ": " << o.log.substr(0, 2000);
        EXPECT_EQ(o.log.find("serialized"), std::string::npos) << o.name << ": products are serialised";
        if (const size_t at = o.log.find(" bytes spill stores"); at != std::string::npos) {
            EXPECT_LE(std::stoi(o.log.substr(o.log.rfind(' ', at - 1) + 1)), 256) << o.name;
        }
    }
}

// All channels of a pixel lie in one tile only where there is one group of at most 128: else the general kernel takes it.
TEST(CudaDenseCompile, RefusesChannelReductionsATileCannotHold) {
    const Plan planned = plan(rewrite(parse("graph g {\n  %x = input f32[2,32,20,20]\n  %w = param f32[32,16,3,3]\n"
                                            "  %y = conv_transpose(%x, %w) padding=[1,1] groups=2\n  %z = softmax(%y) dims=[1]\n  return %z\n}\n")).rewritten, Machine::h200());
    Strides strides;
    for (const Node& node : planned.graph.nodes()) strides.push_back(contiguous_strides(node.type.shape));
    for (const Pass& pass : planned.passes) {
        if (pass.kind != PassKind::dense) continue;
        bool over_channels = false;
        for (const TileStep& step : pass.steps) over_channels = over_channels || (step.scope == Scope::tile && is_reduction(planned.graph[step.value].op));
        std::string why_not;
        const Surroundings around{.plan = planned, .pass = pass, .strides = strides, .precision = Fp32Precision::tf32, .target = Target{}, .aligned = true, .config = {}};
        if (over_channels) {
            EXPECT_FALSE(offer_dense(around, &why_not).has_value());
            EXPECT_FALSE(why_not.empty());
        }
    }
}

// The same text serves long signals of every length: only arguments change. Short ones get tiles, and so a text, of their own.
TEST(CudaDenseCompile, OneTextForManyLengths) {
    auto text = [](int length) {
        const std::string graph = "graph g {\n  %x = input f32[1,64," + std::to_string(length) + "]\n  %w = param f32[64,32,16]\n  %y = conv_transpose(%x, %w) stride=[8] padding=[4]\n  return %y\n}\n";
        Case c{"lengths", graph.c_str()};
        return programs(c).at(0).program.launches.at(0).source->text;
    };
    EXPECT_EQ(text(1 << 16), text(1 << 17));   // where there are tiles enough; few are cut to fill the machine
}

}  // namespace
}  // namespace transfuse::cuda
