#include "cuda/sums/moments/moments_rows.h"

#include <algorithm>

#include "algebra/lattice/integer.h"
#include "cuda/sums/moments/figures.h"

namespace transfuse::cuda {

using namespace figures::moments::by_rows;

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
    }
    if (boxes() > most_boxes) return false;
    if (row_count() * inner_.extent < figures::moments::least_summed) return false;
    storage_ = direct_ ? places_.at(x_).storage : type.dtype;
    real_ = real_of(type.dtype);
    vector_ = static_cast<int>(widest_vector());
    choose_shape();
    return room_ * inner_boxes() <= shared_doubles;
}

void RowSumsWriter::choose_shape() {
    const int64_t vectors = inner_.extent / vector_, row_bytes = inner_.extent * bytes(storage_);
    columns_ = 1;
    while (columns_ < 32 && columns_ < vectors) columns_ *= 2;
    long_rows_ = vectors > columns_;
    const int64_t plane_bytes = row_count() * row_bytes, most_rows = shared_doubles / inner_boxes();
    planes_ = std::max<int64_t>(
        1, std::min({block_bytes / 2 / plane_bytes, outer_count(), most_rows / row_count(), most_boxes / boxes()}));
    row_extent_ = rows_[0].extent;
    const int64_t slice_rows = row_count() / row_extent_;
    // Whole planes where the device is filled by them; else parts along the outermost row axis.
    int64_t chunks = std::max<int64_t>(1, plane_bytes / (2 * block_bytes));
    if (outer_count() * chunks < 8 * s_.target.multiprocessors)
        chunks = std::max(chunks, std::min(ceil_div(8 * s_.target.multiprocessors, outer_count()),
                                           ceil_div(plane_bytes, block_bytes / 2)));
    chunks = std::max(chunks, ceil_div(row_count(), most_rows));
    chunks = planes_ > 1 ? 1 : std::min(chunks, row_extent_);
    chunk_rows_ = ceil_div(row_extent_, chunks);
    chunks_ = ceil_div(row_extent_, chunk_rows_);
    partial_ = any_size() || chunks_ > 1;
    room_ = 1;
    while (room_ < planes_ * chunk_rows_ * slice_rows) room_ *= 2;
}

Launch RowSumsWriter::write() {
    KernelText kernel(s_, places_, vector_);
    begin(kernel);
    write_body();
    Launch launch = kernel.launch(entry_, ceil_div(outer_count(), planes_) * chunks_, threads,
                                  "box sums" + to_string(graph_[box_].type.shape) + " of rows, " + number(vector_) +
                                      " x " + number(bytes(storage_)) + " B loads, " + number(planes_) +
                                      " planes a block, " + number(chunks_) + " chunks, " +
                                      number(planes_ * chunk_row_count()) + " of " + number(room_) + " rows kept",
                                  "", any_size() && !long_rows_ && inner_boxes() <= 4 ? 8 : 0);
    if (any_size()) launch.shared_bytes = static_cast<uint32_t>(8 * inner_boxes() * room_);
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
    return let({"min(", planes, ", ", integer(outer_count()), " - ", group_, " * ", planes, ")"}, "planes");
}

void RowSumsWriter::write_body() {
    Body& body = *body_;
    const std::string what_rows = "  // [row][interval of the contiguous axis]";
    if (any_size()) {
        body.line("extern __shared__ __align__(1024) unsigned char shared[];");
        body.line({"double* const tf_rows = (double*)shared;", what_rows});
    } else {
        body.line({"__shared__ double tf_rows[", number(room_ * inner_boxes()), "];", what_rows});
    }
    body.line("TF_AFTER();");  // first: the preparation beside it starts where all blocks have come past TF_BESIDE
    body.line("TF_BESIDE();");
    std::string chunk = "0";
    group_ = "(int)blockIdx.x";
    if (partial_ || parameters_->any_size()) {
        const std::string q = let(parameters_->quotient(group_, chunks_, true), "q");
        chunk = let(parameters_->remainder(group_, q, chunks_, true), "chunk");
        group_ = q;
    }
    begin_ = let(times(chunk, integer(chunk_rows_)), "begin");
    end_ = let("min(" + plus(begin_, integer(chunk_rows_)) + ", " + integer(row_extent_) + ")", "end");
    if (begins_at_zero()) {
        rows_here_ = let(times(planes_here(), row_count_text()), "rows");
    } else {
        std::string rows = "(" + end_ + " - " + begin_ + ")";
        for (size_t i = 1; i < rows_.size(); ++i) rows = times(rows, integer(rows_[i].extent));
        rows_here_ = let(times(planes_here(), rows), "rows");
        if (any_size() && consecutive()) {
            const std::string before = group_ + " * " + integer(planes_ * row_count());
            first_row_ = let({before, " + ", times(begin_, integer(row_count() / row_extent_))}, "first");
        }
    }
    sum_rows();
    body.line("__syncthreads();");
    sum_boxes();
}

}  // namespace transfuse::cuda
