// What a known dense kernel is, as read from its words.
#pragma once

#include <string>

#include "cuda/dense/config.h"
#include "cuda/dense/manner.h"

namespace transfuse::cuda {

struct Said {
    std::string words, config_words;
    Config config;
    Manner manner;
};

}  // namespace transfuse::cuda
