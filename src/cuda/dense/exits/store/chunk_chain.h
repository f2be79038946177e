// The chain on a chunk: partial results over channels meet by shuffles and, where several warps share a pixel, in
// `exchange`.
#pragma once

#include <string>
#include <vector>

#include "cuda/dense/exits/store/store_map.h"
#include "cuda/dense/read/chain.h"

namespace transfuse::cuda {

class ChunkChain : public Chain {
public:
    ChunkChain(const Epilogue& epilogue, Lines& lines, const StoreMap& map)
        : Chain(epilogue, lines, epilogue.program().pixel_major), m_(map) {}

protected:
    void across(const std::string& result, Op op, const std::string& term) override;
    // Each warp's exponentials relative to its own maximum: one meeting for maximum and sum.
    void exponentials(const std::string& v, const std::string& term, Kind left) override;
    // A warp has the whole row.
    void along(const std::string& result, Op op, const std::string& term) override;
    // Neighbours along w (or channels, where those lie together) in one load: wide_r says whether memory lies so.
    void load_elements(const std::string& name, size_t read, Kind kind) override;

private:
    bool exchanged() const { return !pixel_major_ && !m_.warps_along_w; }
    void in_warp(const std::string& result, Op op, const std::string& term);
    void send(const std::vector<std::string>& values);

    const StoreMap& m_;
};

}  // namespace transfuse::cuda
