// Values of parameters alone on which rewriting does nothing: no rule fires there, and none builds anything, while
// nothing was built before. What such rules look at is the same for all extents of inputs, so that a program asks them
// for one size and not for others.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "transfuse/algebra.h"

namespace transfuse {

class Quiet {
public:
    using Values = std::shared_ptr<const std::vector<bool>>;  // per value

    explicit Quiet(const Graph& lowered) : parameter_(parameter_values(lowered)) {}
    bool parameter(size_t value) const { return parameter_[value]; }
    Values under(const RewriteOptions& options) const;  // null: it is not known yet
    void learn(const RewriteOptions& options, std::vector<bool> values);

private:
    const std::vector<bool> parameter_;
    mutable std::mutex mutex_;
    std::vector<std::pair<RewriteOptions, Values>> known_;
};

}  // namespace transfuse
