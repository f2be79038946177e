// A pass made ready to run, and where values lie in memory while a plan runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transfuse/engine.h"

namespace transfuse::cpu {

// The memory of one call: tensors of the caller, buffers in the workspace, and views of both.
class Memory {
public:
    Memory(const Plan& plan, std::span<const TensorView> leaves, std::span<const TensorView> outputs);
    void place(ValueId buffer, void* data);  // contiguous, of the value's type

    // Values that are the same numbers at every call.
    void fix(ValueId root) { fixed_[static_cast<size_t>(root)] = true; }
    bool fixed(ValueId value) const {
        return is_literal(plan_->graph, value) || fixed_[static_cast<size_t>(view_root(*plan_, value))];
    }

    TensorView source(ValueId value) const;         // where a pass reads it; literals included
    const TensorView& target(ValueId value) const;  // where a pass stores it
    // The part of a store's target that its value fills, in the shape of the value where that is a matter of strides,
    // else (a reshape) in the shape of the target.
    TensorView target(const Store& store) const;

private:
    const Plan* plan_;
    std::vector<TensorView> sources_, targets_;  // by value; data is null where there is none
    std::vector<double> literals_;
    std::vector<bool> fixed_;
};

struct Run {
    const Memory* memory;
    char* workspace;  // of this pass, 256-byte aligned
    int threads;
};

class CompiledPass {
public:
    virtual ~CompiledPass() = default;
    virtual size_t workspace_bytes() const = 0;
    virtual size_t kept_bytes() const { return 4096; }  // of memory that it holds between calls, about
    virtual void run(const Run& run) const = 0;
    virtual std::string describe() const = 0;
};

// Sums sizes into offsets, each aligned to 256 bytes.
class WorkspaceLayout {
public:
    size_t add(size_t bytes) {
        const size_t offset = total_;
        total_ += (bytes + 255) / 256 * 256;
        return offset;
    }
    size_t total() const { return total_; }

private:
    size_t total_ = 0;
};

// Each step in turn over whole arrays, whatever the pass: right for everything, fast for what is small.
std::unique_ptr<CompiledPass> compile_steps(const Plan& plan, const Pass& pass);

// The fast ways; null where they cannot express the pass.
std::unique_ptr<CompiledPass> compile_dense(const Plan& plan, const Pass& pass);
std::unique_ptr<CompiledPass> compile_moments(const Plan& plan, const Pass& pass);
std::unique_ptr<CompiledPass> compile_pointwise(const Plan& plan, const Pass& pass);

// The fastest way this engine knows for a pass.
std::unique_ptr<CompiledPass> compile_pass(const Plan& plan, const Pass& pass);

}  // namespace transfuse::cpu
