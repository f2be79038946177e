#include "cpu/dense/stage/kept_weights.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "cpu/kernels/kernels.h"
#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"

namespace transfuse::cpu {
namespace {

constexpr int64_t block_bytes = 256 << 10;

// What is kept, the last used last.
class Shelf {
public:
    // Never destroyed: plans of other static objects may go later.
    static Shelf& instance() {
        static Shelf* shelf = new Shelf;
        return *shelf;
    }
    void use(const KeptWeights::Packed& packed) {
        std::lock_guard lock(mutex_);
        const auto at = find(packed);
        if (at != books_.end()) std::rotate(at, at + 1, books_.end());
    }
    void add(const KeptWeights::Packed& packed, size_t bytes) {
        std::lock_guard lock(mutex_);
        books_.push_back({packed, bytes});
        for (bytes_ += bytes; bytes_ > KeptWeights::most_bytes; books_.erase(books_.begin())) bytes_ -= books_[0].bytes;
    }
    void remove(const KeptWeights::Packed& packed) {
        std::lock_guard lock(mutex_);
        const auto at = find(packed);
        if (at == books_.end()) return;
        bytes_ -= at->bytes;
        books_.erase(at);
    }
    size_t bytes() {
        std::lock_guard lock(mutex_);
        return bytes_;
    }

private:
    struct Book {
        KeptWeights::Packed packed;
        size_t bytes;
    };
    std::vector<Book>::iterator find(const KeptWeights::Packed& packed) {
        return std::find_if(books_.begin(), books_.end(), [&](const Book& b) { return b.packed == packed; });
    }
    std::mutex mutex_;
    std::vector<Book> books_;
    size_t bytes_ = 0;
};

struct AlignedDelete {
    void operator()(const void* p) const { ::operator delete(const_cast<void*>(p), std::align_val_t(64)); }
};

// Where elements that fill a piece of memory without gaps begin; null where there are gaps.
const char* dense(const TensorView& view) {
    std::vector<std::pair<int64_t, int64_t>> axes;
    const auto* data = static_cast<const char*>(view.data);
    for (size_t a = 0; a < view.shape.size(); ++a) {
        if (view.shape[a] == 1) continue;
        axes.emplace_back(std::abs(view.strides[a]), view.shape[a]);
        if (view.strides[a] < 0) data += view.strides[a] * (view.shape[a] - 1) * bytes(view.dtype);
    }
    std::sort(axes.begin(), axes.end());
    int64_t next = 1;
    for (const auto& [stride, extent] : axes) {
        if (stride != next) return nullptr;
        next *= extent;
    }
    return data;
}

// 128 bits of the numbers in the order in which they lie in memory, and of that order.
std::array<uint64_t, 2> content(const TensorView& view, const char* data, int threads) {
    const int64_t size = numel(view.shape) * bytes(view.dtype), blocks = (size + block_bytes - 1) / block_bytes;
    std::vector<uint64_t> parts(static_cast<size_t>(2 * blocks));
    parallel_for(threads, blocks, [&](int64_t b) {
        level().content(&parts[static_cast<size_t>(2 * b)], data + b * block_bytes,
                        std::min(block_bytes, size - b * block_bytes));
    });
    parts.insert(parts.end(), view.strides.begin(), view.strides.end());
    std::array<uint64_t, 2> all;
    level().content(all.data(), parts.data(), static_cast<int64_t>(parts.size() * sizeof parts[0]));
    return all;
}

}  // namespace

KeptWeights::Packed KeptWeights::get(const TensorView& w, bool fixed, int threads, size_t bytes,
                                     const std::function<void(void*)>& pack) const {
    const char* data = fixed ? nullptr : dense(w);
    const bool told = data != nullptr;  // numbers with gaps between them are packed anew
    std::array<uint64_t, 2> of{};
    if (told) of = content(w, data, threads);
    if (fixed || told) {
        std::unique_lock lock(mutex_);
        Packed packed = packed_.lock();
        if (packed && (fixed || content_ == of)) {
            lock.unlock();
            Shelf::instance().use(packed);
            return packed;
        }
    }
    Packed packed(::operator new(bytes, std::align_val_t(64)), AlignedDelete{});
    pack(const_cast<void*>(packed.get()));
    if (fixed || told) {
        std::lock_guard lock(mutex_);
        if (const Packed before = packed_.lock()) Shelf::instance().remove(before);
        Shelf::instance().add(packed, bytes);
        packed_ = packed;
        content_ = of;
    }
    return packed;
}

KeptWeights::~KeptWeights() {
    if (const Packed packed = packed_.lock()) Shelf::instance().remove(packed);
}

size_t KeptWeights::kept_bytes() { return Shelf::instance().bytes(); }

}  // namespace transfuse::cpu
