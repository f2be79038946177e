// Scheduling: which values are computed once and kept, how each is spread over threads, what shares a launch.
#include "cuda/pull.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include "cuda/pull_job.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

bool is_view(Op op) {
    return op == Op::reshape || op == Op::permute || op == Op::expand || op == Op::slice || op == Op::flip ||
           op == Op::identity || op == Op::detach;
}

// How many terms one element of the value takes: 1 for pointwise and shape ops.
int64_t trips(const Graph& graph, ValueId id, const Places& places) {
    const Node& node = graph[id];
    if (auto place = places.find(id); place != places.end()) {
        int64_t terms = place->second.partials ? place->second.partials->slots : 1;
        for (const Lattice& axis : place->second.taps_apart) terms *= (axis.taps + axis.up - 1) / axis.up;
        return terms;
    }
    auto shape = [&](size_t arg) -> const Sizes& { return graph[node.args[arg]].type.shape; };
    int64_t count = 1;
    if (is_reduction(node.op)) {
        for (int64_t dim : node.attributes.integers(Key::dims)) count *= shape(0)[static_cast<size_t>(dim)];
        return count;
    }
    switch (node.op) {
        case Op::lattice:
            return numel(shape(1)) / std::max<int64_t>(1, shape(1)[0] * shape(1)[2]);
        case Op::correlate:
            return numel(shape(1)) / std::max<int64_t>(1, shape(1)[1]);
        case Op::box_sums:
            for (int64_t dim : node.attributes.integers(Key::dims)) count *= shape(0)[static_cast<size_t>(dim)];
            return count;
        case Op::box_spread:
            return shape(0)[1] / std::max<int64_t>(1, node.type.shape[1]);
        case Op::taps:
            return std::max<int64_t>(1, shape(0)[static_cast<size_t>(node.attributes.integer(Key::axis))]);
        case Op::max_pool:
        case Op::min_pool:
        case Op::avg_pool:
            for (int64_t k : node.attributes.integers(Key::kernel)) count *= k;
            return count;
        case Op::adaptive_avg_pool:
        case Op::adaptive_max_pool:
            return std::max<int64_t>(1, numel(shape(0)) / std::max<int64_t>(1, numel(node.type.shape)));
        case Op::max_pool_grad:
        case Op::avg_pool_grad:
            if (node.attributes.has(Key::kernel))
                for (int64_t k : node.attributes.integers(Key::kernel)) count *= k;
            return node.op == Op::max_pool_grad ? count * count : count;
        default:
            return 1;
    }
}

bool can_be_group(const Graph& graph, ValueId id, const Places& places) {
    if (auto place = places.find(id); place != places.end()) return place->second.partials.has_value();
    const Op op = graph[id].op;
    return is_reduction(op) || op == Op::lattice || op == Op::correlate || op == Op::box_sums;
}

class Scheduler {
public:
    explicit Scheduler(const PullRequest& request)
        : request_(request), graph_(request.graph), places_(request.places) {}

    Program run() {
        scratch_ = request_.scratch_begin;
        for (Sink sink : request_.sinks) {
            if (numel(graph_[sink.value].type.shape) == 0) continue;
            look_through_reshapes(sink);
            sinks_[sink.value].push_back(sink.place);
        }
        decide();
        make_jobs();
        make_extra_jobs();
        return launches();
    }

private:
    // A reshape of a value that is computed here, stored in order, is that value: no stage has to wait for it.
    void look_through_reshapes(Sink& sink) {
        for (;;) {
            const Node& node = graph_[sink.value];
            if (node.op != Op::reshape || sink.place.partials || places_.contains(sink.value)) return;
            const ValueId arg = node.args[0];
            const auto placed = places_.find(arg);
            if (is_leaf(graph_[arg].op) || is_literal(arg) || is_view(graph_[arg].op) != (graph_[arg].op == Op::reshape)) return;
            if (placed != places_.end() && !placed->second.partials) return;
            if (!decide(sink.place.strides == contiguous_strides(node.type.shape))) return;
            sink.value = arg;
            sink.place.strides = contiguous_strides(graph_[arg].type.shape);
        }
    }

    bool is_literal(ValueId v) const {
        const Op op = graph_[v].op;
        return op == Op::scalar || op == Op::full || op == Op::constant;
    }

