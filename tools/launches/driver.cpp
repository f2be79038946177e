// A CUDA driver that computes nothing: it writes down what it is asked to load and to launch, with every argument.
// Beside it (launches.py) the launches of two programs can be compared on a machine without a GPU.
//
// FAILS=FUNCTION makes a function fail.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

int said(const char* name) {
    const char* fails = std::getenv("FAILS");
    return fails && !std::strcmp(fails, name) ? 700 : 0;
}

uint64_t hash(const void* data, size_t size, uint64_t value = 0xcbf29ce484222325u) {
    for (size_t i = 0; i < size; ++i) value = (value ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
    return value;
}
template <class... T>
uint64_t hash_of(const T&... facts) {
    uint64_t value = 0xcbf29ce484222325u;
    ((value = hash(&facts, sizeof facts, value)), ...);
    return value;
}

template <class T>
T at(const char* where) {
    T value;
    std::memcpy(&value, where, sizeof value);
    return value;
}

struct Module {
    const char* image;
    size_t size;
};
struct Function {
    std::string name;
    uint64_t code;               // the hash of its machine code, whole
    std::vector<int> sizes;      // of its parameters
    unsigned shared = 48 << 10;  // the most dynamic shared memory that it may be launched with
};

// The sizes of a kernel's parameters stand in the section .nv.info.KERNEL: records of a format, an attribute and a
// number, or, of format 4, a length and as many bytes. Attribute 23 tells of a parameter: index, place, offset, flags.
std::vector<int> parameters(const char* elf, const std::string& kernel) {
    const auto sections = at<uint64_t>(elf + 40);
    const auto section = [&](unsigned i) { return elf + sections + i * size_t{at<uint16_t>(elf + 58)}; };
    const char* names = elf + at<uint64_t>(section(at<uint16_t>(elf + 62)) + 24);
    std::map<int, int> found;
    for (unsigned i = 0; i < at<uint16_t>(elf + 60); ++i) {
        if (names + at<uint32_t>(section(i)) != ".nv.info." + kernel) continue;
        const char* p = elf + at<uint64_t>(section(i) + 24);
        const char* end = p + at<uint64_t>(section(i) + 32);
        while (p < end) {
            const int format = p[0], attribute = p[1];
            if (format == 4 && attribute == 23)
                found[at<uint16_t>(p + 8)] = static_cast<int>(at<uint32_t>(p + 12) >> 18);
            p += 4 + (format == 4 ? at<uint16_t>(p + 2) : 0);
        }
    }
    std::vector<int> sizes;
    for (const auto& [place, size] : found) sizes.push_back(size);
    return sizes;
}

std::mutex mutex;
std::string log, taken;

}  // namespace

