// What a dense pass was read as for other sizes, kernel by kernel. How a pass is read depends on a size through little
// beside the numbers of extents, strides and places themselves: whether they are 0 or 1, which vectors divide them, a
// few bounds. A size of which all of that is the same takes what another was read as and puts its own numbers there.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/dense/choose/cut.h"

namespace transfuse::cuda {

// A kernel's text, and the job that packs its weights.
struct DenseText {
    std::shared_ptr<const Source> source;
    std::shared_ptr<const ExtraJob> pack;
};

// A pass read as one known kernel.
struct DenseRead {
    std::shared_ptr<const KernelSpec> spec;
    std::string quality;  // of the sizes it was read for
    std::unique_ptr<Request> request;
    Cut cut;
    DenseText text;
};

// Of one pass of one form of plans; threads may ask at once.
class Frame {
public:
    // What was read for such sizes, which now is the caller's, for these: null where there is none.
    std::unique_ptr<DenseRead> take(const std::shared_ptr<const KernelSpec>& spec, std::string_view quality,
                                    const ReadPass& read);
    void give_back(std::unique_ptr<DenseRead> read);
    int64_t taken() const { return taken_; }  // how often

private:
    static constexpr size_t most = 8;  // kernels times qualities
    std::mutex mutex_;
    std::vector<std::unique_ptr<DenseRead>> reads_;  // given back last first
    std::atomic<int64_t> taken_{0};
};

// Of all passes of plans of one form.
class Frames {
public:
    explicit Frames(size_t passes) : frames_(passes) {}
    Frame* of(size_t pass) { return &frames_[pass]; }

private:
    std::vector<Frame> frames_;
};

// Whether a kernel's schedule is the same for all sizes of one quality.
bool lasts(const KernelSpec& spec);

}  // namespace transfuse::cuda
