// Arranges and writes the moments kernel of one box_sums node.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/moments.h"
#include "cuda/moments_axes.h"
#include "cuda/pull.h"

namespace transfuse::cuda {

class MomentsWriter {
public:
    static constexpr int threads = 256;

    MomentsWriter(const Surroundings& s, const Places& places, ValueId box, int64_t scratch, std::string entry)
        : s_(s),
          graph_(s.plan.graph),
          places_(places),
          box_(box),
          x_(graph_[box].args[0]),
          scratch_(scratch),
          entry_(std::move(entry)) {}

    bool arrange(std::string* why_not);
    Launch write();

    // Where the sums will be, in slots.
    Place place() const;
    int64_t slots() const { return chunks_ * (inner_.reduced ? column_blocks_ : 1); }
    int64_t scratch_bytes() const { return destination_ ? 0 : slots() * numel(graph_[box_].type.shape) * 8; }
    // A sum that one block completes may go straight to its memory.
    void store_to(const Place& destination) {
        if (!partial_) destination_ = destination;
    }
    bool stores() const { return destination_.has_value(); }

private:
    static bool refuse(std::string* why_not, const char* why);
    int choose_vector() const;
    void choose_shape();
    int64_t outer_count() const;
    static std::string warp_sum_code();

    std::string integer(int64_t value) { return parameters_->integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_->let("int", text, prefix); }
    void write_body();
    std::string integer64(int64_t value);
    int64_t columns_bound() const {  // a compile-time bound of columns_
        int64_t bound = 8;
        while (bound < columns_) bound *= 2;
        return bound;
    }
    struct CellText {
        std::string first, step, count;
    };
    // The rows of a cell inside this block's chunk, per row axis.
    std::vector<CellText> cell_texts(const std::string& cell, const std::string& begin, const std::string& end);
    // Eight rows at a time: their loads are in flight together. Rows beyond the end repeat the last one and count as
    // zero.
    void write_rows(const std::vector<CellText>& cell, const std::string& count, const std::string& line,
                    const std::string& inside, const std::string& column, const std::vector<std::string>& outer,
                    const std::vector<std::string>& sums);
    Lanes load(const std::vector<CellText>& cell, const std::string& row, const std::string& column,
               const std::vector<std::string>& outer);
    Lanes load_direct(const std::string& at);
    int64_t inner_boxes() const { return inner_.reduced ? static_cast<int64_t>(inner_.intervals.size()) : 1; }
    // The sums of all cells meet at once where their warps' parts fit shared memory, else cell by cell.
    int64_t sums_at_once() const;
    void finish_reduced_inner(const std::string& cell, const std::string& count, const std::vector<std::string>& sums,
                              bool separate, const std::string& column, const std::string& inside);
    // tf_sums[first + i] = the sum of all warps' parts i, one thread each.
    void add_warps(const std::string& first, int64_t count);
    void finish_kept_inner(const std::string& cell, const std::vector<std::string>& sums, const std::string& place,
                           const std::string& line, const std::string& inside, int64_t width);
    // For each box, which interval of each memory axis: [box][row axes …, inner].
    std::vector<std::vector<int64_t>> box_intervals() const;
    void write_boxes(int64_t boxes, const std::string& chunk, const std::string& column_block,
                     const std::string& column, const std::string& place, const std::string& line,
                     const std::string& inside, const std::vector<std::string>& outer, int64_t width);
    // The sum of the cells that lie in a box. Which they are depends on the sizes only through their number: the masks
    // are known when the text is written, and part of it.
    std::string box_sum(const std::vector<int64_t>& interval,
                        const std::function<std::string(int64_t)>& cell_text) const;

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const ValueId box_, x_;
    const int64_t scratch_;
    const std::string entry_;
    const std::vector<bool> parameter_values_ = transfuse::parameter_values(s_.plan.graph);
    bool direct_ = false, virtual_rows_ = false;
    bool partial_ = false;  // several blocks share a sum: slots are left
    std::vector<Axis> axes_, rows_, outer_;
    Axis inner_;
    std::vector<std::vector<Cell>> cells_;
    int64_t cell_count_ = 1;
    DType storage_ = DType::f32;
    Real real_ = Real::f32;
    int vector_ = 1;
    int64_t columns_ = 1, lines_ = 1, column_blocks_ = 1, row_extent_ = 1, chunk_rows_ = 1, chunks_ = 1;
    std::optional<Place> destination_;
    std::string counted_;  // whether the row being read counts
    std::string pack_;     // the vector being read
    std::string pointer_;
    Body* body_ = nullptr;
    Emitter* emitter_ = nullptr;
    Parameters* parameters_ = nullptr;
};

}  // namespace transfuse::cuda
