// The run-time compiler. Found, in this order: the library TRANSFUSE_NVRTC names, one already loaded in this process
// (PyTorch brings one), the loader's path, the CUDA toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda), folders that were
// added.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernel/kernel.h"

namespace transfuse::cuda {

struct Binary {
    std::string cubin;
    std::string log;  // the compiler's words, ptxas' included: registers, spills, shared memory
};

bool nvrtc_available(std::string* reason);
std::string nvrtc_version();                       // "13.0", part of every cache key
void add_nvrtc_folder(const std::string& folder);  // searched after everything else, before the first use

std::string arch_option(int arch);  // 90 -> "sm_90a"
// Compiles without looking at the cache. Throws Error with the compiler's log.
Binary nvrtc_compile(const Source& source, int arch);
// PTX of any device code, with the compiler's own options; empty where these ask for less. Throws Error as above.
std::string nvrtc_ptx(const std::string& text, const std::vector<std::string>& options);

}  // namespace transfuse::cuda
