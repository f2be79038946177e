// The words rules are written in: terms built with the obvious simplifications made at once, and questions about terms.
#pragma once

#include <optional>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

// --- building -------------------------------------------------------------------------------------------------------
ValueId unary(Rewriter& r, Op op, ValueId x, Attributes attributes = {});
ValueId binary(Rewriter& r, Op op, ValueId a, ValueId b);
ValueId plus(Rewriter& r, ValueId a, ValueId b);
ValueId minus(Rewriter& r, ValueId a, ValueId b);
ValueId times(Rewriter& r, ValueId a, ValueId b);
ValueId scaled(Rewriter& r, ValueId a, double b);
ValueId times(Rewriter& r, ValueId a, double b) = delete;  // a number is not a value: scaled()
ValueId negate(Rewriter& r, ValueId x);
ValueId cast(Rewriter& r, ValueId x, DType dtype);
ValueId full(Rewriter& r, DType dtype, Sizes shape, double value);
ValueId reshape(Rewriter& r, ValueId x, Sizes shape);
ValueId permute(Rewriter& r, ValueId x, Sizes order);
bool moves_no_element(const Sizes& shape, const Sizes& order);  // but axes of extent 1 alone
ValueId expand(Rewriter& r, ValueId x, Sizes shape);
ValueId reduce(Rewriter& r, Op op, ValueId x, Sizes dims);  // keeps the dims
// w' = matrix·w along `axis`; matrix is rows × extent, row-major. Uniform weights stay uniform where every row has one
// sum.
ValueId taps(Rewriter& r, ValueId w, int64_t axis, int64_t rows, std::vector<double> matrix);
// Of so many rows and columns.
bool is_identity(const std::vector<double>& matrix, int64_t rows, int64_t columns);
ValueId lattice(Rewriter& r, ValueId x, ValueId w, ValueId bias_or_minus_one, const Lattices& axes);

// --- looking --------------------------------------------------------------------------------------------------------
const std::vector<Op>& elementwise_ops();  // those that work element by element, cast and detach among them
Lattices axes_of(const Rewriter& r, ValueId lattice);
ValueId bias_of(const Rewriter& r, ValueId lattice);          // −1: none
std::optional<double> number(const Rewriter& r, ValueId id);  // a scalar, or a tensor filled with one number
bool is_sixteen_bit(DType dtype);
DType wide(DType dtype);          // f32 for the 16-bit types
bool power_of_two(double value);  // its product with anything is exact, within the exponent's range
double product(const Sizes& sizes);

// The extent of `operand` on axis `axis` of a value of rank `rank` it broadcasts to (1 where it has no such axis).
int64_t extent_on(const Rewriter& r, ValueId operand, int64_t rank, int64_t axis);
// True if the operand, broadcast to `rank` axes, is the same along every axis in dims.
bool constant_along(const Rewriter& r, ValueId operand, int64_t rank, const Sizes& dims);
// An operand that broadcasts to [N, C, …] with one value a channel, as a vector [C] (or a single number as it is).
// −1 where it varies along another axis.
ValueId channel_vector(Rewriter& r, ValueId operand, const Sizes& value_shape);
bool is_per_channel(const Rewriter& r, ValueId operand, const Sizes& value_shape);

// A depthwise lattice whose weight is the same for all channels and separable, w[k…] = Π_axis kernel[axis][k]: average
// pools, upsamplings and what becomes of them.
struct Separable {
    std::vector<std::vector<double>> kernel;
    bool literal = false;  // the weight is one number, written in the graph
};
std::optional<Separable> separable(const Rewriter& r, ValueId lattice);
// Σ of the taps that one output meets, if all outputs meet the same sum inside; the factor by which a constant passes.
std::optional<double> gain(const Lattices& axes, const Separable& weight);
// x resampled, all channels alike, by a kernel an axis.
ValueId resampled(Rewriter& r, ValueId x, const std::vector<std::vector<double>>& kernel, const Lattices& axes);

// Kernels so long that tables of their taps would be a burden: the rules that make such tables leave them alone.
bool has_long_taps(const Lattices& axes);

// Sizes with `extent` put at `axis`.
Sizes with_extent(Sizes shape, int64_t axis, int64_t extent);
Sizes spatial_axes(int64_t rank);  // 2 … rank−1

}  // namespace transfuse
