// Decisions of one size repeated for another: in their order, and never a number for a yes or no.
#include <gtest/gtest.h>

#include <optional>

#include "cuda/kernel/kernel.h"

namespace transfuse::cuda {
namespace {

TEST(CudaDecisions, AreRepeatedInTheirOrder) {
    Decisions decisions;
    EXPECT_TRUE(decisions.take(true));
    EXPECT_EQ(decisions.take(int64_t{32}), 32);
    decisions.repeat();
    EXPECT_TRUE(decisions.take(false));
    EXPECT_EQ(decisions.take(int64_t{8}), 32);
    EXPECT_TRUE(decisions.spent());
    EXPECT_THROW(decisions.take(1), Error) << "one more than were recorded";
}

TEST(CudaDecisions, AreOfTheirKind) {
    Decisions decisions;
    decisions.take(false), decisions.take(8);
    decisions.repeat();
    EXPECT_THROW(decisions.take(8), Error) << "eight is no yes or no, and 'no' is nothing to divide by";
}

TEST(CudaDecisions, OfAWayThatDidNotPayAreForgotten) {
    for (const bool pays : {true, false}) {
        Decisions decisions;
        const auto way = [&]() -> std::optional<int> {
            const int width = decisions.take(8);
            return decisions.repeating() || pays ? std::optional(width) : std::nullopt;
        };
        EXPECT_EQ(decisions.attempt(way).has_value(), pays);
        decisions.take(int64_t{32});
        decisions.repeat();
        EXPECT_EQ(decisions.attempt(way).has_value(), pays);
        EXPECT_EQ(decisions.take(int64_t{1}), 32);
        EXPECT_TRUE(decisions.spent());
    }
}

}  // namespace
}  // namespace transfuse::cuda
