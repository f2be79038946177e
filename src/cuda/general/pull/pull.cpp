// Scheduling: which values are computed once and kept, how each is spread over threads, what shares a launch.
#include "cuda/general/pull/pull.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include "algebra/lattice/integer.h"
#include "cuda/general/emit/figures.h"
#include "cuda/general/emit/terms.h"
#include "cuda/general/pull/job.h"
#include "cuda/general/pull/keep.h"

namespace transfuse::cuda {

using namespace figures;

namespace {

class Scheduler {
public:
    explicit Scheduler(const PullRequest& request)
        : request_(request), graph_(request.graph), places_(request.places), scratch_(request.scratch_begin) {}

    Program run() {
        for (Sink sink : request_.sinks) {
            if (numel(graph_[sink.value].type.shape) == 0) continue;
            look_through_reshapes(sink);
            sinks_[sink.value].push_back(sink.place);
        }
        keeping_ = what_to_keep(request_, sinks_);
        for (const Finish& finish : keeping_.finishes) make_job(finish);
        for (ValueId root : roots()) make_job(root);
        for (const auto& extra : request_.extras) make_job(*extra);
        return launches();
    }

private:
    // A reshape of a value that is computed here, stored in order, is that value: no stage has to wait for it.
    void look_through_reshapes(Sink& sink) {
        for (;;) {
            const Node& node = graph_[sink.value];
            if (node.op != Op::reshape || sink.place.partials || places_.contains(sink.value)) return;
            const ValueId arg = node.args[0];
            const Op op = graph_[arg].op;
            if (is_leaf(op) || is_constant(op)) return;
            if (is_view(op) != (op == Op::reshape)) return;
            const auto placed = places_.find(arg);
            if (placed != places_.end() && !placed->second.partials) return;
            if (sink.place.strides != contiguous_strides(node.type.shape)) return;
            sink.value = arg;
            sink.place.strides = contiguous_strides(graph_[arg].type.shape);
        }
    }

    bool is_kept(ValueId v) const { return keeping_.kept.contains(v); }

    // Ascending: operands first. Of reductions side by side, variances first: a mean can share their reading.
    std::vector<ValueId> roots() const {
        std::set<ValueId> roots(keeping_.kept);
        for (const auto& [value, unused] : sinks_) roots.insert(value);
        for (const Finish& finish : keeping_.finishes)
            for (ValueId sink : finish.sinks) roots.erase(sink);
        std::vector<ValueId> order;
        auto append = [&](ValueId root) {
            if (std::find(order.begin(), order.end(), root) == order.end()) order.push_back(root);
        };
        for (ValueId root : roots) {
            for (ValueId other : roots)
                if (is_twin(root, other)) append(other);
            append(root);
        }
        return order;
    }

    void make_job(ValueId root) {
        Job job;
        job.root = root;
        if (auto at = keeping_.fold_of.find(root); at != keeping_.fold_of.end()) job.fold = at->second;
        const int64_t elements = numel(graph_[root].type.shape);
        job.terms = job.fold >= 0 ? terms_of(graph_, job.fold, places_) : 1;
        job.work = work_of(root, static_cast<double>(elements));
        job.wide = request_.exact && job.work <= 1 << 25 && elements <= 1 << 20;
        job.splits = job.fold >= 0 && job.fold == root ? splits_of(request_, root) : 1;
        job.rows = job.fold >= 0 && is_reduction(graph_[job.fold].op) && !places_.contains(job.fold) &&
                   reduces_last(graph_, job.fold);
        if (auto at = sinks_.find(root); at != sinks_.end() && job.splits == 1) job.destinations = at->second;
        job.level = level_above(depends_on(root));
        if (const ValueId twin = job.splits > 1 && is_kept(root) ? variance_beside(root) : -1; twin >= 0)
            return share_reading(root, twin);
        if (is_kept(root)) keep(job);
        job_of_[root] = jobs_.size();
        jobs_.push_back(job);
        if (job.splits > 1 && sinks_.contains(root)) add_up_slots(root, job.splits, job.level + 1);
    }

    void make_job(const Finish& finish) {
        Job job;
        job.folds = finish.folds;
        job.root = finish.sinks[0], job.fold = finish.folds[0];
        const int64_t elements = numel(graph_[job.root].type.shape);
        for (ValueId sink : finish.sinks) job.stored.push_back({sink, sinks_.at(sink)});
        for (ValueId fold : finish.folds) {
            job.terms = std::max(job.terms, terms_of(graph_, fold, places_));
            job.work += work_of(fold, static_cast<double>(elements));
        }
        job.wide = request_.exact && job.work <= 1 << 25 && elements <= 1 << 20;
        jobs_.push_back(job);
    }

