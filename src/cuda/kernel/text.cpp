#include "cuda/kernel/text.h"

#include <cstdlib>

namespace transfuse::cuda {

bool is_number(const std::string& text) {
    if (text.empty()) return false;
    size_t i = text[0] == '-' ? 1 : 0;
    if (i == text.size()) return false;
    for (; i < text.size(); ++i)
        if (text[i] < '0' || text[i] > '9') return false;
    return true;
}

std::string number(int64_t value) { return std::to_string(value); }

std::string joined(std::initializer_list<std::string_view> pieces) {
    size_t size = 0;
    for (const std::string_view piece : pieces) size += piece.size();
    std::string text;
    text.reserve(size);
    for (const std::string_view piece : pieces) text += piece;
    return text;
}

std::string plus(const std::string& a, const std::string& b) {
    if (is_number(a) && is_number(b)) return number(std::atoll(a.c_str()) + std::atoll(b.c_str()));
    if (a == "0") return b;
    if (b == "0") return a;
    if (is_number(b) && b[0] == '-') return joined({"(", a, " - ", std::string_view(b).substr(1), ")"});
    return joined({"(", a, " + ", b, ")"});
}

std::string minus(const std::string& a, const std::string& b) {
    if (is_number(a) && is_number(b)) return number(std::atoll(a.c_str()) - std::atoll(b.c_str()));
    if (b == "0") return a;
    if (is_number(b) && b[0] == '-') return joined({"(", a, " + ", std::string_view(b).substr(1), ")"});
    return joined({"(", a, " - ", b, ")"});
}

std::string times(const std::string& a, const std::string& b) {
    if (is_number(a) && is_number(b)) return number(std::atoll(a.c_str()) * std::atoll(b.c_str()));
    if (a == "0" || b == "0") return "0";
    if (a == "1") return b;
    if (b == "1") return a;
    if (is_number(b) && b[0] == '-') return joined({"(", a, " * (", b, "))"});
    if (is_number(a) && a[0] == '-') return joined({"((", a, ") * ", b, ")"});
    return joined({"(", a, " * ", b, ")"});
}

std::string Parameters::pointer(const Argument& argument, const std::string& type, bool read_only) {
    for (const Pointer& item : pointers_)
        if (item.argument.kind == argument.kind && item.argument.value == argument.value &&
            item.argument.offset == argument.offset && item.type.rfind(type + "*", 0) == 0)
            return item.name;
    const std::string name = "p" + std::to_string(pointers_.size());
    pointers_.push_back({type + "*" + (read_only ? " __restrict__" : ""), name, argument});
    return name;
}

std::string Parameters::integer(int64_t value, bool dynamic) {
    if (!dynamic || (value >= -1 && value <= 1 && !any_size_)) return number(value);
    if (!any_size_)  // else equal by chance
        if (const auto known = integer_names_.find(value); known != integer_names_.end()) return known->second;
    std::string name = numbered("n", integers_, value);
    if (!any_size_) integer_names_.emplace(value, name);
    return name;
}

std::string Parameters::count(int64_t value) { return numbered("count", counts_, value); }

std::string Parameters::real(double value, bool f64) {
    reals_.push_back({value, f64});
    return "real" + std::to_string(reals_.size() - 1);
}

namespace {

// q = (umulhi(n, magic) + n) >> shift for 0 <= n < 2^31; with 64-bit indices the divisor itself.
struct Divisor32 {
    uint32_t magic, shift;
};

Divisor32 divisor32(uint32_t d) {
    uint32_t shift = 0;
    while (shift < 32 && (uint64_t{1} << shift) < d) ++shift;
    const uint64_t one = 1;
    return {static_cast<uint32_t>(((one << 32) * ((one << shift) - d)) / d + 1), shift};
}

}  // namespace

std::string Parameters::divisor(int64_t extent) {
    if (!any_size_)
        if (const auto known = divisor_names_.find(extent); known != divisor_names_.end()) return known->second;
    std::string name = numbered("d", divisors_, extent);
    if (!any_size_) divisor_names_.emplace(extent, name);
    return name;
}

std::string Parameters::numbered(std::string_view prefix, std::vector<int64_t>& list, int64_t value) {
    if (list.empty()) list.reserve(32);
    list.push_back(value);
    return joined({prefix, std::to_string(list.size() - 1)});
}

Argument Parameters::integer_argument(int64_t value) const {
    return wide_index_ ? Argument::of(static_cast<long long>(value)) : Argument::of(static_cast<int>(value));
}

Argument Parameters::divisor_argument(int64_t extent) const {
    return wide_index_ ? Argument::of(static_cast<long long>(extent))
                       : Argument::of(divisor32(static_cast<uint32_t>(extent)));
}

std::string Parameters::quotient(const std::string& a, int64_t extent, bool dynamic) {
    if (extent == 1 && !(any_size_ && dynamic)) return a;
    if (is_number(a)) {
        if (!dynamic) return number(std::atoll(a.c_str()) / extent);
        if (a == "0") return a;
    }
    if (!dynamic) return joined({"(", a, " / ", number(extent), ")"});
    return joined({"tf_quotient_of(", a, ", ", divisor(extent), ")"});
}

std::string Parameters::remainder(const std::string& a, const std::string& quotient, int64_t extent, bool dynamic) {
    if (extent == 1 && !(any_size_ && dynamic)) return "0";
    if (is_number(a) && !dynamic) return number(std::atoll(a.c_str()) % extent);
    return minus(a, times(quotient, integer(extent, dynamic)));
}

std::string Parameters::declaration() const {
    std::string text;
    text.reserve(16 * (2 * pointers_.size() + integers_.size() + counts_.size() + reals_.size() + divisors_.size()));
    const auto add = [&](std::string_view type, std::string_view name, std::string_view number) {
        ((((text += text.empty() ? "" : ", ") += type) += ' ') += name) += number;
    };
    for (const Pointer& pointer : pointers_) add(pointer.type, pointer.name, "");
    for (size_t i = 0; i < integers_.size(); ++i) add(integer_type(), "n", std::to_string(i));
    for (size_t i = 0; i < counts_.size(); ++i) add(integer_type(), "count", std::to_string(i));
    for (size_t i = 0; i < reals_.size(); ++i) add(reals_[i].f64 ? "double" : "float", "real", std::to_string(i));
    for (size_t i = 0; i < divisors_.size(); ++i) add("tf_divisor", "d", std::to_string(i));
    return text;
}

std::vector<Argument> Parameters::arguments() const {
    std::vector<Argument> list;
    list.reserve(pointers_.size() + integers_.size() + counts_.size() + reals_.size() + divisors_.size());
    for (const Pointer& pointer : pointers_) list.push_back(pointer.argument);
    for (const int64_t value : integers_) list.push_back(integer_argument(value));
    for (const int64_t value : counts_) list.push_back(integer_argument(value));
    for (const auto& [value, f64] : reals_)
        list.push_back(f64 ? Argument::of(value) : Argument::of(static_cast<float>(value)));
    for (const int64_t extent : divisors_) list.push_back(divisor_argument(extent));
    return list;
}

std::string_view index_code(bool wide_index) {
    static constexpr std::string_view narrow =
#include "cuda/device/values/index.cuh"
        ;
    static constexpr std::string_view wide =
#include "cuda/device/values/wide_index.cuh"
        ;
    return wide_index ? wide : narrow;
}

}  // namespace transfuse::cuda
