# D.py with its kernels: ModelNew computes what Model does. The model as written:
#
#     class Model(nn.Module):
#         def __init__(self, in_channels, out_channels, kernel_size):
#             super().__init__()
#             self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, bias=False)
#
#         def forward(self, x):
#             return self.conv_transpose(x)
#
# Derivation, each rule exact:
#   expand_conv: conv_transpose f32[64,128,130,260] is a lattice convolution
#   in all 515 Gflop and 1.64 GB became 515 Gflop and 1.64 GB.
# Plan:
#   dense: 515 Gflop, 1.64 GB
# Why it may be this fast: on an H200 (400 TFLOP/s TF32, 4.0 TB/s measured) the plan cannot take less than 1.29 ms at
# the sizes of get_inputs(); the operators one by one, as written, not less than 1.29 ms.

import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# Kernels and the host code that launches them; sizes are run-time values. No torch headers: it compiles in seconds.
ARITHMETIC = r"""
#define TF_FUNCTION static __device__ __forceinline__
struct tf_half { unsigned short bits; };
struct tf_bfloat { unsigned short bits; };
TF_FUNCTION float tf_half_to_float(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
TF_FUNCTION unsigned short tf_float_to_half(float f) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
TF_FUNCTION unsigned short tf_float_to_bfloat(float f) { unsigned short h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
TF_FUNCTION float tf_bfloat_to_float(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
template <class R> TF_FUNCTION R tf_to(double v) { return (R)v; }
template <class R> TF_FUNCTION R tf_to(float v) { return (R)v; }
template <class R> TF_FUNCTION R tf_to(tf_half v) { return (R)tf_half_to_float(v.bits); }
template <class R> TF_FUNCTION R tf_to(tf_bfloat v) { return (R)tf_bfloat_to_float(v.bits); }
TF_FUNCTION void tf_from(double& s, double v) { s = v; }
TF_FUNCTION void tf_from(float& s, double v) { s = (float)v; }
TF_FUNCTION void tf_from(float& s, float v) { s = v; }
TF_FUNCTION void tf_from(double& s, float v) { s = (double)v; }
TF_FUNCTION void tf_from(tf_half& s, float v) { s.bits = tf_float_to_half(v); }
TF_FUNCTION void tf_from(tf_bfloat& s, float v) { s.bits = tf_float_to_bfloat(v); }
TF_FUNCTION void tf_from(tf_half& s, double v) { s.bits = tf_float_to_half((float)v); }
TF_FUNCTION void tf_from(tf_bfloat& s, double v) { s.bits = tf_float_to_bfloat((float)v); }
template <class R, class S> TF_FUNCTION R tf_load(const S* p) { return tf_to<R>(*p); }
template <class S, class R> TF_FUNCTION void tf_store(S* p, R v) { S s; tf_from(s, v); *p = s; }
typedef int tf_index;
struct alignas(8) tf_divisor { unsigned magic, shift; };  // 0 <= n < 2^31

TF_FUNCTION tf_index tf_quotient_of(tf_index n, tf_divisor d) {
    return (tf_index)((__umulhi((unsigned)n, d.magic) + (unsigned)n) >> d.shift);
}

#if __CUDA_ARCH__ >= 900
#define TF_SEQUENCE() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#else
#define TF_SEQUENCE()
#endif

// N consecutive elements moved at once; N·sizeof(S) is a power of two up to 16 and the address a multiple of it.
template <class S, int N> struct alignas(sizeof(S) * N) tf_vector { S lane[N]; };

// PTX in one-line functions: instructions are spelled here, in hopper.cuh and in portable.cuh, and nowhere else. Here: what
// every architecture since sm_80 has. (Without a CUDA compiler the tests' host machine has functions of the same names.)
#define TF_PTX static __device__ __forceinline__

#ifdef __CUDACC__
TF_PTX unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
TF_PTX void shared_put(unsigned to, unsigned word) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory"); }

// mbarriers: a phase completes when all expected arrivals (and bytes) are in; waiting names the phase's parity.
TF_PTX void barrier_init(unsigned b, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(arrivals)); }
TF_PTX bool barrier_done(unsigned b, int parity) {
    int done;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(b), "r"(parity) : "memory");
    return done;
}
TF_PTX void barrier_arrive(unsigned b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
TF_PTX void barrier_named(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// cp.async of 4, 8 or 16 bytes that writes zeros where `inside` is false; copy_arrive: when the thread's copies have landed.
TF_PTX void copy_4(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4 : 0) : "memory"); }
TF_PTX void copy_8(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(inside ? 8 : 0) : "memory"); }
TF_PTX void copy_16(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory"); }
TF_PTX void copy_arrive(unsigned b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(b) : "memory"); }
TF_PTX void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> TF_PTX void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

TF_PTX unsigned round_tf32(float v) { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v)); return r; }
#endif

// An operand in shared memory: start address, distance of the two K halves, distance of 8-row blocks; no swizzle.
TF_PTX unsigned long long descriptor(unsigned start, unsigned halves, unsigned blocks) {
    return (unsigned long long)((start & 0x3ffff) >> 4) | ((unsigned long long)(halves >> 4) << 16) | ((unsigned long long)(blocks >> 4) << 32);
}
constexpr int THREADS = 512, LOADERS = 128, CIN = 64, COUT = 128, MGROUPS = 1, BLOCKS_PER_TILE = 2, FIXED = 1, VARIANTS = 1, PARTS = 1;
constexpr int TILE_N = 1, RUN_N = 1, EXTENT_N = 1, SECOND_N = 0, TILE_D = 1, RUN_D = 1, EXTENT_D = 1, FIRST_D = 0, ADVANCE_D = 1, PERIOD_D = 1;
constexpr int SECOND_D = 0, TILE_H = 2, RUN_H = 2, EXTENT_H = 4, FIRST_H = -2, ADVANCE_H = 1, PERIOD_H = 1, SECOND_H = 0, ADVANCE_W = 1;
constexpr int PERIOD_W = 1, SECOND_W = 0, VECTORS = 2, STAGES = 2, PIECES = 1, OPERAND_TILES = 30, BUFFERS = 2, CHUNK_WIDTH = 64, CHUNK_ROWS = 1;
constexpr int SETS = 1, PLANES = 1, ROWS_PER_PLANE = 1, ROWS_PER_GROUP = 1, PITCH = 72, BLOCKS = 1, CHUNK_BYTES = 18432, WEIGHTS_AT = 0;
constexpr bool RESIDENT = false;
constexpr bool JOINT = false;
constexpr bool SPLIT_CHANNELS = true;
constexpr bool PIXEL_MAJOR = false;
enum { LOAD_PLANAR, LOAD_VECTORS, LOAD_DIRECT, LOAD_PAIRS, LOAD_SINGLES, LOAD_ROWS, LOAD_BOXES, LOAD_OPERAND };
constexpr int LOAD = LOAD_ROWS;
typedef int OFFSET;
static __device__ __forceinline__ constexpr int chunk_row_start(int r) { constexpr int start[] = {0}; return start[r]; }
constexpr bool SKIPS = false;
static __device__ __forceinline__ const int* slab_reach(int, int) { return nullptr; }

// The machine of sm_90a: wgmma, bulk copies, registers handed from role to role. (Without a CUDA compiler the tests' host
// machine has functions of the same names.)
constexpr int WARPS_N = 1;                                    // a warpgroup's warps lie along M: 16 rows each, all pixels

#ifdef __CUDACC__
TF_PTX void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TF_PTX void barrier_wait(unsigned b, int parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(b), "r"(parity) : "memory");
}
TF_PTX void barrier_expect(unsigned b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
TF_PTX void copy_bulk(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
TF_PTX void rest() {}
// A box of a tensor by its map, which the host made; zeros where it reaches beyond the tensor. Begins on 16 bytes of the first axis.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
TF_PTX void copy_box(unsigned to, const TensorMap* map, int c0, int c1, int c2, int c3, int c4, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(barrier) : "memory");
}
TF_PTX void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#else
TF_PTX void barrier_fence() {}
TF_PTX void barrier_expect(unsigned b, int) { barrier_arrive(b); }   // its copies follow before anybody else runs
TF_PTX void copy_bulk(unsigned to, const void* from, int bytes, unsigned) { copy_bytes(to, from, true, bytes); }
struct alignas(64) TensorMap { HostBoxes boxes; };
TF_PTX void copy_box(unsigned to, const TensorMap* map, int c0, int c1, int c2, int c3, int c4, unsigned) { copy_host_box(to, map->boxes, {c0, c1, c2, c3, c4}); }
TF_PTX void fence_proxy() {}
#endif

// Weights are fetched by one load thread.
constexpr int FETCHERS = 1;

TF_PTX void copy_weights(unsigned to, const unsigned char* from, int bytes, unsigned barrier, int) {
    barrier_expect(barrier, bytes);
    if (bytes) copy_bulk(to, from, bytes, barrier);
}

#ifdef __CUDACC__
// True in every thread of a warpgroup where it is in all of them.
TF_PTX bool group_agrees(int barrier, bool mine) {
    unsigned all;
    asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 q, %1, 0;\nbar.red.and.pred p, %2, 128, q;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(all) : "r"((unsigned)mine), "r"(barrier) : "memory");
    return __shfl_sync(~0u, all, 0);
}
TF_PTX void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TF_PTX void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> TF_PTX void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }
TF_PTX void landed(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }   // nothing that reads it moves before the wait
TF_PTX void add_landed(float& total, float sum) { asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(total) : "f"(sum) : "memory"); }   // nor after the next product
template <int COUNT> TF_PTX void registers_give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> TF_PTX void registers_take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
#else
TF_PTX bool group_agrees(int barrier, bool mine) { return agree(barrier, 128, mine); }
TF_PTX void products_begin() {}
TF_PTX void products_commit() {}
template <int PENDING> TF_PTX void products_wait() {}
TF_PTX void landed(float&) {}
TF_PTX void add_landed(float& total, float sum) { total += sum; }
template <int COUNT> TF_PTX void registers_give() {}
template <int COUNT> TF_PTX void registers_take() {}
#endif
struct Sizes { int in[4], out[4], tiles[4], total; };        // axes n, d, h, w; total = tiles of all parts
struct Strides { long long n, c, d, h, w; };                  // elements
constexpr int BUFFERS_0 = JOINT ? BUFFERS : (BUFFERS + 1) / 2;     // of the first warpgroup

// Where a tile lies: output o = PERIOD·u + residue with u from `u` on; `fixed` = which group and block of output channels,
// `variant` = which phases.
struct Place { int fixed, variant, u[4]; };

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

static __device__ __forceinline__ OFFSET pixel_offset(const Pixel& p, const Strides& s) {
    return (OFFSET)p.at[0] * (OFFSET)s.n + (OFFSET)p.at[1] * (OFFSET)s.d + (OFFSET)p.at[2] * (OFFSET)s.h + (OFFSET)p.at[3] * (OFFSET)s.w;
}
constexpr bool SETTLED = LOAD == LOAD_ROWS && PIECES == 1;    // a thread's place in the patch is the same at every stage
constexpr bool TABLED = LOAD == LOAD_ROWS && PIECES > 1;      // its places, one for each piece, are kept in shared memory
constexpr bool PROLOGUE = false;
constexpr bool FRAGMENTS = false;   // the store role runs the tile program
constexpr int VECTOR = 4, VECTOR_PIXELS = 4, LANES_W = 16, TURNS = 1, ITEMS = 8, BATCH = 8, BATCHES = 1, ROW_STEP = 8, WRITERS = 2;
constexpr int CHUNK_OUTER = 1, PHASES_W = 1;
__constant__ int phase_codes[2] = {0, 0};   // residue along d * 256 + along h

// The first row of a phase in the chunk, −1 where it has no taps.
static __device__ __forceinline__ constexpr int row_of(int outer, int w) {
    return outer < 1 ? outer * 0 + w * 0 : -1;
}
__constant__ short block_of[] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
struct WeightStrides { long long g, i, o, d, h, w; };

namespace forward_pack_ {
"""

