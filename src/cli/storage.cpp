#include "cli/storage.h"

#include <cmath>
#include <new>

#include "reference/element.h"

namespace transfuse::cli {

namespace {

constexpr std::align_val_t alignment{256};

}  // namespace

AlignedBytes::AlignedBytes(size_t size)
    : bytes_(static_cast<std::byte*>(::operator new[](size ? size : 1, alignment))) {}
void AlignedBytes::Free::operator()(std::byte* bytes) const { ::operator delete[](bytes, alignment); }

Storage::Storage(const Type& type) : Storage(type, std::vector<double>(static_cast<size_t>(numel(type.shape)), NAN)) {}

Storage::Storage(const Type& type, const std::vector<double>& values)
    : type_(type), bytes_(values.size() * static_cast<size_t>(bytes(type.dtype))) {
    reference::store(view(), values);
}

TensorView Storage::view() const { return {bytes_.data(), type_.dtype, type_.shape, contiguous_strides(type_.shape)}; }

std::vector<double> Storage::values() const { return reference::load(view()); }

}  // namespace transfuse::cli
