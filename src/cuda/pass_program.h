// One pass as launches: the family of kernels that takes it, whole or in part, and the general kernel for what is left.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/known.h"
#include "cuda/placement.h"

namespace transfuse::cuda {

// What all passes of a plan are generated from.
struct PassContext {
    const Plan& plan;
    const CompileOptions& options;
    const Target& target;
    bool aligned;                         // leaves and outputs begin on 16-byte boundaries
    const std::vector<bool>& parameters;  // per value: depends on parameters alone
    Placement& placement;
    KnownKernels* known;             // kernels that other sizes of the program were given; may be null
    std::shared_ptr<Frames> frames;  // and what these read passes as; may be null
};

// The weights of a dense kernel, in the order it reads them.
struct PackedWeights {
    int64_t bytes = 0;
    bool kept = false;                    // by a frozen executable
    std::shared_ptr<const ExtraJob> job;  // to be run by the launch that prepares; null: the pass packs them itself
};

// The tensor-core kernel of a dense pass, or why there is none.
struct Tiles {
    std::optional<DenseProgram> dense;
    bool apart = false;          // it leaves the products of each tap
    std::optional<Taken> taken;  // of the kernels that are known
    std::string why_not;
};

struct PassProgram {
    Program program;
    Words note;                   // what was chosen
    std::optional<Words> config;  // of a tensor-core kernel
    std::optional<Taken> taken;   // the same, where the program's kernels are known
    std::optional<PackedWeights> packed;
};

// config: the dense configuration to take instead of the heuristic's; empty: none. ahead: the pass's tiles, where they
// were generated already.
PassProgram generate_pass(const PassContext& context, size_t number, const std::string& config,
                          std::optional<Tiles> ahead = {});

// Whether tiles may be asked of the pass.
bool takes_tiles(const PassContext& context, size_t number, const std::string& config);
// The tiles of a pass before the passes that precede it; threads may do so side by side. Nothing where another family
// takes the pass; or where something is wrong, which generate_pass will meet again.
std::optional<Tiles> tiles_ahead(const PassContext& context, size_t number, const std::string& config);

}  // namespace transfuse::cuda
