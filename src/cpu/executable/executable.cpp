// The CPU engine: a plan's passes, one after another, each a parallel loop.
#include <algorithm>
#include <mutex>
#include <sstream>
#include <tuple>

#include "cpu/pass/pass.h"
#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"

namespace transfuse {
namespace cpu {
namespace {

// (Words are made only for a view that is refused: of a small graph they would cost more than its passes.)
void check(const TensorView& view, const Type& type, const char* what, const std::string& name) {
    if (view.dtype != type.dtype || view.shape != type.shape)
        fail(what, " ", name, ": expected ", to_string(type), ", got ", to_string(Type{view.dtype, view.shape}));
    require(view.strides.size() == view.shape.size(), what, " ", name, ": expected ", view.shape.size(),
            " strides, got ", view.strides.size());
    if (view.data == nullptr && numel(view.shape) > 0)
        fail(what, " ", name, ": expected a pointer to ", to_string(type), ", got null");
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
        if (stride <= reach)
            fail("output ", name, ": strides ", to_string(view.strides), " of shape ", to_string(view.shape),
                 " make elements overlap");
        reach += stride * (extent - 1);
    }
}

// Buffers whose lifetimes (passes from first store to last read) do not meet may share memory: largest first, each at
// the lowest place that is free for as long as it lives. What a pass needs for itself is a buffer that lives no longer.
struct Buffer {
    ValueId value;  // −1: a pass's own
    size_t bytes;
    size_t first, last;  // passes
    size_t offset = 0;
};

size_t place(std::vector<Buffer>& buffers) {
    std::sort(buffers.begin(), buffers.end(),
              [](const Buffer& a, const Buffer& b) { return std::tie(b.bytes, a.value) < std::tie(a.bytes, b.value); });
    size_t total = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
        Buffer& buffer = buffers[i];
        std::vector<std::pair<size_t, size_t>> taken;
        for (size_t j = 0; j < i; ++j)
            if (buffers[j].first <= buffer.last && buffer.first <= buffers[j].last)
                taken.emplace_back(buffers[j].offset, buffers[j].offset + buffers[j].bytes);
        std::sort(taken.begin(), taken.end());
        for (const auto& [begin, end] : taken)
            if (buffer.offset + buffer.bytes > begin) buffer.offset = std::max(buffer.offset, end);
        total = std::max(total, buffer.offset + buffer.bytes);
    }
    return total;
}

class CpuExecutable final : public Executable {
public:
    CpuExecutable(const Plan& plan, const CompileOptions& options)
        : plan_(plan), freeze_(options.freeze && !prepares_outputs(plan)) {
        for (const Pass& pass : plan_.passes) passes_.push_back(compile_pass(plan_, pass));
        const auto lives = lifetimes();
        for (ValueId value : plan_.buffers()) {
            const Type& type = plan_.graph[value].type;
            const auto size = static_cast<size_t>(checked_mul(numel(type.shape), bytes(type.dtype), "buffer"));
            if (freeze_ && prepared(value))
                frozen_.emplace_back(value, frozen_layout_.add(size));
            else
                buffers_.push_back({value, (size + 255) / 256 * 256, lives[static_cast<size_t>(value)].first,
                                    lives[static_cast<size_t>(value)].second});
        }
        for (size_t p = 0; p < passes_.size(); ++p)
            buffers_.push_back({-1, (passes_[p]->workspace_bytes() + 255) / 256 * 256, p, p});
        workspace_bytes_ = place(buffers_);
        own_.resize(passes_.size());
        for (const Buffer& buffer : buffers_)
            if (buffer.value < 0) own_[buffer.first] = buffer.offset;
        std::erase_if(buffers_, [](const Buffer& buffer) { return buffer.value < 0; });
        if (!frozen_.empty()) {
            frozen_memory_.reset(static_cast<char*>(::operator new(frozen_layout_.total(), std::align_val_t(256))));
        }
    }

    size_t workspace_bytes() const override { return workspace_bytes_; }

    size_t kept_bytes() const override {
        size_t all = sizeof *this + plan_.bytes() + frozen_layout_.total();
        for (const auto& pass : passes_) all += pass->kept_bytes();
        return all;
    }

    void run(std::span<const TensorView> leaves, std::span<const TensorView> outputs,
             const RunContext& context) override {
        const Graph& graph = plan_.graph;
        require(leaves.size() == graph.leaves().size(), "run: expected ", graph.leaves().size(), " leaves, got ",
                leaves.size());
        require(outputs.size() == graph.outputs().size(), "run: expected ", graph.outputs().size(), " outputs, got ",
                outputs.size());
        for (size_t i = 0; i < leaves.size(); ++i)
            check(leaves[i], graph[graph.leaves()[i]].type, "leaf", graph[graph.leaves()[i]].name);
        for (size_t i = 0; i < outputs.size(); ++i) {
            check(outputs[i], graph[graph.outputs()[i]].type, "output", graph.output_names()[i]);
            check_disjoint(outputs[i], graph.output_names()[i]);
        }
        require(context.workspace != nullptr || workspace_bytes() == 0, "run: expected a workspace of ",
                workspace_bytes(), " bytes, got null");
        require(context.threads >= 0, "run: threads must not be negative, got ", context.threads);

        auto* workspace = static_cast<char*>(context.workspace);
        Memory memory(plan_, leaves, outputs);
        for (const Buffer& buffer : buffers_) memory.place(buffer.value, workspace + buffer.offset);
        for (const auto& [value, offset] : frozen_) {
            memory.place(value, frozen_memory_.get() + offset);
            memory.fix(value);
        }
        if (freeze_)
            for (ValueId leaf : graph.leaves())
                if (graph[leaf].op == Op::param) memory.fix(leaf);
        for (size_t p = 0; p < passes_.size(); ++p) {
            const Run run{&memory, workspace + own_[p], context.threads};
            if (freeze_ && plan_.passes[p].kind == PassKind::prepare)
                run_once(*passes_[p], run);
            else
                passes_[p]->run(run);
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
    // An output that depends on parameters alone is the caller's memory, written at every call.
    static bool prepares_outputs(const Plan& plan) {
        const std::vector<ValueId>& outputs = plan.graph.outputs();
        for (const Pass& pass : plan.passes)
            if (pass.kind == PassKind::prepare)
                for (const Store& store : pass.stores)
                    if (std::find(outputs.begin(), outputs.end(), store.target) != outputs.end()) return true;
        return false;
    }

    // Per value: the first and the last pass that touches its memory.
    std::vector<std::pair<size_t, size_t>> lifetimes() const {
        std::vector<std::pair<size_t, size_t>> lives(static_cast<size_t>(plan_.graph.size()), {plan_.passes.size(), 0});
        for (size_t p = 0; p < plan_.passes.size(); ++p) {
            const auto touch = [&](ValueId value) {
                auto& [first, last] = lives[static_cast<size_t>(value)];
                first = std::min(first, p), last = p;
            };
            for (const Store& store : plan_.passes[p].stores) touch(store.target), touch(view_root(plan_, store.value));
            for (ValueId read : plan_.passes[p].reads) touch(view_root(plan_, read));
        }
        return lives;
    }

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
    const bool freeze_;
    std::vector<std::unique_ptr<CompiledPass>> passes_;
    std::vector<Buffer> buffers_;
    std::vector<std::pair<ValueId, size_t>> frozen_;
    WorkspaceLayout frozen_layout_;
    size_t workspace_bytes_ = 0;
    std::vector<size_t> own_;  // of each pass: where in the workspace its own lies
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
