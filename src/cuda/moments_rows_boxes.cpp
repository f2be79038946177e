// From the sums of rows to those of boxes: rows that all boxes treat alike are a cell, and a box is a few cells.
#include "cuda/moments_rows.h"

namespace transfuse::cuda {

// A warp a cell: its lanes share the cell's rows, each of which is in no other.
void RowSumsWriter::sum_cells() {
    Body& body = *body_;
    const std::string base = body.fresh("base"), warp = let("(int)threadIdx.x / 32", "warp"),
                      lane = let("(int)threadIdx.x % 32", "lane");
    const std::string tasks = let(times(planes_here(), number(cell_count_)), "tasks");
    emitter_->open("for (int " + base + " = 0; " + base + " < " + tasks + "; " + base + " += " + number(threads / 32) +
                   ")");
    // Warps beyond the last repeat it.
    const std::string task = let("min(" + base + " + " + warp + ", " + tasks + " - 1)", "task");
    const std::vector<CellText> cell = cell_texts(let(task + " % " + number(cell_count_), "cell"));
    std::string total = "1";
    for (const CellText& axis : cell) total = times(total, axis.count);
    const std::string all = let(total, "all"), sum = body.fresh("sum"), t = body.fresh("t");
    body.line("double " + sum + "[" + number(inner_boxes()) + "] = {};");
    emitter_->open("for (int " + t + " = " + lane + "; " + t + " < " + all + "; " + t + " += 32)");
    const std::vector<std::string> index = row_of_cell(cell, t);
    std::string row = begins_at_zero() ? index[0] : "(" + index[0] + " - " + begin_ + ")";
    if (has_planes()) row = plus(times("(" + task + " / " + number(cell_count_) + ")", integer(chunk_rows_)), row);
    for (size_t i = 1; i < rows_.size(); ++i) row = plus(times(row, integer(rows_[i].extent)), index[i]);
    const std::string at = let(times(row, number(inner_boxes())), "at");
    for (int64_t j = 0; j < inner_boxes(); ++j)
        body.line(sum + "[" + number(j) + "] += tf_rows[" + plus(at, number(j)) + "];");
    emitter_->close();
    body.line("#pragma unroll");
    body.line("for (int j = 0; j < " + number(inner_boxes()) + "; ++j) for (int d = 16; d > 0; d /= 2) " + sum +
              "[j] += __shfl_down_sync(0xffffffffu, " + sum + "[j], d);");
    emitter_->open("if (" + lane + " == 0)");
    for (int64_t j = 0; j < inner_boxes(); ++j)
        body.line("tf_sums[" + plus(times(task, number(inner_boxes())), number(j)) + "] = " + sum + "[" + number(j) +
                  "];");
    emitter_->close();
    emitter_->close();
}

// What of cell number `cell` lies within this block's part of the outermost row axis.
std::vector<BoxSumsWriter::CellText> RowSumsWriter::cell_texts(const std::string& cell) {
    std::vector<CellText> texts(rows_.size());
    int64_t table = 0;
    for (const auto& cells : cells_) table += static_cast<int64_t>(cells.size()) * 3;
    std::string rest = cell;
    for (size_t i = rows_.size(); i-- > 0;) {
        const auto cells = static_cast<int64_t>(cells_[i].size());
        table -= cells * 3;
        const std::string which = cells == 1 ? "0" : let(rest + " % " + number(cells), "which");
        const std::string at = let(plus(times(which, "3"), number(table)), "at");
        if (i > 0 && cells > 1) rest = let(rest + " / " + number(cells), "rest");
        const std::string lo = let("tf_cells[" + at + "]", "lo"), hi = let("tf_cells[" + at + " + 1]", "hi"),
                          step = let("tf_cells[" + at + " + 2]", "step");
        texts[i] = i > 0 ? whole_cell(lo, hi, step, "count") : cut_cell(lo, hi, step, begin_, end_, "count");
    }
    return texts;
}

// A thread a box: the cells it is made of.
void RowSumsWriter::sum_boxes() {
    Body& body = *body_;
    const std::vector<std::string> masks = cell_masks();
    const std::string task = body.fresh("task");
    emitter_->open("for (int " + task + " = (int)threadIdx.x; " + task + " < " + times(planes_here(), number(boxes())) +
                   "; " + task + " += " + number(threads) + ")");
    const std::string plane = has_planes() ? let(task + " / " + number(boxes()), "plane") : "0";
    const std::string box = has_planes() ? let(task + " % " + number(boxes()), "box") : task;
    const std::vector<std::string> intervals = intervals_of(box);
    const std::string sum = body.fresh("sum");
    body.line("double " + sum + " = 0.0;");
    std::string cell = "0";
    for (size_t i = 0; i < rows_.size(); ++i) {
        const auto cells = static_cast<int64_t>(cells_[i].size());
        const std::string c = body.fresh("c"), &which = intervals[i];
        emitter_->open("for (int " + c + " = 0; " + c + " < " + number(cells) + "; ++" + c + ")");
        if (!masks[i].empty())
            body.line("if (!(" + masks[i] + "[2 * " + c + " + " + which + " / 30] >> " + which +
                      " % 30 & 1)) continue;");
        cell = plus(times(cell, number(cells)), c);
    }
    cell = plus(times(plane, number(cell_count_)), cell);
    body.line(sum + " += tf_sums[" + plus(times(cell, number(inner_boxes())), intervals.back()) + "];");
    for (size_t i = 0; i < rows_.size(); ++i) emitter_->close();
    store_box(plane, box, sum);
    emitter_->close();
}

// Per row axis, the name of a table: of each cell, in which intervals it lies, 30 bits a word. Empty where it is in
// all.
std::vector<std::string> RowSumsWriter::cell_masks() {
    std::vector<std::string> names;
    for (const auto& cells : cells_) {
        std::vector<int64_t> words;
        for (const Cell& cell : cells) words.push_back(cell.mask & 0x3fffffff), words.push_back(cell.mask >> 30);
        names.push_back(cells.size() == 1 && cells[0].mask == 1 ? "" : emitter_->integer_table(words));
    }
    return names;
}

// Which interval of each row axis, and at last of the contiguous one, a box takes.
std::vector<std::string> RowSumsWriter::intervals_of(const std::string& box) {
    const Node& node = graph_[box_];
    const Sizes &dims = node.attributes.integers(Key::dims), &counts = node.attributes.integers(Key::counts);
    std::vector<std::string> of_dim(dims.size(), "0");
    std::string rest = box;
    for (size_t j = dims.size(); j-- > 0;) {
        if (counts[j] == 1) continue;
        of_dim[j] = let(rest + " % " + number(counts[j]), "which");
        rest = let(rest + " / " + number(counts[j]), "rest");
    }
    auto of_axis = [&](const Axis& axis) {
        for (size_t j = 0; j < dims.size(); ++j)
            if (axis.logical.size() == 1 && static_cast<size_t>(dims[j]) == axis.logical[0]) return of_dim[j];
        return std::string("0");  // merged axes have one interval
    };
    std::vector<std::string> intervals;
    for (const Axis& row : rows_) intervals.push_back(of_axis(row));
    intervals.push_back(of_axis(inner_));
    return intervals;
}

void RowSumsWriter::store_box(const std::string& plane, const std::string& box, const std::string& sum) {
    const Place to = place();
    const Sizes& shape = graph_[x_].type.shape;
    const std::string pointer = parameters_->pointer(to.base, std::string(storage_name(to.storage)), false);
    const std::vector<std::string> outer =
        outer_of(has_planes() ? let(group_ + " * " + planes_text() + " + " + plane, "plane") : group_);
    std::string offset = times(box, integer(to.strides[1]));
    for (size_t i = 0; i < outer_.size(); ++i) {
        std::string rest = outer[i];
        for (size_t k = outer_[i].logical.size(); k-- > 0;) {
            const size_t axis = outer_[i].logical[k];
            std::string own = rest;
            if (k > 0) {
                const std::string q = let(parameters_->quotient(rest, shape[axis], true), "q");
                own = let(parameters_->remainder(rest, q, shape[axis], true), "r");
                rest = q;
            }
            offset = plus(offset, times(own, integer(axis == 1 ? to.strides[1] * boxes() : to.strides[axis])));
        }
    }
    if (in_slots())
        offset = plus(
            offset, times("(" + begin_ + " / " + integer(chunk_rows_) + ")", integer(numel(graph_[box_].type.shape))));
    body_->line("tf_store(" + pointer + " + (" + offset + "), " + sum + ");");
}

std::vector<std::string> RowSumsWriter::outer_of(const std::string& plane) {
    std::vector<std::string> outer(outer_.size());
    std::string rest = plane;
    for (size_t i = outer_.size(); i-- > 0;) {
        if (i == 0) {
            outer[i] = rest;
            break;
        }
        const std::string q = let(parameters_->quotient(rest, outer_[i].extent, true), "q");
        outer[i] = let(parameters_->remainder(rest, q, outer_[i].extent, true), "outer");
        rest = q;
    }
    return outer;
}

}  // namespace transfuse::cuda