CONSTANTS = r"""
// Packs canonical weights [G, Cin, Cout, K...] as operand tiles: [part][K step][tile][K half][8 rows of 8][4 channels].
__constant__ short tap_of[] = {14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0};
"""

FORWARD_PACK = r"""
__global__ void __launch_bounds__(256) forward_pack(const float* __restrict__ w, unsigned char* __restrict__ packed, WeightStrides ws) {
    const int at = blockIdx.x * 256 + threadIdx.x;          // one 16-byte vector: a row's channels of one K half
    if (at >= 30720) return;
    constexpr int TILES = 30, KSTEPS = 8, LANES = 4, CIN = 64, COUT = 128;
    constexpr int SEGMENT = 64, SEGMENTS = 1, MGROUPS = 1, PAIRS = 0;
    const int row = at % 64, half = at / 64 % 2, tile = at / 128 % TILES, step = at / (128 * TILES) % KSTEPS, part = at / (128 * TILES * KSTEPS);
    const int segment = row / SEGMENT, within = row % SEGMENT;
    const int tap = tap_of[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * 2 + block_of[tile]) * 64 + within;
    const int first = PAIRS ? 0 : step * 2 * LANES + half * LANES;
    const float* from = w + part / MGROUPS * ws.g + co * ws.o + tap / 15 * ws.d + tap / 5 % 3 * ws.h + tap % 5 * ws.w;
    float v[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) v[j] = tap >= 0 && co < COUT && first + j < CIN ? tf_load<float>(from + (first + j) * ws.i) : 0;
    const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));
    *(uint4*)(packed + (long long)(at / 128) * 2048 + (half * 64 + row) * 16) = high;
}
"""

CONSTANTS_2 = r"""
}
using forward_pack_::forward_pack;

namespace forward_dense_ {
"""

CONSTANTS_3 = r"""
// Dense tiles: run 1x1x2x88 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 3x3 slabs 3x15 chunks 2x64 stores 1 registers 64/96/176
//   axis d: period 1 advance 1 taps 1
//   axis h: period 1 advance 1 taps 3
//   axis w: period 1 advance 1 taps 5
constexpr int STORE_GROUPS = 1;
constexpr int TILE_W = 88, RUN_W = 88, EXTENT_W = 92, FIRST_W = -4, PIXELS = 368, PLANE = 368, RUN_PIXELS = 184, LANES = 4, TERMS = 1;
constexpr int STAGE_CHANNELS = 8, KSTAGES = 8, KSTEPS = 8, RAW = 3, PIECE = 3, SLABS = 3, SLAB_BYTES = 32768, TILE_BYTES = 2048, CHUNKS = 3;
constexpr int ROW_LENGTH = 184, ACCUMULATORS = 92, STAGE_BYTES = 11776, RAW_BYTES = 12288, STAGES_AT = 98304, RAW_AT = 121856;
constexpr int CHUNKS_AT = 158720, TABLES_AT = 195584, PLACES_AT = 200192, HELD_VALUES = 32;
"""

CONSTANTS_4 = r"""
typedef float ELEMENT;
"""

CONSTANTS_5 = r"""
typedef float REAL;
"""

PRODUCT = r"""
static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * 16, 30); }
static __device__ __forceinline__ int slab_count(int) { return 2; }

static __device__ __forceinline__ void product(float (&d)[92], unsigned long long a, unsigned long long b, int accumulate) {
#ifdef __CUDACC__
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %94, 0;\nwgmma.mma_async.sync.aligned.m64n184k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91}, %92, %93, p, 1, 1;\n}"
        : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]),"+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67]),"+f"(d[68]),"+f"(d[69]),"+f"(d[70]),"+f"(d[71]),"+f"(d[72]),"+f"(d[73]),"+f"(d[74]),"+f"(d[75]),"+f"(d[76]),"+f"(d[77]),"+f"(d[78]),"+f"(d[79]),"+f"(d[80]),"+f"(d[81]),"+f"(d[82]),"+f"(d[83]),"+f"(d[84]),"+f"(d[85]),"+f"(d[86]),"+f"(d[87]),"+f"(d[88]),"+f"(d[89]),"+f"(d[90]),"+f"(d[91]) : "l"(a), "l"(b), "r"(accumulate));
#else
    multiply_group<ELEMENT>(d, a, b, accumulate, [](ELEMENT e) { return tf_to<float>(e); });
#endif
}
"""

CONSTANTS_6 = r"""
struct Barriers {
    unsigned long long full[STAGES], empty[STAGES];           // patches: load -> product
    unsigned long long raw_full[RAW], raw_empty[RAW];         // boxes of the raw patch: memory -> load
    unsigned long long weights_full[SLABS], weights_empty[SLABS];
    unsigned long long chunk_full[BUFFERS], chunk_empty[BUFFERS];  // accumulators: product -> store
};
"""

CONSTANTS_7 = r"""
struct Operands {
    float* y0; Strides ys0;
};
"""

