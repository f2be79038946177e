R"cuda(
// Product role: the taps of a tile, K step by K step, then the accumulators to shared memory in chunks of pixels.
// WG: which of the texts; `warpgroup`: which of the two that take the role.
template <int WG> static __device__ void product_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int warpgroup, int t) {
    int stage = 0, turn = 0, slab = 0, slab_turn = 0;
    Held held;
    held.group = warpgroup;
    Fragments<WG> fragments(shared, s, operands, warpgroup, t);
    // Each warpgroup has buffers of its own. The second is behind the first: one multiplies while the other hands over.
    const int first_slot = JOINT ? 0 : warpgroup * BUFFERS_0, end_slot = JOINT || warpgroup ? BUFFERS : BUFFERS_0;
    int slot = first_slot, chunk_turn = 0;
    const int warp_n = (t >> 5) % WARPS_N, row = (t >> 5 & 3) / WARPS_N * (16 * WARPS_N) + (t & 31) / 4, column = (t & 3) * 2;
    if (RESIDENT && (int)blockIdx.x < s.total) barrier_wait(shared_address(&b.weights_full[0]), 0);
    Place ahead = place_of(blockIdx.x, s);
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        const Place at = PLACES_AHEAD ? ahead : place_of(tile, s);
        REAL acc[BLOCKS][ACCUMULATORS];
        Totals total;
        if (TERMS > 1)
#pragma unroll
            for (int i = 0; i < BLOCKS * ACCUMULATORS; i++) total[i / ACCUMULATORS][i % ACCUMULATORS] = 0.f;
        if (SKIPS)                                            // any slab may be the first
#pragma unroll
            for (int i = 0; i < BLOCKS * ACCUMULATORS; i++) acc[i / ACCUMULATORS][i % ACCUMULATORS] = 0.f;
        for (int k = 0; k < KSTAGES; k++) {
            held.wait(shared_address(&b.full[stage]), turn & 1, b);
            multiply<WG>(acc, total, shared_address(shared + STAGES_AT + stage * STAGE_BYTES), shared_address(shared + WEIGHTS_AT), b, k, stage, warpgroup, at, s, slab, slab_turn, held);/*{multiplied*//*}*/
            if (++stage == STAGES) { stage = 0; turn++; }
        }
        if constexpr (PLACES_AHEAD) ahead = place_of(next_tile(tile), s);   // while the last products are under way
        products_wait<0>();
        settled(acc);
        held.release(b);
        if constexpr (BIASED) fragments.rows(at);
        if constexpr (FRAGMENTS) fragments.tile(results<TERMS>(acc, total), at, tile);
        else if constexpr (FOLDED) {                                  // a value a warp and pixel instead of its rows
#pragma unroll
            for (int set = 0; set < SETS; set++) {
                if (chunk_turn > 0) barrier_wait(shared_address(&b.chunk_empty[slot]), (chunk_turn - 1) & 1);
                fragments.fold(results<TERMS>(acc, total), at, set, (REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES));
                barrier_arrive(shared_address(&b.chunk_full[slot]));
                if (++slot == end_slot) { slot = first_slot; chunk_turn++; }
            }
        } else
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
#pragma unroll
            for (int set = 0; set < SETS; set++) {
                if constexpr (BIASED)                         // while the store role takes the chunk before
#pragma unroll
                    for (int p = 0; p < PLANES; p++)
#pragma unroll
                        for (int r = 0; r < CHUNK_ROWS; r++)
#pragma unroll
                            for (int i = 0; i < CHUNK_WIDTH / 8; i++) {
                                const int j = chunk_row_start(r) / 8 + c * (CHUNK_WIDTH / 8) + i;
                                if (j < RUN_PIXELS / 8 && c * CHUNK_WIDTH + i * 8 < ROW_LENGTH) fragments.add(results<TERMS>(acc, total)[set * PLANES + p] + (chunk_row_start(r) / 8 + c * (CHUNK_WIDTH / 8) + i) * 4);
                            }
                if constexpr (REDUCED)                        // while the store role takes the chunk before
#pragma unroll
                    for (int p = 0; p < PLANES; p += 2)
#pragma unroll
                        for (int q = 0; q < REDUCED_QUADS; q += PLANES == 1 ? 2 : 1) {
                            const int p2 = PLANES == 1 ? 0 : p + 1, q2 = PLANES == 1 ? q + 1 : q;
                            const int many = quad_blocks(q, c), many2 = p2 < PLANES && q2 < REDUCED_QUADS ? quad_blocks(q2, c) : 0;
                            if (many > 0) fragments.reduce(results<TERMS>(acc, total), set * PLANES + p, quad_first(q, c), many, set * PLANES + (many2 > 0 ? p2 : p), many2 > 0 ? quad_first(q2, c) : 0, many2, at);
                        }
                if (chunk_turn > 0) barrier_wait(shared_address(&b.chunk_empty[slot]), (chunk_turn - 1) & 1);
                REAL* chunk = (REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
#pragma unroll
                for (int p = 0; p < PLANES; p++) {
                    REAL (&a)[ACCUMULATORS] = results<TERMS>(acc, total)[set * PLANES + p];
                    const int to = row + (p * ROWS_PER_PLANE + (JOINT ? warpgroup * ROWS_PER_GROUP : 0)) * 64;
#pragma unroll
                    for (int r = 0; r < CHUNK_ROWS; r++)
#pragma unroll
                        for (int i = 0; i < CHUNK_WIDTH / 8; i++) {
                            const int j = chunk_row_start(r) / 8 + c * (CHUNK_WIDTH / 8) + i;
                            if (j < RUN_PIXELS / 8 && c * CHUNK_WIDTH + i * 8 < ROW_LENGTH && (WARPS_N == 1 || j % WARPS_N == warp_n)) {
                                const int px = r * CHUNK_WIDTH + i * 8 + column;
#pragma unroll
                                for (int m = 0; m < WARPS_N; m++)
                                    put_block(chunk, to + m * 16, px/*{skew*//*}*/, a + (m * (ACCUMULATORS / (4 * WARPS_N)) + j / WARPS_N) * 4);
                            }
                        }
                }
                barrier_arrive(shared_address(&b.chunk_full[slot]));
                if (++slot == end_slot) { slot = first_slot; chunk_turn++; }
            }
    }
    if constexpr (FRAGMENTS) fragments.finish();
}
)cuda"
