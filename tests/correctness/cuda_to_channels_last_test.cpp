// Inputs that are laid channels last before a dense pass reads them: which are, and that the pass reads the copy.
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

std::string convolution(const char* x, const char* w, const char* how, const char* chain = "%z = relu(%y)") {
    return std::string("graph g {\n  %x = input f32[") + x + "]\n  %w = param f32[" + w +
           "]\n  %y = conv_transpose(%x, %w)" + how + "\n  " + chain + "\n  return %z\n}\n";
}

Target small_device() {
    Target target;
    target.multiprocessors = 3;
    return target;
}

HostCase laid(const std::string& text, Fp32Precision precision = Fp32Precision::tf32, Target target = small_device()) {
    static uint64_t seed = 11;
    const Graph graph = parse(text);
    return make(graph, random_leaves(graph, ++seed), false, true, target, precision, "dense");
}

int64_t copies(const HostCase& made) {
    int64_t count = 0;
    for (const BoundLaunch& bound : made.assembly.launches)
        count += bound.launch.source->entry == "transfuse_to_channels_last";
    return count;
}

const std::string odd_rows = convolution("3,40,5,7", "40,24,4,4", " stride=[2,2] padding=[1,1]");

TEST(ToChannelsLast, inputs_whose_rows_begin_anywhere) {
    EXPECT_EQ(copies(laid(odd_rows)), 1);
    EXPECT_EQ(copies(laid(with(odd_rows, "f32", "f16"))), 1);
    EXPECT_EQ(copies(laid(with(odd_rows, "5,7", "5,8"))), 0);     // boxes of rows
    EXPECT_EQ(copies(laid(with(odd_rows, "5,7", "5,71"))), 0);    // lines
    EXPECT_EQ(copies(laid(with(odd_rows, "40,", "24,"))), 0);     // few channels
    EXPECT_EQ(copies(laid(odd_rows, Fp32Precision::strict)), 0);  // halves of them, which warps make
    Target portable = small_device();
    portable.portable_only = true;
    EXPECT_EQ(copies(laid(odd_rows, Fp32Precision::tf32, portable)), 0);
}

TEST(ToChannelsLast, is_read_by_products_and_chains) {
    std::vector<HostCase> cases;
    for (const char* dtype : {"f32", "f16", "bf16"})
        for (const std::string& text :
             {odd_rows, convolution("2,40,1,3", "40,8,1,2", ""),
              convolution("2,40,35", "40,40,5", " stride=[3] padding=[1]"),
              convolution("2,48,3,2,5", "48,8,3,3,3", " stride=[2,1,2] padding=[1,1,1]"),
              convolution("1,64,6,6", "64,64,3,3", " padding=[1,1]", "%z = add(%y, %x)"),
              convolution("2,80,7,9", "80,12,3,3", " dilation=[2,1]", "%r = relu(%y)\n  %z = mean(%r) dims=[2,3]"),
              convolution("2,64,5,7", "64,8,3,3", " groups=2")})
            cases.push_back(laid(with(text, "f32", dtype)));
    int64_t count = 0;
    for (const HostCase& made : cases) count += copies(made);
    EXPECT_EQ(count, 16);  // where it is estimated to pay
    check(cases, 6e-3);
}

}  // namespace
}  // namespace transfuse::cuda
