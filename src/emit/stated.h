// A program for every size: the kernels chosen for one shape, and the arguments they would be launched with at another.
//
// Kernels are chosen, and written, for the sizes of an example. What the choice weighed is repeated at other sizes
// (cuda::Decisions), so that the text stays the same and only launch arguments change: who asks at enough sizes can say
// each argument as a formula of them. `transfuse emit` does, and writes the formulas as host code.
#pragma once

#include <string>

#include "cuda/assemble.h"
#include "transfuse/algebra.h"

namespace transfuse::emit {

struct Request {
    std::string example;  // a graph: the sizes kernels are chosen for
    std::string text;     // the same graph at other sizes
    Fp32Precision precision = Fp32Precision::strict;
    bool aligned = true;  // leaves and outputs begin on 16-byte boundaries
    bool inference = true;
    bool one_row_length = false;  // the innermost size is the example's: kernels may rest on it
    bool own = false;             // the kernels that `optimize` takes for the example's sizes, which are `text`'s
    cuda::Target target;
    GradientRequest gradient;  // wrt not empty: the gradient's program, whose leaves are followed by output gradients
};

struct Stated {
    Graph written;
    Plan plan;  // at the sizes of `text`
    cuda::Assembly assembly;
};

// Throws Error where the two sizes do not give the same plan.
Stated state(const Request& request);
std::string json(const Stated& stated);

}  // namespace transfuse::emit
