// What was made once and is found again by all it was made from, unless too much was made since.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transfuse/recent.h"

namespace transfuse::cuda {

// Of keys of a kilobyte, tens of which are asked for while a plan is made: word by word.
struct KeyHash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const {
        constexpr uint64_t odd = 0x9e3779b97f4a7c15u;
        constexpr size_t ways = 4;  // of which none waits for another's product
        uint64_t hash[ways] = {key.size(), 1, 2, 3};
        const auto mix = [&](size_t way, uint64_t word) { hash[way] = (std::rotl(hash[way], 5) ^ word) * odd; };
        size_t at = 0;
        uint64_t words[ways];
        for (; key.size() - at >= sizeof words; at += sizeof words) {
            std::memcpy(words, key.data() + at, sizeof words);
            for (size_t way = 0; way < ways; ++way) mix(way, words[way]);
        }
        std::memset(words, 0, sizeof words);
        std::memcpy(words, key.data() + at, key.size() - at);
        for (size_t way = 0; way < ways; ++way) mix(way, words[way]);
        for (size_t way = 1; way < ways; ++way) mix(0, hash[way]);
        return hash[0] ^ hash[0] >> 32;
    }
};

template <class Made>
class Memo {
public:
    // most: bytes of the keys, and of texts where texts are made. Sizes of a program have most in common: a thousand of
    // them have some tens of keys of a few kilobytes.
    explicit Memo(size_t most = size_t{4} << 20) : made_(most) {}

    // make() gives a shared_ptr, null where nothing can be made. Threads that ask at once may each make theirs; the
    // first is kept, and given to all.
    template <class Make>
    std::shared_ptr<const Made> get(std::string_view key, const Make& make) {
        {
            const std::lock_guard lock(mutex_);
            if (const auto* const met = made_.find(key)) return *met;
        }
        std::shared_ptr<const Made> fresh = make();
        size_t bytes = key.size() + sizeof(Made);
        if constexpr (requires { fresh->text.size(); })
            if (fresh) bytes += fresh->text.size();
        std::vector<std::shared_ptr<const Made>> dropped;
        const std::lock_guard lock(mutex_);
        dropped = made_.put(std::string(key), std::move(fresh), bytes);
        return *made_.find(key);
    }

private:
    std::mutex mutex_;
    Recent<std::string, std::shared_ptr<const Made>, KeyHash> made_;
};

}  // namespace transfuse::cuda