PUT_BLOCK = r"""
static __device__ __forceinline__ Place place_of(int tile, const Sizes& s) {
    Place at;
    int part = tile % PARTS, rest = tile / PARTS;
    at.fixed = part % FIXED;
    at.variant = 0;
    if (VARIANTS > 1) {                                       // a CTA meets every variant in turn: they differ in work
        int turn = gridDim.x % PARTS == 0 ? tile / (int)gridDim.x : 0;
        at.variant = (part / FIXED + turn) % VARIANTS;
    }
    at.u[3] = rest % s.tiles[3] * TILE_W; rest /= s.tiles[3];
    at.u[2] = rest % s.tiles[2] * TILE_H; rest /= s.tiles[2];
    at.u[1] = rest % s.tiles[1] * TILE_D; rest /= s.tiles[1];
    at.u[0] = rest * TILE_N;
    return at;
}

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

// How the load threads copy rows: WIDE pixels a copy, COPIES of them a channel and piece, TOGETHER channels side by side.
constexpr int WIDE = 16 / (int)sizeof(ELEMENT), COPIES = PIECE * LOADERS * (sizeof(ELEMENT) == 2 ? 2 : 1) / WIDE;
constexpr int TOGETHER = COPIES < LOADERS ? LOADERS / COPIES : 1, COPY_TURNS = (COPIES + LOADERS - 1) / LOADERS;

static __device__ __forceinline__ REAL prologue(REAL x, int channel, const Pixel& at, const Operands& operands) {
    return x;
}

// A position in the sequence tile -> stage of channels -> piece of the patch.
struct Cursor {
    int tile, stage, piece, slot;
    Place at;
    OFFSET offset[COPY_TURNS];
    bool inside[COPY_TURNS];
    OFFSET* places;                                           // of the thread: [piece][turn], LOADERS apart; −1 outside; null: not needed
    __device__ __forceinline__ void settle(const Sizes& s, const Strides& xs, int t) {
        if (tile >= s.total) return;
        at = place_of(tile, s);
        if (TABLED && places)
            for (int i = 0; i < PIECES * COPY_TURNS; i++) {
                const int copy = i % COPY_TURNS * LOADERS + (COPIES < LOADERS ? t % COPIES : t);
                const Pixel p = pixel((i / COPY_TURNS * COPIES + copy) * WIDE, at, s);
                places[i * LOADERS] = p.inside ? pixel_offset(p, xs) : (OFFSET)-1;
            }
        if (SETTLED)
#pragma unroll
            for (int i = 0; i < COPY_TURNS; i++) {
                const Pixel p = pixel((i * LOADERS + (COPIES < LOADERS ? t % COPIES : t)) * WIDE, at, s);
                inside[i] = p.inside;
                offset[i] = p.inside ? pixel_offset(p, xs) : 0;
            }
    }
    __device__ __forceinline__ Cursor(const Sizes& s, const Strides& xs, int t, OFFSET* table) : tile(blockIdx.x), stage(0), piece(0), slot(0), places(table) { settle(s, xs, t); }
    __device__ __forceinline__ void next(const Sizes& s, const Strides& xs, int t) {
        if (++slot == RAW) slot = 0;
        if (PIECES > 1 && ++piece < PIECES) return;
        piece = 0;
        if (++stage < KSTAGES) return;
        stage = 0;
        tile += gridDim.x;
        settle(s, xs, t);
    }
    __device__ __forceinline__ int channel() const { return at.fixed / MGROUPS * CIN + stage * STAGE_CHANNELS; }
};
static __device__ __forceinline__ bool channel_inside(const Cursor& c, int j) { return CIN % STAGE_CHANNELS == 0 || c.stage * STAGE_CHANNELS + j < CIN; }

static __device__ __forceinline__ void copy_element(unsigned to, const ELEMENT* from, bool inside) {
    if (sizeof(ELEMENT) == 8) copy_8(to, from, inside);
    else copy_4(to, from, inside);
}

// Brings one piece of the raw patch, [channel][pixel], into shared memory: 4 bytes a copy into the thread's own slots for
// any alignment, or 16 bytes of a row at once (LOAD_ROWS: rows, first column and row length are multiples of 16 bytes, so
// that a copy lies inside the image or outside), which other threads will read.
static __device__ __forceinline__ void fetch(Cursor& c, unsigned raw, const ELEMENT* __restrict__ x, const Sizes& s, const Strides& xs, int t) {
    if (c.tile < s.total) {
        const ELEMENT* from = x + (long long)c.channel() * xs.c;
        const unsigned to = raw + c.slot * RAW_BYTES;
        if (LOAD == LOAD_ROWS) {
            const int first = COPIES < LOADERS ? t / COPIES : 0;
#pragma unroll
            for (int i = 0; i < COPY_TURNS; i++) {
                const int copy = i * LOADERS + (COPIES < LOADERS ? t % COPIES : t);
                if ((COPIES % LOADERS != 0 && LOADERS % COPIES != 0) && (copy >= COPIES || first >= TOGETHER)) continue;
                bool inside;
                OFFSET offset;
                if (SETTLED) {
                    inside = c.inside[i];
                    offset = c.offset[i];
                } else {
                    offset = c.places[(c.piece * COPY_TURNS + i) * LOADERS];
                    inside = offset >= 0;
                    if (!inside) offset = 0;
                }
                const ELEMENT* q = from + offset + first * xs.c;
                const unsigned d = to + (first * COPIES + copy) * 16;
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j += TOGETHER, q += TOGETHER * xs.c)
                    if (STAGE_CHANNELS % TOGETHER == 0 || j + first < STAGE_CHANNELS)
                        copy_16(d + j * COPIES * 16, channel_inside(c, j + first) ? q : x, inside && channel_inside(c, j + first));
            }
        } else
#pragma unroll (LOAD == LOAD_SINGLES ? 4 : PIECE)   // singles pass through registers: more of them would spill
        for (int i = 0; i < PIECE; i++) {
            const int p = (c.piece * PIECE + i) * LOADERS + t;
            if (LOAD == LOAD_PLANAR) {
                Pixel at = pixel(p, c.at, s);
                const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j++, q += xs.c)
                    copy_element(to + ((j * PIECE + i) * LOADERS + t) * (int)sizeof(ELEMENT), channel_inside(c, j) ? q : x, at.inside && channel_inside(c, j));
            } else if (LOAD == LOAD_VECTORS) {
                Pixel at = pixel(p, c.at, s);
                const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
#pragma unroll
                for (int v = 0; v < VECTORS; v++)
                    copy_16(to + ((i * VECTORS + v) * LOADERS + t) * 16, channel_inside(c, v * LANES) ? q + v * LANES : x, at.inside && channel_inside(c, v * LANES));
            } else {                                          // 16 bits: two pixels a word
                Pixel at = pixel(2 * p, c.at, s);
                if (LOAD == LOAD_PAIRS) {                     // rows are even and so is the first column: both inside or both outside
                    const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++, q += xs.c)
                        copy_4(to + ((j * PIECE + i) * LOADERS + t) * 4, channel_inside(c, j) ? q : x, at.inside && channel_inside(c, j));
                } else {
                    Pixel right = pixel(2 * p + 1, c.at, s);
                    const ELEMENT* q0 = from + (at.inside ? pixel_offset(at, xs) : 0);
                    const ELEMENT* q1 = from + (right.inside ? pixel_offset(right, xs) : 0);
                    unsigned word[STAGE_CHANNELS];
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++, q0 += xs.c, q1 += xs.c) {
                        word[j] = at.inside && channel_inside(c, j) ? (unsigned)*(const unsigned short*)q0 : 0u;
                        word[j] |= right.inside && channel_inside(c, j) ? (unsigned)*(const unsigned short*)q1 << 16 : 0u;
                    }
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++)
                        shared_put(to + ((j * PIECE + i) * LOADERS + t) * 4, word[j]);
                }
            }
        }
        c.next(s, xs, t);
    }
    copy_commit();
}

// Rounds a pixel's channels and writes them as the operand's vectors: [vector][pixel][16 bytes].
template <int CHANNELS> static __device__ __forceinline__ void put(unsigned char* stage, int p, const REAL (&v)[CHANNELS]) {
#pragma unroll
    for (int k = 0; k < CHANNELS / LANES; k++) {
        if (sizeof(REAL) == 8) {
            *(double2*)(stage + (k * PLANE + p) * 16) = make_double2(v[k * 2], v[k * 2 + 1]);
            continue;
        }
        uint4 high = make_uint4(round_tf32(v[k * 4]), round_tf32(v[k * 4 + 1]), round_tf32(v[k * 4 + 2]), round_tf32(v[k * 4 + 3]));
        *(uint4*)(stage + (k * PLANE + p) * 16) = high;
        if (TERMS > 1) {                                      // what rounding left: v = high + low to 21 bits and more
            uint4 low = make_uint4(round_tf32(v[k * 4] - __uint_as_float(high.x)), round_tf32(v[k * 4 + 1] - __uint_as_float(high.y)),
                                   round_tf32(v[k * 4 + 2] - __uint_as_float(high.z)), round_tf32(v[k * 4 + 3] - __uint_as_float(high.w)));
            *(uint4*)(stage + ((VECTORS + k) * PLANE + p) * 16) = low;
        }
    }
}

// The same for words of two 16-bit pixels.
template <int CHANNELS> static __device__ __forceinline__ void put_pairs(unsigned char* stage, int pair, const unsigned (&word)[CHANNELS]) {
#pragma unroll
    for (int k = 0; k < CHANNELS / 8; k++) {
        const unsigned* w = word + k * 8;
        const uint4 left = make_uint4(__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410), __byte_perm(w[4], w[5], 0x5410), __byte_perm(w[6], w[7], 0x5410));
        const uint4 right = make_uint4(__byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632), __byte_perm(w[4], w[5], 0x7632), __byte_perm(w[6], w[7], 0x7632));
        *(uint4*)(stage + (k * PLANE + 2 * pair) * 16) = left;
        *(uint4*)(stage + (k * PLANE + 2 * pair + 1) * 16) = right;
    }
}

static __device__ __forceinline__ unsigned prologue_pair(unsigned word, int channel, const Pixel& left, const Pixel& right, bool inside, const Operands& operands) {
    unsigned a = word & 0xffff, b = word >> 16;
    const float fa = left.inside && inside ? prologue(tf_load<float>((const ELEMENT*)&a), channel, left, operands) : 0.f;
    const float fb = right.inside && inside ? prologue(tf_load<float>((const ELEMENT*)&b), channel, right, operands) : 0.f;
    tf_store((ELEMENT*)&a, fa);
    tf_store((ELEMENT*)&b, fb);
    return (a & 0xffff) | b << 16;
}

// Turns the thread's raw piece into operand vectors.
static __device__ __forceinline__ void transform(const Cursor& c, const unsigned char* raw, unsigned char* stage, const Sizes& s, const Operands& operands, int t) {
    const unsigned char* in = raw + c.slot * RAW_BYTES;
    // All reads of a batch before its writes: one latency, not one a pixel.
    constexpr int HELD = STAGE_CHANNELS >= HELD_VALUES ? 1 : HELD_VALUES / STAGE_CHANNELS < PIECE ? HELD_VALUES / STAGE_CHANNELS : PIECE;
    REAL held[HELD][STAGE_CHANNELS];
#pragma unroll
    for (int i = 0; i < PIECE; i++) {
        const int p = (c.piece * PIECE + i) * LOADERS + t;
        if (sizeof(ELEMENT) >= 4) {
            if (i % HELD == 0) {
#pragma unroll
                for (int f = 0; f < HELD && i + f < PIECE; f++) {
                    if (LOAD != LOAD_VECTORS) {
#pragma unroll
                        for (int j = 0; j < STAGE_CHANNELS; j++) held[f][j] = ((const REAL*)in)[(j * PIECE + i + f) * LOADERS + t];
                    } else {
#pragma unroll
                        for (int k = 0; k < VECTORS; k++) {
                            const tf_vector<ELEMENT, LANES> vector = ((const tf_vector<ELEMENT, LANES>*)in)[((i + f) * VECTORS + k) * LOADERS + t];
#pragma unroll
                            for (int l = 0; l < LANES; l++) held[f][LANES * k + l] = tf_load<REAL>(vector.lane + l);
                        }
                    }
                }
            }
            REAL (&v)[STAGE_CHANNELS] = held[i % HELD];
            if (PROLOGUE) {
                Pixel at = pixel(p, c.at, s);
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j++) v[j] = at.inside && channel_inside(c, j) ? prologue(v[j], c.channel() + j, at, operands) : 0.f;
            }
            if (p < PIXELS) put(stage, p, v);
        } else {
            if (i % HELD == 0) {
#pragma unroll
                for (int f = 0; f < HELD && i + f < PIECE; f++)
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++) held[f][j] = ((const float*)in)[(j * PIECE + i + f) * LOADERS + t];
            }
            unsigned word[STAGE_CHANNELS];
#pragma unroll
            for (int j = 0; j < STAGE_CHANNELS; j++) word[j] = __float_as_uint(held[i % HELD][j]);
            if (PROLOGUE) {
                Pixel left = pixel(2 * p, c.at, s), right = pixel(2 * p + 1, c.at, s);
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j++) word[j] = prologue_pair(word[j], c.channel() + j, left, right, channel_inside(c, j), operands);
            }
            if (2 * p < PIXELS) put_pairs(stage, p, word);
        }
    }
}

// Streamed weights: slab after slab of packed operand tiles, as far ahead as the ring has room. The FETCHERS among the load
// threads call this whenever they would wait. (Asked for by a product warp, each slab cost 700 cycles of its warpgroup; a warp of its own would
// cost every other warp of its quarter of the multiprocessor registers.)
struct Pump {
    const unsigned char* from;
    int tile, step, slab, slot, turn;
    Place at;
    int t;                                                    // which of the FETCHERS
    __device__ __forceinline__ void seek(const unsigned char* packed, const Sizes& s) {
        at = place_of(tile, s);
        from = packed + (long long)at.fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES);
        step = slab = 0;
    }
    __device__ __forceinline__ Pump(const unsigned char* packed, const Sizes& s, int thread) : tile(blockIdx.x), slot(0), turn(0), t(thread) { seek(packed, s); }
    __device__ __forceinline__ void ahead(Barriers& b, unsigned char* shared, const unsigned char* packed, const Sizes& s) {
        while (tile < s.total) {
            if (slab_meets(slab, at, s)) {
                if (turn > 0 && !barrier_done(shared_address(&b.weights_empty[slot]), (turn - 1) & 1)) return;
                const int first = slab_first(at.variant, slab), bytes = (slab_first(at.variant, slab + 1) - first) * TILE_BYTES;
                copy_weights(shared_address(shared + WEIGHTS_AT + slot * SLAB_BYTES), from + first * TILE_BYTES, bytes, shared_address(&b.weights_full[slot]), t);
                if (++slot == SLABS) { slot = 0; turn++; }
            }
            if (++slab == slab_count(at.variant)) {
                slab = 0;
                from += OPERAND_TILES * TILE_BYTES;
                if (++step == KSTEPS) { tile += gridDim.x; seek(packed, s); }
            }
        }
    }
};

static __device__ void load_role(unsigned char* shared, Barriers& b, const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed, const Sizes& s, const Strides& xs, const Operands& operands, int t) {
    Pump pump(packed, s, t);
    const bool fetches = t < FETCHERS;
    auto refill = [&] { if (!RESIDENT && fetches) pump.ahead(b, shared, packed, s); };
    auto wait_empty = [&](unsigned bar, int parity) {
        if (!RESIDENT && fetches) while (!barrier_done(bar, parity)) refill(), rest();
        barrier_wait(bar, parity);
    };
    refill();
    if (RESIDENT && fetches && (int)blockIdx.x < s.total)     // all weights of this CTA's channels, once
        copy_weights(shared_address(shared + WEIGHTS_AT), packed + (long long)place_of(blockIdx.x, s).fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES), KSTEPS * OPERAND_TILES * TILE_BYTES, shared_address(&b.weights_full[0]), t);
    int stage = 0, turn = 0;
    if (LOAD == LOAD_DIRECT) {                                // 16-bit channel vectors need no change: straight into the operand
        Cursor ahead(s, xs, t, nullptr), done(s, xs, t, nullptr);
        int late_stage = 0;
        for (int k = 0; ahead.tile < s.total || done.tile < s.total; k++) {
            refill();
            if (ahead.tile < s.total) {
                const unsigned bar = shared_address(&b.empty[stage]);
                if (turn > 0) wait_empty(bar, (turn - 1) & 1);
                const unsigned to = shared_address(shared + STAGES_AT + stage * STAGE_BYTES);
                const ELEMENT* from = x + (long long)ahead.channel() * xs.c;
                for (int i = 0; i < PIECE * PIECES; i++) {
                    const int p = i * LOADERS + t;
                    Pixel at = pixel(p, ahead.at, s);
                    const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
                    if (p < PIXELS) {
#pragma unroll
                        for (int v = 0; v < VECTORS; v++)
                            copy_16(to + (v * PLANE + p) * 16, channel_inside(ahead, v * LANES) ? q + v * LANES : x, at.inside && channel_inside(ahead, v * LANES));
                    }
                }
                ahead.piece = PIECES - 1;
                ahead.next(s, xs, t);
                if (++stage == STAGES) { stage = 0; turn++; }
            }
            copy_commit();
            if (k >= STAGES - 2 && done.tile < s.total) {
                copy_wait<STAGES - 2>();
                fence_proxy();
                barrier_arrive(shared_address(&b.full[late_stage]));
                if (++late_stage == STAGES) late_stage = 0;
                done.piece = PIECES - 1;
                done.next(s, xs, t);
            }
        }
    } else {
        Cursor ahead(s, xs, t, (OFFSET*)(shared + PLACES_AT) + t), now(s, xs, t, nullptr);
        const unsigned raw = shared_address(shared + RAW_AT);
        for (int i = 0; i < RAW - 1; i++) fetch(ahead, raw, x, s, xs, t);
        while (now.tile < s.total) {
            refill();
            if (LOAD == LOAD_ROWS) {                          // what others copied is there, and all are done with the slot to refill
                copy_wait<RAW - 2>();
                barrier_named(1, LOADERS);
                fetch(ahead, raw, x, s, xs, t);
            } else {
                fetch(ahead, raw, x, s, xs, t);
                copy_wait<RAW - 1>();
            }
            if (now.piece == 0) {
                const unsigned bar = shared_address(&b.empty[stage]);
                if (turn > 0) wait_empty(bar, (turn - 1) & 1);
            }
            transform(now, shared + RAW_AT, shared + STAGES_AT + stage * STAGE_BYTES, s, operands, t);
            if (now.piece == PIECES - 1) {
                fence_proxy();
                barrier_arrive(shared_address(&b.full[stage]));
                if (++stage == STAGES) { stage = 0; turn++; }
            }
            now.next(s, xs, t);
        }
    }
    copy_wait<0>();
    if (!RESIDENT && fetches)
        while (pump.tile < s.total) refill();
}

// What the products now under way still read: released one group of products later, so that the tensor cores never drain.
struct Held {
    int slab = -1, stage = -1, group = 0;
    __device__ __forceinline__ void release(Barriers& b) {
        if (slab >= 0) barrier_arrive(shared_address(&b.weights_empty[slab]));
        if (stage >= 0) barrier_arrive(shared_address(&b.empty[stage]));
        slab = stage = -1;
    }
    // Waits for what the next products read, without keeping anybody else waiting. Products are instructions of a whole
    // warpgroup: its warps must take the same way, though one may see a barrier done before another does.
    __device__ __forceinline__ void wait(unsigned barrier, int parity, Barriers& b) {
        if (slab >= 0 || stage >= 0) {
            if (group_agrees(4 + group, barrier_done(barrier, parity))) return;
            products_wait<0>();
            release(b);
        }
        barrier_wait(barrier, parity);
    }
};

// Nothing that reads the accumulators may be moved before the wait for the products.
static __device__ __forceinline__ void settled(REAL (&acc)[BLOCKS][ACCUMULATORS]) {
#pragma unroll
    for (int i = 0; i < BLOCKS * ACCUMULATORS; i++) landed(acc[i / ACCUMULATORS][i % ACCUMULATORS]);
}
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&acc)[BLOCKS][ACCUMULATORS], REAL (&)[1][1]))[BLOCKS][ACCUMULATORS] { return acc; }
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&)[BLOCKS][ACCUMULATORS], REAL (&total)[BLOCKS][ACCUMULATORS]))[BLOCKS][ACCUMULATORS] { return total; }

// A fragment: rows `row` and row + 8, pixels `px` and px + 1.
static __device__ __forceinline__ void put_block(REAL* chunk, int row, int px, const REAL* v) {
    if (PIXEL_MAJOR) {
        chunk[px * PITCH + row] = v[0]; chunk[(px + 1) * PITCH + row] = v[1];
        chunk[px * PITCH + row + 8] = v[2]; chunk[(px + 1) * PITCH + row + 8] = v[3];
    } else {
        *(tf_vector<REAL, 2>*)(chunk + row * PITCH + px) = {{v[0], v[1]}};
        *(tf_vector<REAL, 2>*)(chunk + (row + 8) * PITCH + px) = {{v[2], v[3]}};
    }
}

// Strict: the sums of a tile beside the accumulators, and what adds a finished chain of products to them.
typedef REAL Totals[TERMS > 1 ? BLOCKS : 1][TERMS > 1 ? ACCUMULATORS : 1];
"""

