// Grid values and the tail: what a pass computes after its tiles are done.
#pragma once

#include <map>

#include "cpu/pass/pass.h"

namespace transfuse::cpu {

// Holds the values of a pass that are not computed by its tiles, and evaluates those of scope tail one by one.
class Tail {
public:
    // All steps of the given scopes get a place: their target where they are stored whole, else a temporary.
    Tail(const Plan& plan, const Pass& pass, bool tiles_elsewhere, WorkspaceLayout& layout);

    TensorView place(const Run& run, ValueId value) const;  // of a grid or tail value
    void run(const Run& run) const;                         // tail steps, then the stores of grid and tail values
    bool empty() const { return places_.empty(); }

private:
    DType held(ValueId value) const;  // of a temporary

    const Plan& plan_;
    const Pass& pass_;
    bool all_;                           // every step is evaluated here
    int64_t numbers_ = 0;                // of all steps together
    std::map<ValueId, int64_t> places_;  // offset in the workspace, −1: in its target
};

}  // namespace transfuse::cpu
