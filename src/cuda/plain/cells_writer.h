// The writer of kernels by cells, in its parts: what a pass must be like (cells.cpp), the products (cells_product.cpp),
// the chain on all channels of an output (cells_chain.cpp), sums over space (cells_grid.cpp).
#pragma once

#include <unordered_map>

#include "cuda/general/around_product.h"
#include "cuda/general/kernel_text.h"
#include "cuda/general/variance_beside.h"
#include "cuda/plain/cells.h"
#include "plan/fusion.h"

namespace transfuse::cuda {

class CellWriter : AroundProduct {
public:
    CellWriter(const Surroundings& s, const Places& places, const std::vector<Sink>& sinks)
        : AroundProduct(s, sinks), kernel_(s, places), body_(kernel_.body), emitter_(kernel_.emitter) {}

    bool arrange(std::string* why_not);
    FamilyProgram write();

private:
    static constexpr int64_t threads = 128, resident = 3, cells = 2;
    struct PhaseTap {
        int64_t tap, shift;
    };

    bool read_steps(std::string& why);

    std::string integer(int64_t value) { return kernel_.integer(value); }
    std::string let(const std::string& text, std::string_view prefix) { return kernel_.let(text, prefix); }

    // The products.
    void write_body();
    void write_weights();
    void load_inputs(const std::string& n, const std::vector<std::string>& u);
    void make_phases(const std::string& n, const std::vector<std::string>& u);
    void multiply(int64_t phase);

    // The chain: a value with channels is an array of them, another a number.
    int64_t shares() const { return cout_ / own_; }
    std::string of_all(const std::string& channel) const {
        return first_.empty() ? channel : "(" + first_ + " + " + channel + ")";
    }
    std::string each_channel() const { return "_Pragma(\"unroll\") for (int c = 0; c < " + number(own_) + "; ++c)"; }
    static std::string name_of(ValueId v) { return "value" + number(v); }
    std::string of_channel(ValueId v) const { return name_of(v) + (has_channels(v) ? "[c]" : ""); }
    bool has_channels(ValueId v) const;
    Index own_index(ValueId v, const Index& at) const;
    void chain(ValueId first, const std::string& start, const std::vector<ValueId>& steps,
               const std::vector<ValueId>& grid, const std::vector<const Sink*>& sinks, const Index& at);
    void over_channels(ValueId v);
    void begin_pool();
    void collect();
    void finish_pool(const std::string& n, const std::vector<std::string>& u);

    // Sums over space.
    // The var whose sums hold those of a mean; -1: none.
    ValueId with_var(ValueId v) const { return variance_beside(graph_, v, grid_); }
    void place(ValueId v, FamilyProgram& result, int64_t& scratch);
    void declare(ValueId v);
    void add(ValueId v);
    void leave(ValueId v, const std::string& n, const std::string& slice);

    KernelText kernel_;
    Body& body_;
    Emitter& emitter_;
    ValueId pool_ = -1;
    TilePool pool_kind_{};
    std::vector<std::vector<std::vector<PhaseTap>>> phases_;  // [axis][phase]
    std::vector<int64_t> least_, reach_,
        cell_extent_;  // of each axis: the least shift, how many inputs, how many cells
    std::vector<ValueId> early_, late_, grid_, early_grid_, late_grid_;  // before the pool and behind it
    std::vector<const Sink*> early_sinks_, late_sinks_;
    std::unordered_map<ValueId, int64_t> slot_at_;
    std::string first_;  // channel of the block, where it has a share
    int64_t own_ = 1, channels_ = 4, phase_count_ = 1, pairs_ = 1, slices_ = 1;  // own: of a thread
};

}  // namespace transfuse::cuda
