#include "cuda/runtime/nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

using Result = int;
struct ProgramHandle;

struct Nvrtc {
    void* library = nullptr;
    Result (*version)(int*, int*) = nullptr;
    Result (*create)(ProgramHandle**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
    Result (*destroy)(ProgramHandle**) = nullptr;
    Result (*compile)(ProgramHandle*, int, const char* const*) = nullptr;
    Result (*log_size)(ProgramHandle*, size_t*) = nullptr;
    Result (*log)(ProgramHandle*, char*) = nullptr;
    Result (*cubin_size)(ProgramHandle*, size_t*) = nullptr;
    Result (*cubin)(ProgramHandle*, char*) = nullptr;
    Result (*ptx_size)(ProgramHandle*, size_t*) = nullptr;
    Result (*ptx)(ProgramHandle*, char*) = nullptr;
    Result (*arch_count)(int*) = nullptr;
    Result (*archs)(int*) = nullptr;
    const char* (*error)(Result) = nullptr;
    int major = 0, minor = 0;
    std::string reason;

    bool bind() {
        auto get = [&](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
            return function != nullptr;
        };
        return get(version, "nvrtcVersion") && get(create, "nvrtcCreateProgram") &&
               get(destroy, "nvrtcDestroyProgram") && get(compile, "nvrtcCompileProgram") &&
               get(log_size, "nvrtcGetProgramLogSize") && get(log, "nvrtcGetProgramLog") &&
               get(cubin_size, "nvrtcGetCUBINSize") && get(cubin, "nvrtcGetCUBIN") &&
               get(ptx_size, "nvrtcGetPTXSize") && get(ptx, "nvrtcGetPTX") &&
               get(arch_count, "nvrtcGetNumSupportedArchs") && get(archs, "nvrtcGetSupportedArchs") &&
               get(error, "nvrtcGetErrorString") && version(&major, &minor) == 0;
    }
};

std::mutex folders_mutex;
std::vector<std::string>& folders() {
    static std::vector<std::string> list;
    return list;
}

constexpr const char* names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

void* open_in(const std::filesystem::path& folder) {
    for (const char* name : names) {
        std::error_code ignored;
        const auto path = folder / name;
        if (!std::filesystem::exists(path, ignored)) continue;
        if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    return nullptr;
}

void* find_library() {
    if (const char* given = std::getenv("TRANSFUSE_NVRTC"); given && *given) {
        std::error_code ignored;
        if (std::filesystem::is_directory(given, ignored)) return open_in(given);
        return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    }
    for (const char* name : names)
        if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
    for (const char* name : names)
        if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
        if (const char* home = std::getenv(variable); home && *home)
            if (void* library = open_in(std::filesystem::path(home) / "lib64")) return library;
    if (void* library = open_in("/usr/local/cuda/lib64")) return library;
    std::lock_guard lock(folders_mutex);
    for (const std::string& folder : folders())
        if (void* library = open_in(folder)) return library;
    return nullptr;
}

Nvrtc load() {
    Nvrtc nvrtc;
    nvrtc.library = find_library();
    if (!nvrtc.library) {
        const char* given = std::getenv("TRANSFUSE_NVRTC");
        nvrtc.reason = given && *given
                           ? "TRANSFUSE_NVRTC names " + std::string(given) + ", where no NVRTC library could be loaded"
                           : "the run-time compiler libnvrtc was not found (set TRANSFUSE_NVRTC to it, or install the "
                             "CUDA toolkit)";
    } else if (!nvrtc.bind()) {
        nvrtc.reason = "the NVRTC library found lacks functions of CUDA 12 or newer";
        nvrtc.library = nullptr;
    }
    return nvrtc;
}

const Nvrtc& nvrtc() {
    static const Nvrtc once = load();
    return once;
}

const Nvrtc& usable_nvrtc() {
    const Nvrtc& n = nvrtc();
    require(n.library != nullptr, "CUDA kernels cannot be compiled: ", n.reason);
    return n;
}

// A text compiled with some options.
class Compilation {
public:
    Compilation(const Nvrtc& nvrtc, const std::string& text, const std::string& name,
                const std::vector<std::string>& options)
        : nvrtc_(nvrtc) {
        const Result created = nvrtc.create(&program_, text.c_str(), name.c_str(), 0, nullptr, nullptr);
        if (created != 0) fail("nvrtcCreateProgram: ", nvrtc.error(created));
        std::vector<const char*> list;
        for (const std::string& option : options) list.push_back(option.c_str());
        result_ = nvrtc.compile(program_, static_cast<int>(list.size()), list.data());
    }
    ~Compilation() { nvrtc_.destroy(&program_); }
    Compilation(const Compilation&) = delete;
    Compilation& operator=(const Compilation&) = delete;

    Result result() const { return result_; }
    std::string log() const {
        std::string words;
        size_t size = 0;
        if (nvrtc_.log_size(program_, &size) != 0 || size <= 1) return words;
        words.resize(size);
        nvrtc_.log(program_, words.data());
        while (!words.empty() && words.back() == '\0') words.pop_back();
        return words;
    }
    // Empty where there is none; that it could not be read is an error of the compilation.
    std::string code(Result (*size_of)(ProgramHandle*, size_t*), Result (*get)(ProgramHandle*, char*)) {
        std::string bytes;
        size_t size = 0;
        if (result_ != 0 || size_of(program_, &size) != 0 || size == 0) return bytes;
        bytes.resize(size);
        result_ = get(program_, bytes.data());
        return bytes;
    }

private:
    const Nvrtc& nvrtc_;
    ProgramHandle* program_ = nullptr;
    Result result_ = 0;
};

}  // namespace

bool nvrtc_available(std::string* reason) {
    const Nvrtc& n = nvrtc();
    if (!n.library && reason) *reason = n.reason;
    return n.library != nullptr;
}

std::string nvrtc_version() {
    const Nvrtc& n = usable_nvrtc();
    return std::to_string(n.major) + "." + std::to_string(n.minor);
}

void add_nvrtc_folder(const std::string& folder) {
    std::lock_guard lock(folders_mutex);
    folders().push_back(folder);
}

// The architecture-specific features of Hopper (wgmma) need the "a"; later families have their own.
std::string arch_option(int arch) { return "sm_" + std::to_string(arch) + (arch >= 90 ? "a" : ""); }

Binary nvrtc_compile(const Source& source, int arch) {
    std::vector<std::string> options = {"-arch=" + arch_option(arch),   "-std=c++17",         "-default-device",
                                        "--extra-device-vectorization", "--ptxas-options=-v", "-diag-suppress=177"};
    options.insert(options.end(), source.options.begin(), source.options.end());
    const Nvrtc& n = usable_nvrtc();
    Compilation compilation(n, source.text, source.entry + ".cu", options);
    Binary binary{compilation.code(n.cubin_size, n.cubin), compilation.log()};
    if (compilation.result() != 0 || binary.cubin.empty())
        fail("the CUDA kernel ", source.entry, " does not compile for ", arch_option(arch), ": ",
             n.error(compilation.result()), "\n", binary.log);
    return binary;
}

std::string nvrtc_ptx(const std::string& text, const std::vector<std::string>& options) {
    const Nvrtc& n = usable_nvrtc();
    Compilation compilation(n, text, "device.cu", options);
    if (compilation.result() != 0)
        fail("the device code does not compile: ", n.error(compilation.result()), "\n", compilation.log());
    std::string ptx = compilation.code(n.ptx_size, n.ptx);
    while (!ptx.empty() && ptx.back() == '\0') ptx.pop_back();
    return ptx;
}

}  // namespace transfuse::cuda
