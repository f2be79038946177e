// Loops over several strided tensors of one shape as few long rows: axes of extent 1 go, neighbouring axes that every
// tensor walks as one are merged, and what is left is cut into rows of bounded length.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/threads/thread_pool.h"
#include "transfuse/tensor.h"

namespace transfuse::cpu {

class StridedLoop {
public:
    // strides[t][axis]; the last tensor is the result.
    StridedLoop(const Sizes& shape, std::vector<Sizes> strides, int64_t row_limit = 1024)
        : strides_(std::move(strides)) {
        std::vector<Sizes> kept(strides_.size());
        for (size_t axis = 0; axis < shape.size(); ++axis) {
            if (shape[axis] == 1) continue;
            const bool merges = !shape_.empty() && std::all_of(strides_.begin(), strides_.end(), [&](const Sizes& s) {
                return kept[static_cast<size_t>(&s - strides_.data())].back() == s[axis] * shape[axis];
            });
            if (merges)
                shape_.back() *= shape[axis];
            else
                shape_.push_back(shape[axis]);
            for (size_t t = 0; t < strides_.size(); ++t) {
                if (merges)
                    kept[t].back() = strides_[t][axis];
                else
                    kept[t].push_back(strides_[t][axis]);
            }
        }
        if (shape_.empty()) {
            shape_ = {1};
            for (Sizes& s : kept) s = {0};
        }
        strides_ = std::move(kept);
        // A short last axis would make short rows: the longest axis takes its place.
        const auto longest = static_cast<size_t>(std::max_element(shape_.begin(), shape_.end()) - shape_.begin());
        if (shape_.back() < 32 && shape_[longest] > 4 * shape_.back()) {
            std::swap(shape_[longest], shape_.back());
            for (Sizes& s : strides_) std::swap(s[longest], s.back());
        }
        length_ = std::min(shape_.back(), row_limit);
        pieces_ = (shape_.back() + length_ - 1) / length_;
        rows_ = pieces_;
        for (size_t axis = 0; axis + 1 < shape_.size(); ++axis) rows_ *= shape_[axis];
    }

    int64_t longest() const { return length_; }
    int64_t row_stride(size_t tensor) const { return strides_[tensor].back(); }

    // body(offsets of the row in each tensor, elements). Rows are dealt out in blocks of about `grain` elements.
    template <class F>
    void run(int threads, const F& body, int64_t grain = 16384) const {
        const int64_t block = std::max<int64_t>(1, grain / length_);
        const size_t tensors = strides_.size();
        parallel_for(threads, (rows_ + block - 1) / block, [&](int64_t b) {
            std::vector<int64_t> offset(tensors);
            for (int64_t r = b * block; r < std::min(rows_, (b + 1) * block); ++r) {
                int64_t rest = r / pieces_;
                const int64_t begin = r % pieces_ * length_;
                for (size_t t = 0; t < tensors; ++t) offset[t] = begin * strides_[t].back();
                for (size_t axis = shape_.size() - 1; axis-- > 0;) {
                    const int64_t i = rest % shape_[axis];
                    rest /= shape_[axis];
                    for (size_t t = 0; t < tensors; ++t) offset[t] += i * strides_[t][axis];
                }
                body(offset.data(), std::min(length_, shape_.back() - begin));
            }
        });
    }

private:
    Sizes shape_;
    std::vector<Sizes> strides_;
    int64_t length_ = 1, pieces_ = 1, rows_ = 1;
};

}  // namespace transfuse::cpu
