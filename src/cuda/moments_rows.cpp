#include "cuda/moments_rows.h"

#include <algorithm>
#include <bit>

#include "algebra/integer.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t block_bytes = 32 * 1024;   // of the input that a block reads, about
constexpr int64_t shared_doubles = 4096;     // for the sums of its rows
constexpr int64_t cell_doubles = 1536;       // for those of its cells
constexpr int at_once = 4;                   // rows whose loads are in flight together

}  // namespace

int64_t RowSumsWriter::row_count() const {
    int64_t count = 1;
    for (const Axis& row : rows_) count *= row.extent;
    return count;
}

bool RowSumsWriter::consecutive() const {
    int64_t stride = rows_.back().stride;
    for (const auto* axes : {&rows_, &outer_})
        for (auto axis = axes->rbegin(); axis != axes->rend(); stride *= axis->extent, ++axis)
            if (axis->stride != stride) return false;
    return direct_;
}

bool RowSumsWriter::arrange() {
    const Type& type = graph_[x_].type;
    if (numel(type.shape) == 0) return false;
    direct_ = places_.contains(x_) && !places_.at(x_).partials;
    const Sizes strides = walking_strides(graph_, places_, x_);
    if (std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; })) return false;
    std::vector<Axis> axes = memory_axes(graph_[box_], type, strides, direct_);
    if (axes.empty() || axes.back().stride != 1 || !axes.back().reduced) return false;
    inner_ = axes.back();
    axes.pop_back();
    bool cut = false;
    int64_t reach = inner_.extent;
    for (const Axis& axis : axes) {
        (axis.reduced ? rows_ : outer_).push_back(axis);
        cut = cut || (axis.reduced && !axis.whole());
        if (axis.reduced) reach += axis.extent * axis.stride;
    }
    // What nothing cuts is one long row: the other kernel's.
    if (!cut || inner_.intervals.size() > 16 || numel(type.shape) >= (int64_t{1} << 31) - 65536) return false;
    if (reach >= (int64_t{1} << 31) - 65536) return false;
    for (const Axis& row : rows_) {
        if (row.intervals.size() > 60) return false;
        cells_.push_back(cells_of(row.intervals, row.extent));
        cell_count_ *= static_cast<int64_t>(cells_.back().size());
    }
    if (cell_count_ == 0 || cell_count_ * static_cast<int64_t>(inner_.intervals.size()) > cell_doubles) return false;
    if (s_.target.decide(row_count() * inner_.extent < 512)) return false;
    storage_ = direct_ ? places_.at(x_).storage : type.dtype;
    real_ = real_of(type.dtype);
    vector_ = static_cast<int>(s_.target.decide(widest_vector()));
    choose_shape();
    return s_.target.decide(room_ * inner_boxes() <= shared_doubles);
}

void RowSumsWriter::choose_shape() {
    const int64_t vectors = inner_.extent / vector_, row_bytes = inner_.extent * bytes(storage_);
    columns_ = 1;
    while (columns_ < 32 && columns_ < vectors) columns_ *= 2;
    columns_ = s_.target.decide(columns_);
    long_rows_ = s_.target.decide(vectors > columns_);
    const int64_t plane_bytes = row_count() * row_bytes, most_rows = shared_doubles / inner_boxes();
    planes_ = std::max<int64_t>(1, std::min({block_bytes / 2 / plane_bytes, outer_count(), most_rows / row_count(),
                                                   cell_doubles / (cell_count_ * inner_boxes())}));
    planes_ = s_.target.decide(planes_);
    row_extent_ = rows_[0].extent;
    const int64_t slice_rows = row_count() / row_extent_;
    // Whole planes where the device is filled by them; else parts along the outermost row axis.
    int64_t chunks = std::max<int64_t>(1, plane_bytes / (2 * block_bytes));
    if (outer_count() * chunks < 8 * s_.target.multiprocessors)
        chunks = std::max(chunks, std::min(ceil_div(8 * s_.target.multiprocessors, outer_count()), ceil_div(plane_bytes, block_bytes / 2)));
    chunks = std::max(chunks, ceil_div(row_count(), most_rows));
    chunks = planes_ > 1 ? 1 : std::min(chunks, row_extent_);
    chunk_rows_ = ceil_div(row_extent_, chunks);
    const bool single = s_.target.decide(chunk_rows_ == row_extent_);
    chunk_rows_ = single ? row_extent_ : s_.target.decide(chunk_rows_);
    chunks_ = ceil_div(row_extent_, chunk_rows_);
    partial_ = any_size() || (s_.target.stated() ? !single : chunks_ > 1);
    room_ = 1;
    while (room_ < planes_ * chunk_rows_ * slice_rows) room_ *= 2;
    room_ = s_.target.decide(room_);
}

