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

// graph_of(types): the rewritten graph for leaves of these types, again, by itself. The options have the strides, and
// what the mode does not say of products.
template <class GraphOf>
std::shared_ptr<const Instance> make_instance(const Graph& rewritten, const CallMode& mode, cuda::Options options,
                                              const std::shared_ptr<cuda::KnownKernels>& kernels, GraphOf graph_of) {
    auto instance = std::make_shared<Instance>();
    for (ValueId id : rewritten.outputs()) instance->output_types.push_back(rewritten[id].type);
    instance->output_strides = options.output_strides;
    const Plan planned = plan(rewritten, machine_for(mode.engine));
    options.precision = mode.precision;
    options.freeze = mode.freeze;
    options.device = mode.device;
    options.autotune = mode.autotune;
    options.lean = mode.lean;
    switch (mode.engine) {
        case Engine::cpu:
            instance->executable = compile_cpu(planned, options);
            break;
        case Engine::cuda:
            instance->executable = cuda::compile_knowing(
                planned, std::move(options), kernels,
                [graph_of = std::move(graph_of), engine = mode.engine](const std::vector<Type>& leaf_types) {
                    return plan(graph_of(leaf_types), machine_for(engine));
                });
            break;
        case Engine::reference:
            instance->executable = compile_reference(planned, options);
            break;
    }
    instance->workspace_bytes = instance->executable->workspace_bytes();
    return instance;
}

}  // namespace

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

std::shared_ptr<const Instance> Program::forward(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                                 const CallMode& mode) {
    Signature& signature = this->signature(leaves, sizes, mode);
    if (auto known = met(signature)) return known;
    return made(signature, [&] {
        const Reading reading{graph(leaves, sizes)};
        const Graph graph = reading.forward(mode);
        cuda::Options options;
        options.leaf_strides = strides_of(leaves);
        options.output_strides = output_layout(reading.written, leaves);
        for (size_t j = options.output_strides.size(); j < graph.outputs().size(); ++j)  // what is kept
            options.output_strides.push_back(contiguous_strides(graph[graph.outputs()[j]].type.shape));
        options.strict_leaves = strict(mode, forward_products);
        return make_instance(graph, mode, std::move(options), kernels_,
                             [written = reading.written, mode](const std::vector<Type>& types) {
                                 return Reading{written.with_leaf_types(types)}.forward(mode);
                             });
    });
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

std::shared_ptr<const Instance> Program::backward(std::span<const TensorView> leaves,
                                                  std::span<const TensorView> gradients, std::span<const int64_t> sizes,
                                                  const CallMode& mode, const GradientRequest& request) {
    Signature& signature = this->signature(leaves, gradients, sizes, mode, request);
    if (auto known = met(signature)) return known;
    return made(signature, [&] {
        const Reading reading{graph(leaves, sizes)};
        const Graph graph = reading.backward(mode, request, gradients.size());
        cuda::Options options;
        options.leaf_strides = strides_of(leaves);
        for (const TensorView& view : gradients) options.leaf_strides.push_back(view.strides);
        // A gradient has the layout of its leaf, as autograd's accumulation would make it.
        for (ValueId leaf : request.wrt)
            options.output_strides.push_back(dense_like(leaves[static_cast<size_t>(leaf)]));
        // Products of the forward call are kept. Without that they are made again, as exactly as they were.
        options.strict_leaves = strict(mode, (Reading::keeps(mode) ? 0 : forward_products) | backward_products);
        const std::vector<bool> own = strict(mode, own_products);
        for (ValueId leaf : request.wrt)
            options.strict_outputs.push_back(!own.empty() && own[static_cast<size_t>(leaf)]);
        return make_instance(graph, mode, std::move(options), kernels_,
                             [written = reading.written, mode, request, of = leaves.size(),
                              given = gradients.size()](std::vector<Type> types) {
                                 types.resize(of);
                                 return Reading{written.with_leaf_types(types)}.backward(mode, request, given);
                             });
    });
}

std::string Program::stated(std::span<const TensorView> leaves, std::span<const int64_t> sizes, const CallMode& mode,
                            int arch, int multiprocessors, const GradientRequest& request) {
    const Reading reading{graph(leaves, sizes)};
    CompileOptions options;
    options.precision = mode.precision;
    options.leaf_strides = strides_of(leaves);
    std::vector<Sizes> results = output_layout(reading.written, leaves);
    Graph graph = reading.forward(mode);
    const auto contiguous_behind = [](std::vector<Sizes>& strides, const Graph& of, size_t from) {
        for (size_t j = from; j < of.outputs().size(); ++j)
            strides.push_back(contiguous_strides(of[of.outputs()[j]].type.shape));
    };
    const size_t own = results.size();  // what is kept lies behind
    if (request.wrt.empty()) {
        options.output_strides = std::move(results);
        contiguous_behind(options.output_strides, graph, own);
    } else {
        for (size_t j : request.outputs) options.leaf_strides.push_back(results[j]);
        contiguous_behind(options.leaf_strides, graph, own);
        for (ValueId leaf : request.wrt)
            options.output_strides.push_back(dense_like(leaves[static_cast<size_t>(leaf)]));
        graph = reading.backward(mode, request, request.outputs.size() + graph.outputs().size() - own);
    }
    cuda::Target target;
    target.arch = arch;
    if (multiprocessors > 0) target.multiprocessors = multiprocessors;
    if (arch < 90) target.shared_bytes = arch == 80 || arch == 87 ? 163 * 1024 : 99 * 1024;
    kernels_->keep_off_disk();
    return emit::stated(plan(graph, machine_for(Engine::cuda)), options, target, *kernels_);
}

}  // namespace transfuse
