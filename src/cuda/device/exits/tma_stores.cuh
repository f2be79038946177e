R"cuda(
// The chain on accumulators; results leave in boxes. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the columns
// 8j + 2(lane % 4) + {0, 1}. HAS_PLACES: results are words. HAS_ADDED: tensors come in such boxes, the first where results will lie.
constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;
template <int WG> struct Fragments {
    const REAL* table;
    const Operands& operands;
    unsigned boxes;  // where they are laid down
    REAL* exchange;  // of reductions over channels
    int warpgroup, lane, warp, slot, exchange_turn;
#ifdef HAS_PLACES
    const unsigned* places;  // of two pixels each in a box
#endif
#ifdef HAS_ADDED
    unsigned waits;  // barriers, one an accumulator: its boxes have come
    int turn;        // of the tile
#endif
    template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {
#pragma unroll
        for (int i = 0; i < N; i++) r[i] = from[SEGMENT > 8 ? i * 8 : 0];
    }
    __device__ __forceinline__ Fragments(unsigned char* shared, const Sizes&, const Operands& given, int warpgroup, int t)
        : table((const REAL*)(shared + TABLES_AT)), operands(given), boxes(shared_address(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES)),
          exchange((REAL*)(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES + EXCHANGE_AT)), warpgroup(warpgroup), lane(t % 32), warp(t / 32),
          slot(0), exchange_turn(0) {
#ifdef HAS_PLACES
        places = (const unsigned*)(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES + PLACES_IN_BOX_AT);
        unsigned short* const to = (unsigned short*)places;
        for (int p = t; p < RUN_PIXELS; p += 128) to[p] = row_of_pixel(p) < 0 ? 0xffff : vector_at(row_of_pixel(p), 0);  // a barrier follows before they are read
#endif
#ifdef HAS_ADDED
        waits = shared_address(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES + WAITS_AT), turn = 0;
        if (t == 0) {
            for (int b = 0; b < BLOCKS; b++) barrier_init(waits + b * 8, 1);
            barrier_fence();
        }
        barrier_named(6 + warpgroup, 128);
#endif
    }
    // The row of a pixel in a box, −1 where it lies between the rows of the image.
    static __device__ __forceinline__ int row_of_pixel(int pixel) {
        const int w = pixel % ROW_PITCH, line = pixel / ROW_PITCH, h = line % EXTENT_H, d = line / EXTENT_H % EXTENT_D, n = line / (EXTENT_H * EXTENT_D);
        return w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N ? ((n * RUN_D + d) * RUN_H + h) * RUN_W + w : -1;
    }
    // Where 16 bytes of channels of a box's row lie: spread over the banks as the copy expects it.
    static __device__ __forceinline__ unsigned vector_at(int row, int vector) {
        return row * BOX_ROW + ((SWIZZLED ? vector ^ (row * BOX_ROW >> 7 & (BOX_ROW / 16 - 1)) : vector) << 4);
    }

    // v reduced over channels: the lanes of a warp, then the warps that hold a pixel's channels, through shared memory.
    template <int N, class Join> __device__ __forceinline__ void meet(REAL (&v)[N], Join join) {
#pragma unroll
        for (int apart = 4; apart < 32; apart *= 2)
#pragma unroll
            for (int e = 0; e < N; e++) v[e] = join(v[e], __shfl_xor_sync(~0u, v[e], apart));
        if (MEETING > 1) {
            REAL* const parts = exchange + exchange_turn * RUN_PIXELS * 4;
            if (lane < 4) {
#pragma unroll
                for (int e = 0; e < N; e++) parts[(e / 2 * 8 + lane * 2 + e % 2) * 4 + warp] = v[e];
            }
            barrier_named(6 + warpgroup, 128);
#pragma unroll
            for (int e = 0; e < N; e++) {
                const tf_vector<REAL, MEETING> all = *(const tf_vector<REAL, MEETING>*)(parts + (e / 2 * 8 + lane % 4 * 2 + e % 2) * 4 + warp / MEETING * MEETING);
                v[e] = all.lane[0];
#pragma unroll
                for (int k = 1; k < MEETING; k++) v[e] = join(v[e], all.lane[k]);
            }
            exchange_turn ^= 1;
        }
    }

#ifdef HAS_ADDED
    __device__ __forceinline__ void ask(const Place& at, int b) const {
        const int* const maps = segment_maps + ((at.variant * 2 + warpgroup) * BLOCKS + b) * SEGMENTS;
        const unsigned bar = waits + b * 8;
        int many = 0;
        for (int segment = 0; segment < SEGMENTS; segment++) many += maps[segment] >= 0;
        barrier_expect(bar, many * (ADDED * BOX_PARTS * BOX_PIXELS * BOX_ROW));
        for (int box = 0; box < ADDED * SEGMENTS * BOX_PARTS; box++) {
            const int tensor = box / (SEGMENTS * BOX_PARTS), part = box % (SEGMENTS * BOX_PARTS), map = maps[part / BOX_PARTS];
            if (map >= 0) copy_box(boxes + (tensor * BLOCKS + b) * SLOT_BYTES + part * BOX_BYTES, operands.added[tensor][map], at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + (SPLIT_CHANNELS ? warpgroup * 64 : 0) + part % BOX_PARTS * BOX_CHANNELS, at.u[3] + warpgroup * SECOND_W, at.u[2] + warpgroup * SECOND_H, at.u[1] + warpgroup * SECOND_D, at.u[0] + warpgroup * SECOND_N, bar);
        }
    }
    // The boxes of a tile, each as soon as what lay there is on its way.
    template <int B> __device__ __forceinline__ void ask_from(const Place& at) const {
        if constexpr (B < BLOCKS) {
            boxes_read<BLOCKS - 1 - B>();
            ask(at, B);
            ask_from<B + 1>(at);
        }
    }
    __device__ __forceinline__ void ask(const Place& at) const {
        if (lane != 0 || warp != 0) return;
        ask_from<0>(at);
    }
#ifdef HAS_PLACES
    // A lane's values of a tensor whose boxes have come, as they are laid down.
    template <int N> __device__ __forceinline__ void load_added(REAL (&v)[2][N], unsigned from) const {
#pragma unroll
        for (int k = 0; k < N; k += 2) {
            const unsigned both = places[k * 2 + lane % 4];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const unsigned row = j ? both >> 16 : both & 0xffff;
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int m = warp * 16 + i * 8 + lane / 4, channel = m % SEGMENT, within = channel % BOX_CHANNELS;
                    const unsigned box = from + (m / SEGMENT * BOX_PARTS + channel / BOX_CHANNELS) * BOX_BYTES;
                    v[i][k + j] = row != 0xffff && m / SEGMENT < SEGMENTS && channel < BOX_PARTS * BOX_CHANNELS ? __uint_as_float(shared_word(box + (SWIZZLED ? row ^ within * 4 : row + within * 4))) : 0.f;
                }
            }
        }
    }
