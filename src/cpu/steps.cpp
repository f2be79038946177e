#include <algorithm>

#include "cpu/element.h"
#include "cpu/pass.h"
#include "cpu/primitive.h"
#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

class StepsPass final : public CompiledPass {
public:
    StepsPass(const Plan& plan, const Pass& pass) : plan_(plan), pass_(pass), place_(plan.graph.nodes().size(), -1) {
        for (const TileStep& step : pass.steps) {
            // What is stored whole is computed in place; the rest takes a temporary.
            const bool stored = std::any_of(pass.stores.begin(), pass.stores.end(), [&](const Store& s) {
                return s.value == step.value && s.target == step.value;
            });
            const Type& type = plan.graph[step.value].type;
            if (!stored)
                place_[static_cast<size_t>(step.value)] =
                    static_cast<int64_t>(layout_.add(static_cast<size_t>(numel(type.shape) * bytes(type.dtype))));
        }
    }

    size_t workspace_bytes() const override { return layout_.total(); }

    void run(const Run& run) const override {
        const Graph& graph = plan_.graph;
        std::vector<bool> computed(graph.nodes().size(), false);
        const auto local = [&](ValueId v) -> TensorView {
            const int64_t place = place_[static_cast<size_t>(v)];
            if (place < 0) return run.memory->target(v);
            const Type& type = graph[v].type;
            return {run.workspace + place, type.dtype, type.shape, contiguous_strides(type.shape)};
        };
        const auto operand = [&](ValueId v) { return computed[static_cast<size_t>(v)] ? local(v) : run.memory->source(v); };
        for (const TileStep& step : pass_.steps) {
            std::vector<TensorView> args;
            for (ValueId arg : graph[step.value].args) args.push_back(operand(arg));
            evaluate_primitive(graph[step.value], args, local(step.value), run.threads);
            computed[static_cast<size_t>(step.value)] = true;
        }
        for (const Store& store : pass_.stores) {
            if (store.value == store.target && computed[static_cast<size_t>(store.value)]) continue;
            TensorView from = operand(store.value);
            const TensorView to = run.memory->target(store);
            if (from.shape != to.shape) {  // a reshape into a tensor that is not contiguous: go by row-major position
                Node node{Op::reshape, {store.value}, {}, graph[store.target].type, {}};
                evaluate_primitive(node, std::span(&from, 1), to, run.threads);
            } else {
                copy(from, to, run.threads);
            }
        }
    }

    std::string describe() const override { return "step by step"; }

private:
    const Plan& plan_;
    const Pass& pass_;
    std::vector<int64_t> place_;
    WorkspaceLayout layout_;
};

}  // namespace

std::unique_ptr<CompiledPass> compile_steps(const Plan& plan, const Pass& pass) {
    return std::make_unique<StepsPass>(plan, pass);
}

}  // namespace transfuse::cpu
