// Hooks of the roles' texts (src/cuda/device), /*{name*/what stands there/*}*/: a configuration may write something
// else.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace transfuse::cuda {

using Hooks = std::map<std::string, std::string, std::less<>>;

// The text without its hooks: where one of them is named, what is said instead. The text has every one that is named.
std::string hooked(std::string_view text, const Hooks& hooks = {});

}  // namespace transfuse::cuda
