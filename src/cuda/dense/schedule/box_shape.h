// The boxes in which results that lie channels last leave (tma_stores.h).
#pragma once

#include <algorithm>

#include "cuda/dense/schedule/schedule.h"

namespace transfuse::cuda {

constexpr int longest_box_row = 128;  // bytes that are spread over the banks

// Where a box lies before it is sent: rows of channels, swizzled where they are 32, 64 or 128 bytes long.
struct BoxShape {
    int channels = 0, row_bytes = 0;  // of a pixel in a box
    int segments = 1;                 // of an accumulator's rows that have a phase
    int parts = 1;                    // of a segment's channels: a box each
    int pixels = 0, bytes = 0;        // of a box
    int exchange = 0;                 // bytes beside them, for reductions over channels
    int places = 0;                   // bytes of a table of where pixels lie in a box, for words
    int slots = 1;                    // accumulators of a warpgroup that are laid down before the first must be gone
    int beside = 0;                   // as many again for each further tensor that comes in boxes
    int waits = 0;                    // bytes of barriers, for the boxes that come
    int swizzle() const { return row_bytes == 128 ? 3 : row_bytes == 64 ? 2 : row_bytes == 32 ? 1 : 0; }
};
inline BoxShape box_shape(const Problem& problem, const Needs& needs, const Config& config, const Schedule& s) {
    BoxShape box;
    const int element = static_cast<int>(needs.element_bytes);
    const int channels = std::min(s.segment, static_cast<int>(std::min<int64_t>(problem.cout, 64)));
    box.channels = std::min(channels, longest_box_row / element);
    box.parts = (channels + box.channels - 1) / box.channels;
    box.row_bytes = box.channels * element;
    box.pixels = config.run[0] * config.run[1] * config.run[2] * config.run[3];
    box.bytes = (box.pixels * box.row_bytes + 16 + 1023) / 1024 * 1024;  // and room for what belongs nowhere
    box.segments = s.phases_w <= s.segments ? s.bundle_phases * s.phases_w : s.segments;
    box.slots = s.blocks > 1 ? 2 : 1;
    // Tensors come for a whole tile, the first to where its results will lie.
    if (needs.added > 0) box.slots = s.blocks, box.beside = (needs.added - 1) * s.blocks, box.waits = 1024;
    if (needs.all_channels) box.exchange = (2 * s.run_pixels * 4 * 4 + 1023) / 1024 * 1024;
    if (element == 4) box.places = (2 * s.run_pixels + 1023) / 1024 * 1024;
    return box;
}

inline int boxes_bytes(const BoxShape& box) {
    return (box.slots + box.beside) * box.segments * box.parts * box.bytes + box.exchange + box.places + box.waits;
}  // of a warpgroup

}  // namespace transfuse::cuda
