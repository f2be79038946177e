// compile_cuda: the assembled launches with their kernels loaded and their argument blocks laid out; run() fills in
// addresses and launches.
#include "cuda/assemble/executable.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "cuda/assemble/build.h"
#include "cuda/assemble/tune.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/module.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

using namespace cuda;

// The launches for one alignment of the tensors. Another alignment has other kernels, with other packed weights.
struct Loaded {
    const Device& device;
    Assembly assembly;
    std::vector<Ready> launches;
    std::shared_ptr<const DeviceMemory> kept;  // what a frozen executable prepares once; null: nothing
    std::atomic<bool> prepared{false};
    std::mutex prepare_mutex;

    explicit Loaded(const Device& on) : device(on) {}

    size_t bytes() const {
        size_t all = sizeof *this + assembly.kept_bytes;
        for (const Ready& ready : launches) all += ready.bytes() + sizeof(BoundLaunch);
        return all;
    }
};

// Many sizes that a program meets are kept: arguments lie in the ready launches, and memory that is new takes as long
// to get as to fill.
void forget_what_is_ready(Assembly& assembly) {
    const auto forget = [](auto& list) { list = std::remove_reference_t<decltype(list)>(); };
    forget(assembly.strides), forget(assembly.configs), forget(assembly.taken);
    for (BoundLaunch& bound : assembly.launches) forget(bound.launch.arguments), forget(bound.addresses);
}

std::unique_ptr<Loaded> load(const Plan& plan, const Options& options, const Device& device, bool aligned,
                             KnownKernels* known) {
    auto result = std::make_unique<Loaded>(device);
    Loaded& loaded = *result;
    Target target{device.arch, device.multiprocessors, device.shared_bytes};
    if (const char* family = std::getenv("TRANSFUSE_CUDA_FAMILY")) {  // for tests and diagnosis
        target.general_only = std::string_view(family) == "general";
        target.portable_only = std::string_view(family) == "portable";
    }
    const char* tune = std::getenv("TRANSFUSE_AUTOTUNE");
    DenseConfigs configs;
    if (options.autotune || (tune && tune[0] == '1')) configs = tuned_configs(plan, options, target, device, aligned);
    loaded.assembly = assemble_compiled(plan, options, target, aligned, configs, compiled, known);
    loaded.launches.reserve(loaded.assembly.launches.size());
    for (const BoundLaunch& bound : loaded.assembly.launches) loaded.launches.push_back(make_ready(bound, device));
    forget_what_is_ready(loaded.assembly);
    if (loaded.assembly.kept_bytes > 0)
        loaded.kept = std::make_shared<const DeviceMemory>(device, loaded.assembly.kept_bytes);
    return result;
}

// What a tensor of a call is, as its executable was compiled for it.
struct Layout {
    Type type;
    Sizes strides;
};

// strides: none given, all are contiguous.
std::vector<Layout> layouts_of(const Graph& graph, const std::vector<ValueId>& values,
                               const std::vector<Sizes>& strides) {
    std::vector<Layout> layouts;
    layouts.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
        const Type& type = graph[values[i]].type;
        layouts.push_back({type, strides.empty() ? contiguous_strides(type.shape) : strides[i]});
    }
    return layouts;
}

class CudaExecutable final : public Executable {
public:
    CudaExecutable(const Plan& plan, Options options, std::shared_ptr<KnownKernels> known, PlanAgain again)
        : again_(std::move(again)),
          device_(device(options.device)),
          known_(std::move(known)),
          aligned_(load(plan, options, device_, true, known_.get())),
          leaves_(layouts_of(plan.graph, plan.graph.leaves(), options.leaf_strides)),
          outputs_(layouts_of(plan.graph, plan.graph.outputs(), options.output_strides)),
          options_(without_strides(std::move(options))) {}

    size_t workspace_bytes() const override { return aligned_->assembly.workspace_bytes; }

    size_t workspace_bytes_for(std::span<const TensorView> leaves, std::span<const TensorView> outputs) override {
        return loaded_for(leaves, outputs).assembly.workspace_bytes;
    }

    void run(std::span<const TensorView> leaves, std::span<const TensorView> outputs,
             const RunContext& context) override {
        check_views(leaves, leaves_, "leaf");
        check_views(outputs, outputs_, "output");
        Loaded& loaded = loaded_for(leaves, outputs);
        const size_t needed = loaded.assembly.workspace_bytes;
        const size_t given = context.workspace_bytes > 0 ? context.workspace_bytes : workspace_bytes();
        require(needed == 0 || (context.workspace != nullptr && given >= needed), "run: these tensors need ", needed,
                " bytes of workspace (workspace_bytes_for), got ", context.workspace != nullptr ? given : 0);
        ContextGuard guard(device_);
        const auto stream = static_cast<CUstream>(context.stream);
        if (!options_.freeze) {
            launch(loaded, leaves, outputs, context.workspace, stream, false);
            return;
        }
        run_frozen(loaded, leaves, outputs, context.workspace, stream);
    }

    size_t kept_bytes() const override {
        return sizeof *this + aligned_->bytes() + (leaves_.size() + outputs_.size()) * sizeof(Layout);
    }

