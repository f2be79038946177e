// One job of a pull kernel: a value, how its elements are spread over threads, and where they go.
#pragma once

#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

struct Job {
    ValueId root = -1;
    ValueId fold = -1;   // a fold below (or at) the root that a group of threads shares; -1: a thread an element
    int64_t terms = 1;   // of that fold
    int64_t splits = 1;  // blocks that share one fold; they leave partials
    bool rows = false;   // consecutive threads take consecutive terms (else consecutive outputs)
    bool wide = false;   // arithmetic in double: small and exact
    bool reads_own_partials = false;
    const ExtraJob* extra = nullptr;  // writes itself
    int level = 0;
    double work = 0;
    std::vector<Place> destinations;
    Place partial_place;
    // A job may finish several folds and store several values that follow from them, the root being the first: element
    // by element, all in the order in which they are contiguous.
    std::vector<ValueId> folds;
    struct Stored {
        ValueId value;
        std::vector<Place> destinations;
    };
    std::vector<Stored> stored;
};

// The kernel that runs the stages one after another, each stage's jobs side by side.
Launch write_kernel(const PullRequest& request, const std::vector<std::vector<const Job*>>& stages, const Places& kept,
                    int serial);

}  // namespace transfuse::cuda
