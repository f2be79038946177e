// Generated text, line by line, indented by the braces that enclose it.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace transfuse::cuda {

inline std::string num(int64_t v) { return std::to_string(v); }

// Numbers as a table has them.
template <class Numbers>
std::string listed(const Numbers& numbers) {
    std::string text;
    for (const auto n : numbers) text += (text.empty() ? "" : ", ") + num(static_cast<int64_t>(n));
    return text;
}

// Axes as constants name them.
inline constexpr std::array<const char*, 4> axis_names{"N", "D", "H", "W"};

class Lines {
public:
    void line(const std::string& text) {
        if (text.empty()) return blank();
        const bool closes = text[0] == '}';
        if (closes) --depth_;
        if (text[0] != '#') body_.append(static_cast<size_t>(depth_) * 4, ' ');
        body_ += text + "\n";
        if (text.back() == '{') ++depth_;
    }
    void unrolled(const std::string& loop) { line("#pragma unroll"), line(loop); }
    void blank() { body_ += "\n"; }
    void add(const std::string& written) { body_ += written; }  // as it is
    void constants(std::initializer_list<std::pair<std::string, int64_t>> list) {
        for (const auto& [name, v] : list) line("constexpr int " + name + " = " + num(v) + ";");
    }
    const std::string& str() const { return body_; }

private:
    std::string body_;
    int depth_ = 0;
};

}  // namespace transfuse::cuda
