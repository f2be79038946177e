// What the cost check of a rewriting said, rule by rule: recorded at one size and repeated at another, so that a graph
// becomes the same graph whatever its sizes (see src/emit).
#pragma once

#include <cstddef>
#include <vector>

namespace transfuse {

struct Verdicts {
    std::vector<bool> said;
    size_t next = 0;
    bool repeating = false;

    bool take(bool cheaper) {
        if (!repeating) said.push_back(cheaper);
        if (next == said.size()) return cheaper;
        return said[next++];
    }
};

// Of the rewriting under way on this thread; null: costs alone decide.
extern thread_local Verdicts* verdicts;

// `weighed`, or what was said at another size.
inline bool cheaper(bool weighed) { return verdicts ? verdicts->take(weighed) : weighed; }

}  // namespace transfuse
