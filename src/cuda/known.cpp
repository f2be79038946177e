#include "cuda/known.h"

#include <algorithm>
#include <bit>

#include "cuda/runtime/cache.h"

namespace transfuse::cuda {

namespace {

// How much slower a kernel may be, in proportion and in seconds.
struct Slack {
    double factor, seconds;
    bool exceeded(double slow, double fast) const { return slow > std::max(factor * fast, fast + seconds); }
};
// A kernel of its own is worth its compilation, of a second or so, where it is estimated that much faster: the second
// of a structure, and any further one.
constexpr Slack second{1.35, 2e-6}, further{2.5, 10e-6};
// It then is made for sizes up to so many times as large, if the size at hand can bear it.
constexpr int largest = 4;
constexpr Slack bearable{1.5, 10e-6};
constexpr double full = 0.7;  // DenseProgram::busy: below this another tile may be much better

std::string words(const Lattice& axis) {
    std::string text;
    for (int64_t n : {axis.up, axis.down, axis.dil, axis.offset, axis.taps}) text += std::to_string(n) + ",";
    return text + (axis.down == 1 ? std::to_string(axis.out - axis.up * axis.in) : "") + ";";
}

// Roughly: texts are compared before one serves for another.
std::string structure_of(const Surroundings& around) {
    const Graph& graph = around.plan.graph;
    const Target& target = around.target;
    std::string text = std::to_string(target.arch) + "/" + std::to_string(target.multiprocessors) + "/" +
                       std::to_string(target.shared_bytes) + (target.portable_only ? "p" : "") +
                       (around.aligned ? "a" : "") + std::to_string(static_cast<int>(around.precision)) + ";";
    for (const Lattice& axis : lattices(graph, around.pass.anchor)) text += words(axis);
    text += to_string(graph[graph[around.pass.anchor].args[1]].type);
    for (const TileStep& step : around.pass.steps) {
        const Node& node = graph[step.value];
        text += ";" + std::string(name(node.op)) + std::to_string(step.value) + "@" +
                std::to_string(static_cast<int>(step.scope)) + std::string(name(node.type.dtype));
    }
    return text;
}

std::string disk_key(const std::string& structure, const std::string& size) {
    return "known-1|" + structure + "|" + size;
}

}  // namespace

std::vector<KnownKernel> KnownKernels::of(const std::string& structure) const {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(structure);
    return at == entries_.end() ? std::vector<KnownKernel>{} : at->second.kernels;
}

bool KnownKernels::weighed(const std::string& structure, int size_class) const {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(structure);
    return at != entries_.end() && at->second.weighed.contains(size_class);
}

void KnownKernels::remember(const Taken& taken) {
    {
        const std::lock_guard lock(mutex_);
        Entry& entry = entries_[taken.structure];
        entry.weighed.insert(taken.size_class);
        const auto same = [&](const KnownKernel& other) { return other.source->text == taken.kernel.source->text; };
        if (std::none_of(entry.kernels.begin(), entry.kernels.end(), same)) entry.kernels.push_back(taken.kernel);
    }
    if (!taken.first) cache_store(disk_key(taken.structure, taken.size), taken.kernel.words);
}

std::optional<DenseProgram> generate_dense_among(const Surroundings& around, const KnownKernels& known, Taken& taken,
                                                 std::string* why_not) {
    const Sizes& shape = around.plan.graph[around.pass.anchor].type.shape;
    taken = {structure_of(around),
             to_string(shape),
             static_cast<int>(std::bit_width(static_cast<uint64_t>(numel(shape)))),
             true,
             {}};
    const auto take = [&](std::optional<DenseProgram> program) {
        if (program)
            taken.kernel = {program->words, program->program.launches[0].source, program->odd_rows,
                            static_cast<double>(numel(shape))};
        return program;
    };
    const std::vector<KnownKernel> kernels = known.of(taken.structure);
    if (const auto words = cache_load(disk_key(taken.structure, taken.size)))
        if (auto program = generate_dense_as(around, *words)) return take(std::move(program));
    if (kernels.empty()) return take(generate_dense(around, why_not));
    taken.first = false;
    std::optional<DenseProgram> best;
    for (const KnownKernel& kernel : kernels) {
        auto program = generate_dense_as(around, kernel.words);
        if (!program || program->program.launches[0].source->text != kernel.source->text) continue;
        if (!best || program->seconds < best->seconds) best = std::move(program);
    }
    // Where rows of odd lengths were met, others will be: then the text shall be right for any.
    const bool any_size =
        !best || std::any_of(kernels.begin(), kernels.end(), [](const KnownKernel& kernel) { return kernel.odd_rows; });
    const auto for_many = [&](std::optional<DenseProgram> own) {
        const auto smaller = [&](const KnownKernel& kernel) {
            return kernel.outputs < 2.0 * static_cast<double>(numel(shape));
        };
        if (!own || !std::all_of(kernels.begin(), kernels.end(), smaller)) return own;
        for (int larger = largest; larger > 1; larger /= 2)
            if (auto program = generate_dense_for_many(around, larger, any_size))
                if (!bearable.exceeded(program->seconds, own->seconds)) return program;
        return own;
    };
    if (!best) {
        auto loose = for_many(generate_dense_for_many(around, 1, true));
        return take(loose ? std::move(loose) : generate_dense(around, why_not));
    }
    const Slack& worth = kernels.size() == 1 ? second : further;
    const bool doubtful = kernels.size() == 1 && best->busy < full && best->seconds * (1 - best->busy) > worth.seconds;
    if (!doubtful && known.weighed(taken.structure, taken.size_class)) return take(std::move(best));
    auto own = generate_dense_for_many(around, 1, any_size);
    return take(own && worth.exceeded(best->seconds, own->seconds) ? for_many(std::move(own)) : std::move(best));
}

}  // namespace transfuse::cuda
