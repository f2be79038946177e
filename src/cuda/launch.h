// A launch with its kernel loaded and its argument block laid out; launching fills in addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "cuda/assemble.h"
#include "cuda/runtime/driver.h"

namespace transfuse::cuda {

// A block of argument bytes, where in it addresses go, and where each parameter begins.
struct Ready {
    CUfunction function = nullptr;
    CUlaunchConfig config{};
    CUlaunchAttribute attributes[2]{};
    struct Patch {
        uint32_t at;
        int map;  // of `maps`: the map of a tensor goes there; -1: the address
        Address address;
    };
    std::span<std::byte> block;
    std::span<uint32_t> parameters;
    std::span<Patch> patches;
    std::span<BoxedTensor> maps;
    bool once = false;                    // skipped when a frozen executable has prepared
    std::unique_ptr<std::byte[]> memory;  // of the four lists
};

Ready make_ready(const BoundLaunch& bound, const Device& device);

void encode_boxes(std::byte* to, char* address, const BoxedTensor& tensor);
void enqueue(const Ready& ready, std::byte* block, void** parameters, CUstream stream, bool first);

// base(address): where the memory an address lies in begins. first: nothing of this executable is on the stream yet.
// False where there is nothing to launch.
template <class Base>
bool launch(const Ready& ready, const Base& base, CUstream stream, bool first) {
    if (ready.config.gridDimX == 0) return false;
    constexpr size_t line = 64;  // maps begin on such boundaries
    alignas(line) std::byte small[2048];
    void* small_parameters[96];
    std::vector<std::byte> large;
    std::vector<void*> large_parameters;
    std::byte* block = small;
    void** parameters = small_parameters;
    if (ready.block.size() > sizeof small) {
        large.resize(ready.block.size() + line);
        block = large.data() + (line - reinterpret_cast<uintptr_t>(large.data()) % line) % line;
    }
    if (ready.parameters.size() > 96)
        large_parameters.resize(ready.parameters.size()), parameters = large_parameters.data();
    std::memcpy(block, ready.block.data(), ready.block.size());
    for (const Ready::Patch& patch : ready.patches) {
        char* address = base(patch.address) + patch.address.offset;
        if (patch.map >= 0)
            encode_boxes(block + patch.at, address, ready.maps[static_cast<size_t>(patch.map)]);
        else
            std::memcpy(block + patch.at, &address, sizeof address);
    }
    enqueue(ready, block, parameters, stream, first);
    return true;
}

}  // namespace transfuse::cuda
