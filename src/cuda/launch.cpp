#include "cuda/launch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/runtime/module.h"

namespace transfuse::cuda {

namespace {

constexpr size_t map_bytes = 128;  // of a tensor map

// Where parameters begin, and room for all lists at once: every size keeps its own. (Those of the widest elements
// first.)
void give_room(Ready& ready, const Arguments& arguments, size_t pointers) {
    size_t end = 0, maps = 0;
    Few<uint32_t, 64> begin;
    for (const Argument& argument : arguments) {
        const bool boxes = argument.kind == Argument::Kind::boxes;
        const size_t boundary = boxes ? 64 : 16;
        end = (end + boundary - 1) / boundary * boundary;
        begin.push_back(static_cast<uint32_t>(end));
        end += boxes ? map_bytes : argument.kind == Argument::Kind::bytes ? static_cast<size_t>(argument.size) : 8;
        maps += boxes;
    }
    size_t room = 0;
    const auto after = [&](size_t bytes) { return std::exchange(room, room + bytes); };
    const size_t maps_at = after(maps * sizeof(BoxedTensor)), patches_at = after(pointers * sizeof(Ready::Patch)),
                 parameters_at = after(begin.size() * sizeof(uint32_t)), block_at = after(end);
    ready.memory = std::make_unique<std::byte[]>(room);
    std::byte* const memory = ready.memory.get();
    const auto list = [&]<class T>(size_t at, size_t count, std::span<T>& to) {
        T* const first = reinterpret_cast<T*>(memory + at);
        std::uninitialized_default_construct_n(first, count);
        to = {first, count};
    };
    list(maps_at, maps, ready.maps), list(patches_at, pointers, ready.patches);
    list(parameters_at, begin.size(), ready.parameters);
    ready.block = {memory + block_at, end};
    std::copy(begin.begin(), begin.end(), ready.parameters.begin());
}

}  // namespace

Ready make_ready(const BoundLaunch& bound, const Device& device) {
    const Launch& launch = bound.launch;
    Ready ready;
    ready.function = kernel(launch.source, device, launch.shared_bytes).function;
    ready.once = launch.parameters_only;
    CUlaunchConfig& config = ready.config;
    config.gridDimX = launch.grid[0], config.gridDimY = launch.grid[1], config.gridDimZ = launch.grid[2];
    config.blockDimX = launch.block[0], config.blockDimY = launch.block[1], config.blockDimZ = launch.block[2];
    config.sharedMemBytes = launch.shared_bytes;
    if (launch.cluster > 1) {
        CUlaunchAttribute& a = ready.attributes[config.numAttrs++];
        a.id = CUlaunchAttribute::cluster_dimension;
        a.value.cluster = {launch.cluster, 1, 1};
    }
    if (launch.early && device.arch >= 90) {
        CUlaunchAttribute& a = ready.attributes[config.numAttrs++];
        a.id = CUlaunchAttribute::programmatic_stream_serialization;
        a.value.allowed = 1;
    }
    give_room(ready, launch.arguments, bound.addresses.size());
    size_t maps = 0, pointer = 0;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
        const Argument& argument = launch.arguments[i];
        const uint32_t at = ready.parameters[i];
        if (argument.kind == Argument::Kind::bytes) {
            std::memcpy(ready.block.data() + at, argument.data.data(), static_cast<size_t>(argument.size));
            continue;
        }
        const bool boxes = argument.kind == Argument::Kind::boxes;
        ready.patches[pointer] = {at, boxes ? static_cast<int>(maps) : -1, bound.addresses[pointer]};
        ++pointer;
        if (boxes) std::memcpy(&ready.maps[maps++], argument.data.data(), sizeof(BoxedTensor));
    }
    return ready;
}

void encode_boxes(std::byte* to, char* address, const BoxedTensor& tensor) {
    // The driver's numbers for element types; no interleaving, 256-byte requests to L2, zeros outside.
    const int type = tensor.dtype == DType::f16 ? 6 : tensor.dtype == DType::bf16 ? 9 : tensor.rounds_to_tf32 ? 11 : 7;
    uint64_t extent[5], stride[4];
    unsigned box[5];
    const unsigned ones[5] = {1, 1, 1, 1, 1};
    for (size_t k = 0; k < 5; ++k)
        extent[k] = static_cast<uint64_t>(tensor.extent[k]), box[k] = static_cast<unsigned>(tensor.box[k]);
    for (size_t k = 0; k < 4; ++k) stride[k] = static_cast<uint64_t>(tensor.stride[k]);
    check(driver().cuTensorMapEncodeTiled(to, type, 5, address, extent, stride, box, ones, 0, tensor.swizzle, 3, 0),
          "cuTensorMapEncodeTiled");
}

void enqueue(const Ready& ready, std::byte* block, void** parameters, CUstream stream, bool first) {
    for (size_t i = 0; i < ready.parameters.size(); ++i) parameters[i] = block + ready.parameters[i];
    CUlaunchConfig config = ready.config;
    CUlaunchAttribute attributes[2] = {ready.attributes[0], ready.attributes[1]};
    config.attrs = attributes;
    config.hStream = stream;
    // The first launch follows work of others, which says nothing about when it is safe to begin.
    if (first && config.numAttrs > 0 &&
        attributes[config.numAttrs - 1].id == CUlaunchAttribute::programmatic_stream_serialization)
        --config.numAttrs;
    if (CUresult result = driver().cuLaunchKernelEx(&config, ready.function, parameters, nullptr); result != 0)
        check(result, "cuLaunchKernelEx");
}

}  // namespace transfuse::cuda
