// The strides of a plan's values, in elements. Few of many values lie in memory: the list is as long as these are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transfuse/tensor.h"

namespace transfuse::cuda {

class Strides {
public:
    Strides() = default;
    explicit Strides(size_t values) : place_(values) {}

    // Empty for what lies nowhere.
    const Sizes& operator[](size_t value) const {
        static const Sizes none;
        return place_[value] == 0 ? none : lists_[static_cast<size_t>(place_[value]) - 1];
    }
    void set(size_t value, Sizes strides) {
        if (place_[value] != 0) {
            lists_[static_cast<size_t>(place_[value]) - 1] = std::move(strides);
            return;
        }
        lists_.push_back(std::move(strides));
        place_[value] = static_cast<int32_t>(lists_.size());
    }
    void push_back(Sizes strides) {  // of one value more
        place_.push_back(0);
        set(place_.size() - 1, std::move(strides));
    }

private:
    std::vector<int32_t> place_;  // per value, from 1; 0: it has none
    std::vector<Sizes> lists_;
};

}  // namespace transfuse::cuda
