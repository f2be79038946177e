// A list of plain elements, few of them mostly: the extents of a tensor, its strides, the operands of a node. Few lie
// in the list itself, so that making and copying one asks for no memory; a plan makes thousands of them.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace transfuse {

template <class T, uint32_t few>
class Few {  // what it can do is named, and done, as in std::vector
    static_assert(std::is_trivially_copyable_v<T>);

public:
    using value_type = T;
    using size_type = size_t;
    using difference_type = std::ptrdiff_t;
    using reference = T&;
    using const_reference = const T&;
    using iterator = T*;
    using const_iterator = const T*;
    using reverse_iterator = std::reverse_iterator<iterator>;
    using const_reverse_iterator = std::reverse_iterator<const_iterator>;

    Few() noexcept {}
    explicit Few(size_t count, T value = {}) { assign(count, value); }
    Few(std::initializer_list<T> list) : Few(list.begin(), list.end()) {}
    Few(const std::vector<T>& list) : Few(list.begin(), list.end()) {}
    template <std::forward_iterator Iterator>
    Few(Iterator first, Iterator last) {
        assign(first, last);
    }
    Few(const Few& other) { copy(other); }
    Few(Few&& other) noexcept { take(other); }
    Few& operator=(const Few& other) {
        if (this == &other) return *this;
        size_ = 0;
        reserve(other.size_);
        copy(other);
        return *this;
    }
    Few& operator=(Few&& other) noexcept {
        if (this == &other) return *this;
        release();
        take(other);
        return *this;
    }
    Few& operator=(std::initializer_list<T> list) {
        assign(list.begin(), list.end());
        return *this;
    }
    ~Few() { release(); }
    operator std::vector<T>() const { return {begin(), end()}; }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    size_t capacity() const { return capacity_; }
    T* data() { return capacity_ > few ? many_ : few_; }
    const T* data() const { return capacity_ > few ? many_ : few_; }
    T& operator[](size_t i) { return data()[i]; }
    const T& operator[](size_t i) const { return data()[i]; }
    const T& at(size_t i) const {
        if (i >= size_) throw std::out_of_range("a list has fewer elements");
        return data()[i];
    }
    T& front() { return data()[0]; }
    const T& front() const { return data()[0]; }
    T& back() { return data()[size_ - 1]; }
    const T& back() const { return data()[size_ - 1]; }
    iterator begin() { return data(); }
    iterator end() { return data() + size_; }
    const_iterator begin() const { return data(); }
    const_iterator end() const { return data() + size_; }
    reverse_iterator rbegin() { return reverse_iterator(end()); }
    reverse_iterator rend() { return reverse_iterator(begin()); }
    const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
    const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }

    void clear() { size_ = 0; }
    void reserve(size_t count) {
        if (count <= capacity_) return;
        const size_t room = std::max<size_t>(count, size_t{2} * capacity_);
        auto* const larger = new T[room];
        std::memcpy(larger, data(), size_ * sizeof(T));
        release();
        many_ = larger;
        capacity_ = static_cast<uint32_t>(room);
    }
    void resize(size_t count, T value = {}) {
        reserve(count);
        if (count > size_) std::fill(end(), data() + count, value);
        size_ = static_cast<uint32_t>(count);
    }
    void push_back(T value) {
        reserve(size_ + size_t{1});
        data()[size_++] = value;
    }
    T& emplace_back(T value) {
        push_back(value);
        return back();
    }
    void pop_back() { --size_; }
    void assign(size_t count, T value) {
        size_ = 0;
        resize(count, value);
    }
    template <std::forward_iterator Iterator>
    void assign(Iterator first, Iterator last) {
        size_ = 0;
        insert(end(), first, last);
    }
    iterator insert(const_iterator before, T value) { return insert(before, size_t{1}, value); }
    iterator insert(const_iterator before, size_t count, T value) {
        const iterator at = open(before, count);
        std::fill(at, at + count, value);
        return at;
    }
    template <std::forward_iterator Iterator>
    iterator insert(const_iterator before, Iterator first, Iterator last) {  // of another list
        const iterator at = open(before, static_cast<size_t>(std::distance(first, last)));
        std::copy(first, last, at);
        return at;
    }
    iterator erase(const_iterator position) { return erase(position, position + 1); }
    iterator erase(const_iterator first, const_iterator last) {
        const iterator at = begin() + (first - begin());
        std::copy(last, const_iterator(end()), at);
        size_ -= static_cast<uint32_t>(last - first);
        return at;
    }

    friend bool operator==(const Few& a, const Few& b) {
        return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
    }
    friend auto operator<=>(const Few& a, const Few& b) {
        return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    void release() {
        if (capacity_ > few) delete[] many_;
        capacity_ = few;
    }
    void copy(const Few& other) {
        reserve(other.size_);
        std::memcpy(data(), other.data(), other.size_ * sizeof(T));
        size_ = other.size_;
    }
    void take(Few& other) noexcept {
        size_ = other.size_;
        capacity_ = other.capacity_;
        if (capacity_ > few)
            many_ = other.many_;
        else
            std::memcpy(few_, other.few_, size_ * sizeof(T));
        other.size_ = 0;
        other.capacity_ = few;
    }
    iterator open(const_iterator before, size_t count) {
        const auto at = before - begin();
        reserve(size_ + count);
        std::copy_backward(begin() + at, end(), end() + count);
        size_ += static_cast<uint32_t>(count);
        return begin() + at;
    }

    uint32_t size_ = 0, capacity_ = few;
    union {
        T few_[few];
        T* many_;
    };
};

}  // namespace transfuse
