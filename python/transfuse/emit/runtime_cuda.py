"""What every file for CUDA has: C++ that compiles kernels with NVRTC and launches plans, and the Python around it."""

HOST = r"""
// Compiles kernels with NVRTC and launches plans with the driver: both are found where PyTorch has them, no header is needed.
#include <atomic>
#include <cstdio>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct CUlaunchAttribute { int id; char pad[4]; union { char bytes[64]; struct { unsigned x, y, z; } cluster; int allowed; } value; };
struct CUlaunchConfig { unsigned grid[3], block[3], shared; void* stream; CUlaunchAttribute* attributes; unsigned count; };

static struct {
    void *driver, *compiler;
    int (*cuInit)(unsigned);
    int (*cuGetErrorName)(int, const char**);
    int (*cuGetErrorString)(int, const char**);
    int (*cuDeviceGet)(int*, int);
    int (*cuDevicePrimaryCtxRetain)(void**, int);
    int (*cuCtxGetCurrent)(void**);
    int (*cuCtxSetCurrent)(void*);
    int (*cuModuleLoadData)(void**, const void*);
    int (*cuModuleGetFunction)(void**, void*, const char*);
    int (*cuFuncSetAttribute)(void*, int, int);
    int (*cuLaunchKernelEx)(const CUlaunchConfig*, void*, void**, void**);
    int (*cuTensorMapEncodeTiled)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*, const unsigned*, int,
        int, int, int);
    int (*nvrtcVersion)(int*, int*);
    int (*nvrtcCreateProgram)(void**, const char*, const char*, int, const char* const*, const char* const*);
    int (*nvrtcCompileProgram)(void*, int, const char* const*);
    int (*nvrtcGetProgramLogSize)(void*, size_t*);
    int (*nvrtcGetProgramLog)(void*, char*);
    int (*nvrtcGetCUBINSize)(void*, size_t*);
    int (*nvrtcGetCUBIN)(void*, char*);
    int (*nvrtcDestroyProgram)(void**);
} cuda;

// Every function returns null, or a sentence that the thread keeps until its next one.
static thread_local std::string sentence;
static const char* say(const std::string& words) { return (sentence = words).c_str(); }

static const char* failed(int code, const std::string& what) {
    if (code == 0) return nullptr;
    const char *name = nullptr, *text = nullptr;
    cuda.cuGetErrorName(code, &name), cuda.cuGetErrorString(code, &text);
    return say(what + ": " + (name ? name : "an error of number " + std::to_string(code)) + " (" + (text ? text : "no description") + ")");
}

template <class F> static bool bind(void* library, F& function, const char* name) {
    return (function = (F)dlsym(library, name)) != nullptr;
}
#define BIND(library, name) if (!bind(library, cuda.name, #name)) return say("the library of " #name " does not have it")

struct Map { int type, swizzle; uint64_t extent[5], stride[4]; unsigned box[5]; };
struct Address { size_t at; int base, map; long long offset; };
struct Launch {
    void* function;
    std::string name;
    unsigned grid[3], block[3], shared, cluster;
    bool early;
    std::vector<unsigned char> bytes;     // the arguments one behind the other; addresses and maps are put in at a call
    std::vector<size_t> begins;
    std::vector<Address> addresses;
    std::vector<Map> maps;
    void add(const void* data, size_t size, size_t boundary) {
        const size_t at = (bytes.size() + boundary - 1) / boundary * boundary;
        bytes.resize(at + size), begins.push_back(at);
        if (data) memcpy(bytes.data() + at, data, size);
    }
};
struct Plan { void* context; std::vector<Launch> launches; };

extern "C" {

const char* begin(const char* const* compilers, int* version) {
    if (!(cuda.driver = dlopen("libcuda.so.1", RTLD_NOW))) return say("there is no CUDA driver here (libcuda.so.1)");
    for (; *compilers && !(cuda.compiler && dlsym(cuda.compiler, "nvrtcCompileProgram")); compilers++)
        cuda.compiler = dlopen(*compilers, RTLD_NOW);
    if (!cuda.compiler) return say("the run-time compiler (libnvrtc) was found neither beside PyTorch nor on this machine");
    BIND(cuda.driver, cuInit); BIND(cuda.driver, cuGetErrorName); BIND(cuda.driver, cuGetErrorString); BIND(cuda.driver, cuDeviceGet);
    BIND(cuda.driver, cuDevicePrimaryCtxRetain); BIND(cuda.driver, cuCtxGetCurrent); BIND(cuda.driver, cuCtxSetCurrent);
    BIND(cuda.driver, cuModuleLoadData); BIND(cuda.driver, cuModuleGetFunction); BIND(cuda.driver, cuFuncSetAttribute);
    BIND(cuda.driver, cuLaunchKernelEx); BIND(cuda.driver, cuTensorMapEncodeTiled);
    BIND(cuda.compiler, nvrtcVersion); BIND(cuda.compiler, nvrtcCreateProgram); BIND(cuda.compiler, nvrtcCompileProgram);
    BIND(cuda.compiler, nvrtcGetProgramLogSize); BIND(cuda.compiler, nvrtcGetProgramLog); BIND(cuda.compiler, nvrtcGetCUBINSize);
    BIND(cuda.compiler, nvrtcGetCUBIN); BIND(cuda.compiler, nvrtcDestroyProgram);
    int minor = 0;
    if (cuda.nvrtcVersion(version, &minor)) return say("nvrtcVersion fails");
    *version = *version * 100 + minor;
    return failed(cuda.cuInit(0), "cuInit");
}

static std::string compiled(const char* text, const char* entry, const char* const* options, int count, const char* path) {
    void* program = nullptr;
    size_t size = 0;
    if (cuda.nvrtcCreateProgram(&program, text, (std::string(entry) + ".cu").c_str(), 0, nullptr, nullptr))
        return "nvrtcCreateProgram fails";
    const int code = cuda.nvrtcCompileProgram(program, count, options);
    std::string said;
    if (code || cuda.nvrtcGetCUBINSize(program, &size) || !size) {
        cuda.nvrtcGetProgramLogSize(program, &size);
        said.resize(size), cuda.nvrtcGetProgramLog(program, &said[0]);
        said = std::string("the kernel ") + entry + " does not compile: " + said.c_str();
    } else {
        std::vector<char> cubin(size);
        cuda.nvrtcGetCUBIN(program, cubin.data());
        const std::string own = std::string(path) + "." + std::to_string((size_t)program);   // another process may write it too
        FILE* file = fopen(own.c_str(), "wb");
        const bool whole = file && fwrite(cubin.data(), 1, size, file) == size;
        if (!file || fclose(file) || !whole || rename(own.c_str(), path)) said = std::string(path) + " cannot be written";
    }
    cuda.nvrtcDestroyProgram(&program);
    return said;
}

// Several at a time. options: of each kernel a list that ends with null.
const char* compile(int count, const char* const* texts, const char* const* entries, const char* const* const* options,
    const char* const* paths, int jobs) {
    std::atomic<int> next{0};
    std::mutex mutex;
    std::string said;
    const auto work = [&] {
        for (int i; (i = next++) < count;) {
            int words = 0;
            while (options[i][words]) words++;
            const std::string own = compiled(texts[i], entries[i], options[i], words, paths[i]);
            const std::lock_guard<std::mutex> lock(mutex);
            if (!own.empty()) said = own;
        }
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < jobs && i < count; i++) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    return said.empty() ? nullptr : say(said);
}

const char* plan(int device, Plan** made) {
    int handle = 0;
    Plan* fresh = new Plan{};
    if (const char* said = failed(cuda.cuDeviceGet(&handle, device), "cuDeviceGet")) return said;
    *made = fresh;
    return failed(cuda.cuDevicePrimaryCtxRetain(&fresh->context, handle), "cuDevicePrimaryCtxRetain");
}

// The calling thread has the plan's device for its own while this lives.
struct Current {
    void* before = nullptr;
    bool changed = false;
    const char* said;
    explicit Current(const Plan& plan) {
        if ((said = failed(cuda.cuCtxGetCurrent(&before), "cuCtxGetCurrent")) || before == plan.context) return;
        changed = !(said = failed(cuda.cuCtxSetCurrent(plan.context), "cuCtxSetCurrent"));
    }
    ~Current() { if (changed) cuda.cuCtxSetCurrent(before); }
};

const char* load(const Plan* plan, const char* cubin, const char* entry, void** function) {
    void* module = nullptr;
    const Current current(*plan);
    if (current.said) return current.said;
    if (const char* said = failed(cuda.cuModuleLoadData(&module, cubin), std::string("cuModuleLoadData of ") + entry)) return said;
    return failed(cuda.cuModuleGetFunction(function, module, entry), std::string("cuModuleGetFunction of ") + entry);
}

const char* add_launch(Plan* plan, void* function, const char* name, const unsigned* numbers) {
    Launch launch{function, name, {numbers[0], numbers[1], numbers[2]}, {numbers[3], numbers[4], numbers[5]}, numbers[6], numbers[7],
        numbers[8] != 0};
    plan->launches.push_back(launch);
    const Current current(*plan);
    if (current.said || launch.shared == 0) return current.said;
    return failed(cuda.cuFuncSetAttribute(function, 8, (int)launch.shared),   // most dynamic shared memory
                  "cuFuncSetAttribute(" + std::to_string(launch.shared) + " bytes of shared memory) of " + name);
}
void add_bytes(Plan* plan, const void* data, int size) { plan->launches.back().add(data, (size_t)size, 16); }
void add_address(Plan* plan, int base, long long offset) {
    Launch& launch = plan->launches.back();
    launch.add(nullptr, 8, 8), launch.addresses.push_back({launch.begins.back(), base, -1, offset});
}
void add_map(Plan* plan, int base, long long offset, const long long* numbers) {   // type, swizzle, extents, strides, box
    Launch& launch = plan->launches.back();
    Map map{(int)numbers[0], (int)numbers[1], {}, {}, {}};
    for (int k = 0; k < 5; k++) map.extent[k] = (uint64_t)numbers[2 + k], map.box[k] = (unsigned)numbers[11 + k];
    for (int k = 0; k < 4; k++) map.stride[k] = (uint64_t)numbers[7 + k];
    launch.add(nullptr, 128, 64), launch.addresses.push_back({launch.begins.back(), base, (int)launch.maps.size(), offset});
    launch.maps.push_back(map);
}

// bases: where the workspace, the leaves and the results begin.
const char* run(const Plan* plan, char* const* bases, void* stream) {
    thread_local std::vector<unsigned char> room;
    thread_local std::vector<void*> parameters;
    const unsigned ones[5] = {1, 1, 1, 1, 1};
    const Current current(*plan);
    if (current.said) return current.said;
    bool first = true;
    for (const Launch& launch : plan->launches) {
        room.resize(launch.bytes.size() + 64), parameters.resize(launch.begins.size());
        unsigned char* const block = room.data() + (64 - (uintptr_t)room.data() % 64) % 64;
        memcpy(block, launch.bytes.data(), launch.bytes.size());
        for (const Address& address : launch.addresses) {
            char* const to = bases[address.base] + address.offset;
            if (address.map < 0) {
                memcpy(block + address.at, &to, 8);
                continue;
            }
            const Map& map = launch.maps[(size_t)address.map];
            const int code = cuda.cuTensorMapEncodeTiled(block + address.at, map.type, 5, to, map.extent, map.stride, map.box, ones, 0,
                map.swizzle, 3, 0);
            if (code) return failed(code, "cuTensorMapEncodeTiled for " + launch.name);
        }
        for (size_t i = 0; i < launch.begins.size(); i++) parameters[i] = block + launch.begins[i];
        CUlaunchAttribute attributes[2]{};
        CUlaunchConfig config{{launch.grid[0], launch.grid[1], launch.grid[2]}, {launch.block[0], launch.block[1], launch.block[2]},
            launch.shared, stream, attributes, 0};
        if (launch.cluster > 1) attributes[config.count].id = 4, attributes[config.count++].value.cluster = {launch.cluster, 1, 1};
        // It may begin while the one before it ends; the first follows work that says nothing of that.
        if (launch.early && !first) attributes[config.count].id = 6, attributes[config.count++].value.allowed = 1;
        first = false;
        if (const int code = cuda.cuLaunchKernelEx(&config, launch.function, parameters.data(), nullptr)) return failed(code,
            "the launch of " + launch.name);
    }
    return nullptr;
}
}
"""

