// A program that meets many sizes compiles few kernels: known ones serve new sizes where that costs little, give right
// results there, and another process finds what was compiled.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "cuda/assemble/build.h"
#include "cuda/dense/dense.h"
#include "cuda/dense/schedule/specialization.h"
#include "cuda_host/cases.h"
#include "rows.h"
#include "thorough.h"
#include "transfuse/error.h"

namespace transfuse::cuda {
namespace {

namespace fs = std::filesystem;

std::string text(int64_t n) { return std::to_string(n); }

// A cache folder of its own for each test: decisions are kept beside kernels.
class CudaKnown : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("transfuse-known-" + text(getpid()) + "-" + text(serial_++));
        setenv("TRANSFUSE_CACHE_DIR", folder_.c_str(), 1);
    }
    void TearDown() override {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
    fs::path folder_;
    static inline int serial_ = 0;
};

// Nothing is compiled; what would be is counted.
struct Counted {
    std::map<std::string, std::set<std::string>> texts;  // by entry
    // One size of a program.
    void meet(const Graph& graph, Fp32Precision precision, KnownKernels* known) {
        const Plan planned = plan(rewrite(graph).rewritten, Machine::h200());
        CompileOptions options;
        options.precision = precision;
        const Assembly assembly = assemble(planned, options, Target{}, true, {}, known);
        for (const BoundLaunch& bound : assembly.launches)
            texts[bound.launch.source->entry].insert(bound.launch.source->text);
        if (known)
            for (const auto& [pass, taken] : assembly.taken) known->remember(taken);
    }
    size_t count() const {
        size_t all = 0;
        for (const auto& [entry, set] : texts) all += set.size();
        return all;
    }
};

// A layer of a vocoder, on `scale` samples for each of its input's.
struct Layer {
    int in, out, kernel, stride, scale;
    const char* dtype;
    Graph at(int64_t length) const {
        const std::string d(dtype);
        return parse("graph g {\n  %x = input " + d + "[1," + text(in) + "," + text(length * scale) +
                     "]\n  %w = param " + d + "[" + text(in) + "," + text(out) + "," + text(kernel) +
                     "]\n  %b = param " + d + "[" + text(out) +
                     "]\n  %a = leaky_relu(%x) negative_slope=0.1\n  %y = conv_transpose(%a, %w, %b) stride=[" +
                     text(stride) + "] padding=[" + text((kernel - stride) / 2) + "]\n  return %y\n}\n");
    }
};

TEST_F(CudaKnown, HundredLengthsOfAVocoderCompileAtMostTwoKernelsALayer) {
    for (const char* dtype : {"f32", "f16"})
        for (const Layer& layer : {Layer{512, 256, 16, 8, 1, dtype}, Layer{256, 128, 16, 8, 8, dtype},
                                   Layer{128, 64, 4, 2, 64, dtype}, Layer{64, 32, 4, 2, 128, dtype}})
            for (const Fp32Precision precision : {Fp32Precision::strict, Fp32Precision::tf32}) {
                Random random(11);
                KnownKernels known;
                Counted counted;
                for (int i = 0; i < 100; ++i) counted.meet(layer.at(random.between(50, 1000)), precision, &known);
                ASSERT_FALSE(counted.texts.empty());
                for (const auto& [entry, set] : counted.texts)
                    EXPECT_LE(set.size(), 2u) << entry << " of " << layer.in << " to " << layer.out << " in " << dtype;
            }
}

// Channels last is another structure: its first size gets the kernel that a program gets which has seen nothing else. A
// product that hides behind memory stays in full fp32 there as well.
TEST_F(CudaKnown, LayoutsDoNotServeOneAnother) {
    const Graph graph = parse(
        "graph g {\n  %x = input f32[4,64,16,32,32]\n  %w = param f32[64,32,2,2,2]\n  %y = conv_transpose(%x, %w) "
        "stride=[2,2,2]\n  %r = "
        "relu(%y)\n  %v = param f32[4,32,1,1,1]\n  %c = conv(%r, %v)\n  %z = softmax(%c) dims=[1]\n  return %z\n}\n");
    const Plan planned = plan(rewrite(graph).rewritten, Machine::h200());
    const auto texts = [&](bool last, KnownKernels* known) {
        CompileOptions options;
        options.precision = Fp32Precision::tf32;
        for (ValueId leaf : planned.graph.leaves()) {
            const Node& node = planned.graph[leaf];
            options.leaf_strides.push_back(last && node.op == Op::input ? channels_last(node.type.shape)
                                                                        : contiguous_strides(node.type.shape));
        }
        const Sizes& result = planned.graph[planned.graph.outputs()[0]].type.shape;
        options.output_strides = {last ? channels_last(result) : contiguous_strides(result)};
        const Assembly assembly = assemble(planned, options, Target{}, true, {}, known);
        std::vector<std::string> list;
        for (const BoundLaunch& bound : assembly.launches) list.push_back(bound.launch.source->text);
        if (known)
            for (const auto& [pass, taken] : assembly.taken) known->remember(taken);
        return list;
    };
    KnownKernels known;
    const auto contiguous = texts(false, &known), last = texts(true, &known);
    EXPECT_EQ(last, texts(true, nullptr));
    EXPECT_NE(contiguous, last);
    EXPECT_NE(last.back().find("constexpr int TERMS = 2"), std::string::npos);
}

// Behind a value that is read lie numbers that no text holds: one over the number of pixels.
TEST_F(CudaKnown, TextsThatAreFoundAreThoseThatWouldBeWritten) {
    KnownKernels finding, writing(false);
    Random random(3);
    for (int i = 0; i < 12; ++i) {
        const std::string size = text(random.between(1, 3)) + ",16," + text(random.between(4, 12)) + "," +
                                 text(random.between(8, 24)) + "," + text(random.between(8, 24));
        const Graph graph = parse(
            with("graph g {  %x = input f32[" + size +
                     "]  %w = param f32[16,32,3,3,3]  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]  %s = "
                     "param f32[32,1,1,1]  %t = mul(%y, %s)  %m = mean(%t) dims=[2,3,4] keepdim=1  %d = sub(%t, %m)  "
                     "%z = leaky_relu(%d) negative_slope=0.1  return %z  }",
                 "  ", "\n  "));
        Counted found, written;
        found.meet(graph, Fp32Precision::tf32, &finding);
        written.meet(graph, Fp32Precision::tf32, &writing);
        EXPECT_EQ(found.texts, written.texts) << size;
    }
}

// Widths that are no multiple of 16 bytes, and areas that differ sixtyfold, ask for a third at times.
TEST_F(CudaKnown, ImagesOfManySizesCompileAFewKernels) {
    for (const char* body : {"[64,32,4,4]  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]  %z = relu(%y)",
                             "[64,48,3,3]  %y = conv_transpose(%x, %w)  %z = sigmoid(%y)"})
        for (int multiple : {1, 16}) {
            Random random(5);
            KnownKernels known;
            Counted counted;
            for (int i = 0; i < 50; ++i) {
                const std::string size = text(multiple * random.between(32 / multiple, 256 / multiple)) + "," +
                                         text(multiple * random.between(32 / multiple, 256 / multiple));
                counted.meet(
                    parse(with("graph g {  %x = input f32[1,64," + size + "]  %w = param f32" + body + "  return %z  }",
                               "  ", "\n  ")),
                    Fp32Precision::tf32, &known);
            }
            for (const auto& [entry, set] : counted.texts) EXPECT_LE(set.size(), 3u) << entry << " of " << body;
        }
}

TEST_F(CudaKnown, TheFirstSizeHasItsOwnKernels) {
    const Layer layer{128, 64, 4, 2, 1, "f32"};
    for (int64_t length : {777, 5000}) {
        KnownKernels known;
        Counted first, alone;
        first.meet(layer.at(length), Fp32Precision::tf32, &known);
        alone.meet(layer.at(length), Fp32Precision::tf32, nullptr);
        EXPECT_EQ(first.texts, alone.texts) << length;
    }
}

// What one process compiled, another one finds, in whatever order it meets the sizes.
TEST_F(CudaKnown, AnotherOrderCompilesNothingNew) {
    const Layer layer{128, 64, 4, 2, 16, "f32"};
    std::vector<int64_t> lengths;
    Random random(3);
    for (int i = 0; i < 20; ++i) lengths.push_back(random.between(50, 1000));
    Counted counted;
    KnownKernels one, other;
    for (int64_t length : lengths) counted.meet(layer.at(length), Fp32Precision::strict, &one);
    const size_t before = counted.count();
    std::reverse(lengths.begin(), lengths.end());
    for (int64_t length : lengths) counted.meet(layer.at(length), Fp32Precision::strict, &other);
    EXPECT_EQ(counted.count(), before);
}

// A second kernel that does not compile is not missed: the first one serves.
TEST_F(CudaKnown, KernelsThatFailGiveWayToKnownOnes) {
    const Layer layer{128, 64, 4, 2, 16, "f32"};
    KnownKernels known;
    std::set<std::string> asked;
    bool failing = false;
    const Compiler compile = [&](const Source& source, int) {
        if (source.entry == dense_entry && failing && !asked.contains(source.text)) fail("forced failure");
        if (source.entry == dense_entry) asked.insert(source.text);
        return std::make_shared<Binary>(Binary{"code", ""});
    };
    for (int64_t length : {60, 90, 400, 1000, 800}) {
        const Plan planned = plan(rewrite(layer.at(length)).rewritten, Machine::h200());
        assemble_compiled(planned, {}, Target{}, true, {}, compile, &known);
        failing = true;
    }
    EXPECT_EQ(asked.size(), 1u);
}

// A size whose texts were all met compiles nothing, and shares the sources of the sizes before.
TEST_F(CudaKnown, TextsThatWereMetAreSharedAndNotCompiledAgain) {
    KnownKernels known;
    std::atomic<int> compilations = 0;
    const Compiler compile = [&](const Source&, int) {
        ++compilations;
        return std::make_shared<Binary>(Binary{"code", ""});
    };
    std::set<const Source*> sources;
    const auto meet = [&](int64_t width, int arch) {
        const Graph graph = parse("graph g {\n %x = input f32[2,8,24," + text(width) +
                                  "]\n %w = param f32[8,16,3,3]\n %b = param f32[16]\n %y = conv_transpose(%x, %w, %b) "
                                  "stride=[2,2]\n %m = mean(%y) dims=[2,3] keepdim=1\n return %m\n}");
        Target target;
        target.arch = arch;
        const Plan planned = plan(rewrite(graph).rewritten, Machine::h200());
        const Assembly assembly = assemble_compiled(planned, {}, target, true, {}, compile, &known);
        for (const BoundLaunch& bound : assembly.launches) sources.insert(bound.launch.source.get());
    };
    meet(24, 90), meet(31, 90);  // the best for the first size, then texts for any
    const int compiled = compilations;
    const size_t met = sources.size();
    EXPECT_GT(compiled, 0);
    for (int64_t width : {33, 37, 45, 61}) meet(width, 90);
    EXPECT_EQ(compilations, compiled);
    EXPECT_EQ(sources.size(), met);
    meet(33, 80);
    EXPECT_GT(compilations, compiled) << "another architecture needs its own code";
}

// Sizes that would be given other kernels, run with the known ones on the CPU.
TEST_F(CudaKnown, KnownKernelsAreRightForOtherSizes) {
    Target target;
    target.multiprocessors = 2;
    int served = 0;
    uint64_t seed = 300;
    for (const auto& [dtype, tolerance] : {std::pair{"f32", 5e-6}, {"f16", 6e-3}}) {
        std::vector<HostCase> cases;
        for (const char* body :
             {"[2,16,$]  %w = param f32[16,12,4]  %b = param f32[12]  %a = leaky_relu(%x) negative_slope=0.2  %z = "
              "conv_transpose(%a, %w, %b) stride=[2] padding=[1]",
              "[1,8,5,$]  %w = param f32[8,20,3,3]  %y = conv_transpose(%x, %w) padding=[1,1]  %z = tanh(%y)",
              "[16,40,$]  %w = param f32[40,40,3]  %a = relu(%x)  %y = conv(%a, %w) padding=[1]  %z = add(%y, %x)"}) {
            KnownKernels known;
            std::set<std::string> texts;
            for (const char* width : {"32", "40", "27", "90"}) {
                const std::string line =
                    with("graph g {  %x = input f32" + with(body, "$", width) + "  return %z  }", "f32", dtype);
                const Graph graph = parse(with(line, "  ", "\n  "));
                HostCase c = make(graph, random_leaves(graph, ++seed), false, true, target);
                CompileOptions options;
                options.leaf_strides = c.leaf_strides, options.output_strides = c.output_strides;
                const Assembly own = c.assembly;
                c.assembly = assemble(c.plan, options, target, true, {}, &known);
                for (const auto& [pass, taken] : c.assembly.taken) known.remember(taken);
                const auto dense = std::ranges::find_if(c.assembly.launches, [](const BoundLaunch& bound) {
                    return bound.launch.source->entry == dense_entry;
                });
                ASSERT_TRUE(dense != c.assembly.launches.end()) << line;
                texts.insert(dense->launch.source->text);
                for (size_t i = 0; i < own.launches.size() && i < c.assembly.launches.size(); ++i)
                    served += own.launches[i].launch.source->text != c.assembly.launches[i].launch.source->text;
                cases.push_back(std::move(c));
            }
            EXPECT_LE(texts.size(), 3u) << body;
        }
        check(cases, tolerance);
    }
    EXPECT_GE(served, 6);
}

// Everything of an assembly that a GPU would see.
std::string shown(const Assembly& assembly) {
    std::ostringstream all;
    all << assembly.workspace_bytes << ' ' << assembly.kept_bytes << '\n';
    for (const BoundLaunch& bound : assembly.launches) {
        const Launch& launch = bound.launch;
        all << launch.source->entry << ' ' << launch.source->text << launch.note << ' ' << launch.grid[0] << ' '
            << launch.grid[1] << ' ' << launch.block[0] << ' ' << launch.shared_bytes << ' ' << launch.early << '\n';
        for (const Argument& argument : launch.arguments)
            all << static_cast<int>(argument.kind) << ' ' << argument.value << ' ' << argument.offset << ' '
                << std::string(reinterpret_cast<const char*>(argument.data.data()), argument.data.size()) << '\n';
        for (const Address& address : bound.addresses)
            all << static_cast<int>(address.kind) << ' ' << address.position << ' ' << address.offset << '\n';
    }
    return all.str();
}

// A text is found by what it knows of sizes. One that knew more would be another kernel's here.
class CudaTexts : public CudaKnown {
protected:
    // The next size of a program, with texts found and with all of them written.
    void meet(const Graph& graph, Fp32Precision precision, const std::string& what,
              std::vector<Sizes> output_strides = {}) {
        CompileOptions options;
        options.precision = precision;
        options.output_strides = std::move(output_strides);
        meet(graph, options, what);
    }
    void meet(const Graph& graph, const CompileOptions& options, const std::string& what) {
        const Plan planned = plan(rewrite(graph).rewritten, Machine::h200());
        std::vector<std::string> both;
        for (KnownKernels* known : {&finding_, &writing_}) {
            setenv("TRANSFUSE_CACHE_DIR", (folder_ / (known == &finding_ ? "finding" : "writing")).c_str(), 1);
            const auto compile = [](const Source&, int) { return std::make_shared<const Binary>(); };
            both.push_back(shown(assemble_compiled(planned, options, Target{}, true, {}, compile, known)));
        }
        ASSERT_TRUE(both[0] == both[1]) << what;
    }
    KnownKernels finding_, writing_{false};
};

// Widths of every remainder, images of one column, batches, chains, pools and reductions of every kind.
TEST_F(CudaTexts, FoundAgainAreThoseThatWouldBeWritten) {
    size_t row = 0;
    for (const Fp32Precision precision : {Fp32Precision::tf32, Fp32Precision::strict})
        for (const auto& [name, body] : tests::rows()) {
            ++row;
            for (const int64_t space : {9, 12, 13, 14, 16, 1, 24, 15}) try {
                    if (!tests::taken(row, static_cast<size_t>(space), 2)) continue;
                    const DType dtype = space % 3 == 0 && precision == Fp32Precision::tf32 ? DType::f16 : DType::f32;
                    meet(tests::resized(parse(body), 1 + space % 3, space, dtype), precision,
                         std::string(name) + " at " + text(space) + " pixels");
                } catch (const Error&) {  // windows larger than the image
                }
        }
}

// Sizes of one form: rows of every remainder, none of which equals another extent.
TEST_F(CudaTexts, WhatOtherSizesOfRowsReadIsReadAgain) {
    size_t row = 0;
    for (const auto& [name, body] : tests::rows()) {
        ++row;
        for (const int64_t space : {19, 21, 22, 26, 28, 23, 44, 40, 20, 25, 46}) try {
                if (!tests::taken(row, static_cast<size_t>(space), 2)) continue;
                meet(tests::resized(parse(body), 2, space, DType::f32), Fp32Precision::tf32,
                     std::string(name) + " at " + text(space) + " pixels");
            } catch (const Error&) {  // windows that do not fit
            }
    }
}

// A vocoder of four layers, of which sizes differ in nothing but lengths: odd ones, multiples of every vector, short
// ones.
TEST_F(CudaTexts, WhatOtherSizesReadIsReadAgain) {
    const std::string body =
        "graph g {\n  %x = input f32[1,80,64]\n  %v = param f32[128,80,7]\n  %g = param f32[128,1,1]\n  %b = param "
        "f32[128]\n"
        "  %w = weight_norm(%v, %g) axis=0\n  %p = conv(%x, %w, %b) padding=[3]\n  %l = leaky_relu(%p) "
        "negative_slope=0.1\n"
        "  %u = param f32[128,64,16]\n  %t = conv_transpose(%l, %u) stride=[8] padding=[4]\n  %m = leaky_relu(%t) "
        "negative_slope=0.1\n"
        "  %d = param f32[64,64,3]\n  %e = param f32[64]\n  %f = conv(%m, %d, %e) padding=[3] dilation=[3]\n  %s = "
        "add(%t, %f)\n"
        "  %h = leaky_relu(%s) negative_slope=0.1\n  %o = param f32[1,64,7]\n  %y = conv(%h, %o) padding=[3]\n  %z = "
        "tanh(%y)\n"
        "  return %z\n}\n";
    for (const char* dtype : {"f32", "f16"}) {
        const Graph written = parse(with(body, "f32", dtype));
        for (const Fp32Precision precision : {Fp32Precision::tf32, Fp32Precision::strict}) {
            Random random(7);
            for (int i = 0; i < (tests::thorough() ? 40 : 20); ++i) {
                const int64_t length = i < 4 ? 1 + 2 * i : random.between(1, i % 2 ? 60 : 3000),
                              batch = i % 5 == 4 ? 40 : 1;
                std::vector<Type> types;
                for (ValueId leaf : written.leaves()) types.push_back(written[leaf].type);
                for (Type& type : types)
                    if (type.shape == Sizes{1, 80, 64}) type.shape = {batch, 80, length};
                CompileOptions options;
                options.precision = precision;
                meet(written.with_leaf_types(types), options, std::string(dtype) + ", length " + text(length));
            }
        }
    }
}

// Of two results the second lies in rows that are longer by some pixels: its vectors may begin anywhere.
TEST_F(CudaTexts, FoundAgainStoreInRowsAsTheyLie) {
    for (const int64_t width : {16, 20, 24, 32})
        for (const int64_t more : {0, 1, 2, 4, 0}) {
            const int64_t row = 2 * width + more;
            meet(parse("graph g {\n  %x = input f32[2,64,8," + text(width) +
                       "]\n  %w = param f32[64,64,4,4]\n  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n  %t "
                       "= tanh(%y)\n"
                       "  %r = relu(%y)\n  return %t, %r\n}\n"),
                 Fp32Precision::tf32, text(width) + " pixels, " + text(more) + " more",
                 {contiguous_strides({2, 64, 16, 2 * width}), {64 * 16 * row, 16 * row, row, 1}});
        }
}

// What prepares weights is the same for all sizes and is shared by them: not by other parameters, their layouts or
// types, nor where it runs once instead of at every call.
TEST_F(CudaTexts, PreparationsAreSharedByEqualParametersAlone) {
    for (const int64_t width : {40, 44, 57, 40})
        for (const int64_t channels : {16, 24})
            for (const char* dtype : {"f32", "f16"})
                for (const int kind : {0, 1, 2, 3}) {
                    const std::string body =
                        "graph g {\n  %x = input f32[2," + text(channels) + "," + text(width) +
                        ",12]\n  %v = param f32[32," + text(channels) +
                        ",3,3]\n  %g = param f32[32,1,1,1]\n  %b = param f32[32]\n  %w = weight_norm(%v, %g) axis=0\n"
                        "  %y = conv(%x, %w, %b) padding=[1,1]\n  %r = relu(%y)\n  %u = param f32[32,16,4,4]\n"
                        "  %z = conv_transpose(%r, %u) stride=[2,2] padding=[1,1]\n  return %z\n}\n";
                    const Graph graph = parse(with(body, "f32", dtype));
                    CompileOptions options;
                    options.precision = kind == 1 ? Fp32Precision::strict : Fp32Precision::tf32;
                    options.freeze = kind == 2;
                    for (ValueId leaf : graph.leaves()) {
                        const Sizes& shape = graph[leaf].type.shape;
                        options.leaf_strides.push_back(contiguous_strides(shape));
                        if (kind == 3 && graph[leaf].name == "v")  // channels last
                            options.leaf_strides.back() = {9 * channels, 1, 3 * channels, channels};
                    }
                    meet(graph, options,
                         text(width) + " of " + text(channels) + " channels, " + dtype + ", kind " + text(kind));
                }
}

// A launch that prepares weights is found by what it is made of. Scalars beside it, such as one over the pixels of a
// mean, may be others; what is stored, and what that is made of, may not.
TEST(CudaPreparations, AreFoundByWhatTheyAreMadeOf) {
    const auto graph = [](const char* stored, const char* beside) {
        return parse(std::string("graph g {\n  %x = input f32[2,8,9,12]\n  %w = param f32[8,8,3,3]\n  %s = mul(%w, ") +
                     stored + ")\n  %u = mul(%w, " + beside +
                     ")\n  %y = conv(%x, %s)\n  %z = conv(%y, %u)\n  return %z, %s, %u\n}\n");
    };
    Preparations preparations;
    const auto program = std::make_shared<const Program>();
    const auto asked = [&](const Graph& of, size_t output, bool remembers) {
        const Plan planned = plan(of, Machine::h200());
        const std::vector<bool> parameters = parameter_values(planned.graph);
        Strides strides;
        for (const Node& node : planned.graph.nodes()) strides.push_back(contiguous_strides(node.type.shape));
        const Target target;
        const Preparation preparation{
            planned, parameters, strides, target, true, false, {planned.graph.outputs()[output]}, {}};
        if (remembers) preparations.remember(preparation, program);
        return preparations.find(preparation);
    };
    EXPECT_EQ(asked(graph("0.5", "0.25"), 1, false), nullptr);
    EXPECT_EQ(asked(graph("0.5", "0.25"), 1, true), program);
    EXPECT_EQ(asked(graph("0.5", "0.125"), 1, false), program) << "the scalar is beside it";
    EXPECT_EQ(asked(graph("0.75", "0.25"), 1, false), nullptr) << "the scalar is a part of it";
    EXPECT_EQ(asked(graph("0.5", "0.25"), 2, false), nullptr) << "another value is stored";
    EXPECT_EQ(asked(graph("0.75", "0.25"), 1, true), program);
    EXPECT_EQ(asked(graph("0.5", "0.25"), 1, false), nullptr) << "the last is kept";
}

// Whole numbers are written without printf: as printf would.
TEST(CudaLiterals, AreThoseOfPrintf) {
    for (const double value :
         {0.0, 1.0, 2.0, 7.0, 999999.0, 1e6, 1e7, 123456789.0, 0.5, 1e-7, 1e20, 3e38, 1.5, 1e5 + 0.5})
        for (const double sign : {1.0, -1.0})
            for (const Real real : {Real::f32, Real::f64}) {
                const bool f64 = real == Real::f64;
                const double rounded = f64 ? sign * value : static_cast<double>(static_cast<float>(sign * value));
                char printed[40];
                std::snprintf(printed, sizeof printed, f64 ? "%.17g" : "%.9g", rounded);
                std::string expected = printed;
                if (expected.find_first_of(".e") == std::string::npos) expected += ".0";
                if (!f64) expected += 'f';
                if (sign < 0) expected = '(' + expected + ')';
                EXPECT_EQ(literal(sign * value, real), expected);
            }
}

TEST(CudaManner, TextsParseBack) {
    const Specialization specialization{LoadMode::singles, 2, Arithmetic::bf16, true};
    EXPECT_EQ(specialization_named(to_string(specialization)), specialization);
    for (const char* other :
         {"", "loads", "loads boxes", "loads boxes vector 4 in fp8", "loads boxes vector 4 in tf32 "})
        EXPECT_FALSE(specialization_named(other).has_value()) << other;
}

TEST(CudaManner, TextsServeSizesThatAllowMore) {
    const Lattice odd = Lattice::conv_transpose(27, 4, 2, 1, 0, 1), even = Lattice::conv_transpose(32, 4, 2, 1, 0, 1);
    const Specialization boxes{LoadMode::boxes, 4, Arithmetic::strict}, planar{LoadMode::planar, 2, Arithmetic::strict};
    EXPECT_TRUE(serves(planar, boxes, even, Fp32Precision::strict));
    EXPECT_FALSE(serves(boxes, planar, odd, Fp32Precision::strict));
    Specialization rounded = planar;
    rounded.arithmetic = Arithmetic::tf32;
    EXPECT_FALSE(serves(rounded, boxes, even, Fp32Precision::strict)) << "TF32 was not allowed";
    EXPECT_TRUE(serves(rounded, boxes, even, Fp32Precision::tf32));
    EXPECT_EQ(loosest(boxes, even).load, LoadMode::planar);
    EXPECT_EQ(loosest(boxes, even).vector, 2) << "2·in outputs a row";
    EXPECT_EQ(loosest(boxes, Lattice::conv_transpose(32, 3, 1, 1, 0, 1)).vector, 1);
    const Specialization half{LoadMode::boxes, 4, Arithmetic::f16}, pairs{LoadMode::pairs, 4, Arithmetic::f16};
    EXPECT_TRUE(serves(pairs, half, even, Fp32Precision::strict));
    EXPECT_FALSE(serves(pairs, half, odd, Fp32Precision::strict));
}

}  // namespace
}  // namespace transfuse::cuda
