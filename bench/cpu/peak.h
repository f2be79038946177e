// What this machine can do at most, measured.
#pragma once

namespace transfuse::bench {

struct Peak {
    double registers;  // GFLOP/s of multiply-adds that touch no memory
    double product;    // GFLOP/s of the product kernel from the first-level cache
    double read;       // GB/s from memory
};

Peak measure_peak(int threads);

}  // namespace transfuse::bench