    // Walking from the sinks down: how often each value would be evaluated if nothing were kept, and what to keep.
    void decide() {
        const auto size = static_cast<size_t>(graph_.size());
        evaluations_.assign(size, 0);
        consumers_.assign(size, {});
        std::vector<bool> needed(size, false);
        for (const auto& [value, places] : sinks_) needed[static_cast<size_t>(value)] = true;
        for (const ExtraJob& extra : request_.extras) {
            needed[static_cast<size_t>(extra.root)] = true;
            evaluations_[static_cast<size_t>(extra.root)] += extra.elements;
        }
        std::vector<double> per_element(size, 0);
        for (ValueId v = graph_.size() - 1; v >= 0; --v) {
            const auto at = static_cast<size_t>(v);
            if (!needed[at]) continue;
            const Node& node = graph_[v];
            const auto elements = static_cast<double>(numel(node.type.shape));
            const auto terms = static_cast<double>(trips(graph_, v, places_));
            if (sinks_.contains(v)) evaluations_[at] += elements;
            const bool placed = places_.contains(v);
            if (placed && !places_.at(v).partials) continue;
            if (is_literal(v)) continue;
            bool keep = false;
            if (!is_view(node.op)) {
                if (terms > 1 && evaluations_[at] > 1.5 * elements && evaluations_[at] * terms > 1 << 20) keep = true;
                if (terms <= 1 && evaluations_[at] > 16 * elements && evaluations_[at] > 1 << 22) keep = true;
                const bool group = (terms >= 64 && can_be_group(graph_, v, places_) && elements < 1 << 18) ||
                                   (terms >= 32 && is_reduction(node.op) && !placed && reduces_last(node));
                keep = decide(keep);
                if (decide(group)) group_.insert(v);
            }
            if (keep) kept_.insert(v);
            const bool once = keep || (sinks_.contains(v) && !is_extra(v));
            const double times = once ? elements : evaluations_[at];
            if (placed) continue;
            for (size_t i = 0; i < node.args.size(); ++i) {
                const auto arg = static_cast<size_t>(node.args[i]);
                needed[arg] = true;
                consumers_[arg].push_back(v);
                const bool bias = node.op == Op::lattice && i == 2;
                evaluations_[arg] += times * (bias ? 1 : terms);
            }
        }
        // A group fold is finished together with the pointwise chain above it, or kept where that chain ends.
        for (ValueId fold : group_) {
            ValueId top = fold;
            const int64_t elements = numel(graph_[fold].type.shape);
            const bool split = splits_of(fold) > 1;
            while (!split && !sinks_.contains(top) && !kept_.contains(top) &&
                   consumers_[static_cast<size_t>(top)].size() == 1) {
                const ValueId next = consumers_[static_cast<size_t>(top)][0];
                const Op op = graph_[next].op;
                if (!(is_pointwise(op) || (is_view(op) && op != Op::slice)) ||
                    numel(graph_[next].type.shape) != elements)
                    break;
                top = next;
            }
            if (root_fold_.contains(top)) top = fold;  // two folds under one root: the second is kept by itself
            // What is stored and read here as well is kept, too: a reader would add all terms with one thread.
            if (!sinks_.contains(top) || !consumers_[static_cast<size_t>(top)].empty())
                kept_.insert(top);
            else if (split)
                kept_.insert(fold);
            root_fold_.emplace(top, fold);
        }
    }

    bool is_extra(ValueId v) const {
        return std::any_of(request_.extras.begin(), request_.extras.end(),
                           [&](const ExtraJob& extra) { return extra.root == v; });
    }

    int64_t decide(int64_t chosen) const { return request_.target.decide(chosen); }

    bool reduces_last(const Node& node) const {
        const Sizes& dims = node.attributes.integers(Key::dims);
        return !dims.empty() && dims.back() + 1 == graph_[node.args[0]].type.rank();
    }

    // Blocks per output block, so that a reduction to few elements fills the device.
    int64_t splits_of(ValueId fold) const {
        if (places_.contains(fold)) return 1;
        const Node& node = graph_[fold];
        const int64_t outputs = numel(node.type.shape), terms = trips(graph_, fold, places_);
        const bool rows = is_reduction(node.op) && reduces_last(node);
        const int64_t per_block = rows ? 1 : 32, slices = rows ? 256 : 8;
        const int64_t blocks = (outputs + per_block - 1) / per_block;
        const int64_t wanted = 8 * request_.target.multiprocessors;
        if (decide(blocks * 4 > wanted || terms < slices * 64)) return 1;
        return decide(std::max<int64_t>(1, std::min(terms / (slices * 32), (wanted + blocks - 1) / blocks)));
    }

    Place new_scratch(ValueId value, DType storage, int64_t copies) {
        const Sizes& shape = graph_[value].type.shape;
        Place place;
        scratch_ = (scratch_ + 255) / 256 * 256;
        place.base = Argument::of_scratch(scratch_);
        place.storage = storage;
        place.strides = contiguous_strides(shape);
        place.read_only = false;
        place.aligned = true;
        scratch_ += std::max<int64_t>(1, numel(shape)) * bytes(storage) * copies;
        return place;
    }

