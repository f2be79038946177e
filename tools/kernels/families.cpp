// The graphs of tests/gpu/families.h as files that tools/kernels/write.cpp reads: families FOLDER
#include "gpu/families.h"

#include <fstream>
#include <iostream>

using namespace transfuse;
using namespace transfuse::cuda;

int main(int count, char** words) {
    if (count != 2) return 2;
    for (uint64_t n = 0; n < family_count(); ++n) {
        const Family& family = families()[n];
        const Trial trial = family_trial(n);
        const std::string setting = std::string(name(family.dtype)) +
                                    (family.precision == Fp32Precision::tf32 ? " tf32" : " strict") +
                                    (family.last ? " last" : "") + (family.unaligned ? " unaligned" : "") +
                                    (family.later ? " later" : "") + " trial";
        std::string file = setting;
        std::replace(file.begin(), file.end(), ' ', '-');
        std::ofstream(std::string(words[1]) + "/family-" + std::string(family.name) + "-" + file + ".tf")
            << "# name " << family.name << "\n# setting " << setting << "\n"
            << print(trial.graph);
    }
    return 0;
}
