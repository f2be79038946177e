// The lattice of one axis: its constructors from framework ops, transposition and phases.
#include "transfuse/lattice.h"

#include "algebra/lattice/integer.h"
#include "transfuse/error.h"
#include "transfuse/tensor.h"

namespace transfuse {

namespace {

void check_positive(const char* op, const char* what, int64_t value) {
    require(value >= 1, op, ": ", what, " must be positive, got ", value);
}

void check_not_negative(const char* op, const char* what, int64_t value) {
    require(value >= 0, op, ": ", what, " must not be negative, got ", value);
}

// dilation·(kernel − 1) + 1: the input span of one window.
int64_t span(const char* op, int64_t kernel, int64_t dilation) {
    return checked_add(checked_mul(dilation, kernel - 1, op), 1, op);
}

}  // namespace

Lattice Lattice::conv_transpose(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t output_padding,
                                int64_t dilation) {
    const char* op = "conv_transpose";
    check_not_negative(op, "input size", in);
    check_positive(op, "kernel size", kernel);
    check_positive(op, "stride", stride);
    check_positive(op, "dilation", dilation);
    check_not_negative(op, "padding", padding);
    check_not_negative(op, "output_padding", output_padding);
    require(output_padding < stride || output_padding < dilation, op,
            ": output_padding must be smaller than either stride (", stride, ") or dilation (", dilation, "), got ",
            output_padding);
    // O = (I − 1)·s − 2p + d·(K − 1) + output_padding + 1
    int64_t out = checked_mul(in - 1, stride, op);
    out = checked_add(out, -checked_mul(2, padding, op), op);
    out = checked_add(out, span(op, kernel, dilation), op);
    out = checked_add(out, output_padding, op);
    require(out >= 0, op, ": the output would have size ", out, " for input size ", in, ", kernel ", kernel,
            ", stride ", stride, ", padding ", padding, ", dilation ", dilation);
    return {.up = stride, .down = 1, .dil = dilation, .offset = padding, .in = in, .out = out, .taps = kernel};
}

Lattice Lattice::conv(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    const char* op = "conv";
    check_not_negative(op, "input size", in);
    check_positive(op, "kernel size", kernel);
    check_positive(op, "stride", stride);
    check_positive(op, "dilation", dilation);
    check_not_negative(op, "padding", padding);
    const int64_t window = span(op, kernel, dilation);
    const int64_t padded = checked_add(in, checked_mul(2, padding, op), op);
    require(padded >= window, op, ": the kernel spans ", window, " but the padded input has size ", padded);
    return {.up = 1,
            .down = stride,
            .dil = dilation,
            .offset = window - 1 - padding,
            .in = in,
            .out = (padded - window) / stride + 1,
            .taps = kernel};
}

Lattice Lattice::avg_pool(int64_t in, int64_t kernel, int64_t stride, int64_t padding) {
    const char* op = "avg_pool";
    check_not_negative(op, "input size", in);
    check_positive(op, "kernel size", kernel);
    check_positive(op, "stride", stride);
    check_not_negative(op, "padding", padding);
    const int64_t padded = checked_add(in, checked_mul(2, padding, op), op);
    require(padded >= kernel, op, ": the kernel has size ", kernel, " but the padded input has size ", padded);
    return {.up = 1,
            .down = stride,
            .dil = 1,
            .offset = kernel - 1 - padding,
            .in = in,
            .out = (padded - kernel) / stride + 1,
            .taps = kernel};
}

Lattice Lattice::upsample(int64_t in, int64_t scale) {
    check_not_negative("upsample", "input size", in);
    check_positive("upsample", "scale", scale);
    return {.up = scale,
            .down = 1,
            .dil = 1,
            .offset = 0,
            .in = in,
            .out = checked_mul(in, scale, "upsample"),
            .taps = scale};
}

std::optional<int64_t> Lattice::input(int64_t o, int64_t k) const {
    const int64_t position = down * o + offset - dil * k;  // = up·i
    if (position < 0 || position % up != 0) return std::nullopt;
    const int64_t i = position / up;
    if (i >= in) return std::nullopt;
    return i;
}

// up·i + (dil·(taps − 1) − offset) = down·o + dil·(taps − 1 − k)
Lattice Lattice::transposed() const {
    return {
        .up = down, .down = up, .dil = dil, .offset = dil * (taps - 1) - offset, .in = out, .out = in, .taps = taps};
}

int64_t Lattice::period() const { return up / std::gcd(up, down); }

int64_t Lattice::advance() const { return down / std::gcd(up, down); }

std::vector<Phase> Lattice::phases() const {
    const int64_t p = period();
    std::vector<Phase> result(static_cast<size_t>(p));
    for (int64_t r = 0; r < p; ++r) {
        Phase& phase = result[static_cast<size_t>(r)];
        phase.residue = r;
        phase.count = out > r ? (out - 1 - r) / p + 1 : 0;
        phase.taps.reserve(static_cast<size_t>(taps / p + 1));
        for (int64_t k = 0; k < taps; ++k) {
            const int64_t position = down * r + offset - dil * k;
            if (floor_mod(position, up) == 0) phase.taps.push_back({.tap = k, .shift = floor_div(position, up)});
        }
    }
    return result;
}

std::string to_string(const Lattice& l) {
    std::string text = std::to_string(l.down) + "·o";
    if (l.offset != 0) text += (l.offset < 0 ? " - " : " + ") + std::to_string(l.offset < 0 ? -l.offset : l.offset);
    text += " = " + std::to_string(l.up) + "·i + " + std::to_string(l.dil) + "·k";
    text +=
        " (in " + std::to_string(l.in) + ", out " + std::to_string(l.out) + ", taps " + std::to_string(l.taps) + ")";
    return text;
}

}  // namespace transfuse
