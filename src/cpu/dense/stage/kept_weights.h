// Packed weights that stay between calls: for good where nobody changes the weights, else as long as they are the same
// numbers. (Addresses and versions do not tell: `.data` and NumPy write unseen.)
//
// A model has a plan for every size it meets, each with packed weights of its own. All of them together stay within a
// bound: what was not used for longest goes first, and is packed again when it is asked for.
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
    KeptWeights() = default;
    ~KeptWeights();
    KeptWeights(const KeptWeights&) = delete;
    KeptWeights& operator=(const KeptWeights&) = delete;
    // The packed form of w, `bytes` long, which `pack` writes where it is not held already. `fixed`: w never changes.
    Packed get(const TensorView& w, bool fixed, int threads, size_t bytes,
               const std::function<void(void*)>& pack) const;

    static constexpr size_t most_bytes = size_t{1} << 30;  // of all that is kept
    static size_t kept_bytes();

private:
    mutable std::mutex mutex_;
    mutable std::array<uint64_t, 2> content_{};
    mutable std::weak_ptr<const void> packed_;
};

}  // namespace transfuse::cpu
