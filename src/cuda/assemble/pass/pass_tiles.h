// What the tensor cores offer for a dense pass.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cuda/assemble/pass/pass_context.h"

namespace transfuse::cuda {

// A kernel that is not written yet, or why there is none.
struct Tiles {
    std::optional<Offer> offer;
    std::shared_ptr<Taken> taken;  // of the kernels that are known; told what is written; null: they are not asked
    std::string why_not;
};

// Where adding them up afterwards is estimated faster, parts of the sums (parts.h); or whole ones, of an input that is
// copied to channels last: for the first size of a program, by the heuristic's configuration, where tiles make all of
// the pass. around: lives until the offer is written.
Tiles offer_tiles(const PassContext& context, const Surroundings& around, bool all_of_pass);

// Whether tiles may be asked of the pass.
bool takes_tiles(const PassContext& context, size_t number, const std::string& config);

}  // namespace transfuse::cuda
