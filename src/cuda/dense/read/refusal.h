// How reading a pass ends where a family does not take it.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace transfuse::cuda {

struct Refusal {
    std::string* why;
    std::nullopt_t operator()(std::string sentence) const {
        if (why) *why = std::move(sentence);
        return std::nullopt;
    }
};

}  // namespace transfuse::cuda
