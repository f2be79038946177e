R"cuda(
// Reductions over channels on accumulators. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the columns
// 8j + 2(lane % 4) + {0, 1}. What is left of the chain is the store role's.
constexpr bool FRAGMENTS = false, FOLDED = false, BIASED = false;
template <int WG> struct Fragments {
    const REAL* table;
    const Operands& operands;
    REAL* exchange;                          // [turn][warp][64 columns]: of the first lanes, then of the next
    int warpgroup, warp, row, column, turn;  // of the lane: its first row, its columns' place
    template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {
#pragma unroll
        for (int i = 0; i < N; i++) r[i] = from[i * 8];
    }
    __device__ __forceinline__ Fragments(unsigned char* shared, const Sizes&, const Operands& given, int warpgroup, int t)
        : table((const REAL*)(shared + TABLES_AT)), operands(given), exchange((REAL*)(shared + TABLES_AT + EXCHANGE_AT) + warpgroup * 512),
          warpgroup(warpgroup), warp(t / 32), row(t % 32 / 4), column(t % 4 * 16), turn(0) {}

    // `finish` of what `join` makes of all rows, of each of sixteen columns. Lanes with rows of the same columns give one another halves
    // of them until each has two of its warp; then the warps meet. Two places in turn: when one is written again, everybody has passed
    // the barrier after reading it.
    template <class Join, class Finish> __device__ __forceinline__ void meet(REAL (&v)[16], Join join, Finish finish) {
#pragma unroll
        for (int many = 8; many > 1; many /= 2)
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (j < many) {
                    const bool upper = row & many / 2;
                    const REAL take = __shfl_xor_sync(~0u, upper ? v[j] : v[j + many], many * 2);
                    if (upper) v[j] = v[j + many];
                    v[j] = join(v[j], take);
                }
        typedef tf_vector<REAL, 2> Pair;
        REAL* const parts = exchange + turn * 256 + column + row * 2;
        turn ^= 1;
        __syncwarp();  // whose lanes have read what was their warp's own
        *(Pair*)(parts + warp * 64) = Pair{{v[0], v[1]}};
        barrier_named(6 + warpgroup, 128);
        Pair one = *(const Pair*)parts;
#pragma unroll
        for (int k = 1; k < 4; k++) {
            const Pair part = *(const Pair*)(parts + k * 64);
            one.lane[0] = join(one.lane[0], part.lane[0]), one.lane[1] = join(one.lane[1], part.lane[1]);
        }
        // The warp's other place is its own until the next meeting. Halves of the upper lanes' columns change places, so that no banks meet.
        REAL* const own = exchange + turn * 256 + warp * 64 + column;
        const int swap = column / 32 * 8;
        *(Pair*)(own + (row * 2 ^ swap)) = Pair{{finish(one.lane[0]), finish(one.lane[1])}};
        __syncwarp();
#pragma unroll
        for (int e = 0; e < 16; e += 4) {
            const tf_vector<REAL, 4> part = *(const tf_vector<REAL, 4>*)(own + (e ^ swap));
#pragma unroll
            for (int f = 0; f < 4; f++) v[e + f] = part.lane[f];
        }
    }

    // Of two accumulators, or of two parts of one, up to four blocks of eight columns each: `many` of `block` from `first` on, and
    // `many2` of block2 from first2 on.
    __device__ __forceinline__ void reduce(REAL (&acc)[BLOCKS][ACCUMULATORS], int block, int first, int many, int block2, int first2, int many2, const Place& at) {
        constexpr int BATCH = 2, VECTOR = 16;
        const int group = 0, image = at.u[0], first_channel = warp * 16 + row;
        (void)group, (void)image;
#define CHANNEL(i) (first_channel + (i) * 8)
#define CHANNEL_OK(i) (COUT % 64 == 0 || CHANNEL(i) < COUT)
#define IS_THERE(e) ((e) % 8 / 2 < ((e) < 8 ? many : many2))
#define PLACE(i, e) acc[(e) < 8 ? block : block2][(((e) < 8 ? first : first2) + (e) % 8 / 2) * 4 + (i) * 2 + (e) % 2]
/*{chain*//*}*/
#pragma unroll
        for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
                if (IS_THERE(e)) PLACE(i, e) = RESULT(i, e);
#undef CHANNEL
#undef CHANNEL_OK
#undef IS_THERE
#undef PLACE
    }
};
)cuda"
