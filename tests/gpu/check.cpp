// On a machine with a GPU: compile_cuda against the float64 reference, and times. A plain program (no test framework).
//
//   check random FIRST COUNT [dtype] [last] [tf32] [within SECONDS]
//       random graphs, twice each, over many processes; without a dtype every precision, layout, alignment and size
//       is drawn as well; after SECONDS no graph is begun; FIRST from 1000000 on: other graphs (trials.h)
//   check gradient FIRST COUNT [dtype] [last] [tf32] [within SECONDS]
//       their gradients in all leaves
//   check rows [within SECONDS]
//       the benchmark's chains, cut small, in every precision and layout
//   check families
//       small graphs that use every kind of kernel
//   check run families|random|gradient FIRST COUNT
//       once each, one after another in this process, compared with nothing: for compute-sanitizer
//   check file FILE.tf|ROW [last] [unaligned] [tf32]
//       one graph at its own size (small ones: the reference is slow)
//   check time FILE.tf|ROW [last] [unaligned] [tf32]
//       median time with the L2 flushed, launches, resources
//   check launches FILE.tf|ROW [last] [unaligned] [tf32]
//       the time of every launch by itself, L2 flushed before the first
//   check configs FILE.tf|ROW [last] [tf32] < LINES
//       median times of the dense kernels in the configurations of LINES (as descriptions print them), side by side,
//       and how far their results are from those of the chosen one
//   check copy
//       bandwidth of a copy
//
// Exit status 1 where anything is wrong.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cuda/assemble/build.h"
#include "cuda/runtime/launch.h"
#include "gpu/configs.h"
#include "gpu/families.h"
#include "gpu/trials.h"

using namespace transfuse;
using namespace transfuse::cuda;

namespace {

Graph read(const char* path) {
    for (const auto& [name, text] : tests::rows())
        if (name == path) return tests::row(name);
    std::ifstream file(path);
    require(static_cast<bool>(file), "cannot read ", path);
    std::stringstream text;
    text << file.rdbuf();
    return parse(text.str());
}

int check_file(const char* path, const Setting& setting) {
    const Graph graph = read(path);
    const Verdict verdict = examine(graph, random_leaves(graph, 3), setting);
    std::printf("%s %s %s: error %.3g, allowed %.3g\n", verdict.right ? "right" : "WRONG", path,
                to_string(setting).c_str(), verdict.error, verdict.allowed);
    return verdict.right ? 0 : 1;
}

// A million random numbers in each leaf, over and over: no time depends on more.
void fill_leaves(const Session& session) {
    Random random(5);
    for (size_t i = 0; i < session.leaves.size(); ++i) {
        const TensorView& v = session.leaves[i];
        std::vector<char> host(static_cast<size_t>(numel(v.shape) * bytes(v.dtype)));
        const int64_t drawn = std::min<int64_t>(numel(v.shape), 1 << 20);
        for (int64_t e = 0; e < drawn; ++e) put(host.data(), v.dtype, e, random.uniform());
        const auto period = static_cast<size_t>(drawn * bytes(v.dtype));
        for (size_t at = period; at < host.size(); at += period)
            std::memcpy(host.data() + at, host.data(), std::min(period, host.size() - at));
        cuda::check(driver().cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(v.data), host.data(), host.size()),
                    "cuMemcpyHtoD");
    }
}

// Until run() returns, in microseconds a call: many batches of so few calls that the GPU's queue never fills, sorted.
std::vector<double> host_times(Session& session) {
    constexpr int calls = 20, batches = 400;
    std::vector<double> times;
    for (int batch = 0; batch < batches; ++batch) {
        cuda::check(driver().cuStreamSynchronize(nullptr), "run");
        const auto begin = std::chrono::steady_clock::now();
        for (int call = 0; call < calls; ++call)
            session.executable->run(session.leaves, session.outputs, session.context);
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
                        calls);
    }
    std::sort(times.begin(), times.end());
    return times;
}

