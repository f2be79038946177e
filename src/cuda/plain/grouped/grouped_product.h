// The product of a thread's tile: weights staged for the block, rows of inputs in registers, sums.
#pragma once

#include "cuda/general/kernel_text.h"
#include "cuda/plain/grouped/grouped_shape.h"

namespace transfuse::cuda {

class GroupedProduct {
public:
    GroupedProduct(const Graph& graph, ValueId anchor, const GroupedShape& shape, KernelText& kernel);

    // The block's image, classes and first channel (all texts), with its weights staged.
    void begin();
    // The thread's own channel is `own` behind the block's first.
    void take_channels(const std::string& own);
    // Which runs tile `t` is: its first outputs, their first inputs and which of those lie inside, where its weights
    // begin.
    void find_runs();
    // sums[columns][positions][lanes], zero.
    void declare_sums(int64_t columns);
    // All columns, into sums; or those that share inputs, into sums from `column` on.
    void multiply();
    void multiply_set(const std::string& set, const std::string& column);

    // Columns of the same inputs, for all of which a row is loaded once: those of a group.
    int64_t shared_columns() const { return shape_.by_channel ? 1 : shape_.cout; }
    std::string channel_of(const std::string& column) const {
        return plus(channel_, times(column, number(shape_.column_step())));
    }
    const std::string& image() const { return image_; }
    const std::string& channel() const { return channel_; }  // the thread's first
    const std::string& slice() const { return slice_; }
    const std::string& slot() const { return slot_; }  // of the block among all of an image and its channels
    const std::string& first_output(size_t axis) const { return first_output_[axis]; }

private:
    std::string integer(int64_t value) { return kernel_.integer(value); }
    std::string let(const std::string& text, std::string_view prefix) { return kernel_.let(text, prefix); }
    void stage();
    void rows(size_t axis, std::vector<int64_t>& met, const Index& at, const std::string& weights,
              const std::string& first);
    void load_row(const Index& row, const std::string& inside);
    void add_row(const std::vector<int64_t>& met, const std::string& weights, const std::string& first);
    void add_outputs(int64_t s, const std::string& column, int64_t p, int64_t entry, const std::string& from);
    void add_channels(int64_t s, const std::string& column, int64_t p, int64_t entry, const std::string& from);

    const Graph& graph_;
    const ValueId anchor_;
    const GroupedShape& shape_;
    const Real real_;
    const std::string type_;
    KernelText& kernel_;
    Body& body_;
    Emitter& emitter_;
    std::string image_, slice_, slot_, first_;  // the block's; first_: its first channel
    std::string own_, channel_, weights_;       // the thread's first channel in the block, in all; its weights
    std::vector<std::string> class_;            // of each axis but the last: the block's
    std::vector<std::string> first_output_;     // of each axis
    std::vector<std::vector<std::string>> input_, inside_;  // [axis][s]: an index, and whether it lies in the axis
};

}  // namespace transfuse::cuda
