// A table that forgets: of what was put into it, that which was used last, as far as it fits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace transfuse {

// Who changes it holds a lock; who only looks may share one, and what is found may be dropped as soon as it is given
// back: a Value is copied out (a shared_ptr), so that nothing goes away under its user.
template <class Key, class Value, class Hash = std::hash<Key>, class Equal = std::equal_to<>>
class Recent {
public:
    // most: of the weights (bytes, say) of all that is kept. But the last `at_least` stay, whatever they weigh: two
    // that take turns must not drop each other at every turn.
    explicit Recent(size_t most, size_t at_least = 2) : most_(most), at_least_(at_least) {}

    // Null: it is not here. What is found counts as used now.
    template <class Like>
    const Value* find(const Like& key) const {
        const auto at = held_.find(key);
        if (at == held_.end()) return nullptr;
        std::atomic_ref(at->second.used).store(now_, std::memory_order_relaxed);
        return &at->second.value;
    }

    // Keeps a value, unless there is one under the key. Gives what is dropped for it: to be let go of where no lock is
    // held.
    [[nodiscard]] std::vector<Value> put(Key key, Value value, size_t weight) {
        const auto [at, fresh] = held_.try_emplace(std::move(key), Held{std::move(value), weight, now_ + 1});
        if (!fresh) return {};
        ++now_, weight_ += weight;
        return weight_ > most_ ? drop_old() : std::vector<Value>{};
    }

    // Takes out all whose key or value says so.
    template <class Says>
    [[nodiscard]] std::vector<Value> take_if(const Says& says) {
        return take([&](const Key& key, const Held& held) { return says(key, held.value); });
    }

    template <class Use>
    void each(const Use& use) const {
        for (const auto& [key, held] : held_) use(key, held.value);
    }
    size_t size() const { return held_.size(); }
    size_t weight() const { return weight_; }

private:
    struct Held {
        Value value;
        size_t weight;
        mutable int64_t used;  // how many had been put when it was used last
    };

    // A quarter at a time, so that it is not done for every new one.
    std::vector<Value> drop_old() {
        std::vector<std::pair<int64_t, size_t>> order;
        order.reserve(held_.size());
        for (const auto& [key, held] : held_) order.emplace_back(held.used, held.weight);
        std::sort(order.begin(), order.end());
        size_t count = 0, left = weight_;
        while (order.size() - count > at_least_ && left > most_ - most_ / 4) left -= order[count++].second;
        if (count == 0) return {};
        const int64_t since = order[count - 1].first;  // of several as old as the last as many as needed
        return take([&](const Key&, const Held& held) {
            const bool old = count > 0 && held.used <= since;
            count -= old;
            return old;
        });
    }

    template <class Says>
    std::vector<Value> take(const Says& says) {
        std::vector<Value> taken;
        std::erase_if(held_, [&](auto& at) {
            if (!says(at.first, std::as_const(at.second))) return false;
            weight_ -= at.second.weight;
            taken.push_back(std::move(at.second.value));
            return true;
        });
        return taken;
    }

    const size_t most_, at_least_;
    std::unordered_map<Key, Held, Hash, Equal> held_;
    size_t weight_ = 0;
    int64_t now_ = 0;
};

}  // namespace transfuse
