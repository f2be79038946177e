// Every kernel generated for random graphs compiles for the architectures we support, without a device; the cache of
// compiled kernels never trusts a damaged entry and may be shared.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "cuda/assemble/assemble.h"
#include "cuda/runtime/cache.h"
#include "cuda/runtime/module.h"
#include "cuda_host/nvrtc.h"
#include "random_graphs.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {
namespace {

namespace fs = std::filesystem;

// A cache folder of its own for each test.
class CudaCompile : public ::testing::Test {
protected:
    void SetUp() override {
        std::string reason;
        if (!find_nvrtc(&reason)) GTEST_SKIP() << reason;
        folder_ = fs::temp_directory_path() /
                  ("transfuse-cache-" + std::to_string(getpid()) + "-" + std::to_string(serial_++));
        setenv("TRANSFUSE_CACHE_DIR", folder_.c_str(), 1);
    }
    void TearDown() override {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
    std::vector<fs::path> entries() const {
        std::vector<fs::path> list;
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(folder_, ignored)) list.push_back(entry.path());
        return list;
    }
    fs::path folder_;
    static inline int serial_ = 0;
};

Source tiny(const std::string& name) {
    Source source;
    source.entry = name;
    source.text = "extern \"C\" __global__ void " + name + "(float* p) { p[threadIdx.x] *= 2.0f; }\n";
    return source;
}

TEST_F(CudaCompile, RandomGraphs) {
    std::vector<std::shared_ptr<const Source>> sources;
    for (uint64_t seed = 500; seed < 512; ++seed) {
        RandomGraphOptions options;
        options.dtype = seed % 3 == 0 ? DType::f16 : seed % 3 == 1 ? DType::f32 : DType::bf16;
        Target target;
        target.general_only = true;
        const Plan p = plan(rewrite(random_graph(seed, options)).rewritten, Machine::h200());
        for (const BoundLaunch& bound : assemble(p, {}, target, true).launches) sources.push_back(bound.launch.source);
    }
    ASSERT_GT(sources.size(), 15u);
    EXPECT_NO_THROW(compile_all(sources, 90));
    // Every architecture gets its share.
    const std::vector<int> architectures = swept_architectures();
    for (size_t k = 0; k < architectures.size(); ++k) {
        std::vector<std::shared_ptr<const Source>> share;
        for (size_t i = k; i < sources.size(); i += architectures.size()) share.push_back(sources[i]);
        EXPECT_NO_THROW(compile_all(share, architectures[k]));
    }
}

Graph read(const std::string& file) {
    std::ifstream stream(TRANSFUSE_SOURCE_DIR "/examples/" + file);
    std::stringstream text;
    text << stream.rdbuf();
    return parse(text.str());
}

// At their full size, with whatever kernels the device gets.
TEST_F(CudaCompile, SeedModels) {
    for (int arch : {90, 80}) {
        std::vector<std::shared_ptr<const Source>> sources;
        for (const char* file : {"seed_a.tf", "seed_b.tf", "seed_c.tf", "seed_c_eval.tf", "seed_d.tf"}) {
            Target target;
            target.arch = arch;
            target.shared_bytes = arch == 80 ? 163 * 1024 : 227 * 1024;
            CompileOptions options;
            options.precision = Fp32Precision::tf32;
            for (const BoundLaunch& bound :
                 assemble(plan(rewrite(read(file)).rewritten, Machine::h200()), options, target, true).launches) {
                sources.push_back(bound.launch.source);
                EXPECT_LE(bound.launch.shared_bytes, static_cast<uint32_t>(target.shared_bytes))
                    << bound.launch.source->entry;
            }
        }
        EXPECT_NO_THROW(compile_all(sources, arch));
    }
}

// Warpgroups that multiply take registers that those which load have given, and no more: a block has as many as it
// began with, and who asks for more waits for ever.
TEST_F(CudaCompile, WeightGradientsByWarpgroups) {
    for (const char* body :
         {"%x = input f32[8,64,64,64]  %g = input f32[8,64,66,66]  %w = correlate(%x, %g) taps=[3,3]",
          "%x = input f32[8,64,64,64]  %g = input f32[8,128,66,68]  %w = correlate(%x, %g) taps=[3,5]",
          "%x = input f32[8,64,32,32]  %g = input f32[8,64,64,64]  %w = correlate(%x, %g) up=[2,2] "
          "offset=[1,1] taps=[4,4]",
          "%x = input f16[8,160,4096]  %g = input f16[8,72,2048]  %w = correlate(%x, %g) down=[2] "
          "offset=[1] taps=[4]"}) {
        std::string text(body);
        for (size_t at = 0; (at = text.find("  %", at)) != std::string::npos;) text[at] = '\n';
        const Graph graph = parse("graph g {\n" + text + "\nreturn %w\n}\n");
        CompileOptions options;
        options.precision = Fp32Precision::tf32;
        const Launch launch = assemble(plan(graph, Machine::h200()), options, Target{}, true).launches[0].launch;
        ASSERT_EQ(launch.source->entry, "tf_correlate_groups") << body;
        const std::string& source = launch.source->text;
        auto registers = [&](const std::string& call) {
            return std::stoi(source.substr(source.rfind(call) + call.size()));
        };
        const int groups = static_cast<int>(launch.block[0] / 128), at_first = 65536 / (128 * groups) / 8 * 8;
        EXPECT_LE(2 * registers("registers_take<") + (groups - 2) * registers("registers_give<"), groups * at_first)
            << body;
        const std::string log = nvrtc_compile(*launch.source, 90).log;
        EXPECT_LE(resources_in(log, "tf_correlate_groups").spill_bytes, 64)
            << body;  // a few words of the loading warps
        EXPECT_EQ(log.find("serialized"), std::string::npos) << log;
    }
}

// Batch and lengths are arguments: of the general kernels a stream of chunks of a hundred lengths needs one or two for
// each launch.
TEST_F(CudaCompile, LengthsShareKernels) {
    std::map<std::string, std::set<std::string>> texts;
    Random random(11);
    for (int i = 0; i < 60; ++i) {
        const std::string length = std::to_string(random.between(20, 400));
        const Graph graph = parse("graph g {\n  %x = input f32[1,32," + length +
                                  "]\n  %w = param f32[32,16,8]\n  %b = param f32[16]\n" +
                                  "  %y = conv_transpose(%x, %w, %b) stride=[4] padding=[2]\n  %z = leaky_relu(%y) "
                                  "negative_slope=0.1\n  return %z\n}\n");
        Target target;
        target.general_only = true;
        for (const BoundLaunch& bound :
             assemble(plan(rewrite(graph).rewritten, Machine::h200()), {}, target, true).launches)
            texts[bound.launch.source->entry].insert(bound.launch.source->text);
    }
    ASSERT_FALSE(texts.empty());
    for (const auto& [entry, set] : texts) EXPECT_LE(set.size(), 2u) << entry;
}

TEST_F(CudaCompile, ErrorsNameTheKernelAndKeepTheLog) {
    Source broken = tiny("broken");
    broken.text += "int x = nonsense;\n";
    try {
        compiled(broken, 90);
        FAIL() << "a broken source compiled";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("broken"), std::string::npos);
        EXPECT_NE(std::string(error.what()).find("nonsense"), std::string::npos);
    }
}

