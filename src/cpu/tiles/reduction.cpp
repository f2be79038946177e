#include "cpu/tiles/reduction.h"

#include <cmath>
#include <limits>

#include "algebra/lattice/integer.h"
#include "cpu/threads/thread_pool.h"
#include "transfuse/error.h"

namespace transfuse::cpu {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

Tiling Tiling::of(const Five& grid, const std::array<int64_t, 3>& tile) {
    Tiling tiling{grid, tile, {}};
    for (size_t a = 0; a < 3; ++a) tiling.count[a] = ceil_div(grid[a + 2], tile[a]);
    return tiling;
}

Box Tiling::box(int64_t index) const {
    std::array<int64_t, 3> origin, extent;
    for (size_t a = 3; a-- > 0;) {
        origin[a] = index % count[a] * tile[a];
        extent[a] = std::min(tile[a], grid[a + 2] - origin[a]);
        index /= count[a];
    }
    return Box::of(index, origin, extent);
}

GridReduction::GridReduction(const Node& node, const Type& x, const Tiling& tiling) : op_(node.op), tiling_(tiling) {
    if (op_ == Op::var) correction_ = static_cast<double>(node.attributes.integer(Key::correction));
    finite_ = op_ == Op::logsumexp && node.attributes.flag(Key::finite);
    width_ = op_ == Op::var ? 3 : op_ == Op::logsumexp ? 2 : 1;
    const size_t rank = x.shape.size(), shift = 5 - rank;
    const Sizes& dims = node.attributes.integers(Key::dims);
    const bool keepdim = node.attributes.flag(Key::keepdim);
    result_axis_.fill(-1);
    int64_t next = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
        const size_t five = axis < 2 ? axis : axis + shift;
        const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis)) != dims.end();
        reduced_[five] = reduced || (axis >= 2 && x.shape[axis] == 1);  // one number a plane: nothing is left to keep
        if (reduced) count_ *= static_cast<double>(x.shape[axis]);
        if (!reduced) result_axis_[five] = next;
        next += !reduced || keepdim;
    }
    channels_ = reduced_[1] ? 1 : x.shape[1];
    for (size_t a = 0; a < 3; ++a) kept_[a] = reduced_[a + 2] ? 1 : tiling.tile[a];
    entries_ = channels_ * kept_[0] * kept_[1] * kept_[2];
}

void GridReduction::begin(double* slot, int64_t first, int64_t count) const {
    const bool one = reduced_[1] || channels_ == 1;
    const int64_t begin = one ? 0 : entry(first, 0, 0), end = one ? entries_ : entry(first + count, 0, 0);
    for (int64_t e = begin; e < end; ++e) {
        double* entry = slot + e * width_;
        for (int64_t i = 0; i < width_; ++i) entry[i] = 0;
        if (op_ == Op::amax || op_ == Op::logsumexp) entry[0] = -infinity;
        if (op_ == Op::amin) entry[0] = infinity;
    }
}

void GridReduction::merge(double* into, const double* from) const {
    switch (op_) {
        case Op::amax:
            if (from[0] > into[0] || std::isnan(from[0])) into[0] = from[0];
            break;
        case Op::amin:
            if (from[0] < into[0] || std::isnan(from[0])) into[0] = from[0];
            break;
        case Op::logsumexp: {  // (top, Σ exp(x − top))
            if (from[0] == -infinity) break;
            if (std::isnan(from[0]) || from[0] > into[0]) {
                into[1] = from[1] + (into[0] == -infinity ? 0 : into[1] * std::exp(into[0] - from[0]));
                into[0] = from[0];
            } else {
                into[1] += from[0] == into[0] ? from[1] : from[1] * std::exp(from[0] - into[0]);
            }
            break;
        }
        case Op::var: {  // (count, mean, Σ (x − mean)²)
            if (from[0] == 0) break;
            const double count = into[0] + from[0], step = from[1] - into[1];
            into[2] += from[2] + step * step * into[0] * from[0] / count;
            into[1] += step * from[0] / count;
            into[0] = count;
            break;
        }
        default:
            into[0] += from[0];
    }
}

double GridReduction::finish(const double* entry) const {
    switch (op_) {
        case Op::mean:
            return entry[0] / count_;
        case Op::logsumexp:
            if (finite_ && entry[0] == infinity) return std::nan("");
            return std::isinf(entry[0]) ? entry[0] : entry[0] + std::log(entry[1]);
        case Op::var:
            return entry[2] / std::max(0.0, count_ - correction_);
        default:
            return entry[0];
    }
}

int64_t GridReduction::entry(int64_t c, int64_t r0, int64_t r1) const {
    int64_t index = reduced_[1] ? 0 : c;
    index = index * kept_[0] + (reduced_[2] ? 0 : r0);
    index = index * kept_[1] + (reduced_[3] ? 0 : r1);
    return index * kept_[2];
}

