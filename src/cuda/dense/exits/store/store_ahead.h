// Tensors beside the convolution come to the store role a chunk ahead, each thread's part into places of its own: loads
// that the chain waits for would each cost a memory's latency, with little under way.
#pragma once

#include "cuda/dense/exits/store/store_text.h"

namespace transfuse::cuda {

bool reads_ahead(const StoreText& role);
void ask_ahead(StoreText& role);   // before the first chunk
void turn_ahead(StoreText& role);  // the next chunk's tensors are asked for, this one's are there

}  // namespace transfuse::cuda
