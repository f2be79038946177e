// Box sums by way of row sums: where boxes cut rows and columns, every row of the contiguous axis is first summed over each
// of that axis' intervals, into shared memory; rows that all boxes treat alike are a cell, and a box is a few cells. Memory is read once, in order, whatever the
// boxes; a block takes a few planes where they are small, a part of one where they are large.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/moments.h"
#include "cuda/moments_axes.h"
#include "cuda/pull.h"

namespace transfuse::cuda {

class RowSumsWriter {
public:
    static constexpr int threads = 256;

    RowSumsWriter(const Surroundings& s, const Places& places, ValueId box, int64_t scratch, std::string entry)
        : s_(s),
          graph_(s.plan.graph),
          places_(places),
          box_(box),
          x_(graph_[box].args[0]),
          scratch_(scratch),
          entry_(std::move(entry)) {}

    bool arrange();  // false: not for this node
    Launch write();

    Place place() const;  // where the sums will be, in slots
    int64_t scratch_bytes() const { return destination_ ? 0 : chunks_ * numel(graph_[box_].type.shape) * 8; }
    void store_to(const Place& destination) {
        if (!partial_) destination_ = destination;
    }
    bool stores() const { return destination_.has_value(); }

private:
    void choose_shape();
    std::string integer(int64_t value) { return parameters_->integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_->let("int", text, prefix); }
    int64_t inner_boxes() const { return static_cast<int64_t>(inner_.intervals.size()); }
    int64_t row_count() const;
    int64_t outer_count() const;
    std::string row_count_text();  // of a plane

    void write_body();
    void write_tables();
    void sum_rows();
    void sum_cells();
    void sum_boxes();
    std::string planes_here();
    // The indices of a plane's outer axes, of its number.
    std::vector<std::string> outer_of(const std::string& plane);
    Lanes load(const std::string& row, const std::string& column);
    // Whether element `l` of the vector at `column` lies in interval j.
    std::string inside(int64_t j, const std::string& column, int l);

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const ValueId box_, x_;
    const int64_t scratch_;
    const std::string entry_;
    const std::vector<bool> parameter_values_ = transfuse::parameter_values(s_.plan.graph);
    bool direct_ = false, partial_ = false;
    bool long_rows_ = false;  // more vectors than lanes
    std::vector<Axis> rows_, outer_;
    std::vector<std::vector<Cell>> cells_;  // of the row axes
    int64_t cell_count_ = 1;
    Axis inner_;
    DType storage_ = DType::f32;
    Real real_ = Real::f32;
    int vector_ = 1;
    int64_t columns_ = 1;  // lanes that share a row
    int64_t planes_ = 1;   // of a block
    int64_t row_extent_ = 1, chunk_rows_ = 1, chunks_ = 1;  // of the outermost row axis
    int64_t room_ = 1;     // rows of a block, at most
    std::optional<Place> destination_;
    std::string group_, begin_, end_, rows_here_;  // texts
    Body* body_ = nullptr;
    Emitter* emitter_ = nullptr;
    Parameters* parameters_ = nullptr;
};

}  // namespace transfuse::cuda