Launch RowSumsWriter::write() {
    KernelText kernel(s_, places_, vector_);
    begin(kernel);
    write_body();
    Launch launch = kernel.launch(entry_, ceil_div(outer_count(), planes_) * chunks_, threads,
                                  "box sums" + to_string(graph_[box_].type.shape) + " of rows, " + number(vector_) +
                                      " x " + number(bytes(storage_)) + " B loads, " + number(planes_) +
                                      " planes a block, " + number(chunks_) + " chunks",
                                  "", any_size() && !long_rows_ && inner_boxes() <= 4 ? 8 : 0);
    if (any_size())
        launch.shared_bytes = static_cast<uint32_t>(8 * inner_boxes() * (planes_ * cell_count_ + room_));
    return launch;
}

std::string RowSumsWriter::row_count_text() {
    std::string text = integer(rows_[0].extent);
    for (size_t i = 1; i < rows_.size(); ++i) text = times(text, integer(rows_[i].extent));
    return text;
}

// Planes of a block: fewer in the last.
std::string RowSumsWriter::planes_here() {
    if (!has_planes()) return "1";
    const std::string planes = planes_text();
    return let("min(" + planes + ", " + integer(outer_count()) + " - " + group_ + " * " + planes + ")", "planes");
}

void RowSumsWriter::write_body() {
    Body& body = *body_;
    const std::string what_sums = "  // [plane][cell][interval]", what_rows = "  // [row][interval of the contiguous axis]";
    if (any_size()) {
        body.line("extern __shared__ __align__(1024) unsigned char shared[];");
        body.line("double* const tf_sums = (double*)shared;" + what_sums);
        body.line("double* const tf_rows = tf_sums + " + integer(planes_ * cell_count_ * inner_boxes()) + ";" + what_rows);
    } else {
        body.line("__shared__ double tf_sums[" + number(planes_ * cell_count_ * inner_boxes()) + "];" + what_sums);
        body.line("__shared__ double tf_rows[" + number(room_ * inner_boxes()) + "];" + what_rows);
    }
    write_tables();
    body.line("TF_AFTER();");  // first: the preparation beside it starts where all blocks have come past TF_BESIDE
    body.line("TF_BESIDE();");
    std::string chunk = "0";
    group_ = "(int)blockIdx.x";
    if (partial_ || parameters_->apart()) {
        const std::string q = let(parameters_->quotient(group_, chunks_, true), "q");
        chunk = let(parameters_->remainder(group_, q, chunks_, true), "chunk");
        group_ = q;
    }
    begin_ = let(times(chunk, integer(chunk_rows_)), "begin");
    end_ = let("min(" + plus(begin_, integer(chunk_rows_)) + ", " + integer(row_extent_) + ")", "end");
    if (planes_ > 1 && !any_size()) {
        rows_here_ = let(times(planes_here(), row_count_text()), "rows");
    } else {
        std::string rows = "(" + end_ + " - " + begin_ + ")";
        for (size_t i = 1; i < rows_.size(); ++i) rows = times(rows, integer(rows_[i].extent));
        rows_here_ = let(times(planes_here(), rows), "rows");
        if (any_size() && consecutive()) {
            const std::string before = group_ + " * " + integer(planes_ * row_count());
            first_row_ = let(before + " + " + times(begin_, integer(row_count() / row_extent_)), "first");
        }
    }
    sum_rows();
    body.line("__syncthreads();");
    sum_cells();
    body.line("__syncthreads();");
    sum_boxes();
}

