#include "cuda/sums/correlate/correlate.h"

#include "cuda/sums/correlate/correlate_writer.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

Place slots(const CorrelateShape& shape) {
    Place place;
    place.base = Argument::of_scratch(0);
    place.storage = DType::f32;
    place.strides = shape.slot_strides;
    place.aligned = true;
    place.read_only = false;
    place.partials = Partials{shape.slices, numel(shape.sizes), 1, false};
    return place;
}

}  // namespace

std::optional<Offer> offer_correlate(const Surroundings& surroundings, const Places& places, std::string* why_not) {
    const ValueId anchor = surroundings.pass.anchor;
    if (anchor < 0 || surroundings.plan.graph[anchor].op != Op::correlate) {
        if (why_not) *why_not = "no correlate";
        return std::nullopt;
    }
    const auto shape = std::make_shared<CorrelateShape>(surroundings, anchor);
    if (!shape->arrange(why_not)) return std::nullopt;
    return Offer{.write = [&surroundings, &places, shape, anchor] {
        FamilyProgram result;
        result.program.launches.push_back(shape->by_columns  ? correlate_by_columns(surroundings, places, *shape)
                                          : shape->by_groups ? correlate_by_groups(surroundings, places, *shape)
                                                             : correlate_by_warps(surroundings, places, *shape));
        result.program.scratch_bytes = static_cast<size_t>(shape->slices * numel(shape->sizes) * 4);
        result.program.note = result.program.launches[0].note;
        result.places.emplace(anchor, slots(*shape));
        return result;
    }};
}

}  // namespace transfuse::cuda
