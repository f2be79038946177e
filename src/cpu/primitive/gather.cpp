#include "cpu/primitive/gather.h"

#include <algorithm>
#include <limits>

#include "cpu/kernels/kernels.h"
#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"

namespace transfuse::cpu {
namespace {

constexpr int64_t side_by_side = 16;  // channels that a transposing load takes
constexpr int64_t grain = 1 << 14;    // elements of a task

// The last axes of a view, from one on, as few long rows.
class Plane {
public:
    Plane(const TensorView& view, size_t from) : row_stride_(view.strides.back()) {
        size_t last = view.shape.size() - 1;
        for (row_ = view.shape[last]; last-- > from; row_ *= view.shape[last])
            if (view.strides[last] != row_ * row_stride_) break;
        for (size_t a = from; a <= last && last < view.shape.size(); ++a)
            shape_.push_back(view.shape[a]), strides_.push_back(view.strides[a]);
        size_ = numel(shape_) * row_;
    }
    int64_t size() const { return size_; }
    // row(offset in memory, offset in the plane, elements, their stride)
    template <class F>
    void rows(const F& row) const {
        int64_t done = 0;
        for (Odometer at(shape_, 0); done < size_; at.next(), done += row_)
            row(at.offset(strides_), done, row_, row_stride_);
    }

private:
    Sizes shape_, strides_;
    int64_t row_, row_stride_, size_;
};

template <class T>
class Gathering {
public:
    Gathering(const Gather& how, const TensorView& in, const TensorView& out)
        : how_(how), in_(in), out_(out), lead_(how.axes[0].axis), from_(in, lead_), to_(out, lead_) {
        const auto channels_inside = [&](const TensorView& v) { return v.strides[1] == 1 && v.strides.back() != 1; };
        if (lead_ > 1 && channels_inside(in) && channels_inside(out)) together_ = side_by_side;
        tasks_.assign(out.shape.begin(), out.shape.begin() + static_cast<std::ptrdiff_t>(lead_));
        if (together_ > 1) tasks_[1] = (tasks_[1] + together_ - 1) / together_;
        most_ = from_.size();
        Sizes plane(in.shape.begin() + static_cast<std::ptrdiff_t>(lead_), in.shape.end());
        for (const Gather::Axis& axis : how.axes) {
            plane[axis.axis - lead_] = static_cast<int64_t>(axis.from.size());
            most_ = std::max(most_, numel(plane));
        }
        before_.assign(how.before.begin(), how.before.end());
        after_.assign(how.after.begin(), how.after.end());
        before_.resize(before_.size() + row_padding, T(1));
        after_.resize(after_.size() + row_padding, T(1));
    }

    void run(int threads) const {
        const int64_t count = numel(tasks_), block = std::max<int64_t>(1, grain / (most_ * together_));
        parallel_for(threads, (count + block - 1) / block, [&](int64_t b) {
            Scratch scratch;
            const int64_t pitch = padded(most_) + row_padding;
            const auto zeros = [&](int64_t n) {  // whole vectors are computed, and so what stands behind a plane
                T* const numbers = scratch.acquire<T>(n);
                std::fill_n(numbers, n, T(0));
                return numbers;
            };
            T *const staged = zeros(together_ * pitch), *const result = zeros(together_ * pitch);
            T* const spare = zeros(pitch);
            Odometer at(tasks_, b * block);
            for (int64_t t = b * block; t < std::min(count, (b + 1) * block); ++t, at.next())
                planes(at, staged, result, spare, pitch);
        });
    }

private:
    void planes(const Odometer& at, T* staged, T* result, T* spare, int64_t pitch) const {
        const Kernels<T>& k = kernels<T>();
        int64_t in = 0, out = 0, many = 1;
        for (size_t a = 0; a < lead_; ++a) {
            const int64_t i = a == 1 ? at[a] * together_ : at[a];
            in += i * in_.strides[a], out += i * out_.strides[a];
            if (a == 1) many = std::min(together_, out_.shape[1] - i);
        }
        const auto in_storage = static_cast<Storage>(in_.dtype), out_storage = static_cast<Storage>(out_.dtype);
        from_.rows([&](int64_t offset, int64_t place, int64_t n, int64_t stride) {
            if (many == 1)
                k.load(staged + place, address(in_, in + offset), in_storage, stride, n);
            else
                k.load_transposed(staged + place, pitch, many, address(in_, in + offset), in_storage, stride, n);
        });
        for (int64_t i = 0; i < many; ++i) one(staged + i * pitch, result + i * pitch, spare);
        to_.rows([&](int64_t offset, int64_t place, int64_t n, int64_t stride) {
            if (many == 1)
                k.store(address(out_, out + offset), out_storage, stride, result + place, n);
            else
                k.store_transposed(address(out_, out + offset), out_storage, stride, result + place, pitch, many, n);
        });
    }

