// What products have written becomes rows of a tile: sums of pairs are merged, phases of the last axis interleaved.
#pragma once

#include "cpu/dense/cut/dense_geometry.h"

namespace transfuse::cpu {

// Where results of a panel go before the tile program: straight into planes; when the last axis has several phases,
// into rows per phase that are interleaved afterwards; when rows come in pairs, into sums that are merged first.
template <class T>
struct Destination {
    T* data;
    int64_t pitch;  // from channel to channel
};

// Sums of pairs become rows: of planes, or of phases that are yet to be interleaved. False where one is not finite.
// `rows` has room for eight rows where planes come in pairs.
template <class T>
bool merge_pairs(const DenseGeometry& g, const Destination<T>& from, const Destination<T>& to, const Box& box,
                 int64_t phase_pitch, const T* bias, int64_t channels, T* rows);

template <class T>
void interleave_phases(const DenseGeometry& g, const Destination<T>& from, T* planes, const Box& box,
                       int64_t phase_pitch, int64_t channels);

}  // namespace transfuse::cpu
