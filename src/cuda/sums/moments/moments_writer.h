// Arranges and writes the moments kernel of one box_sums node.
#pragma once

#include <functional>

#include "cuda/sums/moments/box_sums.h"

namespace transfuse::cuda {

class MomentsWriter : public BoxSumsWriter {
public:
    using BoxSumsWriter::BoxSumsWriter;

    bool arrange(std::string* why_not);
    Launch write() override;

private:
    static bool refuse(std::string* why_not, const char* why);
    void choose_shape();
    int64_t slots() const override { return chunks_ * (inner_.reduced ? column_blocks_ : 1); }

    void write_body();
    std::string integer64(int64_t value);
    int64_t columns_bound() const {  // a compile-time bound of columns_
        int64_t bound = 8;
        while (bound < columns_) bound *= 2;
        return bound;
    }
    // Sums of kept columns lie in shared memory whose size is known at the launch.
    bool flexible() const { return s_.target.any_size && !inner_.reduced; }
    bool has_lines() const { return lines_ > 1 || (flexible() && partial_); }
    // The texts that say what a block and a thread of it take.
    struct Share {
        std::string chunk, column_block, begin, end;  // begin, end: of the chunk's rows
        std::vector<std::string> outer;               // indices of the outer axes
        std::string line, place, column, inside;      // inside: whether the thread has a column
    };
    Share share();
    void declare_sums();
    void sum_cell(const std::string& cell, const Share& own);
    // The rows of a cell inside this block's chunk, per row axis.
    std::vector<CellText> cell_texts(const std::string& cell, const std::string& begin, const std::string& end);
    // Eight rows at a time: their loads are in flight together. Rows beyond the end repeat the last one and count as
    // zero.
    void write_rows(const std::vector<CellText>& cell, const std::string& count, const Share& own,
                    const std::vector<std::string>& sums);
    Lanes load(const std::vector<CellText>& cell, const std::string& row, const Share& own);
    int64_t inner_boxes() const { return inner_.reduced ? static_cast<int64_t>(inner_.intervals.size()) : 1; }
    // The sums of all cells meet at once where their warps' parts fit shared memory, else cell by cell.
    int64_t sums_at_once() const;
    void finish_reduced_inner(const std::string& cell, const std::string& count, const std::vector<std::string>& sums,
                              bool separate, const Share& own);
    // tf_sums[first + i] = the sum of all warps' parts i, one thread each.
    void add_warps(const std::string& first, int64_t count);
    void finish_kept_inner(const std::string& cell, const std::string& count, const std::vector<std::string>& sums,
                           const Share& own);
    // For each box, which interval of each memory axis: [box][row axes …, inner].
    std::vector<std::vector<int64_t>> box_intervals() const;
    void write_boxes(const Share& own);
    std::string first_sum(const Place& to, const Share& own);
    std::string plus_along(std::string offset, const Axis& axis, const std::string& index, const Place& to);
    void boxes_by_threads(const Place& to, const std::string& pointer, const std::string& offset);
    std::string cell_masks() const;
    void boxes_of_columns(const Place& to, const std::string& pointer, const std::string& offset, const Share& own);
    // The sum of the cells that lie in a box. Which they are depends on the sizes only through their number: the masks
    // are known when the text is written, and part of it.
    std::string box_sum(const std::vector<int64_t>& interval,
                        const std::function<std::string(int64_t)>& cell_text) const;

    // Whether a thread's columns lie beside each other in the result, and are stored so.
    bool side_by_side(const Place& to) const;
    static int64_t stride_of(size_t axis, const Place& to, int64_t boxes) {  // a channel has all boxes there
        return axis == 1 ? to.strides[1] * boxes : to.strides[axis];
    }

    bool virtual_rows_ = false;
    bool held_ = false;  // a thread has its columns to itself: their sums stay in its registers
    std::vector<Axis> axes_;
    int64_t columns_ = 1, lines_ = 1, column_blocks_ = 1;
    std::string counted_;  // whether the row being read counts
    std::string pointer_;
    std::string width_;  // columns that a cell has room for
};

}  // namespace transfuse::cuda
