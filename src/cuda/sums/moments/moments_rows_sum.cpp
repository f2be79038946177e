// The rows' part of the kernel: each row summed over every interval of the contiguous axis.
#include <bit>

#include "cuda/sums/moments/figures.h"
#include "cuda/sums/moments/moments_rows.h"

namespace transfuse::cuda {

using namespace figures::moments::by_rows;

// The names of the text that sums rows.
struct RowSumsWriter::RowText {
    std::string columns, lines;  // lanes that share a row, rows that a block reads side by side
    std::string lane, line;      // this thread's
    std::string vectors;         // of a row
    std::string t, u, l, j;      // loops: over rounds, rows in flight, elements of a vector, intervals
    std::string sum, value, in;  // [u][j], [u][l], and [j][l]: whether the element counts
    std::string row;             // the block's row that is u of round t
};

RowSumsWriter::RowText RowSumsWriter::row_text() {
    RowText text;
    text.columns = number(columns_), text.lines = number(threads / columns_);
    if (any_size()) {  // powers of two
        const std::string shift = let(integer(std::countr_zero(static_cast<uint64_t>(columns_))), "shift");
        text.columns = let({"1 << ", shift}, "columns"), text.lines = let({number(threads), " >> ", shift}, "lines");
        text.lane = let({"(int)threadIdx.x & (", text.columns, " - 1)"}, "lane");
        text.line = let({"(int)threadIdx.x >> ", shift}, "line");
    } else {
        text.lane = let({"(int)threadIdx.x % ", text.columns}, "lane");
        text.line = let({"(int)threadIdx.x / ", text.columns}, "line");
    }
    text.vectors = let({integer(inner_.extent), " / ", number(vector_)}, "vectors");
    text.t = body_->fresh("t"), text.u = body_->fresh("u"), text.l = body_->fresh("l"), text.j = body_->fresh("j");
    text.sum = body_->fresh("sum"), text.value = body_->fresh("value"), text.in = body_->fresh("in");
    text.row = plus(text.t + " + " + text.line, times(text.u, text.lines));
    return text;
}

// The head of an unrolled loop.
std::string RowSumsWriter::every(const std::string& i, int64_t count) {
    body_->line("#pragma unroll");
    return "for (int " + i + " = 0; " + i + " < " + number(count) + "; ++" + i + ")";
}

// Of one row's elements in the input's precision; of rows longer than a warp reads at once, of their parts in double.
std::string RowSumsWriter::row_sum_type() const { return long_rows_ ? "double" : std::string(real_name(real_)); }

void RowSumsWriter::sum_rows() {
    Body& body = *body_;
    const RowText text = row_text();
    // All lanes go round together; rows beyond the last are the last one once more.
    emitter_->open({"for (int ", text.t, " = 0; ", text.t, " < ", rows_here_, "; ", text.t,
                    " += ", times(text.lines, number(at_once)), ")"});
    body.line({row_sum_type(), " ", text.sum, "[", number(at_once), "][", number(inner_boxes()), "] = {};"});
    std::string vector = text.lane;
    if (long_rows_) {
        vector = body.fresh("v");
        emitter_->open({"for (int ", vector, " = ", text.lane, "; ", vector, " < ", text.vectors, "; ", vector,
                        " += ", text.columns, ")"});
    } else {
        emitter_->open({"if (", vector, " < ", text.vectors, ")"});
    }
    const std::string column = let(times(vector, number(vector_)), "column");
    load_rows(text, column);
    const bool masks = !inner_.whole() || parameters_->any_size();
    if (masks) mark_columns(text, column);
    add_vectors(text, masks);
    emitter_->close();
    add_lanes(text);
    emitter_->close();
}

// Loads of several rows before any is added: so many are in flight together.
void RowSumsWriter::load_rows(const RowText& text, const std::string& column) {
    Body& body = *body_;
    const std::string real(real_name(real_));
    body.line({real, " ", text.value, "[", number(at_once), "][", number(vector_), "];"});
    emitter_->open(every(text.u, at_once));
    const Lanes loaded = load(let({"min(", text.row, ", ", rows_here_, " - 1)"}, "row"), column);
    const std::string into = text.value + "[" + text.u + "]";
    if (!pack_.empty())
        body.line(
            {every(text.l, vector_), " ", into, "[", text.l, "] = tf_to<", real, ">(", pack_, ".lane[", text.l, "]);"});
    else
        for (int lane = 0; lane < vector_; ++lane)
            body.line({into, "[", number(lane), "] = (", real, ")", loaded[static_cast<size_t>(lane)], ";"});
    emitter_->close();
}

void RowSumsWriter::mark_columns(const RowText& text, const std::string& column) {
    body_->line({"bool ", text.in, "[", number(inner_boxes()), "][", number(vector_), "];"});
    emitter_->open(every(text.l, vector_));
    const std::string i = let(plus(column, text.l), "i");
    for (int64_t j = 0; j < inner_boxes(); ++j)
        body_->line({text.in, "[", number(j), "][", text.l, "] = (",
                     lies_in(inner_.intervals[static_cast<size_t>(j)], i), ");"});
    emitter_->close();
}

void RowSumsWriter::add_vectors(const RowText& text, bool masks) {
    Body& body = *body_;
    const std::string real(real_name(real_)), &l = text.l;
    emitter_->open(every(text.u, at_once));
    emitter_->open(every(text.j, inner_boxes()));
    const auto element = [&](const std::string& i) {
        const std::string own = text.value + "[" + text.u + "][" + i + "]";
        return masks ? "(" + text.in + "[" + text.j + "][" + i + "] ? " + own + " : " + literal(0, real_) + ")" : own;
    };
    const std::string part = body.fresh("part");
    body.line({real, " ", part, " = ", element("0"), ";"});
    body.line("#pragma unroll");
    body.line({"for (int ", l, " = 1; ", l, " < ", number(vector_), "; ++", l, ") ", part, " += ", element(l), ";"});
    body.line({text.sum, "[", text.u, "][", text.j, "] += (", row_sum_type(), ")", part, ";"});
    emitter_->close();
    emitter_->close();
}

void RowSumsWriter::add_lanes(const RowText& text) {
    Body& body = *body_;
    const std::string own = text.sum + "[" + text.u + "][" + text.j + "]";
    const std::string add = own + " += __shfl_down_sync(0xffffffffu, " + own + ", d, " + text.columns + ");";
    if (any_size()) {  // all sums side by side: none waits for another
        emitter_->open({"for (int d = ", text.columns, " / 2; d > 0; d /= 2)"});
        body.line(every(text.u, at_once));
        body.line({every(text.j, inner_boxes()), " ", add});
        emitter_->close();
    }
    emitter_->open(every(text.u, at_once));
    emitter_->open(every(text.j, inner_boxes()));
    if (!any_size()) {
        body.line("#pragma unroll");
        body.line({"for (int d = ", number(columns_ / 2), "; d > 0; d /= 2) ", add});
    }
    body.line({"if (", text.lane, " == 0 && ", text.row, " < ", rows_here_, ") tf_rows[",
               plus(times("(" + text.row + ")", number(inner_boxes())), text.j), "] = (double)", own, ";"});
    emitter_->close();
    emitter_->close();
}

// One vector of a block's row: its elements, or, as it lies in memory, pack_.
Lanes RowSumsWriter::load(const std::string& row, const std::string& column) {
    pack_.clear();
    if (!first_row_.empty())
        return load_direct(pointer(), plus(column, times(plus(first_row_, row), integer(rows_.back().stride))));
    std::string plane = group_, rest = row;
    if (has_planes()) {
        const int64_t count = chunk_row_count();
        const std::string q = let(parameters_->quotient(row, count, true), "q");
        rest = let(parameters_->remainder(row, q, count, true), "r");
        plane = let({group_, " * ", planes_text(), " + ", q}, "plane");
    }
    std::vector<std::string> index(rows_.size());
    for (size_t i = rows_.size(); i-- > 0;) {
        if (i == 0) {
            index[i] = begins_at_zero() ? rest : let(plus(begin_, rest), "i");
            break;
        }
        const std::string q = let(parameters_->quotient(rest, rows_[i].extent, true), "q");
        index[i] = let(parameters_->remainder(rest, q, rows_[i].extent, true), "i");
        rest = q;
    }
    const std::vector<std::string> outer = outer_of(plane);
    if (!direct_) {
        Index logical(static_cast<size_t>(graph_[x_].type.rank()), Coordinate{"0"});
        for (size_t i = 0; i < rows_.size(); ++i) logical[rows_[i].logical[0]] = {index[i]};
        for (size_t i = 0; i < outer_.size(); ++i) logical[outer_[i].logical[0]] = {outer[i]};
        logical[inner_.logical[0]] = {column, vector_ > 1};
        return emitter_->value(x_, logical);
    }
    std::string at = column;
    for (size_t i = 0; i < rows_.size(); ++i) at = plus(at, times(index[i], integer(rows_[i].stride)));
    for (size_t i = 0; i < outer_.size(); ++i) at = plus(at, times(outer[i], integer(outer_[i].stride)));
    return load_direct(pointer(), at);
}

std::string RowSumsWriter::pointer() {
    const Place& place = places_.at(x_);
    return parameters_->pointer(place.base, "const " + std::string(storage_name(storage_)), place.read_only);
}

}  // namespace transfuse::cuda
