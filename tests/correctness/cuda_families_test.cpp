// The graphs that compute-sanitizer is shown on a GPU (tests/gpu/families.h) use every kind of kernel, and the portable
// ones fit the least shared memory there is.
#include <gtest/gtest.h>

#include <set>

#include "cuda/assemble/assemble.h"
#include "gpu/families.h"

namespace transfuse::cuda {
namespace {

// Names of kernels without their numbers, and of dense ones the constants that stand for different code.
std::set<std::string> kinds(const Target& target) {
    static const char* const marks[] = {"LOAD = LOAD_PLANAR;",
                                        "LOAD = LOAD_VECTORS;",
                                        "LOAD = LOAD_DIRECT;",
                                        "LOAD = LOAD_PAIRS;",
                                        "LOAD = LOAD_SINGLES;",
                                        "LOAD = LOAD_ROWS;",
                                        "LOAD = LOAD_BOXES;",
                                        "LOAD = LOAD_OPERAND;",
                                        "LOAD = LOAD_UNALIGNED_ROWS;",
                                        "LOAD = LOAD_VECTOR_BOXES;",
                                        "RESIDENT = true",
                                        "RESIDENT = false",
                                        "FLAT = true",
                                        "FRAGMENTS = true",
                                        "FOLDED = true",
                                        "REDUCED = true",
                                        "PROLOGUE = true",
                                        "JOINT = true",
                                        "PIXEL_MAJOR = true",
                                        "SKIPS = true",
                                        "BIASED = true",
                                        "PROLOGUE_PLACED = true",
                                        "SPLIT_CHANNELS = true",
                                        "TERMS = 2",
                                        "WG == 1",
                                        "store_box(operands",
                                        "store_matrices(here",
                                        "MEETING > 1",
                                        "rolled_as[]",
                                        "windows[]",
                                        "WIDE_TURNS =",
                                        "TOGETHER =",
                                        "PAIRS =",
                                        "ADDED = 1;",
                                        "ADDED = 2;",
                                        "load_transposed(m, there",
                                        "apart < LANES_W"};
    // Of other kernels, what their notes say of the way they were written.
    static const char* const ways[] = {"products of each tap", "slices of its channels", "product alone", "rows of", "elements",
                                       "on tensor cores",      "general kernel"};
    std::set<std::string> met;
    for (uint64_t n = 0; n < family_count(); ++n) {
        const Trial trial = family_trial(n);
        Plan planned = plan(rewrite(trial.graph).rewritten, Machine::h200());
        planned.machine.launch = 0;  // as tests/gpu does
        CompileOptions options;
        options.precision = trial.setting.precision;
        auto strides = [&](ValueId v) {
            const Sizes& shape = planned.graph[v].type.shape;
            return trial.setting.last && planned.graph[v].op != Op::param ? channels_last(shape)
                                                                          : contiguous_strides(shape);
        };
        for (ValueId leaf : planned.graph.leaves()) options.leaf_strides.push_back(strides(leaf));
        for (ValueId output : planned.graph.outputs()) options.output_strides.push_back(strides(output));
        Target own = target;
        own.any_size = trial.setting.later;
        const Assembly assembly = assemble(planned, options, own, !trial.setting.unaligned);
        for (const std::string& note : assembly.notes)
            for (const char* way : ways)
                if (note.find(way) != std::string::npos) met.insert(way);
        for (const BoundLaunch& bound : assembly.launches) {
            const Source& source = *bound.launch.source;
            const std::string name = source.entry.substr(0, source.entry.find_last_not_of("0123456789") + 1);
            met.insert(name);
            if (trial.setting.unaligned) met.insert(name + " unaligned");
            if (trial.setting.later) met.insert(name + " of a later size");
            if (name == "tf_dense_tail" && source.text.find(" == 0.0) ") != std::string::npos)
                met.insert("moments in slots");
            if (bound.launch.note.find(" with ") != std::string::npos) met.insert(name + " of several results");
            EXPECT_LE(bound.launch.shared_bytes, static_cast<uint32_t>(target.shared_bytes)) << trial.what;
            if (source.entry != "transfuse_dense") continue;
            for (const char* mark : marks)
                if (source.text.find(mark) != std::string::npos) met.insert(mark);
        }
    }
    return met;
}

const std::set<std::string> plain = {"tf_prepare",
                                     "tf_pointwise",
                                     "tf_loop",
                                     "tf_moments",
                                     "tf_moments_tail",
                                     "tf_dense_tail",
                                     "moments in slots",
                                     "tf_dense_tail of several results",
                                     "tf_correlate",
                                     "tf_correlate_columns",
                                     "tf_correlate_tail",
                                     "tf_covariance",
                                     "on tensor cores",
                                     "tf_covariance_fold",
                                     "tf_covariance_gather",
                                     "tf_thin",
                                     "tf_cells",
                                     "tf_grouped",
                                     "tf_grouped_gradient",
                                     "products of each tap",
                                     "slices of its channels",
                                     "product alone",
                                     "rows of",
                                     "elements",
                                     "general kernel",
                                     "transfuse_dense unaligned",
                                     "tf_grouped unaligned",
                                     "tf_moments unaligned",
                                     "transfuse_dense of a later size",
                                     "tf_prepare of a later size",
                                     "tf_moments of a later size",
                                     "tf_moments_tail of a later size",
                                     "tf_dense_tail of a later size",
                                     "tf_thin of a later size",
                                     "tf_loop of a later size"};

std::set<std::string> missing(const std::set<std::string>& wanted, const std::set<std::string>& met) {
    std::set<std::string> list;
    std::set_difference(wanted.begin(), wanted.end(), met.begin(), met.end(), std::inserter(list, list.end()));
    return list;
}

TEST(CudaFamilies, HaveEveryKindOfHopperKernel) {
    const auto met = kinds(Target{});
    EXPECT_EQ(missing(plain, met), std::set<std::string>{});
    EXPECT_EQ(missing({"transfuse_dense",
                       "transfuse_to_channels_last",
                       "tf_correlate_groups",
                       "LOAD = LOAD_PLANAR;",
                       "LOAD = LOAD_VECTOR_BOXES;",
                       "LOAD = LOAD_PAIRS;",
                       "LOAD = LOAD_SINGLES;",
                       "LOAD = LOAD_BOXES;",
                       "LOAD = LOAD_OPERAND;",
                       "LOAD = LOAD_UNALIGNED_ROWS;",
                       "RESIDENT = true",
                       "RESIDENT = false",
                       "FLAT = true",
                       "FRAGMENTS = true",
                       "FOLDED = true",
                       "REDUCED = true",
                       "PROLOGUE = true",
                       "JOINT = true",
                       "PIXEL_MAJOR = true",
                       "SKIPS = true",
                       "BIASED = true",
                       "PROLOGUE_PLACED = true",
                       "SPLIT_CHANNELS = true",
                       "TERMS = 2",
                       "WG == 1",
                       "store_box(operands",
                       "store_matrices(here",
                       "MEETING > 1",
                       "rolled_as[]",
                       "windows[]",
                       "WIDE_TURNS =",
                       "TOGETHER =",
                       "PAIRS =",
                       "ADDED = 1;",
                       "ADDED = 2;",
                       "load_transposed(m, there",
                       "apart < LANES_W"},
                      met),
              std::set<std::string>{});
}

TEST(CudaFamilies, HaveEveryKindOfPortableKernel) {
    Target target;
    target.portable_only = true;
    const auto met = kinds(target);
    EXPECT_EQ(missing(plain, met), std::set<std::string>{});
    EXPECT_EQ(missing({"transfuse_dense", "LOAD = LOAD_PLANAR;", "LOAD = LOAD_VECTORS;", "LOAD = LOAD_DIRECT;",
                       "LOAD = LOAD_ROWS;", "RESIDENT = true", "RESIDENT = false", "PROLOGUE = true",
                       "PIXEL_MAJOR = true", "PROLOGUE_PLACED = true", "SPLIT_CHANNELS = true", "TERMS = 2", "WG == 1",
                       "rolled_as[]", "windows[]", "apart < LANES_W"},
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
