// A key under which something made is found again: plain values, one behind the other.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse::cuda {

class KeyText {
public:
    explicit KeyText(std::string begun = {}) : text_(std::move(begun)) { text_.reserve(usual); }

    template <class... Values>
    void add(const Values&... values) {
        (one(values), ...);
    }
    std::string take() { return std::move(text_); }

private:
    static constexpr size_t usual = 1000;  // bytes: as long as most become

    template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
    void one(const T& value) {
        char bytes[8] = {};
        std::memcpy(bytes, &value, sizeof value);
        text_.append(bytes, sizeof value);
    }
    void one(const std::string& text) {
        one(text.size());
        text_ += text;
    }
    void one(const std::vector<bool>& list) {
        one(list.size());
        for (const bool value : list) one(value);
    }
    template <class T>
    void one(const std::vector<T>& list) {
        one(list.size());
        for (const T& value : list) one(value);
    }
    template <class T, size_t count>
    void one(const std::array<T, count>& list) {
        if constexpr (std::is_same_v<T, std::byte>)
            text_.append(reinterpret_cast<const char*>(list.data()), count);
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

    std::string text_;
};

}  // namespace transfuse::cuda
