// A program: one graph for every shape it will meet. It finds, or makes, the executable for the tensors of a call.
//
// The text of a program is a graph (see graph.h) whose leaf types are those of the first call, and in which `$0`, `$1`,
// … may stand for whole numbers that are known only at the call (a size that a model computes from its input's shape).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transfuse/algebra.h"
#include "transfuse/engine.h"
#include "transfuse/graph.h"
#include "transfuse/recent.h"

namespace transfuse {

namespace cuda {
class KnownKernels;
}

enum class Engine : uint8_t { cpu, cuda, reference };

// What a forward call keeps for a backward call, and that takes.
struct Keep {
    GradientRequest gradient;      // that may be asked for; nothing is kept where it names no leaf
    std::vector<ValueId> shared;   // results that the caller keeps anyway: they are given again behind what is kept
};

// Of the operators' argument: how many outputs get gradients, these; how many leaves want them, these; shared results.
// Empty: nothing is kept.
Keep read_keep(std::span<const int64_t> numbers);

// What a call asks for beside its tensors.
struct CallMode {
    Engine engine = Engine::cpu;
    int device = 0;  // CUDA ordinal
    Fp32Precision precision = Fp32Precision::strict;
    int products = 0;       // where precision is tf32: what Program::products() gave for exceptions; 0: none
    bool freeze = false;    // parameters will not change
    bool inference = true;  // no gradient will be asked for
    Keep keep = {};         // forward gives, behind its outputs, what backward then takes behind the gradients
    bool autotune = false;  // CompileOptions::autotune
    bool lean = false;      // CompileOptions::lean
};

// What one call runs: made once for a signature, then shared by all threads.
struct Instance {
    std::vector<Type> output_types;
    std::vector<Sizes> output_strides;  // channels last where an operand of a convolution is, else contiguous
    std::unique_ptr<Executable> executable;
    size_t workspace_bytes = 0;
};

struct ProgramStatistics {
    int64_t plans = 0;     // signatures met, forward and backward
    int64_t failures = 0;  // signatures that could not be compiled
};

class Program {
public:
    // Throws Error if the text is no graph. most: bytes of what is kept of the signatures that were met last, plans and
    // prepared weights; a stream of ever new sizes needs no more memory from there on.
    explicit Program(std::string text, size_t most = size_t{64} << 20);

    const std::string& text() const { return text_; }
    size_t leaf_count() const { return leaf_names_.size(); }

    // The instance for leaves like these; compiled when met for the first time. A signature that failed fails again at
    // once, with the same words.
    std::shared_ptr<const Instance> forward(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                            const CallMode& mode);
    // Its gradient: run on the leaves followed by one gradient for each of request.outputs; gives one for each of
    // request.wrt.
    std::shared_ptr<const Instance> backward(std::span<const TensorView> leaves, std::span<const TensorView> gradients,
                                             std::span<const int64_t> sizes, const CallMode& mode,
                                             const GradientRequest& request);
    // Of each output, whether forward() would lay it channels last for leaves like these; else it is contiguous.
    std::vector<bool> outputs_channels_last(std::span<const TensorView> leaves, std::span<const int64_t> sizes) const;
    // What a training call that keeps something would give behind its outputs for leaves like these: types and strides.
    std::vector<std::pair<Type, Sizes>> kept(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                                             const CallMode& mode) const;
    // Parameters that were said not to change have changed: what was prepared of them is prepared anew.
    void forget_frozen();
    // A number for CallMode::products. Of each leaf: 1 where its products are strict in forward, 2 where they are in the
    // gradients of what it is convolved with, 4 where they are in its own gradient; or a sum of these.
    int products(std::vector<uint8_t> of_leaves);
    // What forward() or, with a request, backward() would launch on a CUDA device of this architecture, as JSON
    // (src/emit/stated.h). Needs no device. Sizes that were stated before share their kernels with later ones, so a
    // program is for calls of one kind.
    std::string stated(std::span<const TensorView> leaves, std::span<const int64_t> sizes, const CallMode& mode,
                       int arch, const GradientRequest& request);
    ProgramStatistics statistics() const;
    std::vector<std::shared_ptr<const Instance>> instances() const;  // that are kept
    size_t bytes() const;                                            // of them

