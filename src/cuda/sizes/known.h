// The dense kernels a program has met so far. A new size takes one of them where that costs little, so that a stream of
// sizes compiles one or two, and is planned without a search.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda/dense/dense.h"
#include "cuda/kernel/memo.h"
#include "cuda/sizes/preparation.h"

namespace transfuse::cuda {

class DeviceMemory;

struct KnownKernel {
    Words words;                                       // FamilyProgram::words
    double outputs = 0;                                // of the pass it was made for
    std::shared_ptr<const Source> source;              // null: compiled by another process
    std::shared_ptr<const KernelSpec> spec = nullptr;  // by the words, once it is known; null: nothing
};

// What is known of passes of one structure: of all that their kernels depend on beside sizes.
struct KnownStructure;

// What was taken for a pass: to be remembered when it has been compiled.
struct Taken {
    KnownStructure* structure = nullptr;
    int size_class = 0;     // sizes alike within a factor of two
    bool needless = false;  // a known kernel would do
    KnownKernel kernel;
    bool news = true;  // false: there is nothing to remember, it was all known
};

class KnownKernels {
public:
    // finds_texts: those written already are found again; else each is written to be compared (tests).
    explicit KnownKernels(bool finds_texts = true);
    ~KnownKernels();
    void keep_off_disk();  // what other processes met, and what this one meets, shall not matter to either
    // Whether these are the sizes that a graph of the program had first. Others are given texts that serve any size.
    bool first_met(const Graph& graph);
    // Also those that other processes compiled for many sizes: they are kept on disk, beside the kernels.
    using KernelList = std::vector<KnownKernel>;
    struct Standing {
        std::shared_ptr<const KernelList> kernels;
        bool weighed;  // sizes of the class, against their own best
        bool settled;
    };
    KnownStructure& structure_of(const Surroundings& surroundings);  // stays where it is
    Standing of(KnownStructure& structure, int size_class);
    void remember(const Taken& taken);
    bool doubted_again(KnownStructure& structure);  // true for the first few times only: a search takes long
    void settle(KnownStructure& structure);         // nothing is weighed any more
    // The source that a text had when it was compiled: sizes that share it need not compare it again. Null: it is new.
    std::shared_ptr<const Source> compiled(const std::shared_ptr<const Source>& source, int arch) const;
    void remember(const std::shared_ptr<const Source>& source, int arch);
    TextCache* text_cache() { return text_cache_.get(); }  // null: texts are not found
    // What another size prepared, where that is the same; null where it is not known to be.
    std::shared_ptr<const Program> prepared(const Preparation& asked) const;
    // pull(request), for requests that do not depend on sizes. asked: what the request was made of, to be remembered;
    // null: not of that alone.
    std::shared_ptr<const Program> prepare(const Preparation* asked, const PullRequest& request);
    // Weights that a captured graph of launches reads whenever it is replayed: they stay as long as this.
    void keep_for_graphs(std::shared_ptr<const DeviceMemory> weights);

private:
    struct Compiled {
        std::unordered_set<const Source*> met;
        std::unordered_multimap<std::string_view, std::shared_ptr<const Source>, KeyHash> by_text;
    };
    mutable std::mutex mutex_;
    bool disk_ = true;
    std::unordered_map<std::string, std::unique_ptr<KnownStructure>, KeyHash, std::equal_to<>> structures_;
    std::map<int, Compiled> compiled_;  // by architecture
    std::unique_ptr<TextCache> text_cache_;
    struct Prepared {
        Program program;
        std::vector<std::shared_ptr<const ExtraJob>> jobs;  // they live as long, so that no other has their addresses
    };
    Memo<Prepared> prepared_;
    Preparations last_prepared_;
    std::set<std::shared_ptr<const DeviceMemory>> of_graphs_;
    std::map<std::string, std::vector<Sizes>> first_;  // sizes of the leaves, by what the program's graphs differ in
};

// offer_dense for a program that knows some kernels: the best for the size if it is the first of its structure, else
// one that is known unless another is worth its compilation. taken: lives until the offer is written, which tells it
// the kernel.
std::optional<Offer> offer_dense_among(const Surroundings& surroundings, KnownKernels& known, Taken& taken,
                                       std::string* why_not = nullptr);

}  // namespace transfuse::cuda
