// The part of the CUDA driver interface that is used, declared here so that nothing of CUDA is needed to build, and
// loaded from libcuda at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace transfuse::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
using CUcontext = CUctx_st*;
using CUmodule = CUmod_st*;
using CUfunction = CUfunc_st*;
using CUstream = CUstream_st*;
using CUevent = CUevent_st*;

struct CUlaunchAttribute {
    enum Id : int { cluster_dimension = 4, programmatic_stream_serialization = 6 };
    int id;
    char pad[8 - sizeof(int)];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int allowed;
    } value;
};
struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute* attrs;
    unsigned numAttrs;
};

// Values of the driver's enums that are used.
namespace attribute {
constexpr int multiprocessors = 16, major = 75, minor = 76, shared_per_block_optin = 97;  // of a device
constexpr int max_threads = 0, shared_static = 1, local_bytes = 3, registers = 4,
              max_dynamic_shared = 8;  // of a function
constexpr int nonportable_cluster = 15;
}  // namespace attribute

struct Driver {
    CUresult (*cuInit)(unsigned);
    CUresult (*cuDriverGetVersion)(int*);
    CUresult (*cuGetErrorName)(CUresult, const char**);
    CUresult (*cuGetErrorString)(CUresult, const char**);
    CUresult (*cuDeviceGetCount)(int*);
    CUresult (*cuDeviceGet)(CUdevice*, int);
    CUresult (*cuDeviceGetName)(char*, int, CUdevice);
    CUresult (*cuDeviceGetAttribute)(int*, int, CUdevice);
    CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
    CUresult (*cuCtxGetCurrent)(CUcontext*);
    CUresult (*cuCtxSetCurrent)(CUcontext);
    CUresult (*cuCtxGetDevice)(CUdevice*);
    CUresult (*cuCtxSynchronize)();
    CUresult (*cuModuleLoadData)(CUmodule*, const void*);
    CUresult (*cuModuleGetFunction)(CUfunction*, CUmodule, const char*);
    CUresult (*cuFuncGetAttribute)(int*, int, CUfunction);
    CUresult (*cuFuncSetAttribute)(CUfunction, int, int);
    CUresult (*cuLaunchKernelEx)(const CUlaunchConfig*, CUfunction, void**, void**);
    CUresult (*cuStreamSynchronize)(CUstream);
    CUresult (*cuStreamIsCapturing)(CUstream, int*);
    CUresult (*cuThreadExchangeStreamCaptureMode)(int*);
    CUresult (*cuStreamCreate)(CUstream*, unsigned);
    CUresult (*cuStreamDestroy)(CUstream);
    CUresult (*cuMemAlloc)(CUdeviceptr*, size_t);
    CUresult (*cuMemFree)(CUdeviceptr);
    CUresult (*cuMemcpyHtoD)(CUdeviceptr, const void*, size_t);
    CUresult (*cuMemcpyDtoH)(void*, CUdeviceptr, size_t);
    CUresult (*cuMemcpyDtoDAsync)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    CUresult (*cuMemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream);
    CUresult (*cuEventCreate)(CUevent*, unsigned);
    CUresult (*cuEventDestroy)(CUevent);
    CUresult (*cuEventRecord)(CUevent, CUstream);
    CUresult (*cuEventSynchronize)(CUevent);
    CUresult (*cuEventElapsedTime)(float*, CUevent, CUevent);
    CUresult (*cuTensorMapEncodeTiled)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*,
                                       const unsigned*, int, int, int, int);
};

// Loaded and initialised once. driver() throws Error with the reason where there is no driver.
const Driver& driver();
const Driver* find_driver(std::string* reason);  // nullptr and the reason instead

// Throws Error "what: CUDA_ERROR_NAME (description)" unless result is success, OutOfMemory where that is what it says.
void check(CUresult result, const char* what);

struct Device {
    int ordinal = 0;
    std::string name;
    int arch = 0;  // 90 for compute capability 9.0
    int multiprocessors = 0;
    int shared_bytes = 0;         // most a block can opt in to
    CUcontext context = nullptr;  // primary
};
int device_count();
const Device& device(int ordinal);  // retained on first use

// Makes a device's primary context (the one PyTorch and the runtime API use) current for a scope.
class ContextGuard {
public:
    explicit ContextGuard(const Device& device);
    ~ContextGuard();
    ContextGuard(const ContextGuard&) = delete;
    ContextGuard& operator=(const ContextGuard&) = delete;

private:
    CUcontext previous_ = nullptr;
    bool changed_ = false;
};

// Memory on a device, outside of PyTorch's.
class DeviceMemory {
public:
    DeviceMemory(const Device& device, size_t bytes);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    CUdeviceptr address() const { return address_; }

private:
    const Device& device_;
    CUdeviceptr address_ = 0;
};

}  // namespace transfuse::cuda
