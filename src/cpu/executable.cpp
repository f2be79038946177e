// The CPU engine: a plan's passes, one after another, each a parallel loop.
#include <atomic>
#include <mutex>
#include <sstream>

#include "cpu/element.h"
#include "cpu/pass.h"
#include "cpu/primitive.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"

namespace transfuse {
namespace cpu {
namespace {

void check(const TensorView& view, const Type& type, const char* what, const std::string& name) {
    require(view.dtype == type.dtype && view.shape == type.shape, what, " ", name, ": expected ", to_string(type), ", got ",
            to_string(Type{view.dtype, view.shape}));
    require(view.strides.size() == view.shape.size(), what, " ", name, ": expected ", view.shape.size(), " strides, got ",
            view.strides.size());
    require(view.data != nullptr || numel(view.shape) == 0, what, " ", name, ": expected a pointer to ", to_string(type), ", got null");
}

// No two elements of a result may share a place: sort axes by stride, each must step over all that lie below it.
void check_disjoint(const TensorView& view, const std::string& name) {
    if (numel(view.shape) == 0) return;
    std::vector<std::pair<int64_t, int64_t>> axes;
    for (size_t i = 0; i < view.shape.size(); ++i)
        if (view.shape[i] > 1) axes.emplace_back(std::abs(view.strides[i]), view.shape[i]);
    std::sort(axes.begin(), axes.end());
    int64_t reach = 0;
    for (const auto& [stride, extent] : axes) {
        require(stride > reach, "output ", name, ": strides ", to_string(view.strides), " of shape ", to_string(view.shape),
                " make elements overlap");
        reach += stride * (extent - 1);
    }
}

class CpuExecutable final : public Executable {
public:
    CpuExecutable(const Plan& plan, const CompileOptions& options) : plan_(plan), options_(options) {
        for (const Pass& pass : plan_.passes) passes_.push_back(compile_pass(plan_, pass));
        for (ValueId value : plan_.buffers()) {
            const Type& type = plan_.graph[value].type;
            const auto bytes_needed = static_cast<size_t>(checked_mul(numel(type.shape), bytes(type.dtype), "buffer"));
            if (options_.freeze && prepared(value)) frozen_.emplace_back(value, frozen_layout_.add(bytes_needed));
            else buffers_.emplace_back(value, layout_.add(bytes_needed));
        }
        size_t pass_bytes = 0;
        for (const auto& pass : passes_) pass_bytes = std::max(pass_bytes, pass->workspace_bytes());
        pass_offset_ = layout_.add(pass_bytes);
        if (!frozen_.empty()) {
            frozen_memory_.reset(static_cast<char*>(::operator new(frozen_layout_.total(), std::align_val_t(256))));
        }
    }

    size_t workspace_bytes() const override { return layout_.total(); }

    void run(std::span<const TensorView> leaves, std::span<const TensorView> outputs, const RunContext& context) override {
        const Graph& graph = plan_.graph;
        require(leaves.size() == graph.leaves().size(), "run: expected ", graph.leaves().size(), " leaves, got ", leaves.size());
        require(outputs.size() == graph.outputs().size(), "run: expected ", graph.outputs().size(), " outputs, got ",
                outputs.size());
        for (size_t i = 0; i < leaves.size(); ++i)
            check(leaves[i], graph[graph.leaves()[i]].type, "leaf", graph[graph.leaves()[i]].name);
        for (size_t i = 0; i < outputs.size(); ++i) {
            check(outputs[i], graph[graph.outputs()[i]].type, "output", graph.output_names()[i]);
            check_disjoint(outputs[i], graph.output_names()[i]);
        }
        require(context.workspace != nullptr || workspace_bytes() == 0, "run: expected a workspace of ", workspace_bytes(),
                " bytes, got null");
        require(context.threads >= 0, "run: threads must not be negative, got ", context.threads);

        auto* workspace = static_cast<char*>(context.workspace);
        Memory memory(plan_, leaves, outputs);
        for (const auto& [value, offset] : buffers_) memory.place(value, workspace + offset);
        for (const auto& [value, offset] : frozen_) memory.place(value, frozen_memory_.get() + offset);
        const Run run{&memory, workspace + pass_offset_, context.threads};
        for (size_t p = 0; p < passes_.size(); ++p) {
            if (options_.freeze && plan_.passes[p].kind == PassKind::prepare) run_once(*passes_[p], run);
            else passes_[p]->run(run);
        }
        for (size_t i = 0; i < outputs.size(); ++i) {  // a value that stands twice among the outputs
            const TensorView& first = memory.target(graph.outputs()[i]);
            if (first.data != outputs[i].data) copy(first, outputs[i], context.threads);
        }
    }

    std::string describe() const override {
        std::ostringstream text;
        for (size_t p = 0; p < passes_.size(); ++p) text << "pass " << p << ": " << passes_[p]->describe() << "\n";
        return text.str();
    }

private:
    bool prepared(ValueId value) const {
        for (const Pass& pass : plan_.passes)
            if (pass.kind == PassKind::prepare)
                for (const Store& store : pass.stores)
                    if (store.target == value) return true;
        return false;
    }

    void run_once(const CompiledPass& pass, const Run& run) {
        std::lock_guard lock(prepare_mutex_);
        if (!is_prepared_) pass.run(run);
        is_prepared_ = true;
    }

    struct AlignedDelete {
        void operator()(char* p) const { ::operator delete(p, std::align_val_t(256)); }
    };

    const Plan plan_;
    const CompileOptions options_;
    std::vector<std::unique_ptr<CompiledPass>> passes_;
    std::vector<std::pair<ValueId, size_t>> buffers_, frozen_;
    WorkspaceLayout layout_, frozen_layout_;
    size_t pass_offset_ = 0;
    std::unique_ptr<char, AlignedDelete> frozen_memory_;
    std::mutex prepare_mutex_;
    bool is_prepared_ = false;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Executable> compile_cpu(const Plan& plan, const CompileOptions& options) {
    return std::make_unique<cpu::CpuExecutable>(plan, options);
}

}  // namespace transfuse
