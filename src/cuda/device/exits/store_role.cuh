R"cuda(
// Store role: takes chunks of accumulators, runs the tile program, writes, while the next tile's products run.
static __device__ void store_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int store_group, int t) {
    const REAL* table = (const REAL*)(shared + TABLES_AT);
    REAL* slots = (REAL*)(shared + TABLES_AT + STORE_SLOTS_AT + store_group * GROUP_BYTES);
    REAL* image_table = slots + STORE_IMAGES_AT;
    REAL* exchange = slots + STORE_EXCHANGE_AT;
    int exchange_turn = 0;
    // A warp along the columns has all rows of its own, or a thread neighbouring rows, or warps take rows in turn.
    const int lane_column = WARPS_ALONG_W ? t / 32 * LANES_W + t % LANES_W : t % LANES_W;
    const int lane_row = WARPS_ALONG_W ? t % 32 / LANES_W : t / LANES_W * (NEIGHBOURS ? ITEMS : 1);
    constexpr int COLUMNS_AT_ONCE = WARPS_ALONG_W ? 4 * LANES_W : LANES_W;
    (void)table, (void)slots, (void)image_table, (void)exchange, (void)exchange_turn;
/*{vectors*//*}*/
/*{statistics*//*}*/
/*{ask ahead*//*}*/
    int next[2] = {0, BUFFERS_0}, turns[2] = {0, 0}, taken = 0;  // each warpgroup's buffers
    int image = -1;
    (void)image;
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        const Place at = place_of(tile, s);
        const int group = at.fixed / MGROUPS, block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);
/*{images*//*}*/
        /*{chunks*/for (;;) {/*}*/
            const int slot = wg ? next[1] : next[0], turn = wg ? turns[1] : turns[0];
            if (wg) { if (++next[1] == BUFFERS) { next[1] = BUFFERS_0; turns[1]++; } }
            else if (++next[0] == BUFFERS_0) { next[0] = 0; turns[0]++; }
            if (STORE_GROUPS > 1 && taken++ % STORE_GROUPS != store_group) continue;
/*{turn ahead*//*}*/
            barrier_wait(shared_address(&b.chunk_full[slot]), turn & 1);
            const REAL* chunk = (const REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
            const int* codes = phase_codes + ((at.variant * 2 + wg) * SETS + set) * CHUNK_OUTER;
            const int first_channel = block + (SPLIT_CHANNELS && !JOINT ? wg * 64 : 0);  // within the group
            const int first_n = at.u[0] + wg * SECOND_N, first_d = at.u[1] + wg * SECOND_D, first_h = at.u[2] + wg * SECOND_H, first_w = at.u[3] + wg * SECOND_W;
/*{walk*//*}*/
            if constexpr (!RELEASES_EARLY) { barrier_arrive(shared_address(&b.chunk_empty[slot])); }
        }
/*{flush tile*//*}*/
    }
/*{flush*//*}*/
}
#undef ROW
#undef CHUNK_ROW
#undef AHEAD
#undef CHANNEL
#undef CHANNEL_OK
#undef PN
#undef PD
#undef PH
#undef PW
#undef VALID
)cuda"
