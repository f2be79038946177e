// How a moments kernel joins its threads' sums of cells, and cells into boxes.
#include "cuda/sums/moments/figures.h"
#include "cuda/sums/moments/moments_writer.h"

namespace transfuse::cuda {

int64_t MomentsWriter::sums_at_once() const {
    const int64_t all = cell_count_ * inner_boxes();
    return all <= figures::moments::by_cells::most_at_once ? all : inner_boxes();
}

void MomentsWriter::finish_reduced_inner(const std::string& cell, const std::string& count,
                                         const std::vector<std::string>& sums, bool separate, const Share& own) {
    Body& body = *body_;
    const bool at_once = sums_at_once() > inner_boxes() || cell_count_ == 1;
    for (int64_t j = 0; j < inner_boxes(); ++j) {
        const Interval& interval = inner_.intervals[static_cast<size_t>(j)];
        std::string mine = "0.0";
        if (!separate) {
            mine = sums[0];
        } else {
            for (size_t l = 0; l < sums.size(); ++l) {
                const std::string i = "(" + own.column + " + " + number(static_cast<int64_t>(l)) + ")";
                mine += " + (" + lies_in(interval, i) + " ? " + sums[l] + " : 0.0)";
            }
        }
        // Many chunks have no row of a border's cell.
        const std::string total =
            emitter_->let("double", {count, " > 0 ? tf_warp_sum(", own.inside, " ? ", mine, " : 0.0) : 0.0"}, "total");
        body.line({"if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * ", number(sums_at_once()), " + ",
                   plus(at_once ? times(cell, number(inner_boxes())) : "0", number(j)), "] = ", total, ";"});
    }
    if (at_once && cell_count_ > 1) return;
    add_warps(times(cell, number(inner_boxes())), inner_boxes());
    body.line("__syncthreads();");
}

void MomentsWriter::add_warps(const std::string& first, int64_t count) {
    Body& body = *body_;
    body.line("__syncthreads();");
    const std::string i = body.fresh("i"), total = body.fresh("total"), warp = body.fresh("warp");
    body.open({"for (int ", i, " = threadIdx.x; ", i, " < ", number(count), "; ", i, " += ", number(threads), ")"});
    body.line({"double ", total, " = 0.0;"});
    body.line({"for (int ", warp, " = 0; ", warp, " < ", number(threads / 32), "; ++", warp, ") ", total,
               " += tf_warps[", warp, " * ", number(sums_at_once()), " + ", i, "];"});
    body.line({"tf_sums[", plus(first, i), "] = ", total, ";"});
    body.close();
}

void MomentsWriter::finish_kept_inner(const std::string& cell, const std::string& count,
                                      const std::vector<std::string>& sums, const Share& own) {
    Body& body = *body_;
    const bool several = sums.size() > 1;
    const std::string l = several ? body.fresh("l") : "0",
                      sum = several ? sums[0].substr(0, sums[0].find('[')) + "[" + l + "]" : sums[0];
    const std::string slot =
        "tf_sums[" + plus(times(cell, times(width_, number(vector_))), plus(times(own.place, number(vector_)), l)) +
        "]";
    const auto open_lanes = [&] {
        if (several) body.line("#pragma unroll");
        emitter_->open(several ? "for (int " + l + " = 0; " + l + " < " + number(vector_) + "; ++" + l + ")" : "");
    };
    if (!has_lines()) {
        emitter_->open({"if (", own.inside, ")"});
        open_lanes();
        body.line({slot, " = ", sum, ";"});
        emitter_->close();
        emitter_->close();
        return;
    }
    // Lines meet in pairs: a thread by itself would add hundreds of them where few channels lie innermost. Each reads
    // and writes its own last, so the next cell need not wait.
    const std::string half = body.fresh("half"), lines = integer(lines_);
    const auto line = [&](const std::string& which) {
        return "tf_lines[(" + plus(times(which, integer(columns_)), own.place) + ") * " + number(vector_) + " + " + l +
               "]";
    };
    emitter_->open({"if (", count, " > 0)"});
    open_lanes();
    body.line({"tf_lines[threadIdx.x * ", number(vector_), " + ", l, "] = ", own.inside, " ? ", sum, " : 0.0;"});
    emitter_->close();
    body.line({"int ", half, " = 1;"});
    body.line({"while (2 * ", half, " < ", lines, ") ", half, " *= 2;"});
    body.line("__syncthreads();");
    emitter_->open({"for (; ", half, " > 0; ", half, " /= 2)"});
    emitter_->open({"if (", own.line, " < ", half, " && ", own.line, " + ", half, " < ", lines, ")"});
    open_lanes();
    const std::string other = line("(" + own.line + " + " + half + ")"), mine = line(own.line);
    body.line({mine, " += ", other, ";"});
    emitter_->close();
    emitter_->close();
    body.line("__syncthreads();");
    emitter_->close();
    emitter_->close();
    emitter_->open({"if (", own.line, " == 0)"});
    open_lanes();
    body.line({slot, " = ", count, " > 0 ? ", line("0"), " : 0.0;"});
    emitter_->close();
    emitter_->close();
}

std::vector<std::vector<int64_t>> MomentsWriter::box_intervals() const {
    const Node& box = graph_[box_];
    const Sizes &dims = box.attributes.integers(Key::dims), &counts = box.attributes.integers(Key::counts);
    std::vector<std::vector<int64_t>> result;
    for (int64_t b = 0; b < boxes(); ++b) {
        std::vector<int64_t> of_dim(dims.size());
        int64_t rest = b;
        for (size_t j = dims.size(); j-- > 0;) of_dim[j] = rest % counts[j], rest /= counts[j];
        std::vector<int64_t> row;
        auto find = [&](const Axis& axis) {
            for (size_t j = 0; j < dims.size(); ++j)
                if (axis.logical.size() == 1 && static_cast<size_t>(dims[j]) == axis.logical[0]) return of_dim[j];
            return int64_t{0};  // merged axes have one interval
        };
        for (const Axis& axis : rows_) row.push_back(find(axis));
        row.push_back(inner_.reduced ? find(inner_) : 0);
        result.push_back(std::move(row));
    }
    return result;
}

// The memory of the boxes' sums, and where in it the first of this block lies: without box and column.
std::string MomentsWriter::first_sum(const Place& to, const Share& own) {
    std::string offset = "0";
    for (size_t i = 0; i < outer_.size(); ++i) offset = plus_along(offset, outer_[i], own.outer[i], to);
    const std::string slot =
        inner_.reduced ? plus(times(own.chunk, integer(column_blocks_)), own.column_block) : own.chunk;
    if (in_slots()) offset = plus(offset, times("(long long)" + slot, integer64(numel(graph_[box_].type.shape))));
    return emitter_->let("long long", offset, "to");
}

// Further along the axes of x that one of memory's axes stands for, in the result: there a channel has all boxes.
std::string MomentsWriter::plus_along(std::string offset, const Axis& axis, const std::string& index, const Place& to) {
    std::string rest = index;
    for (size_t k = axis.logical.size(); k-- > 0;) {
        const size_t a = axis.logical[k];
        const int64_t extent = graph_[x_].type.shape[a];
        std::string own = rest;
        if (k > 0) {
            const std::string q = let(parameters_->quotient(rest, extent, true), "q");
            own = let(parameters_->remainder(rest, q, extent, true), "r");
            rest = q;
        }
        offset = plus(offset, times("(long long)" + own, integer64(stride_of(a, to, boxes()))));
    }
    return offset;
}

void MomentsWriter::write_boxes(const Share& own) {
    const Place to = this->place();
    const std::string pointer = parameters_->pointer(to.base, std::string(storage_name(to.storage)), false);
    const std::string offset = first_sum(to, own);
    if (inner_.reduced && boxes() == 1 && cell_count_ == 1) {
        body_->line({"if (threadIdx.x == 0) tf_store(", pointer, " + ", offset, ", tf_sums[0]);"});
    } else if (inner_.reduced) {
        boxes_by_threads(to, pointer, offset);
    } else {
        emitter_->open({"if (", own.inside, (held_ ? "" : " && " + own.line + " == 0"), ")"});
        boxes_of_columns(to, pointer, offset, own);
        emitter_->close();
    }
}

// One thread a box; for each axis, the box's interval and the masks of its cells.
void MomentsWriter::boxes_by_threads(const Place& to, const std::string& pointer, const std::string& offset) {
    Body& body = *body_;
    const std::string b = body.fresh("box");
    body.open({"for (int ", b, " = threadIdx.x; ", b, " < ", number(boxes()), "; ", b, " += ", number(threads), ")"});
    const std::string sum = body.fresh("sum");
    body.line({"double ", sum, " = 0.0;"});
    const auto axes = static_cast<int64_t>(rows_.size()) + 1;
    std::string list;
    for (const auto& of_box : box_intervals())
        for (int64_t interval : of_box) list += (list.empty() ? "" : ", ") + number(interval);
    body.line({"static const unsigned char tf_intervals[] = {", list, "};"});
    const std::string of = body.fresh("of");
    body.line({"const unsigned char* ", of, " = tf_intervals + ", times(b, number(axes)), ";"});
    const std::string c = body.fresh("cell");
    std::string in;
    if (cell_count_ > 1) {
        body.line({"static const long long tf_masks[] = {", cell_masks(), "};"});
        for (size_t i = 0; i < rows_.size(); ++i) {
            const std::string axis = number(static_cast<int64_t>(i)), at = plus(times(c, number(axes - 1)), axis);
            in += (in.empty() ? "if (" : " && ") + ("(tf_masks[" + at + "] >> " + of + "[" + axis + "] & 1)");
        }
    }
    body.line({"for (int ", c, " = 0; ", c, " < ", number(cell_count_), "; ++", c, ") ", (in.empty() ? "" : in + ") "),
               sum, " += tf_sums[", plus(times(c, number(inner_boxes())), of + "[" + number(axes - 1) + "]"), "];"});
    body.line({"tf_store(", pointer, " + (", plus(offset, times(b, integer(to.strides[1]))), "), ", sum, ");"});
    body.close();
}

// Of each cell and axis, the intervals that hold it, as bits.
std::string MomentsWriter::cell_masks() const {
    std::string masks;
    for (int64_t c = 0; c < cell_count_; ++c) {
        int64_t rest = c;
        std::vector<std::string> of_axis(rows_.size());
        for (size_t i = rows_.size(); i-- > 0;) {
            const auto count = static_cast<int64_t>(cells_[i].size());
            of_axis[i] = number(cells_[i][static_cast<size_t>(rest % count)].mask);
            rest /= count;
        }
        for (const std::string& mask : of_axis) masks += (masks.empty() ? "" : ", ") + mask;
    }
    return masks;
}

bool MomentsWriter::side_by_side(const Place& to) const {
    int64_t stride = 1;
    for (size_t k = inner_.logical.size(); k-- > 0; stride *= graph_[x_].type.shape[inner_.logical[k]])
        if (stride_of(inner_.logical[k], to, boxes()) != stride) return false;
    bool whole = to.aligned && to.strides[1] % vector_ == 0;
    for (const Axis& axis : outer_)
        for (size_t a : axis.logical) whole = whole && stride_of(a, to, boxes()) % vector_ == 0;
    return whole && (!in_slots() || numel(graph_[box_].type.shape) % vector_ == 0);
}

// A thread has a vector of columns: their sums of each box. Neighbouring elements at once, or one after another: memory
// takes them as one.
void MomentsWriter::boxes_of_columns(const Place& to, const std::string& pointer, const std::string& offset,
                                     const Share& own) {
    Body& body = *body_;
    const std::string l = body.fresh("l"), at = body.fresh("at"), from = plus(times(own.place, number(vector_)), l);
    const std::string lanes = "for (int " + l + " = 0; " + l + " < " + number(vector_) + "; ++" + l + ")";
    const auto sum_of = [&](const std::vector<int64_t>& intervals) {
        return box_sum(intervals, [&](int64_t cell) {
            return held_ ? "tf_sums[" + number(cell) + "][" + l + "]"
                         : "tf_sums[" + plus(times(number(cell), times(width_, number(vector_))), from) + "]";
        });
    };
    if (held_ && vector_ > 1 && side_by_side(to)) {
        const std::string first = emitter_->let("long long", plus(offset, own.column), "at"), box = body.fresh("box");
        for (int64_t b = 0; const std::vector<int64_t>& intervals : box_intervals()) {
            const std::string sums = box + number(b);
            body.line({"double ", sums, "[", number(vector_), "];"});
            body.line("#pragma unroll");
            body.line({lanes, " ", sums, "[", l, "] = ", sum_of(intervals), ";"});
            body.line({"tf_store_row(", pointer, " + (", plus(first, times(number(b++), integer(to.strides[1]))), "), ",
                       sums, ");"});
        }
        return;
    }
    body.line({"long long ", at, "[", number(vector_), "];"});
    body.line("#pragma unroll");
    emitter_->open(lanes);
    const std::string here = plus_along(offset, inner_, let(plus(own.column, l), "column"), to);
    body.line({at, "[", l, "] = ", here, ";"});
    emitter_->close();
    const auto intervals = box_intervals();
    for (int64_t b = 0; b < boxes(); ++b) {
        const std::string sum = sum_of(intervals[static_cast<size_t>(b)]);
        body.line("#pragma unroll");
        body.line({lanes, " tf_store(", pointer, " + (",
                   plus(at + "[" + l + "]", times(number(b), integer(to.strides[1]))), "), ", sum, ");"});
    }
}

std::string MomentsWriter::box_sum(const std::vector<int64_t>& interval,
                                   const std::function<std::string(int64_t)>& cell_text) const {
    std::string sum;
    for (int64_t c = 0; c < cell_count_; ++c) {
        int64_t rest = c;
        bool in = true;
        for (size_t i = rows_.size(); i-- > 0;) {
            const auto count = static_cast<int64_t>(cells_[i].size());
            const Cell& cell = cells_[i][static_cast<size_t>(rest % count)];
            if (!(cell.mask >> interval[i] & 1)) in = false;
            rest /= count;
        }
        if (in) sum += (sum.empty() ? "" : " + ") + cell_text(c);
    }
    return sum.empty() ? "0.0" : "(" + sum + ")";
}

}  // namespace transfuse::cuda
