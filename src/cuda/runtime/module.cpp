#include "cuda/runtime/module.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "cuda/runtime/cache.h"
#include "cuda/runtime/side_by_side.h"
#include "transfuse/error.h"
#include "transfuse/recent.h"

namespace transfuse::cuda {

namespace {

// Bump when the meaning of cached bytes changes.
constexpr const char* format = "transfuse-1";

std::string key_of(const Source& source, int arch) {
    std::string key =
        std::string(format) + "|nvrtc " + nvrtc_version() + "|" + arch_option(arch) + "|" + source.entry + "|";
    for (const std::string& option : source.options) key += option + "|";
    return key + "\n" + source.text;
}

// The number that stands before `what` in a line of ptxas.
int number_before(const std::string& text, size_t from, size_t to, const char* what) {
    const size_t at = text.find(what, from);
    if (at == std::string::npos || at >= to) return 0;
    size_t begin = at;
    while (begin > from && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
    return begin == at ? 0 : std::atoi(text.c_str() + begin);
}

void dump(const Source& source, const std::string& key) {
    const char* folder = std::getenv("TRANSFUSE_DUMP_DIR");
    if (!folder || !*folder) return;
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    std::ofstream(std::filesystem::path(folder) / (source.entry + "-" + hash_name(key).substr(0, 12) + ".cu"))
        << source.text;
}

// TRANSFUSE_LOG=1: what the compiler did. Kernels that call a division routine always show a few saved bytes.
void warn_of_spills(const Source& source, const Binary& binary) {
    const char* log = std::getenv("TRANSFUSE_LOG");
    if (!log || log[0] != '1') return;
    const Resources resources = resources_in(binary.log, source.entry);
    if (resources.spill_bytes > 0)
        std::fprintf(stderr, "transfuse: warning: CUDA kernel %s spills %d bytes of registers to memory\n",
                     source.entry.c_str(), resources.spill_bytes);
}

// cubin and log in one cache entry.
std::string packed(const Binary& binary) {
    return std::to_string(binary.log.size()) + "\n" + binary.log + binary.cubin;
}
bool unpack(const std::string& bytes, Binary& binary) {
    const size_t end = bytes.find('\n');
    if (end == std::string::npos || end > 12) return false;
    const size_t length = static_cast<size_t>(std::atoll(bytes.c_str()));
    if (end + 1 + length > bytes.size()) return false;
    binary.log = bytes.substr(end + 1, length);
    binary.cubin = bytes.substr(end + 1 + length);
    return !binary.cubin.empty();
}

// One slot a key while it is compiled, so that two threads never compile the same source at once and different sources
// do not wait. What was compiled last is found again; what was long ago is on disk.
std::mutex slots_mutex;
std::unordered_map<std::string, std::shared_ptr<std::mutex>> slots;
Recent<std::string, std::shared_ptr<const Binary>> binaries(size_t{64} << 20);

std::shared_ptr<const Binary> remembered(const std::string& key) {
    const std::lock_guard lock(slots_mutex);
    const auto* const found = binaries.find(key);
    return found != nullptr ? *found : nullptr;
}

std::shared_ptr<const Binary> remember(const std::string& key, Binary binary) {
    const size_t bytes = key.size() + binary.cubin.size() + binary.log.size();
    auto fresh = std::make_shared<const Binary>(std::move(binary));
    std::vector<std::shared_ptr<const Binary>> dropped;
    const std::lock_guard lock(slots_mutex);
    dropped = binaries.put(key, fresh, bytes);
    return fresh;
}

struct Compiling {
    const std::string& key;
    ~Compiling() {
        const std::lock_guard lock(slots_mutex);
        slots.erase(key);
    }
};

}  // namespace

Resources resources_in(const std::string& log, const std::string& entry) {
    Resources resources;
    const size_t at = log.find("Compiling entry function '" + entry + "'");
    if (at == std::string::npos) return resources;
    size_t to = log.find("Compiling entry function", at + 10);
    if (to == std::string::npos) to = log.size();
    resources.registers = number_before(log, at, to, " registers");
    resources.spill_bytes =
        number_before(log, at, to, " bytes spill stores") + number_before(log, at, to, " bytes spill loads");
    resources.shared_bytes = number_before(log, at, to, " bytes smem");
    return resources;
}

std::string to_string(const Resources& r) {
    std::string text = std::to_string(r.registers) + " registers";
    if (r.shared_bytes) text += ", " + std::to_string(r.shared_bytes) + " B shared";
    if (r.spill_bytes) text += ", " + std::to_string(r.spill_bytes) + " B spilled";
    return text;
}

std::shared_ptr<const Binary> compiled(const Source& source, int arch) {
    const std::string key = key_of(source, arch);
    std::shared_ptr<std::mutex> slot;
    {
        std::lock_guard lock(slots_mutex);
        if (const auto* const found = binaries.find(key)) return *found;
        std::shared_ptr<std::mutex>& entry = slots[key];
        if (!entry) entry = std::make_shared<std::mutex>();
        slot = entry;
    }
    std::lock_guard lock(*slot);
    const Compiling compiling{key};
    if (auto binary = remembered(key)) return binary;
    dump(source, key);
    Binary binary;
    if (auto bytes = cache_load(key); !bytes || !unpack(*bytes, binary)) {
        binary = nvrtc_compile(source, arch);
        warn_of_spills(source, binary);
        cache_store(key, packed(binary));
    }
    return remember(key, std::move(binary));
}

void compile_all(std::span<const std::shared_ptr<const Source>> sources, int arch) {
    side_by_side(sources.size(), [&](size_t i) { compiled(*sources[i], arch); });
}

const Kernel& kernel(const std::shared_ptr<const Source>& shared, const Device& device, uint32_t dynamic_shared_bytes) {
    struct Entry {
        Kernel kernel;
        uint32_t shared = 0;
    };
    static std::mutex mutex;
    static std::map<std::pair<CUcontext, std::string>, std::unique_ptr<Entry>> kernels;
    // The same sources come again with new sizes: their texts need not be compared. (They are held, so that no other
    // has the address of one.)
    struct Hash {
        size_t operator()(const std::pair<CUcontext, const Source*>& key) const {
            return std::hash<CUcontext>{}(key.first) * 31 + std::hash<const Source*>{}(key.second);
        }
    };
    static Recent<std::pair<CUcontext, const Source*>, std::pair<std::shared_ptr<const Source>, Entry*>, Hash> met(
        size_t{16} << 20);
    const Source& source = *shared;
    {
        std::lock_guard lock(mutex);
        const auto* const known = met.find(std::pair{device.context, &source});
        if (known != nullptr && dynamic_shared_bytes <= known->second->shared) return known->second->kernel;
    }
    const std::string key = key_of(source, device.arch);
    std::shared_ptr<const Binary> binary = compiled(source, device.arch);
    std::lock_guard lock(mutex);
    std::unique_ptr<Entry>& entry = kernels[{device.context, key}];
    const Driver& d = driver();
    ContextGuard guard(device);
    if (!entry) {
        auto fresh = std::make_unique<Entry>();
        CUmodule module = nullptr;
        check(d.cuModuleLoadData(&module, binary->cubin.data()), "cuModuleLoadData");
        check(d.cuModuleGetFunction(&fresh->kernel.function, module, source.entry.c_str()), "cuModuleGetFunction");
        Resources& r = fresh->kernel.resources;
        check(d.cuFuncGetAttribute(&r.registers, attribute::registers, fresh->kernel.function), "cuFuncGetAttribute");
        check(d.cuFuncGetAttribute(&r.spill_bytes, attribute::local_bytes, fresh->kernel.function),
              "cuFuncGetAttribute");
        check(d.cuFuncGetAttribute(&r.shared_bytes, attribute::shared_static, fresh->kernel.function),
              "cuFuncGetAttribute");
        check(d.cuFuncGetAttribute(&r.max_threads, attribute::max_threads, fresh->kernel.function),
              "cuFuncGetAttribute");
        entry = std::move(fresh);
    }
    if (dynamic_shared_bytes > entry->shared) {
        if (dynamic_shared_bytes + static_cast<uint32_t>(entry->kernel.resources.shared_bytes) > 48 * 1024)
            check(d.cuFuncSetAttribute(entry->kernel.function, attribute::max_dynamic_shared,
                                       static_cast<int>(dynamic_shared_bytes)),
                  "cuFuncSetAttribute(dynamic shared memory)");
        entry->shared = dynamic_shared_bytes;
    }
    std::ignore = met.put({device.context, &source}, {shared, entry.get()}, source.text.size());
    return entry->kernel;
}

}  // namespace transfuse::cuda
