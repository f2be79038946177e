// A piece of a role's text (src/cuda/device) gives way to another.
#pragma once

#include <string>
#include <string_view>

#include "transfuse/error.h"

namespace transfuse::cuda {

inline void replace(std::string& text, std::string_view from, std::string_view to) {
    const size_t at = text.find(from);
    require(at != std::string::npos, "a kernel's text has no ", from);
    text.replace(at, from.size(), to);
}

}  // namespace transfuse::cuda
