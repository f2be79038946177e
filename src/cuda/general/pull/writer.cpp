#include "cuda/general/pull/writer.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/general/emit/figures.h"
#include "cuda/general/emit/terms.h"
#include "cuda/general/emit/whole_source.h"

namespace transfuse::cuda {

namespace {

bool needs_wide_index(const PullRequest& request, const std::vector<std::vector<const Job*>>& stages) {
    constexpr int64_t limit = (int64_t{1} << 31) - 4096;
    auto reach = [](const Sizes& shape, const Sizes& strides) {
        int64_t far = 0;
        for (size_t a = 0; a < shape.size() && a < strides.size(); ++a)
            far += std::abs(strides[a]) * std::max<int64_t>(0, shape[a] - 1);
        return far;
    };
    for (const auto& [value, place] : request.places)
        if (reach(request.graph[value].type.shape, place.strides) >= limit) return true;
    for (const auto& stage : stages)
        for (const Job* job : stage) {
            for (const Place& place : job->destinations)
                if (reach(request.graph[job->root].type.shape, place.strides) >= limit) return true;
            for (const auto& [value, destinations] : job->stored)
                for (const Place& place : destinations)
                    if (reach(request.graph[value].type.shape, place.strides) >= limit) return true;
            if (numel(request.graph[job->root].type.shape) >= limit || job->terms >= limit) return true;
        }
    return false;
}

}  // namespace

Launch PullWriter::write(const std::vector<std::vector<const Job*>>& stages, int serial) {
    const bool staged = stages.size() > 1;
    int64_t most = 1;
    for (size_t s = 0; s < stages.size(); ++s) {
        if (s > 0) body_.line("TF_CLUSTER_BARRIER();");
        most = std::max(most, write_stage(stages[s]));
    }
    const std::string entry = "tf_" + request_.name + std::to_string(serial);
    const bool beside = request_.beside && serial == 0;
    const std::string shared =
        shared_doubles_ ? "    __shared__ double tf_shared[" + number(shared_doubles_) + "];\n" : "";
    Launch launch;
    const bool clusters = request_.target.arch >= 90;
    const int64_t blocks = staged ? std::min<int64_t>(most, clusters ? 8 : 1) : most;
    launch.cluster = staged && clusters ? static_cast<uint32_t>(blocks) : 1;
    launch.grid = {static_cast<uint32_t>(blocks), 1, 1};
    launch.block = {threads, 1, 1};
    launch.arguments = parameters_.arguments();
    launch.source = whole_source(
        request_.text_cache, parameters_.wide_index(), entry,
        {code_, tables_, "\nextern \"C\" __global__ void __launch_bounds__(", number(threads), ") ", entry, "(",
         parameters_.declaration(), ") {\n", shared, beside ? "    TF_BESIDE();\n" : "    TF_SEQUENCE();\n",
         body_.text(), beside ? "    TF_AFTER();\n" : "", "}\n"});
    launch.early = true;
    launch.note = notes_ + (staged ? " in " + std::to_string(stages.size()) + " stages" : "");
    return launch;
}

int64_t PullWriter::write_stage(const std::vector<const Job*>& jobs) {
    std::vector<int64_t> blocks;
    int64_t total = 0;
    for (const Job* job : jobs) blocks.push_back(blocks_of(*job)), total += blocks.back();
    const std::string block = body_.fresh("block");
    body_.open(
        {"for (int ", block, " = blockIdx.x; ", block, " < ", parameters_.count(total), "; ", block, " += gridDim.x)"});
    int64_t begin = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
        std::string own = block;
        if (jobs.size() > 1) {
            const bool last = i + 1 == jobs.size();
            body_.open({std::string(i ? "else " : ""),
                        (last ? "" : "if (" + block + " < " + parameters_.count(begin + blocks[i]) + ")")});
            own = body_.fresh("block");
            body_.line({"const int ", own, " = ", block, " - ", parameters_.count(begin), ";"});
        } else {
            body_.open("");
        }
        write_job(*jobs[i], own);
        body_.close();
        begin += blocks[i];
    }
    body_.close();
    return total;
}

