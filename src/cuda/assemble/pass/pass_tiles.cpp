#include "cuda/assemble/pass/pass_tiles.h"

#include "cuda/dense/dense.h"
#include "cuda/dense/read/parts.h"

namespace transfuse::cuda {

Tiles offer_tiles(const PassContext& context, const Surroundings& around, bool all_of_pass) {
    Tiles tiles;
    if (context.known) {
        tiles.taken = std::make_shared<Taken>();
        tiles.offer = offer_dense_among(around, *context.known, *tiles.taken, &tiles.why_not);
    } else {
        tiles.offer = offer_dense(around, &tiles.why_not);
    }
    if (!tiles.offer || !all_of_pass || !may_take_memory(context, around)) return tiles;
    const double than = tiles.offer->seconds;
    if (auto parts = chain_can_gather(around) ? offer_dense_in_parts(around, than) : std::nullopt)
        tiles = {std::move(parts), nullptr, {}};
    else if (auto channels_last = offer_dense_channels_last(around, than))
        tiles = {std::move(channels_last), nullptr, {}};
    return tiles;
}

bool takes_tiles(const PassContext& context, size_t number, const std::string& config) {
    return context.plan.passes[number].kind == PassKind::dense && !context.target.general_only &&
           config != no_dense_config;
}

}  // namespace transfuse::cuda