template <class T>
void GridReduction::add(double* slot, const Box& box, int64_t c, const T* plane) const {
    const Kernels<T>& k = kernels<T>();
    const int64_t n = box.width();
    for (int64_t r0 = 0; r0 < box.extent[0]; ++r0)
        for (int64_t r1 = 0; r1 < box.extent[1]; ++r1) {
            const T* row = plane + (r0 * box.extent[1] + r1) * box.pitch;
            double* into = slot + entry(c, r0, r1) * width_;
            if (!reduced_[4]) {
                if (width_ == 1 && op_ != Op::amax && op_ != Op::amin) {
                    k.add_to(into, row, n);
                    continue;
                }
                for (int64_t i = 0; i < n; ++i) {
                    const double one[3] = {op_ == Op::var ? 1 : static_cast<double>(row[i]),
                                           op_ == Op::var ? static_cast<double>(row[i]) : 1, 0};
                    merge(into + i * width_, one);
                }
                continue;
            }
            double part[3] = {0, 0, 0};
            switch (op_) {
                case Op::amax:
                    part[0] = k.max(row, n);
                    break;
                case Op::amin:
                    part[0] = k.min(row, n);
                    break;
                case Op::logsumexp: {
                    const T top = k.max(row, n);
                    part[0] = top;
                    part[1] = std::isinf(part[0]) ? static_cast<double>(part[0] > 0) : k.sum_exp(row, top, n);
                    break;
                }
                case Op::var:
                    part[0] = static_cast<double>(n);
                    part[1] = static_cast<T>(k.sum(row, n) / part[0]);
                    part[2] = k.sum_square(row, part[1], n);
                    // The centre is a rounded mean: move to the exact one.
                    {
                        const double exact = k.sum(row, n) / part[0], step = exact - part[1];
                        part[2] -= step * step * part[0];
                        part[1] = exact;
                    }
                    break;
                default:
                    part[0] = k.sum(row, n);
            }
            merge(into, part);
        }
}

template void GridReduction::add(double*, const Box&, int64_t, const float*) const;
template void GridReduction::add(double*, const Box&, int64_t, const double*) const;

void GridReduction::combine(const double* slots, const TensorView& out, int threads) const {
    // Tiles that differ only along reduced axes contribute to the same entries.
    const Five tiles{tiling_.grid[0], 1, tiling_.count[0], tiling_.count[1], tiling_.count[2]};
    Sizes kept(4), folded(4);
    const std::array<size_t, 4> axes{0, 2, 3, 4};
    for (size_t i = 0; i < 4; ++i) {
        kept[i] = reduced_[axes[i]] ? 1 : tiles[axes[i]];
        folded[i] = reduced_[axes[i]] ? tiles[axes[i]] : 1;
    }
    const int64_t groups = numel(kept), members = numel(folded);
    const auto stride = [&](size_t five) {
        return result_axis_[five] < 0 ? 0 : out.strides[static_cast<size_t>(result_axis_[five])];
    };
    // Few groups with many entries: share the channels out as well.
    const int64_t parts = reduced_[1] ? 1 : std::min<int64_t>(channels_, 8);
    parallel_for(entries_ * members * groups < 16384 ? 1 : threads, groups * parts, [&](int64_t job) {
        const int64_t g = job / parts, part = job % parts;
        const Odometer where(kept, g);
        const int64_t per_channel = kept_[0] * kept_[1] * kept_[2] * width_;
        const int64_t c0 = channels_ * part / parts, c1 = channels_ * (part + 1) / parts;
        std::vector<double> total(static_cast<size_t>((c1 - c0) * per_channel));
        Box box;
        for (int64_t m = 0; m < members; ++m) {
            const Odometer member(folded, m);
            int64_t tile = 0;
            for (size_t i = 0; i < 4; ++i) tile = tile * tiles[axes[i]] + (reduced_[axes[i]] ? member[i] : where[i]);
            if (m == 0) box = tiling_.box(tile);
            const double* slot = slots + tile * slot_doubles() + c0 * per_channel;
            if (m == 0)
                std::copy_n(slot, total.size(), total.begin());
            else
                for (size_t e = 0; e < total.size(); e += static_cast<size_t>(width_)) merge(&total[e], slot + e);
        }
        const int64_t base = (reduced_[0] ? 0 : box.n) * stride(0);
        for (int64_t c = c0; c < c1; ++c)
            for (int64_t i = 0; i < (reduced_[2] ? 1 : box.extent[0]); ++i)
                for (int64_t j = 0; j < (reduced_[3] ? 1 : box.extent[1]); ++j)
                    for (int64_t l = 0; l < (reduced_[4] ? 1 : box.extent[2]); ++l) {
                        const int64_t e = (((c - c0) * kept_[0] + i) * kept_[1] + j) * kept_[2] + l;
                        const int64_t offset = base + c * stride(1) +
                                               (reduced_[2] ? 0 : box.origin[0] + i) * stride(2) +
                                               (reduced_[3] ? 0 : box.origin[1] + j) * stride(3) +
                                               (reduced_[4] ? 0 : box.origin[2] + l) * stride(4);
                        set(out, offset, finish(&total[static_cast<size_t>(e * width_)]));
                    }
    });
}

}  // namespace transfuse::cpu
