// Jobs whose threads share the terms of a fold, block by block, and combine them in a fixed order.
#include <algorithm>

#include "algebra/integer.h"
#include "cuda/pull_writer.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

void PullWriter::group_job(const Job& job, const Shape& shape, const Places& places, const std::string& block) {
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
        output_block = emitter.let("int", {block, " / ", count}, "block");
        split = emitter.let("int", {block, " % ", count}, "split");
    }
    const std::string total_text = dynamic ? parameters_.count(total) : number(total);
    const std::string own = emitter.let("tf_index", {"(tf_index)", output_block, " * ", outputs, " + ", lane}, "o");
    // Threads beyond the end repeat the last output and do not store it: everyone meets at the barriers.
    const std::string o = emitter.let("tf_index", {"min(", own, ", (tf_index)(", total_text, " - 1))"}, "o");
    const Index index = decompose(emitter, job.root, o, shape.order, 1);
    const auto at_fold = emitter.walk(job.root, index, job.fold);
    require(at_fold.has_value(), "CUDA: the fold of a job is not below its root");
    const auto fold = emitter.fold(job.fold, *at_fold);
    require(fold.has_value(), "CUDA: ", name(graph_[job.fold].op), " is no fold");

    const bool wide = decide(job.wide || fold->trips() > 64 || graph_[job.fold].type.dtype == DType::f64);
    const auto accumulator = emitter.declare(fold->combine, wide, 1);
    write_terms(emitter, *fold, accumulator, slice, shape, job, split, vector);
    combine(emitter, accumulator, lane, slice, shape);

    emitter.open({"if (", slice, " == 0 && ", own, " < ", total_text, ")"});
    if (job.splits > 1) {
        const Place& place = job.partial_place;
        const std::string pointer = parameters_.pointer(place.base, std::string(storage_name(place.storage)), false);
        const std::string slot = times(split, parameters_.integer(place.partials->slot_stride, true));
        // Partials are laid out as the root is contiguous; o counts in that order.
        for (size_t c = 0; c < accumulator.names[0].size(); ++c)
            body_.line({pointer, "[",
                        plus(plus(slot, o), times(number(static_cast<int64_t>(c)), parameters_.integer(total, true))),
                        "] = (double)", accumulator.names[0][c], ";"});
    } else {
        const Lanes folded = fold->finish(emitter.folded(accumulator));
        emitter.remember(job.fold, *at_fold, folded);
        const Lanes lanes = emitter.value(job.root, index);
        for (const Place& place : job.destinations) store(emitter, place, index, lanes, 1);
    }
    emitter.close();
    body_.line("__syncthreads();");
}

// Lanes along the innermost loop of the fold, where the operand is contiguous there.
int PullWriter::fold_vector(const Job& job, const Places& places) const {
    if (decide(!job.rows || job.terms < 1024)) return 1;
    const ValueId source = graph_[job.fold].args[0];
    if (!vectorises(source, places)) return 1;
    const Type& type = graph_[source].type;
    const int64_t width = bytes(type.dtype) == 2 ? 8 : bytes(type.dtype) == 8 ? 2 : 4;
    return decide(type.shape.back() % width == 0 ? width : 1);
}

// One loop over this thread's share of the terms.
void PullWriter::write_terms(Emitter& emitter, const Fold& fold, const Emitter::Accumulator& accumulator,
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
        begin = emitter.let("tf_index", {"(tf_index)", split, " * ", parameters_.integer(share, true)}, "t");
        end = emitter.let("tf_index",
                          {"min(", begin, " + ", parameters_.integer(share, true), ", (tf_index)", end, ")"}, "t");
    }
    const std::string t = body_.fresh("t");
    body_.line("#pragma unroll 4");
    emitter.open({"for (tf_index ", t, " = ", plus(begin, slice), "; ", t, " < ", end, "; ", t,
                  " += ", number(shape.slices), ")"});
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
            const std::string q = emitter.let_index(parameters_.quotient(rest, loops[i].count, loops[i].dynamic)).text;
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
void PullWriter::combine(Emitter& emitter, const Emitter::Accumulator& accumulator, const std::string& lane,
                         const std::string& slice, const Shape& shape) {
    const auto& names = accumulator.names[0];
    shared_doubles_ = std::max<int64_t>(shared_doubles_, threads * static_cast<int64_t>(names.size()));
    const std::string at = emitter.let("int", {slice, " * ", number(shape.outputs), " + ", lane}, "s");
    for (size_t c = 0; c < names.size(); ++c)
        body_.line({"tf_shared[", plus(at, number(static_cast<int64_t>(c) * threads)), "] = (double)", names[c], ";"});
    body_.line("__syncthreads();");
    const std::string half = body_.fresh("half"), other = body_.fresh("s");
    body_.open({"for (int ", half, " = ", number(shape.slices / 2), "; ", half, " > 0; ", half, " /= 2)"});
    body_.open({"if (", slice, " < ", half, ")"});
    body_.line({"const int ", other, " = ", at, " + ", half, " * ", number(shape.outputs), ";"});
    Lanes term;
    term.real = Real::f64;
    term.text.push_back("tf_shared[" + other + "]");
    if (names.size() > 1) term.second.push_back("tf_shared[" + other + " + " + number(threads) + "]");
    emitter.accumulate(accumulator, term);
    for (size_t c = 0; c < names.size(); ++c)
        body_.line({"tf_shared[", plus(at, number(static_cast<int64_t>(c) * threads)), "] = (double)", names[c], ";"});
    body_.close();
    body_.line("__syncthreads();");
    body_.close();
}

}  // namespace transfuse::cuda
