// Element types, shapes, and a view of a tensor in memory. Size arithmetic is overflow-checked throughout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transfuse/few.h"

namespace transfuse {

using Sizes = Few<int64_t, 6>;  // a weight [groups, in, out, d, h, w] has the most axes

enum class DType : uint8_t { f64, f32, f16, bf16 };

std::string_view name(DType dtype);       // "f32"
int64_t bytes(DType dtype);               // 4
DType promote(DType a, DType b);          // PyTorch's: f16 with bf16 gives f32
DType dtype_named(std::string_view text); // throws Error on an unknown name

// Checked arithmetic: throws Error naming `what` on overflow of int64.
int64_t checked_mul(int64_t a, int64_t b, std::string_view what);
int64_t checked_add(int64_t a, int64_t b, std::string_view what);
int64_t numel(const Sizes& shape);              // checked product
Sizes contiguous_strides(const Sizes& shape);   // in elements, row-major
Sizes broadcast(const Sizes& a, const Sizes& b, std::string_view op); // PyTorch's rule; throws naming op

// dtype[shape]; a value's static type.
struct Type {
    DType dtype = DType::f32;
    Sizes shape;
    bool operator==(const Type&) const = default;
    int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};
std::string to_string(const Type& type);   // "f32[16,64,128,128]"
std::string to_string(const Sizes& sizes); // "[16,64]"

// A tensor in memory: any strides (elements; may be zero or negative), so NCHW, channels_last and slices need no copy.
struct TensorView {
    void* data = nullptr;
    DType dtype = DType::f32;
    Sizes shape;
    Sizes strides;
};

}  // namespace transfuse
