#include "cuda/dense/write/rolled.h"

#include <numeric>

#include "cuda/dense/schedule/figures.h"

namespace transfuse::cuda {

namespace {

size_t products_written(const Config& config, const Schedule& s, int terms) {
    size_t products = 0;
    for (const auto& lists : s.steps) products += lists[0].size();
    return products * static_cast<size_t>(config.k_steps) * (terms == 2 ? 3 : 1);  // strict: three for each
}

bool alike(const Schedule& s, size_t u, size_t v) {
    const int distance = s.slabs[v][0] - s.slabs[u][0];
    if (s.slabs[u].size() != s.slabs[v].size()) return false;
    for (size_t i = 0; i < s.slabs[u].size(); ++i)
        if (s.slabs[v][i] != s.slabs[u][i] + distance) return false;
    const auto shape = [&](size_t variant, size_t g) {
        return shape_of(s.steps[variant][g], s.slabs[variant].front(), s.slabs[variant].back());
    };
    return shape(u, 0) == shape(v, 0) && shape(u, 1) == shape(v, 1);
}

}  // namespace

bool rolls_slabs(const Config& config, const Schedule& s, int terms) {
    return !config.resident && !s.pairs && products_written(config, s, terms) > figures::most_written;
}

std::vector<std::array<int, 3>> shape_of(const std::vector<WindowStep>& steps, int begin, int end) {
    std::vector<std::array<int, 3>> shape;
    for (const WindowStep& step : steps)
        if (step.tile >= begin && step.tile < end) shape.push_back({step.block, step.tile - begin, step.first});
    return shape;
}

std::vector<int> rolled_variants(const Config& config, const Schedule& s, int terms) {
    std::vector<int> first(static_cast<size_t>(s.variants));
    std::iota(first.begin(), first.end(), 0);
    if (!rolls_slabs(config, s, terms) || products_written(config, s, terms) <= figures::most_of_variants) return first;
    for (size_t v = 0; v < first.size(); ++v)
        for (size_t u = 0; u < v && first[v] == static_cast<int>(v); ++u)
            if (first[u] == static_cast<int>(u) && alike(s, u, v)) first[v] = static_cast<int>(u);
    return first;
}

std::optional<int64_t> shift_of_variants(const Schedule& s) {
    if (s.variants < 2) return std::nullopt;
    std::optional<int64_t> shift;
    for (size_t v = 1; v < static_cast<size_t>(s.variants); ++v) {
        if (!alike(s, 0, v)) return std::nullopt;
        for (size_t g = 0; g < s.steps[v].size(); ++g)
            for (size_t i = 0; i < s.steps[v][g].size(); ++i) {
                const WindowStep &one = s.steps[v - 1][g][i], &next = s.steps[v][g][i];
                if (!shift) shift = next.pixel - one.pixel;
                if (next.pixel - one.pixel != *shift || next.halves != one.halves) return std::nullopt;
            }
    }
    return shift;
}

bool none_rolled(const std::vector<int>& rolled_as) {
    for (size_t v = 0; v < rolled_as.size(); ++v)
        if (rolled_as[v] != static_cast<int>(v)) return false;
    return true;
}

}  // namespace transfuse::cuda
