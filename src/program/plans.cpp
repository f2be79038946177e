// From a program's text, for some leaves, to the plan of a call: rewritten, differentiated where it is asked for, cut
// into passes, compiled.
#include <algorithm>
#include <thread>
#include <utility>

#include "algebra/gradient/differentiable.h"
#include "cuda/assemble/executable.h"
#include "emit/stated.h"
#include "program/kept.h"
#include "program/layout.h"
#include "transfuse/algebra.h"
#include "transfuse/error.h"
#include "transfuse/program.h"

namespace transfuse {
namespace {

constexpr int forward_products = 1, backward_products = 2, own_products = 4;  // of Program::products()

std::vector<Sizes> strides_of(std::span<const TensorView> views) {
    std::vector<Sizes> strides;
    strides.reserve(views.size());
    for (const TensorView& view : views) strides.push_back(view.strides);
    return strides;
}

Machine machine_for(Engine engine) {
    if (engine == Engine::cuda) return Machine::h200();
    // All cores, whatever number a call may use: the plan, and so the result, must not depend on the thread count.
    static const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return Machine::cpu(cores);
}

}  // namespace

// What a call is compiled of.
struct Program::Asked {
    Graph graph;  // as it runs
    cuda::Options options;
    std::function<Graph(const std::vector<Type>&)> again;  // the graph for leaves of these types, by itself
};

std::shared_ptr<const Instance> Program::compiled(Asked asked, const CallMode& mode) const {
    auto instance = std::make_shared<Instance>();
    for (ValueId id : asked.graph.outputs()) instance->output_types.push_back(asked.graph[id].type);
    instance->output_strides = asked.options.output_strides;
    const Plan planned = plan(asked.graph, machine_for(mode.engine));
    asked.options.freeze = mode.freeze;
    asked.options.device = mode.device;
    asked.options.autotune = mode.autotune;
    asked.options.lean = mode.lean;
    switch (mode.engine) {
        case Engine::cpu:
            instance->executable = compile_cpu(planned, asked.options);
            break;
        case Engine::cuda:
            instance->executable = cuda::compile_knowing(
                planned, std::move(asked.options), kernels_,
                [again = std::move(asked.again), engine = mode.engine](const std::vector<Type>& leaf_types) {
                    return plan(again(leaf_types), machine_for(engine));
                });
            break;
        case Engine::reference:
            instance->executable = compile_reference(planned, asked.options);
            break;
    }
    instance->workspace_bytes = instance->executable->workspace_bytes();
    return instance;
}

// The graph as it is written, for some leaves.
struct Program::Reading {
    Graph written;

    Graph rewritten(const CallMode& mode, bool inference) const {
        const RewriteOptions options{
            .inference = inference, .without = {}, .only = {}, .prices = machine_for(mode.engine).prices};
        return rewrite(written, options).rewritten;
    }
    // Of a call that keeps something the form that is differentiated, as it runs; and what it keeps is given as well.
    Graph forward(const CallMode& mode) const {
        if (!keeps(mode)) return rewritten(mode, mode.inference);
        const Differentiated whole = differentiated(mode, mode.keep.gradient);
        RewriteOptions rest{.inference = false, .without = {}, .only = {}, .prices = machine_for(mode.engine).prices};
        rest.forks = false;  // what is kept is made in one form
        return rewrite(giving(whole.form.forward, kept(mode, whole)), rest).rewritten;
    }
    // Of a call that takes what was kept; throws Error where that is not what was given.
    Graph backward(const CallMode& mode, const GradientRequest& request, size_t given) const {
        const Differentiated whole = differentiated(mode, keeps(mode) ? mode.keep.gradient : request);
        Graph graph = whole.gradient;
        size_t count = 0;
        if (keeps(mode)) {
            const Graph& forward = whole.form.forward;
            std::vector<ValueId> taken = kept(mode, whole);
            for (ValueId output : mode.keep.shared) taken.push_back(forward.outputs()[static_cast<size_t>(output)]);
            if (request.outputs != mode.keep.gradient.outputs || request.wrt != mode.keep.gradient.wrt)
                graph = gradient(forward, request);
            graph = taking(graph, forward, taken);
            count = taken.size();
        }
        require(request.outputs.size() + count == given, "backward: ", request.outputs.size(), " gradients and ", count,
                " kept tensors expected, got ", given);
        return rewrite(graph, whole.form.options).rewritten;
    }

