R"cuda(
// The chain on accumulators, of which nothing but sums is kept. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the
// columns 8j + 2(lane % 4) + {0, 1}. RESULTS are a lane's columns, after a pool its windows; segments are phases side by side in
// the rows of an accumulator.
constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;
/*{tables*//*}*/
template <int WG> struct Fragments {
    const REAL* table;
    const Sizes& s;
    const Operands& operands;
    int warpgroup, column, channel, segment;  // of the lane: first column; first row's channel and segment
/*{fields*//*}*/
    template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {
#pragma unroll
        for (int i = 0; i < N; i++) r[i] = from[SEGMENTS > 1 ? 0 : i * 8];
    }
/*{sums*//*}*/
    __device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes& sizes, const Operands& given, int warpgroup, int t)
        : table((const REAL*)(shared + TABLES_AT)), s(sizes), operands(given), warpgroup(warpgroup) {
        const int lane = t % 32, row = lane / 4, warp = t / 32;
        column = lane % 4 * 2;
        channel = (SPLIT_CHANNELS ? warpgroup * 64 : 0) + (SEGMENTS > 1 ? warp * (16 / SEGMENTS) + row % (16 / SEGMENTS) : warp * 16 + row);
        segment = SEGMENTS >= 4 ? row / 4 * 2 + (SEGMENTS == 8 ? row / 2 % 2 * 4 : 0) : 0;  // the second row: one more
/*{begin*//*}*/
    }
/*{places*//*}*/

#define CHANNEL(i) (first_channel + (SEGMENTS > 1 ? 0 : (i) * 8))
#define CHANNEL_OK(i) (CHANNEL(i) < COUT)
/*{whole tiles*//*}*/
    __device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int tile) {
        const int group = at.fixed / MGROUPS, first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + channel, image = at.u[0];
        (void)group, (void)first_channel, (void)image;
/*{results*//*}*/
    }
#undef CHANNEL
#undef CHANNEL_OK

    // A channel's results over the lanes that share it, in a fixed order, to the writer's row.
    __device__ __forceinline__ void write(REAL (&parts)[RESULT_ROWS][STATS], int channel_at, int channel_in_group, long long rows, long long row) {
#pragma unroll
        for (int i = 0; i < RESULT_ROWS; i++) {
/*{lanes*//*}*/
            if (column == 0 && segment == 0 && channel_in_group + i * 8 < COUT) {
#pragma unroll
                for (int k = 0; k < STATS; k++) operands.partial[(k * rows + row) * CHANNELS + channel_at + i * 8] = parts[i][k];
            }
        }
    }
    __device__ __forceinline__ void finish() {
        if constexpr (!ROWS_PER_TILE) {
            write(sums, channel, channel, gridDim.x * WRITERS, blockIdx.x * WRITERS + (WRITERS > 1 ? warpgroup : 0));
        }
    }
};
)cuda"
