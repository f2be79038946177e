#include "cpu/dense/stage/kept_weights.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "cpu/tensors/element.h"
#include "cpu/threads/thread_pool.h"

namespace transfuse::cpu {
namespace {

constexpr uint64_t factors[2] = {0x9e3779b97f4a7c15, 0xd6e8feb86659fd93};
constexpr int64_t block_bytes = 256 << 10;

// Eight chains of multiplications side by side. The rotation brings what differs in the highest bits down to where the
// next product spreads it again.
struct Mixer {
    uint64_t state[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    void take(const char* data, int64_t bytes) {
        uint64_t word[8];
        for (; bytes > 0; bytes -= 64, data += 64) {
            if (bytes < 64) std::memset(word, 0, 64);
            std::memcpy(word, data, static_cast<size_t>(std::min<int64_t>(bytes, 64)));
            for (int i = 0; i < 8; ++i) state[i] = std::rotl(state[i] ^ word[i], 29) * factors[0];
        }
    }
    std::array<uint64_t, 2> done() const {
        std::array<uint64_t, 2> all{17, 23};
        for (uint64_t s : state)
            for (size_t i = 0; i < 2; ++i) all[i] = std::rotl(all[i] ^ (s + (s >> 31)), 29) * factors[i];
        return all;
    }
};

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
    std::vector<std::array<uint64_t, 2>> parts(static_cast<size_t>(blocks));
    parallel_for(threads, blocks, [&](int64_t b) {
        Mixer mixer;
        mixer.take(data + b * block_bytes, std::min(block_bytes, size - b * block_bytes));
        parts[static_cast<size_t>(b)] = mixer.done();
    });
    Mixer all;
    all.take(reinterpret_cast<const char*>(parts.data()), blocks * static_cast<int64_t>(sizeof parts[0]));
    all.take(reinterpret_cast<const char*>(&view.strides[0]), static_cast<int64_t>(view.strides.size() * 8));
    return all.done();
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
