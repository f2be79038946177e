// Engines turn a plan into something that runs on raw memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transfuse/plan.h"
#include "transfuse/tensor.h"

namespace transfuse {

// How fp32 products are made: strict = full fp32 accuracy; tf32 = as PyTorch with TF32 allowed.
enum class Fp32Precision : uint8_t { strict, tf32 };

struct CompileOptions {
    Fp32Precision precision = Fp32Precision::strict;
    // Strides of each leaf and of each output as they will be at run time; empty: contiguous. Kernels may be specialised
    // for them; run() checks that they match.
    std::vector<Sizes> leaf_strides, output_strides;
    bool freeze = false;             // parameters will not change: prepare once, at the first run
    int device = 0;                  // CUDA ordinal
    bool autotune = false;           // CUDA: measure several configurations of a dense pass, remember the fastest (also TRANSFUSE_AUTOTUNE=1)
    bool lean = false;               // no scratch memory for the sake of speed alone
};

struct RunContext {
    int threads = 0;                 // CPU: 0 = all
    void* stream = nullptr;          // CUDA: CUstream
    void* workspace = nullptr;       // 256-byte aligned, on the executable's device
    size_t workspace_bytes = 0;      // how much of it there is; 0: workspace_bytes()
};

class Executable {
public:
    virtual ~Executable() = default;
    // Scratch memory that a call needs: with tensors that begin on 16 bytes, and with these tensors, wherever they
    // begin (CUDA has kernels of their own for others, made when they are first asked for).
    virtual size_t workspace_bytes() const = 0;
    virtual size_t workspace_bytes_for(std::span<const TensorView> /*leaves*/, std::span<const TensorView> /*outputs*/) {
        return workspace_bytes();
    }
    // Memory that it holds from call to call: what it prepared exactly, the rest about.
    virtual size_t kept_bytes() const = 0;
    // leaves in the order of graph.leaves(), outputs in the order of graph.outputs(). Safe to call from many threads at
    // once with different workspaces. Throws Error before any memory is touched if a view does not fit.
    virtual void run(std::span<const TensorView> leaves, std::span<const TensorView> outputs, const RunContext& context) = 0;
    virtual std::string describe() const = 0;   // kernels, tiles, resources: for report and bench
};

std::unique_ptr<Executable> compile_reference(const Plan& plan, const CompileOptions& options = {});
std::unique_ptr<Executable> compile_cpu(const Plan& plan, const CompileOptions& options = {});
std::unique_ptr<Executable> compile_cuda(const Plan& plan, const CompileOptions& options = {});  // Error where there is no GPU
bool cuda_available();               // driver, NVRTC and a device were found
std::string cuda_unavailable_reason();
bool cuda_captures(void* stream);    // its work is being recorded into a graph, or cannot be told not to be

// The reference interpreter of graphs: plain loops in float64 (or rounded to each value's dtype after every op).
enum class Arithmetic : uint8_t { f64, as_typed };
std::vector<std::vector<double>> evaluate(const Graph& graph, const std::vector<std::vector<double>>& leaves,
                                          Arithmetic arithmetic = Arithmetic::f64);
// The same for a plan: pass by pass, each value taken only from what its pass may read. Throws Error if a plan is ill-formed.
std::vector<std::vector<double>> evaluate(const Plan& plan, const std::vector<std::vector<double>>& leaves,
                                          Arithmetic arithmetic = Arithmetic::f64);

}  // namespace transfuse
