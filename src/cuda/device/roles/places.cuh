R"cuda(
// Where a tile lies: output o = PERIOD·u + residue with u from `u` on; `fixed` = which group and block of output channels,
// `variant` = which phases.
struct Place { int fixed, variant, u[4]/*{fields*//*}*/; };/*{steps*//*}*/
static __device__ __forceinline__ Place place_of(int tile, const Sizes& s) {
    Place at;
    int part = tile % PARTS, rest = tile / PARTS;
    at.fixed = part % FIXED;/*{round*//*}*/
    at.variant = 0;
    if (VARIANTS > 1) {
        /*{turn*/int turn = gridDim.x % PARTS == 0 ? tile / (int)gridDim.x : 0;/*}*/
        at.variant = (part / FIXED + turn) % VARIANTS;        // a CTA meets every variant in turn: they differ in work
    }
    constexpr int TILE[4] = {TILE_N, TILE_D, TILE_H, TILE_W};
#pragma unroll
    for (int a = 3; a >= 0; a--) at.u[a] = (a > 0 ? rest % s.tiles[a] : rest) * TILE[a], rest /= s.tiles[a];/*{start*//*}*/
    return at;
}

// The CTA's next tile. Each round begins elsewhere, so that a CTA meets every place of the image: tiles at a border have less to do.
static __device__ __forceinline__ int next_tile(int tile) {
    const unsigned round = tile / gridDim.x + 1;
    return (int)(round * gridDim.x + (blockIdx.x + PARTS * (round * (round + 1) / 2) % gridDim.x) % gridDim.x);
}

// Whether any window of a slab of weights meets the image, for this tile; else slab and products are left out.
static __device__ __forceinline__ bool slab_meets(int slab, const Place& at, const Sizes& s) {
    if (!SKIPS) return true;
    const int* reach = slab_reach(at.variant, slab);             // first and last shift along d, along h
    return ADVANCE_D * (at.u[1] + reach[0]) < s.in[1] && at.u[1] + TILE_D - 1 + reach[1] >= 0 &&
           ADVANCE_H * (at.u[2] + reach[2]) < s.in[2] && at.u[2] + TILE_H - 1 + reach[3] >= 0;
}

// Pixel p of the patch as a place in the input. Input i = ADVANCE·(u + FIRST + position) + residue; each residue has a
// sub-patch of its own, so that every tap is a window of unit stride.
struct Pixel { int at[4]; bool inside; };
static __device__ __forceinline__ Pixel pixel(int p, const Place& at, const Sizes& s) {
    Pixel x;
    int w = p % EXTENT_W, r = p / EXTENT_W, h = r % EXTENT_H; r /= EXTENT_H;
    int d = r % EXTENT_D; r /= EXTENT_D;
    int n = r % EXTENT_N, sub = r / EXTENT_N;
    int sw = sub % ADVANCE_W, sh = sub / ADVANCE_W % ADVANCE_H, sd = sub / (ADVANCE_W * ADVANCE_H);
    x.at[0] = at.u[0] + n;
    x.at[1] = ADVANCE_D * (at.u[1] + FIRST_D + d) + sd;
    x.at[2] = ADVANCE_H * (at.u[2] + FIRST_H + h) + sh;
    x.at[3] = ADVANCE_W * (at.u[3] + FIRST_W + w) + sw;
    x.inside = p < PIXELS && (TILE_N == 1 || x.at[0] < s.in[0]) && (unsigned)x.at[1] < (unsigned)s.in[1] &&
               (unsigned)x.at[2] < (unsigned)s.in[2] && (unsigned)x.at[3] < (unsigned)s.in[3];
    return x;
}
static __device__ __forceinline__ OFFSET pixel_offset(const Pixel& p, const Strides& s) {
    return (OFFSET)p.at[0] * (OFFSET)s.n + (OFFSET)p.at[1] * (OFFSET)s.d + (OFFSET)p.at[2] * (OFFSET)s.h + (OFFSET)p.at[3] * (OFFSET)s.w;
}

// How the load threads copy rows: WIDE pixels a copy, COPIES of them a channel and piece, TOGETHER channels side by side.
constexpr int WIDE = 16 / (int)sizeof(ELEMENT), COPIES = PIECE * LOADERS * (sizeof(ELEMENT) == 2 ? 2 : 1) / WIDE;
constexpr int TOGETHER = COPIES < LOADERS ? LOADERS / COPIES : 1, COPY_TURNS = (COPIES + LOADERS - 1) / LOADERS;
constexpr bool SETTLED = LOAD == LOAD_ROWS && PIECES == 1;    // a thread's place in the patch is the same at every stage
constexpr bool TABLED = LOAD == LOAD_ROWS && PIECES > 1;      // its places, one for each piece, are kept in shared memory

)cuda"
