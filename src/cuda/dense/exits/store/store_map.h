// How the 128 threads of a store group lie over a chunk.
#pragma once

#include <vector>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

// Channel-major: `lanes` columns along w, each of `vector` neighbouring outputs, and `rows` of threads along channels.
// Pixel-major: lanes along channels, each with `vector` neighbouring channels.
struct StoreMap {
    bool vectors = false;  // a thread's outputs are whole pixels with all their w phases
    int vector = 1, pixels = 1;
    bool along = false;       // a thread's `vector` outputs lie `lanes` columns apart (store_along.h)
    bool whole_rows = false;  // along, and a warp has all columns of its rows
    int lanes = 32, rows = 4, turns = 1;
    bool warps_along_w = false;  // channel reductions: a warp has all channels of its pixels
    bool neighbours = false;     // a thread's rows are neighbouring channels; else `rows` apart
    int channels = 64;           // rows of a phase in the chunk
    int items = 16, batch = 16;  // rows of a thread; of them held at once
    bool unrolled = true;        // outer phases have code of their own
    std::vector<int> ahead;  // by read: where a chunk's part of a tensor begins that is asked for a chunk ahead; −1:
                             // loaded when needed
};

// Bytes an output of the tensors that a store thread can ask for a chunk ahead: those that vary by channel and pixel.
int ahead_bytes(const Epilogue& epilogue);

// Where neighbouring threads take neighbouring residues along w, whose rows of a chunk lie in the same banks: columns
// of residue w are swapped by w times so many; 0: as they come.
int chunk_skew(const Epilogue& epilogue, const Schedule& schedule, const Config& config);

StoreMap store_map(const Epilogue& epilogue, const Schedule& schedule, const Config& config);

}  // namespace transfuse::cuda
