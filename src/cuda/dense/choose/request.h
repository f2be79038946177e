// What a dense pass asks of a family of kernels.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cuda/dense/exits/exits.h"
#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/read/keys.h"
#include "cuda/dense/read/parts.h"
#include "cuda/dense/schedule/kernel_spec.h"

namespace transfuse::cuda {

// What the pass asks of a family, and how its results shall leave.
struct Request {
    const TileProgram program;
    const Problem problem;
    Epilogue epilogue;
    Needs needs;
    const Exits exits;
    Request(TileProgram tile_program, const Problem& p, std::optional<Handed> handed);
    Request(const Request&) = delete;  // the epilogue refers to its neighbours

    Needs needs_by(Exit exit) const;
    void leave_by(Exit exit);
    bool relax();  // where no tile fits: asks for less. False when there is nothing left to do without
};

// What a text shall be like: as is best for the size; good for sizes many times larger too (and in TF32 where those
// gain from it, though small ones do not); right for any size; or as another size's.
struct TextOptions {
    int larger = 0;
    bool loose = false;
    std::shared_ptr<const KernelSpec> spec = nullptr;
    SumParts parts = {};
};

// What a pass asks of a family, before its text has any options.
struct ReadPass {
    TileProgram program;
    Problem problem;
    std::optional<Handed> handed;
};
// Nothing, with a sentence, where the family does not take the pass. parts: in which others add up its sums.
std::optional<ReadPass> read_pass(const Surroundings& around, Family family, std::string* why_not,
                                  const SumParts& parts = {});
// Null where the options do not fit. (Parts in it were asked for so.)
std::unique_ptr<Request> request_of(ReadPass read, const Surroundings& around, const TextOptions& options);
std::unique_ptr<Request> read_request(const Surroundings& around, Family family, std::string* why_not,
                                      const TextOptions& options = {});

}  // namespace transfuse::cuda
