// Weights as the product wants them: per phase, group and panel of output channels, [chunk][tap of the first
// axis][input channel × other taps][row]. A tile at the border of the first axis skips the taps that meet no input
// there: theirs are the first or the last entries of a chunk.
#pragma once

#include <vector>

#include "cpu/dense/cut/dense_geometry.h"
#include "transfuse/tensor.h"

namespace transfuse::cpu {

struct Panel {
    int64_t first;  // output channel within its group
    int64_t count;  // channels
    int64_t rows;   // count rounded up to what the product offers
};

// `outs` channels in panels of at most `most` rows.
std::vector<Panel> panels_of(int64_t outs, int64_t most);

template <class T>
class Packing {
public:
    explicit Packing(const DenseGeometry& geometry);

    const std::vector<Panel>& panels() const { return panels_; }
    size_t bytes() const { return static_cast<size_t>(elements_) * sizeof(T); }
    const T* panel(const T* packed, size_t phase, int64_t group, size_t panel) const {
        return packed + phase_start_[phase] + group * group_size_[phase] + panel_start_[panel] * terms(phase);
    }
    // w is [G, Cin/G, Cout/G, K…] with any strides.
    void pack(const TensorView& w, T* packed, int threads) const;

private:
    int64_t terms(size_t phase) const {
        return geometry_.in * static_cast<int64_t>(geometry_.phases[phase].taps.size());
    }

    const DenseGeometry& geometry_;
    std::vector<Panel> panels_;         // of one group
    std::vector<int64_t> panel_start_;  // rows before it
    std::vector<int64_t> phase_start_, group_size_;
    int64_t elements_ = 0;
};

}  // namespace transfuse::cpu
