// What the kernels that sum boxes have in common: the node, the axes of its input as memory has them, where sums go.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/general/kernel_text.h"
#include "cuda/sums/moments/moments.h"
#include "cuda/sums/moments/moments_axes.h"

namespace transfuse::cuda {

class BoxSumsWriter {
public:
    static constexpr int threads = 256;

    BoxSumsWriter(const Surroundings& s, const Places& places, ValueId box, int64_t scratch, std::string entry)
        : s_(s),
          graph_(s.plan.graph),
          places_(places),
          box_(box),
          x_(graph_[box].args[0]),
          scratch_(scratch),
          entry_(std::move(entry)) {}
    virtual ~BoxSumsWriter() = default;

    virtual Launch write() = 0;
    ValueId box() const { return box_; }

    // Where the sums will be, in slots.
    Place place() const {
        Place place;
        place.base = destination_ ? destination_->base : Argument::of_scratch(scratch_);
        place.storage = destination_ ? destination_->storage : DType::f64;
        place.strides = destination_ ? destination_->strides : contiguous_strides(graph_[box_].type.shape);
        place.aligned = destination_ ? destination_->aligned : true;
        place.read_only = false;
        if (in_slots()) place.partials = Partials{slots(), numel(graph_[box_].type.shape), 1};
        return place;
    }
    int64_t scratch_bytes() const { return destination_ ? 0 : slots() * numel(graph_[box_].type.shape) * 8; }
    // A sum that one block completes may go straight to its memory.
    void store_to(const Place& destination) {
        if (!partial_) destination_ = destination;
    }
    bool stores() const { return destination_.has_value(); }

protected:
    virtual int64_t slots() const = 0;
    bool in_slots() const { return !destination_ && (partial_ || s_.target.any_size); }

    std::string integer(int64_t value) { return parameters_->integer(value, true); }
    std::string let(std::string_view text, std::string_view prefix) { return let({text}, prefix); }
    std::string let(Body::Pieces text, std::string_view prefix) { return emitter_->let("int", text, prefix); }
    // Boxes of a channel.
    int64_t boxes() const {
        int64_t boxes = 1;
        for (int64_t count : graph_[box_].attributes.integers(Key::counts)) boxes *= count;
        return boxes;
    }
    int64_t outer_count() const {
        int64_t count = 1;
        for (const Axis& axis : outer_) count *= axis.extent;
        return count;
    }
    // The widest load that every row and every part of x begins at a multiple of.
    int widest_vector() const {
        int vector = static_cast<int>(16 / bytes(storage_));
        for (; vector > 1; vector /= 2) {
            bool fits = inner_.extent % vector == 0 && (!direct_ || places_.at(x_).aligned);
            for (const auto* list : {&rows_, &outer_})
                for (const Axis& axis : *list) fits = fits && (axis.extent == 1 || axis.stride % vector == 0);
            if (fits) break;
            if (s_.target.any_size) return 1;
        }
        return vector;
    }
    void begin(KernelText& kernel) {
        body_ = &kernel.body, emitter_ = &kernel.emitter, parameters_ = &kernel.parameters;
    }

    // Whether index i of the inner axis lies in an interval.
    std::string lies_in(const Interval& interval, const std::string& i);
    // tf_cells in shared memory: lo, hi, step of every cell of the row axes, and its mask where that is asked for.
    void declare_cells(bool masks);
    // One vector of x, as it lies at `at` behind a pointer: its elements, and pack_, which holds them.
    Lanes load_direct(const std::string& pointer, const std::string& at);
    // The indices of a cell along one row axis: first, first + step, … of them `count`.
    struct CellText {
        std::string first, step, count;
    };
    // Of the cell lo, lo + step, … <= hi: all of it, or what lies in begin <= i < end. `prefix` names the count.
    CellText whole_cell(const std::string& lo, const std::string& hi, const std::string& step, std::string_view prefix);
    CellText cut_cell(const std::string& lo, const std::string& hi, const std::string& step, const std::string& begin,
                      const std::string& end, std::string_view prefix);
    // A cell's row number `row`, as indices of the row axes.
    std::vector<std::string> row_of_cell(const std::vector<CellText>& cell, const std::string& row);

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const ValueId box_, x_;
    const int64_t scratch_;
    const std::string entry_;
    bool direct_ = false;                   // x lies in memory
    bool partial_ = false;                  // several blocks share a sum: slots are left
    std::vector<Axis> rows_, outer_;        // reduced axes and others, but for the contiguous one
    Axis inner_;                            // that one
    std::vector<std::vector<Cell>> cells_;  // of the row axes
    int64_t cell_count_ = 1;
    DType storage_ = DType::f32;
    Real real_ = Real::f32;
    int vector_ = 1;
    int64_t row_extent_ = 1, chunk_rows_ = 1, chunks_ = 1;  // of the outermost row axis
    std::optional<Place> destination_;
    std::string pack_;  // the vector that was loaded last
    Body* body_ = nullptr;
    Emitter* emitter_ = nullptr;
    Parameters* parameters_ = nullptr;
};

}  // namespace transfuse::cuda
