// The tile program: the steps of a pass that run on a tile while it is in cache, one channel plane after another.
//
// A reduction over channels needs all planes of its operand, so it ends a stage: values that live on beyond their stage
// are resident (kept for all channels), all others occupy a few plane registers that are used again for every channel.
// Within a stage, values without a channel axis are computed once, then the channels follow.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/kernels/row_op.h"
#include "cpu/pass/pass.h"
#include "cpu/tensors/plane.h"
#include "cpu/threads/thread_pool.h"
#include "cpu/tiles/reduction.h"
#include "plan/fusion.h"

namespace transfuse::cpu {

class TileProgram {
public:
    // Steps of scope tile and grid (or, for a prologue, those given). `given` is the value the caller supplies plane by
    // plane (−1: none); `grid` the shape [N, C, S…] the steps run on. Null where the program cannot express a step.
    static std::unique_ptr<TileProgram> compile(const Plan& plan, const Pass& pass, const std::vector<ValueId>& steps,
                                                ValueId given, const Sizes& grid);

    int64_t channels() const { return grid_[1]; }
    bool given_is_resident() const { return given_ >= 0 && slots_[static_cast<size_t>(given_)].resident; }
    int stages() const { return stages_; }
    bool needs_whole_planes() const { return whole_planes_; }  // reductions over all spatial axes happen in the tile
    const std::array<int64_t, 3>& pool_window() const { return window_; }  // 1 where there is no pool
    const Five& grid() const { return grid_; }
    const Five& pooled() const { return pooled_; }
    // Whether what is stored of an element depends on that element of the given value alone: in any order of them.
    bool by_elements() const;
    // Whether each channel of a tile is complete by itself: channels may then be computed apart, by different threads.
    bool cuts_channels() const;
    // About how many bytes a tile of `elements` pixels keeps beside the given planes.
    int64_t resident_bytes(int64_t elements, int64_t element_bytes) const;
    int registers() const { return registers_; }

    struct StoreSink {
        int slot;
        Store store;
    };
    struct GridSink {
        int slot;
        ValueId value;
    };
    const std::vector<StoreSink>& stores() const { return stores_; }
    const std::vector<GridSink>& grids() const { return grids_; }
    int slot_of(ValueId value) const;
    int level(int slot) const { return slots_[static_cast<size_t>(slot)].level; }
    const Type& type(int slot) const { return slots_[static_cast<size_t>(slot)].type; }

private:
    template <class T>
    friend class TileRun;
    friend class TileProgramMaker;
    friend class BoundProgram;

    struct Slot {
        ValueId value = -1;
        Type type;
        int level = 0;         // 0: the grid, 1: the pooled grid
        int stage = 0;         // in which it is computed
        bool uniform = false;  // one number a plane
        bool once = false;     // the same for all channels
        bool resident = false;
        bool literal = false, read = false, given = false;
        double number = 0;
        int reg = -1;
        int read_index = -1;
        std::vector<int> store_sinks, grid_sinks;
    };
    struct Step {
        enum class Kind : uint8_t { load, pointwise, pool, reduce, reduce_plane } kind;
        int slot;
        int args[3] = {-1, -1, -1};
        int arg_count = 0;
        RowFunction function;
        TilePool pool{};
        Op reduction = Op::sum;
        double correction = 0;
        bool across_channels = false;  // reduce_plane: over all planes of the tile
        bool finite = false;           // logsumexp: NaN in the place of ∞
    };
    struct Stage {
        std::vector<Step> once, channel, barrier;
    };

    // What is left to do when all steps stand (tile_program_finish.cpp).
    void assign_registers();
    int assign_registers(const Stage& stage);
    static bool takes_register(const Slot& slot);

    Five grid_{}, pooled_{};
    Sizes grid_shape_, pooled_shape_;
    std::array<int64_t, 3> window_{1, 1, 1};
    std::vector<Slot> slots_;
    std::vector<Stage> steps_;
    std::vector<int> reads_;  // slots that come from memory
    std::vector<StoreSink> stores_;
    std::vector<GridSink> grids_;
    int given_ = -1, stages_ = 1, registers_ = 0;
    bool whole_planes_ = false, reduces_channels_ = false;
};

// Where the memory operands of a program lie in one call, and the slots of its reductions.
class BoundProgram {
public:
    BoundProgram(const TileProgram& program, const Memory& memory);
    std::vector<Placed> reads, stores;
    std::vector<const GridReduction*> reductions;  // one per grid sink; set by the pass
    std::vector<double*> partials;
};

// A program on one tile.
template <class T>
class TileRun {
public:
    // box: the tile on the grid; pooled: on the pooled grid; tile: its index, which names the slots of its partial
    // sums. Where others see to the other channels of the tile, only those given are this one's.
    TileRun(const TileProgram& program, const BoundProgram& bound, Scratch& scratch, const Box& box, const Box& pooled,
            int64_t tile, int64_t block_channels, int64_t first_channel = 0,
            int64_t channels = std::numeric_limits<int64_t>::max());

    T* given_planes() const { return given_; }  // resident given planes, all channels; null where there are none
    // Stage 0 for channels c … c + count, the given planes of which lie `pitch` apart.
    void channels(int64_t c, int64_t count, const T* given, int64_t pitch);
    void finish();  // everything after stage 0
    // A program without reductions on one row: the value of `slot`.
    const T* row(const Box& box, int64_t c, const T* given, int slot);

private:
    T* pointer(int slot, int64_t c) const;
    int64_t elements(int level) const { return boxes_[level].elements(); }
    void once(int stage);
    void block(int stage, int64_t c, int64_t count);
    void barrier(int stage);
    void execute(const TileProgram::Step& step, int64_t c);
    void pool(const TileProgram::Step& step, int64_t c);
    void reduce(const TileProgram::Step& step);
    void reduce_plane(const TileProgram::Step& step, int64_t c);
    bool waits(int slot, const Placed& to) const;
    bool sinks_at_once(int slot) const;
    Box box_of(const TileProgram::Slot& slot) const;
    void sink(int slot, int64_t c);

    const TileProgram& program_;
    const BoundProgram& bound_;
    Box boxes_[2];
    int64_t tile_, block_channels_, block_start_ = 0;
    std::vector<T*> base_;             // per slot
    std::vector<int64_t> stride_;      // per slot: from channel to channel (0: one plane)
    std::vector<uint8_t> transposed_;  // per slot: stored with channels innermost, from a block of planes
    const T* given_block_ = nullptr;
    int64_t given_pitch_ = 0;
    T* given_ = nullptr;
    T* temporary_[2];
};

}  // namespace transfuse::cpu
