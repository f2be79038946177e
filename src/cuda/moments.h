// The moments pass: all box sums of a tensor from one reading of it.
#pragma once

#include <optional>

#include "cuda/emitter.h"

namespace transfuse::cuda {

// What a pass's main kernel leaves: its launches, and where its grid values can be read (as partials, mostly).
struct GridProgram {
    Program program;
    Places grid;
};

// nullopt with a sentence in `why_not` where the general kernel must do it.
std::optional<GridProgram> generate_moments(const Surroundings& surroundings, const Places& places, std::string* why_not = nullptr);

}  // namespace transfuse::cuda
