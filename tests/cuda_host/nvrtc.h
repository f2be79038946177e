// Finds the run-time compiler for tests: where the library looks, else in the Python environment of the source tree.
#pragma once

#include <filesystem>
#include <string>

#include "cuda/runtime/nvrtc.h"

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

}  // namespace transfuse::cuda
