// What a run of neighbouring outputs meets along one axis of a lattice.
//
// Run q holds the outputs run·q … run·q + run - 1. Which input meets which of them through which tap repeats with the
// lattice's period, so there are few classes of runs, one where the run is a multiple of the period; every class is a
// matrix [input][output] of taps, some of them none.
#pragma once

#include <vector>

#include "cuda/kernel/text.h"
#include "transfuse/lattice.h"

namespace transfuse::cuda {

class RunWindow {
public:
    RunWindow(const Lattice& axis, int64_t run);

    int64_t run() const { return run_; }
    int64_t classes() const { return classes_; }
    int64_t inputs() const { return inputs_; }  // a run meets at most so many neighbours
    bool fixed() const { return classes_ == 1; }
    // The tap through which the s-th input of a run of this class meets its output v; -1: none.
    int64_t tap(int64_t of_class, int64_t s, int64_t v) const {
        return taps_[static_cast<size_t>((of_class * inputs_ + s) * run_ + v)];
    }
    bool meets(int64_t s, int64_t v) const;  // in any class
    bool meets(int64_t s) const;             // any output

    // Weights as they are staged along this axis: the taps themselves, or the matrices of all classes one after
    // another.
    std::vector<int64_t> staged() const;        // the tap of each entry; -1: zero
    int64_t entry(int64_t s, int64_t v) const;  // of class 0
    int64_t class_entries() const { return inputs_ * run_; }

    std::string class_of(const std::string& q) const;
    std::string first_input(const std::string& q) const;  // may lie outside the axis
    // Whether input s of every run begins a vector: a multiple of `vector`.
    bool aligned(int64_t s, int64_t vector) const;

private:
    int64_t first(int64_t q) const;

    Lattice axis_;
    int64_t run_, classes_ = 1, inputs_ = 0;
    std::vector<int64_t> taps_;  // [class][input][output]
};

}  // namespace transfuse::cuda