TEST_F(CudaCompile, ResourcesAreRecorded) {
    auto binary = compiled(tiny("recorded"), 90);
    EXPECT_GT(resources_in(binary->log, "recorded").registers, 0);
    EXPECT_EQ(resources_in(binary->log, "recorded").spill_bytes, 0);
}

TEST_F(CudaCompile, SpillsAreWarnedOfInTheLog) {
    Source crowded;  // a hundred values in the 64 registers that 1024 threads leave to each
    crowded.entry = "crowded";
    crowded.text =
        "extern \"C\" __global__ void __launch_bounds__(1024) crowded(float* p) {\n    float v[100];\n"
        "#pragma unroll\n    for (int i = 0; i < 100; ++i) v[i] = p[i * 1024 + threadIdx.x];\n    __syncthreads();\n"
        "#pragma unroll\n    for (int i = 0; i < 100; ++i) p[i * 1024 + threadIdx.x] = v[99 - i] * v[7 * i % "
        "100];\n}\n";
    setenv("TRANSFUSE_LOG", "1", 1);
    testing::internal::CaptureStderr();
    const auto binary = compiled(crowded, 90);
    compiled(tiny("roomy"), 90);
    const std::string log = testing::internal::GetCapturedStderr();
    unsetenv("TRANSFUSE_LOG");
    const int spilled = resources_in(binary->log, "crowded").spill_bytes;
    EXPECT_GT(spilled, 0);
    EXPECT_EQ(log, "transfuse: warning: CUDA kernel crowded spills " + std::to_string(spilled) +
                       " bytes of registers to memory\n");
}

TEST_F(CudaCompile, SourcesAreDumpedWhereAsked) {
    const fs::path dumps = folder_ / "dumps";
    setenv("TRANSFUSE_DUMP_DIR", dumps.c_str(), 1);
    const Source source = tiny("dumped");
    compiled(source, 90);
    unsetenv("TRANSFUSE_DUMP_DIR");
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(dumps)) files.push_back(file.path());
    ASSERT_EQ(files.size(), 1u);
    EXPECT_TRUE(files[0].filename().string().starts_with("dumped-") && files[0].extension() == ".cu");
    std::stringstream text;
    text << std::ifstream(files[0]).rdbuf();
    EXPECT_EQ(text.str(), source.text);
}

