// What a program has written already, each found by all that it depends on.
#pragma once

#include "cuda/kernel/kernel.h"
#include "cuda/kernel/remembered.h"

namespace transfuse::cuda {

struct ExtraJob;
struct Schedule;

struct Written {
    Remembered<Schedule> schedules;
    Remembered<ExtraJob> packs;
    Remembered<Source> texts;
    Remembered<Source> sources;    // by their texts: what is equal is one
    Remembered<Source> wholes[2];  // of other kernels, by their own part of the text: of short and of long indices
};

}  // namespace transfuse::cuda
