// How results leave a tile. Which exits a pass can take: exits/exits.h; which it takes is chosen by cost.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace transfuse::cuda {

enum class Exit : uint8_t {
    store,       // chunks of accumulators go to the store role, which runs the chain (store/)
    reduced,     // product warps reduce over channels, and hand over what comes of it (accumulators/reductions.h)
    fold,        // they fold their channels, and hand over one value a pixel (accumulators/fold.h)
    statistics,  // nothing but sums is kept (accumulators/fragments.h)
    tma,         // in boxes (accumulators/tma_stores.h)
    direct,      // from the accumulators to memory (accumulators/direct_stores.h)
    swap_ab,     // of products whose rows are pixels (swap_ab/)
};
constexpr std::array<std::string_view, 7> exit_names{"store", "reduced", "fold",   "statistics",
                                                     "tma",   "direct",  "swap_ab"};

// The product warps run the whole chain on their accumulators: there are no chunks, and there is no store role.
constexpr bool has_store_role(Exit exit) { return exit <= Exit::fold; }

}  // namespace transfuse::cuda