// tf_cells: lo, hi, step of every cell of the row axes.
void RowSumsWriter::write_tables() {
    Body& body = *body_;
    int64_t size = 0;
    for (const auto& cells : cells_) size += static_cast<int64_t>(cells.size()) * 3;
    body.line("__shared__ int tf_cells[" + number(size) + "];");
    body.open("if (threadIdx.x == 0)");
    int64_t at = 0;
    for (const auto& cells : cells_)
        for (const Cell& cell : cells)
            for (int64_t value : {cell.lo, cell.hi, cell.step})
                body.line("tf_cells[" + number(at++) + "] = " + integer(value) + ";");
    body.close();
}

std::string RowSumsWriter::inside(int64_t j, const std::string& i) {
    const Interval& interval = inner_.intervals[static_cast<size_t>(j)];
    std::string test = i + " >= " + integer(interval.lo) + " && " + i + " <= " + integer(interval.hi);
    if (interval.step > 1) test += " && (" + i + " - " + integer(interval.lo) + ") % " + integer(interval.step) + " == 0";
    return "(" + test + ")";
}

void RowSumsWriter::sum_rows() {
    Body& body = *body_;
    const bool masks = !inner_.whole() || parameters_->apart();
    std::string columns = number(columns_), lines = number(threads / columns_), lane, line;
    if (any_size()) {  // powers of two
        const std::string shift = let(integer(std::countr_zero(static_cast<uint64_t>(columns_))), "shift");
        columns = let("1 << " + shift, "columns"), lines = let(number(threads) + " >> " + shift, "lines");
        lane = let("(int)threadIdx.x & (" + columns + " - 1)", "lane"), line = let("(int)threadIdx.x >> " + shift, "line");
    } else {
        lane = let("(int)threadIdx.x % " + columns, "lane"), line = let("(int)threadIdx.x / " + columns, "line");
    }
    const std::string vectors = let(integer(inner_.extent) + " / " + number(vector_), "vectors");
    const std::string value_type(real_name(real_)), zero = literal(0, real_);
    const std::string real = long_rows_ ? "double" : value_type;
    const std::string t = body.fresh("t"), u = body.fresh("u"), l = body.fresh("l"), j = body.fresh("j"), sum = body.fresh("sum");
    const std::string value = body.fresh("value"), in = body.fresh("in"), at = plus(t + " + " + line, times(u, lines));
    const auto every = [&](const std::string& i, int64_t count) {
        body.line("#pragma unroll");
        return "for (int " + i + " = 0; " + i + " < " + number(count) + "; ++" + i + ")";
    };
    // All lanes go round together; rows beyond the last are the last one once more.
    emitter_->open("for (int " + t + " = 0; " + t + " < " + rows_here_ + "; " + t + " += " + times(lines, number(at_once)) + ")");
    body.line(real + " " + sum + "[" + number(at_once) + "][" + number(inner_boxes()) + "] = {};");
    std::string vector = lane;
    if (long_rows_) {
        vector = body.fresh("v");
        emitter_->open("for (int " + vector + " = " + lane + "; " + vector + " < " + vectors + "; " + vector + " += " + columns + ")");
    } else {
        emitter_->open("if (" + vector + " < " + vectors + ")");
    }
    const std::string column = let(times(vector, number(vector_)), "column");
    // Loads of several rows before any is added: so many are in flight together.
    body.line(value_type + " " + value + "[" + number(at_once) + "][" + number(vector_) + "];");
    emitter_->open(every(u, at_once));
    const Lanes loaded = load(let("min(" + at + ", " + rows_here_ + " - 1)", "row"), column);
    if (!pack_.empty())
        body.line(every(l, vector_) + " " + value + "[" + u + "][" + l + "] = tf_to<" + value_type + ">(" + pack_ + ".lane[" + l + "]);");
    else
        for (int lane = 0; lane < vector_; ++lane)
            body.line(value + "[" + u + "][" + number(lane) + "] = (" + value_type + ")" + loaded[static_cast<size_t>(lane)] + ";");
    emitter_->close();
    if (masks) {
        body.line("bool " + in + "[" + number(inner_boxes()) + "][" + number(vector_) + "];");
        emitter_->open(every(l, vector_));
        const std::string i = let(plus(column, l), "i");
        for (int64_t k = 0; k < inner_boxes(); ++k) body.line(in + "[" + number(k) + "][" + l + "] = " + inside(k, i) + ";");
        emitter_->close();
    }
    emitter_->open(every(u, at_once));
    emitter_->open(every(j, inner_boxes()));
    const auto part = [&](const std::string& i) {
        const std::string own = value + "[" + u + "][" + i + "]";
        return masks ? "(" + in + "[" + j + "][" + i + "] ? " + own + " : " + zero + ")" : own;
    };
    const std::string all = body.fresh("part");
    body.line(value_type + " " + all + " = " + part("0") + ";");
    body.line("#pragma unroll");
    body.line("for (int " + l + " = 1; " + l + " < " + number(vector_) + "; ++" + l + ") " + all + " += " + part(l) + ";");
    body.line(sum + "[" + u + "][" + j + "] += (" + real + ")" + all + ";");
    emitter_->close();
    emitter_->close();
    emitter_->close();
    const std::string own = sum + "[" + u + "][" + j + "]", add_lanes = own + " += __shfl_down_sync(0xffffffffu, " + own + ", d, " + columns + ");";
    if (any_size()) {  // all sums side by side: none waits for another
        emitter_->open("for (int d = " + columns + " / 2; d > 0; d /= 2)");
        body.line(every(u, at_once));
        body.line(every(j, inner_boxes()) + " " + add_lanes);
        emitter_->close();
    }
    emitter_->open(every(u, at_once));
    emitter_->open(every(j, inner_boxes()));
    if (!any_size()) {
        body.line("#pragma unroll");
        body.line("for (int d = " + number(columns_ / 2) + "; d > 0; d /= 2) " + add_lanes);
    }
    body.line("if (" + lane + " == 0 && " + at + " < " + rows_here_ + ") tf_rows[" + plus(times("(" + at + ")", number(inner_boxes())), j) + "] = (double)" + own + ";");
    emitter_->close();
    emitter_->close();
    emitter_->close();
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

// One vector of a block's row: its elements, or, as it lies in memory, pack_.
Lanes RowSumsWriter::load(const std::string& row, const std::string& column) {
    pack_.clear();
    if (!first_row_.empty()) return load_direct(plus(column, times(plus(first_row_, row), integer(rows_.back().stride))));
    std::string plane = group_, rest = row;
    if (has_planes()) {
        const int64_t count = chunk_row_count();
        const std::string q = let(parameters_->quotient(row, count, true), "q");
        rest = let(parameters_->remainder(row, q, count, true), "r");
        plane = let(group_ + " * " + planes_text() + " + " + q, "plane");
    }
    std::vector<std::string> index(rows_.size());
    for (size_t i = rows_.size(); i-- > 0;) {
        if (i == 0) {
            index[i] = planes_ > 1 && !any_size() ? rest : let(plus(begin_, rest), "i");
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
    return load_direct(at);
}

Lanes RowSumsWriter::load_direct(const std::string& at) {
    const Place& place = places_.at(x_);
    const std::string storage(storage_name(storage_)), real(real_name(real_)), pointer = parameters_->pointer(place.base, "const " + storage, place.read_only);
    Lanes lanes;
    lanes.real = real_;
    if (vector_ == 1) {
        lanes.text.push_back(emitter_->let(real, "tf_load<" + real + ">(" + pointer + " + " + at + ")", "v"));
        return lanes;
    }
    const std::string type = "tf_vector<" + storage + ", " + number(vector_) + ">";
    pack_ = emitter_->let(type, "*(const " + type + "*)(" + pointer + " + " + at + ")", "pack");
    return lanes;
}

// A warp a cell: its lanes share the cell's rows, each of which is in no other.
void RowSumsWriter::sum_cells() {
    Body& body = *body_;
    const std::string base = body.fresh("base"), warp = let("(int)threadIdx.x / 32", "warp"), lane = let("(int)threadIdx.x % 32", "lane");
    const std::string tasks = let(times(planes_here(), number(cell_count_)), "tasks");
    emitter_->open("for (int " + base + " = 0; " + base + " < " + tasks + "; " + base + " += " + number(threads / 32) + ")");
    const std::string task = let("min(" + base + " + " + warp + ", " + tasks + " - 1)", "task");  // warps beyond the last repeat it
    std::string rest = let(task + " % " + number(cell_count_), "cell");
    std::vector<std::string> first(rows_.size()), step(rows_.size()), count(rows_.size());
    int64_t table = 0;
    for (const auto& cells : cells_) table += static_cast<int64_t>(cells.size()) * 3;
    for (size_t i = rows_.size(); i-- > 0;) {
        const auto cells = static_cast<int64_t>(cells_[i].size());
        table -= cells * 3;
        const std::string at = let(plus(times(cells == 1 ? "0" : let(rest + " % " + number(cells), "which"), "3"), number(table)), "at");
        if (i > 0 && cells > 1) rest = let(rest + " / " + number(cells), "rest");
        const std::string lo = let("tf_cells[" + at + "]", "lo"), hi = let("tf_cells[" + at + " + 1]", "hi");
        step[i] = let("tf_cells[" + at + " + 2]", "step");
        if (i > 0) {
            first[i] = lo;
            count[i] = let("(" + hi + " - " + lo + ") / " + step[i] + " + 1", "count");
        } else {  // within this block's part
            first[i] = let(begin_ + " <= " + lo + " ? " + lo + " : " + lo + " + (" + begin_ + " - " + lo + " + " + step[i] + " - 1) / " + step[i] + " * " + step[i], "first");
            const std::string last = let("min(" + hi + ", " + end_ + " - 1)", "last");
            count[i] = let(last + " < " + first[i] + " ? 0 : (" + last + " - " + first[i] + ") / " + step[i] + " + 1", "count");
        }
    }
    std::string total = "1";
    for (const std::string& own : count) total = times(total, own);
    const std::string all = let(total, "all"), sum = body.fresh("sum"), t = body.fresh("t");
    body.line("double " + sum + "[" + number(inner_boxes()) + "] = {};");
    emitter_->open("for (int " + t + " = " + lane + "; " + t + " < " + all + "; " + t + " += 32)");
    rest = t;
    std::vector<std::string> index(rows_.size());
    for (size_t i = rows_.size(); i-- > 0;) {
        std::string own = rest;
        if (i > 0) {
            const std::string q = let(rest + " / " + count[i], "q");
            own = let(rest + " - " + q + " * " + count[i], "r");
            rest = q;
        }
        index[i] = let(plus(first[i], times(own, step[i])), "i");
    }
    std::string row = planes_ > 1 && !any_size() ? index[0] : "(" + index[0] + " - " + begin_ + ")";
    if (has_planes()) row = plus(times("(" + task + " / " + number(cell_count_) + ")", integer(chunk_rows_)), row);
    for (size_t i = 1; i < rows_.size(); ++i) row = plus(times(row, integer(rows_[i].extent)), index[i]);
    const std::string at = let(times(row, number(inner_boxes())), "at");
    for (int64_t j = 0; j < inner_boxes(); ++j) body.line(sum + "[" + number(j) + "] += tf_rows[" + plus(at, number(j)) + "];");
    emitter_->close();
    body.line("#pragma unroll");
    body.line("for (int j = 0; j < " + number(inner_boxes()) + "; ++j) for (int d = 16; d > 0; d /= 2) " + sum + "[j] += __shfl_down_sync(0xffffffffu, " + sum + "[j], d);");
    emitter_->open("if (" + lane + " == 0)");
    for (int64_t j = 0; j < inner_boxes(); ++j)
        body.line("tf_sums[" + plus(times(task, number(inner_boxes())), number(j)) + "] = " + sum + "[" + number(j) + "];");
    emitter_->close();
    emitter_->close();
}

// A thread a box: the cells it is made of.
void RowSumsWriter::sum_boxes() {
    Body& body = *body_;
    const Node& node = graph_[box_];
    const Sizes &dims = node.attributes.integers(Key::dims), &counts = node.attributes.integers(Key::counts);
    int64_t boxes = 1;
    for (int64_t count : counts) boxes *= count;
    std::vector<std::string> masks;  // per row axis: of each cell
    for (const auto& cells : cells_) {
        std::vector<int64_t> list;
        for (const Cell& cell : cells) list.push_back(cell.mask & 0x3fffffff), list.push_back(cell.mask >> 30);
        masks.push_back(cells.size() == 1 && cells[0].mask == 1 ? "" : emitter_->integer_table(list));
    }
    const std::string task = body.fresh("task");
    emitter_->open("for (int " + task + " = (int)threadIdx.x; " + task + " < " + times(planes_here(), number(boxes)) + "; " + task + " += " + number(threads) + ")");
    const std::string plane_here = has_planes() ? let(task + " / " + number(boxes), "plane") : "0";
    const std::string box = has_planes() ? let(task + " % " + number(boxes), "box") : task;
    // Which interval of each axis the box takes.
    std::vector<std::string> of_dim(dims.size());
    std::string rest = box;
    for (size_t j = dims.size(); j-- > 0;) {
        if (counts[j] == 1) {
            of_dim[j] = "0";
            continue;
        }
        of_dim[j] = let(rest + " % " + number(counts[j]), "which");
        rest = let(rest + " / " + number(counts[j]), "rest");
    }
    auto interval_of = [&](const Axis& axis) {
        for (size_t j = 0; j < dims.size(); ++j)
            if (axis.logical.size() == 1 && static_cast<size_t>(dims[j]) == axis.logical[0]) return of_dim[j];
        return std::string("0");  // merged axes have one interval
    };
    const std::string sum = body.fresh("sum");
    body.line("double " + sum + " = 0.0;");
    std::string cell = "0";
    for (size_t i = 0; i < rows_.size(); ++i) {
        const auto cells = static_cast<int64_t>(cells_[i].size());
        const std::string c = body.fresh("c"), which = interval_of(rows_[i]);
        emitter_->open("for (int " + c + " = 0; " + c + " < " + number(cells) + "; ++" + c + ")");
        if (!masks[i].empty())
            body.line("if (!(" + masks[i] + "[2 * " + c + " + " + which + " / 30] >> " + which + " % 30 & 1)) continue;");
        cell = plus(times(cell, number(cells)), c);
    }
    body.line(sum + " += tf_sums[" + plus(times(plus(times(plane_here, number(cell_count_)), cell), number(inner_boxes())), interval_of(inner_)) + "];");
    for (size_t i = 0; i < rows_.size(); ++i) emitter_->close();
    // The element of the result.
    const Place to = place();
    const std::string pointer = parameters_->pointer(to.base, std::string(storage_name(to.storage)), false);
    const std::vector<std::string> outer = outer_of(has_planes() ? let(group_ + " * " + planes_text() + " + " + plane_here, "plane") : group_);
    std::string offset = times(box, integer(to.strides[1]));
    for (size_t i = 0; i < outer_.size(); ++i) {
        std::string of_axis = outer[i];
        for (size_t k = outer_[i].logical.size(); k-- > 0;) {
            const size_t axis = outer_[i].logical[k];
            std::string own = of_axis;
            if (k > 0) {
                const std::string q = let(parameters_->quotient(of_axis, graph_[x_].type.shape[axis], true), "q");
                own = let(parameters_->remainder(of_axis, q, graph_[x_].type.shape[axis], true), "r");
                of_axis = q;
            }
            offset = plus(offset, times(own, integer(axis == 1 ? to.strides[1] * boxes : to.strides[axis])));
        }
    }
    if (in_slots()) offset = plus(offset, times("(" + begin_ + " / " + integer(chunk_rows_) + ")", integer(numel(node.type.shape))));
    body.line("tf_store(" + pointer + " + (" + offset + "), " + sum + ");");
    emitter_->close();
}

}  // namespace transfuse::cuda
