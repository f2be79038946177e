#include "cuda/dense/combine.h"

#include <array>
#include <memory>

#include "cuda/expression.h"
#include "cuda/pull.h"

namespace transfuse::cuda {

namespace {

struct Kept {
    long long count[3], at[3];
};  // outputs: extents, fastest last, and steps
struct Reduced {
    long long count[3], at[3];
};  // what is joined: fastest first

// 32 neighbouring outputs a block, 32 threads each, which go over the parts twice: for the mean, then for the squares
// about it. No division waits for another. In double, as all that tails compute with: they subtract what is nearly
// equal.
std::string variance_source(const std::string& entry, Real real) {
    return std::string(device_math()) + sequence_code() + "typedef " + std::string(real_name(real)) + " REAL;" + R"cuda(
struct Kept { long long count_1, count_2, count_3, at_1, at_2, at_3; };
struct Reduced { long long count_1, count_2, count_3, at_1, at_2, at_3; };
// The sum over an output's 32 threads, to all of them.
static __device__ double summed(double part_sum, int lane, int part) {
    __shared__ double parts[32][33], sums[32];
    parts[part][lane] = part_sum;
    __syncthreads();
    double sum = parts[lane][part];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) sums[part] = sum;
    __syncthreads();
    return sums[lane];
}
extern "C" __global__ void __launch_bounds__(1024, 1) )cuda" +
           entry + R"cuda((const REAL* in, double* out, Kept o, Reduced r, long long apart, double correction) {
    TF_SEQUENCE();
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
    const long long total = o.count_1 * o.count_2 * o.count_3, at = blockIdx.x * 32ll + lane;
    const REAL* from = in + at / (o.count_2 * o.count_3) * o.at_1 + at / o.count_3 % o.count_2 * o.at_2 + at % o.count_3 * o.at_3;
    auto each = [&](auto take) {
        if (at >= total) return;
        for (long long k3 = 0; k3 < r.count_3; k3++)
            for (long long k2 = 0; k2 < r.count_2; k2++) {
                const REAL* p = from + k3 * r.at_3 + k2 * r.at_2 + part * r.at_1;
#pragma unroll 4
                for (long long k1 = part; k1 < r.count_1; k1 += 32, p += 32 * r.at_1) take((double)p[0], (double)p[apart], p + 2 * apart);
            }
    };
    double count = 0, sum = 0, squares = 0;
    each([&](double n, double mean, const REAL*) { count += n, sum += n * mean; });
    count = summed(count, lane, part);
    const double mean = summed(sum, lane, part) / count;
    each([&](double n, double its_mean, const REAL* its_squares) { squares += *its_squares + n * (its_mean - mean) * (its_mean - mean); });
    squares = summed(squares, lane, part);
    if (part == 0 && at < total) out[at] = squares / (count - correction);
}
)cuda";
}

// Extents of the value a reduction is of: n, c, d, h, w.
std::array<int64_t, 5> extents_of(const Epilogue& epilogue, ValueId value) {
    std::array<int64_t, 5> extents;
    extents.fill(1);
    const Sizes& shape = epilogue.graph()[value].type.shape;
    for (size_t k = 0; k < shape.size(); ++k)
        extents[k < 2 ? k : k + 3 - static_cast<size_t>(epilogue.program().spatial)] = shape[k];
    return extents;
}

int64_t statistic_at(const Epilogue& epilogue, const Partial& p, int64_t partial_at, const PartialRows& rows) {
    return partial_at + static_cast<int64_t>(p.first_stat) * rows.rows * epilogue.channels() * epilogue.real_bytes();
}

}  // namespace

Place kept_place(const Epilogue& epilogue, ValueId value, int64_t at) {
    Place place;
    place.base = Argument::of_scratch(at);
    place.storage = epilogue.real() == Real::f64 ? DType::f64 : DType::f32;
    place.strides = contiguous_strides(epilogue.graph()[value].type.shape);
    place.aligned = at % 16 == 0;
    place.read_only = false;
    return place;
}

Place partial_place(const Epilogue& epilogue, const Partial& p, int64_t partial_at, const PartialRows& rows) {
    const GridReduction& r = p.reduction;
    const std::array<int64_t, 5> extents = extents_of(epilogue, r.of);
    const int64_t channels = epilogue.channels(), per_image = rows.rows / rows.images;
    const bool images = !r.reduced[0] && rows.images > 1, channels_joined = r.reduced[1] && extents[1] > 1;
    Place place = kept_place(epilogue, r.value, statistic_at(epilogue, p, partial_at, rows));
    place.partials = Partials{images ? per_image : rows.rows, channels, rows.rows * channels};
    if (channels_joined)
        place.partials->slots *= channels, place.partials->slot_stride = 1;  // rows of channels, one after another
    const Node& node = epilogue.graph()[r.value];
    const bool keepdim = node.attributes.flag(Key::keepdim);
    place.strides.clear();
    for (size_t k = 0; k < epilogue.graph()[r.of].type.shape.size(); ++k) {
        const size_t axis = k < 2 ? k : k + 3 - static_cast<size_t>(epilogue.program().spatial);
        if (r.reduced[axis] && !keepdim) continue;
        const int64_t step = axis == 0 ? per_image * channels : 1;  // beyond the channels nothing is left
        place.strides.push_back(r.reduced[axis] || extents[axis] == 1 ? 0 : step);
    }
    return place;
}

Launch combine_variance(const Epilogue& epilogue, const Partial& p, int64_t partial_at, int64_t to,
                        const PartialRows& rows) {
    Kept o{{1, 1, 1}, {0, 0, 0}};
    Reduced r{{1, 1, 1}, {0, 0, 0}};
    const int64_t channels = epilogue.channels(), per = rows.rows / rows.images;
    const bool per_channel = extents_of(epilogue, p.reduction.of)[1] > 1;
    if (p.reduction.reduced[0] || rows.images == 1)
        r.count[1] = rows.images, r.at[1] = per * channels;
    else
        o.count[1] = rows.images, o.at[1] = per * channels;
    if (per_channel && !p.reduction.reduced[1])
        o.count[2] = channels, o.at[2] = 1;
    else if (per_channel)
        r.count[2] = channels, r.at[2] = 1;
    r.count[0] = per, r.at[0] = channels;
    const double correction = epilogue.graph()[p.reduction.value].attributes.number(Key::correction);
    const long long apart = rows.rows * channels;
    Launch launch;
    launch.source = std::make_shared<Source>(
        Source{"transfuse_variance", variance_source("transfuse_variance", epilogue.real()), {}});
    launch.grid = {static_cast<uint32_t>((o.count[0] * o.count[1] * o.count[2] + 31) / 32), 1, 1};
    launch.block = {1024, 1, 1};
    launch.early = true;
    launch.arguments = {Argument::of_scratch(statistic_at(epilogue, p, partial_at, rows)),
                        Argument::of_scratch(to),
                        Argument::of(o),
                        Argument::of(r),
                        Argument::of(apart),
                        Argument::of(correction)};
    launch.note = "join the parts of a variance";
    return launch;
}

}  // namespace transfuse::cuda
