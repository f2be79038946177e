// Costly steps at the beginning of a chain run where the accumulators are: the product warps hand over finished values, and the
// store role, which has half as many threads, moves them. The two overlap chunk by chunk.
#pragma once

#include <string>

#include "cuda/dense/epilogue.h"

namespace transfuse::cuda {

// Sets the value that the program's product warps hand over, and the steps before it, where that pays.
void find_handed(TileProgram& program, const Epilogue& epilogue);

// struct Fragments of such a program, and HANDED.
std::string hand_over_program(const Epilogue& epilogue);

}  // namespace transfuse::cuda
