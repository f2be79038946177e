// Rows that begin anywhere, from a store role that needs not all channels of a pixel at once: a warp goes along its
// row, piece of 32 columns after piece, before it takes the next channel. The pieces end within sectors of memory (32
// bytes), and a sector that is written in two parts is cheap where they follow one another at once.
#pragma once

#include <string>

#include "cuda/dense/exits/store/store_map.h"

namespace transfuse::cuda {

struct StoreText;

bool goes_along(const Epilogue& epilogue, const Schedule& schedule, const Config& config, const StoreMap& map,
                int columns);
// How the threads lie where that is so; `most` values in a thread.
StoreMap map_along(StoreMap map, int columns, int most);
// The same where a chunk is one row and a warp takes all of it, to reduce it: `columns` in whole lanes.
StoreMap map_whole_rows(StoreMap map, int columns, int most);

void along_macros(StoreText& role);  // the places of a thread's outputs
// Into the loop over the outer phases; says where each of the columns lies.
void along_columns(StoreText& role, const std::string& from, const std::string& to);
void along_values(StoreText& role);  // the thread's accumulators
void store_along(StoreText& role, size_t store);

}  // namespace transfuse::cuda
