#include "cuda/assemble/pass/pass_tiles.h"

#include "cuda/dense/dense.h"
#include "cuda/dense/read/apart.h"
#include "cuda/general/around_product.h"
#include "cuda/plain/cells.h"
#include "cuda/plain/grouped/grouped.h"
#include "cuda/plain/thin.h"

namespace transfuse::cuda {

Tiles generate_tiles(const PassContext& context, const Surroundings& around, bool all_of_pass) {
    Tiles tiles;
    auto dense = context.known ? offer_dense_among(around, *context.known, tiles.taken.emplace(), &tiles.why_not)
                               : offer_dense(around, &tiles.why_not);
    if (dense && all_of_pass && may_take_memory(context, around)) {
        auto parts = chain_can_gather(around) ? offer_dense_apart(around, dense->seconds) : std::nullopt;
        if (parts)
            dense = std::move(parts), tiles.taken.reset();
        else if (auto channels_last = offer_dense_channels_last(around, dense->seconds))
            dense = std::move(channels_last), tiles.taken.reset();
    }
    if (dense) tiles.seconds = dense->seconds, tiles.dense = dense->write();
    if (tiles.taken && (!tiles.dense || !tiles.taken->news)) tiles.taken.reset();
    return tiles;
}

bool takes_tiles(const PassContext& context, size_t number, const std::string& config) {
    return context.plan.passes[number].kind == PassKind::dense && !context.target.general_only &&
           config != no_dense_config;
}

std::optional<Tiles> tiles_ahead(const PassContext& context, size_t number, const std::string& config) try {
    const Pass& pass = context.plan.passes[number];
    const Surroundings around = surroundings_of(context, pass, number, config);
    if (!ordinary_arithmetic_may_take(around)) return generate_tiles(context, around, true);
    const Places places = context.placement.places_of(pass);
    if (generate_thin(around, places, context.placement.sinks_of(pass))) return std::nullopt;
    const std::vector<Sink> sinks = context.placement.tile_sinks(pass);
    if (generate_cells(around, places, sinks) || generate_grouped(around, places, sinks)) return std::nullopt;
    return generate_tiles(context, around, true);
} catch (const std::exception&) {
    return std::nullopt;
}

}  // namespace transfuse::cuda