// Whether everything the root pulls can be evaluated for several neighbours along `axis` by the same code.
bool PullWriter::vectorises(ValueId v, const Places& places, int depth) const {
    if (places.contains(v)) return !places.at(v).partials;
    const Op op = graph_[v].op;
    if (op == Op::scalar || op == Op::full) return true;
    const bool fine = is_pointwise(op) || is_reduction(op) || op == Op::permute || op == Op::expand ||
                      op == Op::reshape || op == Op::concat || op == Op::slice || op == Op::flip || op == Op::pad ||
                      op == Op::box_spread;
    if (!fine || depth > 64) return false;
    return std::all_of(graph_[v].args.begin(), graph_[v].args.end(),
                       [&](ValueId arg) { return vectorises(arg, places, depth + 1); });
}

PullWriter::Shape PullWriter::shape_of(const Job& job, const Places& places) const {
    Shape shape;
    const Sizes& extents = graph_[job.root].type.shape;
    // Neighbours read neighbours where reading takes longest, else they write them.
    const auto slots = job.splits == 1 ? strides_in_memory(graph_, job.root, places, figures::few_slots) : std::nullopt;
    shape.order = memory_order(extents, slots                      ? *slots
                                        : job.destinations.empty() ? contiguous_strides(extents)
                                                                   : job.destinations[0].strides);
    if (job.fold < 0) {
        shape.vector = element_vector(job, shape.order, places);
    } else if (job.rows) {
        shape.slices = job.terms <= figures::terms_of_a_warp && job.splits == 1 ? 32 : threads;
        shape.outputs = threads / shape.slices;
    } else {
        // Eight neighbours fill a sector; more where there are blocks enough.
        shape.outputs = numel(extents) * job.splits < 1 << 15 ? 8 : 32;
        shape.slices = threads / shape.outputs;
    }
    return shape;
}

// What a job may read: all that is in memory and what other jobs keep; until the next one asks.
const Places& PullWriter::places_of(const Job& job) {
    if (places_.empty()) {
        places_ = request_.places;
        for (const auto& [value, place] : kept_) places_.insert_or_assign(value, place);
    }
    if (made_ >= 0) places_.insert_or_assign(made_, kept_.at(made_));
    made_ = kept_.contains(job.root) && !job.reads_own_partials && !job.extra ? job.root : -1;
    if (made_ < 0) return places_;
    if (const auto before = request_.places.find(made_); before != request_.places.end())
        places_.insert_or_assign(made_, before->second);
    else
        places_.erase(made_);
    return places_;
}

int64_t PullWriter::blocks_of(const Job& job) {
    if (job.extra) return job.extra->blocks;
    const Shape shape = shape_of(job, places_of(job));
    return ceil_div(numel(graph_[job.root].type.shape), int64_t{shape.vector} * shape.outputs) * job.splits;
}

void PullWriter::write_job(const Job& job, const std::string& block) {
    const Places& places = places_of(job);
    if (job.extra) {
        notes_ += (notes_.empty() ? "" : ", ") + job.extra->note;
        if (code_.find(job.extra->code) == std::string::npos) code_ += job.extra->code;
        Emitter emitter(graph_, request_.parameter_values, places, parameters_, body_, tables_, job.wide, 1);
        job.extra->write(emitter, block);
        return;
    }
    const Shape shape = shape_of(job, places);
    const auto note = [&](ValueId value, const char* between) {
        const std::string what(name(graph_[value].op));
        notes_ += (notes_.empty() ? "" : between) + what + to_string(graph_[value].type.shape);
    };
    note(job.root, ", ");
    for (size_t k = 1; k < job.stored.size(); ++k) note(job.stored[k].value, " with ");
    if (!job.folds.empty())
        finish_job(job, shape, places, block);
    else if (job.fold < 0)
        element_job(job, shape, places, block);
    else
        group_job(job, shape, places, block);
}

Launch write_kernel(const PullRequest& request, const std::vector<std::vector<const Job*>>& stages, const Places& kept,
                    int serial) {
    const bool wide_index = needs_wide_index(request, stages);
    return PullWriter(request, kept, wide_index).write(stages, serial);
}

}  // namespace transfuse::cuda
