#include "plan/order.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/figures.h"

namespace transfuse {

namespace {

using Passes = std::vector<Running>;

double in_grains(double bytes) { return std::trunc(bytes / figures::plan::grain); }

std::vector<std::vector<size_t>> readers_of(const Passes& passes) {
    std::vector<std::vector<size_t>> readers(passes.size());
    for (size_t p = 0; p < passes.size(); ++p)
        for (const size_t q : passes[p].sources) readers[q].push_back(p);
    return readers;
}

std::vector<bool> live(const Passes& passes) {
    std::vector<bool> found;
    for (const Running& pass : passes) found.push_back(pass.live);
    return found;
}

// From the first on, of those that may come next the one that leaves least memory in use: a weight's gradient before
// the pass whose result all others wait for.
std::vector<int> from_the_first(const Passes& passes) {
    std::vector<size_t> readers;  // that are to come
    for (const auto& of : readers_of(passes)) readers.push_back(of.size());
    std::vector<bool> waiting = live(passes);
    const auto growth = [&](size_t p) {
        double bytes = passes[p].held;
        for (const size_t q : passes[p].sources) bytes -= readers[q] == 1 ? passes[q].held : 0;
        return in_grains(bytes);
    };
    std::vector<int> result;
    for (;;) {
        std::optional<size_t> next;
        for (size_t p = 0; p < passes.size(); ++p)
            if (waiting[p] && std::ranges::none_of(passes[p].sources, [&](size_t q) { return waiting[q]; }) &&
                (!next || growth(p) < growth(*next)))
                next = p;
        if (!next) return result;
        waiting[*next] = false;
        for (const size_t q : passes[*next].sources) --readers[q];
        result.push_back(static_cast<int>(*next));
    }
}

// From the last on, of those that nothing left reads the one before which least memory is in use: what is made of
// leaves alone is made when it is read, not while memory is at its fullest.
std::vector<int> from_the_last(const Passes& passes) {
    const auto readers = readers_of(passes);
    std::vector<bool> waiting = live(passes), in_use(passes.size());
    const auto growth = [&](size_t p) {
        double bytes = -passes[p].held;
        for (const size_t q : passes[p].sources) bytes += in_use[q] ? 0 : passes[q].held;
        return in_grains(bytes);
    };
    std::vector<int> result;
    for (;;) {
        std::optional<size_t> next;
        for (size_t p = passes.size(); p-- > 0;)
            if (waiting[p] && std::ranges::none_of(readers[p], [&](size_t q) { return waiting[q]; }) &&
                (!next || growth(p) < growth(*next)))
                next = p;
        if (!next) break;
        waiting[*next] = false;
        for (const size_t q : passes[*next].sources) in_use[q] = true;
        result.push_back(static_cast<int>(*next));
    }
    std::ranges::reverse(result);
    return result;
}

double most_in_use(const Passes& passes, const std::vector<int>& order) {
    std::vector<size_t> readers;  // that are to come
    for (const auto& of : readers_of(passes)) readers.push_back(of.size());
    double now = 0, most = 0;
    for (const int next : order) {
        const Running& pass = passes[static_cast<size_t>(next)];
        most = std::max(most, now += pass.held);
        for (const size_t q : pass.sources)
            if (--readers[q] == 0) now -= passes[q].held;
    }
    return most;
}

}  // namespace

std::vector<int> in_order(const std::vector<Running>& passes) {
    std::vector<int> first = from_the_first(passes), last = from_the_last(passes);
    return most_in_use(passes, last) + figures::plan::grain <= most_in_use(passes, first) ? last : first;
}

}  // namespace transfuse
