// What a forward pass keeps for its backward pass: the sums are the ones the gradient would make itself, they are few,
// and the gradient that takes them no longer reads what they were made from.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/kept.h"
#include "random_graphs.h"
#include "transfuse/transfuse.h"

namespace transfuse {
namespace {

const char* const collapsed = R"(graph g {
  %x = input f64[2,3,20,24]
  %w = param f64[3,4,3,3]
  %b = param f64[4]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %m = mean(%y) dims=[2,3] keepdim=1
  %l = logsumexp(%m) dims=[1]
  return %l
})";

int64_t count(const Graph& graph, Op op) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; });
}

TEST(ProgramKept, BackwardTakesWhatForwardGives) {
    const Graph forward = rewrite(parse(collapsed), {.inference = false, .without = {}, .only = {}}).rewritten;
    const std::vector<ValueId> kept = kept_sums(forward);
    ASSERT_EQ(kept.size(), 1u);
    const Graph backward = rewrite(gradient(forward, {{0}, {0, 1, 2}})).rewritten;
    ASSERT_EQ(count(backward, Op::box_sums), 1);

    const Graph gives = giving(forward, kept), takes = taking(backward, forward, kept);
    EXPECT_EQ(count(takes, Op::box_sums), 0);
    ASSERT_EQ(gives.outputs().size(), 2u);
    ASSERT_EQ(takes.leaves().size(), backward.leaves().size() + 1);

    const auto leaves = random_leaves(forward, 1);
    const auto given = evaluate(gives, leaves);
    EXPECT_EQ(given[0], evaluate(forward, leaves)[0]);
    auto inputs = random_leaves(backward, 2);
    std::copy(leaves.begin(), leaves.end(), inputs.begin());
    const auto expected = evaluate(backward, inputs);
    inputs.push_back(given[1]);
    EXPECT_EQ(evaluate(takes, inputs), expected);
}

TEST(ProgramKept, NothingLargeIsKept) {
    // A mean over depth alone leaves sums a tenth as large as x.
    const Graph forward = rewrite(parse(R"(graph g {
  %x = input f64[2,3,30,8,8]
  %w = param f64[3,4,3,3,3]
  %y = conv_transpose(%x, %w) padding=[1,1,1]
  %m = mean(%y) dims=[2]
  return %m
})"),
                                  {.inference = false, .without = {}, .only = {}})
                              .rewritten;
    EXPECT_EQ(count(forward, Op::box_sums), 1);
    EXPECT_TRUE(kept_sums(forward).empty());
}

TEST(ProgramKept, SumsOfComputedValuesAreNotKept) {
    const Graph forward =
        rewrite(parse(std::string(collapsed).replace(std::string(collapsed).find("%y = conv_transpose(%x"), 22,
                                                     "%t = tanh(%x)\n  %y = conv_transpose(%t")),
                {.inference = false, .without = {}, .only = {}})
            .rewritten;
    EXPECT_EQ(count(forward, Op::box_sums), 1);
    EXPECT_TRUE(kept_sums(forward).empty());
}

}  // namespace
}  // namespace transfuse
