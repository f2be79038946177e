// Results that lie channels last leave in boxes (Hopper's tensor maps): the product warps run the chain on their
// accumulators, lay the values down in shared memory as the memory behind wants them, and one thread asks for the copy,
// which cuts what lies outside. There is no store role. Each phase of the outputs is a tensor of its own, every
// period-th of the pixels.
#pragma once

#include <string>
#include <vector>

#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/schedule/box_shape.h"
#include "cuda/kernel/kernel.h"

namespace transfuse::cuda {

int64_t box_maps(const Problem& problem);  // one a phase
void add_box_arguments(ArgumentList& list, const Epilogue& epilogue, const Schedule& schedule, const Config& config);

// struct Fragments of a chain whose results leave in boxes.
std::string tma_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config);

}  // namespace transfuse::cuda
