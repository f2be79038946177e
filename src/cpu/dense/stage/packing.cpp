#include "cpu/dense/stage/packing.h"

#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"
#include "transfuse/error.h"

namespace transfuse::cpu {
namespace {
constexpr int64_t most_rows = 16;  // of a panel, on any level
}

std::vector<Panel> panels_of(int64_t outs, int64_t most) {
    std::vector<Panel> panels;
    for (int64_t first = 0; first < outs;) {
        const int64_t count = std::min(outs - first, most);
        panels.push_back({first, count, count > 4 ? most : count > 2 ? 4 : count});
        first += count;
    }
    return panels;
}

template <class T>
Packing<T>::Packing(const DenseGeometry& geometry) : geometry_(geometry) {
    const int64_t most = kernels<T>().panel_rows;
    require(most <= most_rows, "packing: panels of ", most, " rows, at most ", most_rows, " expected");
    panels_ = panels_of(geometry.outs, most);
    int64_t rows = 0;
    for (const Panel& panel : panels_) {
        panel_start_.push_back(rows);
        rows += panel.rows;
    }
    for (size_t p = 0; p < geometry.phases.size(); ++p) {
        phase_start_.push_back(elements_);
        group_size_.push_back(rows * terms(p));
        elements_ += geometry.groups * group_size_.back();
    }
    elements_ += 4 * most + row_padding;  // products read ahead
}

template <class T>
void Packing<T>::pack(const TensorView& w, T* packed, int threads) const {
    Sizes strides = w.strides;
    strides.insert(strides.begin() + 3, 6 - strides.size(), 0);  // missing tap axes
    const auto panels = static_cast<int64_t>(panels_.size());
    const int64_t jobs = static_cast<int64_t>(geometry_.phases.size()) * geometry_.groups * panels;
    for (int64_t i = elements_ - 4 * kernels<T>().panel_rows - row_padding; i < elements_; ++i) packed[i] = 0;
    parallel_for(elements_ < 8192 ? 1 : threads, jobs, [&](int64_t job) {
        const auto phase = static_cast<size_t>(job / (geometry_.groups * panels));
        const int64_t group = job / panels % geometry_.groups;
        const auto p = static_cast<size_t>(job % panels);
        const Panel& panel = panels_[p];
        T* out = const_cast<T*>(this->panel(packed, phase, group, p));
        const DensePhase& taps = geometry_.phases[phase];
        const auto per_shift = static_cast<size_t>(taps.taps_per_shift());
        for (int64_t chunk = 0; chunk < geometry_.in; chunk += geometry_.chunk)
            for (size_t t = 0; t < taps.taps.size(); t += per_shift)
                for (int64_t ci = chunk; ci < std::min(geometry_.in, chunk + geometry_.chunk); ++ci)
                    for (size_t j = t; j < t + per_shift; ++j, out += panel.rows) {
                        const DensePhase::Tap& tap = taps.taps[j];
                        const int64_t offset =
                            group * strides[0] + ci * strides[1] + panel.first * strides[2] + tap.k3 * strides[5];
                        const auto load = [&](T* row, int64_t k1, int64_t k2) {
                            kernels<T>().load(row, address(w, offset + k1 * strides[3] + k2 * strides[4]),
                                              static_cast<Storage>(w.dtype), strides[2], panel.count);
                        };
                        load(out, tap.k1[0].tap, tap.k2[0].tap);
                        if (tap.k1.size() * tap.k2.size() > 1 || tap.k1[0].factor * tap.k2[0].factor != 1) {
                            double sum[most_rows] = {};
                            T share[most_rows];
                            for (const PairTerm::Share& plane : tap.k1)
                                for (const PairTerm::Share& row : tap.k2) {
                                    load(share, plane.tap, row.tap);
                                    for (int64_t r = 0; r < panel.count; ++r)
                                        sum[r] += plane.factor * row.factor * static_cast<double>(share[r]);
                                }
                            for (int64_t r = 0; r < panel.count; ++r) out[r] = static_cast<T>(sum[r]);
                        }
                        for (int64_t r = panel.count; r < panel.rows; ++r) out[r] = 0;
                    }
    });
}

template class Packing<float>;
template class Packing<double>;

}  // namespace transfuse::cpu
