// Weights as products of lines want them: [group][block of input channels][product][panel][channel][term][row].
#pragma once

#include "cpu/dense/cut/line_geometry.h"
#include "cpu/dense/stage/packing.h"

namespace transfuse::cpu {

template <class T>
class LineWeights {
public:
    explicit LineWeights(const LineGeometry& geometry);

    const std::vector<Panel>& panels() const { return panels_; }
    size_t bytes() const;
    // Of a block of `count` input channels from `first` of a group on.
    const T* block(const T* packed, int64_t group, int64_t first, int64_t count, size_t product, size_t panel) const {
        return packed + (group * geometry_.in + first) * geometry_.all_terms * rows_ +
               count * (terms_before_[product] * rows_ + row_before_[panel] * geometry_.products[product].terms());
    }
    // w is [G, Cin/G, Cout/G, K…] with any strides.
    void pack(const TensorView& w, T* packed, int threads) const;

private:
    const LineGeometry& geometry_;
    std::vector<Panel> panels_;                       // of one group
    std::vector<int64_t> row_before_, terms_before_;  // per panel, per product
    int64_t rows_ = 0;                                // of all panels
};

}  // namespace transfuse::cpu
