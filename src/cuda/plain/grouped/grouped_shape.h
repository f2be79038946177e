// How a grouped product is divided among threads.
#pragma once

#include <optional>

#include "cuda/general/pull/pull.h"
#include "cuda/plain/grouped/grouped_window.h"

namespace transfuse::cuda {

struct GroupedShape {
    ValueId x = -1, w = -1, bias = -1;
    Lattices axes;
    int64_t groups = 1, cin = 1, cout = 1;  // channels of a group
    std::vector<ValueId> reductions;        // over channels, in order
    std::vector<ValueId> grid;              // over all of space

    // The lanes of a thread's vectors are neighbouring channels (channels last), or neighbours along the last axis.
    bool by_channel = false;
    int64_t lanes = 1;
    std::vector<RunWindow>
        windows;                 // of a thread along each axis; the last has `lanes` outputs unless lanes are channels
    bool vector_inputs = false;  // rows of x are whole vectors
    // A unit is what one or several threads take of the channels: a group, or a vector of channels; where channels are
    // reduced, all. Then, if their sums are too many to be held in registers, they are made anew for every loop over
    // them; if channels lie together, a team of neighbouring threads shares them, each taking every team-th vector.
    bool all_channels = false, held = true;
    int64_t unit_channels = 1, unit_count = 1, team = 1;
    int64_t units = 1, unit_threads = 256;  // of a block
    int64_t tiles = 1, slices = 1;          // runs of all axes that an image has of one class; blocks that share them

    int64_t channels() const { return groups * cout; }
    int64_t threads() const { return units * unit_threads; }
    int64_t unit_blocks() const { return (unit_count + units - 1) / units; }
    int64_t block_channels() const { return units * unit_channels; }
    int64_t column_step() const {
        return by_channel ? lanes * team : 1;
    }  // channels from one column of sums to the next
    int64_t columns() const { return (unit_channels + column_step() - 1) / column_step(); }
    bool ragged() const { return columns() * column_step() != unit_channels; }
    int64_t positions() const;  // outputs of a column, besides lanes
    // A block keeps to one class of runs along every axis but the last, and stages the weights of that class alone.
    int64_t block_classes() const;
    int64_t staged(size_t axis) const;  // entries along an axis
    int64_t entries() const;            // of a channel and input channel
};

// nullopt with a sentence in `why_not` where another family must take the pass.
std::optional<GroupedShape> grouped_shape(const Surroundings& surroundings, const std::vector<Sink>& sinks,
                                          std::string* why_not);

// Whether vectors of so many elements can be moved at this place along an axis.
bool takes_vectors(const Place& place, const Sizes& shape, size_t axis, int64_t vector);

}  // namespace transfuse::cuda
