// The moments kernel. Memory is seen as [outer …][rows][inner]: the inner axis is the one that is contiguous, rows are
// the other reduced axes. A thread owns one vector of columns and walks over rows, so whether a column lies in an
// interval is decided once, at the end; rows are cut into cells (maximal sets that every interval takes or leaves
// whole) and each is summed by itself. Every element is read once. Sums of eight rows are made in the input's
// precision, all others in double; each block leaves its share in a slot of its own.
#include "cuda/sums/moments/moments_writer.h"

#include <functional>

namespace transfuse::cuda {

namespace {

constexpr int unroll = 8;

constexpr std::string_view warp_sum =
#include "cuda/device/values/warp_sum.cuh"
    ;
constexpr std::string_view store_row =
#include "cuda/device/values/store_row.cuh"
    ;

}  // namespace

Launch MomentsWriter::write() {
    KernelText kernel(s_, places_, vector_);  // offsets within one sum fit 32 bits, the base is a pointer
    begin(kernel);
    write_body();
    Launch launch = kernel.launch(entry_, outer_count() * column_blocks_ * chunks_, threads,
                                  "box sums" + to_string(graph_[box_].type.shape) + ", " + number(vector_) + " x " +
                                      number(bytes(storage_)) + " B loads, " + number(chunks_) + " chunks, " +
                                      number(cell_count_) + " cells",
                                  std::string(inner_.reduced ? warp_sum : store_row));
    if (flexible())
        launch.shared_bytes =
            static_cast<uint32_t>(8 * vector_ * (cell_count_ * columns_ + (has_lines() ? threads : 0)));
    return launch;
}

// Shared memory for the sums of cells, and where there are several, a table of them.
void MomentsWriter::declare_sums() {
    Body& body = *body_;
    if (inner_.reduced) {
        body.line({"__shared__ double tf_warps[", number(threads / 32 * sums_at_once()), "], tf_sums[",
                   number(cell_count_ * inner_boxes()), "];"});
    } else if (held_) {
        body.line({"double tf_sums[", number(cell_count_), "][", number(vector_), "] = {};"});
    } else if (flexible()) {
        width_ = integer(columns_);
        body.line("extern __shared__ __align__(1024) unsigned char shared[];");
        if (has_lines()) body.line("double* const tf_lines = (double*)shared;");
        body.line({"double* const tf_sums = (double*)shared + ", number(has_lines() ? threads * vector_ : 0), ";"});
    } else {
        width_ = number(columns_bound());
        body.line({"__shared__ double tf_sums[", number(cell_count_ * columns_bound() * vector_), "];"});
        if (lines_ > 1) body.line({"__shared__ double tf_lines[", number(threads * vector_), "];"});
    }
    if (cell_count_ == 1 || held_) return;
    declare_cells(true);
    body.line("__syncthreads();");
}

// Which sum, which columns, which rows are this block's, and which columns this thread's.
MomentsWriter::Share MomentsWriter::share() {
    Share own;
    std::string rest = "(int)blockIdx.x";
    auto take = [&](int64_t extent, std::string_view prefix) {
        if (extent == 1 && !parameters_->any_size()) return std::string("0");
        const std::string q = let(parameters_->quotient(rest, extent, true), "q");
        const std::string r = let(parameters_->remainder(rest, q, extent, true), prefix);
        rest = q;
        return r;
    };
    own.chunk = take(chunks_, "chunk"), own.column_block = take(column_blocks_, "columns");
    own.outer.resize(outer_.size());
    for (size_t i = outer_.size(); i-- > 0;) own.outer[i] = take(outer_[i].extent, "outer");
    const std::string columns = integer(columns_), thread = "(int)threadIdx.x";
    const bool full = columns_ == threads && !(s_.target.any_size && !virtual_rows_);
    own.line = let(full ? "0" : parameters_->quotient(thread, columns_, true), "line");
    own.place = let(full ? thread : minus(thread, times(own.line, columns)), "place");
    own.column = let({"(", plus(times(own.column_block, columns), own.place), ") * ", number(vector_)}, "column");
    own.inside = emitter_->let("bool",
                               own.line + " < " + integer(lines_) +
                                   (virtual_rows_ ? "" : " && " + own.column + " < " + integer(inner_.extent)),
                               "inside");
    own.begin = let(times(own.chunk, integer(chunk_rows_)), "begin");
    own.end = let("min(" + plus(own.begin, integer(chunk_rows_)) + ", " + integer(row_extent_) + ")", "end");
    return own;
}

void MomentsWriter::write_body() {
    Body& body = *body_;
    declare_sums();
    body.line("TF_AFTER();");  // first: the preparation beside it starts where all blocks have come past TF_BESIDE
    body.line("TF_BESIDE();");
    const Share own = share();
    if (direct_) {
        std::string base = "0";
        for (size_t i = 0; i < outer_.size(); ++i)
            base = plus(base, times("(long long)" + own.outer[i], integer64(outer_[i].stride)));
        pointer_ = body.fresh("from");
        const std::string type = "const " + std::string(storage_name(storage_));
        body.line(type + "* __restrict__ " + pointer_ + " = " + parameters_->pointer(places_.at(x_).base, type, true) +
                  " + " + base + ";");
    }
    const std::string cell = body.fresh("cell");
    if (held_) body.line("#pragma unroll");
    emitter_->open({"for (int ", cell, " = 0; ", cell, " < ", number(cell_count_), "; ++", cell, ")"});
    sum_cell(cell, own);
    emitter_->close();
    if (inner_.reduced && sums_at_once() > inner_boxes()) add_warps("0", sums_at_once());
    if (!held_) body.line("__syncthreads();");
    write_boxes(own);
}

void MomentsWriter::sum_cell(const std::string& cell, const Share& own) {
    const std::vector<CellText> here = cell_texts(cell, own.begin, own.end);
    std::string count = "1";
    for (const CellText& c : here) count = times(count, c.count);
    count = let(count, "count");
    // Accumulators: one a lane where columns differ, else one.
    const bool separate = !inner_.reduced || inner_.intervals.size() > 1 || !inner_.whole();
    const int lanes = separate ? vector_ : 1;
    const std::string sum = held_ ? "tf_sums[" + cell + "]" : body_->fresh("sum");
    if (!held_) body_->line({"double ", sum, (lanes > 1 ? "[" + number(lanes) + "] = {};" : " = 0.0;")});
    std::vector<std::string> sums;
    for (int l = 0; l < lanes; ++l) sums.push_back(lanes > 1 || held_ ? sum + "[" + number(l) + "]" : sum);
    write_rows(here, count, own, sums);
    if (held_) return;
    if (inner_.reduced)
        finish_reduced_inner(cell, count, sums, separate, own);
    else
        finish_kept_inner(cell, count, sums, own);
}

std::string MomentsWriter::integer64(int64_t value) {
    if (value < int64_t{1} << 31) return integer(value);
    // A stride beyond 32 bits: as high and low words.
    return "((long long)" + integer(value >> 20) + " * 1048576 + " + integer(value & 1048575) + ")";
}

std::vector<BoxSumsWriter::CellText> MomentsWriter::cell_texts(const std::string& cell, const std::string& begin,
                                                               const std::string& end) {
    std::vector<CellText> texts;
    if (rows_.empty()) {
        if (virtual_rows_) texts.push_back({begin, "1", let({end, " - ", begin}, "rows")});
        return texts;
    }
    std::string rest = cell;
    std::vector<std::string> which(rows_.size());
    for (size_t i = rows_.size(); i-- > 0;) {
        const auto count = static_cast<int64_t>(cells_[i].size());
        const std::string q = parameters_->quotient(rest, count, false);
        which[i] = let(parameters_->remainder(rest, q, count, false), "which");
        rest = q;
    }
    int64_t table_begin = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
        std::string lo, hi, step;
        if (held_) {  // the loop over cells is unrolled
            const auto of = [&](int64_t Cell::*member, const char* prefix) {
                std::string text = integer(cells_[i].back().*member);
                for (size_t c = cells_[i].size() - 1; c-- > 0;)
                    text = which[i] + " == " + number(static_cast<int64_t>(c)) + " ? " + integer(cells_[i][c].*member) +
                           " : " + text;
                return let(text, prefix);
            };
            lo = of(&Cell::lo, "lo"), hi = of(&Cell::hi, "hi"), step = number(cells_[i][0].step);  // all have one step
        } else if (cell_count_ > 1) {
            const std::string at = let(plus(times(which[i], "4"), number(table_begin)), "at");
            lo = let({"tf_cells[", at, "]"}, "lo"), hi = let({"tf_cells[", at, " + 1]"}, "hi"),
            step = let({"tf_cells[", at, " + 2]"}, "step");
        } else {
            lo = integer(cells_[i][0].lo), hi = integer(cells_[i][0].hi), step = integer(cells_[i][0].step);
        }
        table_begin += static_cast<int64_t>(cells_[i].size()) * 4;
        texts.push_back(i == 0 ? cut_cell(lo, hi, step, begin, end, "rows") : whole_cell(lo, hi, step, "rows"));
    }
    return texts;
}