    std::string describe() const override {
        std::string text = "CUDA, " + device_.name + ", sm_" + std::to_string(device_.arch) + ": " +
                           std::to_string(aligned_->launches.size()) + " launches, workspace " +
                           std::to_string(workspace_bytes()) + " bytes\n";
        for (size_t i = 0; i < aligned_->launches.size(); ++i) {
            const BoundLaunch& bound = aligned_->assembly.launches[i];
            const Launch& l = bound.launch;
            text += "  " + l.source->entry + " <<<" + std::to_string(l.grid[0]);
            if (l.grid[1] * l.grid[2] > 1) text += "," + std::to_string(l.grid[1]) + "," + std::to_string(l.grid[2]);
            text += " x " + std::to_string(l.block[0] * l.block[1] * l.block[2]) + ">>> ";
            if (l.shared_bytes) text += std::to_string(l.shared_bytes) + " B dynamic shared, ";
            text += to_string(kernel(l.source, device_, l.shared_bytes).resources);
            if (!l.note.empty()) text += ": " + l.note.str();
            if (bound.pass < aligned_->assembly.notes.size() && !aligned_->assembly.notes[bound.pass].empty())
                text += " [" + aligned_->assembly.notes[bound.pass].str() + "]";
            text += "\n";
        }
        return text;
    }

private:
    static Options without_strides(Options options) {
        options.leaf_strides = std::vector<Sizes>(), options.output_strides = std::vector<Sizes>();
        return options;
    }

    // Throws unless every view is what was compiled for.
    static void check_views(std::span<const TensorView> views, const std::vector<Layout>& layouts, const char* what) {
        require(views.size() == layouts.size(), "run: ", layouts.size(), " ", what, " tensors are expected, got ",
                views.size());
        for (size_t i = 0; i < views.size(); ++i) {
            const TensorView& view = views[i];
            const auto& [type, strides] = layouts[i];
            if (view.dtype != type.dtype || view.shape != type.shape)
                fail("run: ", what, " ", i, " must be ", to_string(type), ", got ",
                     to_string(Type{view.dtype, view.shape}));
            if (view.strides != strides && !same_layout(view.shape, view.strides, strides))
                fail("run: ", what, " ", i, " was compiled for strides ", to_string(strides), ", got ",
                     to_string(view.strides));
            if (view.data == nullptr && numel(view.shape) > 0) fail("run: ", what, " ", i, " has no memory");
        }
    }

    // Strides of axes of extent 1 do not matter.
    static bool same_layout(const Sizes& shape, const Sizes& a, const Sizes& b) {
        if (a.size() != b.size() || a.size() != shape.size()) return false;
        for (size_t i = 0; i < a.size(); ++i)
            if (shape[i] != 1 && a[i] != b[i]) return false;
        return true;
    }

    Loaded& loaded_for(std::span<const TensorView> leaves, std::span<const TensorView> outputs) {
        auto aligned = [](const TensorView& view) { return reinterpret_cast<uintptr_t>(view.data) % 16 == 0; };
        if (std::ranges::all_of(leaves, aligned) && std::ranges::all_of(outputs, aligned)) return *aligned_;
        std::call_once(unaligned_once_, [&] {
            Options options = options_;
            std::vector<Type> types;
            for (const Layout& leaf : leaves_) types.push_back(leaf.type), options.leaf_strides.push_back(leaf.strides);
            for (const Layout& output : outputs_) options.output_strides.push_back(output.strides);
            unaligned_ = load(again_(types), options, device_, false, known_.get());
        });
        return *unaligned_;
    }

    void run_frozen(Loaded& loaded, std::span<const TensorView> leaves, std::span<const TensorView> outputs,
                    void* workspace, CUstream stream) {
        int capturing = 0;
        driver().cuStreamIsCapturing(stream, &capturing);
        if (capturing && known_ && loaded.kept) known_->keep_for_graphs(loaded.kept);
        if (loaded.prepared.load(std::memory_order_acquire)) {
            launch(loaded, leaves, outputs, workspace, stream, true);
            return;
        }
        std::lock_guard lock(loaded.prepare_mutex);
        const bool skip = loaded.prepared.load();
        launch(loaded, leaves, outputs, workspace, stream, skip);
        if (skip || capturing) return;  // what a capture records has not run yet
        check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
        loaded.prepared.store(true, std::memory_order_release);
    }

    static void launch(const Loaded& loaded, std::span<const TensorView> leaves, std::span<const TensorView> outputs,
                       void* workspace, CUstream stream, bool prepared) {
        auto base = [&](const Address& address) -> char* {
            switch (address.kind) {
                case Address::Kind::leaf:
                    return static_cast<char*>(leaves[static_cast<size_t>(address.position)].data);
                case Address::Kind::output:
                    return static_cast<char*>(outputs[static_cast<size_t>(address.position)].data);
                case Address::Kind::workspace:
                    return static_cast<char*>(workspace);
                case Address::Kind::kept:
                    break;
            }
            return reinterpret_cast<char*>(loaded.kept->address());
        };
        bool first = true;
        for (const Ready& ready : loaded.launches) {
            if (prepared && ready.once) continue;
            if (cuda::launch(ready, base, stream, first)) first = false;
        }
    }

    const PlanAgain again_;
    const Device& device_;
    const std::shared_ptr<KnownKernels> known_;
    const std::unique_ptr<Loaded> aligned_;
    const std::vector<Layout> leaves_, outputs_;
    const Options options_;  // without strides, which the layouts tell
    std::unique_ptr<Loaded> unaligned_;
    std::once_flag unaligned_once_;
};

}  // namespace

std::unique_ptr<Executable> compile_cuda(const Plan& plan, const CompileOptions& options) {
    return cuda::compile_knowing(plan, options, nullptr, [plan](const std::vector<Type>&) { return plan; });
}

std::unique_ptr<Executable> cuda::compile_knowing(const Plan& plan, Options options,
                                                  std::shared_ptr<KnownKernels> known, PlanAgain again) {
    const std::string reason = cuda_unavailable_reason();
    if (!reason.empty()) fail("compile_cuda: ", reason);
    return std::make_unique<CudaExecutable>(plan, std::move(options), std::move(known), std::move(again));
}

std::shared_ptr<cuda::KnownKernels> cuda::no_kernels_yet() { return std::make_shared<KnownKernels>(); }

}  // namespace transfuse
