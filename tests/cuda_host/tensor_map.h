// A tensor map of the host machine: what host.h makes of a TmaTensor and machine.h copies by.
#pragma once

#include <algorithm>
#include <cstdint>

struct HostBoxes {
    const char* base;
    int element, rounds;
    int extent[5], box[5];
    long long stride[4];
    int swizzle;  // bits of the row that mix with those of the 16 bytes
};
struct BoxPlace {
    int at[5];
};

// Why the driver would refuse such a map, or the device fault at a box of it; null: neither.
static inline const char* box_fault(const HostBoxes& map, unsigned in_shared, const BoxPlace& place) {
    if (reinterpret_cast<uintptr_t>(map.base) % 16 != 0) return "a tensor of boxes begins beside 16 bytes";
    for (long long stride : map.stride)
        if (stride % 16 != 0) return "rows of boxes lie no multiple of 16 bytes apart";
    for (int length : map.box)
        if (length < 1 || length > 256) return "a box has more than 256 elements along an axis, or none";
    const int row = map.box[0] * map.element;
    if (row % 16 != 0) return "a row of a box is no multiple of 16 bytes";
    if (map.swizzle != 0 && row > 16 << map.swizzle) return "a row of a box is longer than what mixes";
    if (place.at[0] * map.element % 16 != 0) return "a box begins beside 16 bytes";
    if (in_shared % (map.swizzle != 0 ? 1024 : 128) != 0) return "a box lies beside 128 bytes of shared memory";
    return nullptr;
}

// Every row of a box, in the order of shared memory. does(number, begin, end, offset): of its elements, which are
// counted through the box from `number` on, those from `begin` to `end` lie in the tensor; there the first would be at
// `offset`.
template <class Does>
static inline void each_row(const HostBoxes& map, const BoxPlace& place, const Does& does) {
    const int rows = map.box[1] * map.box[2] * map.box[3] * map.box[4];
    for (int row = 0; row < rows; ++row) {
        bool inside = true;
        long long offset = static_cast<long long>(place.at[0]) * map.element;
        for (int a = 1, rest = row; a < 5; rest /= map.box[a], ++a) {
            const long long at = place.at[a] + rest % map.box[a];
            inside = inside && at >= 0 && at < map.extent[a];
            offset += at * map.stride[a - 1];
        }
        const int begin = std::max(0, -place.at[0]), end = std::min(map.box[0], map.extent[0] - place.at[0]);
        does(row * map.box[0], begin, inside ? end : begin, offset);
    }
}
