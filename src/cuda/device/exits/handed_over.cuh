R"cuda(
// Accumulators are handed over: the store role runs the chain. BIASED: their bias is added before; row r of a warp's 16 belongs to
// lane / 4 = r % 8, and a lane has the rows r and r + 8.
constexpr bool FRAGMENTS = false, FOLDED = false;
template <int WG> struct Fragments {
    const REAL* bias;
    REAL of_rows[2];
    __device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes&, const Operands&, int warpgroup, int t)
        : bias((const REAL*)(shared + TABLES_AT) + BIAS_AT + (SPLIT_CHANNELS ? warpgroup * 64 : 0) + t / 32 * 16 + t % 32 / 4) {}
    __device__ __forceinline__ void rows(const Place& at) {
        const REAL* from = bias + at.fixed / MGROUPS * COUT + at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);
        of_rows[0] = from[0], of_rows[1] = from[8];
    }
    __device__ __forceinline__ void add(REAL* block) const { block[0] += of_rows[0], block[1] += of_rows[0], block[2] += of_rows[1], block[3] += of_rows[1]; }
};
)cuda"