// Median time of a run with the L2 flushed before it, and host time of a call.
void time_file(const char* path, const Setting& setting) {
    const Graph graph = read(path);
    const auto begin = std::chrono::steady_clock::now();
    Session session(graph, setting);
    const double compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fill_leaves(session);
    BandedMemory flush(256 << 20);
    const Driver& d = driver();
    CUevent from, to;
    cuda::check(d.cuEventCreate(&from, 0), "cuEventCreate");
    cuda::check(d.cuEventCreate(&to, 0), "cuEventCreate");
    std::vector<float> times;
    for (int i = 0; i < 25; ++i) {
        d.cuMemsetD8Async(flush.address(), 1, 256 << 20, nullptr);
        d.cuEventRecord(from, nullptr);
        session.executable->run(session.leaves, session.outputs, session.context);
        d.cuEventRecord(to, nullptr);
        cuda::check(d.cuEventSynchronize(to), "run");
        float ms = 0;
        d.cuEventElapsedTime(&ms, from, to);
        if (i >= 5) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const std::vector<double> host = host_times(session);
    std::printf("TIME %s %s: %.4f ms median, %.4f min; host %.1f us at best, %.1f median; compiled in %.2f s\n%s", path,
                to_string(setting).c_str(), static_cast<double>(times[times.size() / 2]), static_cast<double>(times[0]),
                host[0], host[host.size() / 2], compile_s, session.executable->describe().c_str());
}

// A run's launches one by one, each waited for: names the one that fails.
int step_through(const char* path, const Setting& setting) {
    Session session(read(path), setting);
    fill_leaves(session);
    const Device& here = device(0);
    const Assembly assembly = assemble_compiled(
        session.plan, session.options, Target{here.arch, here.multiprocessors, here.shared_bytes}, !setting.unaligned);
    BandedMemory workspace(assembly.workspace_bytes), kept(assembly.kept_bytes);
    const auto base = [&](const Address& address) {
        const auto at = static_cast<size_t>(address.position);
        void* memory = address.kind == Address::Kind::leaf     ? session.leaves[at].data
                       : address.kind == Address::Kind::output ? session.outputs[at].data
                       : address.kind == Address::Kind::kept   ? kept.data()
                                                               : workspace.data();
        return static_cast<char*>(memory);
    };
    for (size_t i = 0; i < assembly.launches.size(); ++i) {
        const Launch& launch = assembly.launches[i].launch;
        cuda::launch(make_ready(assembly.launches[i], here), base, nullptr, true);
        if (const CUresult result = driver().cuStreamSynchronize(nullptr); result != 0) {
            std::printf("FAILED %s: launch %zu of %zu, %s, %s: error %d\n", path, i, assembly.launches.size(),
                        launch.source->entry.c_str(), launch.note.str().c_str(), static_cast<int>(result));
            return 1;
        }
    }
    std::printf("STEPS %s %s: %zu launches\n", path, to_string(setting).c_str(), assembly.launches.size());
    return 0;
}

// Median time of each launch of a run, the launches apart from one another: an event between any two.
void time_launches(const char* path, const Setting& setting) {
    Session session(read(path), setting);
    fill_leaves(session);
    const Device& here = device(0);
    const Assembly assembly = assemble_compiled(
        session.plan, session.options, Target{here.arch, here.multiprocessors, here.shared_bytes}, !setting.unaligned);
    BandedMemory workspace(assembly.workspace_bytes), kept(assembly.kept_bytes), flush(256 << 20);
    auto base = [&](const Address& address) {
        const auto at = static_cast<size_t>(address.position);
        void* memory = address.kind == Address::Kind::leaf     ? session.leaves[at].data
                       : address.kind == Address::Kind::output ? session.outputs[at].data
                       : address.kind == Address::Kind::kept   ? kept.data()
                                                               : workspace.data();
        return static_cast<char*>(memory);
    };
    const Driver& d = driver();
    std::vector<Ready> launches;
    for (const BoundLaunch& bound : assembly.launches) launches.push_back(make_ready(bound, here));
    std::vector<CUevent> events(launches.size() + 1);
    for (CUevent& event : events) cuda::check(d.cuEventCreate(&event, 0), "cuEventCreate");
    std::vector<std::vector<float>> times(launches.size());
    for (int round = 0; round < 15; ++round) {
        d.cuMemsetD8Async(flush.address(), 1, 256 << 20, nullptr);
        d.cuEventRecord(events[0], nullptr);
        for (size_t i = 0; i < launches.size(); ++i) {
            cuda::launch(launches[i], base, nullptr, true);
            d.cuEventRecord(events[i + 1], nullptr);
        }
        cuda::check(d.cuEventSynchronize(events.back()), "run");
        for (size_t i = 0; i < launches.size() && round >= 3; ++i)
            d.cuEventElapsedTime(&times[i].emplace_back(), events[i], events[i + 1]);
    }
    std::printf("LAUNCHES %s %s\n", path, to_string(setting).c_str());
    for (size_t i = 0; i < launches.size(); ++i) {
        const Launch& launch = assembly.launches[i].launch;
        std::sort(times[i].begin(), times[i].end());
        std::printf("  %8.1f us  %-18s %s\n", static_cast<double>(times[i][times[i].size() / 2]) * 1e3,
                    launch.source->entry.c_str(), launch.note.str().c_str());
    }
}

// Bandwidth of a plain copy, counting both directions, for comparison.
void time_copy() {
    const size_t size = size_t{1} << 30;
    BandedMemory a(size), b(size);
    const Driver& d = driver();
    CUevent from, to;
    d.cuEventCreate(&from, 0), d.cuEventCreate(&to, 0);
    std::vector<float> times;
    for (int i = 0; i < 15; ++i) {
        d.cuEventRecord(from, nullptr);
        d.cuMemcpyDtoDAsync(a.address(), b.address(), size, nullptr);
        d.cuEventRecord(to, nullptr);
        d.cuEventSynchronize(to);
        float ms = 0;
        d.cuEventElapsedTime(&ms, from, to);
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    std::printf("COPY %.3f TB/s\n",
                2.0 * static_cast<double>(size) / (static_cast<double>(times[times.size() / 2]) * 1e-3) * 1e-12);
}

// Asked of a child: a process that has used CUDA may not fork workers that use it.
bool gpu_here() {
    const pid_t child = fork();
    if (child == 0) {
        if (!cuda_available()) std::printf("skipped: %s\n", cuda_unavailable_reason().c_str());
        std::fflush(stdout);
        _exit(cuda_available() ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (!gpu_here()) return 0;
        const std::string verb = argc > 1 ? argv[1] : "";
        Wanted wanted;
        for (int i = 2; i < argc && verb != "run"; ++i) {
            const std::string word = argv[i];
            if (word == "last") wanted.setting.last = true;
            if (word == "unaligned") wanted.setting.unaligned = true;
            if (word == "tf32") wanted.setting.precision = Fp32Precision::tf32;
            if (word == "within" && i + 1 < argc)
                wanted.within = static_cast<unsigned>(std::stoul(argv[++i]));
            else if (i >= 4 && word != "last" && word != "unaligned" && word != "tf32")
                wanted.dtype = dtype_named(word);
        }
        if ((verb == "random" || verb == "gradient") && argc >= 4)
            return in_processes(verb, std::stoull(argv[2]), std::stoull(argv[3]), wanted.within,
                                [&](uint64_t seed) { return random_trial(seed, wanted, verb == "gradient"); });
        if (verb == "rows") return in_processes("rows", 0, row_count(), wanted.within, row_trial);
        if (verb == "families") return in_processes("families", 0, family_count(), 0, family_trial);
        if (verb == "run" && argc >= 5) {
            const std::string what = argv[2];
            return in_turn(std::stoull(argv[3]), std::stoull(argv[4]), [&](uint64_t number) {
                return what == "families" ? family_trial(number) : random_trial(number, wanted, what == "gradient");
            });
        }
        ContextGuard guard(device(0));
        if (verb == "file" && argc >= 3) return check_file(argv[2], wanted.setting);
        if (verb == "time" && argc >= 3) {
            time_file(argv[2], wanted.setting);
            return 0;
        }
        if (verb == "steps" && argc >= 3) return step_through(argv[2], wanted.setting);
        if (verb == "launches" && argc >= 3) {
            time_launches(argv[2], wanted.setting);
            return 0;
        }
        if (verb == "configs" && argc >= 3) {
            Session session(read(argv[2]), wanted.setting);
            fill_leaves(session);
            ConfigTimes times(session, !wanted.setting.unaligned);
            times.read(std::cin);
            times.measure(8);
            std::printf("CONFIGS %s %s\n", argv[2], to_string(wanted.setting).c_str());
            times.print();
            return 0;
        }
        if (verb == "copy") {
            time_copy();
            return 0;
        }
        std::printf(
            "usage: check random|gradient FIRST COUNT [dtype] [last] [tf32] [within SECONDS] | rows [within SECONDS] | "
            "families | run families|random|gradient FIRST COUNT | file|steps|time|launches|configs FILE.tf|ROW [last] "
            "[tf32] | "
            "copy\n");
        return 2;
    } catch (const std::exception& error) {
        std::printf("FAILED: %s\n", std::string(error.what()).substr(0, 3000).c_str());
        return 1;
    }
}
