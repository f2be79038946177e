// A lattice convolution alone, where no pass expresses what it stands in: as a dense pass of one step, in fp64 as
// everything that goes step by step, whatever the tensors hold.
#include <mutex>

#include "cpu/pass/pass.h"
#include "cpu/primitive/primitive.h"
#include "cpu/threads/thread_pool.h"
#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {

// Below so many multiply-adds finding the pass takes longer than element by element.
constexpr double fewest_products = 1 << 18;

struct Alone {
    Graph graph;
    Plan plan;
    std::unique_ptr<CompiledPass> compiled;  // null where there is none
};

// Those of late: a plan asks for the same again at every call.
std::shared_ptr<const Alone> alone(const Graph& graph) {
    static std::mutex mutex;
    static std::vector<std::shared_ptr<const Alone>> recent;
    constexpr size_t most = 8;
    const std::lock_guard lock(mutex);
    for (const auto& known : recent)
        if (known->graph == graph) return known;
    auto made = std::make_shared<Alone>();
    made->graph = graph;
    made->plan.graph = graph;
    made->plan.views.assign(static_cast<size_t>(graph.size()), false);
    const ValueId y = graph.outputs()[0];
    Pass& pass = made->plan.passes.emplace_back();
    pass.kind = PassKind::dense;
    pass.anchor = y;
    pass.steps = {{y, Scope::tile}};
    pass.stores = {{y, y, {}}};
    for (ValueId arg : graph[y].args) pass.reads.push_back(arg);
    made->compiled = compile_dense(made->plan, pass);
    if (recent.size() == most) recent.erase(recent.begin());
    recent.push_back(made);
    return made;
}

}  // namespace

bool evaluate_lattice_dense(const Node& node, std::span<const TensorView> args, const TensorView& out, int threads) {
    const double outputs = static_cast<double>(numel(out.shape)), terms = static_cast<double>(numel(args[1].shape));
    if (outputs * terms / static_cast<double>(args[1].shape[0] * args[1].shape[2]) < fewest_products) return false;
    Builder builder;
    Operands operands;
    for (size_t i = 0; i < args.size(); ++i)
        operands.push_back(builder.input("x" + std::to_string(i), {DType::f64, args[i].shape}));
    const ValueId y = builder.add(Op::lattice, operands, node.attributes);
    const std::shared_ptr<const Alone> pass = alone(builder.finish({y}, {"y"}));
    if (!pass->compiled || pass->graph[pass->graph.outputs()[0]].type.shape != out.shape) return false;
    const Memory memory(pass->plan, args, std::span(&out, 1));
    const std::unique_ptr<char, void (*)(char*)> workspace(
        static_cast<char*>(::operator new(pass->compiled->workspace_bytes() + 1, std::align_val_t(256))),
        [](char* p) { ::operator delete(p, std::align_val_t(256)); });
    pass->compiled->run({&memory, workspace.get(), threads});
    return true;
}

}  // namespace transfuse::cpu