void MomentsWriter::write_rows(const std::vector<CellText>& cell, const std::string& count, const Share& own,
                               const std::vector<std::string>& sums) {
    Body& body = *body_;
    const bool many = virtual_rows_ || !rows_.empty();
    const int steps = many ? unroll : 1;
    emitter_->open({"if (", own.inside, " && ", count, " > 0)"});
    const std::string t = body.fresh("t");
    emitter_->open({"for (int ", t, " = ", own.line, "; ", t, " < ", count, "; ", t,
                    " += ", times(number(steps), integer(lines_)), ")"});
    // Loads of several rows before any is added: so many are in flight together.
    const std::string real(real_name(real_)), u = body.fresh("u"), l = body.fresh("lane"), part = body.fresh("part");
    const std::string wanted = "[" + number(vector_ * steps) + "]", at = plus(times(l, number(steps)), u);
    body.line({real, " ", part, wanted, ";"});
    body.line("#pragma unroll");
    emitter_->open({"for (int ", u, " = 0; ", u, " < ", number(steps), "; ++", u, ")"});
    const std::string row = steps > 1 ? let(plus(t, times(u, integer(lines_))), "row") : t;
    const std::string nearest = steps > 1 ? let({"min(", row, ", ", count, " - 1)"}, "row") : row;
    counted_ = steps > 1 ? row + " < " + count : "true";
    const Lanes loaded = load(cell, nearest, own);
    auto counted = [&](const std::string& value) {
        return counted_ == "true" ? "(" + real + ")" + value
                                  : counted_ + " ? (" + real + ")" + value + " : " + literal(0, real_);
    };
    if (!pack_.empty() && vector_ > 1) {
        body.line("#pragma unroll");
        body.line({"for (int ", l, " = 0; ", l, " < ", number(vector_), "; ++", l, ") ", part, "[", at,
                   "] = ", counted("tf_to<" + real + ">(" + pack_ + ".lane[" + l + "])"), ";"});
    } else {
        for (int lane = 0; lane < vector_; ++lane)
            body.line(
                {part, "[", plus(number(lane * steps), u), "] = ", counted(loaded[static_cast<size_t>(lane)]), ";"});
    }
    emitter_->close();
    // In pairs, in their own precision; one conversion for all (or for all of a lane).
    const int width = sums.size() == 1 ? vector_ * steps : steps;
    const std::string step = body.fresh("step"), first = body.fresh("first");
    body.line("#pragma unroll");
    body.line({"for (int ", step, " = 1; ", step, " < ", number(width), "; ", step, " *= 2)"});
    body.line("#pragma unroll");
    body.line({"for (int ", first, " = 0; ",   first, " < ", number(vector_ * steps),
               "; ",        first, " += 2 * ", step,  ") ",  part,
               "[",         first, "] += ",    part,  "[",   first,
               " + ",       step,  "];"});
    if (sums.size() == 1) {
        body.line({sums[0], " += (double)", part, "[0];"});
    } else {
        const std::string sum = sums[0].substr(0, sums[0].rfind('['));
        body.line("#pragma unroll");
        body.line({"for (int ", l, " = 0; ", l, " < ", number(vector_), "; ++", l, ") ", sum, "[", l, "] += (double)",
                   part, "[", times(l, number(steps)), "];"});
    }
    emitter_->close();
    emitter_->close();
}

