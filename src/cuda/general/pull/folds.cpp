// Jobs whose threads share the terms of a fold, block by block, and combine them in a fixed order.
#include <algorithm>
#include <map>

#include "algebra/lattice/integer.h"
#include "cuda/general/emit/figures.h"
#include "cuda/general/pull/writer.h"
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

    const bool wide = job.wide || fold->trips() > 64 || graph_[job.fold].type.dtype == DType::f64;
    const auto accumulator = emitter.declare(fold->combine, wide, 1);
    if (job.splits == 1 && lies_in_slots(job.fold, places))
        add_slots(emitter, *fold, accumulator, slice, shape);
    else
        write_terms(emitter, *fold, accumulator, slice, shape, job, split, vector);
    combine(emitter, {accumulator}, lane, slice, shape);

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

// Sums in slots and what follows from them, element number o of each being made of those of number o. Names of
// coordinates are the same for all shapes that differ by axes of one element only: what is remembered is found by them.
void PullWriter::finish_job(const Job& job, const Shape& shape, const Places& places, const std::string& block) {
    Emitter emitter(graph_, request_.parameter_values, places, parameters_, body_, tables_, job.wide, 1);
    const bool dynamic = !request_.parameter_values[static_cast<size_t>(job.root)];
    const int64_t total = numel(graph_[job.root].type.shape);
    const std::string total_text = dynamic ? parameters_.count(total) : number(total);
    const std::string outputs = number(shape.outputs);
    const std::string lane = emitter.let("int", "threadIdx.x % " + outputs, "lane");
    const std::string slice = emitter.let("int", "threadIdx.x / " + outputs, "slice");
    const std::string own = emitter.let("tf_index", {"(tf_index)", block, " * ", outputs, " + ", lane}, "o");
    const std::string o = emitter.let("tf_index", {"min(", own, ", (tf_index)(", total_text, " - 1))"}, "o");
    std::map<std::vector<int64_t>, std::vector<Coordinate>> known;  // of the axes of more than one element
    const auto index_of = [&](ValueId value) {
        const Sizes& extents = graph_[value].type.shape;
        std::vector<int64_t> longer;
        std::copy_if(extents.begin(), extents.end(), std::back_inserter(longer), [](int64_t n) { return n != 1; });
        Index index(extents.size(), Coordinate{"0"});
        auto at = known.find(longer);
        if (at == known.end()) {
            index = decompose(emitter, value, o, memory_order(extents, contiguous_strides(extents)), 1);
            at = known.emplace(longer, std::vector<Coordinate>()).first;
            for (size_t a = 0; a < extents.size(); ++a)
                if (extents[a] != 1) at->second.push_back(index[a]);
        }
        for (size_t a = 0, k = 0; a < extents.size(); ++a)
            if (extents[a] != 1) index[a] = at->second[k++];
        return index;
    };
    std::vector<Index> at_fold;
    std::vector<Fold> folds;
    std::vector<Emitter::Accumulator> accumulators;
    for (ValueId fold : job.folds) {
        at_fold.push_back(index_of(fold));
        folds.push_back(*emitter.fold(fold, at_fold.back()));
        const bool wide = job.wide || folds.back().trips() > 64 || graph_[fold].type.dtype == DType::f64;
        accumulators.push_back(emitter.declare(folds.back().combine, wide, 1));
        add_slots(emitter, folds.back(), accumulators.back(), slice, shape);
    }
    combine(emitter, accumulators, lane, slice, shape);
    emitter.open({"if (", slice, " == 0 && ", own, " < ", total_text, ")"});
    std::vector<Lanes> finished;
    for (size_t i = 0; i < folds.size(); ++i) {
        finished.push_back(folds[i].finish(emitter.folded(accumulators[i])));
        emitter.remember(job.folds[i], at_fold[i], finished.back());
    }
    for (const auto& [value, destinations] : job.stored) {
        const Index index = index_of(value);
        for (size_t i = 0; i < folds.size(); ++i)
            if (const auto at = emitter.walk(value, index, job.folds[i]))
                emitter.remember(job.folds[i], *at, finished[i]);
        const Lanes lanes = emitter.value(value, index);
        for (const Place& place : destinations) store(emitter, place, index, lanes, 1);
    }
    emitter.close();
    body_.line("__syncthreads();");
}

