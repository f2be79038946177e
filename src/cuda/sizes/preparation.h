// What the launch that prepares weights depends on: values of parameters alone, and who wants which of them. Sizes for
// which all of it is the same have the same launch, and need not say what they ask for.
#pragma once

#include <memory>
#include <vector>

#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

struct Preparation {
    const Plan& plan;
    const std::vector<bool>& parameters;  // per value of the graph: depends on parameters alone
    const Strides& strides;               // per value
    const Target& target;
    bool aligned;                                         // leaves begin on 16-byte boundaries
    bool beside;                                          // PullRequest::beside
    std::vector<ValueId> stored;                          // what the plan's first pass stores, as far as it is read
    std::vector<std::shared_ptr<const ExtraJob>> extras;  // the packing of weights
};

// Launches by what they prepare.
class Preparations {
public:
    std::shared_ptr<const Program> find(const Preparation& asked) const;  // null: it was not asked for yet
    void remember(const Preparation& asked, std::shared_ptr<const Program> program);

private:
    struct Ground;  // the parameters, and what is made of them for whoever wants it
    Ground* ground_of(const Preparation& asked) const;
    static constexpr size_t most = 4;  // programs with gradients, with tensors that begin anywhere
    std::vector<std::shared_ptr<Ground>> grounds_;
};

}  // namespace transfuse::cuda
