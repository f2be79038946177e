// Tensors in host memory in their own dtype, filled from and read back as doubles.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "transfuse/tensor.h"

namespace transfuse::cli {

class AlignedBytes {  // 256-byte aligned, as workspaces must be
public:
    explicit AlignedBytes(size_t size);
    void* data() const { return bytes_.get(); }

private:
    struct Free {
        void operator()(std::byte* bytes) const;
    };
    std::unique_ptr<std::byte[], Free> bytes_;
};

class Storage {
public:
    explicit Storage(const Type& type);  // all NaN: what is not written shows
    Storage(const Type& type, const std::vector<double>& values);
    TensorView view() const;
    std::vector<double> values() const;

private:
    Type type_;
    AlignedBytes bytes_;
};

}  // namespace transfuse::cli
