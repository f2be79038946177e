// How a lattice convolution is cut into tiles, and how a tile's input patch is laid out.
//
// Outputs o = period·u + residue of one residue form a phase; a tile holds a box of outputs that begins at a multiple
// of the period on each axis, so all its phases share one range of u, and one patch of input i = advance·u + shift:
//
//     patch[ci][p1][p2][residue of p3 mod advance][p3 div advance]      p = i − (advance·u0 + least shift)
//
// Along the last axis the patch is split by residue, so that the pixels a vector needs are neighbours whatever the
// advance.
//
// Where rows come in pairs (row_pairs.h), the patch holds sums and differences of input rows instead of the rows,
//
//     patch[ci][p1][pair row][t][columns as above]      t: the pair of output rows u = 2t, 2t + 1
//
// and each phase becomes up to four products, one per part, over half as many rows. Where planes come in pairs as well,
// sums and differences are taken of planes that hold such rows,
//
//     patch[ci][pair plane][s][pair row][t][columns]      s: the pair of output planes u = 2s, 2s + 1
//
// and a phase becomes up to four times four products over a quarter of the rows.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cpu/dense/cut/dense_demands.h"
#include "cpu/dense/cut/row_pairs.h"
#include "cpu/tensors/plane.h"
#include "cpu/tiles/reduction.h"
#include "transfuse/graph.h"

namespace transfuse::cpu {

// One product per tile and panel: a phase, or one part of a phase whose rows come in pairs.
struct DensePhase {
    std::array<int64_t, 3> residue;
    struct Tap {
        std::vector<PairTerm::Share> k1, k2;  // the weight is Σ factor₁·factor₂·w[tap₁, tap₂, k3]
        int64_t k3;
        int64_t offset;  // elements from a pixel of the patch, within one channel
    };
    struct Shift {  // on the first axis: of the plane it meets, or of the two that are added
        int64_t a, b;
    };
    std::vector<Tap> taps;      // in order of the first axis
    std::vector<Shift> shifts;  // one per tap of the first axis
    int64_t taps_per_shift() const { return shifts.empty() ? 0 : static_cast<int64_t>(taps.size() / shifts.size()); }
};

struct DenseGeometry {
    std::array<Lattice, 3> axis;
    Five x{}, y{};
    int64_t groups = 1, in = 1, outs = 1;                 // channels per group
    std::array<int64_t, 3> period, advance, shift, span;  // least shift; largest − least
    std::vector<DensePhase> phases;
    Tiling tiling;                 // of y
    int64_t chunk = 1;             // input channels staged at a time
    std::array<int64_t, 3> patch;  // extents; the last one counts columns of one residue, slack included
    int64_t row_stride, plane_stride, channel_stride;  // of the patch: p2 (of pairs: t), p1, ci

    bool paired = false, planes_paired = false;
    std::vector<PairRow> pair_rows, pair_planes;
    struct Parts {
        std::array<int64_t, 3> residue;
        // Of each part of the planes (the first where they are not paired) and of the rows; −1: it has no terms.
        std::array<std::array<int64_t, pair_parts>, pair_parts> phase;
    };
    std::vector<Parts> parts;
    int64_t pair_row_stride = 0, pair_plane_stride = 0;  // of the patch, from pair row to pair row
    int64_t overhang = 0;  // columns at the end of a row, all zero, that are the beginning of the next
    // Input rows before they are paired: even ones, then odd ones, so that row 2t + a is a neighbour of row 2t + 2 + a.
    int64_t odd_rows = 0, staged_plane_stride = 0, staged_channel_stride = 0;
    // Sums of pairs before they become rows: [channel][product][u1 or s][t][column]; `flat`: rows are as far apart as
    // in the patch, and vectors run across their ends.
    bool flat = false;
    int64_t sum_row_stride = 0, sum_plane_stride = 0, product_stride = 0;
    int64_t sums_stride() const { return product_stride * static_cast<int64_t>(phases.size()) + row_padding; }
    int64_t staged_row(int64_t p2) const { return paired ? p2 % 2 * odd_rows + p2 / 2 * row_stride : p2 * row_stride; }

    int64_t chunks() const { return (in + chunk - 1) / chunk; }
    // PyTorch adds over input channels, then over taps: to be as exact, sums over few channels or of few terms must be
    // short.
    int64_t chain(int64_t terms) const {
        return std::min<int64_t>(terms > 160 ? 80 : 32, in > 48 ? 80 : in > 32 ? 40 : in > 16 ? 24 : 12);
    }
    int64_t u_count(size_t a, int64_t extent, int64_t residue) const {  // u with period·u + residue < extent
        return extent <= residue ? 0 : (extent - residue - 1) / period[a] + 1;
    }
    // The row of a tile that holds plane u1 and row u2 of a residue.
    int64_t row_of(const std::array<int64_t, 3>& residue, int64_t u1, int64_t u2, const Box& box) const {
        return (period[0] * u1 + residue[0]) * box.extent[1] + period[1] * u2 + residue[1];
    }
    // Multiply-adds that are executed over those of the direct sum, borders aside.
    double products_share() const {
        double executed = 0;
        for (const DensePhase& phase : phases) executed += static_cast<double>(phase.taps.size());
        return executed / static_cast<double>((paired ? 2 : 1) * (planes_paired ? 2 : 1) * axis[0].taps * axis[1].taps *
                                              axis[2].taps);
    }
    // Estimated, of all tiles; comparable with those of line_geometry.h.
    double cycles(const DenseDemands& demands) const;
    std::string describe() const;
};

DenseGeometry dense_geometry(const Lattices& axes, const Sizes& x, const Sizes& y, int64_t groups,
                             const DenseDemands& demands);

}  // namespace transfuse::cpu
