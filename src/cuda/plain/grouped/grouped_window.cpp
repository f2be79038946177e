#include "cuda/plain/grouped/grouped_window.h"

#include <algorithm>
#include <numeric>

#include "algebra/lattice/integer.h"

namespace transfuse::cuda {

RunWindow::RunWindow(const Lattice& axis, int64_t run) : axis_(axis), run_(run) {
    classes_ = axis.period() / std::gcd(axis.period(), run);
    auto input_of = [&](int64_t o, int64_t k) { return axis_.down * o + axis_.offset - axis_.dil * k; };  // times up
    for (int64_t c = 0; c < classes_; ++c)
        inputs_ = std::max(inputs_, floor_div(input_of(run_ * c + run_ - 1, 0), axis_.up) - first(c) + 1);
    inputs_ = std::max<int64_t>(inputs_, 1);
    taps_.assign(static_cast<size_t>(classes_ * inputs_ * run_), -1);
    for (int64_t c = 0; c < classes_; ++c)
        for (int64_t v = 0; v < run_; ++v)
            for (int64_t k = 0; k < axis_.taps; ++k) {
                const int64_t times_up = input_of(run_ * c + v, k);
                if (times_up % axis_.up != 0) continue;
                taps_[static_cast<size_t>((c * inputs_ + times_up / axis_.up - first(c)) * run_ + v)] = k;
            }
}

// The least input that the last tap could meet.
int64_t RunWindow::first(int64_t q) const {
    return ceil_div(axis_.down * run_ * q + axis_.offset - axis_.dil * (axis_.taps - 1), axis_.up);
}

bool RunWindow::meets(int64_t s, int64_t v) const {
    for (int64_t c = 0; c < classes_; ++c)
        if (tap(c, s, v) >= 0) return true;
    return false;
}

bool RunWindow::meets(int64_t s) const {
    for (int64_t v = 0; v < run_; ++v)
        if (meets(s, v)) return true;
    return false;
}

std::vector<int64_t> RunWindow::staged() const {
    if (!fixed()) return taps_;
    std::vector<int64_t> all(static_cast<size_t>(axis_.taps));
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
}

int64_t RunWindow::entry(int64_t s, int64_t v) const { return fixed() ? tap(0, s, v) : s * run_ + v; }

std::string RunWindow::class_of(const std::string& q) const {
    return fixed() ? "0" : "(" + q + " % " + number(classes_) + ")";
}

std::string RunWindow::first_input(const std::string& q) const {
    if (fixed()) return plus(times(q, number(axis_.down * run_ / axis_.up)), number(first(0)));
    // A quotient of what is not negative, rounded up.
    const int64_t above = axis_.offset - axis_.dil * (axis_.taps - 1) + axis_.up - 1;
    const int64_t lift = std::max<int64_t>(0, ceil_div(-above, axis_.up));
    const std::string lifted = plus(times(q, number(axis_.down * run_)), number(above + lift * axis_.up));
    return minus("(" + lifted + " / " + number(axis_.up) + ")", number(lift));
}

bool RunWindow::aligned(int64_t s, int64_t vector) const {
    return fixed() && axis_.down * run_ / axis_.up % vector == 0 && (first(0) + s) % vector == 0;
}

}  // namespace transfuse::cuda
