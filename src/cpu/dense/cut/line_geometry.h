// A convolution as products of lines.
//
// All pixels of a tile, those of several images one behind the other, are one line: vectors run across the ends of rows
// and images, and weights are read once for all of them. For every tap the staged input holds a line of its own,
//
//     patch[ci][line][image, t0, t1, t2]
//
// which costs a copy a tap and pays where each number then meets many output channels. Strides, phases and zeros around
// an image are a matter of what is copied; products know nothing of them.
//
// Where channels of a group are few, taps share a line: rows, planes and images lie so far apart that zeros fit in
// between, and a tap at input in_step·t + s reads the line of s mod in_step, displaced by s div in_step. Nothing is
// copied twice; results between the rows are computed in vain.
//
// Along up to two axes outputs come in pairs (row_pairs.h): a line is then a sum or difference of two inputs and t
// counts pairs. On two axes each pair multiplies the saving of the other: 16 products instead of 36 for 3×3.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cpu/dense/cut/dense_demands.h"
#include "cpu/dense/cut/row_pairs.h"
#include "cpu/tensors/plane.h"
#include "cpu/tiles/reduction.h"

namespace transfuse::cpu {

struct LineGeometry {
    std::array<Lattice, 3> axis;
    Five x{}, y{};
    int64_t groups = 1, in = 1, outs = 1;  // channels per group

    // Of each axis. Output o = out_step·t + m, m = period·(0 or 1 of a pair) + residue; input i = in_step·t + least + …
    std::array<bool, 3> paired{};
    std::array<int64_t, 3> period{}, out_step{}, in_step{}, least{}, reach{};  // reach: largest place of a line
    std::array<std::vector<PairRow>, 3> lines;
    bool shared = false;  // taps share lines, one for each remainder of in_step that one of them reads
    // Of a full tile's line along each axis, from one place to the next where the axis before moves on by one.
    std::array<int64_t, 3> room{};
    int64_t all_lines() const { return static_cast<int64_t>(lines[0].size() * lines[1].size() * lines[2].size()); }

    struct Product {
        std::vector<int64_t> line;               // of each term of an input channel
        std::vector<std::array<int64_t, 3>> at;  // where in the line it begins
        // Weights of the terms: term k is Σ factor·w[tap], tap counted over all axes, s from first[k] to first[k + 1].
        std::vector<int32_t> first, tap;
        std::vector<double> factor;
        int64_t terms() const { return static_cast<int64_t>(line.size()); }
    };
    std::vector<Product> products;
    struct Residue {
        std::array<int64_t, 3> residue;
        std::array<int64_t, pair_parts * pair_parts * pair_parts> product;  // [part of each axis]; −1: no terms
    };
    std::vector<Residue> residues;
    int64_t all_terms = 0, most_terms = 0;  // of all products, of the largest
    // Inputs of an axis, as they stand to one another modulo in_step, that some line reads.
    bool reads(size_t a, int64_t place) const {
        for (const PairRow& row : lines[a])
            if ((place - row.a) % in_step[a] == 0 || (row.sign != 0 && (place - row.b) % in_step[a] == 0)) return true;
        return false;
    }
    bool any_pairs() const { return paired[0] || paired[1] || paired[2]; }
    // Every product meets its input channels at one place: where pixels of x follow one another, it reads them there.
    bool one_tap() const {
        return all_lines() == 1 && in_step == std::array<int64_t, 3>{1, 1, 1} &&
               reach == std::array<int64_t, 3>{0, 0, 0} && least == std::array<int64_t, 3>{0, 0, 0} && most_terms == 1;
    }
    // The lines of products are the planes of the result.
    bool direct() const { return out_step == std::array<int64_t, 3>{1, 1, 1}; }

    Tiling tiling;           // of y; a tile takes `images` of them
    int64_t images = 1;      // neighbouring images whose tiles share a line
    int64_t pixels = 1;      // of a full tile's line
    int64_t gathered = 1;    // groups of few channels that are staged, and completed, together
    int64_t chunk = 1;       // input channels staged at a time
    int64_t block = 1;       // of them, multiplied at a time: terms that are summed in registers
    int64_t line_pitch = 0;  // of the patch
    double cycles = 0;       // estimated, of all tiles

    std::array<int64_t, 3> extent(const Box& box) const;  // t of a tile
    int64_t input_extent(size_t a, int64_t t) const { return in_step[a] * (t - 1) + reach[a] + 1; }
    // From place to place of a line of such tiles, from image to image; its places that hold results.
    std::array<int64_t, 3> places(const std::array<int64_t, 3>& t) const { return shared ? room : t; }
    int64_t image_places(const std::array<int64_t, 3>& t) const {
        const std::array<int64_t, 3> of = places(t);
        return of[0] * of[1] * of[2];
    }
    int64_t results(const std::array<int64_t, 3>& t, int64_t of_images) const {
        const std::array<int64_t, 3> of = places(t);
        return (of_images - 1) * image_places(t) + ((t[0] - 1) * of[1] + t[1] - 1) * of[2] + t[2];
    }
    int64_t image_groups() const { return (y[0] + images - 1) / images; }
    int64_t tiles() const { return image_groups() * spatial_tiles(); }
    int64_t spatial_tiles() const { return tiling.count[0] * tiling.count[1] * tiling.count[2]; }
    std::string describe() const;
};

// Tests see each way, whichever is shorter.
enum class DenseWay : uint8_t { shorter, tiles, lines, shared_lines, channels };

LineGeometry line_geometry(const Lattices& axes, const Sizes& x, const Sizes& y, int64_t groups,
                           const DenseDemands& demands, DenseWay way = DenseWay::shorter);

}  // namespace transfuse::cpu