MULTIPLY = r"""
template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, const Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {
    unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;
    (void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 0ll, pixels + 0ll, stage > 0);
    product(acc[0], tiles + 256ll, pixels + 1ll, 1);
    product(acc[0], tiles + 512ll, pixels + 2ll, 1);
    product(acc[0], tiles + 768ll, pixels + 3ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 4ll, 1);
    product(acc[0], tiles + 1280ll, pixels + 92ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 93ll, 1);
    product(acc[0], tiles + 1792ll, pixels + 94ll, 1);
    products_commit();
    products_wait<1>();
    held.release(b);
    held.slab = slab;
    if (++slab == SLABS) { slab = 0; slab_turn++; }
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 0ll, pixels + 95ll, 1);
    product(acc[0], tiles + 256ll, pixels + 96ll, 1);
    product(acc[0], tiles + 512ll, pixels + 184ll, 1);
    product(acc[0], tiles + 768ll, pixels + 185ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 186ll, 1);
    product(acc[0], tiles + 1280ll, pixels + 187ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 188ll, 1);
    products_commit();
    products_wait<1>();
    held.release(b);
    held.stage = slot;
    held.slab = slab;
    if (++slab == SLABS) { slab = 0; slab_turn++; }
}
"""

STORE_VECTOR = r"""
template <int WG> struct Fragments {
    __device__ __forceinline__ Fragments(const unsigned char*, const Sizes&, const Operands&, int) {}
    __device__ __forceinline__ void tile(REAL (&)[BLOCKS][ACCUMULATORS], const Place&, int) {}
    __device__ __forceinline__ void finish() {}
};

// Product role: the taps of a tile, K step by K step, then the accumulators to shared memory in chunks of pixels.
template <int WG> static __device__ void product_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int t) {
    int stage = 0, turn = 0, slab = 0, slab_turn = 0;
    Held held;
    held.group = WG;
    Fragments<WG> fragments(shared, s, operands, t);
    // The store role takes all chunks of the first warpgroup, then all of the second, which still multiplies while the first hands
    // over and is behind from then on: so the tensor cores never stand still. Each warpgroup has buffers of its own.
    constexpr int FIRST_SLOT = JOINT ? 0 : WG * BUFFERS_0, SLOTS = JOINT ? BUFFERS : WG == 0 ? BUFFERS_0 : BUFFERS - BUFFERS_0;
    int slot = FIRST_SLOT, chunk_turn = 0;
    const int warp_n = (t >> 5) % WARPS_N, row = (t >> 5 & 3) / WARPS_N * (16 * WARPS_N) + (t & 31) / 4, column = (t & 3) * 2;
    if (RESIDENT && (int)blockIdx.x < s.total) barrier_wait(shared_address(&b.weights_full[0]), 0);
    for (int tile = blockIdx.x; tile < s.total; tile += gridDim.x) {
        const Place at = place_of(tile, s);
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
            multiply<WG>(acc, total, shared_address(shared + STAGES_AT + stage * STAGE_BYTES), shared_address(shared + WEIGHTS_AT), b, k, stage, at, s, slab, slab_turn, held);
            if (++stage == STAGES) { stage = 0; turn++; }
        }
        products_wait<0>();
        settled(acc);
        held.release(b);
        if (FRAGMENTS) fragments.tile(results<TERMS>(acc, total), at, tile);
        else
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
#pragma unroll
            for (int set = 0; set < SETS; set++) {
                if (chunk_turn > 0) barrier_wait(shared_address(&b.chunk_empty[slot]), (chunk_turn - 1) & 1);
                REAL* chunk = (REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
#pragma unroll
                for (int p = 0; p < PLANES; p++) {
                    REAL (&a)[ACCUMULATORS] = results<TERMS>(acc, total)[set * PLANES + p];
                    const int to = row + (p * ROWS_PER_PLANE + (JOINT ? WG * ROWS_PER_GROUP : 0)) * 64;
#pragma unroll
                    for (int r = 0; r < CHUNK_ROWS; r++)
#pragma unroll
                        for (int i = 0; i < CHUNK_WIDTH / 8; i++) {
                            const int j = chunk_row_start(r) / 8 + c * (CHUNK_WIDTH / 8) + i;
                            if (j < RUN_PIXELS / 8 && c * CHUNK_WIDTH + i * 8 < ROW_LENGTH && (WARPS_N == 1 || j % WARPS_N == warp_n)) {
                                const int px = r * CHUNK_WIDTH + i * 8 + column;
#pragma unroll
                                for (int m = 0; m < WARPS_N; m++)
                                    put_block(chunk, to + m * 16, px, a + (m * (ACCUMULATORS / (4 * WARPS_N)) + j / WARPS_N) * 4);
                            }
                        }
                }
                barrier_arrive(shared_address(&b.chunk_full[slot]));
                if (++slot == FIRST_SLOT + SLOTS) { slot = FIRST_SLOT; chunk_turn++; }
            }
    }
    fragments.finish();
}

template <int N, class S> static __device__ __forceinline__ void store_vector(S* to, const REAL (&v)[N]) {
    tf_vector<S, N> whole;
#pragma unroll
    for (int e = 0; e < N; e++) tf_from(whole.lane[e], v[e]);
    if constexpr (sizeof(whole) == 16) __stcs((float4*)to, *(float4*)&whole);
    else if constexpr (sizeof(whole) == 8) __stcs((float2*)to, *(float2*)&whole);
    else *(tf_vector<S, N>*)to = whole;
}
"""

