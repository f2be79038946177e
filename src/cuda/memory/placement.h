// Where the values of a plan lie: leaves and outputs where the caller has them, buffers in one block of workspace, or
// in memory of the executable's own where they are prepared once.
#pragma once

#include <optional>
#include <vector>

#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

// Buffers, packed weights and scratch begin on whole lines of this many bytes.
inline constexpr int64_t line_bytes = 256;

class Placement {
public:
    // aligned: leaves and outputs begin on 16-byte boundaries; last: buffers may lie channels last.
    Placement(const Plan& plan, const CompileOptions& options, bool aligned, bool last);
    Placement(const Placement&) = delete;

    // Per value, in elements; empty for what lies nowhere.
    const Strides& strides() const { return strides_; }
    Strides take_strides() { return std::move(strides_); }
    bool in_memory(ValueId v) const { return slots_[static_cast<size_t>(v)] != 0; }
    const Address& address(ValueId v) const;

    Place place_of(ValueId v) const;
    // An output by its position: of a value that is returned several times, each place is one.
    Place output_place(size_t position) const;
    Sink sink_of(const Store& store) const;
    std::vector<Sink> sinks_of(const Pass& pass) const;
    // What a pass stores of its tiles. A reshape that only leaves out axes of extent 1 is the value itself.
    std::vector<Sink> tile_sinks(const Pass& pass) const;
    // All that a pass reads.
    Places places_of(const Pass& pass) const;

    // A buffer more, which lives during one pass; false where the value has memory already.
    bool add_buffer(ValueId v, size_t pass);
    void remove_buffer(ValueId v);

    struct Room {
        int64_t workspace = 0, kept = 0;  // bytes
    };
    // Decides where the buffers lie that launches meet (per value); they share memory where their lives do not meet.
    Room place_buffers(const std::vector<bool>& met);

private:
    struct Life {
        size_t first, last;  // pass
        bool prepared;
    };
    struct Held {
        Address address;
        std::optional<Life> life;  // of a buffer
    };

    Held* held(ValueId v) {
        const int32_t slot = slots_[static_cast<size_t>(v)];
        return slot == 0 ? nullptr : &held_[static_cast<size_t>(slot) - 1];
    }
    void hold(ValueId v, const Held& what, Sizes strides);
    void place_outputs();
    void place_leaves();
    void find_buffers();
    void touch(ValueId v, size_t pass, bool prepares);
    Sizes output_strides(size_t position) const;

    const Plan& plan_;
    const Graph& graph_;
    const CompileOptions& options_;
    const bool aligned_;
    const std::vector<bool> last_;  // per value
    Strides strides_;
    std::vector<int32_t> slots_;  // per value: its place among those held, from 1; 0: it lies nowhere
    std::vector<Held> held_;
};

}  // namespace transfuse::cuda
