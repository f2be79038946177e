R"cuda(
// The machine of sm_80 and later: the same roles with mma.sync, ldmatrix and cp.async.
//
// A warp reads its operands itself. Eight rows of 16 bytes, one after another, are exactly an ldmatrix matrix, so the windows
// of the patch and the packed weights serve as they lie, free of bank conflicts, at any shift.
constexpr int WARPS_N = 2;                                    // a warp has 32 rows of M and every second block of 8 pixels
TF_PTX void barrier_fence() {}
TF_PTX void fence_proxy() {}
#ifdef __CUDACC__
TF_PTX void rest() { __nanosleep(20); }                       // who waits leaves the issue slots to the products
#if __CUDA_ARCH__ >= 900
TF_PTX bool barrier_soon(unsigned b, int parity) {            // the same, for a moment, until the phase completes
    int done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(b), "r"(parity) : "memory");
    return done;
}
TF_PTX void barrier_wait(unsigned b, int parity) { while (!barrier_soon(b, parity)) {} }
#else
TF_PTX void barrier_wait(unsigned b, int parity) { while (!barrier_done(b, parity)) rest(); }
#endif
#endif

// Weights are fetched by all load threads, each its share.
constexpr int FETCHERS = LOADERS;
TF_PTX void copy_weights(unsigned to, const unsigned char* from, int bytes, unsigned barrier, int t) {
    for (int at = t * 16; at < bytes; at += LOADERS * 16) copy_16(to + at, from + at, true);
    copy_arrive(barrier);
}

// Products are done when their instruction is.
TF_PTX bool group_agrees(int, bool mine) { return __shfl_sync(~0u, mine, 0); }   // here products are a warp's own
TF_PTX void products_begin() {}
TF_PTX void products_commit() {}
template <int PENDING> TF_PTX void products_wait() {}
TF_PTX void landed(REAL&) {}
TF_PTX void add_landed(REAL& total, REAL sum) { total += sum; }
template <int COUNT> TF_PTX void registers_give() {}
template <int COUNT> TF_PTX void registers_take() {}

#ifdef __CUDACC__
// Four matrices of 8 rows x 16 bytes; lane l names row l % 8 of matrix l / 8.
TF_PTX void load_matrices(unsigned (&m)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(row) : "memory");
}
TF_PTX double load_double(unsigned at) { double v; asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v) : "r"(at) : "memory"); return v; }
// d[16 rows][8 pixels] += a · b over 32 bytes of channels.
#define TF_MMA(NAME, SHAPE) \
    TF_PTX void NAME(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) { \
        asm volatile("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
    }
TF_MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
TF_MMA(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
TF_MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
#undef TF_MMA
TF_PTX void mma_f64(double* d, double a, double b) {          // d[8 rows][8 pixels] += a · b over 4 channels
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
}
#endif

// The warp's part of 64 rows of weights times RUN_PIXELS pixels: accumulators [row block of 16][pixel block][4].
constexpr int PIXEL_BLOCKS = (RUN_PIXELS / 8 + WARPS_N - 1) / WARPS_N;
TF_PTX unsigned start_of(unsigned long long operand) { return ((unsigned)operand & 0x3fff) << 4; }
TF_PTX unsigned halves_of(unsigned long long operand) { return (unsigned)(operand >> 16 & 0xffff) << 4; }
template <class R> TF_PTX void product(R (&d)[ACCUMULATORS], unsigned long long weights, unsigned long long pixels, int accumulate) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    if (!accumulate)
#pragma unroll
        for (int i = 0; i < ACCUMULATORS; i++) d[i] = 0;
    const unsigned rows = start_of(weights) + warp / 2 * (32 * 16), columns = start_of(pixels) + warp % 2 * (8 * 16);
    if constexpr (sizeof(R) == 8) {
        const unsigned place = lane / 4 * 16 + lane % 2 * 8;
        R a[4];
#pragma unroll
        for (int m = 0; m < 4; m++) a[m] = load_double(rows + place + lane / 2 % 2 * halves_of(weights) + m * (8 * 16));
#pragma unroll
        for (int j = 0; j < PIXEL_BLOCKS; j++) {
            const R b = load_double(columns + place + lane / 2 % 2 * halves_of(pixels) + j * (16 * 16));
#pragma unroll
            for (int m = 0; m < 4; m++) MMA(d + (m / 2 * PIXEL_BLOCKS + j) * 4 + m % 2 * 2, a[m], b);
        }
    } else {
        const unsigned row = rows + lane % 16 * 16 + lane / 16 * halves_of(weights);
        const unsigned pixel = columns + (lane / 16 * 16 + lane % 8) * 16 + lane / 8 % 2 * halves_of(pixels);
        unsigned a[TERMS][2][4], b[2][TERMS][4];              // strict: what rounding left comes second
#pragma unroll
        for (int i = 0; i < TERMS * 2; i++) load_matrices(a[i / 2][i % 2], row + i / 2 * 2048 + i % 2 * (16 * 16));
#pragma unroll
        for (int j = -2; j < PIXEL_BLOCKS; j += 2) {          // pixels are loaded one turn ahead
            if (j + 2 < PIXEL_BLOCKS)
#pragma unroll
                for (int i = 0; i < TERMS; i++) load_matrices(b[j / 2 + 1 & 1][i], pixel + i * (VECTORS * PLANE * 16) + (j + 2) * (16 * 16));
            if (j < 0) continue;
            unsigned (&now)[TERMS][4] = b[j / 2 & 1];
#pragma unroll
            for (int i = TERMS == 1 ? 2 : 0; i < 3; i++)      // low·high, high·low, high·high: the small terms first
#pragma unroll
                for (int m = 0; m < 4; m++)
                    if (j + m % 2 < PIXEL_BLOCKS) MMA(d + (m / 2 * PIXEL_BLOCKS + j + m % 2) * 4, a[i == 0 ? TERMS - 1 : 0][m / 2], now[i == 1 ? TERMS - 1 : 0][m % 2 * 2], now[i == 1 ? TERMS - 1 : 0][m % 2 * 2 + 1]);
        }
    }
}
)cuda"
