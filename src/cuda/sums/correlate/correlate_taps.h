// Which taps along a row a block of the weight gradient takes together.
//
// The outputs a tap meets are o = period·u + residue and their inputs i = advance·v + residue' with v = u + turn, so
// for all u at once a tap is one plane of residues of g against one plane of x, turned by a constant. Taps of the same
// planes read the same two rows of memory: staged once, they are multiplied once a tap, only the turn differs.
#pragma once

#include <cstdint>
#include <vector>

#include "transfuse/lattice.h"

namespace transfuse::cuda {

struct Turn {
    int64_t tap = -1;  // -1: none, so that all bundles have equal planes
    int64_t turn = 0;  // of the turned operand against the still one, in steps of its residue plane
};

struct Plane {
    int64_t residue = 0;  // of the still operand
    std::vector<Turn> turns;
};

// What one block takes: planes of the still operand, and one plane of the turned one.
struct Bundle {
    int64_t turned_residue = 0;
    int64_t least_turn = 0;
    std::vector<Plane> planes;
};

struct TapBundles {
    bool turns_x = true;  // x is the turned operand and g the still one
    int64_t still_step = 1, turned_step = 1;
    int64_t least_turn = 0, most_turn = 0;  // of all taps, 0 between them
    int64_t span = 0;                       // largest difference of turns within a bundle
    std::vector<Bundle> bundles;            // all with the same number of planes and of turns in each plane
    size_t planes() const { return bundles[0].planes.size(); }
    size_t turns() const;  // of a bundle
};

// At most `taps` products and `planes` still planes in a bundle, turns at most `span` apart.
TapBundles tap_bundles(const Lattice& row, size_t taps, size_t planes, int64_t span);

}  // namespace transfuse::cuda
