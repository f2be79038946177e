// Whether there is anything to run on, and whether it runs now or later.
#include "cuda/runtime/driver.h"
#include "cuda/runtime/nvrtc.h"
#include "transfuse/engine.h"

namespace transfuse {

bool cuda_available() { return cuda_unavailable_reason().empty(); }

std::string cuda_unavailable_reason() {
    std::string reason;
    if (!cuda::find_driver(&reason)) return reason;
    if (!cuda::nvrtc_available(&reason)) return reason;
    return {};
}

bool cuda_captures(void* stream) {
    int capturing = 0;
    return cuda::driver().cuStreamIsCapturing(static_cast<cuda::CUstream>(stream), &capturing) != 0 || capturing != 0;
}

}  // namespace transfuse
