#pragma once

namespace transfuse::cuda {

// Where kernels are made for many sizes (Target::stated), whether rows have one length all the same: they may share
// padding then, and kernels need no loop along a row that one turn of it ends. Set by src/emit around an assembly.
inline thread_local bool rows_have_one_length = false;

}  // namespace transfuse::cuda
