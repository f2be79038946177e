R"cuda(
// The chain on accumulators, and its results to memory. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the columns
// 8j + 2(lane % 4) + {0, 1}: block j is a row of the strip. NEIGHBOURS along w are stored at once.
constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;
constexpr int SEGMENT = 64;
template <int WG> struct Fragments {
    const REAL* table;
    const Operands& operands;
    const Sizes& s;
    int warpgroup, lane, warp;
    template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {
#pragma unroll
        for (int i = 0; i < N; i++) r[i] = from[i * 8];
    }
    __device__ __forceinline__ Fragments(unsigned char* shared, const Sizes& sizes, const Operands& given, int warpgroup, int t)
        : table((const REAL*)(shared + TABLES_AT)), operands(given), s(sizes), warpgroup(warpgroup), lane(t % 32), warp(t / 32) {}

    __device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int) {
        constexpr int BATCH = 2, VECTOR = RUN_PIXELS / 4;  // a lane's rows and columns
        const int group = 0, image = at.u[0];
        const int first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + (SPLIT_CHANNELS ? warpgroup * 64 : 0) + warp * 16 + lane / 4;
        (void)group, (void)image;
#define CHANNEL(i) (first_channel + (i) * 8)
#define CHANNEL_OK(i) (CHANNEL(i) < COUT)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
/*{chain*//*}*/
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
                for (int e = 0; e < VECTOR; e++) acc[b][e / 2 * 4 + i * 2 + e % 2] = RESULT(i, e);
        }
#pragma unroll
        for (int set = 0; set < SETS; set++) stored(acc, at, set, first_channel);
#undef CHANNEL
#undef CHANNEL_OK
    }
    __device__ __forceinline__ void stored(const REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int set, int first_channel) {
        const int code = direct_codes[(at.variant * 2 + warpgroup) * SETS + set];
        if (code < 0) return;
        const Strides& ys = operands.ys0;
        const int n0 = at.u[0] + warpgroup * SECOND_N, d0 = PERIOD_D * (at.u[1] + warpgroup * SECOND_D) + (code >> 16);
        const int h0 = PERIOD_H * (at.u[2] + warpgroup * SECOND_H) + (code >> 8 & 255);
        const int w0 = PERIOD_W * (at.u[3] + warpgroup * SECOND_W + lane % 4 * 2) + (code & 255);
        OUT* const to = operands.y0 + (n0 * ys.n + first_channel * ys.c + d0 * ys.d + h0 * ys.h + w0 * ys.w);
#pragma unroll
        for (int j = 0; j < RUN_PIXELS / 8; j++) {
            const int h = j % EXTENT_H, d = j / EXTENT_H % EXTENT_D, n = j / (EXTENT_H * EXTENT_D);
            if (h >= RUN_H || d >= RUN_D || n >= RUN_N || n0 + n >= s.out[0] || d0 + PERIOD_D * d >= s.out[1] || h0 + PERIOD_H * h >= s.out[2]) continue;
            OUT* const row = to + (n * ys.n + PERIOD_D * d * ys.d + PERIOD_H * h * ys.h);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (first_channel + i * 8 >= COUT) continue;
#pragma unroll
                for (int k = 0; k < 2 * PHASES_W; k += NEIGHBOURS) {
                    const int w = k / PHASES_W * PERIOD_W + k % PHASES_W;  // pixel k / PHASES_W, residue k % PHASES_W
                    if (w0 + w >= s.out[3]) continue;
                    tf_vector<OUT, NEIGHBOURS> v;
#pragma unroll
                    for (int f = 0; f < NEIGHBOURS; f++) tf_from(v.lane[f], acc[set * PHASES_W + (k + f) % PHASES_W][j * 4 + i * 2 + (k + f) / PHASES_W]);
                    *(tf_vector<OUT, NEIGHBOURS>*)(row + i * 8 * ys.c + w * ys.w) = v;
                }
            }
        }
    }
    __device__ __forceinline__ void finish() {}
};
)cuda"
