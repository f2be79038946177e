R"cuda(
// Runs of chunks of an axis that is cut at `edges`: beside every cut one chunk, what lies between in one; and of each the first
// segment it meets and how many.
template <int SEGMENTS, int CHUNK> TF_FUNCTION void tf_runs(const int* edges, int* begin, int* end, int* segments) {
    int at = 0, segment = 0;
    for (int run = 0; run < 2 * SEGMENTS - 1; ++run) {
        const int until = run + 2 < 2 * SEGMENTS ? edges[run / 2 + 1] / CHUNK * CHUNK + run % 2 * CHUNK : edges[SEGMENTS];
        begin[run] = at, at = max(at, min(until, edges[SEGMENTS])), end[run] = at;
        while (segment + 1 < SEGMENTS && edges[segment + 1] <= begin[run]) ++segment;
        int beyond = segment;
        while (beyond < SEGMENTS && edges[beyond] < at) ++beyond;
        segments[2 * run] = segment, segments[2 * run + 1] = begin[run] < at ? beyond - segment : 0;
    }
}
)cuda"