#else
    template <int N> __device__ __forceinline__ void load_added(REAL (&v)[2][N], unsigned from) const {
        const int half = lane / 8 % 2, first_row = warp * 16 + half * 8;
        const unsigned segment = from + first_row / SEGMENT * BOX_BYTES;
#pragma unroll
        for (int k = 0; k < N; k += 4) {
            const int pixel = k * 4 + lane / 16 * 8 + lane % 8, row = pixel < RUN_PIXELS ? row_of_pixel(pixel) : -1;
            const bool there = row >= 0 && first_row / SEGMENT < SEGMENTS && first_row % SEGMENT < BOX_CHANNELS;  // else anything
            unsigned m[4];
            load_transposed(m, there ? segment + vector_at(row, first_row % SEGMENT / 8) : from + SLOT_BYTES - 16);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const tf_vector<OUT, 2> both = *(const tf_vector<OUT, 2>*)&m[i];
                if (k + i / 2 * 2 < N) v[i % 2][k + i / 2 * 2] = tf_to<REAL>(both.lane[0]), v[i % 2][k + i / 2 * 2 + 1] = tf_to<REAL>(both.lane[1]);
            }
        }
    }
#endif
#endif

    __device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int) {
        constexpr int BATCH = 2, VECTOR = RUN_PIXELS / 4;  // a lane's rows and columns
        const int group = 0, image = at.u[0], block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + (SPLIT_CHANNELS ? warpgroup * 64 : 0);
        const int first_channel = block + (warp * 16 + lane / 4) % SEGMENT;
        (void)group, (void)image, (void)first_channel;
#define CHANNEL(i) (first_channel + (SEGMENT > 8 ? (i) * 8 : 0))
#define CHANNEL_OK(i) (CHANNEL(i) < COUT)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
#ifdef HAS_ADDED
            const unsigned to = boxes + b * SLOT_BYTES;
            barrier_wait(waits + b * 8, turn);  // what comes has come
#endif
/*{chain*//*}*/
#ifndef HAS_ADDED
            const unsigned to = boxes + slot * SLOT_BYTES;
            if (lane == 0 && warp == 0) boxes_read<BOX_SLOTS - 1>();  // what lay here is on its way
            barrier_named(6 + warpgroup, 128);
#endif
#ifdef HAS_PLACES
            // A value at a time: eight channels of four pixels lie in the 32 banks. Where pixels lie is read ahead of the values.
            unsigned both = places[lane % 4];
#pragma unroll
            for (int k = 0; k < VECTOR; k += 2) {
                const unsigned next = places[k + 2 < VECTOR ? k * 2 + 4 + lane % 4 : 0];
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const unsigned row = j ? both >> 16 : both & 0xffff;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const int m = warp * 16 + i * 8 + lane / 4, channel = m % SEGMENT, within = channel % BOX_CHANNELS;
                        const unsigned box = to + (m / SEGMENT * BOX_PARTS + channel / BOX_CHANNELS) * BOX_BYTES;
                        if (row != 0xffff && m / SEGMENT < SEGMENTS && channel < BOX_PARTS * BOX_CHANNELS) shared_put(box + (SWIZZLED ? row ^ within * 4 : row + within * 4), __float_as_uint(RESULT(i, k + j)));
                    }
                }
                both = next;
            }
