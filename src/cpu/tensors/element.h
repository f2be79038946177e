// Elements of any dtype as numbers, and walks over strided tensors.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "transfuse/tensor.h"

namespace transfuse::cpu {

struct bfloat16 {
    uint16_t bits;
};
struct float16 {
    uint16_t bits;
};

inline float widen(bfloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
inline float widen(float16 x) {
    const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16, magnitude = x.bits & 0x7fff;
    // Shift exponent and fraction into place, then correct the bias by a multiplication, which also normalises
    // subnormals.
    float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    if (magnitude >= 0x7c00) value = std::bit_cast<float>((magnitude << 13) | 0x7f800000);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }

// To nearest, ties to even.
inline bfloat16 to_bfloat16(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x);
    if (x != x) return {static_cast<uint16_t>((b >> 16) | 0x40)};
    return {static_cast<uint16_t>((b + 0x7fff + ((b >> 16) & 1)) >> 16)};
}
inline float16 to_float16(float x) {
    const uint32_t b = std::bit_cast<uint32_t>(x), sign = (b >> 16) & 0x8000, magnitude = b & 0x7fffffff;
    if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
    if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};  // 65520 and above round to infinity
    if (magnitude < 0x38800000) {  // subnormal: let the addition of ½ round at the right bit
        const float half = std::bit_cast<float>(magnitude) + 0.5f;
        return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(half) - 0x3f000000))};
    }
    const uint32_t rounded = magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1);
    return {static_cast<uint16_t>(sign | (rounded >> 13))};
}
template <class T>
inline T narrow(double x) {
    // fp64 → 16 bits goes through fp32, as PyTorch's does.
    if constexpr (std::is_same_v<T, float16>)
        return to_float16(static_cast<float>(x));
    else if constexpr (std::is_same_v<T, bfloat16>)
        return to_bfloat16(static_cast<float>(x));
    else
        return static_cast<T>(x);
}

// visit(dtype, f): f(T{}) with the element type.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
    switch (dtype) {
        case DType::f64:
            return f(double{});
        case DType::f32:
            return f(float{});
        case DType::f16:
            return f(float16{});
        default:
            return f(bfloat16{});
    }
}

inline double get(const TensorView& view, int64_t offset) {
    switch (view.dtype) {
        case DType::f64:
            return static_cast<const double*>(view.data)[offset];
        case DType::f32:
            return static_cast<const float*>(view.data)[offset];
        case DType::f16:
            return widen(static_cast<const float16*>(view.data)[offset]);
        default:
            return widen(static_cast<const bfloat16*>(view.data)[offset]);
    }
}
inline void set(const TensorView& view, int64_t offset, double value) {
    switch (view.dtype) {
        case DType::f64:
            static_cast<double*>(view.data)[offset] = value;
            break;
        case DType::f32:
            static_cast<float*>(view.data)[offset] = static_cast<float>(value);
            break;
        case DType::f16:
            static_cast<float16*>(view.data)[offset] = narrow<float16>(value);
            break;
        default:
            static_cast<bfloat16*>(view.data)[offset] = narrow<bfloat16>(value);
            break;
    }
}
inline void* address(const TensorView& view, int64_t offset) {
    return static_cast<char*>(view.data) + offset * bytes(view.dtype);
}

// Strides of `view` for walking a shape it broadcasts to (right-aligned): zero where it is repeated.
inline Sizes broadcast_strides(const TensorView& view, const Sizes& shape) {
    Sizes strides(shape.size(), 0);
    const size_t lead = shape.size() - view.shape.size();
    for (size_t axis = 0; axis < view.shape.size(); ++axis)
        if (view.shape[axis] != 1) strides[lead + axis] = view.strides[axis];
    return strides;
}

// A position in a shape, walked in row-major order.
class Odometer {
public:
    Odometer(const Sizes& shape, int64_t linear) : shape_(shape), index_(shape.size()) {
        for (size_t axis = shape.size(); axis-- > 0;) {
            index_[axis] = linear % shape[axis];
            linear /= shape[axis];
        }
    }
    const Sizes& index() const { return index_; }
    int64_t operator[](size_t axis) const { return index_[axis]; }
    void next() {
        for (size_t axis = shape_.size(); axis-- > 0;) {
            if (++index_[axis] < shape_[axis]) return;
            index_[axis] = 0;
        }
    }
    int64_t offset(const Sizes& strides) const {
        int64_t sum = 0;
        for (size_t axis = 0; axis < index_.size(); ++axis) sum += index_[axis] * strides[axis];
        return sum;
    }

private:
    const Sizes& shape_;
    Sizes index_;
};

}  // namespace transfuse::cpu
