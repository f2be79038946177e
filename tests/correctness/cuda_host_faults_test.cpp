// The host machine (tests/cuda_host) faults where a device would, and says why: kernels that pass there are kernels
// whose copies a device takes.
#include <numeric>

#include "cuda/kernel/expression.h"
#include "cuda/kernel/warpgroup_code.h"
#include "cuda_host/cases.h"

namespace transfuse::cuda {
namespace {

// One block of one thread does `what` with boxes of 8 numbers by 2 rows of x, 32 by 4, and of y, as large.
class Boxes {
public:
    explicit Boxes(const std::string& what, int64_t row_bytes = 128) {
        TmaTensor tensor;
        tensor.extent = {32, 4, 1, 1, 1}, tensor.box = {8, 2, 1, 1, 1}, tensor.stride = {row_bytes, 512, 512, 512};
        const std::string text =
            std::string(device_math()) + std::string(ptx_code()) + warpgroup_code("tf32", 4, LeftFactor::registers) +
            "extern \"C\" __global__ void tf_boxes(const TensorMap x, const TensorMap y, const float* p) {\n    extern "
            "__shared__ __align__(1024) unsigned char shared[];\n    const unsigned at = shared_address(shared);\n   "
            " " +
            what + "\n}\n";
        Launch launch;
        launch.source = std::make_shared<const Source>(Source{"tf_boxes", text, {}});
        launch.grid = {1, 1, 1}, launch.block = {1, 1, 1}, launch.shared_bytes = 4096;
        launch.arguments = {Argument::of_boxes(0, 0, tensor), Argument::of_boxes(1, 0, tensor), Argument::of_value(0)};
        const Address x{Address::Kind::leaf}, y{Address::Kind::output};
        assembly_.launches.push_back({launch, {x, y, x}, 0});
        kernels_.add(launch);
        kernels_.build(shim_folder);
    }

    std::vector<double> run() {
        const Graph graph = parse("graph g {\n  %x = input f32[4,32]\n  %y = relu(%x)\n  return %y\n}\n");
        std::vector<double> x(128);
        std::iota(x.begin(), x.end(), 0.0);
        return kernels_.run(graph, assembly_, {{32, 1}}, {{32, 1}}, {x})[0];
    }

private:
    Assembly assembly_;
    HostKernels kernels_;
};

void expect_fault(const std::string& what, const char* why, int64_t row_bytes = 128) {
    Boxes boxes(what, row_bytes);
    EXPECT_DEATH(boxes.run(), why) << what;
}

TEST(HostFaults, none_where_all_is_well) {
    const auto y = Boxes("copy_box(at, &x, 4, 0, 0, 0, 0, 0);  store_box(&y, at, 4, 0, 0, 0, 0);").run();
    EXPECT_EQ(y[4], 4);
    EXPECT_EQ(y[32 + 11], 32 + 11);
    EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[12]) && std::isnan(y[64 + 4]));
}
TEST(HostFaults, a_box_begins_on_16_bytes) {
    expect_fault("copy_box(at, &x, 3, 0, 0, 0, 0, 0);", "a box begins beside 16 bytes");
    expect_fault("store_box(&y, at, 3, 0, 0, 0, 0);", "a box begins beside 16 bytes");
}
TEST(HostFaults, a_box_lies_on_128_bytes_of_shared_memory) {
    expect_fault("copy_box(at + 64, &x, 4, 0, 0, 0, 0, 0);", "beside 128 bytes");
    expect_fault("store_box(&y, at + 64, 4, 0, 0, 0, 0);", "beside 128 bytes");
}
TEST(HostFaults, rows_lie_multiples_of_16_bytes_apart) {
    expect_fault("store_box(&y, at, 4, 0, 0, 0, 0);", "multiple of 16 bytes apart", 124);
}
TEST(HostFaults, copies_are_aligned) {
    expect_fault("copy_16(at, p + 1, true);", "no multiple of its bytes");
    expect_fault("copy_8(at + 4, p, true);", "no multiple of its bytes");
    expect_fault("copy_bulk(at, p + 2, 64, 0);", "no multiple of its bytes");
}

}  // namespace
}  // namespace transfuse::cuda
