#include "cpu/primitive/tail.h"

#include <algorithm>

#include "cpu/primitive/primitive.h"
#include "cpu/tensors/element.h"
#include "transfuse/error.h"

namespace transfuse::cpu {

Tail::Tail(const Plan& plan, const Pass& pass, bool tiles_elsewhere, WorkspaceLayout& layout)
    : plan_(plan), pass_(pass), all_(!tiles_elsewhere) {
    for (const TileStep& step : pass.steps) numbers_ += numel(plan.graph[step.value].type.shape);
    for (const TileStep& step : pass.steps) {
        if (!all_ && step.scope != Scope::grid && step.scope != Scope::tail) continue;
        // What is stored whole is computed in place; the rest takes a temporary.
        const bool stored = std::any_of(pass.stores.begin(), pass.stores.end(), [&](const Store& s) {
            return s.value == step.value && s.target == step.value;
        });
        const Type& type = plan.graph[step.value].type;
        const auto size = static_cast<size_t>(numel(type.shape) * bytes(held(step.value)));
        places_[step.value] = stored ? -1 : static_cast<int64_t>(layout.add(size));
    }
}

TensorView Tail::place(const Run& run, ValueId value) const {
    const int64_t at = places_.at(value);
    if (at < 0) return run.memory->target(value);
    const Type& type = plan_.graph[value].type;
    return {run.workspace + at, held(value), type.shape, contiguous_strides(type.shape)};
}

// Sums and what is made of them differ by little (an image's mean and the batch's; the gradient of a scale, whose terms
// nearly cancel), so between a pass's tiles and the end of its tail nothing is rounded to fp32, nor are the few numbers
// of a pass that is evaluated step by step. Sums of products in such a pass keep the arithmetic of their operands.
DType Tail::held(ValueId value) const {
    constexpr int64_t few = 1 << 16;
    const Node& node = plan_.graph[value];
    if (node.type.dtype != DType::f32) return node.type.dtype;
    const bool products = node.op == Op::correlate || node.op == Op::lattice;
    return !all_ || (numbers_ <= few && !products) ? DType::f64 : DType::f32;
}

void Tail::run(const Run& run) const {
    const Graph& graph = plan_.graph;
    const auto operand = [&](ValueId v) { return places_.contains(v) ? place(run, v) : run.memory->source(v); };
    for (const TileStep& step : pass_.steps) {
        if (!all_ && step.scope != Scope::tail) continue;
        std::vector<TensorView> args;
        for (ValueId arg : graph[step.value].args) args.push_back(operand(arg));
        evaluate_primitive(graph[step.value], args, place(run, step.value), run.threads);
    }
    for (const Store& store : pass_.stores) {
        const auto at = places_.find(store.value);
        if (at == places_.end() && !all_) continue;                                          // a tile stored it
        if (at != places_.end() && at->second < 0 && store.value == store.target) continue;  // computed in place
        TensorView from = operand(store.value);
        const TensorView to = run.memory->target(store);
        if (from.shape != to.shape) {  // a reshape into a tensor that is not contiguous: go by row-major position
            const Node node{Op::reshape, {store.value}, {}, graph[store.target].type, {}};
            evaluate_primitive(node, std::span(&from, 1), to, run.threads);
        } else {
            copy(from, to, run.threads);
        }
    }
}

namespace {

class StepsPass final : public CompiledPass {
public:
    StepsPass(const Plan& plan, const Pass& pass) : tail_(plan, pass, false, layout_) {}
    size_t workspace_bytes() const override { return layout_.total(); }
    void run(const Run& run) const override { tail_.run(run); }
    std::string describe() const override { return "step by step"; }

private:
    WorkspaceLayout layout_;
    Tail tail_;
};

}  // namespace

std::unique_ptr<CompiledPass> compile_steps(const Plan& plan, const Pass& pass) {
    return std::make_unique<StepsPass>(plan, pass);
}

}  // namespace transfuse::cpu
