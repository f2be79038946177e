// What a dense pass asks of a family of kernels.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/read/keys.h"
#include "cuda/dense/schedule/kernel_spec.h"

namespace transfuse::cuda {

// What the pass asks of a family.
struct Request {
    TileProgram program;
    Problem problem;
    Epilogue epilogue;
    Needs needs;
    int direct = 0;  // bytes of an element that may go directly to memory
    Request(TileProgram tile_program, const Problem& p);
    Request(const Request&) = delete;  // the epilogue refers to its neighbours

    bool on_accumulators() const { return needs.fragments || needs.folded; }
    void leave_by_tma(int element);
    // The same, its results directly from the accumulators to memory; nullopt where they cannot go so.
    std::optional<Needs> direct_needs() const;
    void store_directly();
    int swap_ab = 0;  // bytes of an element where the product may swap its operands (swap_ab_stores.h)
    std::optional<Needs> swap_ab_needs() const;
    void turn();
    void through_chunks();  // what follows the products goes to the store role, all of it
    bool relax();           // where no tile fits: asks for less. False when there is nothing left to do without
};

// What a text shall be like: as is best for the size; good for sizes many times larger too (and in TF32 where those
// gain from it, though small ones do not); right for any size; or as another size's.
struct TextOptions {
    int larger = 0;
    bool loose = false;
    std::shared_ptr<const KernelSpec> spec = nullptr;
    Col2imAxes col2im = 0;
};

// What a pass asks of a family, before its text has any options.
struct ReadPass {
    TileProgram program;
    Problem problem;
};
// Nothing, with a sentence, where the family does not take the pass. col2im: with the taps of those axes as rows.
std::optional<ReadPass> read_pass(const Surroundings& around, Family family, std::string* why_not,
                                  Col2imAxes col2im = 0);
// Null where the options do not fit. (Its taps are rows where they were asked for so.)
std::unique_ptr<Request> request_of(ReadPass read, const Surroundings& around, const TextOptions& options);
std::unique_ptr<Request> read_request(const Surroundings& around, Family family, std::string* why_not,
                                      const TextOptions& options = {});

}  // namespace transfuse::cuda
