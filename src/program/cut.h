// The cheapest set of edges that parts a source from a sink (Dinic's algorithm).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace transfuse {

class Cut {
public:
    static constexpr int64_t never = std::numeric_limits<int64_t>::max() / 4;  // the capacity of what cannot be cut

    explicit Cut(size_t nodes) : edges_of_(nodes) {}
    void edge(size_t from, size_t to, int64_t capacity);
    // Of each node whether it stays with the source: of the cheapest cuts the one nearest to it.
    std::vector<bool> with_source(size_t source, size_t sink);

private:
    struct Edge {
        size_t to;
        int64_t left;
    };
    bool rank(size_t source, size_t sink);  // by distance from the source; false: the sink is not reached
    int64_t push(size_t node, size_t sink, int64_t most);

    std::vector<Edge> edges_;  // an edge and its reverse side by side
    std::vector<std::vector<size_t>> edges_of_;
    std::vector<size_t> rank_, next_;
};

}  // namespace transfuse
