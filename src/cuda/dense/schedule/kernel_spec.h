// What a known dense kernel is, as read from its words.
#pragma once

#include <array>

#include "cuda/dense/schedule/config.h"
#include "cuda/dense/schedule/specialization.h"
#include "cuda/kernel/kernel.h"

namespace transfuse::cuda {

struct KernelSpec {
    Words words, config_words;
    Words launch_note;
    struct Notes {
        Words program, pass;
    };
    std::array<Notes, 2> notes;  // by family
    Config config;
    Specialization specialization;
};

}  // namespace transfuse::cuda