    // Of one plane. `in` and `spare` are overwritten.
    void one(T* in, T* out, T* spare) const {
        if (!how_.before.empty()) divide(in, before_, from_.size());
        Sizes plane(in_.shape.begin() + static_cast<std::ptrdiff_t>(lead_), in_.shape.end());
        for (const Gather::Axis& axis : how_.axes) {
            const size_t a = axis.axis - lead_;
            int64_t outer = 1, inner = 1;
            for (size_t b = 0; b < plane.size(); ++b) (b < a ? outer : inner) *= b == a ? 1 : plane[b];
            T* const to = axis.axis == how_.axes.back().axis ? out : spare;
            inner == 1 ? within_rows(axis, in, to, outer, plane[a]) : across_rows(axis, in, to, outer, plane[a], inner);
            plane[a] = static_cast<int64_t>(axis.from.size());
            std::swap(in, spare);
        }
        if (!how_.after.empty()) divide(out, after_, to_.size());
    }

    // Rows are written in order: what a kernel writes behind one is then the next one's.
    void across_rows(const Gather::Axis& axis, const T* in, T* out, int64_t outer, int64_t extent,
                     int64_t inner) const {
        constexpr RowOp op[] = {RowOp::add, RowOp::maximum, RowOp::minimum};
        for (int64_t i = 0; i < outer; ++i, in += extent * inner)
            for (const std::vector<int64_t>& from : axis.from) {
                if (from.empty()) std::fill_n(out, inner, nothing());
                if (from.size() == 1) std::copy_n(in + from[0] * inner, inner, out);
                for (size_t j = 1; j < from.size(); ++j)
                    kernels<T>().row(
                        op[static_cast<size_t>(how_.kind)],
                        {out, {j > 1 ? out : in + from[0] * inner, in + from[j] * inner, nullptr}, {}, {}, inner});
                out += inner;
            }
    }

    void within_rows(const Gather::Axis& axis, const T* in, T* out, int64_t outer, int64_t extent) const {
        const auto rows = [&](const auto& join) {
            for (int64_t i = 0; i < outer; ++i, in += extent)
                for (const std::vector<int64_t>& from : axis.from) {
                    T all = nothing();
                    for (const int64_t j : from) all = join(all, in[j]);
                    *out++ = all;
                }
        };
        // A NaN counts as the largest, and as the smallest.
        if (how_.kind == Gather::Kind::sum)
            rows([](T a, T b) { return a + b; });
        else if (how_.kind == Gather::Kind::max)
            rows([](T a, T b) { return b > a || b != b ? b : a; });
        else
            rows([](T a, T b) { return b < a || b != b ? b : a; });
    }

    static void divide(T* plane, const std::vector<T>& by, int64_t size) {
        kernels<T>().row(RowOp::div, {plane, {plane, by.data(), nullptr}, {}, {}, size});
    }
    T nothing() const {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        return how_.kind == Gather::Kind::sum ? T(0) : how_.kind == Gather::Kind::max ? -infinity : infinity;
    }

    const Gather& how_;
    const TensorView &in_, &out_;
    const size_t lead_;
    const Plane from_, to_;
    Sizes tasks_;           // over the axes before the plane
    int64_t together_ = 1;  // channels of a task
    int64_t most_;          // elements that a plane has on its way
    std::vector<T> before_, after_;
};

}  // namespace

void gather(const Gather& how, const TensorView& in, const TensorView& out, int threads) {
    if (out.dtype == DType::f64)
        Gathering<double>(how, in, out).run(threads);
    else
        Gathering<float>(how, in, out).run(threads);
}

}  // namespace transfuse::cpu
