// What the kernels that sum products of a tensor with itself have in common: the parts of the input they keep apart,
// the slots they leave their sums in, and the two kernels that make the covariance of them.
//
// A kernel's blocks take tiles: some lags, some pairs of channels. On d a block stays inside one segment (see
// algebra/lags.h); along h and w it takes a run, which may reach over several segments, and leaves sums of each. The
// second kernel adds up the blocks of each part (a segment on each axis), the third the parts that each pair of taps
// needs.
#pragma once

#include <functional>

#include "algebra/lattice/integer.h"
#include "algebra/lattice/lags.h"
#include "cuda/general/kernel_text.h"
#include "cuda/sums/covariance/covariance.h"

namespace transfuse::cuda {

class CovarianceParts {
public:
    virtual ~CovarianceParts() = default;
    FamilyProgram program();

protected:
    CovarianceParts(const Surroundings& s, const Places& places, DType slots, bool centred);

    virtual Launch sum() = 0;
    virtual int64_t values() const = 0;         // of a tile: products, then numbers alone
    virtual int64_t slot_segments() const = 0;  // that a block may leave sums of
    // Declares tf_tall_segment and tf_run_segment: of each run along h and w the first segment, and how many.
    virtual void write_runs(KernelText& kernel) const = 0;
    virtual std::string runs_code() const { return {}; }  // what write_runs calls
    // Declares `tile` and `value`, where the sums of channels ca and cb that lie lag[3] apart are; of ca alone if
    // `which`.
    virtual void write_slot(Body& body) const = 0;

    // Blocks for each segment on d and runs along h and w, as the work (d, tall, run) they have, about `most` at most;
    // else all at once on the device.
    using Work = std::function<double(int64_t, int64_t, int64_t)>;
    void share(const Work& work, int64_t resident, double most = 1e30);
    // A part is (run, tall, d), d going fastest. Where there are few chunks the run beside the first cut has them all:
    // it is first.
    std::string run_of(const std::string& part) const;
    std::string tall_of(const std::string& part) const;
    // x at one place: its axes of d, h and w are those x has.
    Index at(const std::string& n, const std::string& channel, const std::string& d, const std::string& h,
             const std::string& w) const;
    // Numbers that change with the sizes, in shared memory.
    static void table(KernelText& kernel, const std::string& name, const std::vector<int64_t>& values);
    int64_t parts() const { return axes_[0].segments() * axes_[1].segments() * segments_; }
    int64_t chunks() const { return (values() + 31) / 32; }  // of values that a block folds
    // Scratch memory: the blocks' slots, the sums of each part, the covariance, the means.
    int64_t parts_at() const {
        return round_up(tiles_ * groups_ * values() * slot_segments() * blocks_ * bytes(slots_), 256);
    }
    int64_t result_at() const { return parts_at() + round_up(tiles_ * groups_ * values() * parts() * 8, 256); }
    int64_t means_at() const { return result_at() + round_up(numel(graph_[id_].type.shape) * 8, 256); }
    KernelText text() const { return KernelText(s_, places_, 1, numel(graph_[x_].type.shape) >= int64_t{1} << 31); }

    const Surroundings& s_;
    const Graph& graph_;
    const Places& places_;
    const ValueId id_, x_;
    const DType slots_;           // what sums of a block are stored as: [tile][block][segment along h][along w][value]
    std::vector<AxisLags> axes_;  // d, h, w
    Sizes extent_;                // of x along them
    bool centred_ = false;  // sums are of x less a number for each channel, which the first kernel leaves at means_at()
    int64_t batch_ = 1, groups_ = 1, channels_ = 1;
    int64_t tiles_ = 1, segments_ = 1, blocks_ = 0;  // tiles of a group; segments along w; blocks of a tile
    int64_t high_runs_ = 1, runs_ = 1;               // along h and w
    std::vector<int64_t> first_block_;               // of each part; then how many in all

private:
    int64_t fold_slices_ = 4;  // of the blocks whose sums one block adds
    Launch fold();
    Launch gather();
    // Pairs of taps; behind them the means.
    int64_t elements() const { return numel(graph_[id_].type.shape) - graph_[id_].type.shape[1]; }
    int64_t gather_lanes() const;
    void write_fold(KernelText& kernel) const;
    int64_t points() const { return axes_[0].taps * axes_[1].taps * axes_[2].taps; }
    void write_gather(KernelText& kernel) const;
    void write_pair(KernelText& kernel, const std::array<std::string, 3>& tables) const;
    void write_sums(KernelText& kernel, const std::string& from) const;
    std::string counted(KernelText& kernel) const;
};

// On tensor cores, where products of TF32 (or 16 bits) will do; nullptr where they cannot.
std::unique_ptr<CovarianceParts> covariance_products(const Surroundings& surroundings, const Places& places);

}  // namespace transfuse::cuda
