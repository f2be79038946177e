#include "reference/element.h"

#include <bit>
#include <cmath>
#include <limits>

#include "reference/tensor.h"

namespace transfuse::reference {

namespace {

// A binary format: `precision` significant bits, the least of which is never below 2^lowest; `largest` finite value.
struct Format {
    int precision, lowest;
    double largest;
};
constexpr Format f16{11, -24, 65504};
constexpr Format bf16{8, -133, 0x1.fep127};

double rounded(double value, const Format& format) {
    if (!std::isfinite(value) || value == 0) return value;
    int exponent;
    std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
    const int unit = std::max(exponent - format.precision, format.lowest);
    const double nearest = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
    return std::fabs(nearest) > format.largest ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                               : nearest;
}

}  // namespace

double rounded(double value, DType dtype) {
    switch (dtype) {
        case DType::f64:
            return value;
        case DType::f32:
            return static_cast<float>(value);
        case DType::f16:
            return rounded(value, f16);
        case DType::bf16:
            return rounded(value, bf16);
    }
    return value;
}

uint16_t f16_bits(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return 0x7e00;
    if (std::isinf(value)) return sign | 0x7c00;
    if (value == 0) return sign;
    int exponent;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    if (exponent < -13)                                               // subnormal: a multiple of 2^-24
        return sign | static_cast<uint16_t>(std::ldexp(std::fabs(value), 24));
    const auto mantissa = static_cast<uint16_t>(std::ldexp(fraction, 11));  // 11 bits, the first of them implied
    return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | (mantissa & 0x3ff));
}

double from_f16(uint16_t bits) {
    const double sign = bits & 0x8000 ? -1 : 1;
    const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    if (exponent == 31)
        return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(mantissa | 0x400, exponent - 25);
}

// bf16 is the upper half of an f32.
uint16_t bf16_bits(double value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
}
double from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

std::vector<double> load(const TensorView& view) {
    std::vector<double> values;
    values.reserve(static_cast<size_t>(numel(view.shape)));
    for_each_index(view.shape, [&](const Sizes& index) {
        const auto offset = static_cast<std::ptrdiff_t>(at(index, view.strides));
        switch (view.dtype) {
            case DType::f64:
                values.push_back(static_cast<const double*>(view.data)[offset]);
                break;
            case DType::f32:
                values.push_back(static_cast<const float*>(view.data)[offset]);
                break;
            case DType::f16:
                values.push_back(from_f16(static_cast<const uint16_t*>(view.data)[offset]));
                break;
            case DType::bf16:
                values.push_back(from_bf16(static_cast<const uint16_t*>(view.data)[offset]));
                break;
        }
    });
    return values;
}

void store(const TensorView& view, const std::vector<double>& values) {
    size_t next = 0;
    for_each_index(view.shape, [&](const Sizes& index) {
        const auto offset = static_cast<std::ptrdiff_t>(at(index, view.strides));
        const double value = rounded(values[next++], view.dtype);
        switch (view.dtype) {
            case DType::f64:
                static_cast<double*>(view.data)[offset] = value;
                break;
            case DType::f32:
                static_cast<float*>(view.data)[offset] = static_cast<float>(value);
                break;
            case DType::f16:
                static_cast<uint16_t*>(view.data)[offset] = f16_bits(value);
                break;
            case DType::bf16:
                static_cast<uint16_t*>(view.data)[offset] = bf16_bits(value);
                break;
        }
    });
}

}  // namespace transfuse::reference