#else
            // Four matrices of 8 channels by 8 pixels, transposed: a lane names the place of 8 channels of a pixel.
            const int half = lane / 8 % 2, first_row = warp * 16 + half * 8;
            const unsigned segment = to + first_row / SEGMENT * BOX_BYTES, nowhere = to + SLOT_BYTES - 16;
#pragma unroll
            for (int k = 0; k < VECTOR; k += 4) {
                const int pixel = k * 4 + lane / 16 * 8 + lane % 8, row = pixel < RUN_PIXELS ? row_of_pixel(pixel) : -1;
                const unsigned here = row >= 0 && first_row / SEGMENT < SEGMENTS && first_row % SEGMENT < BOX_CHANNELS ? segment + vector_at(row, first_row % SEGMENT / 8) : nowhere;
                const int f = k + 2 < VECTOR ? k + 2 : k;
                store_matrices(here, pack_pair<OUT>(RESULT(0, k), RESULT(0, k + 1)), pack_pair<OUT>(RESULT(1, k), RESULT(1, k + 1)), pack_pair<OUT>(RESULT(0, f), RESULT(0, f + 1)), pack_pair<OUT>(RESULT(1, f), RESULT(1, f + 1)));
            }
#endif
            fence_proxy();
            barrier_named(6 + warpgroup, 128);
            if (lane == 0 && warp == 0) {
                for (int box = 0; box < SEGMENTS * BOX_PARTS; box++) {
                    const int map = segment_maps[((at.variant * 2 + warpgroup) * BLOCKS + b) * SEGMENTS + box / BOX_PARTS];
                    if (map >= 0) store_box(operands.out[map], to + box * BOX_BYTES, block + box % BOX_PARTS * BOX_CHANNELS, at.u[3] + warpgroup * SECOND_W, at.u[2] + warpgroup * SECOND_H, at.u[1] + warpgroup * SECOND_D, at.u[0] + warpgroup * SECOND_N);
                }
                boxes_sent();
            }
#ifndef HAS_ADDED
            if (BOX_SLOTS > 1) slot ^= 1;
#endif
        }
#ifdef HAS_ADDED
        turn ^= 1;
#endif
#undef CHANNEL
#undef CHANNEL_OK
    }
    __device__ __forceinline__ void finish() {
        if (lane == 0 && warp == 0) boxes_stored();
    }
};
#undef HAS_PLACES
#undef HAS_ADDED
)cuda"
