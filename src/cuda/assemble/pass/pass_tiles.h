// The tensor-core kernel of a dense pass.
#pragma once

#include <optional>
#include <string>

#include "cuda/assemble/pass/pass_context.h"

namespace transfuse::cuda {

// The kernel, or why there is none.
struct Tiles {
    std::optional<DenseProgram> dense;
    double seconds = 0;          // that it is estimated to take
    std::optional<Taken> taken;  // of the kernels that are known
    std::string why_not;
};

// Where adding them up afterwards is estimated faster, parts of the sums (apart.h); or whole ones, of an input that is
// copied to channels last: for the first size of a program, by the heuristic's configuration, where tiles make all of
// the pass.
Tiles generate_tiles(const PassContext& context, const Surroundings& around, bool all_of_pass);

// Whether tiles may be asked of the pass.
bool takes_tiles(const PassContext& context, size_t number, const std::string& config);
// The tiles of a pass before the passes that precede it; threads may do so side by side. Nothing where another family
// takes the pass; or where something is wrong, which generate_pass will meet again.
std::optional<Tiles> tiles_ahead(const PassContext& context, size_t number, const std::string& config);

}  // namespace transfuse::cuda
