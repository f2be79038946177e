// Values of parameters alone on which rewriting does nothing: no rule fires there, and none builds anything, while
// nothing was built before. What such rules look at is the same for all extents of inputs, so that a program asks them
// for one size and not for others.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "algebra/rewriter.h"

namespace transfuse {

class Quiet {
public:
    using Values = std::shared_ptr<const std::vector<bool>>;  // per value

    explicit Quiet(const Graph& lowered) : survey(lowered) {}
    const Survey survey;                                // of the graph for any size
    Values under(const RewriteOptions& options) const;  // null: it is not known yet
    void learn(const RewriteOptions& options, std::vector<bool> values);

private:
    mutable std::mutex mutex_;
    std::vector<std::pair<RewriteOptions, Values>> known_;
};

}  // namespace transfuse
