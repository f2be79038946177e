// Box sums by way of row sums: where boxes cut rows and columns, every row of the contiguous axis is first summed over
// each of that axis' intervals, into shared memory; a box is the sum of the rows that lie in it. Memory is read once,
// in order, whatever the boxes; a block takes a few planes where they are small, a part of one where they are large.
#pragma once

#include "cuda/sums/moments/box_sums.h"

namespace transfuse::cuda {

class RowSumsWriter : public BoxSumsWriter {
public:
    using BoxSumsWriter::BoxSumsWriter;

    bool arrange();  // false: not for this node
    Launch write() override;

private:
    void choose_shape();
    int64_t slots() const override { return chunks_; }
    int64_t inner_boxes() const { return static_cast<int64_t>(inner_.intervals.size()); }
    int64_t row_count() const;
    int64_t chunk_row_count() const { return chunk_rows_ * (row_count() / row_extent_); }
    bool any_size() const { return s_.target.any_size; }
    std::string row_count_text();  // of a plane
    std::string planes_text() { return any_size() ? integer(planes_) : number(planes_); }
    bool has_planes() const { return planes_ > 1 || any_size(); }
    bool begins_at_zero() const { return planes_ > 1 && !any_size(); }  // a block has whole planes only
    bool consecutive() const;                                           // all rows of all planes, in memory

    void write_body();
    std::string planes_here();
    // The indices of a plane's outer axes, of its number.
    std::vector<std::string> outer_of(const std::string& plane);

    struct RowText;
    void sum_rows();
    RowText row_text();
    std::string row_sum_type() const;
    std::string every(const std::string& i, int64_t count);
    void load_rows(const RowText& text, const std::string& column);
    void mark_columns(const RowText& text, const std::string& column);
    void add_vectors(const RowText& text, bool masks);
    void add_lanes(const RowText& text);
    Lanes load(const std::string& row, const std::string& column);
    std::string pointer();  // to x

    int64_t row_boxes() const;  // choices of an interval of every row axis
    void sum_boxes();
    std::string rows_of_slice();  // rows of one index of the outermost row axis
    std::vector<std::string> intervals_of(const std::string& chosen);
    std::string lies_in_box(const std::vector<std::string>& which, const std::string& t);
    int64_t step_of(const Axis& axis) const;
    std::string box_of(const std::string& chosen, const std::vector<std::string>& which) const;
    std::string first_box(const std::string& plane, const std::string& box);

    bool long_rows_ = false;                                        // more vectors than lanes
    int64_t columns_ = 1;                                           // lanes that share a row
    int64_t planes_ = 1;                                            // of a block
    int64_t room_ = 1;                                              // rows of a block, at most
    std::string group_, begin_, end_, rows_here_, first_row_, to_;  // texts
};

}  // namespace transfuse::cuda
