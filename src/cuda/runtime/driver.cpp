#include "cuda/runtime/driver.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

struct Loaded {
    Driver driver{};
    bool usable = false;
    std::string reason;
};

template <class Function>
void bind(void* library, Function& function, const char* symbol, std::string& missing) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
    if (!function && missing.empty()) missing = symbol;
}

Loaded load() {
    Loaded loaded;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        loaded.reason = "the CUDA driver library libcuda.so.1 was not found (no NVIDIA driver on this machine?)";
        return loaded;
    }
    Driver& d = loaded.driver;
    std::string missing;
#define TRANSFUSE_BIND(name) bind(library, d.name, #name, missing)
#define TRANSFUSE_BIND_V2(name) bind(library, d.name, #name "_v2", missing)
    TRANSFUSE_BIND(cuInit);
    TRANSFUSE_BIND(cuDriverGetVersion);
    TRANSFUSE_BIND(cuGetErrorName);
    TRANSFUSE_BIND(cuGetErrorString);
    TRANSFUSE_BIND(cuDeviceGetCount);
    TRANSFUSE_BIND(cuDeviceGet);
    TRANSFUSE_BIND(cuDeviceGetName);
    TRANSFUSE_BIND(cuDeviceGetAttribute);
    TRANSFUSE_BIND(cuDevicePrimaryCtxRetain);
    TRANSFUSE_BIND(cuCtxGetCurrent);
    TRANSFUSE_BIND(cuCtxSetCurrent);
    TRANSFUSE_BIND(cuCtxGetDevice);
    TRANSFUSE_BIND(cuCtxSynchronize);
    TRANSFUSE_BIND(cuModuleLoadData);
    TRANSFUSE_BIND(cuModuleGetFunction);
    TRANSFUSE_BIND(cuFuncGetAttribute);
    TRANSFUSE_BIND(cuFuncSetAttribute);
    TRANSFUSE_BIND(cuLaunchKernelEx);
    TRANSFUSE_BIND(cuStreamSynchronize);
    TRANSFUSE_BIND(cuStreamIsCapturing);
    TRANSFUSE_BIND(cuThreadExchangeStreamCaptureMode);
    TRANSFUSE_BIND(cuStreamCreate);
    TRANSFUSE_BIND_V2(cuStreamDestroy);
    TRANSFUSE_BIND_V2(cuMemAlloc);
    TRANSFUSE_BIND_V2(cuMemFree);
    TRANSFUSE_BIND_V2(cuMemcpyHtoD);
    TRANSFUSE_BIND_V2(cuMemcpyDtoH);
    TRANSFUSE_BIND_V2(cuMemcpyDtoDAsync);
    TRANSFUSE_BIND(cuMemsetD8Async);
    TRANSFUSE_BIND(cuEventCreate);
    TRANSFUSE_BIND_V2(cuEventDestroy);
    TRANSFUSE_BIND(cuEventRecord);
    TRANSFUSE_BIND(cuEventSynchronize);
    TRANSFUSE_BIND(cuEventElapsedTime);
    TRANSFUSE_BIND(cuTensorMapEncodeTiled);
#undef TRANSFUSE_BIND
#undef TRANSFUSE_BIND_V2
    if (!missing.empty()) {
        loaded.reason = "the CUDA driver is too old: libcuda.so.1 has no " + missing + " (12.0 or newer is needed)";
        return loaded;
    }
    if (CUresult result = d.cuInit(0); result != 0) {
        const char* name = nullptr;
        d.cuGetErrorName(result, &name);
        loaded.reason = std::string("the CUDA driver could not be initialised: ") + (name ? name : "unknown error");
        return loaded;
    }
    int count = 0;
    if (d.cuDeviceGetCount(&count) != 0 || count == 0) {
        loaded.reason = "the CUDA driver sees no device";
        return loaded;
    }
    loaded.usable = true;
    return loaded;
}

const Loaded& loaded() {
    static const Loaded once = load();
    return once;
}