FORWARD_DENSE = r"""
// Store role: takes chunks of accumulators, runs the tile program, writes, while the next tile's products run.
static __device__ void store_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int store_group, int t) {
    const REAL* table = (const REAL*)(shared + TABLES_AT);
    REAL* slots = (REAL*)(shared + TABLES_AT + 0 + store_group * 4096);
    REAL* image_table = slots + 0;
    REAL* exchange = slots + 0;
    int exchange_turn = 0;
    const int lane_column = t % LANES_W, lane_row = t / LANES_W;
    constexpr int COLUMNS_AT_ONCE = LANES_W;
    const unsigned ROW_LANES = LANES_W >= 32 ? ~0u : ((1u << (LANES_W & 31)) - 1) << ((t & 31) / LANES_W * LANES_W);
    (void)table, (void)slots, (void)image_table, (void)exchange, (void)exchange_turn, (void)ROW_LANES;
    const bool wide0 = VECTOR > 1 && operands.ys0.w == 1 && (((unsigned long long)operands.y0 | 4ull * (operands.ys0.n | operands.ys0.c | operands.ys0.d | operands.ys0.h)) % 16) == 0 && 16 <= 16;
    int next[2] = {0, BUFFERS_0}, turns[2] = {0, 0}, taken = 0;   // each warpgroup's buffers
    for (int tile = blockIdx.x; tile < s.total; tile += gridDim.x) {
        const Place at = place_of(tile, s);
        const int group = at.fixed / MGROUPS, block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);
        for (int wg = 0; wg < WRITERS; wg++)
        for (int chunk_index = 0; chunk_index < CHUNKS; chunk_index++)
        for (int set = 0; set < SETS; set++) {
            const int slot = wg ? next[1] : next[0], turn = wg ? turns[1] : turns[0];
            if (wg) { if (++next[1] == BUFFERS) { next[1] = BUFFERS_0; turns[1]++; } } else if (++next[0] == BUFFERS_0) { next[0] = 0; turns[0]++; }
            if (STORE_GROUPS > 1 && taken++ % STORE_GROUPS != store_group) continue;
            barrier_wait(shared_address(&b.chunk_full[slot]), turn & 1);
            const REAL* chunk = (const REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
            const int* codes = phase_codes + ((at.variant * 2 + wg) * SETS + set) * CHUNK_OUTER;
            const int first_channel = block + (SPLIT_CHANNELS && !JOINT ? wg * 64 : 0);   // within the group
            const int first_n = at.u[0] + wg * SECOND_N, first_d = at.u[1] + wg * SECOND_D, first_h = at.u[2] + wg * SECOND_H, first_w = at.u[3] + wg * SECOND_W;
#define ROW(i) (lane_row + (hb * BATCH + (i)) * ROW_STEP)
#define CHANNEL(i) (first_channel + ROW(i))
#define CHANNEL_OK(i) (ITEMS % BATCH == 0 || hb * BATCH + (i) < ITEMS)
#define PN(e) ((long long)pn)
#define PD(e) ((long long)pd)
#define PH(e) ((long long)ph)
#define PW(e) ((long long)(pw + (e)))
#define VALID(e) ((e) < count)
            for (int k = 0; k < TURNS; k++) {
                const int column = k * COLUMNS_AT_ONCE + lane_column, px = column * VECTOR_PIXELS, w_phase = 0;
                const int r = chunk_index * CHUNK_WIDTH + px;
                const int w = r % EXTENT_W, h = r / EXTENT_W % EXTENT_H, d = r / (EXTENT_W * EXTENT_H) % EXTENT_D, n = r / (EXTENT_W * EXTENT_H * EXTENT_D);
                const bool in_run = r < RUN_PIXELS && w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N;
#pragma unroll
                for (int q = 0; q < CHUNK_OUTER; q++) {
                    const int code = codes[q];
                    if (code < 0) continue;
                    const int pn = first_n + n, pd = PERIOD_D * (first_d + d) + (code >> 8), ph = PERIOD_H * (first_h + h) + (code & 255), pw = PERIOD_W * (first_w + w) + w_phase;
                    const int count = in_run && pn < s.out[0] && pd < s.out[1] && ph < s.out[2] ? min(VECTOR, s.out[3] - pw) : 0;
                    if (count <= 0) continue;
                    for (int hb = 0; hb < BATCHES; hb++) {
                        REAL v3[BATCH][VECTOR];
#pragma unroll
                        for (int i = 0; i < BATCH; i++)
#pragma unroll
                        for (int f = 0; f < PHASES_W; f++) {
                            if (row_of(q, f) < 0) {
#pragma unroll
                                for (int p = 0; p < VECTOR_PIXELS; p++) v3[i][p * PHASES_W + f] = 0.f;
                            } else {
                                const tf_vector<REAL, VECTOR_PIXELS> in = *(const tf_vector<REAL, VECTOR_PIXELS>*)(chunk + (row_of(q, f) + ROW(i)) * PITCH + px);
#pragma unroll
                                for (int p = 0; p < VECTOR_PIXELS; p++) v3[i][p * PHASES_W + f] = in.lane[p];
                            }
                        }
                        if (count > 0) {
                            const long long step = ROW_STEP * operands.ys0.c;
                            float* to = operands.y0 + (PN(0) * operands.ys0.n + PD(0) * operands.ys0.d + PH(0) * operands.ys0.h + PW(0) * operands.ys0.w + (long long)(group * COUT + CHANNEL(0)) * operands.ys0.c);
                            if (wide0 && count == VECTOR) {
#pragma unroll
                                for (int i = 0; i < BATCH; i++, to += step) {
                                    if (!CHANNEL_OK(i)) continue;
                                    REAL whole[VECTOR];
#pragma unroll
                                    for (int e = 0; e < VECTOR; e++) whole[e] = v3[i][e];
                                    store_vector<VECTOR>(to, whole);
                                }
                            } else {
#pragma unroll
                                for (int i = 0; i < BATCH; i++, to += step) {
                                    if (!CHANNEL_OK(i)) continue;
#pragma unroll
                                    for (int e = 0; e < VECTOR; e++) if (e == 0 || VALID(e)) tf_store(to + e * operands.ys0.w, v3[i][e]);
                                }
                            }
                        }
                    }
                }
            }
#undef ROW
#undef CHANNEL
#undef CHANNEL_OK
#undef PN
#undef PD
#undef PH
#undef PW
#undef VALID
            barrier_arrive(shared_address(&b.chunk_empty[slot]));
        }
    }
}

__global__ void __launch_bounds__(THREADS, 1) forward_dense(const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed, Sizes s, Strides xs, float* y0, Strides ys0) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ Barriers b;
    const int t = threadIdx.x;
    const Operands operands{y0, ys0};
    if (t == 0) {
        for (int i = 0; i < STAGES; i++) { barrier_init(shared_address(&b.full[i]), LOADERS); barrier_init(shared_address(&b.empty[i]), 256); }
        for (int i = 0; i < SLABS; i++) { barrier_init(shared_address(&b.weights_full[i]), FETCHERS); barrier_init(shared_address(&b.weights_empty[i]), 256); }
        for (int i = 0; i < BUFFERS; i++) { barrier_init(shared_address(&b.chunk_full[i]), JOINT ? 256 : 128); barrier_init(shared_address(&b.chunk_empty[i]), 128); }
        barrier_fence();
    }
    __syncthreads();
    const int role = __shfl_sync(~0u, t / 128, 0);
    if (role == 0) { registers_give<64>(); load_role(shared, b, x, packed, s, xs, operands, t); } else if (role <= STORE_GROUPS) { registers_give<96>(); store_role(shared, b, s, operands, role - 1, t % 128); } else if (role == STORE_GROUPS + 1) { registers_take<176>(); product_role<0>(shared, b, s, operands, t % 128); } else if (role == STORE_GROUPS + 2) { registers_take<176>(); product_role<1>(shared, b, s, operands, t % 128); }
#endif
}
"""

FORWARD_GENERAL_DENSE = r"""
}
using forward_dense_::forward_dense;

__global__ void __launch_bounds__(256) forward_general_dense(const STORED* __restrict__ p0, const STORED* __restrict__ p1, STORED* p2, int out_width, int out_height, int height, int width, int n4, int height_x_width, int n8, int out_height_x_out_width, int count_1, int count1, tf_divisor per_out_width, tf_divisor per_out_height) {
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count_1; block0 += gridDim.x) {
        {
            const tf_index t1 = (tf_index)block0 * 256 + threadIdx.x;
            if (t1 < count1) {
                const tf_index i2 = tf_quotient_of(t1, per_out_width), i3 = (t1 - (i2 * out_width));
                const tf_index i4 = tf_quotient_of(i2, per_out_height), i5 = (i2 - (i4 * out_height)), i6 = i4 / 128;
                const tf_index i7 = (i4 - (i6 * 128));
                double a8 = 0.0;
                for (tf_index r9 = 0; r9 < 3; ++r9) {
                    for (tf_index r10 = 0; r10 < 5; ++r10) {
                        for (tf_index r11 = 0; r11 < 64; ++r11) {
                            const tf_index i12 = i5 - r9, i13 = i3 - r10;
                            if (i12 >= 0 && i12 < height && i13 >= 0 && i13 < width) {
                                const float v14 = tf_load<float>(p0 + ((((i6 * n4) + (r11 * height_x_width)) + (i12 * width)) + i13));
                                const float v15 = tf_load<float>(p1 + ((((r11 * 1920) + (i7 * 15)) + (r9 * 5)) + r10));
                                a8 += (double)((float)v14 * (float)v15);
                            }
                        }
                    }
                }
                const float v16 = (float)a8;
                tf_store(p2 + ((((i6 * n8) + (i7 * out_height_x_out_width)) + (i5 * out_width)) + i3), v16);
            }
        }
    }
}

static bool aligned(void* const* leaf, int count) {
    return std::all_of(leaf, leaf + count, [](void* p) { return (size_t)p % 16 == 0; });
}
static long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }

// early: the kernel may start while its predecessor ends; it waits for it before it reads.
template <class... P, class... A>
static void launch(void (*kernel)(P...), long long grid, int block, int shared, bool early, cudaStream_t stream, A... a) {
    cudaLaunchAttribute attributes[1];
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)grid), config.blockDim = dim3((unsigned)block);
    config.dynamicSmemBytes = shared, config.stream = stream, config.attrs = attributes;
    if (early) {
        attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shared > 48 * 1024) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cudaLaunchKernelEx(&config, kernel, P(a)...);
}

// n / d as (umulhi(n, magic) + n) >> shift, for n < 2^31
static tf_divisor divisor(long long d) {
    unsigned shift = 0;
    while ((1ull << shift) < (unsigned long long)d) ++shift;
    return {(unsigned)((((1ull << shift) - d) << 32) / d + 1), shift};
}
"""

