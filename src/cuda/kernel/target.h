// What a kernel is generated for.
#pragma once

namespace transfuse::cuda {

// The device a kernel is generated for.
struct Target {
    int arch = 90;  // 90 compiles as sm_90a
    int multiprocessors = 132;
    int shared_bytes = 227 * 1024;  // most dynamic shared memory a block can have
    bool general_only = false;      // only the general kernels (tests run them without a device)
    bool portable_only = false;     // dense passes never on wgmma (tests)
    bool any_size = false;          // few texts shall serve all sizes, if not each at its best
    bool operator==(const Target&) const = default;

    bool has_wgmma() const { return arch == 90 && !portable_only; }
};

}  // namespace transfuse::cuda
