// The dense pass on tensor cores: lattice-convolution tiles with the tile program in the epilogue.
//
// choose (choose.h) -> schedule (schedule.h) -> generate (generate.h): each a pure function from values to values;
// nothing here calls CUDA. What comes out is text, launch shapes and arguments for the runtime.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/general/offer.h"

namespace transfuse::cuda {

struct KernelSpec;

// What a pass says that is made by tensor cores, before what its program says.
inline constexpr std::string_view by_tensor_cores = "tensor-core kernel; ";
// Names of this family's kernels begin so; the tiles' own is dense_entry.
inline constexpr std::string_view dense_family = "transfuse_", dense_entry = "transfuse_dense";
// As Surroundings::config: leave the pass to the general kernel.
inline constexpr std::string_view no_dense_config = "none";
inline constexpr std::string_view portable_config =
    "portable";  // the best of the portable family, whatever the device has

// The pass on the wgmma family where the device has it and the family takes it, else on the portable one, or nullopt
// with a sentence in `why_not`: the executable then takes the general pull kernel. Surroundings::config, where it fits
// the pass, overrides the heuristic.
std::optional<Offer> offer_dense(const Surroundings& surroundings, std::string* why_not = nullptr);

// What the words of a kernel (FamilyProgram::words) say. Null where they say nothing.
std::shared_ptr<const KernelSpec> kernel_spec_named(const std::string& words);

// The same by what other sizes were given; nullopt where that does not fit this size.
class KnownOffers {  // of one pass
public:
    explicit KnownOffers(const Surroundings& surroundings);
    ~KnownOffers();
    KnownOffers(const KnownOffers&) = delete;
    std::optional<Offer> as(const std::shared_ptr<const KernelSpec>& spec);

private:
    struct Passes;
    const Surroundings& around_;
    std::unique_ptr<Passes> passes_;  // what no kernel decides
};

// The same with a text for other sizes as well: good for some `larger` times as large, or right for any.
std::optional<Offer> offer_dense_for_many(const Surroundings& surroundings, int larger, bool any_size);

// The same where it is estimated clearly faster with its sums in parts (parts.h): they alone are stored,
// places says how they are read. than: the estimate of what it would replace.
std::optional<Offer> offer_dense_in_parts(const Surroundings& surroundings, double than);

// The same where it is estimated clearly faster with a copy of its input (to_channels_last.h).
std::optional<Offer> offer_dense_channels_last(const Surroundings& surroundings, double than);

// Configurations worth a try, unlike one another, best estimate first; empty where no family takes the pass.
std::vector<std::string> dense_configs(const Surroundings& surroundings, size_t most);

}  // namespace transfuse::cuda
