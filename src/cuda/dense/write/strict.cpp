#include "cuda/dense/write/strict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace transfuse::cuda {

// Full-size terms in a chain. Longer ones round less often when they are added up, and cut more: of n terms in all,
// chains of about the cube root of n have the smallest error (rms of 48, 256, 864 products: 8.4e-8, 1.05e-7, 1.30e-7
// with 2, 3, 4 terms of eight products each; 1.2e-7, 2.9e-7, 5.3e-7 one after another in fp32).
static int longest_chain(int terms) { return std::clamp(static_cast<int>(std::lround(std::cbrt(terms))), 1, 8); }

// mma.sync's cuts are not made up for: what they take is known of one architecture only.
StrictProducts::StrictProducts(Lines& t, int terms, bool three, int64_t low)
    : t_(t),
      longest_(three         ? longest_chain(terms)
               : terms <= 64 ? 1
                             : 5),
      three_(three),
      four_(three && terms <= 8),
      low_(low) {}

void StrictProducts::operator()(const std::vector<StrictStep>& steps) {
    std::vector<StrictStep> chain;
    std::map<int, int> terms;
    for (const StrictStep& step : steps) {
        if (terms[step.block] == longest_) {
            write(chain);
            t_.line("products_begin();");
            chain.clear(), terms.clear();
        }
        ++terms[step.block];
        chain.push_back(step);
    }
    write(chain);
}

void StrictProducts::write(const std::vector<StrictStep>& chain) {
    std::set<int> begun;
    auto product = [&](const StrictStep& step, int64_t dw, int64_t dp) {
        t_.line("product(acc[" + num(step.block) + "], tiles + " + num(step.tile + dw) + "ll, pixels + " + step.at +
                num(step.pixel + dp) + "ll, " + (begun.insert(step.block).second ? "0" : "1") + ");");
    };
    if (four_)
        for (const StrictStep& step : chain) product(step, 128, low_);
    if (three_)
        for (const StrictStep& step : chain) product(step, 128, 0), product(step, 0, low_);
    for (const StrictStep& step : chain) product(step, 0, 0);
    t_.line("products_commit();");
    t_.line("products_wait<0>();");
    for (int block : begun) t_.line("promote(acc[" + num(block) + "], total[" + num(block) + "]);");
}

int strict_terms(const Config& config, const Schedule& s) {
    std::map<int, int> terms;
    int most = 0;
    for (const auto& variant : s.steps)
        for (const auto& group : variant) {
            terms.clear();
            for (const WindowStep& step : group) most = std::max(most, ++terms[step.block]);
        }
    return most * s.k_steps(config);
}

// A cut takes half a unit in the last place, 0.36 · 2^-23 of a number whose leading digits are as those of most
// numbers. After j of a chain's n terms the sum is j/n of the whole, on average: n terms lose (n + 1) / 2 times as much
// as one. The device's sums and its emulation (tests/cuda_host/machine.h) lose somewhat less, as the sum's larger part
// has the larger digits: 2.0e-8 + 1.55e-8 n.
static double lost_in_chain(int terms) { return 2.0e-8 + 1.55e-8 * terms; }

double lost_in_chains(const Config& config, const Schedule& s) {
    const int longest = longest_chain(strict_terms(config, s));
    double lost = 0, total = 0;
    for (size_t v = 0; v < s.steps.size(); ++v)
        for (const std::vector<WindowStep>& group : s.steps[v]) {
            std::map<std::pair<int, int>, int>
                terms;  // of an accumulator, between two promotions that the schedule asks for
            for (const WindowStep& step : group) {
                const auto& slabs = s.slabs[v];
                const int slab =
                    config.resident
                        ? 0
                        : static_cast<int>(std::upper_bound(slabs.begin(), slabs.end(), step.tile) - slabs.begin());
                terms[{slab, step.block}] += config.resident ? config.k_steps : 1;
            }
            for (const auto& [place, count] : terms)
                for (int left = count; left > 0; left -= longest) {
                    const int chain = std::min(left, longest);
                    lost += chain * lost_in_chain(chain), total += chain;
                }
        }
    return total > 0 ? lost / total : 0;
}

}  // namespace transfuse::cuda
