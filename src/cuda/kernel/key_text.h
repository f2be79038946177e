// A key under which something made is found again: plain values, one behind the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse::cuda {

class KeyText {
public:
    // room: a text whose memory may be used.
    explicit KeyText(std::string room = {}) : large_(std::move(room)) {}

    template <class... Values>
    void add(const Values&... values) {
        (one(values), ...);
    }
    std::string take() {
        if (large_.empty()) return std::string(small_.data(), end_);
        large_.resize(end_);
        return std::move(large_);
    }
    operator std::string_view() const { return {large_.empty() ? small_.data() : large_.data(), end_}; }

private:
    static constexpr size_t usual = 1000;  // bytes: as long as most become

    // Keys of a plan have tens of thousands of values: most are a comparison and a store.
    [[gnu::always_inline]] void put(const void* bytes, size_t count) {
        const bool small = large_.empty();
        if ((small ? usual : large_.size()) - end_ < count) return put_beyond(bytes, count);
        std::memcpy((small ? small_.data() : large_.data()) + end_, bytes, count);
        end_ += count;
    }
    [[gnu::noinline]] void put_beyond(const void* bytes, size_t count) {
        const bool small = large_.empty();
        large_.resize(2 * std::max(usual, large_.size()) + count);
        if (small) std::memcpy(large_.data(), small_.data(), end_);
        put(bytes, count);
    }
    template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
    void one(const T& value) { put(&value, sizeof value); }
    void one(const std::string& text) {
        one(text.size());
        put(text.data(), text.size());
    }
    void one(const std::vector<bool>& list) {
        one(list.size());
        for (const bool value : list) one(value);
    }
    template <class T>
    void one(const std::vector<T>& list) {
        one(list.size());
        if constexpr (std::is_arithmetic_v<T>)
            put(list.data(), list.size() * sizeof(T));
        else
            for (const T& value : list) one(value);
    }
    template <class T, uint32_t few>
    void one(const Few<T, few>& list) {
        one(list.size());
        put(list.data(), list.size() * sizeof(T));
    }
    template <class T, size_t count>
    void one(const std::array<T, count>& list) {
        if constexpr (std::is_same_v<T, std::byte>)
            put(list.data(), count);
        else
            for (const T& value : list) one(value);
    }
    void one(const Attributes& attributes) {
        one(attributes.items().size());
        for (const auto& [key, number] : attributes.items()) {
            one(key), one(number.index());
            std::visit([&](const auto& value) { one(value); }, number);
        }
    }

    // The text is one of them, to its end_; what is behind is room.
    std::array<char, usual> small_;
    std::string large_;  // unless it is empty
    size_t end_ = 0;
};

}  // namespace transfuse::cuda