CONSTANTS_8 = r"""
extern "C" long long forward(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], height = size[1], width = size[2];
    if (arch == 90 && width % 16 == 0 && aligned(leaf, 2)) {
        const long long out_height = height + 2;
        const long long out_width = width + 4;
        const long long count_1 = ceil_div(out_width, 88);
        const long long count_2 = (height + 3) / 2;
        if (128 * batch * out_height * out_width >= 1ll << 31) return -1;
        if (!workspace) return 491520;
        launch(forward_pack, 120, 256, 0, false, stream, (const float*)leaf[1], (unsigned char*)workspace, WeightStrides{122880, 1920, 15, 0, 5, 1});
        launch(forward_dense, std::min<long long>(132, batch * count_1 * count_2), 512, 200192, false, stream, (const float*)leaf[0], (const unsigned char*)workspace, Sizes{{(int)(batch), 1, (int)(height), (int)(width)}, {(int)(batch), 1, (int)(out_height), (int)(out_width)}, {(int)(batch), 1, (int)(count_2), (int)(count_1)}, (int)(batch * count_1 * count_2)}, Strides{64 * height * width, height * width, 0, width, 1}, (float*)out[0], Strides{128 * out_height * out_width, out_height * out_width, 0, out_width, 1});
        return (long long)cudaGetLastError();
    }
    const long long out_height = height + 2;
    const long long out_width = width + 4;
    const long long count_1 = ceil_div(batch * out_height * out_width, 2);
    if (128 * batch * out_height * out_width >= 1ll << 31) return -1;
    if (!workspace) return 0;
    launch(forward_general_dense, count_1, 256, 0, false, stream, (const STORED*)leaf[0], (const STORED*)leaf[1], (STORED*)out[0], out_width, out_height, height, width, 64 * height * width, height * width, 128 * out_height * out_width, out_height * out_width, count_1, 128 * batch * out_height * out_width, divisor(out_width), divisor(out_height));
    return (long long)cudaGetLastError();
}
"""

FORWARD_PACK_2 = r"""
__global__ void __launch_bounds__(256) forward_pack(const float* __restrict__ w, unsigned char* __restrict__ packed, WeightStrides ws) {
    const int at = blockIdx.x * 256 + threadIdx.x;          // one 16-byte vector: a row's channels of one K half
    if (at >= 30720) return;
    constexpr int TILES = 30, KSTEPS = 8, LANES = 4, CIN = 64, COUT = 128;
    constexpr int SEGMENT = 64, SEGMENTS = 1, MGROUPS = 1, PAIRS = 0;
    const int row = at % 64, half = at / 64 % 2, tile = at / 128 % TILES, step = at / (128 * TILES) % KSTEPS, part = at / (128 * TILES * KSTEPS);
    const int segment = row / SEGMENT, within = row % SEGMENT;
    const int tap = tap_of[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * 2 + block_of[tile]) * 64 + within;
    const int first = PAIRS ? 0 : step * 2 * LANES + half * LANES;
    const float* from = w + part / MGROUPS * ws.g + co * ws.o + tap / 15 * ws.d + tap / 5 % 3 * ws.h + tap % 5 * ws.w;
    float v[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) v[j] = tap >= 0 && co < COUT && first + j < CIN ? tf_load<float>(from + (first + j) * ws.i) : 0;
    const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));
    *(uint4*)(packed + (long long)(at / 128) * 4096 + (half * 64 + row) * 16) = high;
    *(uint4*)(packed + (long long)(at / 128) * 4096 + (half * 64 + row) * 16 + 2048) = make_uint4(round_tf32(v[0] - __uint_as_float(high.x)), round_tf32(v[1] - __uint_as_float(high.y)), round_tf32(v[2] - __uint_as_float(high.z)), round_tf32(v[3] - __uint_as_float(high.w)));
}
"""

CONSTANTS_9 = r"""
// Dense tiles: run 1x1x2x52 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 4x2 slabs 3x8 chunks 2x64 stores 1 registers 64/96/176
//   axis d: period 1 advance 1 taps 1
//   axis h: period 1 advance 1 taps 3
//   axis w: period 1 advance 1 taps 5
constexpr int STORE_GROUPS = 1;
constexpr int TILE_W = 52, RUN_W = 52, EXTENT_W = 56, FIRST_W = -4, PIXELS = 224, PLANE = 224, RUN_PIXELS = 112, LANES = 4, TERMS = 2;
constexpr int STAGE_CHANNELS = 8, KSTAGES = 8, KSTEPS = 8, RAW = 4, PIECE = 2, SLABS = 3, SLAB_BYTES = 32768, TILE_BYTES = 4096, CHUNKS = 2;
constexpr int ROW_LENGTH = 112, ACCUMULATORS = 56, STAGE_BYTES = 14336, RAW_BYTES = 8192, STAGES_AT = 98304, RAW_AT = 126976, CHUNKS_AT = 159744;
constexpr int TABLES_AT = 196608, PLACES_AT = 201216, HELD_VALUES = 32;
"""

PRODUCT_2 = r"""
static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * 8, 30); }
static __device__ __forceinline__ int slab_count(int) { return 4; }

static __device__ __forceinline__ void product(float (&d)[56], unsigned long long a, unsigned long long b, int accumulate) {
#ifdef __CUDACC__
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %58, 0;\nwgmma.mma_async.sync.aligned.m64n112k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55}, %56, %57, p, 1, 1;\n}"
        : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]) : "l"(a), "l"(b), "r"(accumulate));
#else
    multiply_group<ELEMENT>(d, a, b, accumulate, [](ELEMENT e) { return tf_to<float>(e); });
#endif
}
"""

MULTIPLY_2 = r"""
static __device__ __forceinline__ void promote(REAL (&acc)[ACCUMULATORS], REAL (&total)[ACCUMULATORS]) {
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) add_landed(total[i], acc[i]);
}

template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, const Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {
    unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;
    (void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 128ll, pixels + 0ll, 0);
    product(acc[0], tiles + 0ll, pixels + 448ll, 1);
    product(acc[0], tiles + 640ll, pixels + 1ll, 1);
    product(acc[0], tiles + 512ll, pixels + 449ll, 1);
    product(acc[0], tiles + 1152ll, pixels + 2ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 450ll, 1);
    product(acc[0], tiles + 1664ll, pixels + 3ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 451ll, 1);
    product(acc[0], tiles + 0ll, pixels + 0ll, 1);
    product(acc[0], tiles + 512ll, pixels + 1ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 2ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 3ll, 1);
    products_commit();
    products_wait<0>();
    promote(acc[0], total[0]);
    held.slab = slab;
    held.release(b);
    if (++slab == SLABS) { slab = 0; slab_turn++; }
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 128ll, pixels + 4ll, 0);
    product(acc[0], tiles + 0ll, pixels + 452ll, 1);
    product(acc[0], tiles + 640ll, pixels + 56ll, 1);
    product(acc[0], tiles + 512ll, pixels + 504ll, 1);
    product(acc[0], tiles + 1152ll, pixels + 57ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 505ll, 1);
    product(acc[0], tiles + 1664ll, pixels + 58ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 506ll, 1);
    product(acc[0], tiles + 0ll, pixels + 4ll, 1);
    product(acc[0], tiles + 512ll, pixels + 56ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 57ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 58ll, 1);
    products_commit();
    products_wait<0>();
    promote(acc[0], total[0]);
    held.slab = slab;
    held.release(b);
    if (++slab == SLABS) { slab = 0; slab_turn++; }
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 128ll, pixels + 59ll, 0);
    product(acc[0], tiles + 0ll, pixels + 507ll, 1);
    product(acc[0], tiles + 640ll, pixels + 60ll, 1);
    product(acc[0], tiles + 512ll, pixels + 508ll, 1);
    product(acc[0], tiles + 1152ll, pixels + 112ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 560ll, 1);
    product(acc[0], tiles + 1664ll, pixels + 113ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 561ll, 1);
    product(acc[0], tiles + 0ll, pixels + 59ll, 1);
    product(acc[0], tiles + 512ll, pixels + 60ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 112ll, 1);
    product(acc[0], tiles + 1536ll, pixels + 113ll, 1);
    products_commit();
    products_wait<0>();
    promote(acc[0], total[0]);
    held.slab = slab;
    held.release(b);
    if (++slab == SLABS) { slab = 0; slab_turn++; }
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 128ll, pixels + 114ll, 0);
    product(acc[0], tiles + 0ll, pixels + 562ll, 1);
    product(acc[0], tiles + 640ll, pixels + 115ll, 1);
    product(acc[0], tiles + 512ll, pixels + 563ll, 1);
    product(acc[0], tiles + 1152ll, pixels + 116ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 564ll, 1);
    product(acc[0], tiles + 0ll, pixels + 114ll, 1);
    product(acc[0], tiles + 512ll, pixels + 115ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 116ll, 1);
    products_commit();
    products_wait<0>();
    promote(acc[0], total[0]);
    held.slab = slab;
    held.stage = slot;
    held.release(b);
    if (++slab == SLABS) { slab = 0; slab_turn++; }
}
"""

CONSTANTS_10 = r"""
extern "C" long long forward(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], height = size[1], width = size[2];
    if (arch == 90 && width % 16 == 0 && aligned(leaf, 2)) {
        const long long out_height = height + 2;
        const long long out_width = width + 4;
        const long long count_1 = ceil_div(out_width, 52);
        const long long count_2 = (height + 3) / 2;
        if (128 * batch * out_height * out_width >= 1ll << 31) return -1;
        if (!workspace) return 983040;
        launch(forward_pack, 120, 256, 0, false, stream, (const float*)leaf[1], (unsigned char*)workspace, WeightStrides{122880, 1920, 15, 0, 5, 1});
        launch(forward_dense, std::min<long long>(132, batch * count_1 * count_2), 512, 201216, false, stream, (const float*)leaf[0], (const unsigned char*)workspace, Sizes{{(int)(batch), 1, (int)(height), (int)(width)}, {(int)(batch), 1, (int)(out_height), (int)(out_width)}, {(int)(batch), 1, (int)(count_2), (int)(count_1)}, (int)(batch * count_1 * count_2)}, Strides{64 * height * width, height * width, 0, width, 1}, (float*)out[0], Strides{128 * out_height * out_width, out_height * out_width, 0, out_width, 1});
        return (long long)cudaGetLastError();
    }
    const long long out_height = height + 2;
    const long long out_width = width + 4;
    const long long count_1 = ceil_div(batch * out_height * out_width, 2);
    if (128 * batch * out_height * out_width >= 1ll << 31) return -1;
    if (!workspace) return 0;
    launch(forward_general_dense, count_1, 256, 0, false, stream, (const STORED*)leaf[0], (const STORED*)leaf[1], (STORED*)out[0], out_width, out_height, height, width, 64 * height * width, height * width, 128 * out_height * out_width, out_height * out_width, count_1, 128 * batch * out_height * out_width, divisor(out_width), divisor(out_height));
    return (long long)cudaGetLastError();
}
"""

FORWARD_PACK_3 = r"""
// Packs canonical weights [G, Cin, Cout, K...] as operand tiles: [part][K step][tile][K half][8 rows of 8][8 channels].
__constant__ short tap_of[] = {14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0};

__global__ void __launch_bounds__(256) forward_pack(const STORED* __restrict__ w, unsigned char* __restrict__ packed, WeightStrides ws) {
    const int at = blockIdx.x * 256 + threadIdx.x;          // one 16-byte vector: a row's channels of one K half
    if (at >= 15360) return;
    constexpr int TILES = 30, KSTEPS = 4, LANES = 8, CIN = 64, COUT = 128;
    constexpr int SEGMENT = 64, SEGMENTS = 1, MGROUPS = 1, PAIRS = 0;
    const int row = at % 64, half = at / 64 % 2, tile = at / 128 % TILES, step = at / (128 * TILES) % KSTEPS, part = at / (128 * TILES * KSTEPS);
    const int segment = row / SEGMENT, within = row % SEGMENT;
    const int tap = tap_of[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * 2 + block_of[tile]) * 64 + within;
    const int first = PAIRS ? 0 : step * 2 * LANES + half * LANES;
    const STORED* from = w + part / MGROUPS * ws.g + co * ws.o + tap / 15 * ws.d + tap / 5 % 3 * ws.h + tap % 5 * ws.w;
    float v[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) v[j] = tap >= 0 && co < COUT && first + j < CIN ? tf_load<float>(from + (first + j) * ws.i) : 0;
    tf_vector<STORED, LANES> whole;
#pragma unroll
    for (int j = 0; j < LANES; j++) tf_from(whole.lane[j], v[j]);
    *(tf_vector<STORED, LANES>*)(packed + (long long)(at / 128) * 2048 + (half * 64 + row) * 16) = whole;
}
"""

