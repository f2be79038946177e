#include "cuda/sizes/known.h"

#include <algorithm>
#include <bit>
#include <sstream>
#include <type_traits>

#include "cuda/dense/read/keys.h"
#include "cuda/dense/schedule/kernel_spec.h"
#include "cuda/runtime/cache.h"
#include "cuda/runtime/driver.h"
#include "cuda/sizes/figures.h"

namespace transfuse::cuda {

using namespace figures::sizes;

struct KnownStructure {
    explicit KnownStructure(std::string spec) : words(std::move(spec)) {}
    const std::string words;
    std::shared_ptr<const KnownKernels::KernelList> kernels;  // replaced by longer ones; null: not asked for yet
    std::set<int> weighed;
    int doubts = 0;
    bool settled = false;
};

namespace {

// Made for rows that are no multiple of 16 bytes.
bool for_odd_rows(const KnownKernel& kernel) {
    return kernel.spec && comes_in_elements(kernel.spec->specialization.load);
}

std::string disk_key(const std::string& structure) { return "known-3|" + structure; }

std::vector<KnownKernel> on_disk(const std::string& structure) {
    std::vector<KnownKernel> kernels;
    if (const auto kept = cache_load(disk_key(structure))) {
        std::istringstream lines(*kept);
        KnownKernel kernel;
        std::string words;
        while (lines >> kernel.outputs && lines.get() == ' ' && std::getline(lines, words)) {
            kernel.words = words, kernel.spec = kernel_spec_named(words);
            kernels.push_back(kernel);
        }
    }
    return kernels;
}

void to_disk(const std::string& structure, const std::vector<KnownKernel>& kernels) {
    std::ostringstream lines;
    for (const KnownKernel& kernel : kernels) lines << kernel.outputs << ' ' << kernel.words << '\n';
    cache_store(disk_key(structure), lines.str());
}

double outputs_of(const Surroundings& around) {
    return static_cast<double>(numel(around.plan.graph[around.pass.anchor].type.shape));
}

// The known kernel that is estimated fastest for the size, if any serves it.
std::optional<Offer> fastest(const Surroundings& around, const std::vector<KnownKernel>& kernels) {
    KnownOffers offers(around);
    struct Candidate {
        Offer offer;
        const KnownKernel* kernel = nullptr;
    };
    std::vector<Candidate> order;
    order.reserve(kernels.size());
    for (const KnownKernel& kernel : kernels)
        if (auto offer = offers.as(kernel.spec)) order.push_back({std::move(*offer), &kernel});
    std::sort(order.begin(), order.end(), [](const Candidate& a, const Candidate& b) {
        return std::pair(a.offer.seconds, a.kernel) < std::pair(b.offer.seconds, b.kernel);
    });
    // Its text tells whether it is the kernel that is known.
    for (auto& [offer, kernel] : order) {
        FamilyProgram program = offer.write();
        std::shared_ptr<const Source>& source = program.program.launches[0].source;
        if (kernel->source && source != kernel->source && source->text != kernel->source->text) continue;
        if (kernel->source) source = kernel->source;
        offer.write = [program = std::move(program)] { return program; };
        return std::move(offer);
    }
    return std::nullopt;
}

// Channels last or not: no text serves both.
bool lies_last(const Surroundings& around, ValueId memory) {
    const Sizes& strides = around.strides[static_cast<size_t>(memory)];
    return strides.size() >= 3 && strides[1] == 1 && strides.back() != 1;
}

// All that a pass's kernels depend on beside sizes, roughly: texts are compared before one serves for another.
template <class Tell>
void tell_structure(const Surroundings& around, const Tell& tell) {
    const Graph& graph = around.plan.graph;
    const Target& target = around.target;
    tell(target.arch, target.multiprocessors, target.shared_bytes, target.portable_only, around.aligned,
         static_cast<int>(around.precision));
    const Lattices axes = lattices(graph, around.pass.anchor);
    tell(axes.size());
    for (const Lattice& axis : axes)
        tell(axis.up, axis.down, axis.dil, axis.offset, axis.taps,
             axis.down == 1 ? axis.out - axis.up * axis.in : int64_t{0});
    const Type& weight = graph[graph[around.pass.anchor].args[1]].type;
    tell(weight.dtype, weight.shape, around.pass.reads.size() + around.pass.stores.size());
    for (ValueId read : around.pass.reads) tell(lies_last(around, view_root(around.plan, read)));
    for (const Store& store : around.pass.stores) tell(lies_last(around, store.target));
    for (const TileStep& step : around.pass.steps) {
        const Node& node = graph[step.value];
        tell(step.value, static_cast<int>(step.scope), node.op, node.type.dtype);
    }
}

// In words, for the disk: another version may count ops otherwise.
std::string words_of_structure(const Surroundings& around) {
    std::ostringstream words;
    const auto one = [&](const auto& fact) {
        using Fact = std::remove_cvref_t<decltype(fact)>;
        if constexpr (std::is_same_v<Fact, Op> || std::is_same_v<Fact, DType>)
            words << name(fact) << ' ';
        else if constexpr (std::is_same_v<Fact, Sizes>)
            words << to_string(fact) << ' ';
        else
            words << fact << ' ';
    };
    tell_structure(around, [&](const auto&... facts) { (one(facts), ...); });
    return words.str();
}

// To find it by, in this process.
KeyText key_of_structure(const Surroundings& around) {
    KeyText key;
    tell_structure(around, [&](const auto&... facts) { key.add(facts...); });
    return key;
}

}  // namespace

KnownKernels::KnownKernels(bool finds_texts) : text_cache_(finds_texts ? std::make_unique<TextCache>() : nullptr) {}
KnownKernels::~KnownKernels() = default;

void KnownKernels::keep_off_disk() {
    const std::lock_guard lock(mutex_);
    disk_ = false;
}

bool KnownKernels::first_met(const Graph& graph) {
    std::string graphs = std::to_string(graph.outputs().size());
    for (ValueId leaf : graph.leaves())
        (graphs += name(graph[leaf].type.dtype)) += std::to_string(graph[leaf].type.rank());
    const std::lock_guard lock(mutex_);
    const auto [first, fresh] = first_.try_emplace(std::move(graphs));
    std::vector<Sizes>& sizes = first->second;
    if (fresh)
        for (ValueId leaf : graph.leaves()) sizes.push_back(graph[leaf].type.shape);
    return std::equal(sizes.begin(), sizes.end(), graph.leaves().begin(), graph.leaves().end(),
                      [&](const Sizes& shape, ValueId leaf) { return shape == graph[leaf].type.shape; });
}

KnownStructure& KnownKernels::structure_of(const Surroundings& around) {
    const KeyText key = key_of_structure(around);
    const std::lock_guard lock(mutex_);
    const auto known = structures_.find(std::string_view(key));
    if (known != structures_.end()) return *known->second;
    auto fresh = std::make_unique<KnownStructure>(words_of_structure(around));
    return *structures_.emplace(std::string_view(key), std::move(fresh)).first->second;
}

KnownKernels::Standing KnownKernels::of(KnownStructure& structure, int size_class) {
    const std::lock_guard lock(mutex_);
    if (!structure.kernels)
        structure.kernels = std::make_shared<const KernelList>(disk_ ? on_disk(structure.words) : KernelList());
    return {structure.kernels, structure.weighed.contains(size_class), structure.settled};
}

void KnownKernels::remember(const Taken& taken) {
    if (!taken.news) return;
    const std::lock_guard lock(mutex_);
    KnownStructure& entry = *taken.structure;
    if (!entry.kernels) entry.kernels = std::make_shared<const KernelList>();
    entry.weighed.insert(taken.size_class);
    const auto replace = [&](std::vector<KnownKernel> kernels) {
        entry.kernels = std::make_shared<const KernelList>(std::move(kernels));
    };
    const std::vector<KnownKernel>& kernels = *entry.kernels;
    for (size_t k = 0; k < kernels.size(); ++k) {
        const KnownKernel& other = kernels[k];
        if (!other.source && other.words == taken.kernel.words) {
            std::vector<KnownKernel> compiled = kernels;
            compiled[k].source = taken.kernel.source;
            return replace(std::move(compiled));
        }
        if (other.source == taken.kernel.source) return;
        if (other.source && other.source->text == taken.kernel.source->text) return;
    }
    std::vector<KnownKernel> more = kernels;
    more.push_back(taken.kernel);
    more.back().spec = kernel_spec_named(taken.kernel.words);
    if (disk_ && more.size() > 1) to_disk(entry.words, more);
    replace(std::move(more));
}

bool KnownKernels::doubted_again(KnownStructure& structure) {
    const std::lock_guard lock(mutex_);
    return ++structure.doubts <= most_doubts;
}

void KnownKernels::settle(KnownStructure& structure) {
    const std::lock_guard lock(mutex_);
    structure.settled = true;
}

std::shared_ptr<const Source> KnownKernels::compiled(const std::shared_ptr<const Source>& source, int arch) const {
    const std::lock_guard lock(mutex_);
    const auto known = compiled_.find(arch);
    if (known == compiled_.end()) return nullptr;
    if (known->second.met.contains(source.get())) return source;
    const auto [begin, end] = known->second.by_text.equal_range(source->text);
    for (auto at = begin; at != end; ++at)
        if (*at->second == *source) return at->second;
    return nullptr;
}

void KnownKernels::remember(const std::shared_ptr<const Source>& source, int arch) {
    const std::lock_guard lock(mutex_);
    Compiled& known = compiled_[arch];
    if (known.met.insert(source.get()).second) known.by_text.emplace(source->text, source);
}

std::shared_ptr<const Program> KnownKernels::prepared(const Preparation& asked) const {
    const std::lock_guard lock(mutex_);
    return last_prepared_.find(asked);
}

std::shared_ptr<const Program> KnownKernels::prepare(const Preparation* asked, const PullRequest& request) {
    if (!text_cache_) return std::make_shared<const Program>(pull(request));
    thread_local std::string key;  // tens of kilobytes for a deep network: kept for the next
    key = pull_key(request, std::move(key));
    const auto made = prepared_.get(key, [&] {
        Program program = pull(request);
        for (Launch& launch : program.launches)  // equal texts have one source, which is met again by its address
            launch.source = text_cache_->sources.get(launch.source->text, [&] { return launch.source; });
        return std::make_shared<const Prepared>(Prepared{std::move(program), request.extras});
    });
    std::shared_ptr<const Program> program(made, &made->program);
    if (asked) {
        const std::lock_guard lock(mutex_);
        last_prepared_.remember(*asked, program);
    }
    return program;
}

void KnownKernels::keep_for_graphs(std::shared_ptr<const DeviceMemory> weights) {
    const std::lock_guard lock(mutex_);
    of_graphs_.insert(std::move(weights));
}

std::optional<Offer> offer_dense_among(const Surroundings& around, KnownKernels& known, Taken& taken,
                                       std::string* why_not) {
    const double outputs = outputs_of(around);
    taken = {
        &known.structure_of(around), static_cast<int>(std::bit_width(static_cast<uint64_t>(outputs))), false, {}, true};
    const auto take = [&taken, outputs](std::optional<Offer> offer) {
        if (offer)
            offer->write = [&taken, outputs, write = std::move(offer->write)] {
                FamilyProgram program = write();
                taken.kernel = {program.words, outputs, program.program.launches[0].source, nullptr};
                return program;
            };
        return offer;
    };
    // A configuration that was asked for, be it because another one failed, is as good as any to know.
    if (!around.config.empty()) return take(offer_dense(around, why_not));
    const KnownKernels::Standing standing = known.of(*taken.structure, taken.size_class);
    const std::vector<KnownKernel>& kernels = *standing.kernels;
    if (kernels.empty()) return take(offer_dense(around, why_not));
    auto best = fastest(around, kernels);
    // Where rows of odd lengths were met, others will be: then the text shall be right for any.
    const bool any_size = !best || std::any_of(kernels.begin(), kernels.end(), for_odd_rows);
    const auto for_many = [&](std::optional<Offer> own) {
        const auto smaller = [&](const KnownKernel& kernel) { return kernel.outputs < 2 * outputs; };
        if (!own || !std::all_of(kernels.begin(), kernels.end(), smaller)) return own;
        for (int larger = largest; larger > 1; larger /= 2)
            if (auto offer = offer_dense_for_many(around, larger, any_size))
                if (!bearable.exceeded(offer->seconds, own->seconds)) return offer;
        return own;
    };
    if (!best) {
        auto loose = for_many(offer_dense_for_many(around, 1, true));
        return take(loose ? std::move(loose) : offer_dense(around, why_not));
    }
    const Slack& worth = kernels.size() == 1 ? second : further;
    const bool doubtful = kernels.size() == 1 && best->busy < full && best->seconds * (1 - best->busy) > worth.seconds;
    if (standing.settled || (standing.weighed && !(doubtful && known.doubted_again(*taken.structure)))) {
        const auto compiled = [](const KnownKernel& kernel) { return kernel.source != nullptr; };
        taken.news = !standing.weighed || !std::all_of(kernels.begin(), kernels.end(), compiled);
        return take(std::move(best));
    }
    auto own = offer_dense_for_many(around, 1, any_size);
    if (!own || !worth.exceeded(best->seconds, own->seconds)) return take(std::move(best));
    taken.needless = true;
    return take(for_many(std::move(own)));
}

}  // namespace transfuse::cuda
