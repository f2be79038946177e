// What the writers of the store role's text share, and the words with which they say where a tile, a chunk and a column
// lie.
#pragma once

#include <string>

#include "cuda/dense/exits/store/chunk_chain.h"
#include "cuda/dense/exits/store/statistics.h"
#include "cuda/dense/exits/store/store_map.h"

namespace transfuse::cuda {

struct StoreText {
    StoreText(const Epilogue& epilogue, const Schedule& schedule, const Config& config);
    StoreText(const StoreText&) = delete;  // chain and statistics refer to their neighbours

    // What the lines become that are written meanwhile.
    template <class Write>
    std::string written(const Write& write) {
        t = Lines();
        write();
        return t.str();
    }

    const Epilogue& epilogue;
    const TileProgram& program;
    const Schedule& s;
    const Config& c;
    const StoreMap m;
    Lines t;
    ChunkChain chain;
    Statistics statistics;
    const std::string value;  // the accumulators' name
};

void tile_place(StoreText& role);
void chunk_place(StoreText& role);
// Whether a chunk is released before the outputs without taps are stored, which read nothing of it: the products hand
// over the next one meanwhile.
bool releases_early(const StoreText& role);
// Opens the loops over a chunk's columns and outer phases, and says where each lies.
void columns_begin(StoreText& role, const std::string& from = "0", const std::string& to = "CHUNK_OUTER");

}  // namespace transfuse::cuda
