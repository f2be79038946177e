// Which exits a pass can take. Nothing here changes what it looks at.
#pragma once

#include <optional>

#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/schedule/exit.h"

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
    std::optional<ChannelFold> fold = std::nullopt;
    // The one through a store role that runs the chain.
    static Exit behind(const TileProgram& program) { return program.handed >= 0 ? Exit::reduced : Exit::store; }
};
Exits exits_of(const Epilogue& epilogue);

// Where the store role reduces over channels it has enough to do: then the product warps add the bias before they hand
// over.
bool hands_over_biased(const Epilogue& epilogue);

}  // namespace transfuse::cuda
