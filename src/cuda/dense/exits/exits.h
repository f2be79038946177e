// Which exits a pass can take, and what goes with each. Nothing here changes what it looks at.
#pragma once

#include <optional>

#include "cuda/dense/read/epilogue.h"

namespace transfuse::cuda {

// A reduction over channels that product warps can form before they hand over.
struct ChannelFold {
    ValueId value;
    Values before;  // the steps it needs
    int handed;     // values a warp hands over for a pixel
};
// The value behind the last reduction over channels, where product warps can hand it over instead of the accumulators.
struct Handed {
    ValueId value;
    Values before;  // the steps it needs, itself and the accumulators
};
std::optional<Handed> handed_of(const TileProgram& program, const Problem& problem);

struct Exits {
    Exit first = Exit::store;  // the first choice, of those with a store role and of statistics, fold and tma
    bool direct = false, swap_ab = false;
    bool biased = false;  // what goes to the store role has its bias: that has enough to do where it reduces
    std::optional<ChannelFold> fold = std::nullopt;
    std::optional<Handed> handed = std::nullopt;

    // The one through a store role that runs the chain.
    Exit behind() const { return handed ? Exit::reduced : Exit::store; }
    bool has(Exit exit) const;
    Leaving by(Exit exit, const Epilogue& epilogue) const;
};
// handed: as far as the store role's vectors were chosen for it.
Exits exits_of(const Epilogue& epilogue, std::optional<Handed> handed);

}  // namespace transfuse::cuda