    // The graph for leaves of these types, as written.
    Graph graph(std::span<const TensorView> leaves, std::span<const int64_t> sizes) const;

private:
    struct Reading;  // the graph for some leaves, and what is made of it
    struct Asked;    // what a call is compiled of
    struct Entry {
        std::shared_ptr<const Instance> instance;
        std::string failure;
    };
    struct Hash {
        size_t operator()(const std::vector<int64_t>& key) const;
    };
    // What a call is found by: what its inputs are, and the number under which what its parameters are is known.
    struct Signature {
        std::vector<int64_t> key, parameters;
    };
    Signature& signature(std::span<const TensorView> leaves, std::span<const int64_t> sizes,
                         const CallMode& mode) const;
    Signature& signature(std::span<const TensorView> leaves, std::span<const TensorView> gradients,
                         std::span<const int64_t> sizes, const CallMode& mode, const GradientRequest& request) const;
    Asked asked_forward(std::span<const TensorView> leaves, std::span<const int64_t> sizes, const CallMode& mode);
    Asked asked_backward(std::span<const TensorView> leaves, std::span<const TensorView> gradients,
                         std::span<const int64_t> sizes, const CallMode& mode, const GradientRequest& request);
    std::shared_ptr<const Instance> compiled(Asked asked, const CallMode& mode) const;
    std::vector<bool> strict(const CallMode& mode, int kinds);  // of each leaf, whether products() was told one of these
    bool put_number(Signature& signature) const;  // into the key; false: such parameters are new
    std::shared_ptr<const Instance> met(Signature& signature) const;  // null: such a call is new
    std::shared_ptr<const Instance> made(Signature& signature,
                                         const std::function<std::shared_ptr<const Instance>()>& make);
    std::string render(std::span<const TensorView> leaves, std::span<const int64_t> sizes) const;
    std::optional<Graph> read_like(std::span<const TensorView> leaves) const;

    // The text cut at its holes: piece, hole, piece, … ; hole ≥ 0 is a leaf's type, hole < 0 is size number −1−hole.
    std::string text_;
    std::vector<std::string> pieces_;
    std::vector<int64_t> holes_;
    std::vector<std::string> leaf_names_;
    std::vector<bool> parameter_;  // per leaf
    bool sizes_at_call_ = false;   // some hole is a size

    mutable std::mutex read_mutex_;
    mutable std::optional<Graph> read_;  // the graph as it was read last, where no hole is a size
    std::mutex products_mutex_;
    std::deque<std::vector<uint8_t>> products_;  // as products() was given them, which gives their places, counted from one
    mutable std::shared_mutex mutex_;
    std::mutex making_;
    Recent<std::vector<int64_t>, Entry, Hash> entries_;
    static constexpr size_t most_parameters = 64;
    std::deque<std::vector<int64_t>> parameters_;  // signatures of those that were met last: one, mostly
    int64_t forgotten_ = 0;                        // that were met before them
    std::shared_ptr<cuda::KnownKernels> kernels_;  // that new sizes may share
    std::atomic<int64_t> plans_{0}, failures_{0};
};

// Programs by handle. A handle is made from the text, so equal programs share their executables and a handle means the
// same in every process; `salt` keeps apart programs whose frozen parameters differ. Who holds a program finds it until
// it is released as often. Of those that nobody holds the last few stay (a text that is called by itself, a graph that
// outlives its model), but none with a salt, which nobody could name again.
int64_t define_program(const std::string& text);
int64_t hold_program(const std::string& text, uint64_t salt = 0);
void release_program(int64_t handle);
std::shared_ptr<Program> program(int64_t handle);  // throws Error if there is none

}  // namespace transfuse
