// From source to something that can be launched: compile (or take from the cache), load into a context, look up the
// kernel.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cuda/kernel/kernel.h"
#include "cuda/runtime/driver.h"
#include "cuda/runtime/nvrtc.h"

namespace transfuse::cuda {

// What ptxas made of a kernel.
struct Resources {
    int registers = 0;
    int spill_bytes = 0;
    int shared_bytes = 0;  // static
    int max_threads = 0;
};
Resources resources_in(const std::string& log, const std::string& entry);  // from NVRTC's log
std::string to_string(const Resources& resources);

// Compiled code from memory, disk or the compiler. No device is needed. TRANSFUSE_DUMP_DIR: sources are written there.
std::shared_ptr<const Binary> compiled(const Source& source, int arch);
// All of them, several at a time; throws the first Error.
void compile_all(std::span<const std::shared_ptr<const Source>> sources, int arch);

struct Kernel {
    CUfunction function = nullptr;
    Resources resources;
};
// The kernel of a source on a device: loaded once per process. Dynamic shared memory is enabled up to what is asked
// for.
const Kernel& kernel(const std::shared_ptr<const Source>& source, const Device& device, uint32_t dynamic_shared_bytes);

}  // namespace transfuse::cuda
