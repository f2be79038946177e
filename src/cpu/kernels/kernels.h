// What an instruction-set level offers: a table of plain functions over plain structs. The rest of the engine is
// compiled once, for the baseline, and calls through the table.
#pragma once

#include <cstdint>

namespace transfuse::cpu {

// Rows that kernels write are padded: a row of n elements has room for n rounded up to this many.
inline constexpr int64_t row_padding = 16;
inline constexpr int64_t padded(int64_t n) { return (n + row_padding - 1) / row_padding * row_padding; }
// Kernels compute on the padding too. What stands there is of no consequence but for the time it takes: arithmetic on
// the denormal numbers that forgotten memory may hold is many times slower. So whoever fills a row clears what follows.
template <class T>
void clear_padding(T* row, int64_t n) {
    for (int64_t i = n; i < padded(n); ++i) row[i] = 0;
}

struct Spot {  // one vector of pixels: where it begins in the patch and in the result
    int32_t in, out;
};

template <class T>
struct Product {
    const T* panel;          // [terms][rows] packed weights; readable one term past the end
    const int32_t* offsets;  // [terms] bytes from a pixel to its (input channel, tap); readable two past the end
    int64_t terms;
    int64_t rows;  // panel_rows, 4, 2 or 1
    const T* patch;
    const Spot* spots;
    int64_t spots_count;
    T* out;
    int64_t pitch;    // from one row of `out` to the next
    const T* bias;    // [rows], added last; or null
    bool accumulate;  // add to what `out` holds
    // So many terms are added in registers, then to the result: the error grows with the square root of the number of
    // such sums instead of the number of terms.
    int64_t chain = 48;
    const T* next = nullptr;  // weights of the product that follows, and how many: they are fetched meanwhile
    int64_t next_count = 0;
};

// A row, column or plane that products read, of pair t: x[2t + a] + sign·x[2t + b], or x[2t + a] alone where sign is 0
// (row_pairs.h).
struct PairRow {
    int64_t a, b = 0;
    int sign = 0;
    bool operator==(const PairRow&) const = default;
};

// One channel of the input under a tile of one image as lines of pixels, one line for every tap that products tell
// apart (line_geometry.h): for t < extent,
//
//     line (l0, l1, l2)[t0][t1][t2] = x of l0 at step[0]·t0, of l1 at step[1]·t1, of l2 at its column and t2
//
// Whole vectors are written: up to one behind the last pixel.
template <class T>
struct Expand {
    const T* x;          // [plane][row][residue of the column modulo its step][column], zeros outside the image
    int64_t plane, row;  // from one to the next, in elements
    int64_t step[2], extent[3];
    const PairRow* lines[3];  // along columns: elements from a row's first to the line's
    int64_t count[3];         // of lines
    T* out;
    int64_t pitch;  // from line to line
    T* room;        // for a plane, and for extent[1] rows
};

// Panels of output channels times a few vectors of pixels, panel after panel: the pixels of all terms stay in the
// first-level cache meanwhile.
//
//     out[m][pixel] (+)= Σ_k weight[panel of m][k][m] · patch[pixel + offsets[k]]        m < panels·rows
template <class T>
struct LineProduct {
    const T* weight;         // [panel][term][row]; readable one term past the end
    const int32_t* offsets;  // bytes, as those of Product
    int64_t terms;
    int64_t panels, rows;  // rows of a panel: panel_rows, 4, 2 or 1
    const T* pixels;
    int64_t vectors;
    T* out;
    int64_t pitch;     // from one output channel to the next
    const T* bias;     // one a channel, or null
    bool accumulate;   // add to what `out` holds
    bool far = false;  // pixels lie in no cache yet: the next few vectors of them are fetched meanwhile
};

// Lines of results become a plane, cut where it ends:
//
//     out[period[0]·t0 + m0][…][period[2]·t2 + m2] = line (m0, m1, m2)[t0][t1][t2]
template <class T>
struct Spread {
    const T* lines;
    int64_t pitch;  // from line to line
    int64_t period[3], extent[3];
    T* out;
    int64_t row;  // from row to row of the plane
    int64_t size[3];
};

// Weights of `channels` input channels as products want them: row (channel, term) is Σ factor[s] · in[channel][tap[s]],
// s from first[term] to first[term + 1].
template <class T>
struct MixTaps {
    const T* in;  // [channel][tap][row]
    int64_t channels, taps, rows;
    int64_t terms;
    const int32_t* first;
    const int32_t* tap;
    const double* factor;
    T* out;
};

// Taps one above the other: each meets the row below that of the one before.
struct TapRun {
    int32_t offset;  // elements from a pixel to the first of them
    int32_t taps;    // 1 to most_run
};
inline constexpr int32_t most_run = 4;

// Rows of one output channel that depends on one input channel:
//
//     out[r][column] = bias + Σ_run Σ_n weight · x[(r + n)·row + column + offset]        n < taps of the run
//
// Whole vectors are read and written.
template <class T>
struct ChannelRows {
    const T* weights;  // one a tap, run after run
    const TapRun* runs;
    int64_t run_count;
    const T* x;
    int64_t row;  // from row to row of x
    T* out;
    int64_t pitch;  // from row to row of `out`
    int64_t rows, vectors;
    T bias;
};

// The same where channels lie side by side: lanes run along them, and x is read where it lies. One row of pixels:
//
//     out[u][c] = bias[c] + Σ_tap weights[tap][c] · x[row of tap][advance·u + column of tap][c]
//
// Taps outside the row of x are left out.
struct PixelTap {
    int64_t row;     // elements from x to the row it meets
    int32_t column;  // of the first pixel
    int32_t weight;
};
struct PixelRow {
    const float* x;
    int64_t pixel;  // from pixel to pixel of x
    int64_t advance, columns;
    const PixelTap* taps;
    int64_t count;
    const float* weights;
    int64_t weight_pitch;  // from tap to tap: whole vectors are read, here and of `bias`
    const float* bias;
    float* out;
    int64_t pixels, channels;
};

enum class RowOp : uint8_t {
    copy,
    neg,
    abs,
    sign,
    exp,
    log,
    sqrt,
    rsqrt,
    reciprocal,
    square,
    sin,
    cos,
    erf,
    tanh,
    sigmoid,
    relu,
    leaky_relu,
    elu,
    selu,
    gelu,
    gelu_tanh,
    silu,
    mish,
    softplus,
    hardsigmoid,
    hardswish,
    clamp,
    round_f16,
    round_bf16,
    add,
    sub,
    mul,
    div,
    pow,
    minimum,
    maximum,
    prelu,
    greater,
    greater_equal,
    equal,
    add_exp,  // a + exp(b − c)
    select,
};

template <class T>
struct RowArgs {
    T* out;          // padded
    const T* in[3];  // padded, or one element where uniform
    bool uniform[3];
    T parameter[2];  // slope, alpha, lo and hi, beta and threshold
    int64_t count;
};

inline constexpr int64_t sum_lanes = 32;

// dtypes as the enum of tensor.h numbers them.
enum class Storage : uint8_t { f64, f32, f16, bf16 };

template <class T>
struct Kernels {
    int64_t lanes;       // elements in a vector
    int64_t panel_rows;  // most rows of a product
    void (*product)(const Product<T>&);
    void (*row)(RowOp, const RowArgs<T>&);
    // Rows of n elements in memory ↔ rows of numbers.
    void (*load)(T* out, const void* in, Storage, int64_t stride, int64_t n);
    void (*store)(void* out, Storage, int64_t stride, const T* in, int64_t n);
    // `rows` rows at once: in memory `row_stride` elements apart, of numbers `pitch`; and of planes.
    void (*load_rows)(T* out, int64_t pitch, const void* in, Storage, int64_t row_stride, int64_t stride, int64_t rows,
                      int64_t n);
    void (*store_planes)(void* out, Storage, int64_t plane_stride, int64_t row_stride, int64_t stride, const T* in,
                         int64_t plane_pitch, int64_t pitch, int64_t planes, int64_t rows, int64_t n);
    // Loads, in whole vectors: behind the n numbers of a row stand zeros, until the next is written.
    void (*stage_planes)(T* out, int64_t plane_pitch, int64_t pitch, const void* in, Storage, int64_t plane_stride,
                         int64_t row_stride, int64_t stride, int64_t planes, int64_t rows, int64_t n);
    void (*line_product)(const LineProduct<T>&);
    void (*channel_rows)(const ChannelRows<T>&);
    void (*pixel_row)(const PixelRow&);  // of fp32
    void (*expand)(const Expand<T>&);
    void (*spread)(const Spread<T>&);
    void (*mix_taps)(const MixTaps<T>&);
    // `rows` rows whose elements lie side by side in memory (channels_last): transposes.
    void (*load_transposed)(T* out, int64_t pitch, int64_t rows, const void* in, Storage, int64_t stride, int64_t n);
    void (*store_transposed)(void* out, Storage, int64_t stride, const T* in, int64_t pitch, int64_t rows, int64_t n);
    // Phases side by side: out[period·u + r] = in[r·step + u] for u < n
    void (*interleave)(T* out, const T* in, int64_t step, int64_t period, int64_t n);
    // Pairs of rows (row_pairs.h) from their parts, null where a part is zero: even = bias + first + both + opposite,
    // odd = bias + both − opposite − second; either may be null. False where a result is infinite or NaN.
    bool (*merge_pair)(T* even, T* odd, const T* const (&parts)[4], T bias, int64_t n);
    // Reductions of a row; sums in fp64 across blocks of a row.
    double (*sum)(const T*, int64_t n);
    double (*sum_square)(const T*, double centre, int64_t n);  // Σ (x − centre)²
    double (*sum_exp)(const T*, T shift, int64_t n);           // Σ exp(x − shift)
    T (*max)(const T*, int64_t n);
    T (*min)(const T*, int64_t n);
    void (*add_to)(double* sums, const T*, int64_t n);      // sums[i] += x[i]
    double (*sum_memory)(const void*, Storage, int64_t n);  // Σ of contiguous elements, accumulated in fp64
    // Each element of `rows` rows of n, `pitch` apart, is added to one of the sum_lanes lanes, in fp64.
    void (*add_lanes)(double* lanes, const void*, Storage, int64_t n, int64_t rows, int64_t pitch);
    // sums[co] += Σ_k x[k] · w[k][co], rows of w `pitch` apart
    void (*combine)(double* sums, const T* x, const T* w, int64_t pitch, int64_t terms, int64_t outs);
    // out[i] = Σ over `window` neighbours i·window … of in (kind 0), their max (1) or min (2)
    void (*pool_row)(T* out, const T* in, int64_t window, int kind, int64_t n);
};

struct Level {
    const char* name;
    Kernels<float> f32;
    Kernels<double> f64;
    // Two words that tell what memory holds; another level finds others.
    void (*content)(uint64_t* words, const void*, int64_t bytes);
};

// The best level this machine can run; TRANSFUSE_CPU_LEVEL=<name> picks another that it can run.
const Level& level();
// Every level compiled in that this machine can run, best first.
struct LevelList {
    const Level* const* begin;
    int count;
};
LevelList available_levels();

template <class T>
const Kernels<T>& kernels_of(const Level& level);
template <>
inline const Kernels<float>& kernels_of<float>(const Level& level) {
    return level.f32;
}
template <>
inline const Kernels<double>& kernels_of<double>(const Level& level) {
    return level.f64;
}
template <class T>
const Kernels<T>& kernels() {
    return kernels_of<T>(level());
}

}  // namespace transfuse::cpu
