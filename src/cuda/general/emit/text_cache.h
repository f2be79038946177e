// What a program has written already, each found by all that it depends on.
#pragma once

#include "cuda/kernel/kernel.h"
#include "cuda/kernel/memo.h"

namespace transfuse::cuda {

struct ExtraJob;
struct Schedule;

struct TextCache {
    Memo<Schedule> schedules;
    Memo<ExtraJob> packs;
    Memo<Source> texts;
    Memo<Source> sources;    // by their texts: what is equal is one
    Memo<Source> wholes[2];  // of other kernels, by their own part of the text: of short and of long indices
};

}  // namespace transfuse::cuda
