// Scratch memory for one call of the operators, from PyTorch's allocators.
#pragma once

#include <cstddef>
#include <optional>

#include "torch/shim.h"

namespace transfuse::torch_face {

// Aligned as engines want it. On the current CUDA device it comes without a tensor around it, which would cost as much
// as a launch; and a small piece is kept by the thread for its next call on the same stream, whose kernels follow this
// call's: to give it back and ask again would cost a tenth of a small call.
class Workspace {
public:
    // may_keep: whether the thread may keep it.
    Workspace(size_t bytes, const Place& place, void* stream, bool may_keep);
    ~Workspace();
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    void* data() const { return data_; }

private:
    void take_from_cuda(size_t bytes, int32_t device, void* stream, bool may_keep);

    void* data_ = nullptr;
    void* raw_ = nullptr;  // to be given back
    std::optional<Tensor> tensor_;
};

}  // namespace transfuse::torch_face
