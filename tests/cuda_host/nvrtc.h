// The run-time compiler for tests: where the library looks, else in the Python environment of the source tree. What it
// said of a text is kept beside the build.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/runtime/cache.h"
#include "cuda/runtime/nvrtc.h"
#include "thorough.h"

namespace transfuse::cuda {

inline bool find_nvrtc(std::string* reason) {
    namespace fs = std::filesystem;
    static const bool once = [] {
        const fs::path lib = fs::path(TRANSFUSE_SOURCE_DIR) / ".venv" / "lib";
        std::error_code ignored;
        for (const auto& python : fs::directory_iterator(lib, ignored)) {
            for (const auto& toolkit : fs::directory_iterator(python.path() / "site-packages" / "nvidia", ignored))
                add_nvrtc_folder((toolkit.path() / "lib").string());
        }
        return true;
    }();
    (void)once;
    return nvrtc_available(reason);
}

// The compiler's words for a kernel, ptxas' included. Throws Error where it does not compile.
inline std::string nvrtc_log(const Source& source, int arch) {
    namespace fs = std::filesystem;
    const fs::path folder = TRANSFUSE_BINARY_DIR "/compiled";
    std::string asked = nvrtc_version() + " " + arch_option(arch) + " " + source.entry;
    for (const std::string& option : source.options) asked += " " + option;
    const fs::path file = folder / (hash_name(asked + "\n" + source.text) + ".log");
    if (std::ifstream kept(file); kept) return {std::istreambuf_iterator<char>(kept), {}};
    const std::string log = nvrtc_compile(source, arch).log;
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    const fs::path own = file.string() + "." + std::to_string(getpid());
    std::ofstream(own) << log;
    fs::rename(own, file, ignored);
    return log;
}

// Architectures that a sweep compiles for: one of each kind of kernel and of tensor cores, in a long run all that are
// supported.
inline std::vector<int> swept_architectures() {
    if (tests::thorough()) return {80, 86, 89, 90, 100, 120};
    return {80, 90, 120};
}

}  // namespace transfuse::cuda
