// The scales, shifts and signs that lie between a value and a linear map of it, constant along the axes the map works
// on: they commute with it.
#pragma once

#include <vector>

#include "algebra/rewriter/rewriter.h"

namespace transfuse {

struct AffineChain {
    struct Link {
        ValueId value;
        size_t side;  // the operand the chain goes on with
    };
    ValueId value = -1;       // where the chain begins
    std::vector<Link> steps;  // outermost first
};

AffineChain affine_chain(const Rewriter& r, ValueId v, const Sizes& dims);
// The chain on another value; shifts count `shift_factor` times.
ValueId reapply(Rewriter& r, const AffineChain& chain, ValueId value, double shift_factor);

}  // namespace transfuse
