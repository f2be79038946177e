// Tensors beside the convolution (a skip connection that is added) that lie as the results do, channels last: they come
// in the boxes results leave in (tma_stores.h), asked for while the products run. The first comes to where the
// results will lie: a lane reads its values there, and lays what comes of them down in their place.
#pragma once

#include <string>
#include <vector>

#include "cuda/dense/read/epilogue.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

// Whether all pixels and channels of a tensor can be met in boxes of whole 16 bytes.
bool lies_in_boxes(const Operand& tensor, const Problem& problem);

// The reads of the chain's steps that come so; the program's first store leaves so.
Few<size_t, 4> added_tensors(const Epilogue& epilogue);

std::string_view added_code();    // what the machine has for them
Hooks asked_while_multiplying();  // of the product role

}  // namespace transfuse::cuda
