// How a schedule is made of a configuration, part by part (schedule.h). Every part asks whether it fits; the first that
// does not ends it.
#pragma once

#include <map>
#include <utility>

#include "algebra/lattice/integer.h"
#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

constexpr int strip_width = 8;  // pixels of a block of the operand: beyond them its stride is free

constexpr int most_in_unaligned_rows =
    16 * 96;  // pixels: two bits a turn of the transposing threads (device/roles/unaligned_rows.cuh)

inline int rounded_up(int64_t a, int64_t b) { return static_cast<int>(round_up(a, b)); }

class Scheduler {
public:
    Scheduler(const Problem& problem, const Needs& needs, const Config& config, const Schedule* like)
        : problem_(problem),
          needs_(needs),
          c_(config),
          like_(like),
          outer_together_((needs.pool[1] > 1 || needs.pool[2] > 1) &&
                          (problem.axes[1].period() > 1 || problem.axes[2].period() > 1)) {}

    bool fits(const Target& target) {
        return taps() && patch() && run() && rows() && accumulators() && pools() && depth() &&
               (windows(), slabs(), chunks()) && memory(target);
    }
    Schedule take() { return std::move(s_); }

private:
    // Pixels.
    bool taps();                          // what windows reach, along every axis
    bool patch();                         // the pixels that are staged
    bool share_padding(int pitch_grain);  // rows of the patch, where the zeros right of one are those left of the next
    bool comes_flat() const;              // whether rows can come as one
    bool run();                           // the pixels of an accumulator, merged rows
    bool turn();                          // or of 64 of its rows, where operands are swapped

    // Rows of M.
    bool rows();                                     // channels, and with few of them phases side by side
    void planes(const std::vector<bool>& has_taps);  // accumulators of the residues along w
    void outer_phases();                             // those with taps, and those without
    bool accumulators();                             // of a warpgroup, and whether registers hold them
    bool pools() const;                              // whether windows of a pool lie in one warpgroup
    bool depth();                                    // K: channels of a stage

    // Products (scheduler_windows.cpp). A window of the patch, by its first pixel, and the taps that segments of rows
    // have there.
    struct Window {
        std::vector<int> taps;
        std::array<Reach, 2> reach;
    };
    struct Made {
        OperandTile tile;
        std::array<Reach, 2> reach;
    };
    struct Products {
        std::vector<WindowStep> steps;
        std::vector<Made> tiles;
    };  // of a warpgroup
    void windows();
    Products products(int variant, int group) const;
    std::map<int, Window> windows_of(int bundle, int plane) const;
    void add_window(std::map<int, Window>& windows, const ChunkPhase& outer, int w, int segment) const;
    void add_products(int block, const std::map<int, Window>& windows, Products& to) const;
    Products side_by_side(const Products& in) const;
    void use(const Made& one) { s_.tiles.push_back(one.tile), s_.reach.push_back(one.reach); }
    void alternate(std::array<Products, 2>& groups);
    void share(std::array<Products, 2>& groups, int first_tile);
    void slabs();

    // Chunks.
    bool chunks();
    void phase_table();
    bool whole_rows() const;
    void chunk_rows();
    bool memory(const Target& target);
    int64_t furthest_window() const;  // its first pixel
    int beyond() const;               // pixels that portable warps read behind the last plane

    const Problem& problem_;
    const Needs& needs_;
    const Config& c_;
    const Schedule* const like_;
    const bool outer_together_;  // residues of outer axes meet in a pool: they lie in one chunk
    Schedule s_;
    std::array<std::vector<Phase>, 4> phases_;
    std::array<int64_t, 4> last_{};                                   // shifts, in units of u
    int64_t row_span_ = 0, plane_span_ = 0, batch_span_ = 0;          // pixels of the patch from one to the next
    std::vector<ChunkPhase> real_, empty_;                            // outer phases with taps, and without
    int groups() const { return c_.split == Split::phases ? 2 : 1; }  // warpgroups with phases of their own
    int run_column(int n, int d, int h) const {  // of an accumulator: where a row of the run begins
        return static_cast<int>(((n * s_.extent[1] + d) * s_.extent[2] + h) * s_.run_pitch);
    }
    bool tall() const { return needs_.pooled && c_.run[0] * c_.run[1] * c_.run[2] > 1; }
    int64_t sub_patches() const { return s_.advance[0] * s_.advance[1] * s_.advance[2] * s_.advance[3]; }
};

}  // namespace transfuse::cuda
