// Reductions across tiles: each tile leaves partial results in a slot of its own; slots are combined in the order of
// the tiles, so the result does not depend on which thread computed which tile.
#pragma once

#include <vector>

#include "cpu/tensors/plane.h"
#include "transfuse/graph.h"

namespace transfuse::cpu {

// How a grid is cut into tiles along N and its spatial axes (channels are never cut).
struct Tiling {
    Five grid{};                            // extents
    std::array<int64_t, 3> tile{1, 1, 1};   // extents of a full tile
    std::array<int64_t, 3> count{1, 1, 1};  // tiles per spatial axis

    static Tiling of(const Five& grid, const std::array<int64_t, 3>& tile);
    int64_t tiles() const { return grid[0] * count[0] * count[1] * count[2]; }
    Box box(int64_t index) const;  // row-major over (n, t1, t2, t3)
};

class GridReduction {
public:
    // `x` is the type of the reduced value, on the grid of `tiling`; its extent is 1 along channels where it is
    // constant there, and along all spatial axes where it is one number a plane.
    GridReduction(const Node& node, const Type& x, const Tiling& tiling);

    int64_t slot_doubles() const { return entries_ * width_; }
    size_t slots_bytes() const { return static_cast<size_t>(tiling_.tiles() * slot_doubles()) * sizeof(double); }

    // Before anything is taken in of channels first … first + count; all of them where they are reduced.
    void begin(double* slot, int64_t first, int64_t count) const;
    // Takes in channel c of the value on a tile.
    template <class T>
    void add(double* slot, const Box& box, int64_t c, const T* plane) const;
    // Combines all slots into the result (contiguous or not).
    void combine(const double* slots, const TensorView& out, int threads) const;

private:
    void merge(double* into, const double* from) const;
    double finish(const double* entry) const;
    int64_t entry(int64_t c, int64_t r0, int64_t r1) const;

    Op op_;
    double correction_ = 0, count_ = 1;
    bool finite_ = false;  // a logsumexp is NaN in the place of ∞
    Tiling tiling_;
    std::array<bool, 5> reduced_{};
    Five result_axis_{};                    // axis of the result that keeps grid axis a, or −1
    int64_t channels_ = 1;                  // kept
    std::array<int64_t, 3> kept_{1, 1, 1};  // kept extents of a tile
    int64_t entries_ = 1, width_ = 1;       // of a slot; doubles per entry
};

}  // namespace transfuse::cpu
