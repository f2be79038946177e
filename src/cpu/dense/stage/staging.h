// Copies the input under a tile into its patch: zeros outside the input, the prologue applied inside.
#pragma once

#include "cpu/dense/cut/dense_geometry.h"
#include "cpu/tiles/tile_program.h"

namespace transfuse::cpu {

template <class T>
class Stager {
public:
    Stager(const DenseGeometry& geometry, const Placed& x, const TileProgram* prologue, const BoundProgram* bound,
           int prologue_slot, Scratch& scratch);
    // Channels first … first + count of x under a tile of y.
    void stage(T* patch, const Box& tile, int64_t first, int64_t count);

private:
    void stage_rows(T* rows, int64_t plane_stride, int64_t channel_stride, const Box& tile, int64_t first,
                    int64_t count);
    void pair_rows(T* planes, const T* rows, const Box& tile) const;
    void pair_planes(T* patch, const Box& tile) const;
    int64_t input_planes(const Box& tile) const;

    const DenseGeometry& geometry_;
    const Placed& x_;
    int slot_;
    std::unique_ptr<TileRun<T>> run_;
    T* whole_row_ = nullptr;
    T* staged_ = nullptr;   // rows of a few channels that wait to be paired
    T* waiting_ = nullptr;  // planes of paired rows of a channel that wait to be paired
};

}  // namespace transfuse::cpu
