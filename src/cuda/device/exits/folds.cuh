R"cuda(
// How parts of a reduction are joined, in a dense kernel.

// a + b; what rounding takes from it is kept in `rest`: a block adds hundreds of such sums, one after another, and where they are all
// alike (outputs that no tap meets) rounding takes the same from each.
static __device__ __forceinline__ void add_with_rest(REAL& a, REAL& rest, REAL b) {
    const REAL both = a + b, of_b = both - a;
    rest += (a - (both - of_b)) + (b - of_b);
    a = both;
}
static __device__ __forceinline__ REAL with_rest(REAL a, REAL rest) { return rest == rest ? a + rest : a; }  // nan: a is infinite

// Sums of exponentials, each relative to the largest value of its own.
static __device__ __forceinline__ void join_exponentials(REAL& top, REAL& mass, REAL top2, REAL mass2) {
    const REAL now = tf_max(top, top2), below = now == __int_as_float(0xff800000) ? (REAL)0 : now;
    mass = mass * tf_exp_below(top, below) + mass2 * tf_exp_below(top2, below);
    top = now;
}

// Sums of many rows over LANES lanes at once: with every exchange a thread keeps half of its rows. At the end it has the sums of
// those that begin with its own.
template <int LANES, int HALF, int STEP = 1, int ROWS, class Join> static __device__ __forceinline__ void join_lanes(REAL (&p)[ROWS], int lane, Join join) {
    if constexpr (STEP < LANES) {
        if constexpr (HALF == 0) {
            p[0] = join(p[0], __shfl_xor_sync(~0u, p[0], STEP));
        } else {
            const bool upper = lane & STEP;
#pragma unroll
            for (int i = 0; i < HALF; i++) {
                const REAL kept = upper ? p[i + HALF] : p[i], sent = upper ? p[i] : p[i + HALF];
                p[i] = join(kept, __shfl_xor_sync(~0u, sent, STEP));
            }
        }
        join_lanes<LANES, HALF / 2, STEP * 2>(p, lane, join);
    }
}
)cuda"
