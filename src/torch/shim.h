// PyTorch's stable C interface as the operators use it.
#pragma once

#include <dlfcn.h>
#include <torch/csrc/stable/tensor.h>

#include "transfuse/error.h"
#include "transfuse/tensor.h"

namespace transfuse::torch_face {

using ::torch::stable::Tensor;

inline void check(AOTITorchError code, const char* what) {
    require(code == AOTI_TORCH_SUCCESS, "PyTorch: ", what, " failed");
}

// Of a request that is right but for its size.
template <class What>
void check_memory(AOTITorchError code, const What& what) {
    if (code != AOTI_TORCH_SUCCESS) throw OutOfMemory("PyTorch has none for " + what());
}

struct Place {
    int32_t type = 0, index = 0;
    bool operator==(const Place&) const = default;
};

inline Tensor empty(const Sizes& shape, const Sizes& strides, int32_t dtype, const Place& place) {
    AtenTensorHandle handle = nullptr;
    check_memory(aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(), strides.data(), dtype,
                                          place.type, place.index, &handle),
                 [&] { return "a tensor of " + to_string(shape); });
    return Tensor(handle);
}

// libtorch_cuda is not linked, so that the library loads beside a PyTorch without CUDA; it is there if a CUDA tensor
// is.
template <class Function>
Function* of_torch_cuda(const char* name) {
    static void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<Function*>(dlsym(library != nullptr ? library : RTLD_DEFAULT, name));
}

inline void* current_stream(int32_t device) {
    static const auto get = of_torch_cuda<AOTITorchError(int32_t, void**)>("aoti_torch_get_current_cuda_stream");
    require(get != nullptr, "PyTorch's current CUDA stream cannot be read: libtorch_cuda is not loaded");
    void* stream = nullptr;
    check(get(device, &stream), "get_current_cuda_stream");
    return stream;
}

}  // namespace transfuse::torch_face
