// Which threads take which columns and rows of a box_sums node's input.
#include <algorithm>
#include <numeric>

#include "algebra/lattice/integer.h"
#include "cuda/sums/moments/figures.h"
#include "cuda/sums/moments/moments_writer.h"

namespace transfuse::cuda {

using namespace figures::moments::by_cells;

bool MomentsWriter::arrange(std::string* why_not) {
    const Type& type = graph_[x_].type;
    if (numel(type.shape) == 0) return refuse(why_not, "there is nothing to sum");
    direct_ = places_.contains(x_) && !places_.at(x_).partials;
    const Sizes strides = walking_strides(graph_, places_, x_);
    for (int64_t stride : strides)
        if (stride < 0) return refuse(why_not, "negative strides");
    axes_ = memory_axes(graph_[box_], type, strides, direct_);
    if (axes_.empty() || axes_.back().stride != 1) return refuse(why_not, "no axis of the input is contiguous");
    inner_ = axes_.back();
    axes_.pop_back();
    for (const Axis& axis : axes_) {
        if (axis.reduced)
            rows_.push_back(axis);
        else
            outer_.push_back(axis);
        if (axis.reduced && axis.intervals.size() > 60) return refuse(why_not, "too many intervals");
    }
    storage_ = direct_ ? places_.at(x_).storage : type.dtype;
    real_ = real_of(type.dtype);
    vector_ = static_cast<int>(widest_vector());
    // A single long row becomes rows of one block's width.
    virtual_rows_ = rows_.empty() && inner_.reduced && inner_.whole() &&
                    (inner_.extent > 4 * threads * vector_ || s_.target.any_size) && direct_;
    for (const Axis& row : rows_) {
        cells_.push_back(cells_of(row.intervals, row.extent));
        if (cells_.back().empty()) return refuse(why_not, "all intervals are empty");
        cell_count_ *= static_cast<int64_t>(cells_.back().size());
    }
    if (cell_count_ > most_cells) return refuse(why_not, "too many cells");
    choose_shape();
    int64_t reach = inner_.extent;
    for (const Axis& row : rows_) reach += row.extent * row.stride;
    if (!direct_ && numel(type.shape) >= (int64_t{1} << 31) - 65536)
        return refuse(why_not, "a computed input of more than 2^31 elements");
    if (reach >= (int64_t{1} << 31) - 65536) return refuse(why_not, "more than 2^31 elements are summed into one");
    int64_t summed = inner_.reduced ? inner_.extent : 1;
    for (const Axis& row : rows_) summed *= row.extent;
    if (inner_.reduced && summed < figures::moments::least_summed) return refuse(why_not, "few elements in each sum");
    return true;
}

bool MomentsWriter::refuse(std::string* why_not, const char* why) {
    if (why_not) *why_not = why;
    return false;
}

void MomentsWriter::choose_shape() {
    const int64_t vectors = ceil_div(inner_.extent, vector_);
    const int64_t row_count =
        std::accumulate(rows_.begin(), rows_.end(), int64_t{1}, [](int64_t n, const Axis& a) { return n * a.extent; });
    if (virtual_rows_) {
        columns_ = threads, lines_ = 1, column_blocks_ = 1;
        row_extent_ = ceil_div(vectors, threads);
    } else {
        int64_t widest = threads;
        if (!inner_.reduced) {
            // Several threads to a column only where the device would stand idle: they have to wait for each other.
            const int64_t enough = busy_blocks * s_.target.multiprocessors;
            int64_t lines = 1;
            while (lines < 8 && row_count / (2 * lines) >= 16 &&
                   outer_count() * ceil_div(vectors, threads / lines) < enough)
                lines *= 2;
            widest = threads / lines;
            held_ = !s_.target.any_size && lines == 1 && cell_count_ * vector_ <= most_held &&
                    2 * ceil_div(vectors, ceil_div(vectors, widest)) > threads;
            // Shared memory: a column's sum for each cell, and one of each line.
            while (!held_ && widest > 8 &&
                   (widest * vector_ * cell_count_ + (lines > 1 ? threads * vector_ : 0)) * 8 > 40 * 1024)
                widest /= 2;
        }
        column_blocks_ = ceil_div(vectors, widest);
        columns_ = ceil_div(vectors, column_blocks_);
        lines_ = held_ ? 1 : threads / columns_;  // those beyond the rows have nothing to do
        lines_ = std::max<int64_t>(1, std::min(lines_, row_count));
        row_extent_ = rows_.empty() ? 1 : rows_[0].extent;
    }
    // Chunks of the outermost row axis: about 256 KB each, more of them where the device would stand idle.
    const int64_t line_bytes = columns_ * vector_ * bytes(storage_);
    const int64_t total = virtual_rows_ ? row_extent_ * line_bytes : row_count * line_bytes;
    const int64_t others = outer_count() * column_blocks_;
    int64_t chunks = std::max<int64_t>(1, total / chunk_bytes);
    const int64_t wanted = 8 * s_.target.multiprocessors;
    if (others * chunks < wanted)
        chunks = std::max(chunks, std::min(ceil_div(wanted, others), std::max<int64_t>(1, total / (16 * 1024))));
    chunks = std::min(chunks, row_extent_);
    chunk_rows_ = ceil_div(row_extent_, chunks);
    chunks_ = ceil_div(row_extent_, chunk_rows_);
    partial_ = (s_.target.any_size && inner_.reduced) || slots() > 1;
}

}  // namespace transfuse::cuda