TEST_F(CudaCompile, EntriesSurviveAndDamagedOnesAreMisses) {
    const std::string key = "some key", content(5000, 'x');
    EXPECT_FALSE(cache_load(key).has_value());
    cache_store(key, content);
    ASSERT_EQ(entries().size(), 1u);
    EXPECT_EQ(cache_load(key), content);
    EXPECT_FALSE(cache_load("another key").has_value());
    const fs::path path = entries()[0];
    const auto size = fs::file_size(path);
    for (uintmax_t cut : {size - 1, size / 2, uintmax_t{20}, uintmax_t{0}}) {  // truncated
        cache_store(key, content);
        fs::resize_file(path, cut);
        EXPECT_FALSE(cache_load(key).has_value()) << "cut at " << cut;
    }
    for (uintmax_t at : {uintmax_t{0}, uintmax_t{9}, uintmax_t{33}, uintmax_t{40}, size - 1}) {  // one bit turned
        cache_store(key, content);
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(at));
        const char byte = static_cast<char>(file.get() ^ 1);
        file.seekp(static_cast<std::streamoff>(at));
        file.put(byte);
        file.close();
        EXPECT_FALSE(cache_load(key).has_value()) << "bit at " << at;
    }
    cache_store(key, content);  // a foreign entry under this name: the key inside tells
    fs::copy_file(path, folder_ / (hash_name("third") + ".cubin"));
    EXPECT_FALSE(cache_load("third").has_value());
}

TEST_F(CudaCompile, UnwritableFolderIsNoError) {
    setenv("TRANSFUSE_CACHE_DIR", "/proc/no/such/folder", 1);
    EXPECT_NO_THROW(cache_store("k", "v"));
    EXPECT_FALSE(cache_load("k").has_value());
    EXPECT_NO_THROW(compiled(tiny("unwritable"), 90));
}

TEST_F(CudaCompile, ManyThreadsCompileOnce) {
    std::vector<std::thread> threads;
    std::vector<std::shared_ptr<const Binary>> results(8);
    for (size_t t = 0; t < results.size(); ++t)
        threads.emplace_back([&, t] { results[t] = compiled(tiny("shared"), 90); });
    for (auto& thread : threads) thread.join();
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
    EXPECT_EQ(entries().size(), 1u);
}

TEST_F(CudaCompile, ProcessesShareTheFolder) {
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            bool good = true;
            for (int round = 0; round < 50; ++round) {
                const std::string key = "key" + std::to_string(round % 5),
                                  content(static_cast<size_t>(20000 + round % 5), static_cast<char>('a' + round % 5));
                cache_store(key, content);
                const auto read = cache_load(key);
                good = good && read && *read == content;
            }
            _exit(good ? 0 : 1);
        }
        children.push_back(child);
    }
    for (pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (const fs::path& entry : entries()) EXPECT_EQ(entry.extension(), ".cubin") << "a temporary file was left";
    EXPECT_EQ(entries().size(), 5u);
}

// The compiler is looked for once a process: each answer in a process of its own.
TEST(Nvrtc, IsLookedForWhereTheEnvironmentSays) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    auto answer = [] {
        std::string reason = "found";
        const bool found = nvrtc_available(&reason);
        std::fputs(reason.c_str(), stderr);
        _exit(found ? 0 : 1);
    };
    setenv("TRANSFUSE_NVRTC", "/nowhere/libnvrtc.so", 1);
    EXPECT_EXIT(answer(), testing::ExitedWithCode(1), "TRANSFUSE_NVRTC names /nowhere/libnvrtc.so, where no NVRTC");
    std::error_code ignored;
    for (const auto& python : fs::directory_iterator(fs::path(TRANSFUSE_SOURCE_DIR) / ".venv" / "lib", ignored))
        for (const auto& toolkit : fs::directory_iterator(python.path() / "site-packages" / "nvidia", ignored)) {
            const fs::path folder = toolkit.path() / "lib";
            if (!fs::exists(folder / "libnvrtc.so.13") && !fs::exists(folder / "libnvrtc.so.12")) continue;
            setenv("TRANSFUSE_NVRTC", folder.c_str(), 1);
            EXPECT_EXIT(answer(), testing::ExitedWithCode(0), "found");
        }
    unsetenv("TRANSFUSE_NVRTC");
}

}  // namespace
}  // namespace transfuse::cuda
