// From the sums of rows to those of boxes.
#include "cuda/sums/moments/moments_rows.h"

namespace transfuse::cuda {

// A warp for each choice of intervals, one of every row axis: its lanes share the rows of a plane.
void RowSumsWriter::sum_boxes() {
    Body& body = *body_;
    const std::string lane = let("(int)threadIdx.x % 32", "lane"), task = body.fresh("task"), sum = body.fresh("sum"),
                      t = body.fresh("t"), j = body.fresh("j"), boxes = number(inner_boxes());
    const std::string tasks = let(times(planes_here(), number(row_boxes())), "tasks");
    emitter_->open({"for (int ", task, " = (int)threadIdx.x / 32; ", task, " < ", tasks, "; ", task,
                    " += ", number(threads / 32), ")"});
    const std::string plane = has_planes() ? let({task, " / ", number(row_boxes())}, "plane") : "0";
    const std::string chosen = has_planes() ? let({task, " % ", number(row_boxes())}, "chosen") : task;
    const std::vector<std::string> which = intervals_of(chosen);
    const std::string to = first_box(plane, box_of(chosen, which));
    body.line({"double ", sum, "[", boxes, "] = {};"});
    const std::string slice = rows_of_slice(), rows = "(" + end_ + " - " + begin_ + ")";
    const std::string all = !has_planes()      ? rows_here_
                            : begins_at_zero() ? let(row_count_text(), "all")
                                               : let(times(rows, slice), "all");
    emitter_->open({"for (int ", t, " = ", lane, "; ", t, " < ", all, "; ", t, " += 32)"});
    emitter_->open({"if (", lies_in_box(which, t), ")"});
    const std::string row = has_planes() ? plus(times(times(plane, integer(chunk_rows_)), slice), t) : t;
    body.line("#pragma unroll");
    body.line({"for (int j = 0; j < ", boxes, "; ++j) ", sum, "[j] += tf_rows[(", row, ") * ", boxes, " + j];"});
    emitter_->close();
    emitter_->close();
    body.line("#pragma unroll");
    emitter_->open({"for (int ", j, " = 0; ", j, " < ", boxes, "; ++", j, ")"});
    body.line({"for (int d = 16; d > 0; d /= 2) ", sum, "[", j, "] += __shfl_down_sync(0xffffffffu, ", sum, "[", j,
               "], d);"});
    body.line({"if (", lane, " == 0) tf_store(", to_, " + (",
               plus(to, times(j, integer(place().strides[1] * step_of(inner_)))), "), ", sum, "[", j, "]);"});
    emitter_->close();
    emitter_->close();
}

int64_t RowSumsWriter::row_boxes() const {
    int64_t count = 1;
    for (const Axis& row : rows_) count *= static_cast<int64_t>(row.intervals.size());
    return count;
}

std::string RowSumsWriter::rows_of_slice() {
    std::string rows = "1";
    for (size_t i = 1; i < rows_.size(); ++i) rows = times(rows, integer(rows_[i].extent));
    return rows;
}

// Which interval of each row axis.
std::vector<std::string> RowSumsWriter::intervals_of(const std::string& chosen) {
    std::vector<std::string> which(rows_.size(), "0");
    std::string rest = chosen;
    for (size_t i = rows_.size(); i-- > 0;) {
        const auto count = static_cast<int64_t>(rows_[i].intervals.size());
        if (count == 1) continue;
        which[i] = count == row_boxes() ? rest : let({rest, " % ", number(count)}, "which");
        if (count < row_boxes() && i > 0) rest = let({rest, " / ", number(count)}, "rest");
    }
    return which;
}

// Whether row number `t` of the block's part of a plane lies in the chosen interval of every axis.
std::string RowSumsWriter::lies_in_box(const std::vector<std::string>& which, const std::string& t) {
    std::string found, rest = t;
    for (size_t i = rows_.size(); i-- > 0;) {
        std::string index = rest;
        if (i > 0) {
            const std::string q = let(parameters_->quotient(rest, rows_[i].extent, true), "q");
            index = let(parameters_->remainder(rest, q, rows_[i].extent, true), "i");
            rest = q;
        } else if (!begins_at_zero()) {
            index = let(plus(begin_, rest), "i");
        }
        const auto& intervals = rows_[i].intervals;
        std::string lies = lies_in(intervals.back(), index);
        for (size_t k = intervals.size() - 1; k-- > 0;)
            lies = which[i] + " == " + number(static_cast<int64_t>(k)) + " ? " + lies_in(intervals[k], index) + " : " +
                   lies;
        found += (found.empty() ? "(" : " && (") + lies + ")";
    }
    return found;
}

// Boxes between one interval of the axis and its next.
int64_t RowSumsWriter::step_of(const Axis& axis) const {
    const Node& node = graph_[box_];
    const Sizes &dims = node.attributes.integers(Key::dims), &counts = node.attributes.integers(Key::counts);
    int64_t step = 0;  // merged axes have one interval
    for (size_t j = 0; j < dims.size(); ++j)
        step = axis.logical.size() == 1 && static_cast<size_t>(dims[j]) == axis.logical[0] ? 1 : step * counts[j];
    return step;
}

// The first box of a choice: what the contiguous axis adds is left out.
std::string RowSumsWriter::box_of(const std::string& chosen, const std::vector<std::string>& which) const {
    bool in_order = true;
    int64_t behind = inner_boxes();
    std::string box = "0";
    for (size_t i = rows_.size(); i-- > 0;) {
        const auto count = static_cast<int64_t>(rows_[i].intervals.size());
        if (count == 1) continue;
        in_order = in_order && step_of(rows_[i]) == behind;
        behind *= count;
        box = plus(times(which[i], number(step_of(rows_[i]))), box);
    }
    return in_order ? times(chosen, number(inner_boxes())) : box;
}

// Where the sums of a choice begin.
std::string RowSumsWriter::first_box(const std::string& plane, const std::string& box) {
    const Place to = place();
    const Sizes& shape = graph_[x_].type.shape;
    to_ = parameters_->pointer(to.base, std::string(storage_name(to.storage)), false);
    const std::vector<std::string> outer =
        outer_of(has_planes() ? let({group_, " * ", planes_text(), " + ", plane}, "plane") : group_);
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
    return let(offset, "to");
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
