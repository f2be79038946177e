// The graphs that compute-sanitizer is shown on a GPU (tests/gpu/families.h) use every kind of kernel, and the portable ones
// fit the least shared memory there is.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "cuda/assemble.h"
#include "gpu/families.h"

namespace transfuse::cuda {
namespace {

// Names of kernels without their numbers, and of dense ones the constants that stand for different code.
std::set<std::string> kinds(const Target& target) {
    static const char* const marks[] = {"LOAD = LOAD_PLANAR;", "LOAD = LOAD_VECTORS;", "LOAD = LOAD_DIRECT;", "LOAD = LOAD_PAIRS;",
                                        "LOAD = LOAD_SINGLES;", "LOAD = LOAD_ROWS;", "LOAD = LOAD_BOXES;", "LOAD = LOAD_OPERAND;",
                                        "RESIDENT = true", "RESIDENT = false", "FLAT = true", "FRAGMENTS = true", "FOLDED = true",
                                        "REDUCED = true", "PROLOGUE = true", "JOINT = true", "PIXEL_MAJOR = true", "SKIPS = true"};
    std::set<std::string> met;
    for (uint64_t n = 0; n < family_count(); ++n) {
        const Trial trial = family_trial(n);
        Plan planned = plan(rewrite(trial.graph).rewritten, Machine::h200());
        planned.machine.launch = 0;  // as tests/gpu does
        CompileOptions options;
        options.precision = trial.setting.precision;
        auto strides = [&](ValueId v) {
            const Sizes& shape = planned.graph[v].type.shape;
            return trial.setting.last && planned.graph[v].op != Op::param ? channels_last(shape) : contiguous_strides(shape);
        };
        for (ValueId leaf : planned.graph.leaves()) options.leaf_strides.push_back(strides(leaf));
        for (ValueId output : planned.graph.outputs()) options.output_strides.push_back(strides(output));
        for (const BoundLaunch& bound : assemble(planned, options, target, true).launches) {
            const Source& source = *bound.launch.source;
            met.insert(std::regex_replace(source.entry, std::regex("[0-9]+$"), ""));
            if (bound.launch.note.find("on tensor cores") != std::string::npos) met.insert(source.entry + " on tensor cores");
            EXPECT_LE(bound.launch.shared_bytes, static_cast<uint32_t>(target.shared_bytes)) << trial.what;
            if (source.entry != "transfuse_dense") continue;
            for (const char* mark : marks)
                if (source.text.find(mark) != std::string::npos) met.insert(mark);
        }
    }
    return met;
}

const std::set<std::string> plain = {"tf_prepare", "tf_pointwise", "tf_loop", "tf_moments", "tf_moments_tail", "tf_dense_tail",
                                     "tf_correlate", "tf_correlate_tail", "tf_covariance", "tf_covariance on tensor cores",
                                     "tf_covariance_fold", "tf_covariance_gather", "tf_thin", "tf_cells", "tf_grouped",
                                     "tf_grouped_gradient"};

std::set<std::string> missing(const std::set<std::string>& wanted, const std::set<std::string>& met) {
    std::set<std::string> list;
    std::set_difference(wanted.begin(), wanted.end(), met.begin(), met.end(), std::inserter(list, list.end()));
    return list;
}

TEST(CudaFamilies, HaveEveryKindOfHopperKernel) {
    const auto met = kinds(Target{});
    EXPECT_EQ(missing(plain, met), std::set<std::string>{});
    EXPECT_EQ(missing({"transfuse_dense", "transfuse_variance", "LOAD = LOAD_PLANAR;", "LOAD = LOAD_VECTORS;", "LOAD = LOAD_PAIRS;",
                       "LOAD = LOAD_SINGLES;", "LOAD = LOAD_BOXES;", "LOAD = LOAD_OPERAND;", "RESIDENT = true", "RESIDENT = false",
                       "FLAT = true", "FRAGMENTS = true", "FOLDED = true", "REDUCED = true", "PROLOGUE = true", "JOINT = true",
                       "PIXEL_MAJOR = true", "SKIPS = true"},
                      met),
              std::set<std::string>{});
}

TEST(CudaFamilies, HaveEveryKindOfPortableKernel) {
    Target target;
    target.portable_only = true;
    const auto met = kinds(target);
    EXPECT_EQ(missing(plain, met), std::set<std::string>{});
    EXPECT_EQ(missing({"transfuse_dense", "transfuse_variance", "LOAD = LOAD_PLANAR;", "LOAD = LOAD_VECTORS;", "LOAD = LOAD_DIRECT;",
                       "LOAD = LOAD_ROWS;", "RESIDENT = true", "RESIDENT = false", "PROLOGUE = true", "PIXEL_MAJOR = true"},
                      met),
              std::set<std::string>{});
}

TEST(CudaFamilies, FitTheLeastSharedMemory) {
    Target target;
    target.arch = 86, target.shared_bytes = 99 * 1024;
    EXPECT_TRUE(kinds(target).contains("transfuse_dense"));  // what does not fit is told of where it is met
}

}  // namespace
}  // namespace transfuse::cuda