// Lanes along the innermost loop of the fold, where the operand is contiguous there.
int PullWriter::fold_vector(const Job& job, const Places& places) const {
    if (!job.rows || job.terms < figures::least_vector_terms) return 1;
    const ValueId source = graph_[job.fold].args[0];
    if (!vectorises(source, places)) return 1;
    const Type& type = graph_[source].type;
    const int64_t width = bytes(type.dtype) == 2 ? 8 : bytes(type.dtype) == 8 ? 2 : 4;
    return type.shape.back() % width == 0 ? width : 1;
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

bool PullWriter::lies_in_slots(ValueId fold, const Places& places) const {
    const auto at = places.find(fold);
    return at != places.end() && at->second.partials && !at->second.in_parts();
}

// This thread's share of the slots, several at once: all are loaded, the last one again beyond the end, before any is
// added. Most tails have a handful for a thread, and wait for little else. The compiler would load each where it is
// added, to save registers, and wait each time; it moves no load across a barrier, so all threads take as many turns.
void PullWriter::add_slots(Emitter& emitter, const Fold& fold, const Emitter::Accumulator& accumulator,
                           const std::string& slice, const Shape& shape) {
    constexpr int64_t at_once = figures::slots_at_once;
    const std::string end = parameters_.integer(fold.loops[0].count, fold.loops[0].dynamic);
    const std::string begin = body_.fresh("t"), turn = body_.fresh("u"), loaded = body_.fresh("r");
    const std::string slices = number(shape.slices), turns = number(at_once);
    const std::string parts = number(fold.combine == Fold::Combine::moments ? 3 : Emitter::components(fold.combine));
    const auto each = [&] {
        body_.line("#pragma unroll");
        emitter.open({"for (int ", turn, " = 0; ", turn, " < ", turns, "; ++", turn, ")"});
    };
    emitter.open({"for (tf_index ", begin, " = 0; ", begin, " < ", end, "; ", begin,
                  " += ", number(at_once * shape.slices), ")"});
    const std::string first = emitter.let("tf_index", {begin, " + ", slice}, "t");
    body_.line({"double ", loaded, "[", turns, "][", parts, "];"});
    each();
    const std::string t =
        emitter.let("tf_index", {"min(", first, " + ", turn, " * ", slices, ", (tf_index)(", end, " - 1))"}, "t");
    Lanes slot;
    slot.real = Real::f64;
    fold.term({{t}}, [&](const Lanes& term) {
        int64_t part = 0;
        const auto keep = [&](const std::string& text) {
            const std::string at = loaded + "[" + turn + "][" + number(part++) + "]";
            body_.line({at, " = ", text, ";"});
            return at;
        };
        slot.text.push_back(keep(term.text[0]));
        if (!term.second.empty()) slot.second.push_back(keep(term.second[0]));
        if (!term.further.empty()) slot.further = {term.further[0], keep(term.further[1])};
    });
    emitter.close();
    body_.line("__syncthreads();");
    each();
    const std::string inside = emitter.let("bool", {first, " + ", turn, " * ", slices, " < ", end}, "b");
    emitter.open({"if (", inside, ")"});
    emitter.accumulate(accumulator, slot);
    emitter.close();
    emitter.close();
    emitter.close();
}

// A tree over the slices, in fixed order, of all accumulators at once.
void PullWriter::combine(Emitter& emitter, const std::vector<Emitter::Accumulator>& accumulators,
                         const std::string& lane, const std::string& slice, const Shape& shape) {
    const std::string at = emitter.let("int", {slice, " * ", number(shape.outputs), " + ", lane}, "s");
    const auto place = [](const std::string& at, size_t component) {
        return "tf_shared[" + plus(at, number(static_cast<int64_t>(component) * threads)) + "]";
    };
    size_t components = 0;
    const auto leave = [&](const Emitter::Accumulator& accumulator, size_t first) {
        for (size_t c = 0; c < accumulator.names[0].size(); ++c)
            body_.line({place(at, first + c), " = (double)", accumulator.names[0][c], ";"});
    };
    for (const auto& accumulator : accumulators)
        leave(accumulator, components), components += accumulator.names[0].size();
    shared_doubles_ = std::max<int64_t>(shared_doubles_, threads * static_cast<int64_t>(components));
    body_.line("__syncthreads();");
    const std::string half = body_.fresh("half"), other = body_.fresh("s");
    body_.open({"for (int ", half, " = ", number(shape.slices / 2), "; ", half, " > 0; ", half, " /= 2)"});
    body_.open({"if (", slice, " < ", half, ")"});
    body_.line({"const int ", other, " = ", at, " + ", half, " * ", number(shape.outputs), ";"});
    size_t first = 0;
    for (const auto& accumulator : accumulators) {
        const size_t parts = accumulator.names[0].size();
        Lanes term;
        term.real = Real::f64;
        term.text.push_back(place(other, first));
        if (parts > 1) term.second.push_back(place(other, first + 1));
        if (parts > 2) term.further = {place(other, first + 2), place(other, first + 3)};
        emitter.accumulate(accumulator, term);
        leave(accumulator, first);
        first += parts;
    }
    body_.close();
    body_.line("__syncthreads();");
    body_.close();
}

}  // namespace transfuse::cuda