constexpr CUresult out_of_memory = 2;

// Memory is got and given back while another stream is captured: the thread says that this is no part of the capture.
class BesideCaptures {
public:
    BesideCaptures() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
    ~BesideCaptures() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
    BesideCaptures(const BesideCaptures&) = delete;
    BesideCaptures& operator=(const BesideCaptures&) = delete;

private:
    int mode_ = 2;  // relaxed; then what it was before
};

}  // namespace

const Driver* find_driver(std::string* reason) {
    const Loaded& l = loaded();
    if (!l.usable && reason) *reason = l.reason;
    return l.usable ? &l.driver : nullptr;
}

const Driver& driver() {
    const Loaded& l = loaded();
    if (!l.usable) fail("CUDA is not available: ", l.reason);
    return l.driver;
}

void check(CUresult result, const char* what) {
    if (result == 0) return;
    const char *name = nullptr, *text = nullptr;
    const Driver& d = driver();
    d.cuGetErrorName(result, &name);
    d.cuGetErrorString(result, &text);
    if (result == out_of_memory) throw OutOfMemory(what);
    fail(what, ": ", name ? name : "unknown CUDA error", " (", text ? text : "no description", ")");
}

int device_count() {
    const Driver* d = find_driver(nullptr);
    int count = 0;
    if (d) d->cuDeviceGetCount(&count);
    return count;
}

const Device& device(int ordinal) {
    static std::mutex mutex;
    static std::map<int, std::unique_ptr<Device>> devices;
    std::lock_guard lock(mutex);
    std::unique_ptr<Device>& slot = devices[ordinal];
    if (slot) return *slot;
    const Driver& d = driver();
    const int count = device_count();
    require(ordinal >= 0 && ordinal < count, "CUDA device ", ordinal, " was asked for, but there are ", count);
    auto fresh = std::make_unique<Device>();
    fresh->ordinal = ordinal;
    CUdevice handle = 0;
    check(d.cuDeviceGet(&handle, ordinal), "cuDeviceGet");
    char name[256] = {};
    check(d.cuDeviceGetName(name, sizeof name, handle), "cuDeviceGetName");
    fresh->name = name;
    int major = 0, minor = 0;
    check(d.cuDeviceGetAttribute(&major, attribute::major, handle), "cuDeviceGetAttribute");
    check(d.cuDeviceGetAttribute(&minor, attribute::minor, handle), "cuDeviceGetAttribute");
    check(d.cuDeviceGetAttribute(&fresh->multiprocessors, attribute::multiprocessors, handle), "cuDeviceGetAttribute");
    check(d.cuDeviceGetAttribute(&fresh->shared_bytes, attribute::shared_per_block_optin, handle),
          "cuDeviceGetAttribute");
    fresh->arch = major * 10 + minor;
    check(d.cuDevicePrimaryCtxRetain(&fresh->context, handle), "cuDevicePrimaryCtxRetain");
    slot = std::move(fresh);
    return *slot;
}

ContextGuard::ContextGuard(const Device& device) {
    const Driver& d = driver();
    check(d.cuCtxGetCurrent(&previous_), "cuCtxGetCurrent");
    if (previous_ == device.context) return;
    check(d.cuCtxSetCurrent(device.context), "cuCtxSetCurrent");
    changed_ = true;
}

ContextGuard::~ContextGuard() {
    if (changed_) driver().cuCtxSetCurrent(previous_);
}

DeviceMemory::DeviceMemory(const Device& device, size_t bytes) : device_(device) {
    const ContextGuard guard(device);
    const BesideCaptures beside;
    check(driver().cuMemAlloc(&address_, bytes), "cuMemAlloc (prepared weights)");
}

DeviceMemory::~DeviceMemory() {
    const ContextGuard guard(device_);
    const BesideCaptures beside;
    driver().cuMemFree(address_);  // which waits for kernels that use it
}

}  // namespace transfuse::cuda