    static bool keeps(const CallMode& mode) { return !mode.inference && !mode.keep.gradient.wrt.empty(); }

private:
    struct Differentiated {
        Differentiable form;
        Graph gradient;
    };
    Differentiated differentiated(const CallMode& mode, const GradientRequest& request) const {
        const Differentiable form = differentiable(written, request, machine_for(mode.engine).prices);
        return {form, gradient(form.forward, request)};
    }
    static std::vector<ValueId> kept(const CallMode& mode, const Differentiated& whole) {
        const Graph& forward = whole.form.forward;
        std::vector<ValueId> shared;
        for (ValueId output : mode.keep.shared) {
            require(output >= 0 && static_cast<size_t>(output) < forward.outputs().size(), "keep: there is no output ",
                    output);
            shared.push_back(forward.outputs()[static_cast<size_t>(output)]);
        }
        return kept_values(forward, whole.gradient, shared, machine_for(mode.engine));
    }
};

int Program::products(std::vector<uint8_t> of_leaves) {
    if (of_leaves.size() != leaf_count()) throw Error("Program::products() takes a number for each leaf");
    const std::lock_guard lock(products_mutex_);
    const auto known = std::ranges::find(products_, of_leaves);
    const auto place = known - products_.begin();
    if (known == products_.end()) products_.push_back(std::move(of_leaves));
    return static_cast<int>(place) + 1;
}

std::vector<bool> Program::strict(const CallMode& mode, int kinds) {
    if (mode.products == 0) return {};
    const std::lock_guard lock(products_mutex_);
    if (mode.products < 0 || static_cast<size_t>(mode.products) > products_.size())
        throw Error("a number that Program::products() did not give");
    const std::vector<uint8_t>& told = products_[static_cast<size_t>(mode.products) - 1];
    std::vector<bool> found;
    for (const uint8_t leaf : told) found.push_back((leaf & kinds) != 0);
    return found;
}

Program::Asked Program::asked_forward(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                      const CallMode& mode) {
    const Reading reading{graph(leaves, sizes)};
    Graph graph = reading.forward(mode);
    cuda::Options options;
    options.precision = mode.precision;
    options.leaf_strides = strides_of(leaves);
    options.output_strides = output_layout(reading.written, leaves);
    for (size_t j = options.output_strides.size(); j < graph.outputs().size(); ++j)  // what is kept
        options.output_strides.push_back(contiguous_strides(graph[graph.outputs()[j]].type.shape));
    options.strict_leaves = strict(mode, forward_products);
    return {std::move(graph), std::move(options), [written = reading.written, mode](const std::vector<Type>& types) {
                return Reading{written.with_leaf_types(types)}.forward(mode);
            }};
}

std::shared_ptr<const Instance> Program::forward(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                                 const CallMode& mode) {
    Signature& signature = this->signature(leaves, sizes, mode);
    if (auto known = met(signature)) return known;
    return made(signature, [&] { return compiled(asked_forward(leaves, sizes, mode), mode); });
}

std::vector<bool> Program::outputs_channels_last(std::span<const TensorView> leaves,
                                                 std::span<const int64_t> sizes) const {
    const Graph written = graph(leaves, sizes);
    const std::vector<Sizes> strides = output_layout(written, leaves);
    std::vector<bool> last;
    for (size_t i = 0; i < strides.size(); ++i)
        last.push_back(strides[i] != contiguous_strides(written[written.outputs()[i]].type.shape));
    return last;
}

std::vector<std::pair<Type, Sizes>> Program::kept(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                                  const CallMode& mode) const {
    const Reading reading{graph(leaves, sizes)};
    const Graph graph = reading.forward(mode);
    std::vector<std::pair<Type, Sizes>> found;
    for (size_t j = reading.written.outputs().size(); j < graph.outputs().size(); ++j) {
        const Type& type = graph[graph.outputs()[j]].type;
        found.emplace_back(type, contiguous_strides(type.shape));
    }
    return found;
}

Program::Asked Program::asked_backward(std::span<const TensorView> leaves, std::span<const TensorView> gradients,
                                       std::span<const int64_t> sizes, const CallMode& mode,
                                       const GradientRequest& request) {
    const Reading reading{graph(leaves, sizes)};
    cuda::Options options;
    options.precision = mode.precision;
    options.leaf_strides = strides_of(leaves);
    for (const TensorView& view : gradients) options.leaf_strides.push_back(view.strides);
    // A gradient has the layout of its leaf, as autograd's accumulation would make it.
    for (ValueId leaf : request.wrt) options.output_strides.push_back(dense_like(leaves[static_cast<size_t>(leaf)]));
    // Products of the forward call are kept. Without that they are made again, as exactly as they were.
    options.strict_leaves = strict(mode, (Reading::keeps(mode) ? 0 : forward_products) | backward_products);
    const std::vector<bool> own = strict(mode, own_products);
    for (ValueId leaf : request.wrt) options.strict_outputs.push_back(!own.empty() && own[static_cast<size_t>(leaf)]);
    return {reading.backward(mode, request, gradients.size()), std::move(options),
            [written = reading.written, mode, request, of = leaves.size(),
             given = gradients.size()](std::vector<Type> types) {
                types.resize(of);
                return Reading{written.with_leaf_types(types)}.backward(mode, request, given);
            }};
}

std::shared_ptr<const Instance> Program::backward(std::span<const TensorView> leaves,
                                                  std::span<const TensorView> gradients, std::span<const int64_t> sizes,
                                                  const CallMode& mode, const GradientRequest& request) {
    Signature& signature = this->signature(leaves, gradients, sizes, mode, request);
    if (auto known = met(signature)) return known;
    return made(signature, [&] { return compiled(asked_backward(leaves, gradients, sizes, mode, request), mode); });
}

std::string Program::stated(std::span<const TensorView> leaves, std::span<const int64_t> sizes, const CallMode& mode,
                            int arch, const GradientRequest& request) {
    Asked asked = asked_forward(leaves, sizes, mode);
    if (!request.wrt.empty()) {
        // Gradients lie as results do; what is kept, and results that are kept anyway, stand behind them.
        const std::vector<ValueId>& results = asked.graph.outputs();
        std::vector<TensorView> given;
        const auto give = [&](size_t j) {
            const Type& type = asked.graph[results[j]].type;
            given.push_back({nullptr, type.dtype, type.shape, asked.options.output_strides[j]});
        };
        for (ValueId output : request.outputs) give(static_cast<size_t>(output));
        for (size_t j = graph(leaves, sizes).outputs().size(); j < results.size(); ++j) give(j);
        for (ValueId output : mode.keep.shared) give(static_cast<size_t>(output));
        asked = asked_backward(leaves, given, sizes, mode, request);
    }
    cuda::Target target;
    target.arch = arch;
    if (arch < 90) target.shared_bytes = arch == 80 || arch == 87 ? 163 * 1024 : 99 * 1024;
    kernels_->keep_off_disk();
    return emit::stated(plan(asked.graph, machine_for(Engine::cuda)), asked.options, target, *kernels_);
}

}  // namespace transfuse
