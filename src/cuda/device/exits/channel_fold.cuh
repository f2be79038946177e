R"cuda(
// The chain up to a reduction over channels, on accumulators. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the columns
// 8j + 2(lane % 4) + {0, 1}. JOINED(a, b) is the reduction of two values; a logsumexp (MASSES) has beside each the sum of exponentials
// relative to it.
constexpr bool FRAGMENTS = false, FOLDED = true, BIASED = false;
template <int WG> struct Fragments {
    const REAL* table;
    const Operands& operands;
    int warpgroup, warp, row, column;  // of the lane: its first row and column
    template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {
#pragma unroll
        for (int i = 0; i < N; i++) r[i] = from[i * 8];
    }
    __device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes&, const Operands& given, int warpgroup, int t)
        : table((const REAL*)(shared + TABLES_AT)), operands(given), warpgroup(warpgroup), warp(t / 32), row(t % 32 / 4), column(t % 4 * 2) {}

    static __device__ __forceinline__ void join(REAL& a, REAL& mass, REAL b, REAL mass_of_b) {
        if constexpr (MASSES) {
            const REAL top = tf_max(a, b);
            mass = top == __int_as_float(0xff800000) ? (REAL)0 : mass * tf_exp(a - top) + mass_of_b * tf_exp(b - top);
            a = top;
        } else {
            a = JOINED(a, b);
        }
    }
    // Eight lanes hold rows of the same columns. Each step a lane gives half of its columns to the lane APART away and takes the other
    // half's rows: afterwards it has all rows of an eighth of them.
    template <int APART, int N> static __device__ __forceinline__ void halve(REAL (&v)[N], REAL (&mass)[N], int count, bool upper) {
#pragma unroll
        for (int j = 0; j < N / 2; j++) {
            if (j >= count / 2) break;
            const REAL take = __shfl_xor_sync(~0u, upper ? v[j] : v[j + count / 2], APART);
            if (upper) v[j] = v[j + count / 2];
            REAL take_mass = 0;
            if constexpr (MASSES) {
                take_mass = __shfl_xor_sync(~0u, upper ? mass[j] : mass[j + count / 2], APART);
                if (upper) mass[j] = mass[j + count / 2];
            }
            join(v[j], mass[j], take, take_mass);
        }
    }
    __device__ __forceinline__ void fold(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int set, REAL* chunk) {
        constexpr int BATCH = 2, VECTOR = RUN_PIXELS / 4, WIDTH = (VECTOR + 7) / 8 * 8;  // a lane's rows and columns
        const int group = 0, image = at.u[0], first_channel = (SPLIT_CHANNELS ? warpgroup * 64 : 0) + warp * 16 + row;
        (void)group, (void)image;
#define CHANNEL(i) (first_channel + (i) * 8)
#define CHANNEL_OK(i) (CHANNEL(i) < COUT)
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
/*{chain*//*}*/
            REAL folded[WIDTH], mass[WIDTH];
#pragma unroll
            for (int e = 0; e < WIDTH; e++) {
                folded[e] = NOTHING, mass[e] = 0;
                if (e < VECTOR) {
                    if (CHANNEL_OK(0)) folded[e] = RESULT(0, e), mass[e] = 1;
                    if (CHANNEL_OK(1)) join(folded[e], mass[e], RESULT(1, e), (REAL)1);
                }
            }
            halve<16>(folded, mass, WIDTH, row & 4);
            halve<8>(folded, mass, WIDTH / 2, row & 2);
            halve<4>(folded, mass, WIDTH / 4, row & 1);
            REAL* to = chunk + (p * ROWS_PER_PLANE * BLOCK_ROWS + (JOINT ? warpgroup * 4 : 0) + warp) * PITCH;
#pragma unroll
            for (int j = 0; j < WIDTH / 8; j++) {
                const int e = row * (WIDTH / 8) + j, px = e / 2 * 8 + column + e % 2;
                if (e >= VECTOR) continue;
                to[px] = folded[j];
                if constexpr (MASSES) to[ROWS_PER_PLANE * 4 * PITCH + px] = mass[j];
            }
        }
#undef CHANNEL
#undef CHANNEL_OK
    }
};
)cuda"
