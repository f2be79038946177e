// What a tile program brings to its kernel: operands and their tables, the prologue, partial results, arguments.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cuda/dense/read/leaving.h"
#include "cuda/dense/read/tile_program.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

struct Partial {  // of a grid reduction
    GridReduction reduction;
    int first_stat = 0, stats = 1;
    int pivot = -1;  // var: the slots of what sums and squares are taken about; then of what rounding took from the two
    int rest = -1;   // sums: the slot of what rounding took
    int store = -1;  // not whole: the store that keeps the value itself
};

class Epilogue {
public:
    Epilogue(const TileProgram& program, const Problem& problem);

    int table_bytes() const {
        return slots_at_ + (problem_.family == Family::wgmma ? 512 : 0);
    }  // fragments read rows beyond the last channel
    int group_bytes() const {
        return exchange_at_ + 1024 * real_bytes();
    }  // per store group: slots of partials, tables of the image, exchange of channel reductions
    const Few<Partial, 2>& partials() const { return partials_; }
    int stats() const { return stats_; }
    bool derived(const Partial& p) const;  // a sum that a variance of the same value gives as well
    std::vector<std::pair<int, std::string>> cleared_slots() const;  // slots, and what partials begin with there
    Real real() const { return problem_.real_bytes() == 8 ? Real::f64 : Real::f32; }  // REAL in the text
    int real_bytes() const { return problem_.real_bytes(); }
    int64_t channels() const { return channels_; }
    bool per_tile() const { return per_tile_; }  // partials per tile (the batch is kept), else per CTA
    bool one_image() const { return per_tile_ || image_tables_ > 0; }  // a tile lies in one image

    std::string operands() const;                // struct Operands
    std::string prologue(bool one_image) const;  // one_image: a patch lies in one
    std::string tables() const;                  // fills the per-channel tables, run by all threads
    std::string parameters() const;              // of the kernel, and how Operands is made of them
    std::string operands_made() const;
    // Matching `parameters`; scratch addresses: of partial sums, and of each kept value.
    void add_arguments(ArgumentList& list, int64_t partial_at, const std::vector<int64_t>& kept_at) const;
    void leave(Leaving leaving) { leaving_ = std::move(leaving); }
    const Leaving& leaving() const { return leaving_; }
    // The store role meets the channels of a pixel.
    bool reduces_in_chunks() const { return program_.channel_reductions && leaving_.exit != Exit::reduced; }
    const OperandList& reads() const { return reads_; }
    const OperandList& stores() const { return stores_; }
    int table_of(size_t read) const { return table_of_[read]; }  // −1: none
    int image_table_of(size_t read) const {
        return image_table_of_[read];
    }  // of values per image and channel; −1: none
    int image_tables() const { return image_tables_; }
    const Few<int, 4>& prologue_tables() const { return prologue_table_of_; }
    int slots_at() const { return slots_at_; }    // from the tables' beginning
    int images_at() const { return images_at_; }  // from a store group's slots, as is
    int exchange_at() const { return exchange_at_; }
    const TileProgram& program() const { return program_; }
    const Problem& problem() const { return problem_; }
    const Graph& graph() const { return program_.around->plan.graph; }

    // What tables are asked of sizes: are there pixels enough to keep an image's, and images few enough to keep all.
    static bool has_many_pixels(const TileProgram& program);
    static bool has_few_images(const Problem& problem);

private:
    void place_kept(const GridReduction& reduction, Operand& store) const;

    const TileProgram& program_;
    const Problem& problem_;
    OperandList reads_, stores_;
    Few<int, 4> table_of_, image_table_of_;  // per read
    Few<int, 4> prologue_table_of_;          // per read: its first entry; −1: none
    Few<Partial, 2> partials_;
    Leaving leaving_;
    int tables_ = 0, image_tables_ = 0, stats_ = 0;
    int64_t channels_ = 0;
    int prologue_at_ = 0, slots_at_ = 0, images_at_ = 0, exchange_at_ = 0;
    bool per_tile_ = false;
};

}  // namespace transfuse::cuda
