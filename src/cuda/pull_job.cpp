#include "cuda/pull_job.h"

#include <algorithm>

#include "algebra/integer.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

std::string sequence_code() {
    return R"cuda(
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TF_SEQUENCE() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#define TF_BESIDE() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define TF_AFTER() asm volatile("griddepcontrol.wait;" ::: "memory")
#define TF_CLUSTER_BARRIER() asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory")
#elif defined(__CUDACC_RTC__)
#define TF_SEQUENCE()
#define TF_BESIDE()
#define TF_AFTER()
#define TF_CLUSTER_BARRIER() __syncthreads()
#else
#define TF_SEQUENCE()
#define TF_BESIDE()
#define TF_AFTER()
#define TF_CLUSTER_BARRIER() tf_host_grid_barrier()
#endif
)cuda";
}

namespace {

constexpr int threads = 256;

class KernelWriter {
public:
    KernelWriter(const PullRequest& request, const Places& kept, bool wide_index)
        : request_(request), graph_(request.graph), kept_(kept), parameters_(wide_index, request.target.texts()) {}

    Launch write(const std::vector<std::vector<const Job*>>& stages, int serial) {
        const bool staged = stages.size() > 1;
        int64_t most = 1;
        for (size_t s = 0; s < stages.size(); ++s) {
            if (s > 0) body_.line("TF_CLUSTER_BARRIER();");
            most = std::max(most, write_stage(stages[s]));
        }
        const std::string entry = "tf_" + request_.name + std::to_string(serial);
        const bool beside = request_.beside && serial == 0;
        Source source;
        source.entry = entry;
        source.text = std::string(device_math()) + index_code(parameters_.wide_index()) + Emitter::combine_code() +
                      sequence_code() + code_ + tables_ + "\nextern \"C\" __global__ void __launch_bounds__(" +
                      number(threads) + ") " + entry + "(" + parameters_.declaration() + ") {\n" +
                      (shared_doubles_ ? "    __shared__ double tf_shared[" + number(shared_doubles_) + "];\n" : "") +
                      (beside ? "    TF_BESIDE();\n" : "    TF_SEQUENCE();\n") + body_.text() +
                      (beside ? "    TF_AFTER();\n" : "") + "}\n";
        Launch launch;
        const bool clusters = request_.target.arch >= 90;
        const int64_t blocks = staged ? request_.target.decide(std::min<int64_t>(most, clusters ? 8 : 1)) : most;
        launch.cluster = staged && clusters ? static_cast<uint32_t>(blocks) : 1;
        launch.grid = {static_cast<uint32_t>(blocks), 1, 1};
        launch.block = {threads, 1, 1};
        launch.arguments = parameters_.arguments();
        launch.source = std::make_shared<const Source>(std::move(source));
        launch.early = true;
        launch.note = notes_ + (staged ? " in " + std::to_string(stages.size()) + " stages" : "");
        return launch;
    }

private:
    int64_t write_stage(const std::vector<const Job*>& jobs) {
        std::vector<int64_t> blocks;
        int64_t total = 0;
        for (const Job* job : jobs) blocks.push_back(blocks_of(*job)), total += blocks.back();
        const std::string block = body_.fresh("block");
        body_.open("for (int " + block + " = blockIdx.x; " + block + " < " + parameters_.count(total) + "; " + block +
                   " += gridDim.x)");
        int64_t begin = 0;
        for (size_t i = 0; i < jobs.size(); ++i) {
            std::string own = block;
            if (jobs.size() > 1) {
                const bool last = i + 1 == jobs.size();
                body_.open(std::string(i ? "else " : "") +
                           (last ? "" : "if (" + block + " < " + parameters_.count(begin + blocks[i]) + ")"));
                own = body_.fresh("block");
                body_.line("const int " + own + " = " + block + " - " + parameters_.count(begin) + ";");
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

    struct Shape {
        int vector = 1;
        int outputs = threads;      // of one block
        int slices = 1;             // threads that share an output
        std::vector<size_t> order;  // of the root's axes, outermost first
    };

    // Whether everything the root pulls can be evaluated for several neighbours along `axis` by the same code.
    bool vectorises(ValueId v, const Places& places, int depth = 0) const {
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

    int decide(int64_t chosen) const { return static_cast<int>(request_.target.decide(chosen)); }

    // Lanes along the axis the destination is contiguous in.
    int element_vector(const Job& job, const std::vector<size_t>& order, const Places& places) const {
        if (job.destinations.empty() || order.empty() || job.wide) return 1;
        const Place& place = job.destinations[0];
        const Sizes& shape = graph_[job.root].type.shape;
        const size_t inner = order.back();
        const auto width = static_cast<int>(16 / bytes(place.storage));
        if (decide(!place.aligned || place.strides[inner] != 1 || shape[inner] % width != 0)) return 1;
        for (size_t a = 0; a < shape.size(); ++a)
            if (a != inner && shape[a] != 1 && place.strides[a] % width != 0) return 1;
        return vectorises(job.root, places) ? width : 1;
    }

    Shape shape_of(const Job& job, const Places& places) const {
        Shape shape;
        const Sizes& extents = graph_[job.root].type.shape;
        shape.order = job.destinations.empty() ? memory_order(extents, contiguous_strides(extents))
                                               : memory_order(extents, job.destinations[0].strides);
        if (job.fold < 0) {
            shape.vector = element_vector(job, shape.order, places);
        } else if (job.rows) {
            shape.slices = decide(job.terms <= 2048 && job.splits == 1 ? 32 : threads);
            shape.outputs = threads / shape.slices;
        } else {
            // Eight neighbours fill a sector; more where there are blocks enough.
            shape.outputs = decide(numel(extents) * job.splits < 1 << 15 ? 8 : 32);
            shape.slices = threads / shape.outputs;
        }
        return shape;
    }

    // What a job may read: all that is in memory and what other jobs keep; until the next one asks.
    const Places& places_of(const Job& job) {
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

    int64_t blocks_of(const Job& job) {
        if (job.extra) return job.extra->blocks;
        const Shape shape = shape_of(job, places_of(job));
        return ceil_div(numel(graph_[job.root].type.shape), int64_t{shape.vector} * shape.outputs) * job.splits;
    }

    void write_job(const Job& job, const std::string& block) {
        const Places& places = places_of(job);
        if (job.extra) {
            notes_ += (notes_.empty() ? "" : ", ") + job.extra->note;
            if (code_.find(job.extra->code) == std::string::npos) code_ += job.extra->code;
            Emitter emitter(graph_, request_.parameter_values, places, parameters_, body_, tables_, job.wide, 1);
            job.extra->write(emitter, block);
            return;
        }
        const Shape shape = shape_of(job, places);
        std::string what(name(graph_[job.root].op));
        notes_ += (notes_.empty() ? "" : ", ") + what + to_string(graph_[job.root].type.shape);
        if (job.fold < 0)
            element_job(job, shape, places, block);
        else
            group_job(job, shape, places, block);
    }

    // Takes a linear number apart over axes in the given order, outermost first; the innermost counts vectors.
    Index decompose(Emitter& emitter, ValueId id, const std::string& linear, const std::vector<size_t>& order,
                    int vector) {
        const Sizes& shape = graph_[id].type.shape;
        Index index(shape.size(), Coordinate{"0"});
        std::string rest = linear;
        bool innermost = true;
        for (size_t i = order.size(); i-- > 0;) {
            const size_t axis = order[i];
            if (shape[axis] == 1) continue;
            const int64_t extent = innermost ? shape[axis] / vector : shape[axis];
            const bool dynamic = emitter.dynamic(id, axis);
            bool outermost = true;
            for (size_t j = 0; j < i; ++j)
                if (shape[order[j]] != 1) outermost = false;
            std::string here = rest;
            if (!outermost) {
                const std::string q = emitter.let_index(parameters_.quotient(rest, extent, dynamic)).text;
                here = emitter.let_index(parameters_.remainder(rest, q, extent, dynamic)).text;
                rest = q;
            }
            if (innermost && vector > 1)
                index[axis] = {emitter.let_index(times(here, number(vector))).text, true};
            else
                index[axis] = {here};
            innermost = false;
        }
        return index;
    }

    void store(Emitter& emitter, const Place& place, const Index& index, const Lanes& lanes, int vector) {
        const std::string storage(storage_name(place.storage));
        const std::string pointer = parameters_.pointer(place.base, storage, false);
        std::string offset = "0";
        bool aligned = place.aligned;
        std::string lane_stride = "0";
        for (size_t a = 0; a < index.size(); ++a) {
            const std::string stride = parameters_.integer(place.strides[a], true);
            if (index[a].vector) {
                lane_stride = stride;
                if (place.strides[a] != 1) aligned = false;
            } else if (index[a].text != "0" && place.strides[a] % vector != 0) {
                aligned = false;
            }
            offset = plus(offset, times(index[a].text, stride));
        }
        if (vector == 1) {
            body_.line("tf_store(" + pointer + " + " + offset + ", " + lanes[0] + ");");
            return;
        }
        const std::string at = emitter.let("tf_index", offset, "i");
        const int64_t chunk = 16 / bytes(place.storage);
        if (aligned && vector % chunk == 0) {
            for (int64_t begin = 0; begin < vector; begin += chunk) {
                const std::string type = "tf_vector<" + storage + ", " + number(chunk) + ">", pack = body_.fresh("q");
                body_.line(type + " " + pack + ";");
                for (int64_t lane = 0; lane < chunk; ++lane)
                    body_.line("tf_from(" + pack + ".lane[" + number(lane) + "], " +
                               lanes[static_cast<size_t>(begin + lane)] + ");");
                body_.line("*(" + type + "*)(" + pointer + " + " + plus(at, number(begin)) + ") = " + pack + ";");
            }
            return;
        }
        for (int lane = 0; lane < vector; ++lane)
            body_.line("tf_store(" + pointer + " + " + plus(at, times(number(lane), lane_stride)) + ", " +
                       lanes[static_cast<size_t>(lane)] + ");");
    }

    void element_job(const Job& job, const Shape& shape, const Places& places, const std::string& block) {
        Emitter emitter(graph_, request_.parameter_values, places, parameters_, body_, tables_, job.wide, shape.vector);
        const int64_t total = ceil_div(numel(graph_[job.root].type.shape), shape.vector);
        const bool dynamic = !request_.parameter_values[static_cast<size_t>(job.root)];
        const std::string t =
            emitter.let("tf_index", "(tf_index)" + block + " * " + number(threads) + " + threadIdx.x", "t");
        emitter.open("if (" + t + " < " + (dynamic ? parameters_.count(total) : number(total)) + ")");
        const Index index = decompose(emitter, job.root, t, shape.order, shape.vector);
        const Lanes lanes = emitter.value(job.root, index);
        for (const Place& place : job.destinations) store(emitter, place, index, lanes, shape.vector);
        emitter.close();
    }

    // Lanes along the innermost loop of the fold, where the operand is contiguous there.
    int fold_vector(const Job& job, const Places& places) const {
        if (decide(!job.rows || job.terms < 1024)) return 1;
        const ValueId source = graph_[job.fold].args[0];
        const Type& type = graph_[source].type;
        int64_t smallest = 4;
        if (!vectorises(source, places)) return 1;
        smallest = bytes(type.dtype) == 2 ? 8 : bytes(type.dtype) == 8 ? 2 : 4;
        return decide(type.shape.back() % smallest == 0 ? smallest : 1);
    }

    void group_job(const Job& job, const Shape& shape, const Places& places, const std::string& block) {
        const int vector = fold_vector(job, places);
        Emitter emitter(graph_, request_.parameter_values, places, parameters_, body_, tables_, job.wide, vector);
        const int64_t total = numel(graph_[job.root].type.shape);
        const bool dynamic = !request_.parameter_values[static_cast<size_t>(job.root)];
        const std::string outputs = number(shape.outputs), slices = number(shape.slices);
        const std::string lane =
            emitter.let("int", job.rows ? "threadIdx.x / " + slices : "threadIdx.x % " + outputs, "lane");
        const std::string slice =
            emitter.let("int", job.rows ? "threadIdx.x % " + slices : "threadIdx.x / " + outputs, "slice");
        std::string output_block = block, split = "0";
        if (job.splits > 1) {
            const std::string count = parameters_.integer(job.splits, true);
            output_block = emitter.let("int", block + " / " + count, "block");
            split = emitter.let("int", block + " % " + count, "split");
        }
        const std::string total_text = dynamic ? parameters_.count(total) : number(total);
        const std::string own =
            emitter.let("tf_index", "(tf_index)" + output_block + " * " + outputs + " + " + lane, "o");
        // Threads beyond the end repeat the last output and do not store it: everyone meets at the barriers.
        const std::string o = emitter.let("tf_index", "min(" + own + ", (tf_index)(" + total_text + " - 1))", "o");
        const Index index = decompose(emitter, job.root, o, shape.order, 1);
        const auto at_fold = emitter.walk(job.root, index, job.fold);
        require(at_fold.has_value(), "CUDA: the fold of a job is not below its root");
        const auto fold = emitter.fold(job.fold, *at_fold);
        require(fold.has_value(), "CUDA: ", name(graph_[job.fold].op), " is no fold");

        const bool wide = decide(job.wide || fold->trips() > 64 || graph_[job.fold].type.dtype == DType::f64);
        const auto accumulator = emitter.declare(fold->combine, wide, 1);
        write_terms(emitter, *fold, accumulator, slice, shape, job, split, vector);
        combine(emitter, accumulator, lane, slice, shape);

        emitter.open("if (" + slice + " == 0 && " + own + " < " + total_text + ")");
        if (job.splits > 1) {
            const Place& place = job.partial_place;
            const std::string pointer =
                parameters_.pointer(place.base, std::string(storage_name(place.storage)), false);
            const std::string slot = times(split, parameters_.integer(place.partials->slot_stride, true));
            // Partials are laid out as the root is contiguous; o counts in that order.
            for (size_t c = 0; c < accumulator.names[0].size(); ++c)
                body_.line(
                    pointer + "[" +
                    plus(plus(slot, o), times(number(static_cast<int64_t>(c)), parameters_.integer(total, true))) +
                    "] = (double)" + accumulator.names[0][c] + ";");
        } else {
            const Lanes folded = fold->finish(emitter.folded(accumulator));
            emitter.remember(job.fold, *at_fold, folded);
            const Lanes lanes = emitter.value(job.root, index);
            for (const Place& place : job.destinations) store(emitter, place, index, lanes, 1);
        }
        emitter.close();
        body_.line("__syncthreads();");
    }

    // One loop over this thread's share of the terms.
    void write_terms(Emitter& emitter, const Fold& fold, const Emitter::Accumulator& accumulator,
                     const std::string& slice, const Shape& shape, const Job& job, const std::string& split,
                     int vector) {
        std::vector<Fold::Loop> loops = fold.loops;
        if (vector > 1) loops.back().count /= vector;
        int64_t total = 1;
        bool dynamic = false;
        for (const auto& loop : loops) total *= loop.count, dynamic = dynamic || loop.dynamic;
        std::string begin = "0", end = parameters_.integer(total, dynamic);
        if (job.splits > 1) {
            const int64_t share = ceil_div(ceil_div(total, job.splits), shape.slices) * shape.slices;
            begin = emitter.let("tf_index", "(tf_index)" + split + " * " + parameters_.integer(share, true), "t");
            end = emitter.let("tf_index",
                              "min(" + begin + " + " + parameters_.integer(share, true) + ", (tf_index)" + end + ")",
                              "t");
        }
        const std::string t = body_.fresh("t");
        body_.line("#pragma unroll 4");
        emitter.open("for (tf_index " + t + " = " + plus(begin, slice) + "; " + t + " < " + end + "; " + t +
                     " += " + number(shape.slices) + ")");
        std::vector<Coordinate> variables(loops.size(), Coordinate{"0"});
        std::string rest = t;
        for (size_t i = loops.size(); i-- > 0;) {
            if (loops[i].once()) {
                if (i + 1 == loops.size() && vector > 1) variables[i] = {"0", true};
                continue;
            }
            bool outermost = true;
            for (size_t j = 0; j < i; ++j)
                if (!loops[j].once()) outermost = false;
            std::string here = rest;
            if (!outermost) {
                const std::string q =
                    emitter.let_index(parameters_.quotient(rest, loops[i].count, loops[i].dynamic)).text;
                here = emitter.let_index(parameters_.remainder(rest, q, loops[i].count, loops[i].dynamic)).text;
                rest = q;
            }
            if (i + 1 == loops.size() && vector > 1)
                variables[i] = {emitter.let_index(times(here, number(vector))).text, true};
            else
                variables[i] = {here};
        }
        fold.term(variables, [&](const Lanes& term) {
            if (term.text.size() > 1)
                emitter.accumulate_across(accumulator, term);
            else if (vector > 1)
                for (int l = 0; l < vector; ++l) emitter.accumulate(accumulator, term);  // uniform over the lanes
            else
                emitter.accumulate(accumulator, term);
        });
        emitter.close();
    }

    // A tree over the slices, in fixed order.
    void combine(Emitter& emitter, const Emitter::Accumulator& accumulator, const std::string& lane,
                 const std::string& slice, const Shape& shape) {
        const auto& names = accumulator.names[0];
        shared_doubles_ = std::max<int64_t>(shared_doubles_, threads * static_cast<int64_t>(names.size()));
        const std::string at = emitter.let("int", slice + " * " + number(shape.outputs) + " + " + lane, "s");
        for (size_t c = 0; c < names.size(); ++c)
            body_.line("tf_shared[" + plus(at, number(static_cast<int64_t>(c) * threads)) + "] = (double)" + names[c] +
                       ";");
        body_.line("__syncthreads();");
        const std::string half = body_.fresh("half"), other = body_.fresh("s");
        body_.open("for (int " + half + " = " + number(shape.slices / 2) + "; " + half + " > 0; " + half + " /= 2)");
        body_.open("if (" + slice + " < " + half + ")");
        body_.line("const int " + other + " = " + at + " + " + half + " * " + number(shape.outputs) + ";");
        Lanes term;
        term.real = Real::f64;
        term.text.push_back("tf_shared[" + other + "]");
        if (names.size() > 1) term.second.push_back("tf_shared[" + other + " + " + number(threads) + "]");
        emitter.accumulate(accumulator, term);
        for (size_t c = 0; c < names.size(); ++c)
            body_.line("tf_shared[" + plus(at, number(static_cast<int64_t>(c) * threads)) + "] = (double)" + names[c] +
                       ";");
        body_.close();
        body_.line("__syncthreads();");
        body_.close();
    }

    const PullRequest& request_;
    const Graph& graph_;
    const Places& kept_;
    Parameters parameters_;
    Body body_;
    Places places_;
    ValueId made_ = -1;  // by the job that asked last
    std::string tables_, notes_, code_;
    int64_t shared_doubles_ = 0;
};

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
            if (numel(request.graph[job->root].type.shape) >= limit || job->terms >= limit) return true;
        }
    return false;
}

}  // namespace

Launch write_kernel(const PullRequest& request, const std::vector<std::vector<const Job*>>& stages, const Places& kept,
                    int serial) {
    const bool wide_index = request.target.decide(needs_wide_index(request, stages));
    return KernelWriter(request, kept, wide_index).write(stages, serial);
}

}  // namespace transfuse::cuda
