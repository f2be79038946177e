// Packed weights that stay between calls: for good where nobody changes the weights, else as long as they are the same
// numbers. (Addresses and versions do not tell: `.data` and NumPy write unseen.)
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "transfuse/tensor.h"

namespace transfuse::cpu {

class KeptWeights {
public:
    using Packed = std::shared_ptr<const void>;
    // The packed form of w, `bytes` long, which `pack` writes where it is not held already. `fixed`: w never changes.
    Packed get(const TensorView& w, bool fixed, int threads, size_t bytes,
               const std::function<void(void*)>& pack) const;

private:
    mutable std::mutex mutex_;
    mutable std::array<uint64_t, 2> content_{};
    mutable Packed packed_;
};

}  // namespace transfuse::cpu
