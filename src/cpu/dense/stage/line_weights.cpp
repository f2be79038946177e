#include "cpu/dense/stage/line_weights.h"

#include <cstdlib>

#include "algebra/lattice/integer.h"
#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"

namespace transfuse::cpu {

template <class T>
LineWeights<T>::LineWeights(const LineGeometry& geometry)
    : geometry_(geometry), panels_(panels_of(geometry.outs, kernels<T>().panel_rows)) {
    for (const Panel& panel : panels_) {
        row_before_.push_back(rows_);
        rows_ += panel.rows;
    }
    int64_t terms = 0;
    for (const LineGeometry::Product& product : geometry.products) {
        terms_before_.push_back(terms);
        terms += product.terms();
    }
}

template <class T>
size_t LineWeights<T>::bytes() const {
    const int64_t behind = 4 * kernels<T>().panel_rows + row_padding;  // products read ahead
    return static_cast<size_t>(geometry_.groups * geometry_.in * geometry_.all_terms * rows_ + behind) * sizeof(T);
}

template <class T>
void LineWeights<T>::pack(const TensorView& w, T* packed, int threads) const {
    const LineGeometry& g = geometry_;
    const Kernels<T>& k = kernels<T>();
    Sizes strides = w.strides;
    strides.insert(strides.begin() + 3, 6 - strides.size(), 0);  // missing tap axes
    const std::array<int64_t, 3> taps{g.axis[0].taps, g.axis[1].taps, g.axis[2].taps};
    const int64_t all_taps = taps[0] * taps[1] * taps[2];
    // Taps are taken as they lie in memory (those of a convolution backwards), and numbered so in the terms.
    TensorView forwards = w;
    std::array<bool, 3> flipped;
    for (size_t a = 0; a < 3; ++a) {
        flipped[a] = strides[a + 3] < 0;
        if (flipped[a]) forwards.data = address(forwards, strides[a + 3] * (taps[a] - 1));
        strides[a + 3] = std::abs(strides[a + 3]);
    }
    const auto in_memory = [&](int64_t tap) {
        int64_t place = 0;
        const std::array<int64_t, 3> at{tap / taps[2] / taps[1], tap / taps[2] % taps[1], tap % taps[2]};
        for (size_t a = 0; a < 3; ++a) place = place * taps[a] + (flipped[a] ? taps[a] - 1 - at[a] : at[a]);
        return static_cast<int32_t>(place);
    };
    std::vector<std::vector<int32_t>> term_taps;
    for (const LineGeometry::Product& product : g.products)
        for (std::vector<int32_t>& of = term_taps.emplace_back(); int32_t tap : product.tap)
            of.push_back(in_memory(tap));
    // Taps that follow one another are transposed together.
    const bool in_order = (taps[2] == 1 || strides[5] == 1) && (taps[1] == 1 || strides[4] == taps[2]) &&
                          (taps[0] == 1 || strides[3] == taps[1] * taps[2]);
    const bool channels_follow = in_order && strides[1] == all_taps;
    const auto storage = static_cast<Storage>(w.dtype);
    std::fill_n(packed + g.groups * g.in * g.all_terms * rows_, 4 * k.panel_rows + row_padding, T(0));
    const int64_t chunks = ceil_div(g.in, g.chunk), blocks = ceil_div(g.chunk, g.block),
                  panels = static_cast<int64_t>(panels_.size());
    parallel_for(g.in * g.outs * all_taps < 8192 ? 1 : threads, g.groups * chunks * blocks * panels, [&](int64_t job) {
        const auto p = static_cast<size_t>(job % panels);
        const int64_t group = job / panels / blocks / chunks, chunk = job / panels / blocks % chunks * g.chunk;
        const int64_t first = chunk + job / panels % blocks * g.block;
        const int64_t count = std::min({g.block, chunk + g.chunk - first, g.in - first});
        if (count <= 0) return;
        const Panel& panel = panels_[p];
        Scratch scratch;
        T* natural = scratch.acquire<T>(count * all_taps * panel.rows);  // [channel][tap][row]
        if (panel.count < panel.rows) std::fill_n(natural, count * all_taps * panel.rows, T(0));
        const auto at = [&](int64_t channel, int64_t k0, int64_t k1, int64_t k2) {
            return address(forwards, group * strides[0] + (first + channel) * strides[1] + panel.first * strides[2] +
                                         k0 * strides[3] + k1 * strides[4] + k2 * strides[5]);
        };
        if (channels_follow) {
            k.load_transposed(natural, panel.rows, count * all_taps, at(0, 0, 0, 0), storage, strides[2], panel.count);
        } else {
            for (int64_t c = 0; c < count; ++c) {
                T* to = natural + c * all_taps * panel.rows;
                if (in_order) {
                    k.load_transposed(to, panel.rows, all_taps, at(c, 0, 0, 0), storage, strides[2], panel.count);
                    continue;
                }
                for (int64_t k0 = 0; k0 < taps[0]; ++k0)
                    for (int64_t k1 = 0; k1 < taps[1]; ++k1)
                        for (int64_t k2 = 0; k2 < taps[2]; ++k2, to += panel.rows)
                            k.load(to, at(c, k0, k1, k2), storage, strides[2], panel.count);
            }
        }
        for (size_t i = 0; i < g.products.size(); ++i) {
            const LineGeometry::Product& product = g.products[i];
            k.mix_taps({natural, count, all_taps, panel.rows, product.terms(), product.first.data(),
                        term_taps[i].data(), product.factor.data(),
                        const_cast<T*>(block(packed, group, first, count, i, p))});
        }
    });
}

template class LineWeights<float>;
template class LineWeights<double>;

}  // namespace transfuse::cpu