    // Where a kept value lies until it is read: in slots, in a sink of its own, or in scratch memory.
    void keep(Job& job) {
        const int64_t elements = numel(graph_[job.root].type.shape);
        const DType dtype = graph_[job.root].type.dtype;
        const bool fine = dtype == DType::f64 || job.splits > 1 || elements <= 1 << 20;
        const int64_t components = Emitter::components(combine_of(graph_[job.root].op));
        const int64_t parts = job.splits > 1 ? job.splits * components : 1;
        // Read back from where it was stored, unless it was rounded there and is small.
        const bool in_sink =
            sinks_.contains(job.root) && job.splits == 1 && (!job.wide || dtype == DType::f64 || elements > 1 << 16);
        Place place = in_sink ? sinks_.at(job.root)[0] : new_scratch(job.root, fine ? DType::f64 : DType::f32, parts);
        place.read_only = false;
        if (job.splits > 1)
            place.partials = Partials{job.splits, elements * components, elements};
        else if (!in_sink)
            job.destinations.push_back(place);
        job.partial_place = place;
        kept_places_[job.root] = place;
    }

    // A mean beside a variance of the same elements comes out of the same reading.
    void share_reading(ValueId mean, ValueId variance) {
        Place place = kept_places_.at(variance);
        place.partials->shifted = true;
        place.strides = contiguous_strides(graph_[mean].type.shape);
        kept_places_[mean] = place;
        job_of_[mean] = job_of_.at(variance);
        if (sinks_.contains(mean)) add_up_slots(mean, place.partials->slots, jobs_[job_of_.at(variance)].level + 1);
    }

    // Slots of a stored value are added up by a job of the next level.
    void add_up_slots(ValueId root, int64_t slots, int level) {
        Job last;
        last.root = root, last.fold = root;
        last.terms = slots;
        last.level = level;
        last.destinations = sinks_.at(root);
        last.work = static_cast<double>(numel(graph_[root].type.shape) * slots);
        last.wide = true, last.reads_own_partials = true;
        jobs_.push_back(last);
    }

    void make_job(const ExtraJob& extra) {
        Job job;
        job.root = extra.root, job.extra = &extra;
        job.work = is_kept(extra.root) ? extra.elements : work_of(extra.root, extra.elements);
        job.wide = request_.exact && job.work <= 1 << 25;
        job.level = level_above(is_kept(extra.root) ? std::set{extra.root} : depends_on(extra.root));
        jobs_.push_back(job);
    }

    int level_above(const std::set<ValueId>& below) const {
        int level = 0;
        for (ValueId v : below) level = std::max(level, jobs_[job_of_.at(v)].level + 1);
        return level;
    }

    Place new_scratch(ValueId value, DType storage, int64_t copies) {
        const Sizes& shape = graph_[value].type.shape;
        Place place;
        scratch_ = round_up(scratch_, 256);
        place.base = Argument::of_scratch(scratch_);
        place.storage = storage;
        place.strides = contiguous_strides(shape);
        place.read_only = false;
        place.aligned = true;
        scratch_ += std::max<int64_t>(1, numel(shape)) * bytes(storage) * copies;
        return place;
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
                if (is_kept(arg))
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
            const bool read = v != root && is_kept(v);
            const auto terms = read ? 1.0 : static_cast<double>(terms_of(graph_, v, places_));
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
        std::vector<double> work(static_cast<size_t>(levels), 0);
        for (const Job& job : jobs_) {
            const int64_t elements = job.extra ? 0 : numel(graph_[job.root].type.shape);
            work[static_cast<size_t>(job.level)] +=
                job.fold >= 0 && elements > 8 * few_blocks ? 2 * small_level : job.work;
        }
        for (int level = 0; level < levels;) {
            int end = level + 1;
            if (work[static_cast<size_t>(level)] <= small_level)
                while (end < levels && work[static_cast<size_t>(end)] <= small_level) ++end;
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
    SinkPlaces sinks_;
    Keeping keeping_;
    std::vector<Job> jobs_;
    std::map<ValueId, size_t> job_of_;
    Places kept_places_;
    int64_t scratch_;
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
