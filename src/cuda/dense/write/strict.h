// Strict fp32 on tensor cores. Each product is three: low·high, high·low and high·high of two TF32 terms; in short
// sums, where it can be seen and costs little, low·low as well. Tensor cores cut what they add towards zero, so chains
// of products are short, the small terms come first, where a unit in the last place is small, and `promote` adds up the
// chains, rounding. What the cuts take away all the same is proportional to the sum, on average, and the weights make
// up for it.
#pragma once

#include <string>
#include <vector>

#include "cuda/dense/schedule/schedule.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

struct StrictStep {
    int block;
    int64_t tile, pixel;
    std::string at;
};  // `at`: a run-time part of the window's place

class StrictProducts {
public:
    // terms: full-size ones of an accumulator in all; three: the three terms are products of their own (mma.sync makes
    // all of them in one); low: pixels from the high terms of a patch to its low ones.
    StrictProducts(Lines& t, int terms, bool three, int64_t low);
    void operator()(const std::vector<StrictStep>& steps);

private:
    void write(const std::vector<StrictStep>& chain);

    Lines& t_;
    const int longest_;
    const bool three_, four_;
    const int64_t low_;
};

// Full-size terms of an output's sum.
int strict_terms(const Config& config, const Schedule& schedule);

// The part of a sum that chains of this schedule lose, on average over sums of any signs and sizes.
double lost_in_chains(const Config& config, const Schedule& schedule);

}  // namespace transfuse::cuda