Lanes MomentsWriter::load(const std::vector<CellText>& cell, const std::string& row, const Share& own) {
    pack_.clear();
    if (virtual_rows_) {
        // Rows lie one after another; the last may be short.
        const std::string raw =
            let({"(", plus(cell[0].first, row), ") * ", number(threads * vector_), " + ", own.column}, "at");
        const std::string limit = integer(inner_.extent);
        const std::string fits =
            emitter_->let("bool", {(counted_ == "true" ? "" : counted_ + " && "), raw, " < ", limit}, "fits");
        counted_ = fits;
        const std::string at = let({"min(", raw, ", ", limit, " - ", number(vector_), ")"}, "at");
        return load_direct(pointer_, at);
    }
    const std::vector<std::string> index = row_of_cell(cell, row);
    if (direct_) {
        std::string at = own.column;
        for (size_t i = 0; i < rows_.size(); ++i) at = plus(times(index[i], integer(rows_[i].stride)), at);
        return load_direct(pointer_, let(at, "at"));
    }
    Index logical(static_cast<size_t>(graph_[x_].type.rank()), Coordinate{"0"});
    for (size_t i = 0; i < rows_.size(); ++i) logical[rows_[i].logical[0]] = {index[i]};
    for (size_t i = 0; i < outer_.size(); ++i) logical[outer_[i].logical[0]] = {own.outer[i]};
    logical[inner_.logical[0]] = {own.column, vector_ > 1};
    return emitter_->value(x_, logical);
}

}  // namespace transfuse::cuda
