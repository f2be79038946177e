// The moments pass: all box sums of a tensor from one reading of it.
#pragma once

#include <optional>

#include "cuda/general/emitter.h"

namespace transfuse::cuda {

// What a pass's main kernel leaves: its launches, and where its grid values can be read (as partials, mostly).
struct GridProgram {
    Program program;
    Places grid;
    std::vector<ValueId> stored;  // those that already are where the pass stores them
};

// nullopt with a sentence in `why_not` where the general kernel must do it.
// `stores`: where the pass stores grid values; one that a single block completes goes there directly.
std::optional<GridProgram> generate_moments(const Surroundings& surroundings, const Places& places,
                                            const std::vector<std::pair<ValueId, Place>>& stores,
                                            std::string* why_not = nullptr);

}  // namespace transfuse::cuda
