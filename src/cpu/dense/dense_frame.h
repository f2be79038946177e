// What every dense pass does around its products: operands are found, packed weights kept, reductions and the tail
// follow.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "cpu/dense/cut/dense_geometry.h"
#include "cpu/dense/cut/line_geometry.h"
#include "cpu/dense/stage/kept_weights.h"
#include "cpu/pass/pass.h"
#include "cpu/primitive/tail.h"
#include "cpu/tiles/tile_program.h"

namespace transfuse::cpu {

// A dense pass taken apart.
struct DenseParts {
    const Plan& plan;
    const Pass& pass;
    std::unique_ptr<TileProgram> program, prologue;
    ValueId source;  // what is staged: x, or what the prologue makes it of
};

class DensePass : public CompiledPass {
public:
    virtual bool any_pairs() const = 0;
    // Sums of pairs take differences of inputs: where one is infinite they are NaN, and the plain sum need not be. Then
    // the same pass without pairs does everything once more.
    void set_plain(std::unique_ptr<CompiledPass> pass) { plain_ = std::move(pass); }

protected:
    std::unique_ptr<CompiledPass> plain_;
};

template <class T>
class DenseFrame : public DensePass {
public:
    size_t workspace_bytes() const override {
        return std::max(
            {layout_.total(), fallback_ ? fallback_->workspace_bytes() : 0, plain_ ? plain_->workspace_bytes() : 0});
    }
    size_t kept_bytes() const override {
        constexpr size_t of_a_tap = 768;  // what meets it
        size_t taps = 1;
        for (const Lattice& axis : lattices(plan_.graph, pass_.anchor)) taps *= static_cast<size_t>(axis.taps);
        return CompiledPass::kept_bytes() + taps * of_a_tap;  // (packed weights have a bound of their own)
    }
    void run(const Run& run) const override;

protected:
    struct Call {
        const Run& run;
        BoundProgram bound;
        std::unique_ptr<BoundProgram> prologue;
        Placed x;
        KeptWeights::Packed weights;
        const T* packed;
        const T* bias;
        mutable std::atomic<bool> overflown = false;
    };

    DenseFrame(DenseParts& parts);
    // When the derived class knows how its grid is cut: room for reductions, and for the bias.
    void lay_out(const Tiling& tiling);
    virtual size_t packed_bytes() const = 0;
    virtual void pack(const TensorView& w, T* packed, int threads) const = 0;
    virtual void compute(const Call& call) const = 0;

    // The tile on the grid behind the program's pool.
    Box pooled(const Box& box) const;
    const T* bias_of(const Call& call, int64_t channel) const { return call.bias ? call.bias + channel : nullptr; }

    const Plan& plan_;
    const Pass& pass_;
    const Node& node_;
    std::unique_ptr<TileProgram> program_, prologue_;
    int prologue_slot_ = -1;

private:
    ValueId source_;
    WorkspaceLayout layout_;
    Tail tail_;
    std::vector<GridReduction> reductions_;
    std::vector<size_t> partials_;
    size_t bias_ = 0;
    KeptWeights weights_;
    std::unique_ptr<CompiledPass> fallback_;
};

inline DenseWay dense_way = DenseWay::shorter;

// By tiles whose patch serves every tap, pairs of rows and of planes (dense_geometry.h), by lines (line_geometry.h), or,
// where each output channel depends on one input channel, channel by channel.
template <class T>
std::unique_ptr<DensePass> dense_by_tiles(DenseParts& parts, DenseGeometry geometry);
template <class T>
std::unique_ptr<DensePass> dense_by_lines(DenseParts& parts, LineGeometry geometry);
template <class T>
std::unique_ptr<DensePass> dense_by_channels(DenseParts& parts, LineGeometry geometry);

}  // namespace transfuse::cpu