PYTHON = '''
def leaf(position, offset=0):
    return "leaf", position, offset


def out(position, offset=0):
    return "out", position, offset


def work(offset):
    return "work", 0, offset


def wide(number):
    return struct.pack("q", number)


def raw(digits):
    return bytes.fromhex(digits)


def boxes(place, *numbers):
    """A tensor that is read box by box: element type, swizzle, extents, strides in bytes, box."""
    return *place, [n for number in numbers for n in (number if isinstance(number, tuple) else (number,))]


def launch(kernel, grid, block, shared, arguments, cluster=1, early=False):
    three = [list(n) if isinstance(n, tuple) else [n, 1, 1] for n in (grid, block)]
    return kernel, [*three[0], *three[1], shared, cluster, early], arguments


@functools.cache
def host():
    """The compiled HOST, and what version NVRTC has. Without torch's headers it takes a second or two, once a machine."""
    name = "transfuse_host_" + hashlib.sha256(HOST.encode()).hexdigest()[:12]
    path = load_inline(
        name, cpp_sources=HOST, extra_cflags=["-O2", "-std=c++17"], extra_ldflags=["-ldl", "-pthread"],
        is_python_module=False, no_implicit_headers=True,
    )  # fmt: skip
    library, version = ctypes.CDLL(path), ctypes.c_int()
    for function in ("begin", "compile", "plan", "load", "add_launch", "run"):
        getattr(library, function).restype = ctypes.c_char_p
    library.run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    beside = os.path.join(os.path.dirname(torch.__file__), "lib", "libcaffe2_nvrtc.so")
    checked(library.begin(words([beside, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]), ctypes.byref(version)))
    return library, version.value, os.path.dirname(path)


def words(texts):
    """Strings as C has them; the last is null."""
    return (ctypes.c_char_p * (len(texts) + 1))(*[text.encode() for text in texts], None)


def checked(said):
    if said:
        raise RuntimeError(said.decode(errors="replace"))


@functools.cache
def architecture(device):
    """The number of a GPU: 90 for compute capability 9.0."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def compiled(kernels, device):
    """Of each kernel the file of its machine code: what is not there from another call is compiled, MAX_JOBS at a time."""
    library, version, folder = host()
    arch = architecture(device)
    flags = [f"-arch=sm_{arch}{'a' * (arch >= 90)}", "-std=c++17", "-default-device", "--extra-device-vectorization",
             "-diag-suppress=177"]  # fmt: skip
    paths, missing = {}, {}
    for kernel in dict.fromkeys(kernels):
        entry, text, more = KERNELS[kernel]
        told = "\\n".join([str(version), *flags, *more, text])
        paths[kernel] = os.path.join(folder, hashlib.sha256(told.encode()).hexdigest()[:24] + ".cubin")
        if not os.path.exists(paths[kernel]):
            missing[paths[kernel]] = text, entry, words([*flags, *more])
    if missing:
        options = (ctypes.POINTER(ctypes.c_char_p) * len(missing))(
            *[ctypes.cast(o, ctypes.POINTER(ctypes.c_char_p)) for _, _, o in missing.values()]
        )
        texts, entries = (words([entry[i] for entry in missing.values()]) for i in (0, 1))
        jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
        checked(library.compile(len(missing), texts, entries, options, words([*missing]), jobs))
    return paths


_loaded = {}


class Prepared:
    """A plan with its kernels on a device."""

    def __init__(self, name, device):
        library, *_ = host()
        workspace, self.outputs, launches = PLANS[name]
        self.workspace = max(workspace, 1)
        self.plan, self.run = ctypes.c_void_p(), library.run
        checked(library.plan(device, ctypes.byref(self.plan)))
        paths = compiled([kernel for kernel, *_ in launches], device)
        leaves = 1 + max([a[1] for *_, given in launches for a in given if isinstance(a, tuple) and a[0] == "leaf"], default=0)
        self.leaves = leaves
        for kernel, numbers, given in launches:
            if (kernel, device) not in _loaded:
                with open(paths[kernel], "rb") as file:
                    code, function = file.read(), ctypes.c_void_p()
                entry = KERNELS[kernel][0].encode()
                checked(library.load(self.plan, code, entry, ctypes.byref(function)))
                _loaded[kernel, device] = function
            checked(library.add_launch(self.plan, _loaded[kernel, device], kernel.encode(), (ctypes.c_uint * 9)(*numbers)))
            for argument in given:
                if isinstance(argument, tuple):
                    kind, position, offset, *box = argument
                    base = {"work": 0, "leaf": 1 + position, "out": 1 + leaves + position}[kind]
                    place = self.plan, base, ctypes.c_longlong(offset)
                    if box:
                        library.add_map(*place, (ctypes.c_longlong * 16)(*box[0]))
                    else:
                        library.add_address(*place)
                else:
                    data = struct.pack("i", argument) if isinstance(argument, int) else argument
                    library.add_bytes(self.plan, data, len(data))
        self.pack = struct.Struct(f"{1 + leaves + len(self.outputs)}P").pack


_prepared = {}


def run(name, leaves):
    """The results of a plan."""
    device = leaves[0].get_device()
    plan = _prepared.get((name, device)) or _prepared.setdefault((name, device), Prepared(name, device))
    where = leaves[0].device
    results = [torch.empty_strided(shape, strides, dtype=dtype, device=where) for dtype, shape, strides in plan.outputs]
    scratch = torch.empty(plan.workspace, dtype=torch.uint8, device=where)
    places = map(torch.Tensor.data_ptr, (scratch, *leaves[: plan.leaves], *results))
    checked(plan.run(plan.plan, plan.pack(*places), torch._C._cuda_getCurrentRawStream(device)))
    return results
'''
