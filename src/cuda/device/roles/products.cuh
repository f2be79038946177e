R"cuda(
// What the products now under way still read: released one group of products later, so that the tensor cores never drain.
struct Held {
    int slab = -1, stage = -1, group = 0;
    __device__ __forceinline__ void release(Barriers& b) {
        if (slab >= 0) barrier_arrive(shared_address(&b.weights_empty[slab]));
        if (stage >= 0) barrier_arrive(shared_address(&b.empty[stage]));
        slab = stage = -1;
    }
    // Waits for what the next products read. They are instructions of a whole warpgroup: its warps must take the same way.
    __device__ __forceinline__ void wait(unsigned barrier, int parity, Barriers& b) {
        if (slab >= 0 || stage >= 0) {
            if (group_agrees(4 + group, barrier_done(barrier, parity))) return;
            products_wait<0>();
            release(b);
        }
        barrier_wait(barrier, parity);
    }
};

// Nothing that reads the accumulators may be moved before the wait for the products.
static __device__ __forceinline__ void settled(REAL (&acc)[BLOCKS][ACCUMULATORS]) {
#pragma unroll
    for (int i = 0; i < BLOCKS * ACCUMULATORS; i++) landed(acc[i / ACCUMULATORS][i % ACCUMULATORS]);
}
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&acc)[BLOCKS][ACCUMULATORS], REAL (&)[1][1]))[BLOCKS][ACCUMULATORS] { return acc; }
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&)[BLOCKS][ACCUMULATORS], REAL (&total)[BLOCKS][ACCUMULATORS]))[BLOCKS][ACCUMULATORS] { return total; }

// A fragment: rows `row` and row + 8, pixels `px` and px + 1.
static __device__ __forceinline__ void put_block(REAL* chunk, int row, int px, const REAL* v) {
    if (PIXEL_MAJOR) {
        chunk[px * PITCH + row] = v[0]; chunk[(px + 1) * PITCH + row] = v[1];
        chunk[px * PITCH + row + 8] = v[2]; chunk[(px + 1) * PITCH + row + 8] = v[3];
    } else {
        *(tf_vector<REAL, 2>*)(chunk + row * PITCH + px) = {{v[0], v[1]}};
        *(tf_vector<REAL, 2>*)(chunk + (row + 8) * PITCH + px) = {{v[2], v[3]}};
    }
}

// Strict: the sums of a tile beside the accumulators, and what adds a finished chain of products to them.
typedef REAL Totals[TERMS > 1 ? BLOCKS : 1][TERMS > 1 ? ACCUMULATORS : 1];
static __device__ __forceinline__ void promote(REAL (&acc)[ACCUMULATORS], REAL (&total)[ACCUMULATORS]) {
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) add_landed(total[i], acc[i]);
}

// Where product warps reduce over channels: a chunk's blocks of eight columns by four, row by row.
constexpr int QUADS_A_ROW = (CHUNK_WIDTH + 31) / 32, REDUCED_QUADS = CHUNK_ROWS * QUADS_A_ROW;
static __device__ __forceinline__ constexpr int quad_first(int quad, int c) { return chunk_row_start(quad / QUADS_A_ROW) / 8 + c * (CHUNK_WIDTH / 8) + quad % QUADS_A_ROW * 4; }
static __device__ __forceinline__ int quad_blocks(int quad, int c) {
    return max(0, min(min(4, RUN_PIXELS / 8 - quad_first(quad, c)), min(CHUNK_WIDTH / 8, (ROW_LENGTH - c * CHUNK_WIDTH + 7) / 8) - quad % QUADS_A_ROW * 4));
}

)cuda"
