// Lines of pixels from the input under a tile: zeros outside the image, the prologue applied inside.
#pragma once

#include "cpu/line_geometry.h"
#include "cpu/tile_program.h"

namespace transfuse::cpu {

template <class T>
class LineStager {
public:
    LineStager(const LineGeometry& geometry, const Placed& x, const TileProgram* prologue, const BoundProgram* bound,
               int prologue_slot, Scratch& scratch);
    // Channels first … first + count of x as lines of the tile's images, which differ from `tile` in n alone.
    void stage(T* patch, const Box& tile, int64_t images, int64_t first, int64_t count);

private:
    // The input under the tile of one image, of up to channels_at_once channels: [plane][row][residue][column].
    struct Input {
        std::array<int64_t, 3> base, extent;
        int64_t columns, row, plane;  // of a residue; elements of a row, of a plane
    };
    Input input(const Box& tile) const;
    void load(T* to, int64_t pitch, const Input& in, int64_t n, int64_t first, int64_t count);

    const LineGeometry& geometry_;
    const Placed& x_;
    int slot_;
    std::unique_ptr<TileRun<T>> run_;
    T *input_ = nullptr, *room_ = nullptr, *inside_ = nullptr;
};

}  // namespace transfuse::cpu
