#include "transfuse/program.h"

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>

#include "algebra/gradient/differentiable.h"
#include "cuda/assemble/executable.h"
#include "emit/stated.h"
#include "program/kept.h"
#include "program/layout.h"
#include "transfuse/algebra.h"
#include "transfuse/error.h"

namespace transfuse {
namespace {

constexpr int forward_products = 1, backward_products = 2, own_products = 4;  // of Program::products()
constexpr int64_t frozen_bit = 1 << 8;                                        // of the second number of a signature

bool starts_word(std::string_view text, size_t at, std::string_view word) {
    return text.substr(at, word.size()) == word;
}

void append_signature(std::vector<int64_t>& key, const TensorView& view) {
    key.push_back(static_cast<int64_t>(view.dtype) * 64 + static_cast<int64_t>(view.shape.size()));
    key.insert(key.end(), view.shape.begin(), view.shape.end());
    key.insert(key.end(), view.strides.begin(), view.strides.end());
}

std::vector<Type> types_of(std::span<const TensorView> views) {
    std::vector<Type> types;
    types.reserve(views.size());
    for (const TensorView& view : views) types.push_back({view.dtype, view.shape});
    return types;
}

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

Keep read_keep(std::span<const int64_t> numbers) {
    Keep keep;
    size_t at = 0;
    for (std::vector<ValueId>* list : {&keep.gradient.outputs, &keep.gradient.wrt}) {
        if (at == numbers.size()) return keep;
        const int64_t count = numbers[at++];
        require(count >= 0 && at + static_cast<size_t>(count) <= numbers.size(), "keep: ", count, " numbers expected");
        for (; static_cast<int64_t>(list->size()) < count; ++at) list->push_back(static_cast<ValueId>(numbers[at]));
    }
    for (; at < numbers.size(); ++at) keep.shared.push_back(static_cast<ValueId>(numbers[at]));
    return keep;
}

Program::Program(std::string text, size_t most)
    : text_(std::move(text)), entries_(most), kernels_(cuda::no_kernels_yet()) {
    std::string piece;
    int64_t leaf = 0;
    for (size_t at = 0; at < text_.size();) {
        const char c = text_[at];
        if (c == '$') {
            int64_t number = 0;
            const char* begin = text_.data() + at + 1;
            const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
            require(error == std::errc{}, "program: a number is expected after $");
            pieces_.push_back(std::move(piece));
            piece.clear();
            holes_.push_back(-1 - number);
            sizes_at_call_ = true;
            at += static_cast<size_t>(end - begin) + 1;
        } else if (c == '=' && (starts_word(text_, at, "= input ") || starts_word(text_, at, "= param "))) {
            const size_t line = text_.rfind('\n', at) + 1;
            const size_t name = text_.find('%', line) + 1;
            leaf_names_.push_back(text_.substr(name, text_.find_last_not_of(' ', at - 1) + 1 - name));
            parameter_.push_back(starts_word(text_, at, "= param "));
            piece += text_.substr(at, 8);
            pieces_.push_back(std::move(piece));
            piece.clear();
            holes_.push_back(leaf++);
            at = text_.find(']', at) + 1;
            require(at != 0, "program: leaf %", leaf_names_.back(), " has no type");
        } else {
            piece += c;
            ++at;
        }
    }
    pieces_.push_back(std::move(piece));
}

std::string Program::render(std::span<const TensorView> leaves, std::span<const int64_t> sizes) const {
    require(leaves.size() == leaf_names_.size(), "program: ", leaf_names_.size(), " tensors expected, got ",
            leaves.size());
    std::string text;
    text.reserve(text_.size() + 16 * holes_.size());
    for (size_t i = 0; i < holes_.size(); ++i) {
        text += pieces_[i];
        if (holes_[i] >= 0) {
            const TensorView& leaf = leaves[static_cast<size_t>(holes_[i])];
            text += name(leaf.dtype);
            text += to_string(leaf.shape);
        } else {
            const size_t number = static_cast<size_t>(-1 - holes_[i]);
            require(number < sizes.size(), "program: size $", number, " is used but ", sizes.size(), " were given");
            text += std::to_string(sizes[number]);
        }
    }
    return text + pieces_.back();
}

// What was read for other sizes, inferred anew. It holds for other extents of inputs, but not for another number of
// axes, other types or parameters, by which attributes were completed. None where it cannot be: reading then says why.
std::optional<Graph> Program::read_like(std::span<const TensorView> leaves) const {
    std::optional<Graph> read;
    {
        const std::lock_guard lock(read_mutex_);
        read = read_;
    }
    if (!read || leaves.size() != read->leaves().size()) return std::nullopt;
    const std::vector<Type> types = types_of(leaves);
    for (size_t i = 0; i < leaves.size(); ++i) {
        const Node& leaf = (*read)[read->leaves()[i]];
        const bool holds = leaf.op == Op::param
                               ? types[i] == leaf.type
                               : types[i].dtype == leaf.type.dtype && types[i].rank() == leaf.type.rank();
        if (!holds) return std::nullopt;
    }
    try {
        return read->with_leaf_types(types);
    } catch (const Error&) {
        return std::nullopt;
    }
}

Graph Program::graph(std::span<const TensorView> leaves, std::span<const int64_t> sizes) const {
    if (auto known = read_like(leaves)) return std::move(*known);
    Graph anew = parse(render(leaves, sizes));
    if (!sizes_at_call_) {
        const std::lock_guard lock(read_mutex_);
        read_ = anew;
    }
    return anew;
}

// In memory that each thread keeps for its next call.
Program::Signature& Program::signature(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                       const CallMode& mode) const {
    thread_local Signature signature;
    auto& [key, parameters] = signature;
    key.clear(), parameters.clear();
    key.push_back(0);  // the number
    key.push_back(static_cast<int64_t>(mode.engine) | static_cast<int64_t>(mode.precision) << 4 |
                  (mode.freeze ? frozen_bit : 0) | int64_t{mode.inference} << 9 | int64_t{mode.autotune} << 11 |
                  int64_t{mode.lean} << 12 | int64_t{mode.device} << 16 | int64_t{mode.products} << 32);
    for (size_t i = 0; i < leaves.size(); ++i)
        append_signature(i < parameter_.size() && parameter_[i] ? parameters : key, leaves[i]);
    key.insert(key.end(), sizes.begin(), sizes.end());
    if (!mode.keep.gradient.wrt.empty())
        for (const std::vector<ValueId>* list :
             {&mode.keep.gradient.outputs, &mode.keep.gradient.wrt, &mode.keep.shared}) {
            key.push_back(static_cast<int64_t>(list->size()));
            key.insert(key.end(), list->begin(), list->end());
        }
    return signature;
}

bool Program::put_number(Signature& signature) const {
    const auto at = std::ranges::find(parameters_, signature.parameters);
    signature.key.front() = forgotten_ + (at - parameters_.begin());
    return at != parameters_.end();
}

size_t Program::Hash::operator()(const std::vector<int64_t>& key) const {
    uint64_t h = 0x9E3779B97F4A7C15ULL;
    for (int64_t v : key) {
        h = (h ^ static_cast<uint64_t>(v)) * 0xFF51AFD7ED558CCDULL;
        h ^= h >> 29;
    }
    return h;
}

template <class Make>
std::shared_ptr<const Instance> Program::find(Signature& signature, const Make& make) {
    const auto known = [&]() -> std::shared_ptr<const Instance> {
        std::shared_lock lock(mutex_);
        const Entry* const found = put_number(signature) ? entries_.find(signature.key) : nullptr;
        if (found == nullptr) return nullptr;
        if (!found->instance) throw Error(found->failure);
        return found->instance;
    };
    if (auto instance = known()) return instance;
    // One maker at a time: a second caller with the same signature finds what the first one made.
    std::lock_guard making(making_);
    if (auto instance = known()) return instance;
    Entry entry;
    size_t bytes = sizeof(Entry) + sizeof(Instance) + signature.key.size() * sizeof(int64_t);
    try {
        entry.instance = make();
        bytes += entry.instance->executable->kept_bytes();
        ++plans_;
    } catch (const std::bad_alloc&) {  // of which the next call may hear nothing
        throw OutOfMemory("a plan of " + text_.substr(0, text_.find('{')));
    } catch (const OutOfMemory&) {
        throw;
    } catch (const std::exception& error) {
        entry.failure = error.what();
        ++failures_;
    }
    std::vector<Entry> dropped;  // what they prepared is given back when no call is waiting for the lock
    {
        std::unique_lock lock(mutex_);
        if (!put_number(signature)) {
            parameters_.push_back(signature.parameters);
            if (parameters_.size() > most_parameters) parameters_.pop_front(), ++forgotten_;
        }
        dropped = entries_.put(signature.key, entry, bytes);
    }
    if (!entry.instance) throw Error(entry.failure);
    return entry.instance;
}

void Program::forget_frozen() {
    std::vector<Entry> dropped;
    const std::lock_guard making(making_);
    std::unique_lock lock(mutex_);
    dropped =
        entries_.take_if([](const std::vector<int64_t>& key, const Entry&) { return (key[1] & frozen_bit) != 0; });
}

std::shared_ptr<const Instance> Program::forward(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                                 const CallMode& mode) {
    return find(signature(leaves, sizes, mode), [&] {
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
    Signature& signature = this->signature(leaves, sizes, mode);
    std::vector<int64_t>& key = signature.key;
    key.push_back(static_cast<int64_t>(request.outputs.size()));
    key.insert(key.end(), request.outputs.begin(), request.outputs.end());
    key.insert(key.end(), request.wrt.begin(), request.wrt.end());
    for (const TensorView& gradient : gradients) append_signature(key, gradient);
    return find(signature, [&] {
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

ProgramStatistics Program::statistics() const { return {plans_.load(), failures_.load()}; }

std::vector<std::shared_ptr<const Instance>> Program::instances() const {
    std::vector<std::shared_ptr<const Instance>> all;
    std::shared_lock lock(mutex_);
    entries_.each([&](const auto&, const Entry& entry) {
        if (entry.instance) all.push_back(entry.instance);
    });
    return all;
}

size_t Program::bytes() const {
    std::shared_lock lock(mutex_);
    return entries_.weight();
}

namespace {

struct Held {
    std::shared_ptr<Program> program;
    int64_t holders = 0;
    bool salted = false;
};

struct Registry {
    std::shared_mutex mutex;
    std::unordered_map<int64_t, Held> held;
    Recent<int64_t, std::shared_ptr<Program>> loose{size_t{256} << 20};  // that nobody holds

    std::shared_ptr<Program> find(int64_t handle) const {
        if (const auto at = held.find(handle); at != held.end()) return at->second.program;
        const std::shared_ptr<Program>* const found = loose.find(handle);
        return found != nullptr ? *found : nullptr;
    }
    // Gives what is dropped for it, to go away where no lock is held.
    [[nodiscard]] auto let_loose(int64_t handle, std::shared_ptr<Program> program) {
        constexpr size_t about = size_t{1} << 20;  // of its text, its forms and its kernels' texts
        const size_t bytes = about + program->bytes();
        return loose.put(handle, std::move(program), bytes);
    }
};

Registry& registry() {
    static Registry* const all = new Registry;  // never destroyed: calls may outlive static destruction
    return *all;
}

int64_t named(const std::string& text, uint64_t salt, bool hold) {
    uint64_t h = 0xCBF29CE484222325ULL ^ salt * 0x9E3779B97F4A7C15ULL;  // FNV-1a
    for (unsigned char c : text) h = (h ^ c) * 0x100000001B3ULL;
    Registry& all = registry();
    std::vector<std::shared_ptr<Program>> dropped;
    const std::unique_lock lock(all.mutex);
    for (auto handle = static_cast<int64_t>(h >> 1);; ++handle) {
        std::shared_ptr<Program> program = all.find(handle);
        if (program && program->text() != text) continue;
        const bool fresh = !program;
        if (fresh) program = std::make_shared<Program>(text);
        if (!hold) {
            if (fresh) dropped = all.let_loose(handle, std::move(program));
            return handle;
        }
        Held& held = all.held[handle];
        if (held.holders++ == 0) {
            held.program = std::move(program), held.salted = salt != 0;
            dropped = all.loose.take_if([&](int64_t other, const auto&) { return other == handle; });
        }
        return handle;
    }
}

}  // namespace

int64_t define_program(const std::string& text) { return named(text, 0, false); }

int64_t hold_program(const std::string& text, uint64_t salt) { return named(text, salt, true); }

void release_program(int64_t handle) {
    Registry& all = registry();
    std::shared_ptr<Program> released;
    std::vector<std::shared_ptr<Program>> dropped;
    const std::unique_lock lock(all.mutex);
    const auto at = all.held.find(handle);
    if (at == all.held.end() || --at->second.holders > 0) return;
    released = std::move(at->second.program);
    const bool salted = at->second.salted;
    all.held.erase(at);
    if (!salted) dropped = all.let_loose(handle, std::move(released));
}

std::shared_ptr<Program> program(int64_t handle) {
    Registry& all = registry();
    std::shared_lock lock(all.mutex);
    std::shared_ptr<Program> found = all.find(handle);
    require(found != nullptr, "no Transfuse program has the handle ", handle, " in this process");
    return found;
}

}  // namespace transfuse
