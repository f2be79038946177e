#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "cli/commands.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"

namespace transfuse::cli {

namespace {

// The value of the first "key : value" line of /proc/cpuinfo, or nothing.
std::string cpuinfo(const std::string& key) {
    std::ifstream stream("/proc/cpuinfo");
    for (std::string line; std::getline(stream, line);)
        if (line.rfind(key, 0) == 0)
            if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return "";
}

}  // namespace

int collect_env(const std::vector<std::string>& arguments) {
    require(arguments.empty(), "collect-env takes no arguments, got '", arguments.empty() ? "" : arguments[0], "'.");
    auto line = [](const char* what, const std::string& value) {
        if (!value.empty()) std::cout << what << value << "\n";
    };
    line("transfuse        ", TRANSFUSE_VERSION);
    line("compiler         ", std::string("C++ ") + __VERSION__);
    utsname system{};
    if (uname(&system) == 0)
        line("system           ", std::string(system.sysname) + " " + system.release + " " + system.machine);
    line("processor        ", cpuinfo("model name"));
    line("processor part   ", cpuinfo("CPU part"));
    std::string flags = cpuinfo("flags");
    line("features         ", flags.empty() ? cpuinfo("Features") : flags);
    line("threads          ", std::to_string(std::thread::hardware_concurrency()));
#ifdef TRANSFUSE_CUDA_ENGINE
    line("CUDA             ", cuda_available() ? "available" : "not available: " + cuda_unavailable_reason());
#else
    line("CUDA             ", "not built in");
#endif
    for (const char* variable : {"TRANSFUSE_CACHE_DIR", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"})
        if (const char* value = std::getenv(variable)) line((std::string(variable) + "=").c_str(), value);
    return 0;
}

}  // namespace transfuse::cli
