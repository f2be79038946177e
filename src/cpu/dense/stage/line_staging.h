// Lines of pixels from the input under a tile: zeros outside the image, the prologue applied inside.
#pragma once

#include "cpu/dense/cut/line_geometry.h"
#include "cpu/tiles/tile_program.h"

namespace transfuse::cpu {

template <class T>
class LineStager {
public:
    LineStager(const LineGeometry& geometry, const Placed& x, const TileProgram* prologue, const BoundProgram* bound,
               int prologue_slot, Scratch& scratch);
    // What `channels` channels of a tile take.
    static int64_t elements(const LineGeometry& geometry, int64_t channels) {
        return channels * geometry.all_lines() * geometry.line_pitch + row_padding;
    }
    // Before the channels of a tile are staged, at most so many at a time.
    void begin(T* patch, const Box& tile, int64_t channels);
    // Channels first … first + count of x as lines of the tile's images, which differ from `tile` in n alone.
    void stage(T* patch, const Box& tile, int64_t images, int64_t first, int64_t count);

private:
    // The input under the tile of one image, of up to channels_at_once channels, and where it goes: to the place where
    // taps share lines, else to [plane][row][residue][column], which becomes lines.
    struct Input {
        std::array<int64_t, 3> base, extent;
        int64_t columns, row, plane;  // of a residue; elements of a row, of a plane
        bool inside;                  // no zeros around it
    };
    Input input(const Box& tile) const;
    int64_t place(const Input& in, size_t axis, int64_t i) const;  // of input i under the tile
    void load(T* to, int64_t pitch, int64_t n, int64_t first, int64_t count);

    const LineGeometry& geometry_;
    const Placed& x_;
    int slot_;
    // Of the tile: what lies under it, what of that inside the image, and its rows of one residue, step[1] apart.
    Input in_;
    std::vector<PairRow> columns_;  // of its rows, lines along the last axis
    std::array<int64_t, 3> begin_, inside_extent_;
    struct Run {
        std::array<int64_t, 3> at;  // from the first inside the image
        int64_t rows, columns, place;
    };
    std::vector<Run> runs_;
    std::unique_ptr<TileRun<T>> run_;
    T *input_ = nullptr, *room_ = nullptr, *inside_ = nullptr;
};

}  // namespace transfuse::cpu