extern "C" {

// What was launched since the last question, a line each.
const char* launched() {
    const std::lock_guard lock(mutex);
    taken = std::exchange(log, {});
    return taken.c_str();
}

struct Attribute {
    int id;
    char pad[4];
    unsigned value[16];
};
struct Config {
    unsigned grid[3], block[3], shared;
    void* stream;
    Attribute* attributes;
    unsigned count;
};

int cuInit(unsigned) { return said("cuInit"); }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuGetErrorName(int, const char** name) { return *name = "CUDA_ERROR_SAMPLE", 0; }
int cuGetErrorString(int, const char** text) { return *text = "as in a test", 0; }
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, 500; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, said("cuDeviceGet"); }
int cuDeviceGetName(char* name, int size, int) { return std::snprintf(name, static_cast<size_t>(size), "none"), 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {  // of an H200
    static const std::map<int, int> known = {{16, 132}, {75, 9}, {76, 0}, {97, 227 * 1024}};
    return *value = known.contains(attribute) ? known.at(attribute) : 0, 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = reinterpret_cast<void*>(8), 0; }
int cuCtxGetCurrent(void** context) { return *context = nullptr, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuCtxSynchronize() { return 0; }
int cuModuleLoadData(void** module, const void* data) {
    const char* image = static_cast<const char*>(data);
    if (std::memcmp(image, "\177ELF", 4)) return 200;
    size_t size = at<uint64_t>(image + 40) + size_t{at<uint16_t>(image + 58)} * at<uint16_t>(image + 60);
    if (const size_t headers = at<uint64_t>(image + 32) + size_t{at<uint16_t>(image + 54)} * at<uint16_t>(image + 56);
        headers > size)
        size = headers;
    char* copy = static_cast<char*>(std::malloc(size));
    std::memcpy(copy, image, size);
    *module = new Module{copy, size};
    return said("cuModuleLoadData");
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    const Module& of = *static_cast<Module*>(module);
    *function = new Function{name, hash(of.image, of.size), parameters(of.image, name)};
    return 0;
}
int cuFuncGetAttribute(int* value, int, void*) { return *value = 0, 0; }
int cuFuncSetAttribute(void* function, int attribute, int value) {
    unsigned& shared = static_cast<Function*>(function)->shared;
    if (attribute == 8) shared = std::max(shared, static_cast<unsigned>(value));
    return said("cuFuncSetAttribute");
}
int cuStreamSynchronize(void*) { return 0; }
int cuStreamIsCapturing(void*, int* state) { return *state = 0, 0; }
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuTensorMapEncodeTiled(void* to, int type, unsigned rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const unsigned* box, const unsigned* steps, int interleaved,
                           int swizzle, int requests, int outside) {
    if (reinterpret_cast<uintptr_t>(to) % 64 || reinterpret_cast<uintptr_t>(address) % 16) return 1;
    uint64_t told = hash_of(type, rank, address, interleaved, swizzle, requests, outside);
    told = hash(extents, rank * 8, told), told = hash(strides, (rank - 1) * 8, told);
    told = hash(box, rank * 4, told), told = hash(steps, rank * 4, told);
    std::memset(to, 0, 128);
    std::memcpy(to, &told, sizeof told);
    return said("cuTensorMapEncodeTiled");
}
int cuLaunchKernelEx(const Config* config, void* function, void** given, void**) {
    const Function& kernel = *static_cast<Function*>(function);
    if (config->shared > kernel.shared) return 1;
    char text[200];
    const unsigned *g = config->grid, *b = config->block;
    std::snprintf(text, sizeof text, "%s %016llx grid %u,%u,%u block %u,%u,%u shared %u", kernel.name.c_str(),
                  static_cast<unsigned long long>(kernel.code), g[0], g[1], g[2], b[0], b[1], b[2], config->shared);
    std::string line = text;
    for (unsigned i = 0; i < config->count; ++i) {
        const Attribute& a = config->attributes[i];
        line += a.id == 4 ? " cluster " + std::to_string(a.value[0]) : " attribute " + std::to_string(a.id);
    }
    for (size_t i = 0; i < kernel.sizes.size(); ++i) {
        line += i == 0 ? ":" : "";
        line += ' ';
        for (int k = 0; k < kernel.sizes[i]; ++k) {
            std::snprintf(text, sizeof text, "%02x", static_cast<unsigned char*>(given[i])[k]);
            line += text;
        }
    }
    const std::lock_guard lock(mutex);
    log += line + '\n';
    return said("cuLaunchKernelEx");
}

int cuStreamCreate(void** stream, unsigned) { return *stream = nullptr, 0; }
int cuStreamDestroy_v2(void*) { return 0; }
int cuMemAlloc_v2(unsigned long long* address, size_t) { return *address = 1 << 20, 0; }
int cuMemFree_v2(unsigned long long) { return 0; }
int cuMemcpyHtoD_v2(unsigned long long, const void*, size_t) { return 0; }
int cuMemcpyDtoH_v2(void*, unsigned long long, size_t) { return 0; }
int cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, size_t, void*) { return 0; }
int cuMemsetD8Async(unsigned long long, unsigned char, size_t, void*) { return 0; }
int cuEventCreate(void** event, unsigned) { return *event = nullptr, 0; }
int cuEventDestroy_v2(void*) { return 0; }
int cuEventRecord(void*, void*) { return 0; }
int cuEventSynchronize(void*) { return 0; }
int cuEventElapsedTime(float* ms, void*, void*) { return *ms = 0, 0; }
}
