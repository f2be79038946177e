#include "program/cut.h"

#include <algorithm>

namespace transfuse {

void Cut::edge(size_t from, size_t to, int64_t capacity) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
}

bool Cut::rank(size_t source, size_t sink) {
    constexpr size_t unseen = std::numeric_limits<size_t>::max();
    rank_.assign(edges_of_.size(), unseen);
    rank_[source] = 0;
    std::vector<size_t> queue{source};
    for (size_t at = 0; at < queue.size(); ++at)
        for (size_t e : edges_of_[queue[at]]) {
            const Edge& edge = edges_[e];
            if (edge.left == 0 || rank_[edge.to] != unseen) continue;
            rank_[edge.to] = rank_[queue[at]] + 1;
            queue.push_back(edge.to);
        }
    return rank_[sink] != unseen;
}

// Paths are as long as graphs are deep: no recursion.
int64_t Cut::push(size_t source, size_t sink, int64_t most) {
    std::vector<size_t> path;  // edges from the source on
    size_t node = source;
    while (node != sink) {
        size_t& at = next_[node];
        const auto leads_on = [&](size_t e) { return edges_[e].left > 0 && rank_[edges_[e].to] == rank_[node] + 1; };
        while (at < edges_of_[node].size() && !leads_on(edges_of_[node][at])) ++at;
        if (at < edges_of_[node].size()) {
            path.push_back(edges_of_[node][at]);
            node = edges_[path.back()].to;
        } else {  // a dead end
            if (path.empty()) return 0;
            node = edges_[path.back() ^ 1].to;
            path.pop_back();
            ++next_[node];
        }
    }
    for (size_t e : path) most = std::min(most, edges_[e].left);
    for (size_t e : path) edges_[e].left -= most, edges_[e ^ 1].left += most;
    return most;
}

std::vector<bool> Cut::with_source(size_t source, size_t sink) {
    while (rank(source, sink)) {
        next_.assign(edges_of_.size(), 0);
        while (push(source, sink, never) > 0) {
        }
    }
    std::vector<bool> with(edges_of_.size());
    std::transform(rank_.begin(), rank_.end(), with.begin(),
                   [](size_t rank) { return rank != std::numeric_limits<size_t>::max(); });
    return with;
}

}  // namespace transfuse
