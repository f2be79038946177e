// Whether there is anything to run on.
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

}  // namespace transfuse