    void make_jobs() {
        std::set<ValueId> roots(kept_);
        for (const auto& [value, unused] : sinks_) roots.insert(value);
        // Ascending: operands first. Of reductions side by side, variances first: a mean can share their reading.
        std::vector<ValueId> order;
        auto append = [&](ValueId root) {
            if (std::find(order.begin(), order.end(), root) == order.end()) order.push_back(root);
        };
        for (ValueId root : roots) {
            for (ValueId other : roots)
                if (is_twin(root, other)) append(other);
            append(root);
        }
        for (ValueId root : order) {
            Job job;
            job.root = root;
            job.fold = -1;
            if (auto at = root_fold_.find(root); at != root_fold_.end()) job.fold = at->second;
            const int64_t elements = numel(graph_[root].type.shape);
            job.terms = job.fold >= 0 ? trips(graph_, job.fold, places_) : 1;
            job.work = work_of(root, static_cast<double>(elements));
            job.wide = decide(request_.exact && job.work <= 1 << 25 && elements <= 1 << 20);
            job.splits = job.fold >= 0 && job.fold == root ? splits_of(root) : 1;
            job.rows = job.fold >= 0 && is_reduction(graph_[job.fold].op) && !places_.contains(job.fold) &&
                       reduces_last(graph_[job.fold]);
            if (auto at = sinks_.find(root); at != sinks_.end() && job.splits == 1) job.destinations = at->second;
            for (ValueId below : depends_on(root))
                job.level = std::max(job.level, jobs_[static_cast<size_t>(job_of_.at(below))].level + 1);
            // A mean beside a variance of the same elements comes out of the same reading.
            if (const ValueId twin = job.splits > 1 && kept_.contains(root) ? variance_beside(root) : -1; twin >= 0) {
                Place place = kept_places_.at(twin);
                place.partials->shifted = true;
                place.strides = contiguous_strides(graph_[root].type.shape);
                kept_places_[root] = place;
                job_of_[root] = job_of_.at(twin);
                if (!sinks_.contains(root)) continue;
                Job last;
                last.root = root, last.fold = root, last.terms = place.partials->slots;
                last.level = jobs_[static_cast<size_t>(job_of_.at(twin))].level + 1;
                last.destinations = sinks_.at(root);
                last.work = static_cast<double>(elements * last.terms);
                last.wide = true, last.reads_own_partials = true;
                jobs_.push_back(last);
                continue;
            }
            if (kept_.contains(root)) {
                const DType dtype = graph_[root].type.dtype;
                const bool fine = decide(dtype == DType::f64 || job.splits > 1 || elements <= 1 << 20);
                const int64_t parts = job.splits > 1 ? job.splits * Emitter::components(combine_of(root)) : 1;
                // Read back from where it was stored, unless it was rounded there and is small.
                const bool in_sink = sinks_.contains(root) && job.splits == 1 &&
                                     decide(!job.wide || dtype == DType::f64 || elements > 1 << 16);
                Place place = in_sink ? sinks_.at(root)[0] : new_scratch(root, fine ? DType::f64 : DType::f32, parts);
                place.read_only = false;
                if (job.splits > 1)
                    place.partials = Partials{job.splits, elements * Emitter::components(combine_of(root)), elements};
                else if (!in_sink)
                    job.destinations.push_back(place);
                job.partial_place = place;
                kept_places_[root] = place;
            }
            job_of_[root] = static_cast<int>(jobs_.size());
            const bool split_sink = job.splits > 1 && sinks_.contains(root);
            jobs_.push_back(job);
            if (split_sink) {  // the slots are added up by a job of the next level
                Job last;
                last.root = root, last.fold = root;
                last.terms = job.splits;
                last.level = job.level + 1;
                last.destinations = sinks_.at(root);
                last.work = static_cast<double>(elements * job.splits);
                last.wide = true, last.reads_own_partials = true;
                jobs_.push_back(last);
            }
        }
    }

    void make_extra_jobs() {
        for (const ExtraJob& extra : request_.extras) {
            Job job;
            job.root = extra.root, job.extra = &extra;
            job.work = kept_.contains(extra.root) ? extra.elements : work_of(extra.root, extra.elements);
            job.wide = decide(request_.exact && job.work <= 1 << 25);
            std::set<ValueId> below = depends_on(extra.root);
            if (kept_.contains(extra.root)) below = {extra.root};
            for (ValueId v : below)
                job.level = std::max(job.level, jobs_[static_cast<size_t>(job_of_.at(v))].level + 1);
            jobs_.push_back(job);
        }
    }

