// A program's text, read for the sizes of a call; and the plans that were made for calls, found again by what the call
// is like (plans.cpp makes them).
#include "transfuse/program.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "cuda/assemble/executable.h"
#include "transfuse/algebra.h"
#include "transfuse/error.h"

namespace transfuse {
namespace {

constexpr int64_t frozen_bit = 1 << 8;  // of the second number of a signature

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

}  // namespace

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

Program::Signature& Program::signature(std::span<const TensorView> leaves, std::span<const TensorView> gradients,
                                       std::span<const int64_t> sizes, const CallMode& mode,
                                       const GradientRequest& request) const {
    Signature& signature = this->signature(leaves, sizes, mode);
    std::vector<int64_t>& key = signature.key;
    key.push_back(static_cast<int64_t>(request.outputs.size()));
    key.insert(key.end(), request.outputs.begin(), request.outputs.end());
    key.insert(key.end(), request.wrt.begin(), request.wrt.end());
    for (const TensorView& gradient : gradients) append_signature(key, gradient);
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

std::shared_ptr<const Instance> Program::met(Signature& signature) const {
    std::shared_lock lock(mutex_);
    const Entry* const found = put_number(signature) ? entries_.find(signature.key) : nullptr;
    if (found == nullptr) return nullptr;
    if (!found->instance) throw Error(found->failure);
    return found->instance;
}

std::shared_ptr<const Instance> Program::made(Signature& signature,
                                              const std::function<std::shared_ptr<const Instance>()>& make) {
    // One maker at a time: a second caller with the same signature finds what the first one made.
    std::lock_guard making(making_);
    if (auto instance = met(signature)) return instance;
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

}  // namespace transfuse
