// What was made once and is found again by all it was made from.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace transfuse::cuda {

template <class Made>
class Remembered {
public:
    // make() gives a shared_ptr, null where nothing can be made. Threads that ask at once may each make theirs; the
    // first is kept, and given to all.
    template <class Make>
    std::shared_ptr<const Made> get(std::string_view key, const Make& make) {
        {
            const std::lock_guard lock(mutex_);
            if (const auto met = made_.find(key); met != made_.end()) return met->second;
        }
        std::shared_ptr<const Made> fresh = make();
        const std::lock_guard lock(mutex_);
        return made_.try_emplace(std::string(key), std::move(fresh)).first->second;
    }

private:
    std::mutex mutex_;
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    std::unordered_map<std::string, std::shared_ptr<const Made>, Hash, std::equal_to<>> made_;
};

}  // namespace transfuse::cuda