    // A var with the operand and dims of this sum or mean, already made into a split job; -1: none.
    ValueId variance_beside(ValueId id) const {
        for (const Job& job : jobs_)
            if (job.splits > 1 && is_twin(id, job.root)) return job.root;
        return -1;
    }

    // Whether `other` is the variance of what `id` sums.
    bool is_twin(ValueId id, ValueId other) const {
        const Node &node = graph_[id], &variance = graph_[other];
        return (node.op == Op::sum || node.op == Op::mean) && variance.op == Op::var && variance.args == node.args &&
               variance.attributes.integers(Key::dims) == node.attributes.integers(Key::dims);
    }

    Fold::Combine combine_of(ValueId id) const {
        switch (graph_[id].op) {
            case Op::logsumexp:
                return Fold::Combine::logsumexp;
            case Op::var:
                return Fold::Combine::var;
            default:
                return Fold::Combine::sum;
        }
    }

    // Kept values the evaluation of a root reads.
    std::set<ValueId> depends_on(ValueId root) const {
        std::set<ValueId> found, seen;
        std::vector<ValueId> open = {root};
        while (!open.empty()) {
            const ValueId v = open.back();
            open.pop_back();
            if (places_.contains(v)) continue;
            for (ValueId arg : graph_[v].args) {
                if (!seen.insert(arg).second) continue;
                if (kept_.contains(arg))
                    found.insert(arg);
                else
                    open.push_back(arg);
            }
        }
        return found;
    }

    double work_of(ValueId root, double elements) const {
        std::unordered_map<ValueId, double> times = {{root, elements}};
        double total = 0;
        std::set<ValueId, std::greater<>> open = {root};
        while (!open.empty()) {
            const ValueId v = *open.begin();
            open.erase(open.begin());
            const bool read = v != root && kept_.contains(v);
            const auto terms = read ? 1.0 : static_cast<double>(trips(graph_, v, places_));
            total += times[v] * terms;
            if (read || places_.contains(v)) continue;
            for (ValueId arg : graph_[v].args) times[arg] += times[v] * terms, open.insert(arg);
        }
        return total;
    }

    Program launches() {
        Program program;
        int levels = 0;
        for (const Job& job : jobs_) levels = std::max(levels, job.level + 1);
        // Consecutive small levels become the stages of one launch: a cluster of blocks with barriers between.
        // It has few blocks, so a level that would fill many is not small however little each has to do.
        constexpr double small = 1 << 19;
        constexpr int64_t few_blocks = 64;
        std::vector<double> work(static_cast<size_t>(levels), 0);
        for (const Job& job : jobs_) {
            const int64_t elements = job.extra ? 0 : numel(graph_[job.root].type.shape);
            work[static_cast<size_t>(job.level)] += job.fold >= 0 && elements > 8 * few_blocks ? 2 * small : job.work;
        }
        for (int level = 0; level < levels;) {
            int end = level + 1;
            if (work[static_cast<size_t>(level)] <= small)
                while (end < levels && work[static_cast<size_t>(end)] <= small) ++end;
            end = static_cast<int>(decide(end));
            std::vector<std::vector<const Job*>> stages;
            for (int l = level; l < end; ++l) {
                stages.emplace_back();
                for (const Job& job : jobs_)
                    if (job.level == l) stages.back().push_back(&job);
            }
            program.launches.push_back(write_kernel(request_, stages, kept_places_, level));
            level = end;
        }
        program.scratch_bytes = static_cast<size_t>(scratch_);
        if (!program.launches.empty()) program.launches[0].early = request_.early;
        return program;
    }

    const PullRequest& request_;
    const Graph& graph_;
    const Places& places_;
    std::map<ValueId, std::vector<Place>> sinks_;
    std::vector<double> evaluations_;
    std::vector<std::vector<ValueId>> consumers_;
    std::set<ValueId> kept_, group_;
    std::map<ValueId, ValueId> root_fold_;  // root of a job -> the fold its threads share
    std::vector<Job> jobs_;
    std::map<ValueId, int> job_of_;
    Places kept_places_;
    int64_t scratch_ = 0;
};

}  // namespace

std::vector<size_t> memory_order(const Sizes& shape, const Sizes& strides) {
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    auto reach = [&](size_t axis) {
        return shape[axis] == 1 ? std::numeric_limits<int64_t>::max() : std::abs(strides[axis]);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return reach(a) > reach(b); });
    return order;
}

Program pull(const PullRequest& request) { return Scheduler(request).run(); }

}  // namespace transfuse::cuda