CONSTANTS_11 = r"""
// Dense tiles: run 1x1x2x88 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 3x2 slabs 4x10 chunks 2x64 stores 1 registers 64/96/176
//   axis d: period 1 advance 1 taps 1
//   axis h: period 1 advance 1 taps 3
//   axis w: period 1 advance 1 taps 5
constexpr int STORE_GROUPS = 1;
constexpr int TILE_W = 88, RUN_W = 88, EXTENT_W = 96, FIRST_W = -8, PIXELS = 384, PLANE = 384, RUN_PIXELS = 184, LANES = 8, TERMS = 1;
constexpr int STAGE_CHANNELS = 16, KSTAGES = 4, KSTEPS = 4, RAW = 3, PIECE = 2, SLABS = 4, SLAB_BYTES = 20480, TILE_BYTES = 2048, CHUNKS = 3;
constexpr int ROW_LENGTH = 184, ACCUMULATORS = 92, STAGE_BYTES = 12288, RAW_BYTES = 16384, STAGES_AT = 81920, RAW_AT = 106496;
constexpr int CHUNKS_AT = 155648, TABLES_AT = 192512, PLACES_AT = 197120, HELD_VALUES = 16;
typedef STORED ELEMENT;
"""

PRODUCT_3 = r"""
static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * 10, 30); }
static __device__ __forceinline__ int slab_count(int) { return 3; }

static __device__ __forceinline__ void product(float (&d)[92], unsigned long long a, unsigned long long b, int accumulate) {
#ifdef __CUDACC__
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %94, 0;\nwgmma.mma_async.sync.aligned.m64n184k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91}, %92, %93, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]),"+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67]),"+f"(d[68]),"+f"(d[69]),"+f"(d[70]),"+f"(d[71]),"+f"(d[72]),"+f"(d[73]),"+f"(d[74]),"+f"(d[75]),"+f"(d[76]),"+f"(d[77]),"+f"(d[78]),"+f"(d[79]),"+f"(d[80]),"+f"(d[81]),"+f"(d[82]),"+f"(d[83]),"+f"(d[84]),"+f"(d[85]),"+f"(d[86]),"+f"(d[87]),"+f"(d[88]),"+f"(d[89]),"+f"(d[90]),"+f"(d[91]) : "l"(a), "l"(b), "r"(accumulate));
#else
    multiply_group<ELEMENT>(d, a, b, accumulate, [](ELEMENT e) { return tf_to<float>(e); });
#endif
}
"""

CONSTANTS_12 = r"""
struct Operands {
    STORED* y0; Strides ys0;
};
"""

MULTIPLY_3 = r"""
template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, const Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {
    unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;
    (void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 0ll, pixels + 4ll, stage > 0);
    product(acc[0], tiles + 256ll, pixels + 5ll, 1);
    product(acc[0], tiles + 512ll, pixels + 6ll, 1);
    product(acc[0], tiles + 768ll, pixels + 7ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 8ll, 1);
    products_commit();
    products_wait<1>();
    held.release(b);
    held.slab = slab;
    if (++slab == SLABS) { slab = 0; slab_turn++; }
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 0ll, pixels + 100ll, 1);
    product(acc[0], tiles + 256ll, pixels + 101ll, 1);
    product(acc[0], tiles + 512ll, pixels + 102ll, 1);
    product(acc[0], tiles + 768ll, pixels + 103ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 104ll, 1);
    products_commit();
    products_wait<1>();
    held.release(b);
    held.slab = slab;
    if (++slab == SLABS) { slab = 0; slab_turn++; }
    held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
    tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
    tiles += WG * (TILE_BYTES / 16);
    products_begin();
    product(acc[0], tiles + 0ll, pixels + 196ll, 1);
    product(acc[0], tiles + 256ll, pixels + 197ll, 1);
    product(acc[0], tiles + 512ll, pixels + 198ll, 1);
    product(acc[0], tiles + 768ll, pixels + 199ll, 1);
    product(acc[0], tiles + 1024ll, pixels + 200ll, 1);
    products_commit();
    products_wait<1>();
    held.release(b);
    held.stage = slot;
    held.slab = slab;
    if (++slab == SLABS) { slab = 0; slab_turn++; }
}
"""

FORWARD_DENSE_2 = r"""
// Store role: takes chunks of accumulators, runs the tile program, writes, while the next tile's products run.
static __device__ void store_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int store_group, int t) {
    const REAL* table = (const REAL*)(shared + TABLES_AT);
    REAL* slots = (REAL*)(shared + TABLES_AT + 0 + store_group * 4096);
    REAL* image_table = slots + 0;
    REAL* exchange = slots + 0;
    int exchange_turn = 0;
    const int lane_column = t % LANES_W, lane_row = t / LANES_W;
    constexpr int COLUMNS_AT_ONCE = LANES_W;
    const unsigned ROW_LANES = LANES_W >= 32 ? ~0u : ((1u << (LANES_W & 31)) - 1) << ((t & 31) / LANES_W * LANES_W);
    (void)table, (void)slots, (void)image_table, (void)exchange, (void)exchange_turn, (void)ROW_LANES;
    const bool wide0 = VECTOR > 1 && operands.ys0.w == 1 && (((unsigned long long)operands.y0 | 2ull * (operands.ys0.n | operands.ys0.c | operands.ys0.d | operands.ys0.h)) % 8) == 0 && 8 <= 16;
    int next[2] = {0, BUFFERS_0}, turns[2] = {0, 0}, taken = 0;   // each warpgroup's buffers
    for (int tile = blockIdx.x; tile < s.total; tile += gridDim.x) {
        const Place at = place_of(tile, s);
        const int group = at.fixed / MGROUPS, block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);
        for (int wg = 0; wg < WRITERS; wg++)
        for (int chunk_index = 0; chunk_index < CHUNKS; chunk_index++)
        for (int set = 0; set < SETS; set++) {
            const int slot = wg ? next[1] : next[0], turn = wg ? turns[1] : turns[0];
            if (wg) { if (++next[1] == BUFFERS) { next[1] = BUFFERS_0; turns[1]++; } } else if (++next[0] == BUFFERS_0) { next[0] = 0; turns[0]++; }
            if (STORE_GROUPS > 1 && taken++ % STORE_GROUPS != store_group) continue;
            barrier_wait(shared_address(&b.chunk_full[slot]), turn & 1);
            const REAL* chunk = (const REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
            const int* codes = phase_codes + ((at.variant * 2 + wg) * SETS + set) * CHUNK_OUTER;
            const int first_channel = block + (SPLIT_CHANNELS && !JOINT ? wg * 64 : 0);   // within the group
            const int first_n = at.u[0] + wg * SECOND_N, first_d = at.u[1] + wg * SECOND_D, first_h = at.u[2] + wg * SECOND_H, first_w = at.u[3] + wg * SECOND_W;
#define ROW(i) (lane_row + (hb * BATCH + (i)) * ROW_STEP)
#define CHANNEL(i) (first_channel + ROW(i))
#define CHANNEL_OK(i) (ITEMS % BATCH == 0 || hb * BATCH + (i) < ITEMS)
#define PN(e) ((long long)pn)
#define PD(e) ((long long)pd)
#define PH(e) ((long long)ph)
#define PW(e) ((long long)(pw + (e)))
#define VALID(e) ((e) < count)
            for (int k = 0; k < TURNS; k++) {
                const int column = k * COLUMNS_AT_ONCE + lane_column, px = column * VECTOR_PIXELS, w_phase = 0;
                const int r = chunk_index * CHUNK_WIDTH + px;
                const int w = r % EXTENT_W, h = r / EXTENT_W % EXTENT_H, d = r / (EXTENT_W * EXTENT_H) % EXTENT_D, n = r / (EXTENT_W * EXTENT_H * EXTENT_D);
                const bool in_run = r < RUN_PIXELS && w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N;
#pragma unroll
                for (int q = 0; q < CHUNK_OUTER; q++) {
                    const int code = codes[q];
                    if (code < 0) continue;
                    const int pn = first_n + n, pd = PERIOD_D * (first_d + d) + (code >> 8), ph = PERIOD_H * (first_h + h) + (code & 255), pw = PERIOD_W * (first_w + w) + w_phase;
                    const int count = in_run && pn < s.out[0] && pd < s.out[1] && ph < s.out[2] ? min(VECTOR, s.out[3] - pw) : 0;
                    if (count <= 0) continue;
                    for (int hb = 0; hb < BATCHES; hb++) {
                        REAL v3[BATCH][VECTOR];
#pragma unroll
                        for (int i = 0; i < BATCH; i++)
#pragma unroll
                        for (int f = 0; f < PHASES_W; f++) {
                            if (row_of(q, f) < 0) {
#pragma unroll
                                for (int p = 0; p < VECTOR_PIXELS; p++) v3[i][p * PHASES_W + f] = 0.f;
                            } else {
                                const tf_vector<REAL, VECTOR_PIXELS> in = *(const tf_vector<REAL, VECTOR_PIXELS>*)(chunk + (row_of(q, f) + ROW(i)) * PITCH + px);
#pragma unroll
                                for (int p = 0; p < VECTOR_PIXELS; p++) v3[i][p * PHASES_W + f] = in.lane[p];
                            }
                        }
                        if (count > 0) {
                            const long long step = ROW_STEP * operands.ys0.c;
                            STORED* to = operands.y0 + (PN(0) * operands.ys0.n + PD(0) * operands.ys0.d + PH(0) * operands.ys0.h + PW(0) * operands.ys0.w + (long long)(group * COUT + CHANNEL(0)) * operands.ys0.c);
                            if (wide0 && count == VECTOR) {
#pragma unroll
                                for (int i = 0; i < BATCH; i++, to += step) {
                                    if (!CHANNEL_OK(i)) continue;
                                    REAL whole[VECTOR];
#pragma unroll
                                    for (int e = 0; e < VECTOR; e++) whole[e] = v3[i][e];
                                    store_vector<VECTOR>(to, whole);
                                }
                            } else {
#pragma unroll
                                for (int i = 0; i < BATCH; i++, to += step) {
                                    if (!CHANNEL_OK(i)) continue;
#pragma unroll
                                    for (int e = 0; e < VECTOR; e++) if (e == 0 || VALID(e)) tf_store(to + e * operands.ys0.w, v3[i][e]);
                                }
                            }
                        }
                    }
                }
            }
#undef ROW
#undef CHANNEL
#undef CHANNEL_OK
#undef PN
#undef PD
#undef PH
#undef PW
#undef VALID
            barrier_arrive(shared_address(&b.chunk_empty[slot]));
        }
    }
}

__global__ void __launch_bounds__(THREADS, 1) forward_dense(const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed, Sizes s, Strides xs, STORED* y0, Strides ys0) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ Barriers b;
    const int t = threadIdx.x;
    const Operands operands{y0, ys0};
    if (t == 0) {
        for (int i = 0; i < STAGES; i++) { barrier_init(shared_address(&b.full[i]), LOADERS); barrier_init(shared_address(&b.empty[i]), 256); }
        for (int i = 0; i < SLABS; i++) { barrier_init(shared_address(&b.weights_full[i]), FETCHERS); barrier_init(shared_address(&b.weights_empty[i]), 256); }
        for (int i = 0; i < BUFFERS; i++) { barrier_init(shared_address(&b.chunk_full[i]), JOINT ? 256 : 128); barrier_init(shared_address(&b.chunk_empty[i]), 128); }
        barrier_fence();
    }
    __syncthreads();
    const int role = __shfl_sync(~0u, t / 128, 0);
    if (role == 0) { registers_give<64>(); load_role(shared, b, x, packed, s, xs, operands, t); } else if (role <= STORE_GROUPS) { registers_give<96>(); store_role(shared, b, s, operands, role - 1, t % 128); } else if (role == STORE_GROUPS + 1) { registers_take<176>(); product_role<0>(shared, b, s, operands, t % 128); } else if (role == STORE_GROUPS + 2) { registers_take<176>(); product_role<1>(shared, b, s, operands, t % 128); }
#endif
}
"""

