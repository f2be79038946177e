// Which of the compiled instruction-set levels to use on this machine.
#include <cstdlib>
#include <cstring>
#if defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

#include "cpu/kernels/kernels.h"

namespace transfuse::cpu {

#if defined(__x86_64__)
namespace x86_64_v2 {
extern const Level the_level;
}
namespace x86_64_v3 {
extern const Level the_level;
}
namespace x86_64_v4 {
extern const Level the_level;
}
#elif defined(__aarch64__)
namespace neon {
extern const Level the_level;
}
#if defined(TRANSFUSE_HAS_SVE256)
namespace sve256 {
extern const Level the_level;
}
#endif
#else
namespace baseline {
extern const Level the_level;
}
#endif

namespace {

struct Found {
    const Level* levels[4];
    int count = 0;
    void add(const Level& level) { levels[count++] = &level; }

    Found() {
#if defined(__x86_64__)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512cd"))
            add(x86_64_v4::the_level);
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
            add(x86_64_v3::the_level);
        add(x86_64_v2::the_level);
#elif defined(__aarch64__)
#if defined(TRANSFUSE_HAS_SVE256)
        // Compiled for vectors of exactly 256 bits: right only where the machine's are that long.
        constexpr unsigned long has_sve = 1UL << 22;
        if (getauxval(AT_HWCAP) & has_sve) {
            const int length = prctl(PR_SVE_GET_VL);
            if (length >= 0 && (length & 0xffff) == 32) add(sve256::the_level);
        }
#endif
        add(neon::the_level);
#else
        add(baseline::the_level);
#endif
    }
};

const Found& found() {
    static const Found machine;
    return machine;
}

}  // namespace

LevelList available_levels() { return {found().levels, found().count}; }

const Level& level() {
    static const Level* const chosen = [] {
        const char* wanted = std::getenv("TRANSFUSE_CPU_LEVEL");
        for (int i = 0; wanted && i < found().count; ++i)
            if (std::strcmp(found().levels[i]->name, wanted) == 0) return found().levels[i];
        return found().levels[0];
    }();
    return *chosen;
}

}  // namespace transfuse::cpu
