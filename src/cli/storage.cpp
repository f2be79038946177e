#include "cli/storage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace transfuse::cli {

namespace {

constexpr std::align_val_t alignment{256};

uint16_t bf16_bits(double value) {
    if (std::isnan(value)) return 0x7fc0;
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // to nearest, ties to even
}
double bf16_value(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

double f16_value(uint16_t bits) {
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                       : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                        : std::ldexp(1024 + mantissa, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}
uint16_t f16_bits(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::abs(value);
    if (std::isnan(value)) return 0x7e00;
    if (magnitude >= 65520.0) return sign | 0x7c00;
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int unit = std::max(exponent - 11, -24);  // the last place of the result
    const double steps = std::nearbyint(std::ldexp(magnitude, -unit));
    if (unit == -24) return sign | static_cast<uint16_t>(steps);  // subnormal, or carried into the first normal
    return sign | static_cast<uint16_t>(static_cast<int>(steps) - 1024 + ((unit + 25) << 10));
}

}  // namespace

double round_to(DType dtype, double value) {
    switch (dtype) {
        case DType::f64:
            return value;
        case DType::f32:
            return static_cast<float>(value);
        case DType::f16:
            return f16_value(f16_bits(value));
        case DType::bf16:
            return bf16_value(bf16_bits(value));
    }
    return value;
}

AlignedBytes::AlignedBytes(size_t size)
    : bytes_(static_cast<std::byte*>(::operator new[](size ? size : 1, alignment))) {}
void AlignedBytes::Free::operator()(std::byte* bytes) const { ::operator delete[](bytes, alignment); }

Storage::Storage(const Type& type) : Storage(type, std::vector<double>(static_cast<size_t>(numel(type.shape)), NAN)) {}

Storage::Storage(const Type& type, const std::vector<double>& values)
    : type_(type), count_(values.size()), bytes_(count_ * static_cast<size_t>(bytes(type.dtype))) {
    for (size_t i = 0; i < count_; ++i) {
        std::byte* at = static_cast<std::byte*>(bytes_.data()) + i * static_cast<size_t>(bytes(type_.dtype));
        auto put = [&](auto element) { std::memcpy(at, &element, sizeof element); };
        switch (type_.dtype) {
            case DType::f64:
                put(values[i]);
                break;
            case DType::f32:
                put(static_cast<float>(values[i]));
                break;
            case DType::f16:
                put(f16_bits(values[i]));
                break;
            case DType::bf16:
                put(bf16_bits(values[i]));
                break;
        }
    }
}

TensorView Storage::view() { return {bytes_.data(), type_.dtype, type_.shape, contiguous_strides(type_.shape)}; }

std::vector<double> Storage::values() const {
    std::vector<double> values(count_);
    for (size_t i = 0; i < count_; ++i) {
        const std::byte* at =
            static_cast<const std::byte*>(bytes_.data()) + i * static_cast<size_t>(bytes(type_.dtype));
        auto get = [&](auto element) {
            std::memcpy(&element, at, sizeof element);
            return element;
        };
        switch (type_.dtype) {
            case DType::f64:
                values[i] = get(0.0);
                break;
            case DType::f32:
                values[i] = get(0.0f);
                break;
            case DType::f16:
                values[i] = f16_value(get(uint16_t{}));
                break;
            case DType::bf16:
                values[i] = bf16_value(get(uint16_t{}));
                break;
        }
    }
    return values;
}

}  // namespace transfuse::cli
