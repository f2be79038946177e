// The benchmark chains on the CPU engine at small, odd sizes, against the fp64 reference.
#include "cpu_check.h"
#include "random_graphs.h"
#include "rows.h"

namespace transfuse {
namespace {

class CpuRow : public testing::TestWithParam<std::string> {};

void check(const std::string& name, tests::Scale scale, DType dtype, CpuCase c) {
    const Graph graph = tests::row(name, scale, dtype);
    c.tolerance = dtype == DType::f32 ? 1e-5 : tolerance_of(dtype);
    expect_matches_reference(graph, random_leaves(graph, 1), c);
}

TEST_P(CpuRow, Contiguous) { check(GetParam(), tests::Scale::small, DType::f32, {}); }
TEST_P(CpuRow, ChannelsLast) {
    check(GetParam(), tests::Scale::tiny, DType::f32,
          {.inputs = Layout::channels_last, .outputs = Layout::channels_last});
    check(GetParam(), tests::Scale::tiny, DType::f32, {.inputs = Layout::contiguous, .outputs = Layout::channels_last});
    check(GetParam(), tests::Scale::tiny, DType::f32, {.inputs = Layout::channels_last, .outputs = Layout::contiguous});
}
TEST_P(CpuRow, OtherDtypes) {
    check(GetParam(), tests::Scale::tiny, DType::f64, {.threads = 3});
    check(GetParam(), tests::Scale::tiny, DType::f16, {});
    check(GetParam(), tests::Scale::tiny, DType::bf16, {});
}

std::vector<std::string> names() {
    std::vector<std::string> list;
    for (const auto& [name, text] : tests::rows()) list.emplace_back(name);
    return list;
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuRow, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transfuse
