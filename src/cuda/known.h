// The dense kernels a program has met so far. A new size takes one of them where that costs little, so that a stream of
// sizes compiles one or two, and is planned without a search.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cuda/dense/dense.h"

namespace transfuse::cuda {

struct KnownKernel {
    std::string words;  // DenseProgram::words
    std::shared_ptr<const Source> source;
    bool odd_rows = false;  // made for rows that are no multiple of 16 bytes
    double outputs = 0;     // of the pass it was made for
};

// What was taken for a pass: to be remembered when it has been compiled.
struct Taken {
    std::string structure;  // of the pass: all its kernels depend on beside sizes
    std::string size;
    int size_class = 0;  // sizes alike within a factor of two
    bool first = true;   // nothing was known: the best for the size
    KnownKernel kernel;
};

class KnownKernels {
public:
    std::vector<KnownKernel> of(const std::string& structure) const;
    // Whether sizes of this class were weighed against their own best.
    bool weighed(const std::string& structure, int size_class) const;
    // What was not the best for its size is kept on disk as well: another process takes the same, in whatever order it
    // meets its sizes, and finds it compiled.
    void remember(const Taken& taken);

private:
    struct Entry {
        std::vector<KnownKernel> kernels;
        std::set<int> weighed;
    };
    mutable std::mutex mutex_;
    std::map<std::string, Entry> entries_;
};

// generate_dense for a program that knows some kernels: the best for the size if it is the first of its structure, else
// one that is known unless another is worth its compilation.
std::optional<DenseProgram> generate_dense_among(const Surroundings& surroundings, const KnownKernels& known,
                                                 Taken& taken, std::string* why_not = nullptr);

}  // namespace transfuse::cuda
