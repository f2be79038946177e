#include "cuda/runtime/launch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "cuda/runtime/module.h"

namespace transfuse::cuda {

namespace {

constexpr uint32_t address_bytes = 8, map_bytes = 128, map_boundary = 64;
constexpr uint32_t widest = 16;  // boundary of a plain argument

uint32_t rounded_up(uint32_t bytes, uint32_t boundary) { return (bytes + boundary - 1) / boundary * boundary; }

// Room for all lists at once. (Those of the widest elements first.)
void give_room(Ready& ready, size_t maps, size_t patches, size_t parameters, size_t plain) {
    size_t room = 0;
    const auto after = [&](size_t bytes) { return std::exchange(room, room + bytes); };
    const size_t maps_at = after(maps * sizeof(TmaTensor)), patches_at = after(patches * sizeof(Ready::Patch)),
                 parameters_at = after(parameters * sizeof(uint32_t)), plain_at = after(plain);
    ready.memory = std::make_unique<std::byte[]>(room);
    std::byte* const memory = ready.memory.get();
    const auto list = [&]<class T>(size_t at, size_t count, std::span<T>& to) {
        T* const first = reinterpret_cast<T*>(memory + at);
        std::uninitialized_default_construct_n(first, count);
        to = {first, count};
    };
    list(maps_at, maps, ready.maps), list(patches_at, patches, ready.patches);
    list(parameters_at, parameters, ready.parameters);
    ready.plain = {memory + plain_at, plain};
}

}  // namespace

Ready laid_out(const BoundLaunch& bound) {
    using Kind = Argument::Kind;
    const Arguments& arguments = bound.launch.arguments;
    Few<uint32_t, 64> begins;  // of a plain argument; of an address or a map how many are before it
    uint32_t plain = 0, addresses = 0, maps = 0;
    for (const Argument& argument : arguments) {
        if (argument.kind == Kind::bytes) {
            const auto size = static_cast<uint32_t>(argument.size);
            begins.push_back(rounded_up(plain, std::min(std::bit_ceil(size), widest)));
            plain = begins.back() + size;
        } else {
            begins.push_back((argument.kind == Kind::boxes ? maps : addresses)++);
        }
    }
    const uint32_t addresses_at = rounded_up(plain, address_bytes);
    const uint32_t maps_at = rounded_up(addresses_at + addresses * address_bytes, map_boundary);
    Ready ready;
    ready.block_bytes = maps_at + maps * map_bytes;
    give_room(ready, maps, bound.addresses.size(), arguments.size(), plain);
    for (size_t i = 0, pointer = 0; i < arguments.size(); ++i) {
        const Argument& argument = arguments[i];
        uint32_t at = begins[i];
        if (argument.kind == Kind::bytes) {
            std::memcpy(ready.plain.data() + at, argument.data.data(), static_cast<size_t>(argument.size));
        } else {
            const bool boxes = argument.kind == Kind::boxes;
            if (boxes) std::memcpy(&ready.maps[at], argument.data.data(), sizeof(TmaTensor));
            const int map = boxes ? static_cast<int>(at) : -1;
            at = boxes ? maps_at + at * map_bytes : addresses_at + at * address_bytes;
            ready.patches[pointer] = {at, map, bound.addresses[pointer]};
            ++pointer;
        }
        ready.parameters[i] = at;
    }
    return ready;
}

Ready make_ready(const BoundLaunch& bound, const Device& device) {
    const Launch& launch = bound.launch;
    Ready ready = laid_out(bound);
    ready.function = kernel(launch.source, device, launch.shared_bytes).function;
    ready.grid = launch.grid, ready.block = launch.block;
    ready.shared_bytes = launch.shared_bytes, ready.cluster = launch.cluster;
    ready.early = launch.early && device.arch >= 90, ready.once = launch.parameters_only;
    return ready;
}

void encode_boxes(std::byte* to, char* address, const TmaTensor& tensor) {
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
    CUlaunchAttribute attributes[2]{};
    CUlaunchConfig config{ready.grid[0],  ready.grid[1],      ready.grid[2], ready.block[0], ready.block[1],
                          ready.block[2], ready.shared_bytes, stream,        attributes,     0};
    if (ready.cluster > 1) {
        CUlaunchAttribute& a = attributes[config.numAttrs++];
        a.id = CUlaunchAttribute::cluster_dimension;
        a.value.cluster = {ready.cluster, 1, 1};
    }
    // The first launch follows work of others, which says nothing about when it is safe to begin.
    if (ready.early && !first) {
        CUlaunchAttribute& a = attributes[config.numAttrs++];
        a.id = CUlaunchAttribute::programmatic_stream_serialization;
        a.value.allowed = 1;
    }
    if (CUresult result = driver().cuLaunchKernelEx(&config, ready.function, parameters, nullptr); result != 0)
        check(result, "cuLaunchKernelEx");
}

}  // namespace transfuse::cuda
