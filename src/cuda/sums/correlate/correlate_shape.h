// How a weight gradient is cut into blocks: tiles of channels, bundles of taps, slices of the pixels.
//
// Along each outer axis the outputs that meet an input through tap k are evenly spaced, o = first_o + period·u with
// i = first_i + advance·u, so a tap is two strided windows. Along the row a tap is a plane of residues turned against
// another (correlate_taps.h): rows stand one behind the other with zeros between them, and K of the matrix product
// counts positions of that line.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernel/kernel.h"
#include "cuda/sums/correlate/correlate_taps.h"

namespace transfuse::cuda {

// What meets through one tap of an outer axis.
struct TapRange {
    int64_t first_i = 0, first_o = 0, count = 0;
};

class CorrelateShape {
public:
    static constexpr int threads = 256;
    static constexpr int depth = 32;             // positions of one step
    static constexpr int pitch = depth + 4;      // rows of fragments touch every bank once
    static constexpr int ring = 4 * depth;       // positions of the turned operand that are kept
    static constexpr int ring_pitch = ring + 4;  // as pitch
    // Tensor cores cut what they add towards zero: after so many positions sums are added to totals, with rounding,
    // where a thread has registers for both.
    static constexpr int chain = 32 * depth;

    CorrelateShape(const Surroundings& s, ValueId id);
    bool arrange(std::string* why_not);

    bool strict() const { return strict_; }
    int64_t loading_warps() const { return by_groups ? 4 : threads / 32; }
    int64_t all_taps() const { return outer_taps * row.taps; }
    int64_t ahead() const {
        return (taps.span + depth - 1) / depth;
    }  // steps by which the turned operand is before the other
    int64_t warps_m() const { return rows / 32; }
    int64_t warps_n() const { return 8 / warps_m(); }
    int64_t warp_columns() const { return columns / warps_n(); }
    int64_t fragments() const { return warp_columns() / 8; }
    int64_t still_tile() const { return taps.turns_x ? columns : rows; }
    int64_t turned_tile() const { return taps.turns_x ? rows : columns; }
    int64_t still_floats() const { return static_cast<int64_t>(taps.planes()) * still_tile() * pitch; }
    int64_t shared_bytes() const;
    int64_t blocks() const;  // of one slice

    // By warpgroups: 64 channels of the turned operand in registers, of the other `group_columns` from shared memory,
    // in blocks of eight by four positions; a column of blocks ends 16 bytes before the next begins, so that 32
    // positions of a channel lie in 32 banks.
    int64_t group_columns() const { return halves_columns() ? still_tile() / 2 : still_tile(); }
    bool halves_columns() const {
        return still_tile() > 64;
    }  // of the two warpgroups; else each has half of the positions
    int64_t block_column() const { return still_tile() * 16 + 16; }  // bytes
    int64_t slot_bytes() const { return static_cast<int64_t>(taps.planes()) * (depth / 4) * block_column(); }
    int64_t ring_positions() const { return (slots + ahead() > 4 ? 8 : 4) * depth; }
    int64_t turned_bytes() const { return turned_tile() * (ring_positions() + 4) * 4; }
    int64_t barriers_at() const { return turned_bytes() + slots * slot_bytes(); }

    const ValueId x, g;
    const Sizes sizes;  // of the gradient: groups, channels of x and of g, taps
    Lattices outer;     // all axes but the last, whose taps are other blocks' business
    Lattice row;
    TapBundles taps;
    std::vector<std::vector<TapRange>> ranges;  // per outer axis and tap
    int64_t batch = 1;
    int64_t row_pitch = 1;            // a row's values, and behind them zeros for the turns that look over its ends
    int64_t rows = 64, columns = 64;  // of a tile: channels of x and of g
    int64_t row_tiles = 1, column_tiles = 1, outer_taps = 1;
    int64_t slice = depth, slices = 1;  // positions of a slice, and how many there are
    bool by_groups = false;
    bool by_columns = false, gathers_x = false;  // of the operand with few channels: it is x
    Sizes slot_strides;                          // of the gradient's sums in a slice's slot
    int64_t slots = 2;                           // steps of the still operand that shared memory holds, by warpgroups

private:
    void read_axes();
    bool bundle();
    bool arrange_groups();
    bool arrange_columns();
    int64_t padded_products() const;  // of a position
    void lay_slots();
    bool arrange_warps(std::string* why_not);
    int64_t pitch_of_rows() const;
    int64_t positions() const;
    void choose_slices();

    const Surroundings& s_;
    const Graph& graph_;
    const ValueId id_;
    const bool strict_;
    int64_t rows_of_image_ = 1;
};

}  // namespace transfuse::cuda
