// Memory that nothing but its owner may read: a page that cannot be touched lies right before or right behind it. What
// is not written is NaN in every dtype.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "transfuse/error.h"

namespace transfuse {

class GuardedMemory {
public:
    enum class Side { before, behind };  // where the forbidden page touches it
    static constexpr size_t boundary =
        256;  // on which it begins; behind it lie less than so many bytes that may be read

    GuardedMemory(size_t size, Side side) : size_(size) {
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        inner_ = (std::max<size_t>(size, 1) + page - 1) / page * page;
        mapped_ = inner_ + 2 * page;
        void* const mapped = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(mapped != MAP_FAILED, "no memory for a tensor of ", size, " bytes");
        memory_ = static_cast<char*>(mapped);
        first_ = memory_ + page;
        require(mprotect(first_, inner_, PROT_READ | PROT_WRITE) == 0, "memory of a tensor cannot be opened");
        std::memset(first_, 0xff, inner_);
        begin_ = first_ + (side == Side::behind ? (inner_ - size) / boundary * boundary : 0);
    }
    ~GuardedMemory() { munmap(memory_, mapped_); }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    char* begin() const { return begin_; }
    bool untouched_around() const {
        const auto untouched = [](const char* from, const char* to) {
            return std::all_of(from, to, [](char c) { return c == static_cast<char>(0xff); });
        };
        return untouched(first_, begin_) && untouched(begin_ + size_, first_ + inner_);
    }

private:
    size_t size_, inner_ = 0, mapped_ = 0;
    char *memory_ = nullptr, *first_ = nullptr, *begin_ = nullptr;
};

}  // namespace transfuse
