// A launch with its kernel loaded and its arguments laid out; launching fills in addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "cuda/kernel/kernel.h"
#include "cuda/runtime/driver.h"

namespace transfuse::cuda {

// Every size that a program meets keeps its own: of addresses and of tensors' maps, which are written when it is
// launched, only where they go.
struct Ready {
    CUfunction function = nullptr;
    std::array<uint32_t, 3> grid{}, block{};
    uint32_t shared_bytes = 0, cluster = 1;
    bool early = false;
    bool once = false;  // skipped when a frozen executable has prepared
    struct Patch {
        uint32_t at;
        int map;  // of `maps`: the map of a tensor goes there; -1: the address
        Address address;
    };
    std::span<std::byte> plain;           // what the block of arguments begins with: those that are no addresses
    uint32_t block_bytes = 0;             // of all
    std::span<uint32_t> parameters;       // where in the block each begins
    std::span<Patch> patches;             // what is written behind the plain ones
    std::span<TmaTensor> maps;            // of tensors
    std::unique_ptr<std::byte[]> memory;  // of the four lists
    size_t bytes() const {
        return sizeof *this + plain.size() + parameters.size_bytes() + patches.size_bytes() + maps.size_bytes();
    }
};

// The arguments of a launch.
Ready laid_out(const BoundLaunch& bound);
// With the kernel, and how it is launched.
Ready make_ready(const BoundLaunch& bound, const Device& device);

void encode_boxes(std::byte* to, char* address, const TmaTensor& tensor);
void enqueue(const Ready& ready, std::byte* block, void** parameters, CUstream stream, bool first);

// base(address): where the memory an address lies in begins.
template <class Base>
void fill(std::byte* block, const Ready& ready, const Base& base) {
    if (!ready.plain.empty()) std::memcpy(block, ready.plain.data(), ready.plain.size());
    for (const Ready::Patch& patch : ready.patches) {
        char* address = base(patch.address) + patch.address.offset;
        if (patch.map >= 0)
            encode_boxes(block + patch.at, address, ready.maps[static_cast<size_t>(patch.map)]);
        else
            std::memcpy(block + patch.at, &address, sizeof address);
    }
}

// first: nothing of this executable is on the stream yet. False where there is nothing to launch.
template <class Base>
bool launch(const Ready& ready, const Base& base, CUstream stream, bool first) {
    if (ready.grid[0] == 0) return false;
    constexpr size_t line = 64;  // maps begin on such boundaries
    alignas(line) std::byte small[2048];
    void* small_parameters[96];
    std::vector<std::byte> large;
    std::vector<void*> large_parameters;
    std::byte* block = small;
    void** parameters = small_parameters;
    if (ready.block_bytes > sizeof small) {
        large.resize(ready.block_bytes + line);
        block = large.data() + (line - reinterpret_cast<uintptr_t>(large.data()) % line) % line;
    }
    if (ready.parameters.size() > 96)
        large_parameters.resize(ready.parameters.size()), parameters = large_parameters.data();
    fill(block, ready, base);
    enqueue(ready, block, parameters, stream, first);
    return true;
}

}  // namespace transfuse::cuda
