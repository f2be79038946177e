// Element types, checked size arithmetic, broadcasting.
#include "transfuse/tensor.h"

#include <algorithm>
#include <array>

#include "transfuse/error.h"

namespace transfuse {

namespace {
constexpr std::array<std::string_view, 4> dtype_names = {"f64", "f32", "f16", "bf16"};
}

std::string_view name(DType dtype) { return dtype_names[static_cast<size_t>(dtype)]; }

int64_t bytes(DType dtype) {
    switch (dtype) {
        case DType::f64:
            return 8;
        case DType::f32:
            return 4;
        case DType::f16:
        case DType::bf16:
            return 2;
    }
    fail("unknown dtype ", static_cast<int>(dtype));
}

DType promote(DType a, DType b) {
    if (a == b) return a;
    if (a == DType::f64 || b == DType::f64) return DType::f64;
    return DType::f32;  // f32 with a half, or f16 with bf16
}

DType dtype_named(std::string_view text) {
    for (size_t i = 0; i < dtype_names.size(); ++i)
        if (dtype_names[i] == text) return static_cast<DType>(i);
    fail("unknown dtype '", text, "', expected f64, f32, f16 or bf16");
}

int64_t checked_mul(int64_t a, int64_t b, std::string_view what) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) fail(what, ": ", a, " * ", b, " overflows 64 bits");
    return product;
}

int64_t checked_add(int64_t a, int64_t b, std::string_view what) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) fail(what, ": ", a, " + ", b, " overflows 64 bits");
    return sum;
}

int64_t numel(const Sizes& shape) {
    // An axis of extent 0 makes the tensor empty however large the others are.
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    int64_t count = 1;
    for (int64_t extent : shape) count = checked_mul(count, extent, "number of elements");
    return count;
}

Sizes contiguous_strides(const Sizes& shape) {
    Sizes strides(shape.size());
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
        strides[axis] = stride;
        stride = checked_mul(stride, std::max<int64_t>(shape[axis], 1), "stride");
    }
    return strides;
}

Sizes broadcast(const Sizes& a, const Sizes& b, std::string_view op) {
    const Sizes& longer = a.size() >= b.size() ? a : b;
    const Sizes& shorter = a.size() >= b.size() ? b : a;
    Sizes result = longer;
    size_t lead = longer.size() - shorter.size();
    for (size_t axis = 0; axis < shorter.size(); ++axis) {
        int64_t& extent = result[lead + axis];
        if (extent == shorter[axis] || shorter[axis] == 1) continue;
        if (extent != 1)
            fail(op, ": shapes ", to_string(a), " and ", to_string(b), " do not broadcast: axis ", lead + axis,
                 " has extents ", extent, " and ", shorter[axis]);
        extent = shorter[axis];
    }
    return result;
}

std::string to_string(const Sizes& sizes) {
    std::string text = "[";
    for (size_t i = 0; i < sizes.size(); ++i) {
        if (i) text += ',';
        text += std::to_string(sizes[i]);
    }
    return text += ']';
}

std::string to_string(const Type& type) { return std::string(name(type.dtype)) + to_string(type.shape); }

}  // namespace transfuse
