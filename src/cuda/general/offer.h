// What a family of kernels would make of a pass. Families answer with offers, assemble/ compares them, and one is
// written.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

// Launches, and what they leave to the rest of the pass.
struct FamilyProgram {
    Program program;
    Places places;  // where the rest finds grid values (as partials, mostly), or the tile value one is of; in scratch
    std::vector<ValueId> stored;                     // grid values that already are where the pass stores them
    std::shared_ptr<const ExtraJob> pack = nullptr;  // to be run before: what the kernels read packed; null: nothing
    int64_t packed_bytes = 0;
    Words config = {};     // of a tensor-core kernel, in words
    Words words = {};      // the configuration and the specialization: all that its text depends on beside the pass's
                           // structure
    Words pass_note = {};  // for a pass that is all this program; empty: there is none yet
};

struct Offer {
    double seconds = 0;      // estimate; 0: none, what the family takes at all it makes faster than others
    double busy = 1;         // share of the multiprocessors that have a tile, over all rounds
    std::string parts = {};  // in which sums are left, in words (parts.h); empty: they are whole
    std::function<FamilyProgram()> write;  // once, while all that was asked with is there
};

}  // namespace transfuse::cuda
