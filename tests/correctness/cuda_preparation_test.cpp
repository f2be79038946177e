// Packed weights of many passes: some at a time, in memory that later ones take over.
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

// Convolutions one behind the other; the weight of each is scaled by a parameter, as weight norm does.
std::string chain(int convolutions) {
    std::string text = "graph g {\n  %x0 = input f32[2,16,9,16]\n";
    for (int i = 0; i < convolutions; ++i) {
        const std::string n = std::to_string(i);
        text += "  %w" + n + " = param f32[16,16,3,3]\n  %g" + n + " = param f32[16,1,1,1]\n";
    }
    for (int i = 0; i < convolutions; ++i) {
        const std::string n = std::to_string(i), next = std::to_string(i + 1);
        text += "  %s" + n + " = mul(%w" + n + ", %g" + n + ")\n  %y" + n + " = conv(%x" + n + ", %s" + n +
                ") padding=[1,1]\n  %x" + next + " = relu(%y" + n + ")\n";
    }
    return text + "  return %x" + std::to_string(convolutions) + "\n}\n";
}

constexpr int64_t packed = 64 * 16 * 9 * 4;  // bytes of a weight, whose rows are filled up

HostCase together(int64_t bytes, bool freeze = false) {
    const Graph graph = parse(chain(5));
    HostCase c = make(graph, random_leaves(graph, 7), false, true, Target{}, Fp32Precision::tf32);
    Options options;
    options.precision = Fp32Precision::tf32;
    options.leaf_strides = c.leaf_strides, options.output_strides = c.output_strides;
    options.prepared_together = bytes, options.freeze = freeze;
    c.assembly = assemble(c.plan, options, Target{}, true);
    return c;
}

int preparations(const HostCase& c) {
    return static_cast<int>(std::ranges::count_if(c.assembly.launches, [](const BoundLaunch& b) {
        return b.launch.source->text.find("prepare") != std::string::npos;
    }));
}

TEST(Preparation, of_some_weights_at_a_time_takes_their_memory_alone) {
    const HostCase all = together(int64_t{1} << 40), two = together(2 * packed), each = together(1);
    ASSERT_EQ(kernels_named(all.assembly, "transfuse_dense"), 5);
    const int at_once = preparations(all);
    EXPECT_EQ(preparations(two), at_once + 2);
    EXPECT_EQ(preparations(each), at_once + 4);
    EXPECT_LE(two.assembly.workspace_bytes + 3 * packed, all.assembly.workspace_bytes);
    EXPECT_LE(each.assembly.workspace_bytes + 4 * packed, all.assembly.workspace_bytes);
    check({all, two, each}, 3e-3);
}

TEST(Preparation, that_is_kept_is_made_once) {
    const HostCase frozen = together(1, true), all = together(int64_t{1} << 40);
    EXPECT_EQ(preparations(frozen), preparations(all));
    EXPECT_GE(frozen.assembly.kept_bytes, size_t{5 * packed});
    check({frozen}, 3e-3);
}

}  // namespace
}  // namespace transfuse::cuda
