// How a lattice convolution is cut into tiles, and how a tile's input patch is laid out.
//
// Outputs o = period·u + residue of one residue form a phase; a tile holds a box of outputs that begins at a multiple
// of the period on each axis, so all its phases share one range of u, and one patch of input i = advance·u + shift:
//
//     patch[ci][p1][p2][residue of p3 mod advance][p3 div advance]      p = i − (advance·u0 + least shift)
//
// Along the last axis the patch is split by residue, so that the pixels a vector needs are neighbours whatever the
// advance.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cpu/plane.h"
#include "cpu/reduction.h"
#include "transfuse/graph.h"

namespace transfuse::cpu {

struct DensePhase {
    std::array<int64_t, 3> residue;
    struct Tap {
        std::array<int64_t, 3> k;
        int64_t offset;  // elements from a pixel of the patch, within one channel
    };
    std::vector<Tap> taps;        // in order of the first axis
    std::vector<int64_t> shifts;  // on the first axis, one per tap of that axis
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
    int64_t row_stride, plane_stride, channel_stride;  // of the patch: p2, p1, ci

    int64_t chunks() const { return (in + chunk - 1) / chunk; }
    int64_t u_count(size_t a, int64_t extent, int64_t residue) const {  // u with period·u + residue < extent
        return extent <= residue ? 0 : (extent - residue - 1) / period[a] + 1;
    }
    std::string describe() const;
};

struct DenseDemands {
    std::array<int64_t, 3> window{1, 1, 1};  // pool windows that must not be cut
    int64_t resident_planes = 0;             // planes a tile keeps
    int64_t element_bytes = 4;
};

DenseGeometry dense_geometry(const std::vector<Lattice>& axes, const Sizes& x, const Sizes& y, int64_t groups,
                             const DenseDemands& demands);

}  // namespace transfuse::cpu