CONSTANTS_13 = r"""
extern "C" long long forward(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], height = size[1], width = size[2];
    if (arch == 90 && width % 16 == 0 && aligned(leaf, 2)) {
        const long long out_height = height + 2;
        const long long out_width = width + 4;
        const long long count_1 = ceil_div(out_width, 88);
        const long long count_2 = (height + 3) / 2;
        if (128 * batch * out_height * out_width >= 1ll << 31) return -1;
        if (!workspace) return 245760;
        launch(forward_pack, 60, 256, 0, false, stream, (const STORED*)leaf[1], (unsigned char*)workspace, WeightStrides{122880, 1920, 15, 0, 5, 1});
        launch(forward_dense, std::min<long long>(132, batch * count_1 * count_2), 512, 197120, false, stream, (const STORED*)leaf[0], (const unsigned char*)workspace, Sizes{{(int)(batch), 1, (int)(height), (int)(width)}, {(int)(batch), 1, (int)(out_height), (int)(out_width)}, {(int)(batch), 1, (int)(count_2), (int)(count_1)}, (int)(batch * count_1 * count_2)}, Strides{64 * height * width, height * width, 0, width, 1}, (STORED*)out[0], Strides{128 * out_height * out_width, out_height * out_width, 0, out_width, 1});
        return (long long)cudaGetLastError();
    }
    const long long out_height = height + 2;
    const long long out_width = width + 4;
    const long long count_1 = ceil_div(batch * out_height * out_width, 2);
    if (128 * batch * out_height * out_width >= 1ll << 31) return -1;
    if (!workspace) return 0;
    launch(forward_general_dense, count_1, 256, 0, false, stream, (const STORED*)leaf[0], (const STORED*)leaf[1], (STORED*)out[0], out_width, out_height, height, width, 64 * height * width, height * width, 128 * out_height * out_width, out_height * out_width, count_1, 128 * batch * out_height * out_width, divisor(out_width), divisor(out_height));
    return (long long)cudaGetLastError();
}
"""

# What is compiled for which arithmetic: fp32 as PyTorch's TF32 switch allows, strict fp32, 16 bits.
SOURCES = {
    "fp32": ARITHMETIC + CONSTANTS + FORWARD_PACK + CONSTANTS_2 + CONSTANTS_3 + CONSTANTS_4 + CONSTANTS_5 + PRODUCT + CONSTANTS_6 + CONSTANTS_7 + PUT_BLOCK + MULTIPLY + STORE_VECTOR + FORWARD_DENSE + FORWARD_GENERAL_DENSE + CONSTANTS_8,
    "strict": ARITHMETIC + CONSTANTS + FORWARD_PACK_2 + CONSTANTS_2 + CONSTANTS_9 + CONSTANTS_4 + CONSTANTS_5 + PRODUCT_2 + CONSTANTS_6 + CONSTANTS_7 + PUT_BLOCK + MULTIPLY_2 + STORE_VECTOR + FORWARD_DENSE + FORWARD_GENERAL_DENSE + CONSTANTS_10,
    "half": ARITHMETIC + FORWARD_PACK_3 + CONSTANTS_2 + CONSTANTS_11 + CONSTANTS_5 + PRODUCT_3 + CONSTANTS_6 + CONSTANTS_12 + PUT_BLOCK + MULTIPLY_3 + STORE_VECTOR + FORWARD_DENSE_2 + FORWARD_GENERAL_DENSE + CONSTANTS_13,
}

_built = {}
ELEMENTS = {torch.float32: "fp32", torch.float16: "half", torch.bfloat16: "bfloat"}


def library(dtype, device):
    """The compiled kernels for a dtype and the GPU at hand: built on first use, later found in torch's extension cache."""
    arithmetic = ELEMENTS[dtype]
    if arithmetic == "fp32" and not torch.backends.cudnn.allow_tf32 and "strict" in SOURCES:
        arithmetic = "strict"
    major, minor = torch.cuda.get_device_capability(device)
    key = arithmetic, major, minor
    if key not in _built:
        source = SOURCES.get("half" if arithmetic == "bfloat" else arithmetic, SOURCES["fp32"])
        if arithmetic == "bfloat" and "half" in SOURCES:
            source = source.replace(".f16.f16", ".bf16.bf16")  # the one instruction that names the type
        stored = {"half": "tf_half", "bfloat": "tf_bfloat"}.get(arithmetic, "float")
        arch = f"{major}{minor}a" if major == 9 else f"{major}{minor}"
        path = load_inline(
            name=f"transfuse_df5705079e41_{arithmetic}_sm{major}{minor}",
            cpp_sources="",
            cuda_sources="#include <algorithm>\n#include <cuda_runtime.h>\n" + source,
            extra_cuda_cflags=[f"-gencode=arch=compute_{arch},code=sm_{arch}", f"-DSTORED={stored}", "-diag-suppress=177,550"],
            is_python_module=False,
            no_implicit_headers=True,
        )
        _built[key] = ctypes.CDLL(path), 10 * major + minor
    return _built[key]


_calls = {}


def prepared(name, leaves, expected, sizes_at, outputs):
    """Refuses what the kernels cannot take; else what a call with leaves like these needs."""
    first = leaves[0]
    if not first.is_cuda:
        raise RuntimeError(f"this file was written for CUDA tensors, got one on {first.device}")
    if first.dtype not in ELEMENTS:
        raise ValueError(f"{expected[0][0]} must be one of {', '.join(map(str, ELEMENTS))}, got {first.dtype}")
    for leaf, (label, shape) in zip(leaves, expected):
        if leaf.dtype != first.dtype or leaf.device != first.device:
            raise ValueError(f"{label} must be {first.dtype} on {first.device}, got {leaf.dtype} on {leaf.device}")
        if leaf.dim() != len(shape):
            raise ValueError(f"{label} must have {len(shape)} axes {shape}, got {tuple(leaf.shape)}")
        for axis, size in enumerate(shape):
            if isinstance(size, int) and leaf.shape[axis] != size:
                raise ValueError(f"{label} must have size {size} along axis {axis}, got {leaf.shape[axis]}")
    kernels, arch = library(first.dtype, first.device)
    function, pointer = kernels[name], ctypes.c_void_p
    function.restype, function.argtypes = ctypes.c_longlong, [pointer, pointer, pointer, pointer, pointer, ctypes.c_int]
    sizes = [leaves[leaf].shape[axis] for leaf, axis in sizes_at]
    counts = (ctypes.c_longlong * len(sizes))(*sizes)
    need = function(addresses(leaves), None, counts, None, None, arch)
    if need < 0:
        raise ValueError(f"{name}: at sizes {sizes} a tensor would have 2^31 elements or more, which these kernels cannot address")
    return function, counts, arch, max(need, 1), outputs(*sizes)


def addresses(tensors):
    return (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])


def run(name, leaves, expected, sizes_at, outputs):
    """Launches a program. `expected`: of each leaf a name and its shape; sizes that may vary are words in it."""
    leaves = [leaf.contiguous() for leaf in leaves]
    first = leaves[0]
    unaligned = any([leaf.data_ptr() % 16 for leaf in leaves])
    key = name, unaligned, torch.backends.cudnn.allow_tf32, *[(leaf.shape, leaf.dtype, leaf.device) for leaf in leaves]
    if key not in _calls:
        _calls[key] = prepared(name, leaves, expected, sizes_at, outputs)
    function, counts, arch, need, shapes = _calls[key]
    out = [first.new_empty(shape) for shape in shapes]
    workspace = torch.empty(need, dtype=torch.uint8, device=first.device)
    with torch.cuda.device(first.device):
        stream = torch.cuda.current_stream().cuda_stream
        failure = function(addresses(leaves), addresses(out), counts, workspace.data_ptr(), stream, arch)
    if failure:
        raise RuntimeError(f"{name}: CUDA error {failure}")
    return out

def forward_as_written(x, conv_transpose_weight):
    """In PyTorch's operators: what the backward of this file differentiates."""
    conv_transpose2d = torch.ops.aten.conv_transpose2d.input(x, conv_transpose_weight)
    return [conv_transpose2d]


class Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        ctx.save_for_backward(*leaves)
        out = run(
            "forward", leaves,
            [("x", ("batch", 64, "height", "width")), ("conv_transpose_weight", (64, 128, 3, 5))],
            [(0, 0), (0, 2), (0, 3)],
            lambda batch, height, width: [(batch, 128, height + 2, width + 4)],
        )  # fmt: skip
        ctx.mark_non_differentiable(*out[1:])
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            leaves = ctx.saved_tensors if again else [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
            pairs = [(y, g) for y, g in zip(forward_as_written(*leaves), gradients) if g is not None]
            wanted = [t for t in leaves if t.requires_grad]
            found = iter(torch.autograd.grad([y for y, _ in pairs], wanted, [g for _, g in pairs], create_graph=again, allow_unused=True))
        return tuple(next(found) if t.requires_grad else None for t in leaves)

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        if (in_channels, out_channels, tuple(kernel_size)) != (64, 128, (3, 5)):
            expected = "(in_channels, out_channels, kernel_size) = 64, 128, (3, 5)"
            raise ValueError(f"the kernels of this file were written for {expected}, got {(in_channels, out_channels, tuple(kernel_size))}")
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x):
        y = Forward.apply(x, self.conv_transpose.weight)[0]
        return y
