#include "cuda/dense/strict.h"

#include <algorithm>
#include <map>
#include <set>

namespace transfuse::cuda {

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
        t_.line("product(acc[" + num(step.block) + "], tiles + " + num(step.tile + dw) + "ll, pixels + " + step.at + num(step.pixel + dp) + "ll, " + (begun.insert(step.block).second ? "0" : "1") + ");");
    };
    if (three_)
        for (const StrictStep& step : chain) product(step, 128, 0), product(step, 0, low_);
    for (const StrictStep& step : chain) product(step, 0, 0);
    t_.line("products_commit();");
    t_.line("products_wait<0>();");
    for (int block : begun) t_.line("promote(acc[" + num(block) + "], total[" + num(block) + "]);");
}

// Short sums have small errors, in PyTorch as well, and are bound by memory: their chains are single terms. Long ones gain nothing
// below five terms (D: 1.7e-7 rms either way) and pay for every promotion (D: 4.7 ms with two terms, 4.1 with four).
int longest_chain(const Config& config, const Schedule& s) {
    std::map<int, int> terms;
    int most = 0;
    for (const auto& variant : s.steps)
        for (const auto& group : variant) {
            terms.clear();
            for (const WindowStep& step : group) most = std::max(most, ++terms[step.block]);
        }
    return most * s.k_steps(config) <= 64 ? 1 : 5;
}

// A cut takes half a unit in the last place, 0.36 · 2^-23 of a number whose leading digits are as those of most numbers. After j of a
// chain's n terms the sum is j/n of the whole, on average: n terms lose (n + 1) / 2 times as much as one. The device's sums and its
// emulation (tests/cuda_host/machine.h) lose somewhat less, as the sum's larger part has the larger digits: 2.0e-8 + 1.55e-8 n.
static double lost_in_chain(int terms) { return 2.0e-8 + 1.55e-8 * terms; }

double lost_in_chains(const Config& config, const Schedule& s) {
    const int longest = longest_chain(config, s);
    double lost = 0, total = 0;
    for (size_t v = 0; v < s.steps.size(); ++v)
        for (const std::vector<WindowStep>& group : s.steps[v]) {
            std::map<std::pair<int, int>, int> terms;   // of an accumulator, between two promotions that the schedule asks for
            for (const WindowStep& step : group) {
                const auto& slabs = s.slabs[v];
                const int slab = config.resident ? 0 : static_cast<int>(std::upper_bound(slabs.begin(), slabs.end(), step.tile) - slabs.begin());
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
