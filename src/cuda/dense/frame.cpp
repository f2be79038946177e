#include "cuda/dense/frame.h"

#include <algorithm>

namespace transfuse::cuda {

namespace {

// The request for sizes of the same quality.
void put_numbers(Request& request, const ReadPass& read) {
    const auto& [program, problem] = read;
    request.problem.axes = problem.axes;
    request.program.around = program.around;
    request.program.input = program.input;
    request.program.reads = program.reads;
    request.program.stores = program.stores;
    request.program.grid_shape = program.grid_shape;
    request.epilogue.put_numbers();
}

}  // namespace

std::unique_ptr<DenseRead> Frame::take(const std::shared_ptr<const KernelSpec>& spec, std::string_view quality,
                                       const ReadPass& read) {
    std::unique_ptr<DenseRead> found;
    {
        const std::lock_guard lock(mutex_);
        const auto at = std::ranges::find_if(
            reads_, [&](const auto& read) { return read->spec == spec && read->quality == quality; });
        if (at == reads_.end()) return nullptr;
        found = std::move(*at);
        reads_.erase(at);
    }
    ++taken_;
    put_numbers(*found->request, read);
    return found;
}

void Frame::give_back(std::unique_ptr<DenseRead> read) {
    const std::lock_guard lock(mutex_);
    if (reads_.size() == most) reads_.pop_back();
    reads_.insert(reads_.begin(), std::move(read));
}

// Rows that share their padding, come as one or are gone through by swap-AB products have the image's width.
bool lasts(const KernelSpec& spec) { return !spec.config.shared_padding && !spec.config.flat && !spec.config.swap_ab; }

}  // namespace transfuse::cuda
