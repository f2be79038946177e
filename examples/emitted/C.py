# C.py with its kernels: ModelNew computes what Model does. The model as written:
#
#     class Model(nn.Module):
#         def __init__(self, in_channels, out_channels, kernel_size, scale_factor):
#             super().__init__()
#             self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size)
#             self.scale_factor = scale_factor
#             self.batch_norm = nn.BatchNorm3d(out_channels)
#             self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))
#
#         def forward(self, x):
#             x = self.conv_transpose(x)
#             x = x * self.scale_factor
#             x = self.batch_norm(x)
#             return self.global_avg_pool(x)
#
# Derivation (train mode), each rule exact:
#   expand_conv: conv_transpose f32[16,128,20,36,36] is a lattice convolution
#   fold_scale: a scalar scale of f32[16,128,20,36,36] folds into the weights
#   expand_batch_norm: batch_norm by the statistics over [0,2,3,4]
#   keep_dims: mean keeps its dims, a reshape drops them
#   keep_dims: var keeps its dims, a reshape drops them
#   expand_adaptive_pool: adaptive_avg_pool to one element is a mean over [2,3,4]
#   mean_of_centred: the mean over [2,3,4] of a centred value needs no rounded mean
#   collapse: reducing [2,3,4] of f32[16,128,20,36,36] before the convolution: 1 box
#   reduce_affine: mean over [0] commutes with 2 scales and shifts
#   centred_variance: variance over [0,2,3,4] of f32[16,128,20,36,36] around the collapsed mean
#   collapse: reducing [2,3,4] of f32[16,128,20,36,36] before the convolution: 1 box
#   cancel_shift: the same shift on both sides of a difference cancels
#   collapse: reducing [2,3,4] of f32[16,128,20,36,36] before the convolution: 1 box
#   … and 9 more
#   in all 538 Gflop and 1.77 GB became 537 Gflop and 1.21 GB.
# Plan:
#   prepare: 3.56 Mflop, 8.23 MB
#   moments: 17.1 Mflop, 67.2 MB
#   dense: 537 Gflop, 71.2 MB
# Why it may be this fast: on an H200 (400 TFLOP/s TF32, 4.0 TB/s measured) the plan cannot take less than 1.34 ms at
# the sizes of get_inputs(); the operators one by one, as written, not less than 1.34 ms.
#
# Derivation (eval mode), each rule exact:
#   expand_conv: conv_transpose f32[16,128,20,36,36] is a lattice convolution
#   fold_scale: a scalar scale of f32[16,128,20,36,36] folds into the weights
#   expand_batch_norm: batch_norm by running statistics is a scale and a shift
#   expand_adaptive_pool: adaptive_avg_pool to one element is a mean over [2,3,4]
#   collapse: reducing [2,3,4] of f32[16,128,20,36,36] before the convolution: 1 box
#   permute_of_permute: permute of axes of extent 1 is a reshape
#   reshape_of_reshape: reshape of reshape
#   in all 537 Gflop and 1.35 GB became 20.6 Mflop and 81.5 MB.
# Plan:
#   prepare: 3.56 Mflop, 4.13 MB
#   moments: 17 Mflop, 67.2 MB
# Why it may be this fast: on an H200 (400 TFLOP/s TF32, 4.0 TB/s measured) the plan cannot take less than 0.0178 ms at
# the sizes of get_inputs(); the operators one by one, as written, not less than 1.34 ms.

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
__constant__ short block_of[] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
struct WeightStrides { long long g, i, o, d, h, w; };
template <class S, class R> TF_FUNCTION void tf_store(S* p, R v) { S s; tf_from(s, v); *p = s; }

// The value as it would be after a trip through memory as S.
template <class S, class R> TF_FUNCTION R tf_round(R v) { S s; tf_from(s, v); return tf_to<R>(s); }
TF_FUNCTION float tf_rsqrt(float x) { return rsqrtf(x); }
TF_FUNCTION double tf_rsqrt(double x) { return 1.0 / sqrt(x); }

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
constexpr int THREADS = 384, LOADERS = 128, CIN = 64, COUT = 128, MGROUPS = 1, BLOCKS_PER_TILE = 2, FIXED = 1, VARIANTS = 1, PARTS = 1;
constexpr int TILE_N = 1, RUN_N = 1, EXTENT_N = 1, PERIOD_N = 1, SECOND_N = 0, TILE_D = 1, RUN_D = 1, EXTENT_D = 5, FIRST_D = -4, ADVANCE_D = 1;
constexpr int PERIOD_D = 1, SECOND_D = 0, FIRST_H = -4, ADVANCE_H = 1, PERIOD_H = 1, SECOND_H = 0, ADVANCE_W = 1, PERIOD_W = 1, SECOND_W = 0;
constexpr int VECTORS = 2, STAGES = 2, RAW = 2, PIECE = 4, OPERAND_TILES = 250, BUFFERS = 2, CHUNK_WIDTH = 64, CHUNK_ROWS = 1, SETS = 1;
constexpr int PLANES = 1, ROWS_PER_PLANE = 1, ROWS_PER_GROUP = 1, PITCH = 72, BLOCKS = 1, CHUNK_BYTES = 0, WEIGHTS_AT = 0;
constexpr bool RESIDENT = false;
constexpr bool JOINT = false;
constexpr bool SPLIT_CHANNELS = true;
constexpr bool PIXEL_MAJOR = false;
enum { LOAD_PLANAR, LOAD_VECTORS, LOAD_DIRECT, LOAD_PAIRS, LOAD_SINGLES, LOAD_ROWS, LOAD_BOXES, LOAD_OPERAND };
constexpr int LOAD = LOAD_ROWS;
typedef int OFFSET;
static __device__ __forceinline__ constexpr int chunk_row_start(int r) { constexpr int start[] = {0}; return start[r]; }
constexpr bool SKIPS = true;

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

// Pixel p of the patch as a place in the input. Input i = ADVANCE·(u + FIRST + position) + residue; each residue has a
// sub-patch of its own, so that every tap is a window of unit stride.
struct Pixel { int at[4]; bool inside; };

static __device__ __forceinline__ OFFSET pixel_offset(const Pixel& p, const Strides& s) {
    return (OFFSET)p.at[0] * (OFFSET)s.n + (OFFSET)p.at[1] * (OFFSET)s.d + (OFFSET)p.at[2] * (OFFSET)s.h + (OFFSET)p.at[3] * (OFFSET)s.w;
}
constexpr bool PROLOGUE = false;
constexpr bool FRAGMENTS = true;
constexpr int SEGMENTS = 1, WRITERS = 1, RESULT_ROWS = 2, STATS = 2, MASKS = 1, MASK_ROWS = 1;
__constant__ int segment_phases[] = {0, 0};   // [variant][warpgroup][accumulator][segment]: residue along d * 65536 + h * 256 + w
typedef int tf_index;
struct alignas(8) tf_divisor { unsigned magic, shift; };  // 0 <= n < 2^31

TF_FUNCTION tf_index tf_quotient_of(tf_index n, tf_divisor d) {
    return (tf_index)((__umulhi((unsigned)n, d.magic) + (unsigned)n) >> d.shift);
}

#if __CUDA_ARCH__ >= 900
#define TF_SEQUENCE() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#define TF_BESIDE() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define TF_AFTER() asm volatile("griddepcontrol.wait;" ::: "memory")
#define TF_CLUSTER_BARRIER() asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory")
#else
#define TF_SEQUENCE()
#define TF_BESIDE()
#define TF_AFTER()
#define TF_CLUSTER_BARRIER() __syncthreads()
#endif
struct Kept { long long count_1, count_2, count_3, at_1, at_2, at_3; };
struct Reduced { long long count_1, count_2, count_3, at_1, at_2, at_3; };
struct State { double a, b, c; };
static __device__ __forceinline__ void join(State& s, const State& o) { s.a += o.a; }

// The sum over a warp in a fixed order: lane 0 has it.
TF_FUNCTION double tf_warp_sum(double v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}
"""

TRAIN_MOMENTS = r"""
__global__ void __launch_bounds__(256) train_moments(const STORED* __restrict__ p0, double* p1, int count_3, int batch, int count_6, int n9, int depth_x_height_x_width, int n30, tf_divisor per_count_3, tf_divisor per_batch) {
    __shared__ double tf_warps[8], tf_sums[1];
    TF_SEQUENCE();
    const int q0 = tf_quotient_of((int)blockIdx.x, per_count_3), chunk1 = ((int)blockIdx.x - (q0 * count_3)), q2 = q0 / 1;
    const int columns3 = q0 - q2, q4 = q2 / 64, outer5 = (q2 - (q4 * 64)), q6 = tf_quotient_of(q4, per_batch);
    const int outer7 = (q4 - (q6 * batch)), line8 = 0, place9 = (int)threadIdx.x, column10 = (((columns3 * 256) + place9)) * 4;
    const bool inside11 = line8 < 1;
    const int begin12 = chunk1 * 8, end13 = min((begin12 + 8), count_6);
    const STORED* __restrict__ from14 = p0 + (((long long)outer7 * n9) + ((long long)outer5 * depth_x_height_x_width));
    for (int cell15 = 0; cell15 < 1; ++cell15) {
        const int rows16 = end13 - begin12, count17 = rows16;
        double sum18 = 0.0;
        if (inside11 && count17 > 0) {
            for (int t19 = line8; t19 < count17; t19 += 8) {
                const int at20 = ((begin12 + t19)) * 1024 + column10;
                const bool fits21 = at20 < depth_x_height_x_width;
                const int at22 = min(at20, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack23 = *(const tf_vector<STORED, 4>*)(from14 + at22);
                const int row24 = t19 + 1, row25 = min(row24, count17 - 1), at26 = ((begin12 + row25)) * 1024 + column10;
                const bool fits27 = row24 < count17 && at26 < depth_x_height_x_width;
                const int at28 = min(at26, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack29 = *(const tf_vector<STORED, 4>*)(from14 + at28);
                const int row30 = t19 + 2, row31 = min(row30, count17 - 1), at32 = ((begin12 + row31)) * 1024 + column10;
                const bool fits33 = row30 < count17 && at32 < depth_x_height_x_width;
                const int at34 = min(at32, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack35 = *(const tf_vector<STORED, 4>*)(from14 + at34);
                const int row36 = t19 + 3, row37 = min(row36, count17 - 1), at38 = ((begin12 + row37)) * 1024 + column10;
                const bool fits39 = row36 < count17 && at38 < depth_x_height_x_width;
                const int at40 = min(at38, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack41 = *(const tf_vector<STORED, 4>*)(from14 + at40);
                const int row42 = t19 + 4, row43 = min(row42, count17 - 1), at44 = ((begin12 + row43)) * 1024 + column10;
                const bool fits45 = row42 < count17 && at44 < depth_x_height_x_width;
                const int at46 = min(at44, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack47 = *(const tf_vector<STORED, 4>*)(from14 + at46);
                const int row48 = t19 + 5, row49 = min(row48, count17 - 1), at50 = ((begin12 + row49)) * 1024 + column10;
                const bool fits51 = row48 < count17 && at50 < depth_x_height_x_width;
                const int at52 = min(at50, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack53 = *(const tf_vector<STORED, 4>*)(from14 + at52);
                const int row54 = t19 + 6, row55 = min(row54, count17 - 1), at56 = ((begin12 + row55)) * 1024 + column10;
                const bool fits57 = row54 < count17 && at56 < depth_x_height_x_width;
                const int at58 = min(at56, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack59 = *(const tf_vector<STORED, 4>*)(from14 + at58);
                const int row60 = t19 + 7, row61 = min(row60, count17 - 1), at62 = ((begin12 + row61)) * 1024 + column10;
                const bool fits63 = row60 < count17 && at62 < depth_x_height_x_width;
                const int at64 = min(at62, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack65 = *(const tf_vector<STORED, 4>*)(from14 + at64);
                sum18 += (double)((((((fits21 ? (float)tf_to<float>(pack23.lane[0]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[0]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[0]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[0]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[0]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[0]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[0]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[0]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[1]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[1]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[1]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[1]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[1]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[1]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[1]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[1]) : 0.0f))))) + (((((fits21 ? (float)tf_to<float>(pack23.lane[2]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[2]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[2]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[2]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[2]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[2]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[2]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[2]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[3]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[3]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[3]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[3]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[3]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[3]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[3]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[3]) : 0.0f))))));
            }
        }
        const double total66 = count17 > 0 ? tf_warp_sum(inside11 ? sum18 : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 1 + cell15] = total66;
        __syncthreads();
        for (int i67 = threadIdx.x; i67 < 1; i67 += 256) {
            double total68 = 0.0;
            for (int warp69 = 0; warp69 < 8; ++warp69) total68 += tf_warps[warp69 * 1 + i67];
            tf_sums[(cell15 + i67)] = total68;
        }
        __syncthreads();
    }
    __syncthreads();
    const long long to70 = ((((long long)outer7 * 64) + ((long long)outer5 * 1)) + ((long long)(chunk1 + columns3) * n30));
    for (int box71 = threadIdx.x; box71 < 1; box71 += 256) {
        double sum72 = 0.0;
        static const unsigned char tf_intervals[] = {0};
        const unsigned char* of73 = tf_intervals + box71;
        sum72 += tf_sums[0 + of73[0]];
        tf_store(p1 + ((to70 + box71)), sum72);
    }
}
"""

TRAIN_PREPARE = r"""
__global__ void __launch_bounds__(256) train_prepare(const STORED* __restrict__ p0, float* p1, float* p2, const STORED* __restrict__ p3, float* p4) {
    TF_BESIDE();
    for (int block0 = blockIdx.x; block0 < 4033; block0 += gridDim.x) {
        if (block0 < 4000) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 1024000) {
                const tf_index i3 = t2 / 5, i4 = (t2 - (i3 * 5)), i5 = i3 / 5, i6 = (i3 - (i5 * 5)), i7 = i5 / 5;
                const tf_index i8 = (i5 - (i7 * 5)), i9 = i7 / 128, i10 = (i7 - (i9 * 128));
                const float v11 = tf_load<float>(p0 + (((((i9 * 16000) + (i10 * 125)) + (i8 * 25)) + (i6 * 5)) + i4));
                const float v12 = v11 * 2.0f;
                tf_store(p1 + (((((i9 * 16000) + (i10 * 125)) + (i8 * 25)) + (i6 * 5)) + i4), v12);
            }
        } else if (block0 < 4032) {
            const int block13 = block0 - 4000;
            const tf_index t14 = (tf_index)block13 * 256 + threadIdx.x;
            if (t14 < 8192) {
                const tf_index i15 = t14 / 128, i16 = (t14 - (i15 * 128));
                const float v17 = tf_load<float>(p0 + ((i15 * 16000) + (i16 * 125))), v18 = v17 * 2.0f;
                const float v19 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 25)), v20 = v19 * 2.0f;
                const float v21 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 50)), v22 = v21 * 2.0f;
                const float v23 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 75)), v24 = v23 * 2.0f;
                const float v25 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 100)), v26 = v25 * 2.0f;
                const double v27 = (double)v18 * 1.0 + (double)v20 * 1.0 + (double)v22 * 1.0 + (double)v24 * 1.0 + (double)v26 * 1.0;
                const float v28 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 5)), v29 = v28 * 2.0f;
                const float v30 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 5)), v31 = v30 * 2.0f;
                const float v32 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 5)), v33 = v32 * 2.0f;
                const float v34 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 5)), v35 = v34 * 2.0f;
                const float v36 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 5)), v37 = v36 * 2.0f;
                const double v38 = (double)v29 * 1.0 + (double)v31 * 1.0 + (double)v33 * 1.0 + (double)v35 * 1.0 + (double)v37 * 1.0;
                const float v39 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 10)), v40 = v39 * 2.0f;
                const float v41 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 10)), v42 = v41 * 2.0f;
                const float v43 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 10)), v44 = v43 * 2.0f;
                const float v45 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 10)), v46 = v45 * 2.0f;
                const float v47 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 10)), v48 = v47 * 2.0f;
                const double v49 = (double)v40 * 1.0 + (double)v42 * 1.0 + (double)v44 * 1.0 + (double)v46 * 1.0 + (double)v48 * 1.0;
                const float v50 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 15)), v51 = v50 * 2.0f;
                const float v52 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 15)), v53 = v52 * 2.0f;
                const float v54 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 15)), v55 = v54 * 2.0f;
                const float v56 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 15)), v57 = v56 * 2.0f;
                const float v58 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 15)), v59 = v58 * 2.0f;
                const double v60 = (double)v51 * 1.0 + (double)v53 * 1.0 + (double)v55 * 1.0 + (double)v57 * 1.0 + (double)v59 * 1.0;
                const float v61 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 20)), v62 = v61 * 2.0f;
                const float v63 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 20)), v64 = v63 * 2.0f;
                const float v65 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 20)), v66 = v65 * 2.0f;
                const float v67 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 20)), v68 = v67 * 2.0f;
                const float v69 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 20)), v70 = v69 * 2.0f;
                const double v71 = (double)v62 * 1.0 + (double)v64 * 1.0 + (double)v66 * 1.0 + (double)v68 * 1.0 + (double)v70 * 1.0;
                const double v72 = (double)v27 * 1.0 + (double)v38 * 1.0 + (double)v49 * 1.0 + (double)v60 * 1.0 + (double)v71 * 1.0;
                const float v73 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 1)), v74 = v73 * 2.0f;
                const float v75 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 1)), v76 = v75 * 2.0f;
                const float v77 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 1)), v78 = v77 * 2.0f;
                const float v79 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 1)), v80 = v79 * 2.0f;
                const float v81 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 1)), v82 = v81 * 2.0f;
                const double v83 = (double)v74 * 1.0 + (double)v76 * 1.0 + (double)v78 * 1.0 + (double)v80 * 1.0 + (double)v82 * 1.0;
                const float v84 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 1)), v85 = v84 * 2.0f;
                const float v86 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 1)), v87 = v86 * 2.0f;
                const float v88 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 1)), v89 = v88 * 2.0f;
                const float v90 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 1)), v91 = v90 * 2.0f;
                const float v92 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 1)), v93 = v92 * 2.0f;
                const double v94 = (double)v85 * 1.0 + (double)v87 * 1.0 + (double)v89 * 1.0 + (double)v91 * 1.0 + (double)v93 * 1.0;
                const float v95 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 1)), v96 = v95 * 2.0f;
                const float v97 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 1)), v98 = v97 * 2.0f;
                const float v99 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 1)), v100 = v99 * 2.0f;
                const float v101 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 1)), v102 = v101 * 2.0f;
                const float v103 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 1)), v104 = v103 * 2.0f;
                const double v105 = (double)v96 * 1.0 + (double)v98 * 1.0 + (double)v100 * 1.0 + (double)v102 * 1.0 + (double)v104 * 1.0;
                const float v106 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 1)), v107 = v106 * 2.0f;
                const float v108 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 1)), v109 = v108 * 2.0f;
                const float v110 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 1)), v111 = v110 * 2.0f;
                const float v112 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 1)), v113 = v112 * 2.0f;
                const float v114 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 1)), v115 = v114 * 2.0f;
                const double v116 = (double)v107 * 1.0 + (double)v109 * 1.0 + (double)v111 * 1.0 + (double)v113 * 1.0 + (double)v115 * 1.0;
                const float v117 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 1)), v118 = v117 * 2.0f;
                const float v119 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 1)), v120 = v119 * 2.0f;
                const float v121 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 1)), v122 = v121 * 2.0f;
                const float v123 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 1)), v124 = v123 * 2.0f;
                const float v125 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 1)), v126 = v125 * 2.0f;
                const double v127 = (double)v118 * 1.0 + (double)v120 * 1.0 + (double)v122 * 1.0 + (double)v124 * 1.0 + (double)v126 * 1.0;
                const double v128 = (double)v83 * 1.0 + (double)v94 * 1.0 + (double)v105 * 1.0 + (double)v116 * 1.0 + (double)v127 * 1.0;
                const float v129 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 2)), v130 = v129 * 2.0f;
                const float v131 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 2)), v132 = v131 * 2.0f;
                const float v133 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 2)), v134 = v133 * 2.0f;
                const float v135 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 2)), v136 = v135 * 2.0f;
                const float v137 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 2)), v138 = v137 * 2.0f;
                const double v139 = (double)v130 * 1.0 + (double)v132 * 1.0 + (double)v134 * 1.0 + (double)v136 * 1.0 + (double)v138 * 1.0;
                const float v140 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 2)), v141 = v140 * 2.0f;
                const float v142 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 2)), v143 = v142 * 2.0f;
                const float v144 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 2)), v145 = v144 * 2.0f;
                const float v146 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 2)), v147 = v146 * 2.0f;
                const float v148 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 2)), v149 = v148 * 2.0f;
                const double v150 = (double)v141 * 1.0 + (double)v143 * 1.0 + (double)v145 * 1.0 + (double)v147 * 1.0 + (double)v149 * 1.0;
                const float v151 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 2)), v152 = v151 * 2.0f;
                const float v153 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 2)), v154 = v153 * 2.0f;
                const float v155 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 2)), v156 = v155 * 2.0f;
                const float v157 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 2)), v158 = v157 * 2.0f;
                const float v159 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 2)), v160 = v159 * 2.0f;
                const double v161 = (double)v152 * 1.0 + (double)v154 * 1.0 + (double)v156 * 1.0 + (double)v158 * 1.0 + (double)v160 * 1.0;
                const float v162 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 2)), v163 = v162 * 2.0f;
                const float v164 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 2)), v165 = v164 * 2.0f;
                const float v166 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 2)), v167 = v166 * 2.0f;
                const float v168 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 2)), v169 = v168 * 2.0f;
                const float v170 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 2)), v171 = v170 * 2.0f;
                const double v172 = (double)v163 * 1.0 + (double)v165 * 1.0 + (double)v167 * 1.0 + (double)v169 * 1.0 + (double)v171 * 1.0;
                const float v173 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 2)), v174 = v173 * 2.0f;
                const float v175 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 2)), v176 = v175 * 2.0f;
                const float v177 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 2)), v178 = v177 * 2.0f;
                const float v179 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 2)), v180 = v179 * 2.0f;
                const float v181 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 2)), v182 = v181 * 2.0f;
                const double v183 = (double)v174 * 1.0 + (double)v176 * 1.0 + (double)v178 * 1.0 + (double)v180 * 1.0 + (double)v182 * 1.0;
                const double v184 = (double)v139 * 1.0 + (double)v150 * 1.0 + (double)v161 * 1.0 + (double)v172 * 1.0 + (double)v183 * 1.0;
                const float v185 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 3)), v186 = v185 * 2.0f;
                const float v187 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 3)), v188 = v187 * 2.0f;
                const float v189 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 3)), v190 = v189 * 2.0f;
                const float v191 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 3)), v192 = v191 * 2.0f;
                const float v193 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 3)), v194 = v193 * 2.0f;
                const double v195 = (double)v186 * 1.0 + (double)v188 * 1.0 + (double)v190 * 1.0 + (double)v192 * 1.0 + (double)v194 * 1.0;
                const float v196 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 3)), v197 = v196 * 2.0f;
                const float v198 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 3)), v199 = v198 * 2.0f;
                const float v200 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 3)), v201 = v200 * 2.0f;
                const float v202 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 3)), v203 = v202 * 2.0f;
                const float v204 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 3)), v205 = v204 * 2.0f;
                const double v206 = (double)v197 * 1.0 + (double)v199 * 1.0 + (double)v201 * 1.0 + (double)v203 * 1.0 + (double)v205 * 1.0;
                const float v207 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 3)), v208 = v207 * 2.0f;
                const float v209 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 3)), v210 = v209 * 2.0f;
                const float v211 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 3)), v212 = v211 * 2.0f;
                const float v213 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 3)), v214 = v213 * 2.0f;
                const float v215 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 3)), v216 = v215 * 2.0f;
                const double v217 = (double)v208 * 1.0 + (double)v210 * 1.0 + (double)v212 * 1.0 + (double)v214 * 1.0 + (double)v216 * 1.0;
                const float v218 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 3)), v219 = v218 * 2.0f;
                const float v220 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 3)), v221 = v220 * 2.0f;
                const float v222 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 3)), v223 = v222 * 2.0f;
                const float v224 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 3)), v225 = v224 * 2.0f;
                const float v226 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 3)), v227 = v226 * 2.0f;
                const double v228 = (double)v219 * 1.0 + (double)v221 * 1.0 + (double)v223 * 1.0 + (double)v225 * 1.0 + (double)v227 * 1.0;
                const float v229 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 3)), v230 = v229 * 2.0f;
                const float v231 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 3)), v232 = v231 * 2.0f;
                const float v233 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 3)), v234 = v233 * 2.0f;
                const float v235 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 3)), v236 = v235 * 2.0f;
                const float v237 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 3)), v238 = v237 * 2.0f;
                const double v239 = (double)v230 * 1.0 + (double)v232 * 1.0 + (double)v234 * 1.0 + (double)v236 * 1.0 + (double)v238 * 1.0;
                const double v240 = (double)v195 * 1.0 + (double)v206 * 1.0 + (double)v217 * 1.0 + (double)v228 * 1.0 + (double)v239 * 1.0;
                const float v241 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 4)), v242 = v241 * 2.0f;
                const float v243 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 4)), v244 = v243 * 2.0f;
                const float v245 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 4)), v246 = v245 * 2.0f;
                const float v247 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 4)), v248 = v247 * 2.0f;
                const float v249 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 4)), v250 = v249 * 2.0f;
                const double v251 = (double)v242 * 1.0 + (double)v244 * 1.0 + (double)v246 * 1.0 + (double)v248 * 1.0 + (double)v250 * 1.0;
                const float v252 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 4)), v253 = v252 * 2.0f;
                const float v254 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 4)), v255 = v254 * 2.0f;
                const float v256 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 4)), v257 = v256 * 2.0f;
                const float v258 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 4)), v259 = v258 * 2.0f;
                const float v260 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 4)), v261 = v260 * 2.0f;
                const double v262 = (double)v253 * 1.0 + (double)v255 * 1.0 + (double)v257 * 1.0 + (double)v259 * 1.0 + (double)v261 * 1.0;
                const float v263 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 4)), v264 = v263 * 2.0f;
                const float v265 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 4)), v266 = v265 * 2.0f;
                const float v267 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 4)), v268 = v267 * 2.0f;
                const float v269 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 4)), v270 = v269 * 2.0f;
                const float v271 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 4)), v272 = v271 * 2.0f;
                const double v273 = (double)v264 * 1.0 + (double)v266 * 1.0 + (double)v268 * 1.0 + (double)v270 * 1.0 + (double)v272 * 1.0;
                const float v274 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 4)), v275 = v274 * 2.0f;
                const float v276 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 4)), v277 = v276 * 2.0f;
                const float v278 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 4)), v279 = v278 * 2.0f;
                const float v280 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 4)), v281 = v280 * 2.0f;
                const float v282 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 4)), v283 = v282 * 2.0f;
                const double v284 = (double)v275 * 1.0 + (double)v277 * 1.0 + (double)v279 * 1.0 + (double)v281 * 1.0 + (double)v283 * 1.0;
                const float v285 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 4)), v286 = v285 * 2.0f;
                const float v287 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 4)), v288 = v287 * 2.0f;
                const float v289 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 4)), v290 = v289 * 2.0f;
                const float v291 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 4)), v292 = v291 * 2.0f;
                const float v293 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 4)), v294 = v293 * 2.0f;
                const double v295 = (double)v286 * 1.0 + (double)v288 * 1.0 + (double)v290 * 1.0 + (double)v292 * 1.0 + (double)v294 * 1.0;
                const double v296 = (double)v251 * 1.0 + (double)v262 * 1.0 + (double)v273 * 1.0 + (double)v284 * 1.0 + (double)v295 * 1.0;
                const double v297 = (double)v72 * 1.0 + (double)v128 * 1.0 + (double)v184 * 1.0 + (double)v240 * 1.0 + (double)v296 * 1.0;
                tf_store(p2 + ((i15 * 128) + i16), v297);
            }
        } else {
            const int block298 = block0 - 4032;
            const tf_index t299 = (tf_index)block298 * 256 + threadIdx.x;
            if (t299 < 128) {
                const float v300 = tf_load<float>(p3 + t299), v301 = v300 * 2.0f;
                tf_store(p4 + t299, v301);
            }
        }
    }
    TF_AFTER();
}
"""

TRAIN_MOMENTS_TAIL_3 = r"""
__global__ void __launch_bounds__(256) train_moments_tail(const double* p0, double* p1, const double* p2, const float* p3, double* p4, int batch, int count_3, int n7, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < 1; block0 += gridDim.x) {
        {
            const tf_index t1 = (tf_index)block0 * 256 + threadIdx.x;
            if (t1 < 64) {
                double a2 = 0.0;
                for (tf_index r3 = 0; r3 < batch; ++r3) {
                    double a4 = 0.0;
                    for (tf_index r5 = 0; r5 < count_3; ++r5) {
                        const double v6 = (double)p0[(((r3 * 64) + t1) + (r5 * n7))];
                        a4 += v6;
                    }
                    const double v7 = (double)(a4);
                    a2 += v7;
                }
                const double v8 = (double)(a2 / (double)batch);
                tf_store(p1 + t1, v8);
            }
        }
    }
    TF_CLUSTER_BARRIER();
    for (int block9 = blockIdx.x; block9 < 16; block9 += gridDim.x) {
        {
            const int lane10 = threadIdx.x % 8, slice11 = threadIdx.x / 8;
            const tf_index o12 = (tf_index)block9 * 8 + lane10, o13 = min(o12, (tf_index)(128 - 1));
            double a14 = 0.0;
            #pragma unroll 4
            for (tf_index t15 = slice11; t15 < 64; t15 += 32) {
                const double v16 = tf_load<double>(p2 + t15);
                const float v17 = tf_load<float>(p3 + ((t15 * 128) + o13));
                a14 += ((double)v16 * (double)v17);
            }
            const int s18 = slice11 * 8 + lane10;
            tf_shared[s18] = (double)a14;
            __syncthreads();
            for (int half19 = 16; half19 > 0; half19 /= 2) {
                if (slice11 < half19) {
                    const int s20 = s18 + half19 * 8;
                    a14 += tf_shared[s20];
                    tf_shared[s18] = (double)a14;
                }
                __syncthreads();
            }
            if (slice11 == 0 && o12 < 128) {
                const double v21 = (double)a14, v22 = v21 * scale0;
                tf_store(p4 + o13, v22);
            }
            __syncthreads();
        }
    }
}

__global__ void __launch_bounds__(256) train_moments_tail_3(const double* p0, const float* p1, STORED* p2, float* p3, const double* p4, const float* p5, float* p6, int count_3, int n18, int count_5, int count8, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count_5; block0 += gridDim.x) {
        if (block0 < 1) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 128) {
                const double v3 = tf_load<double>(p0 + t2);
                const float v4 = tf_load<float>(p1 + t2);
                const double v5 = v3 + (double)v4;
                tf_store(p2 + t2, v5);
            }
        } else if (block0 < 2) {
            const int block6 = block0 - 1;
            const tf_index t7 = (tf_index)block6 * 256 + threadIdx.x;
            if (t7 < 128) {
                const double v8 = tf_load<double>(p0 + t7), v9 = -v8;
                tf_store(p3 + t7, v9);
            }
        } else {
            const int block10 = block0 - 2, lane11 = threadIdx.x % 8, slice12 = threadIdx.x / 8;
            const tf_index o13 = (tf_index)block10 * 8 + lane11, o14 = min(o13, (tf_index)(count8 - 1)), i15 = o14 / 128;
            const tf_index i16 = (o14 - (i15 * 128));
            double a17 = 0.0;
            #pragma unroll 4
            for (tf_index t18 = slice12; t18 < 64; t18 += 32) {
                double a19 = 0.0;
                for (tf_index r20 = 0; r20 < count_3; ++r20) {
                    const double v21 = (double)p4[(((i15 * 64) + t18) + (r20 * n18))];
                    a19 += v21;
                }
                const double v22 = (double)(a19);
                const float v23 = tf_load<float>(p5 + ((t18 * 128) + i16));
                a17 += ((double)v22 * (double)v23);
            }
            const int s24 = slice12 * 8 + lane11;
            tf_shared[s24] = (double)a17;
            __syncthreads();
            for (int half25 = 16; half25 > 0; half25 /= 2) {
                if (slice12 < half25) {
                    const int s26 = s24 + half25 * 8;
                    a17 += tf_shared[s26];
                    tf_shared[s24] = (double)a17;
                }
                __syncthreads();
            }
            if (slice12 == 0 && o13 < count8) {
                const double v27 = (double)a17, v28 = v27 * scale0, v29 = tf_load<double>(p0 + i16), v30 = v28 - v29;
                tf_store(p6 + ((i15 * 128) + i16), v30);
            }
            __syncthreads();
        }
    }
}
"""

OPENING = r"""
namespace train_pack_ {
"""

CONSTANTS = r"""
// Packs canonical weights [G, Cin, Cout, K...] as operand tiles: [part][K step][tile][K half][8 rows of 8][4 channels].
__constant__ short tap_of[] = {124, 124, 124, 124, 123, 123, 123, 123, 122, 122, 122, 122, 121, 121, 121, 121, 120, 120, 120, 120, 119, 119, 119, 119, 118, 118, 118, 118, 117, 117, 117, 117, 116, 116, 116, 116, 115, 115, 115, 115, 114, 114, 114, 114, 113, 113, 113, 113, 112, 112, 112, 112, 111, 111, 111, 111, 110, 110, 110, 110, 109, 109, 109, 109, 108, 108, 108, 108, 107, 107, 107, 107, 106, 106, 106, 106, 105, 105, 105, 105, 104, 104, 104, 104, 103, 103, 103, 103, 102, 102, 102, 102, 101, 101, 101, 101, 100, 100, 100, 100, 99, 99, 99, 99, 98, 98, 98, 98, 97, 97, 97, 97, 96, 96, 96, 96, 95, 95, 95, 95, 94, 94, 94, 94, 93, 93, 93, 93, 92, 92, 92, 92, 91, 91, 91, 91, 90, 90, 90, 90, 89, 89, 89, 89, 88, 88, 88, 88, 87, 87, 87, 87, 86, 86, 86, 86, 85, 85, 85, 85, 84, 84, 84, 84, 83, 83, 83, 83, 82, 82, 82, 82, 81, 81, 81, 81, 80, 80, 80, 80, 79, 79, 79, 79, 78, 78, 78, 78, 77, 77, 77, 77, 76, 76, 76, 76, 75, 75, 75, 75, 74, 74, 74, 74, 73, 73, 73, 73, 72, 72, 72, 72, 71, 71, 71, 71, 70, 70, 70, 70, 69, 69, 69, 69, 68, 68, 68, 68, 67, 67, 67, 67, 66, 66, 66, 66, 65, 65, 65, 65, 64, 64, 64, 64, 63, 63, 63, 63, 62, 62, 62, 62, 61, 61, 61, 61, 60, 60, 60, 60, 59, 59, 59, 59, 58, 58, 58, 58, 57, 57, 57, 57, 56, 56, 56, 56, 55, 55, 55, 55, 54, 54, 54, 54, 53, 53, 53, 53, 52, 52, 52, 52, 51, 51, 51, 51, 50, 50, 50, 50, 49, 49, 49, 49, 48, 48, 48, 48, 47, 47, 47, 47, 46, 46, 46, 46, 45, 45, 45, 45, 44, 44, 44, 44, 43, 43, 43, 43, 42, 42, 42, 42, 41, 41, 41, 41, 40, 40, 40, 40, 39, 39, 39, 39, 38, 38, 38, 38, 37, 37, 37, 37, 36, 36, 36, 36, 35, 35, 35, 35, 34, 34, 34, 34, 33, 33, 33, 33, 32, 32, 32, 32, 31, 31, 31, 31, 30, 30, 30, 30, 29, 29, 29, 29, 28, 28, 28, 28, 27, 27, 27, 27, 26, 26, 26, 26, 25, 25, 25, 25, 24, 24, 24, 24, 23, 23, 23, 23, 22, 22, 22, 22, 21, 21, 21, 21, 20, 20, 20, 20, 19, 19, 19, 19, 18, 18, 18, 18, 17, 17, 17, 17, 16, 16, 16, 16, 15, 15, 15, 15, 14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0};
"""

TRAIN_PACK = r"""
__global__ void __launch_bounds__(256) train_pack(const float* __restrict__ w, unsigned char* __restrict__ packed, WeightStrides ws) {
    const int at = blockIdx.x * 256 + threadIdx.x;          // one 16-byte vector: a row's channels of one K half
    if (at >= 256000) return;
    constexpr int TILES = 250, KSTEPS = 8, LANES = 4, CIN = 64, COUT = 128;
    constexpr int SEGMENT = 64, SEGMENTS = 1, MGROUPS = 1, PAIRS = 0;
    const int row = at % 64, half = at / 64 % 2, tile = at / 128 % TILES, step = at / (128 * TILES) % KSTEPS, part = at / (128 * TILES * KSTEPS);
    const int segment = row / SEGMENT, within = row % SEGMENT;
    const int tap = tap_of[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * 2 + block_of[tile]) * 64 + within;
    const int first = PAIRS ? 0 : step * 2 * LANES + half * LANES;
    const float* from = w + part / MGROUPS * ws.g + co * ws.o + tap / 25 * ws.d + tap / 5 % 5 * ws.h + tap % 5 * ws.w;
    float v[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) v[j] = tap >= 0 && co < COUT && first + j < CIN ? tf_load<float>(from + (first + j) * ws.i) : 0;
    const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));
    *(uint4*)(packed + (long long)(at / 128) * 2048 + (half * 64 + row) * 16) = high;
}
"""

CONSTANTS_2 = r"""
}
using train_pack_::train_pack;

namespace train_dense_ {
"""

CONSTANTS_3 = r"""
// Dense tiles: run 1x1x4x36 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 2x4 slabs 4x10 chunks 2x64 stores 0 registers 88/0/208 skips
//   axis d: period 1 advance 1 taps 5
//   axis h: period 1 advance 1 taps 5
//   axis w: period 1 advance 1 taps 5
constexpr int STORE_GROUPS = 0;
constexpr int TILE_H = 4, RUN_H = 4, EXTENT_H = 8, TILE_W = 36, RUN_W = 36, EXTENT_W = 40, FIRST_W = -4, PIXELS = 1600, PLANE = 1600;
constexpr int RUN_PIXELS = 160, LANES = 4, TERMS = 1, STAGE_CHANNELS = 8, KSTAGES = 8, KSTEPS = 8, PIECES = 4, SLABS = 4, SLAB_BYTES = 20480;
constexpr int TILE_BYTES = 2048, CHUNKS = 3, ROW_LENGTH = 160, ACCUMULATORS = 80, STAGE_BYTES = 51200, RAW_BYTES = 16384, STAGES_AT = 81920;
constexpr int RAW_AT = 184320, CHUNKS_AT = 217088, TABLES_AT = 217088, PLACES_AT = 218112, HELD_VALUES = 32;
"""

CONSTANTS_4 = r"""
typedef float ELEMENT;
"""

CONSTANTS_5 = r"""
typedef float REAL;
"""

SLAB_COUNT = r"""
static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * 10, 250); }
static __device__ __forceinline__ int slab_count(int) { return 25; }
__constant__ int slab_reaches[] = {-4, -4, -4, -4, -4, -4, -3, -3, -4, -4, -2, -2, -4, -4, -1, -1, -4, -4, 0, 0, -3, -3, -4, -4, -3, -3, -3, -3, -3, -3, -2, -2, -3, -3, -1, -1, -3, -3, 0, 0, -2, -2, -4, -4, -2, -2, -3, -3, -2, -2, -2, -2, -2, -2, -1, -1, -2, -2, 0, 0, -1, -1, -4, -4, -1, -1, -3, -3, -1, -1, -2, -2, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, -4, -4, 0, 0, -3, -3, 0, 0, -2, -2, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};   // first and last shift along d, along h
"""

SLAB_REACH = r"""
static __device__ __forceinline__ const int* slab_reach(int variant, int slab) { return slab_reaches + 4 * (slab); }
"""

PRODUCT = r"""
static __device__ __forceinline__ void product(float (&d)[80], unsigned long long a, unsigned long long b, int accumulate) {
#ifdef __CUDACC__
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %82, 0;\nwgmma.mma_async.sync.aligned.m64n160k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79}, %80, %81, p, 1, 1;\n}"
        : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]),"+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67]),"+f"(d[68]),"+f"(d[69]),"+f"(d[70]),"+f"(d[71]),"+f"(d[72]),"+f"(d[73]),"+f"(d[74]),"+f"(d[75]),"+f"(d[76]),"+f"(d[77]),"+f"(d[78]),"+f"(d[79]) : "l"(a), "l"(b), "r"(accumulate));
#else
    multiply_group<ELEMENT>(d, a, b, accumulate, [](ELEMENT e) { return tf_to<float>(e); });
#endif
}
"""

PUT_BLOCK = r"""
struct Barriers {
    unsigned long long full[STAGES], empty[STAGES];           // patches: load -> product
    unsigned long long raw_full[RAW], raw_empty[RAW];         // boxes of the raw patch: memory -> load
    unsigned long long weights_full[SLABS], weights_empty[SLABS];
    unsigned long long chunk_full[BUFFERS], chunk_empty[BUFFERS];  // accumulators: product -> store
};

struct Operands {
    const float* r0; Strides rs0;
    REAL* partial;
};

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

// Whether any window of a slab of weights meets the image, for this tile; else slab and products are left out.
static __device__ __forceinline__ bool slab_meets(int slab, const Place& at, const Sizes& s) {
    if (!SKIPS) return true;
    const int* reach = slab_reach(at.variant, slab);             // first and last shift along d, along h
    return ADVANCE_D * (at.u[1] + reach[0]) < s.in[1] && at.u[1] + TILE_D - 1 + reach[1] >= 0 &&
           ADVANCE_H * (at.u[2] + reach[2]) < s.in[2] && at.u[2] + TILE_H - 1 + reach[3] >= 0;
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
constexpr bool SETTLED = LOAD == LOAD_ROWS && PIECES == 1;    // a thread's place in the patch is the same at every stage
constexpr bool TABLED = LOAD == LOAD_ROWS && PIECES > 1;      // its places, one for each piece, are kept in shared memory

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
__constant__ int windows[] = {0, 1, 2, 3, 4, 40, 41, 42, 43, 44, 80, 81, 82, 83, 84, 120, 121, 122, 123, 124, 160, 161, 162, 163, 164, 320, 321, 322, 323, 324, 360, 361, 362, 363, 364, 400, 401, 402, 403, 404, 440, 441, 442, 443, 444, 480, 481, 482, 483, 484, 640, 641, 642, 643, 644, 680, 681, 682, 683, 684, 720, 721, 722, 723, 724, 760, 761, 762, 763, 764, 800, 801, 802, 803, 804, 960, 961, 962, 963, 964, 1000, 1001, 1002, 1003, 1004, 1040, 1041, 1042, 1043, 1044, 1080, 1081, 1082, 1083, 1084, 1120, 1121, 1122, 1123, 1124, 1280, 1281, 1282, 1283, 1284, 1320, 1321, 1322, 1323, 1324, 1360, 1361, 1362, 1363, 1364, 1400, 1401, 1402, 1403, 1404, 1440, 1441, 1442, 1443, 1444};   // first pixel of each tap's window

template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, const Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {
    unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;
    (void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;
    bool met = false;
    for (int part = 0; part < 25; part++) {
        if (!slab_meets(part, at, s)) continue;
        met = true;
        held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
        tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
        tiles += WG * (TILE_BYTES / 16);
        const int* window = windows + part * 5;
        products_begin();
       {
            product(acc[0], tiles + 0ll, pixels + (window[0] + 0), 1);
        }
       {
            product(acc[0], tiles + 256ll, pixels + (window[1] + 0), 1);
        }
       {
            product(acc[0], tiles + 512ll, pixels + (window[2] + 0), 1);
        }
       {
            product(acc[0], tiles + 768ll, pixels + (window[3] + 0), 1);
        }
       {
            product(acc[0], tiles + 1024ll, pixels + (window[4] + 0), 1);
        }
        products_commit();
        products_wait<1>();
        held.release(b);
        held.slab = slab;
        if (++slab == SLABS) { slab = 0; slab_turn++; }
    }
    if (!met) held.release(b);
    held.stage = slot;
}
constexpr int RESULTS = 40;
__constant__ short result_pixels[] = {0, 1, 8, 9, 16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57, 64, 65, 72, 73, 80, 81, 88, 89, 96, 97, 104, 105, 112, 113, 120, 121, 128, 129, 136, 137, 144, 145, 152, 153};   // each result's first pixel, but for the lane's own
"""

CONSTANTS_6 = r"""
typedef unsigned long long Mask;
"""

CONSTANTS_7 = r"""
// The tile program on accumulators. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the columns 8j + 2(lane % 4) + {0, 1}.
template <int WG> struct Fragments {
    const REAL* table;
    const Sizes& s;
    const Operands& operands;
    int column, channel, segment;     // of the lane: first column; first row's channel and segment
    bool counts;                      // false: another lane has the same results
    struct Inside { unsigned ends, other_ends; Mask mask, other; };   // of this tile and of the last one with other ends
    Inside inside[MASKS][MASK_ROWS];  // bit k: result k lies in the output
    REAL sums[RESULT_ROWS][STATS];
    template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {
#pragma unroll
        for (int i = 0; i < N; i++) r[i] = from[SEGMENTS > 1 ? 0 : i * 8];
    }
    __device__ __forceinline__ void clear(REAL (&to)[RESULT_ROWS][STATS]) {
#pragma unroll
        for (int i = 0; i < RESULT_ROWS; i++) {
            to[i][0] = 0.f;
            to[i][1] = 0.f;
        }
    }
    __device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes& sizes, const Operands& given, int t) : table((const REAL*)(shared + TABLES_AT)), s(sizes), operands(given) {
        const int lane = t % 32, row = lane / 4, warp = t / 32;
        column = lane % 4 * 2;
        channel = (SPLIT_CHANNELS ? WG * 64 : 0) + (SEGMENTS > 1 ? warp * (16 / SEGMENTS) + row % (16 / SEGMENTS) : warp * 16 + row);
        segment = SEGMENTS >= 4 ? row / 4 * 2 + (SEGMENTS == 8 ? row / 2 % 2 * 4 : 0) : 0;   // the second row: one more
        counts = true;
        clear(sums);
#pragma unroll
        for (int i = 0; i < MASKS * MASK_ROWS; i++) inside[i / MASK_ROWS][i % MASK_ROWS] = Inside{0, 0, 0, 0};
    }
    __device__ __forceinline__ Mask find_inside(Inside& known, const Place& at, int code) {
        const unsigned end_N = max(0, min(RUN_N, (s.out[0] - 0 + PERIOD_N - 1) / PERIOD_N - at.u[0] - WG * SECOND_N));
        const unsigned end_D = max(0, min(RUN_D, (s.out[1] - (code >> 16) + PERIOD_D - 1) / PERIOD_D - at.u[1] - WG * SECOND_D));
        const unsigned end_H = max(0, min(RUN_H, (s.out[2] - (code >> 8 & 255) + PERIOD_H - 1) / PERIOD_H - at.u[2] - WG * SECOND_H));
        const unsigned end_W = max(0, min(RUN_W, (s.out[3] - (code & 255) + PERIOD_W - 1) / PERIOD_W - at.u[3] - WG * SECOND_W));
        const unsigned now = code < 0 || !counts ? 0 : end_N << 24 | end_D << 16 | end_H << 8 | end_W;
        if (now == known.ends) return known.mask;
        const bool back = now == known.other_ends;
        Mask mask = back ? known.other : 0;
        known.other = known.mask;
        known.other_ends = known.ends;
        if (!back)
#pragma unroll 1
        for (int k = 0; k < RESULTS; k++) {
            const unsigned p = result_pixels[k] + column, r = p / EXTENT_W;
            if (p % EXTENT_W < end_W && r % EXTENT_H < end_H && r / EXTENT_H % EXTENT_D < end_D && r / (EXTENT_H * EXTENT_D) < end_N) mask |= (Mask)1 << k;
        }
        known.ends = now;
        return known.mask = mask;
    }
    __device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int tile) {
        const int group = at.fixed / MGROUPS, first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + channel, image = at.u[0];
        (void)group, (void)first_channel, (void)image;
#define CHANNEL(i) (first_channel + (SEGMENTS > 1 ? 0 : (i) * 8))
#define CHANNEL_OK(i) (CHANNEL(i) < COUT)
        REAL parts[RESULT_ROWS][STATS];
        clear(parts);
        constexpr int BATCH = 2, VECTOR = RESULTS;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            Mask mask[MASK_ROWS];
#pragma unroll
            for (int i = 0; i < MASK_ROWS; i++) mask[i] = find_inside(inside[b][i], at, segment_phases[((at.variant * 2 + WG) * BLOCKS + b) * SEGMENTS + segment + i]);
            REAL v26[BATCH][VECTOR];
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++) v26[i][e] = acc[b][e / 2 * 4 + i * 2 + e % 2];
            REAL r25[BATCH];
            load_rows(r25, table + 0 + group * COUT + CHANNEL(0));
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
            v26[i][e] += r25[i];
            REAL v27[BATCH][VECTOR];
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
            v27[i][e] = v26[i][e] * v26[i][e];
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
#pragma unroll
            for (int i = 0; i < BATCH; i++)
            if (mask[SEGMENTS > 1 ? i : 0] >> e & 1) {
                parts[SEGMENTS > 1 ? 0 : i][0] = parts[SEGMENTS > 1 ? 0 : i][0] + v27[i][e];
                parts[SEGMENTS > 1 ? 0 : i][1] = parts[SEGMENTS > 1 ? 0 : i][1] + v26[i][e];
            }
        }
#pragma unroll
        for (int i = 0; i < RESULT_ROWS; i++) {
            sums[i][0] = sums[i][0] + parts[i][0];
            sums[i][1] = sums[i][1] + parts[i][1];
        }
#undef CHANNEL
#undef CHANNEL_OK
    }
    __device__ __forceinline__ void write(REAL (&parts)[RESULT_ROWS][STATS], int channel_at, int channel_in_group, long long rows, long long row) {
#pragma unroll
        for (int i = 0; i < RESULT_ROWS; i++) {
            parts[i][0] = (parts[i][0] + __shfl_xor_sync(~0u, parts[i][0], 1));
            parts[i][1] = (parts[i][1] + __shfl_xor_sync(~0u, parts[i][1], 1));
            parts[i][0] = (parts[i][0] + __shfl_xor_sync(~0u, parts[i][0], 2));
            parts[i][1] = (parts[i][1] + __shfl_xor_sync(~0u, parts[i][1], 2));
            if (column == 0 && segment == 0 && channel_in_group + i * 8 < COUT) {
#pragma unroll
                for (int k = 0; k < STATS; k++) operands.partial[(k * rows + row) * 128 + channel_at + i * 8] = parts[i][k];
            }
        }
    }
    __device__ __forceinline__ void finish() {
        write(sums, channel, channel, gridDim.x * WRITERS, blockIdx.x * WRITERS + (WRITERS > 1 ? WG : 0));
    }
};
"""

TRAIN_DENSE = r"""
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

__global__ void __launch_bounds__(THREADS, 1) train_dense(const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed, Sizes s, Strides xs, const float* r0, Strides rs0, REAL* partial) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ Barriers b;
    const int t = threadIdx.x;
    const Operands operands{r0, rs0, partial};
    if (t == 0) {
        for (int i = 0; i < STAGES; i++) { barrier_init(shared_address(&b.full[i]), LOADERS); barrier_init(shared_address(&b.empty[i]), 256); }
        for (int i = 0; i < SLABS; i++) { barrier_init(shared_address(&b.weights_full[i]), FETCHERS); barrier_init(shared_address(&b.weights_empty[i]), 256); }
        for (int i = 0; i < BUFFERS; i++) { barrier_init(shared_address(&b.chunk_full[i]), JOINT ? 256 : 128); barrier_init(shared_address(&b.chunk_empty[i]), 128); }
        barrier_fence();
    }
for (int c = t; c < 128; c += THREADS) ((REAL*)(shared + TABLES_AT))[0 + c] = tf_load<REAL>(r0 + c * rs0.c);
for (int c = t; c < 128; c += THREADS) for (int g = 0; g < STORE_GROUPS; g++) ((REAL*)(shared + TABLES_AT + 512 + g * 5120))[0 + c] = 0.f;
for (int c = t; c < 128; c += THREADS) for (int g = 0; g < STORE_GROUPS; g++) ((REAL*)(shared + TABLES_AT + 512 + g * 5120))[128 + c] = 0.f;
    __syncthreads();
    const int role = __shfl_sync(~0u, t / 128, 0);
    if (role == 0) { registers_give<88>(); load_role(shared, b, x, packed, s, xs, operands, t); } else if (role == STORE_GROUPS + 1) { registers_take<208>(); product_role<0>(shared, b, s, operands, t % 128); } else if (role == STORE_GROUPS + 2) { registers_take<208>(); product_role<1>(shared, b, s, operands, t % 128); }
#endif
}
}
using train_dense_::train_dense;

namespace train_combine_ {
"""

TRAIN_COMBINE = r"""
static __device__ __forceinline__ State state_of(const REAL* p, long long at) { return State{*p, 0, 0}; }

__global__ void __launch_bounds__(1024, 1) train_combine(const REAL* in, double* out, Kept o, Reduced r, double scale) {
    TF_SEQUENCE();
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
    const long long total = o.count_1 * o.count_2 * o.count_3;
    const int blocks = (int)((total + 31) / 32), which = blockIdx.x / blocks;
    const long long at = (blockIdx.x % blocks) * 32ll + lane;
    in += which * 16896;
    out += which * 128;
    __shared__ State parts[32][32];
    State s = {0, 0, 0};
    if (at < total) {
        const REAL* from = in + at / (o.count_2 * o.count_3) * o.at_1 + at / o.count_3 % o.count_2 * o.at_2 + at % o.count_3 * o.at_3;
        for (long long k3 = 0; k3 < r.count_3; k3++)
            for (long long k2 = 0; k2 < r.count_2; k2++) {
                const REAL* p = from + k3 * r.at_3 + k2 * r.at_2 + part * r.at_1;
#pragma unroll 4
                for (long long k1 = part; k1 < r.count_1; k1 += 32, p += 32 * r.at_1) join(s, state_of(p, 0));
            }
    }
    parts[part][lane] = s;
    __syncthreads();
    if (part == 0 && at < total) {
#pragma unroll 4
        for (int k = 1; k < 32; k++) join(s, parts[k][lane]);
        out[at] = s.a * scale;
    }
}
}
using train_combine_::train_combine;
"""

TRAIN_DENSE_TAIL = r"""
__global__ void __launch_bounds__(256) train_dense_tail(const double* p0, const double* p1, STORED* p2, const float* p3, const STORED* __restrict__ p4, const STORED* __restrict__ p5, STORED* p6, int count_1, int count5, double scale0) {
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count_1; block0 += gridDim.x) {
        if (block0 < 1) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 128) {
                const double v3 = tf_load<double>(p0 + t2), v4 = tf_load<double>(p1 + t2), v5 = v4 * v4, v6 = v3 - v5;
                const double v7 = v6 * scale0;
                tf_store(p2 + t2, v7);
            }
        } else {
            const int block8 = block0 - 1;
            const tf_index t9 = (tf_index)block8 * 256 + threadIdx.x;
            if (t9 < count5) {
                const tf_index i10 = t9 / 128, i11 = (t9 - (i10 * 128));
                const float v12 = tf_load<float>(p3 + ((i10 * 128) + i11));
                const double v13 = tf_load<double>(p0 + i11), v14 = tf_load<double>(p1 + i11), v15 = v14 * v14;
                const double v16 = v13 - v15, v17 = v16 + 1.0000000000000001e-05, v18 = tf_rsqrt(v17);
                const float v19 = tf_load<float>(p4 + i11);
                const double v20 = v18 * (double)v19, v21 = (double)v12 * v20;
                const float v22 = tf_load<float>(p5 + i11);
                const double v23 = v21 + (double)v22;
                tf_store(p6 + ((i10 * 128) + i11), v23);
            }
        }
    }
}
"""

TRAIN_GENERAL_MOMENTS = r"""
__global__ void __launch_bounds__(256) train_general_moments(const STORED* __restrict__ p0, double* p1, int batch, int count_2, int n9, int depth_x_height_x_width, int n30, tf_divisor per_batch) {
    __shared__ double tf_warps[8], tf_sums[1];
    TF_SEQUENCE();
    const int q0 = ((int)blockIdx.x / 1), chunk1 = ((int)blockIdx.x - q0), q2 = q0 / 1, columns3 = q0 - q2, q4 = q2 / 64;
    const int outer5 = (q2 - (q4 * 64)), q6 = tf_quotient_of(q4, per_batch), outer7 = (q4 - (q6 * batch)), line8 = 0;
    const int place9 = (int)threadIdx.x, column10 = (((columns3 * 256) + place9)) * 1;
    const bool inside11 = line8 < 1;
    const int begin12 = chunk1 * count_2, end13 = min((begin12 + count_2), count_2);
    const STORED* __restrict__ from14 = p0 + (((long long)outer7 * n9) + ((long long)outer5 * depth_x_height_x_width));
    for (int cell15 = 0; cell15 < 1; ++cell15) {
        const int rows16 = end13 - begin12, count17 = rows16;
        double sum18 = 0.0;
        if (inside11 && count17 > 0) {
            for (int t19 = line8; t19 < count17; t19 += 8) {
                const int at20 = ((begin12 + t19)) * 256 + column10;
                const bool fits21 = at20 < depth_x_height_x_width;
                const int at22 = min(at20, depth_x_height_x_width - 1);
                const float v23 = tf_load<float>(from14 + at22);
                const int row24 = t19 + 1, row25 = min(row24, count17 - 1), at26 = ((begin12 + row25)) * 256 + column10;
                const bool fits27 = row24 < count17 && at26 < depth_x_height_x_width;
                const int at28 = min(at26, depth_x_height_x_width - 1);
                const float v29 = tf_load<float>(from14 + at28);
                const int row30 = t19 + 2, row31 = min(row30, count17 - 1), at32 = ((begin12 + row31)) * 256 + column10;
                const bool fits33 = row30 < count17 && at32 < depth_x_height_x_width;
                const int at34 = min(at32, depth_x_height_x_width - 1);
                const float v35 = tf_load<float>(from14 + at34);
                const int row36 = t19 + 3, row37 = min(row36, count17 - 1), at38 = ((begin12 + row37)) * 256 + column10;
                const bool fits39 = row36 < count17 && at38 < depth_x_height_x_width;
                const int at40 = min(at38, depth_x_height_x_width - 1);
                const float v41 = tf_load<float>(from14 + at40);
                const int row42 = t19 + 4, row43 = min(row42, count17 - 1), at44 = ((begin12 + row43)) * 256 + column10;
                const bool fits45 = row42 < count17 && at44 < depth_x_height_x_width;
                const int at46 = min(at44, depth_x_height_x_width - 1);
                const float v47 = tf_load<float>(from14 + at46);
                const int row48 = t19 + 5, row49 = min(row48, count17 - 1), at50 = ((begin12 + row49)) * 256 + column10;
                const bool fits51 = row48 < count17 && at50 < depth_x_height_x_width;
                const int at52 = min(at50, depth_x_height_x_width - 1);
                const float v53 = tf_load<float>(from14 + at52);
                const int row54 = t19 + 6, row55 = min(row54, count17 - 1), at56 = ((begin12 + row55)) * 256 + column10;
                const bool fits57 = row54 < count17 && at56 < depth_x_height_x_width;
                const int at58 = min(at56, depth_x_height_x_width - 1);
                const float v59 = tf_load<float>(from14 + at58);
                const int row60 = t19 + 7, row61 = min(row60, count17 - 1), at62 = ((begin12 + row61)) * 256 + column10;
                const bool fits63 = row60 < count17 && at62 < depth_x_height_x_width;
                const int at64 = min(at62, depth_x_height_x_width - 1);
                const float v65 = tf_load<float>(from14 + at64);
                sum18 += (double)((((fits21 ? (float)v23 : 0.0f) + (fits27 ? (float)v29 : 0.0f)) + ((fits33 ? (float)v35 : 0.0f) + (fits39 ? (float)v41 : 0.0f))) + (((fits45 ? (float)v47 : 0.0f) + (fits51 ? (float)v53 : 0.0f)) + ((fits57 ? (float)v59 : 0.0f) + (fits63 ? (float)v65 : 0.0f))));
            }
        }
        const double total66 = count17 > 0 ? tf_warp_sum(inside11 ? sum18 : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 1 + cell15] = total66;
        __syncthreads();
        for (int i67 = threadIdx.x; i67 < 1; i67 += 256) {
            double total68 = 0.0;
            for (int warp69 = 0; warp69 < 8; ++warp69) total68 += tf_warps[warp69 * 1 + i67];
            tf_sums[(cell15 + i67)] = total68;
        }
        __syncthreads();
    }
    __syncthreads();
    const long long to70 = ((((long long)outer7 * 64) + ((long long)outer5 * 1)) + ((long long)(chunk1 + columns3) * n30));
    for (int box71 = threadIdx.x; box71 < 1; box71 += 256) {
        double sum72 = 0.0;
        static const unsigned char tf_intervals[] = {0};
        const unsigned char* of73 = tf_intervals + box71;
        sum72 += tf_sums[0 + of73[0]];
        tf_store(p1 + ((to70 + box71)), sum72);
    }
}
"""

TRAIN_GENERAL_DENSE_5 = r"""
__global__ void __launch_bounds__(256) train_general_moments_tail(const double* p0, double* p1, const double* p2, const float* p3, double* p4, const double* p5, const float* p6, STORED* p7, float* p8, float* p9, int batch, int n7, int count_3, int count12, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < 1; block0 += gridDim.x) {
        {
            const tf_index t1 = (tf_index)block0 * 256 + threadIdx.x;
            if (t1 < 64) {
                double a2 = 0.0;
                for (tf_index r3 = 0; r3 < batch; ++r3) {
                    double a4 = 0.0;
                    for (tf_index r5 = 0; r5 < 1; ++r5) {
                        const double v6 = (double)p0[(((r3 * 64) + t1) + (r5 * n7))];
                        a4 += v6;
                    }
                    const double v7 = (double)(a4);
                    a2 += v7;
                }
                const double v8 = (double)(a2 / (double)batch);
                tf_store(p1 + t1, v8);
            }
        }
    }
    TF_CLUSTER_BARRIER();
    for (int block9 = blockIdx.x; block9 < 16; block9 += gridDim.x) {
        {
            const int lane10 = threadIdx.x % 8, slice11 = threadIdx.x / 8;
            const tf_index o12 = (tf_index)block9 * 8 + lane10, o13 = min(o12, (tf_index)(128 - 1));
            double a14 = 0.0;
            #pragma unroll 4
            for (tf_index t15 = slice11; t15 < 64; t15 += 32) {
                const double v16 = tf_load<double>(p2 + t15);
                const float v17 = tf_load<float>(p3 + ((t15 * 128) + o13));
                a14 += ((double)v16 * (double)v17);
            }
            const int s18 = slice11 * 8 + lane10;
            tf_shared[s18] = (double)a14;
            __syncthreads();
            for (int half19 = 16; half19 > 0; half19 /= 2) {
                if (slice11 < half19) {
                    const int s20 = s18 + half19 * 8;
                    a14 += tf_shared[s20];
                    tf_shared[s18] = (double)a14;
                }
                __syncthreads();
            }
            if (slice11 == 0 && o12 < 128) {
                const double v21 = (double)a14, v22 = v21 * scale0;
                tf_store(p4 + o13, v22);
            }
            __syncthreads();
        }
    }
    TF_CLUSTER_BARRIER();
    for (int block23 = blockIdx.x; block23 < count_3; block23 += gridDim.x) {
        if (block23 < 1) {
            const int block24 = block23;
            const tf_index t25 = (tf_index)block24 * 256 + threadIdx.x;
            if (t25 < 128) {
                const double v26 = tf_load<double>(p5 + t25);
                const float v27 = tf_load<float>(p6 + t25);
                const double v28 = v26 + (double)v27;
                tf_store(p7 + t25, v28);
            }
        } else if (block23 < 2) {
            const int block29 = block23 - 1;
            const tf_index t30 = (tf_index)block29 * 256 + threadIdx.x;
            if (t30 < 128) {
                const double v31 = tf_load<double>(p5 + t30), v32 = -v31;
                tf_store(p8 + t30, v32);
            }
        } else {
            const int block33 = block23 - 2, lane34 = threadIdx.x % 8, slice35 = threadIdx.x / 8;
            const tf_index o36 = (tf_index)block33 * 8 + lane34, o37 = min(o36, (tf_index)(count12 - 1)), i38 = o37 / 128;
            const tf_index i39 = (o37 - (i38 * 128));
            double a40 = 0.0;
            #pragma unroll 4
            for (tf_index t41 = slice35; t41 < 64; t41 += 32) {
                double a42 = 0.0;
                for (tf_index r43 = 0; r43 < 1; ++r43) {
                    const double v44 = (double)p0[(((i38 * 64) + t41) + (r43 * n7))];
                    a42 += v44;
                }
                const double v45 = (double)(a42);
                const float v46 = tf_load<float>(p3 + ((t41 * 128) + i39));
                a40 += ((double)v45 * (double)v46);
            }
            const int s47 = slice35 * 8 + lane34;
            tf_shared[s47] = (double)a40;
            __syncthreads();
            for (int half48 = 16; half48 > 0; half48 /= 2) {
                if (slice35 < half48) {
                    const int s49 = s47 + half48 * 8;
                    a40 += tf_shared[s49];
                    tf_shared[s47] = (double)a40;
                }
                __syncthreads();
            }
            if (slice35 == 0 && o36 < count12) {
                const double v50 = (double)a40, v51 = v50 * scale0, v52 = tf_load<double>(p5 + i39), v53 = v51 - v52;
                tf_store(p9 + ((i38 * 128) + i39), v53);
            }
            __syncthreads();
        }
    }
}

__global__ void __launch_bounds__(256) train_general_dense(const STORED* __restrict__ p0, const float* p1, const float* p2, float* p3, int mid_width, int mid_height, int mid_depth, int depth, int height, int width, int n6, int depth_x_height_x_width, int height_x_width, int n12, int mid_depth_x_mid_height_x_mid_width, int mid_height_x_mid_width, int count_4, int count1, tf_divisor per_mid_width, tf_divisor per_mid_height, tf_divisor per_mid_depth) {
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count_4; block0 += gridDim.x) {
        {
            const tf_index t1 = (tf_index)block0 * 256 + threadIdx.x;
            if (t1 < count1) {
                const tf_index i2 = tf_quotient_of(t1, per_mid_width), i3 = (t1 - (i2 * mid_width));
                const tf_index i4 = tf_quotient_of(i2, per_mid_height), i5 = (i2 - (i4 * mid_height));
                const tf_index i6 = tf_quotient_of(i4, per_mid_depth), i7 = (i4 - (i6 * mid_depth)), i8 = i6 / 128;
                const tf_index i9 = (i6 - (i8 * 128));
                double a10 = 0.0;
                for (tf_index r11 = 0; r11 < 5; ++r11) {
                    for (tf_index r12 = 0; r12 < 5; ++r12) {
                        for (tf_index r13 = 0; r13 < 5; ++r13) {
                            for (tf_index r14 = 0; r14 < 64; ++r14) {
                                const tf_index i15 = i7 - r11, i16 = i5 - r12, i17 = i3 - r13;
                                if (i15 >= 0 && i15 < depth && i16 >= 0 && i16 < height && i17 >= 0 && i17 < width) {
                                    const float v18 = tf_load<float>(p0 + (((((i8 * n6) + (r14 * depth_x_height_x_width)) + (i15 * height_x_width)) + (i16 * width)) + i17));
                                    const float v19 = tf_load<float>(p1 + (((((r14 * 16000) + (i9 * 125)) + (r11 * 25)) + (r12 * 5)) + r13));
                                    a10 += (double)((float)v18 * (float)v19);
                                }
                            }
                        }
                    }
                }
                const float v20 = tf_load<float>(p2 + i9), v21 = (float)a10 + (float)v20;
                tf_store(p3 + (((((i8 * n12) + (i9 * mid_depth_x_mid_height_x_mid_width)) + (i7 * mid_height_x_mid_width)) + (i5 * mid_width)) + i3), v21);
            }
        }
    }
}

__global__ void __launch_bounds__(256) train_general_dense_4(const float* p0, double* p1, double* p2, int n1, int n2, int mid_width, int mid_height, int mid_depth, int n7, int mid_depth_x_mid_height_x_mid_width, int mid_height_x_mid_width, tf_divisor per_mid_width, tf_divisor per_mid_height, tf_divisor per_mid_depth) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < 2304; block0 += gridDim.x) {
        if (block0 < 1152) {
            const int block1 = block0, lane2 = threadIdx.x / 256, slice3 = threadIdx.x % 256, block4 = block1 / 9;
            const int split5 = block1 % 9;
            const tf_index o6 = (tf_index)block4 * 1 + lane2, o7 = min(o6, (tf_index)(128 - 1));
            double a8 = 0.0;
            const tf_index t9 = (tf_index)split5 * n2, t10 = min(t9 + n2, (tf_index)n1);
            #pragma unroll 4
            for (tf_index t11 = t9 + slice3; t11 < t10; t11 += 256) {
                const tf_index i12 = tf_quotient_of(t11, per_mid_width), i13 = (t11 - (i12 * mid_width));
                const tf_index i14 = tf_quotient_of(i12, per_mid_height), i15 = (i12 - (i14 * mid_height));
                const tf_index i16 = tf_quotient_of(i14, per_mid_depth), i17 = (i14 - (i16 * mid_depth));
                const float v18 = tf_load<float>(p0 + (((((i16 * n7) + (o7 * mid_depth_x_mid_height_x_mid_width)) + (i17 * mid_height_x_mid_width)) + (i15 * mid_width)) + i13));
                const float v19 = v18 * v18;
                a8 += (double)(v19);
            }
            const int s20 = slice3 * 1 + lane2;
            tf_shared[s20] = (double)a8;
            __syncthreads();
            for (int half21 = 128; half21 > 0; half21 /= 2) {
                if (slice3 < half21) {
                    const int s22 = s20 + half21 * 1;
                    a8 += tf_shared[s22];
                    tf_shared[s20] = (double)a8;
                }
                __syncthreads();
            }
            if (slice3 == 0 && o6 < 128) {
                p1[((split5 * 128) + o7)] = (double)a8;
            }
            __syncthreads();
        } else {
            const int block23 = block0 - 1152, lane24 = threadIdx.x / 256, slice25 = threadIdx.x % 256, block26 = block23 / 9;
            const int split27 = block23 % 9;
            const tf_index o28 = (tf_index)block26 * 1 + lane24, o29 = min(o28, (tf_index)(128 - 1));
            double a30 = 0.0;
            const tf_index t31 = (tf_index)split27 * n2, t32 = min(t31 + n2, (tf_index)n1);
            #pragma unroll 4
            for (tf_index t33 = t31 + slice25; t33 < t32; t33 += 256) {
                const tf_index i34 = tf_quotient_of(t33, per_mid_width), i35 = (t33 - (i34 * mid_width));
                const tf_index i36 = tf_quotient_of(i34, per_mid_height), i37 = (i34 - (i36 * mid_height));
                const tf_index i38 = tf_quotient_of(i36, per_mid_depth), i39 = (i36 - (i38 * mid_depth));
                const float v40 = tf_load<float>(p0 + (((((i38 * n7) + (o29 * mid_depth_x_mid_height_x_mid_width)) + (i39 * mid_height_x_mid_width)) + (i37 * mid_width)) + i35));
                a30 += (double)(v40);
            }
            const int s41 = slice25 * 1 + lane24;
            tf_shared[s41] = (double)a30;
            __syncthreads();
            for (int half42 = 128; half42 > 0; half42 /= 2) {
                if (slice25 < half42) {
                    const int s43 = s41 + half42 * 1;
                    a30 += tf_shared[s43];
                    tf_shared[s41] = (double)a30;
                }
                __syncthreads();
            }
            if (slice25 == 0 && o28 < 128) {
                p2[((split27 * 128) + o29)] = (double)a30;
            }
            __syncthreads();
        }
    }
}

__global__ void __launch_bounds__(256) train_general_dense_5(const double* p0, const double* p1, STORED* p2, const float* p3, const STORED* __restrict__ p4, const STORED* __restrict__ p5, STORED* p6, int n7, int count_1, int count5, float scale0) {
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count_1; block0 += gridDim.x) {
        if (block0 < 1) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 128) {
                double a3 = 0.0;
                for (tf_index r4 = 0; r4 < 9; ++r4) {
                    const double v5 = (double)p0[(t2 + (r4 * 128))];
                    a3 += v5;
                }
                const float v6 = (float)(a3 / (double)n7);
                double a7 = 0.0;
                for (tf_index r8 = 0; r8 < 9; ++r8) {
                    const double v9 = (double)p1[(t2 + (r8 * 128))];
                    a7 += v9;
                }
                const float v10 = (float)(a7 / (double)n7), v11 = v10 * v10, v12 = v6 - v11, v13 = v12 * scale0;
                tf_store(p2 + t2, v13);
            }
        } else {
            const int block14 = block0 - 1;
            const tf_index t15 = (tf_index)block14 * 256 + threadIdx.x;
            if (t15 < count5) {
                const tf_index i16 = t15 / 128, i17 = (t15 - (i16 * 128));
                const float v18 = tf_load<float>(p3 + ((i16 * 128) + i17));
                double a19 = 0.0;
                for (tf_index r20 = 0; r20 < 9; ++r20) {
                    const double v21 = (double)p0[(i17 + (r20 * 128))];
                    a19 += v21;
                }
                const float v22 = (float)(a19 / (double)n7);
                double a23 = 0.0;
                for (tf_index r24 = 0; r24 < 9; ++r24) {
                    const double v25 = (double)p1[(i17 + (r24 * 128))];
                    a23 += v25;
                }
                const float v26 = (float)(a23 / (double)n7), v27 = v26 * v26, v28 = v22 - v27, v29 = v28 + 9.99999975e-06f;
                const float v30 = tf_rsqrt(v29), v31 = tf_load<float>(p4 + i17), v32 = v30 * v31, v33 = v18 * v32;
                const float v34 = tf_load<float>(p5 + i17), v35 = v33 + v34;
                tf_store(p6 + ((i16 * 128) + i17), v35);
            }
        }
    }
}
"""

EVAL_GENERAL_MOMENTS_TAIL = r"""
__global__ void __launch_bounds__(256) eval_prepare(const STORED* __restrict__ p0, const STORED* __restrict__ p1, float* p2, const STORED* __restrict__ p3, const STORED* __restrict__ p4, float* p5, const STORED* __restrict__ p6, float* p7, const STORED* __restrict__ p8, float* p9) {
    TF_BESIDE();
    for (int block0 = blockIdx.x; block0 < 35; block0 += gridDim.x) {
        if (block0 < 1) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 128) {
                const float v3 = tf_load<float>(p0 + t2), v4 = v3 + 9.99999975e-06f, v5 = tf_rsqrt(v4);
                const float v6 = tf_load<float>(p1 + t2), v7 = v5 * v6;
                tf_store(p2 + t2, v7);
            }
        } else if (block0 < 2) {
            const int block8 = block0 - 1;
            const tf_index t9 = (tf_index)block8 * 256 + threadIdx.x;
            if (t9 < 128) {
                const float v10 = tf_load<float>(p3 + t9), v11 = tf_load<float>(p4 + t9), v12 = tf_load<float>(p0 + t9);
                const float v13 = v12 + 9.99999975e-06f, v14 = tf_rsqrt(v13), v15 = tf_load<float>(p1 + t9), v16 = v14 * v15;
                const float v17 = v11 * v16, v18 = v10 - v17;
                tf_store(p5 + t9, v18);
            }
        } else if (block0 < 34) {
            const int block19 = block0 - 2;
            const tf_index t20 = (tf_index)block19 * 256 + threadIdx.x;
            if (t20 < 8192) {
                const tf_index i21 = t20 / 128, i22 = (t20 - (i21 * 128));
                const float v23 = tf_load<float>(p6 + ((i21 * 16000) + (i22 * 125))), v24 = v23 * 2.0f;
                const float v25 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 25)), v26 = v25 * 2.0f;
                const float v27 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 50)), v28 = v27 * 2.0f;
                const float v29 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 75)), v30 = v29 * 2.0f;
                const float v31 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 100)), v32 = v31 * 2.0f;
                const double v33 = (double)v24 * 1.0 + (double)v26 * 1.0 + (double)v28 * 1.0 + (double)v30 * 1.0 + (double)v32 * 1.0;
                const float v34 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 5)), v35 = v34 * 2.0f;
                const float v36 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 5)), v37 = v36 * 2.0f;
                const float v38 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 5)), v39 = v38 * 2.0f;
                const float v40 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 5)), v41 = v40 * 2.0f;
                const float v42 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 5)), v43 = v42 * 2.0f;
                const double v44 = (double)v35 * 1.0 + (double)v37 * 1.0 + (double)v39 * 1.0 + (double)v41 * 1.0 + (double)v43 * 1.0;
                const float v45 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 10)), v46 = v45 * 2.0f;
                const float v47 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 10)), v48 = v47 * 2.0f;
                const float v49 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 10)), v50 = v49 * 2.0f;
                const float v51 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 10)), v52 = v51 * 2.0f;
                const float v53 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 10)), v54 = v53 * 2.0f;
                const double v55 = (double)v46 * 1.0 + (double)v48 * 1.0 + (double)v50 * 1.0 + (double)v52 * 1.0 + (double)v54 * 1.0;
                const float v56 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 15)), v57 = v56 * 2.0f;
                const float v58 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 15)), v59 = v58 * 2.0f;
                const float v60 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 15)), v61 = v60 * 2.0f;
                const float v62 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 15)), v63 = v62 * 2.0f;
                const float v64 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 15)), v65 = v64 * 2.0f;
                const double v66 = (double)v57 * 1.0 + (double)v59 * 1.0 + (double)v61 * 1.0 + (double)v63 * 1.0 + (double)v65 * 1.0;
                const float v67 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 20)), v68 = v67 * 2.0f;
                const float v69 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 20)), v70 = v69 * 2.0f;
                const float v71 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 20)), v72 = v71 * 2.0f;
                const float v73 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 20)), v74 = v73 * 2.0f;
                const float v75 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 20)), v76 = v75 * 2.0f;
                const double v77 = (double)v68 * 1.0 + (double)v70 * 1.0 + (double)v72 * 1.0 + (double)v74 * 1.0 + (double)v76 * 1.0;
                const double v78 = (double)v33 * 1.0 + (double)v44 * 1.0 + (double)v55 * 1.0 + (double)v66 * 1.0 + (double)v77 * 1.0;
                const float v79 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 1)), v80 = v79 * 2.0f;
                const float v81 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 1)), v82 = v81 * 2.0f;
                const float v83 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 1)), v84 = v83 * 2.0f;
                const float v85 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 1)), v86 = v85 * 2.0f;
                const float v87 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 1)), v88 = v87 * 2.0f;
                const double v89 = (double)v80 * 1.0 + (double)v82 * 1.0 + (double)v84 * 1.0 + (double)v86 * 1.0 + (double)v88 * 1.0;
                const float v90 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 5) + 1)), v91 = v90 * 2.0f;
                const float v92 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 5) + 1)), v93 = v92 * 2.0f;
                const float v94 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 5) + 1)), v95 = v94 * 2.0f;
                const float v96 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 5) + 1)), v97 = v96 * 2.0f;
                const float v98 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 5) + 1)), v99 = v98 * 2.0f;
                const double v100 = (double)v91 * 1.0 + (double)v93 * 1.0 + (double)v95 * 1.0 + (double)v97 * 1.0 + (double)v99 * 1.0;
                const float v101 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 10) + 1)), v102 = v101 * 2.0f;
                const float v103 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 10) + 1)), v104 = v103 * 2.0f;
                const float v105 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 10) + 1)), v106 = v105 * 2.0f;
                const float v107 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 10) + 1)), v108 = v107 * 2.0f;
                const float v109 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 10) + 1)), v110 = v109 * 2.0f;
                const double v111 = (double)v102 * 1.0 + (double)v104 * 1.0 + (double)v106 * 1.0 + (double)v108 * 1.0 + (double)v110 * 1.0;
                const float v112 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 15) + 1)), v113 = v112 * 2.0f;
                const float v114 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 15) + 1)), v115 = v114 * 2.0f;
                const float v116 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 15) + 1)), v117 = v116 * 2.0f;
                const float v118 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 15) + 1)), v119 = v118 * 2.0f;
                const float v120 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 15) + 1)), v121 = v120 * 2.0f;
                const double v122 = (double)v113 * 1.0 + (double)v115 * 1.0 + (double)v117 * 1.0 + (double)v119 * 1.0 + (double)v121 * 1.0;
                const float v123 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 20) + 1)), v124 = v123 * 2.0f;
                const float v125 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 20) + 1)), v126 = v125 * 2.0f;
                const float v127 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 20) + 1)), v128 = v127 * 2.0f;
                const float v129 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 20) + 1)), v130 = v129 * 2.0f;
                const float v131 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 20) + 1)), v132 = v131 * 2.0f;
                const double v133 = (double)v124 * 1.0 + (double)v126 * 1.0 + (double)v128 * 1.0 + (double)v130 * 1.0 + (double)v132 * 1.0;
                const double v134 = (double)v89 * 1.0 + (double)v100 * 1.0 + (double)v111 * 1.0 + (double)v122 * 1.0 + (double)v133 * 1.0;
                const float v135 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 2)), v136 = v135 * 2.0f;
                const float v137 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 2)), v138 = v137 * 2.0f;
                const float v139 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 2)), v140 = v139 * 2.0f;
                const float v141 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 2)), v142 = v141 * 2.0f;
                const float v143 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 2)), v144 = v143 * 2.0f;
                const double v145 = (double)v136 * 1.0 + (double)v138 * 1.0 + (double)v140 * 1.0 + (double)v142 * 1.0 + (double)v144 * 1.0;
                const float v146 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 5) + 2)), v147 = v146 * 2.0f;
                const float v148 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 5) + 2)), v149 = v148 * 2.0f;
                const float v150 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 5) + 2)), v151 = v150 * 2.0f;
                const float v152 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 5) + 2)), v153 = v152 * 2.0f;
                const float v154 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 5) + 2)), v155 = v154 * 2.0f;
                const double v156 = (double)v147 * 1.0 + (double)v149 * 1.0 + (double)v151 * 1.0 + (double)v153 * 1.0 + (double)v155 * 1.0;
                const float v157 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 10) + 2)), v158 = v157 * 2.0f;
                const float v159 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 10) + 2)), v160 = v159 * 2.0f;
                const float v161 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 10) + 2)), v162 = v161 * 2.0f;
                const float v163 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 10) + 2)), v164 = v163 * 2.0f;
                const float v165 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 10) + 2)), v166 = v165 * 2.0f;
                const double v167 = (double)v158 * 1.0 + (double)v160 * 1.0 + (double)v162 * 1.0 + (double)v164 * 1.0 + (double)v166 * 1.0;
                const float v168 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 15) + 2)), v169 = v168 * 2.0f;
                const float v170 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 15) + 2)), v171 = v170 * 2.0f;
                const float v172 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 15) + 2)), v173 = v172 * 2.0f;
                const float v174 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 15) + 2)), v175 = v174 * 2.0f;
                const float v176 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 15) + 2)), v177 = v176 * 2.0f;
                const double v178 = (double)v169 * 1.0 + (double)v171 * 1.0 + (double)v173 * 1.0 + (double)v175 * 1.0 + (double)v177 * 1.0;
                const float v179 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 20) + 2)), v180 = v179 * 2.0f;
                const float v181 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 20) + 2)), v182 = v181 * 2.0f;
                const float v183 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 20) + 2)), v184 = v183 * 2.0f;
                const float v185 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 20) + 2)), v186 = v185 * 2.0f;
                const float v187 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 20) + 2)), v188 = v187 * 2.0f;
                const double v189 = (double)v180 * 1.0 + (double)v182 * 1.0 + (double)v184 * 1.0 + (double)v186 * 1.0 + (double)v188 * 1.0;
                const double v190 = (double)v145 * 1.0 + (double)v156 * 1.0 + (double)v167 * 1.0 + (double)v178 * 1.0 + (double)v189 * 1.0;
                const float v191 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 3)), v192 = v191 * 2.0f;
                const float v193 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 3)), v194 = v193 * 2.0f;
                const float v195 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 3)), v196 = v195 * 2.0f;
                const float v197 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 3)), v198 = v197 * 2.0f;
                const float v199 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 3)), v200 = v199 * 2.0f;
                const double v201 = (double)v192 * 1.0 + (double)v194 * 1.0 + (double)v196 * 1.0 + (double)v198 * 1.0 + (double)v200 * 1.0;
                const float v202 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 5) + 3)), v203 = v202 * 2.0f;
                const float v204 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 5) + 3)), v205 = v204 * 2.0f;
                const float v206 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 5) + 3)), v207 = v206 * 2.0f;
                const float v208 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 5) + 3)), v209 = v208 * 2.0f;
                const float v210 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 5) + 3)), v211 = v210 * 2.0f;
                const double v212 = (double)v203 * 1.0 + (double)v205 * 1.0 + (double)v207 * 1.0 + (double)v209 * 1.0 + (double)v211 * 1.0;
                const float v213 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 10) + 3)), v214 = v213 * 2.0f;
                const float v215 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 10) + 3)), v216 = v215 * 2.0f;
                const float v217 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 10) + 3)), v218 = v217 * 2.0f;
                const float v219 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 10) + 3)), v220 = v219 * 2.0f;
                const float v221 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 10) + 3)), v222 = v221 * 2.0f;
                const double v223 = (double)v214 * 1.0 + (double)v216 * 1.0 + (double)v218 * 1.0 + (double)v220 * 1.0 + (double)v222 * 1.0;
                const float v224 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 15) + 3)), v225 = v224 * 2.0f;
                const float v226 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 15) + 3)), v227 = v226 * 2.0f;
                const float v228 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 15) + 3)), v229 = v228 * 2.0f;
                const float v230 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 15) + 3)), v231 = v230 * 2.0f;
                const float v232 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 15) + 3)), v233 = v232 * 2.0f;
                const double v234 = (double)v225 * 1.0 + (double)v227 * 1.0 + (double)v229 * 1.0 + (double)v231 * 1.0 + (double)v233 * 1.0;
                const float v235 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 20) + 3)), v236 = v235 * 2.0f;
                const float v237 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 20) + 3)), v238 = v237 * 2.0f;
                const float v239 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 20) + 3)), v240 = v239 * 2.0f;
                const float v241 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 20) + 3)), v242 = v241 * 2.0f;
                const float v243 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 20) + 3)), v244 = v243 * 2.0f;
                const double v245 = (double)v236 * 1.0 + (double)v238 * 1.0 + (double)v240 * 1.0 + (double)v242 * 1.0 + (double)v244 * 1.0;
                const double v246 = (double)v201 * 1.0 + (double)v212 * 1.0 + (double)v223 * 1.0 + (double)v234 * 1.0 + (double)v245 * 1.0;
                const float v247 = tf_load<float>(p6 + (((i21 * 16000) + (i22 * 125)) + 4)), v248 = v247 * 2.0f;
                const float v249 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 25) + 4)), v250 = v249 * 2.0f;
                const float v251 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 50) + 4)), v252 = v251 * 2.0f;
                const float v253 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 75) + 4)), v254 = v253 * 2.0f;
                const float v255 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 100) + 4)), v256 = v255 * 2.0f;
                const double v257 = (double)v248 * 1.0 + (double)v250 * 1.0 + (double)v252 * 1.0 + (double)v254 * 1.0 + (double)v256 * 1.0;
                const float v258 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 5) + 4)), v259 = v258 * 2.0f;
                const float v260 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 5) + 4)), v261 = v260 * 2.0f;
                const float v262 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 5) + 4)), v263 = v262 * 2.0f;
                const float v264 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 5) + 4)), v265 = v264 * 2.0f;
                const float v266 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 5) + 4)), v267 = v266 * 2.0f;
                const double v268 = (double)v259 * 1.0 + (double)v261 * 1.0 + (double)v263 * 1.0 + (double)v265 * 1.0 + (double)v267 * 1.0;
                const float v269 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 10) + 4)), v270 = v269 * 2.0f;
                const float v271 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 10) + 4)), v272 = v271 * 2.0f;
                const float v273 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 10) + 4)), v274 = v273 * 2.0f;
                const float v275 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 10) + 4)), v276 = v275 * 2.0f;
                const float v277 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 10) + 4)), v278 = v277 * 2.0f;
                const double v279 = (double)v270 * 1.0 + (double)v272 * 1.0 + (double)v274 * 1.0 + (double)v276 * 1.0 + (double)v278 * 1.0;
                const float v280 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 15) + 4)), v281 = v280 * 2.0f;
                const float v282 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 15) + 4)), v283 = v282 * 2.0f;
                const float v284 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 15) + 4)), v285 = v284 * 2.0f;
                const float v286 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 15) + 4)), v287 = v286 * 2.0f;
                const float v288 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 15) + 4)), v289 = v288 * 2.0f;
                const double v290 = (double)v281 * 1.0 + (double)v283 * 1.0 + (double)v285 * 1.0 + (double)v287 * 1.0 + (double)v289 * 1.0;
                const float v291 = tf_load<float>(p6 + ((((i21 * 16000) + (i22 * 125)) + 20) + 4)), v292 = v291 * 2.0f;
                const float v293 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 25) + 20) + 4)), v294 = v293 * 2.0f;
                const float v295 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 50) + 20) + 4)), v296 = v295 * 2.0f;
                const float v297 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 75) + 20) + 4)), v298 = v297 * 2.0f;
                const float v299 = tf_load<float>(p6 + (((((i21 * 16000) + (i22 * 125)) + 100) + 20) + 4)), v300 = v299 * 2.0f;
                const double v301 = (double)v292 * 1.0 + (double)v294 * 1.0 + (double)v296 * 1.0 + (double)v298 * 1.0 + (double)v300 * 1.0;
                const double v302 = (double)v257 * 1.0 + (double)v268 * 1.0 + (double)v279 * 1.0 + (double)v290 * 1.0 + (double)v301 * 1.0;
                const double v303 = (double)v78 * 1.0 + (double)v134 * 1.0 + (double)v190 * 1.0 + (double)v246 * 1.0 + (double)v302 * 1.0;
                tf_store(p7 + ((i21 * 128) + i22), v303);
            }
        } else {
            const int block304 = block0 - 34;
            const tf_index t305 = (tf_index)block304 * 256 + threadIdx.x;
            if (t305 < 128) {
                const float v306 = tf_load<float>(p8 + t305), v307 = v306 * 2.0f;
                tf_store(p9 + t305, v307);
            }
        }
    }
    TF_AFTER();
}

__global__ void __launch_bounds__(256) eval_moments_tail(const double* p0, const float* p1, const float* p2, const float* p3, const float* p4, STORED* p5, int count_1, int n6, int count0, int count1, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count0; block0 += gridDim.x) {
        {
            const int lane1 = threadIdx.x % 8, slice2 = threadIdx.x / 8;
            const tf_index o3 = (tf_index)block0 * 8 + lane1, o4 = min(o3, (tf_index)(count1 - 1)), i5 = o4 / 128;
            const tf_index i6 = (o4 - (i5 * 128));
            double a7 = 0.0;
            #pragma unroll 4
            for (tf_index t8 = slice2; t8 < 64; t8 += 32) {
                double a9 = 0.0;
                for (tf_index r10 = 0; r10 < count_1; ++r10) {
                    const double v11 = (double)p0[(((i5 * 64) + t8) + (r10 * n6))];
                    a9 += v11;
                }
                const double v12 = (double)(a9);
                const float v13 = tf_load<float>(p1 + ((t8 * 128) + i6));
                a7 += ((double)v12 * (double)v13);
            }
            const int s14 = slice2 * 8 + lane1;
            tf_shared[s14] = (double)a7;
            __syncthreads();
            for (int half15 = 16; half15 > 0; half15 /= 2) {
                if (slice2 < half15) {
                    const int s16 = s14 + half15 * 8;
                    a7 += tf_shared[s16];
                    tf_shared[s14] = (double)a7;
                }
                __syncthreads();
            }
            if (slice2 == 0 && o3 < count1) {
                const double v17 = (double)a7, v18 = v17 * scale0;
                const float v19 = tf_load<float>(p2 + i6);
                const double v20 = v18 + (double)v19;
                const float v21 = tf_load<float>(p3 + i6);
                const double v22 = v20 * (double)v21;
                const float v23 = tf_load<float>(p4 + i6);
                const double v24 = v22 + (double)v23;
                tf_store(p5 + ((i5 * 128) + i6), v24);
            }
            __syncthreads();
        }
    }
}

__global__ void __launch_bounds__(256) eval_general_moments_tail(const double* p0, const float* p1, const float* p2, const float* p3, const float* p4, STORED* p5, int n6, int count0, int count1, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count0; block0 += gridDim.x) {
        {
            const int lane1 = threadIdx.x % 8, slice2 = threadIdx.x / 8;
            const tf_index o3 = (tf_index)block0 * 8 + lane1, o4 = min(o3, (tf_index)(count1 - 1)), i5 = o4 / 128;
            const tf_index i6 = (o4 - (i5 * 128));
            double a7 = 0.0;
            #pragma unroll 4
            for (tf_index t8 = slice2; t8 < 64; t8 += 32) {
                double a9 = 0.0;
                for (tf_index r10 = 0; r10 < 1; ++r10) {
                    const double v11 = (double)p0[(((i5 * 64) + t8) + (r10 * n6))];
                    a9 += v11;
                }
                const double v12 = (double)(a9);
                const float v13 = tf_load<float>(p1 + ((t8 * 128) + i6));
                a7 += ((double)v12 * (double)v13);
            }
            const int s14 = slice2 * 8 + lane1;
            tf_shared[s14] = (double)a7;
            __syncthreads();
            for (int half15 = 16; half15 > 0; half15 /= 2) {
                if (slice2 < half15) {
                    const int s16 = s14 + half15 * 8;
                    a7 += tf_shared[s16];
                    tf_shared[s14] = (double)a7;
                }
                __syncthreads();
            }
            if (slice2 == 0 && o3 < count1) {
                const double v17 = (double)a7, v18 = v17 * scale0;
                const float v19 = tf_load<float>(p2 + i6);
                const double v20 = v18 + (double)v19;
                const float v21 = tf_load<float>(p3 + i6);
                const double v22 = v20 * (double)v21;
                const float v23 = tf_load<float>(p4 + i6);
                const double v24 = v22 + (double)v23;
                tf_store(p5 + ((i5 * 128) + i6), v24);
            }
            __syncthreads();
        }
    }
}

static bool aligned(void* const* leaf, int count) {
    return std::all_of(leaf, leaf + count, [](void* p) { return (size_t)p % 16 == 0; });
}
static long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }

// early: the kernel may start while its predecessor ends; it waits for it before it reads.
template <class... P, class... A>
static void launch(void (*kernel)(P...), long long grid, int block, int shared, int cluster, bool early, cudaStream_t stream, A... a) {
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)grid), config.blockDim = dim3((unsigned)block);
    config.dynamicSmemBytes = shared, config.stream = stream, config.attrs = attributes;
    if (cluster > 1) {
        attributes[0].id = cudaLaunchAttributeClusterDimension, config.numAttrs = 1;
        attributes[0].val.clusterDim.x = cluster, attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    }
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
extern "C" long long train(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], depth = size[1], height = size[2], width = size[3];
    if (arch == 90 && width % 16 == 0 && aligned(leaf, 5)) {
        const long long mid_depth = depth + 4;
        const long long mid_height = height + 4;
        const long long mid_width = width + 4;
        const long long count_1 = (batch + 3) / 2;
        const long long count_2 = ceil_div(width, 36);
        const long long count_3 = ceil_div(depth * height * width, 8192);
        const long long count_4 = (height + 7) / 4;
        const long long count_5 = 16 * batch + 2;
        const long long count_6 = ceil_div(depth * height * width, 1024);
        const long long at_1 = 4096000;
        const long long at_2 = at_1 + 32768;
        const long long at_3 = at_2 + 512;
        const long long at_4 = at_3 + 512;
        const long long at_5 = at_4 + 512 * batch;
        const long long at_6 = at_5 + 512 * batch * count_3;
        const long long at_7 = at_6 + 512;
        const long long at_8 = at_7 + 1024;
        const long long at_9 = at_8 + 4096000;
        const long long at_10 = at_9 + 135168;
        const long long at_11 = at_10 + 1024;
        if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
        if (!workspace) return at_11 + 1024;
        launch(train_moments, 64 * batch * count_3, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_5), count_3, batch, count_6, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(count_3), divisor(batch));
        launch(train_prepare, 4033, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[1], (float*)workspace, (float*)(workspace + at_1), (const STORED*)leaf[2], (float*)(workspace + at_2));
        launch(train_moments_tail, arch >= 90 ? 8 : 1, 256, 0, arch >= 90 ? 8 : 1, arch >= 90, stream, (const double*)(workspace + at_5), (double*)(workspace + at_6), (const double*)(workspace + at_6), (const float*)(workspace + at_1), (double*)(workspace + at_7), batch, count_3, 64 * batch, 1.0 / (mid_depth * mid_height * mid_width));
        launch(train_moments_tail_3, count_5, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_7), (const float*)(workspace + at_2), (STORED*)out[1], (float*)(workspace + at_3), (const double*)(workspace + at_5), (const float*)(workspace + at_1), (float*)(workspace + at_4), count_3, 64 * batch, count_5, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
        launch(train_pack, 1000, 256, 0, 1, false, stream, (const float*)workspace, (unsigned char*)(workspace + at_8), WeightStrides{1024000, 16000, 125, 25, 5, 1});
        launch(train_dense, 132, 384, 220160, 1, false, stream, (const float*)leaf[0], (const unsigned char*)(workspace + at_8), Sizes{{(int)(batch), (int)(depth), (int)(height), (int)(width)}, {(int)(batch), (int)(mid_depth), (int)(mid_height), (int)(mid_width)}, {(int)(batch), (int)(mid_depth), (int)(count_4), (int)(count_2)}, (int)(batch * mid_depth * count_2 * count_4)}, Strides{64 * depth * height * width, depth * height * width, height * width, width, 1}, (const float*)(workspace + at_3), Strides{0, 1, 0, 0, 0}, (float*)(workspace + at_9));
        launch(train_combine, 8, 1024, 0, 1, arch >= 90, stream, (const float*)(workspace + at_9), (double*)(workspace + at_10), Kept{1, 1, 128, 0, 0, 1}, Reduced{132, 1, 1, 128, 16896, 0}, 1.0 / (batch * mid_depth * mid_height * mid_width));
        launch(train_dense_tail, count_1, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_10), (const double*)(workspace + at_11), (STORED*)out[2], (const float*)(workspace + at_4), (const STORED*)leaf[3], (const STORED*)leaf[4], (STORED*)out[0], count_1, 128 * batch, 1.0 + 1.0 / (batch * mid_depth * mid_height * mid_width - 1));
        return (long long)cudaGetLastError();
    }
    const long long mid_depth = depth + 4;
    const long long mid_height = height + 4;
    const long long mid_width = width + 4;
    const long long count_1 = (batch + 3) / 2;
    const long long count_2 = ceil_div(depth * height * width, 256);
    const long long count_3 = 16 * batch + 2;
    const long long count_4 = ceil_div(batch * mid_depth * mid_height * mid_width, 2);
    const long long at_1 = 4096000;
    const long long at_2 = at_1 + 32768;
    const long long at_3 = at_2 + 512;
    const long long at_4 = at_3 + 512;
    const long long at_5 = at_4 + 512 * batch;
    const long long at_6 = at_5 + 512 * batch;
    const long long at_7 = at_6 + 512;
    const long long at_8 = at_7 + 1024;
    const long long at_9 = at_8 + 512 * batch * mid_depth * mid_height * mid_width;
    const long long at_10 = at_9 + 9216;
    if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
    if (!workspace) return at_10 + 9216;
    launch(train_general_moments, 64 * batch, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_5), batch, count_2, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(batch));
    launch(train_prepare, 4033, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[1], (float*)workspace, (float*)(workspace + at_1), (const STORED*)leaf[2], (float*)(workspace + at_2));
    launch(train_general_moments_tail, arch >= 90 ? 8 : 1, 256, 0, arch >= 90 ? 8 : 1, arch >= 90, stream, (const double*)(workspace + at_5), (double*)(workspace + at_6), (const double*)(workspace + at_6), (const float*)(workspace + at_1), (double*)(workspace + at_7), (const double*)(workspace + at_7), (const float*)(workspace + at_2), (STORED*)out[1], (float*)(workspace + at_3), (float*)(workspace + at_4), batch, 64 * batch, count_3, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
    launch(train_general_dense, count_4, 256, 0, 1, false, stream, (const STORED*)leaf[0], (const float*)workspace, (const float*)(workspace + at_3), (float*)(workspace + at_8), mid_width, mid_height, mid_depth, depth, height, width, 64 * depth * height * width, depth * height * width, height * width, 128 * mid_depth * mid_height * mid_width, mid_depth * mid_height * mid_width, mid_height * mid_width, count_4, 128 * batch * mid_depth * mid_height * mid_width, divisor(mid_width), divisor(mid_height), divisor(mid_depth));
    launch(train_general_dense_4, 2304, 256, 0, 1, arch >= 90, stream, (const float*)(workspace + at_8), (double*)(workspace + at_9), (double*)(workspace + at_10), batch * mid_depth * mid_height * mid_width, 256 * ceil_div(batch * mid_depth * mid_height * mid_width, 2304), mid_width, mid_height, mid_depth, 128 * mid_depth * mid_height * mid_width, mid_depth * mid_height * mid_width, mid_height * mid_width, divisor(mid_width), divisor(mid_height), divisor(mid_depth));
    launch(train_general_dense_5, count_1, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_9), (const double*)(workspace + at_10), (STORED*)out[2], (const float*)(workspace + at_4), (const STORED*)leaf[3], (const STORED*)leaf[4], (STORED*)out[0], batch * mid_depth * mid_height * mid_width, count_1, 128 * batch, 1.0 + 1.0 / (batch * mid_depth * mid_height * mid_width - 1));
    return (long long)cudaGetLastError();
}
"""

CONSTANTS_9 = r"""
extern "C" long long eval(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], depth = size[1], height = size[2], width = size[3];
    if (width % 16 == 0 && aligned(leaf, 7)) {
        const long long mid_depth = depth + 4;
        const long long mid_height = height + 4;
        const long long mid_width = width + 4;
        const long long count_1 = ceil_div(depth * height * width, 8192);
        const long long count_2 = ceil_div(depth * height * width, 1024);
        const long long at_1 = 512;
        const long long at_2 = at_1 + 512;
        const long long at_3 = at_2 + 32768;
        const long long at_4 = at_3 + 512;
        if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
        if (!workspace) return at_4 + 512 * batch * count_1;
        launch(train_moments, 64 * batch * count_1, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_4), count_1, batch, count_2, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(count_1), divisor(batch));
        launch(eval_prepare, 35, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[4], (const STORED*)leaf[5], (float*)workspace, (const STORED*)leaf[6], (const STORED*)leaf[3], (float*)(workspace + at_1), (const STORED*)leaf[1], (float*)(workspace + at_2), (const STORED*)leaf[2], (float*)(workspace + at_3));
        launch(eval_moments_tail, 16 * batch, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_4), (const float*)(workspace + at_2), (const float*)(workspace + at_3), (const float*)workspace, (const float*)(workspace + at_1), (STORED*)out[0], count_1, 64 * batch, 16 * batch, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
        return (long long)cudaGetLastError();
    }
    const long long mid_depth = depth + 4;
    const long long mid_height = height + 4;
    const long long mid_width = width + 4;
    const long long count_1 = ceil_div(depth * height * width, 256);
    const long long at_1 = 512;
    const long long at_2 = at_1 + 512;
    const long long at_3 = at_2 + 32768;
    const long long at_4 = at_3 + 512;
    if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
    if (!workspace) return at_4 + 512 * batch;
    launch(train_general_moments, 64 * batch, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_4), batch, count_1, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(batch));
    launch(eval_prepare, 35, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[4], (const STORED*)leaf[5], (float*)workspace, (const STORED*)leaf[6], (const STORED*)leaf[3], (float*)(workspace + at_1), (const STORED*)leaf[1], (float*)(workspace + at_2), (const STORED*)leaf[2], (float*)(workspace + at_3));
    launch(eval_general_moments_tail, 16 * batch, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_4), (const float*)(workspace + at_2), (const float*)(workspace + at_3), (const float*)workspace, (const float*)(workspace + at_1), (STORED*)out[0], 64 * batch, 16 * batch, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
    return (long long)cudaGetLastError();
}
"""

TRAIN_MOMENTS_2 = r"""
__global__ void __launch_bounds__(256) train_moments(const STORED* __restrict__ p0, double* p1, int count_2, int batch, int count_5, int n9, int depth_x_height_x_width, int n30, tf_divisor per_count_2, tf_divisor per_batch) {
    __shared__ double tf_warps[8], tf_sums[1];
    TF_SEQUENCE();
    const int q0 = tf_quotient_of((int)blockIdx.x, per_count_2), chunk1 = ((int)blockIdx.x - (q0 * count_2)), q2 = q0 / 1;
    const int columns3 = q0 - q2, q4 = q2 / 64, outer5 = (q2 - (q4 * 64)), q6 = tf_quotient_of(q4, per_batch);
    const int outer7 = (q4 - (q6 * batch)), line8 = 0, place9 = (int)threadIdx.x, column10 = (((columns3 * 256) + place9)) * 4;
    const bool inside11 = line8 < 1;
    const int begin12 = chunk1 * 8, end13 = min((begin12 + 8), count_5);
    const STORED* __restrict__ from14 = p0 + (((long long)outer7 * n9) + ((long long)outer5 * depth_x_height_x_width));
    for (int cell15 = 0; cell15 < 1; ++cell15) {
        const int rows16 = end13 - begin12, count17 = rows16;
        double sum18 = 0.0;
        if (inside11 && count17 > 0) {
            for (int t19 = line8; t19 < count17; t19 += 8) {
                const int at20 = ((begin12 + t19)) * 1024 + column10;
                const bool fits21 = at20 < depth_x_height_x_width;
                const int at22 = min(at20, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack23 = *(const tf_vector<STORED, 4>*)(from14 + at22);
                const int row24 = t19 + 1, row25 = min(row24, count17 - 1), at26 = ((begin12 + row25)) * 1024 + column10;
                const bool fits27 = row24 < count17 && at26 < depth_x_height_x_width;
                const int at28 = min(at26, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack29 = *(const tf_vector<STORED, 4>*)(from14 + at28);
                const int row30 = t19 + 2, row31 = min(row30, count17 - 1), at32 = ((begin12 + row31)) * 1024 + column10;
                const bool fits33 = row30 < count17 && at32 < depth_x_height_x_width;
                const int at34 = min(at32, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack35 = *(const tf_vector<STORED, 4>*)(from14 + at34);
                const int row36 = t19 + 3, row37 = min(row36, count17 - 1), at38 = ((begin12 + row37)) * 1024 + column10;
                const bool fits39 = row36 < count17 && at38 < depth_x_height_x_width;
                const int at40 = min(at38, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack41 = *(const tf_vector<STORED, 4>*)(from14 + at40);
                const int row42 = t19 + 4, row43 = min(row42, count17 - 1), at44 = ((begin12 + row43)) * 1024 + column10;
                const bool fits45 = row42 < count17 && at44 < depth_x_height_x_width;
                const int at46 = min(at44, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack47 = *(const tf_vector<STORED, 4>*)(from14 + at46);
                const int row48 = t19 + 5, row49 = min(row48, count17 - 1), at50 = ((begin12 + row49)) * 1024 + column10;
                const bool fits51 = row48 < count17 && at50 < depth_x_height_x_width;
                const int at52 = min(at50, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack53 = *(const tf_vector<STORED, 4>*)(from14 + at52);
                const int row54 = t19 + 6, row55 = min(row54, count17 - 1), at56 = ((begin12 + row55)) * 1024 + column10;
                const bool fits57 = row54 < count17 && at56 < depth_x_height_x_width;
                const int at58 = min(at56, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack59 = *(const tf_vector<STORED, 4>*)(from14 + at58);
                const int row60 = t19 + 7, row61 = min(row60, count17 - 1), at62 = ((begin12 + row61)) * 1024 + column10;
                const bool fits63 = row60 < count17 && at62 < depth_x_height_x_width;
                const int at64 = min(at62, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack65 = *(const tf_vector<STORED, 4>*)(from14 + at64);
                sum18 += (double)((((((fits21 ? (float)tf_to<float>(pack23.lane[0]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[0]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[0]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[0]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[0]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[0]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[0]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[0]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[1]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[1]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[1]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[1]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[1]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[1]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[1]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[1]) : 0.0f))))) + (((((fits21 ? (float)tf_to<float>(pack23.lane[2]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[2]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[2]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[2]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[2]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[2]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[2]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[2]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[3]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[3]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[3]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[3]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[3]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[3]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[3]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[3]) : 0.0f))))));
            }
        }
        const double total66 = count17 > 0 ? tf_warp_sum(inside11 ? sum18 : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 1 + cell15] = total66;
        __syncthreads();
        for (int i67 = threadIdx.x; i67 < 1; i67 += 256) {
            double total68 = 0.0;
            for (int warp69 = 0; warp69 < 8; ++warp69) total68 += tf_warps[warp69 * 1 + i67];
            tf_sums[(cell15 + i67)] = total68;
        }
        __syncthreads();
    }
    __syncthreads();
    const long long to70 = ((((long long)outer7 * 64) + ((long long)outer5 * 1)) + ((long long)(chunk1 + columns3) * n30));
    for (int box71 = threadIdx.x; box71 < 1; box71 += 256) {
        double sum72 = 0.0;
        static const unsigned char tf_intervals[] = {0};
        const unsigned char* of73 = tf_intervals + box71;
        sum72 += tf_sums[0 + of73[0]];
        tf_store(p1 + ((to70 + box71)), sum72);
    }
}
"""

TRAIN_MOMENTS_TAIL_3_2 = r"""
__global__ void __launch_bounds__(256) train_moments_tail(const double* p0, double* p1, const double* p2, const float* p3, double* p4, int batch, int count_2, int n7, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < 1; block0 += gridDim.x) {
        {
            const tf_index t1 = (tf_index)block0 * 256 + threadIdx.x;
            if (t1 < 64) {
                double a2 = 0.0;
                for (tf_index r3 = 0; r3 < batch; ++r3) {
                    double a4 = 0.0;
                    for (tf_index r5 = 0; r5 < count_2; ++r5) {
                        const double v6 = (double)p0[(((r3 * 64) + t1) + (r5 * n7))];
                        a4 += v6;
                    }
                    const double v7 = (double)(a4);
                    a2 += v7;
                }
                const double v8 = (double)(a2 / (double)batch);
                tf_store(p1 + t1, v8);
            }
        }
    }
    TF_CLUSTER_BARRIER();
    for (int block9 = blockIdx.x; block9 < 16; block9 += gridDim.x) {
        {
            const int lane10 = threadIdx.x % 8, slice11 = threadIdx.x / 8;
            const tf_index o12 = (tf_index)block9 * 8 + lane10, o13 = min(o12, (tf_index)(128 - 1));
            double a14 = 0.0;
            #pragma unroll 4
            for (tf_index t15 = slice11; t15 < 64; t15 += 32) {
                const double v16 = tf_load<double>(p2 + t15);
                const float v17 = tf_load<float>(p3 + ((t15 * 128) + o13));
                a14 += ((double)v16 * (double)v17);
            }
            const int s18 = slice11 * 8 + lane10;
            tf_shared[s18] = (double)a14;
            __syncthreads();
            for (int half19 = 16; half19 > 0; half19 /= 2) {
                if (slice11 < half19) {
                    const int s20 = s18 + half19 * 8;
                    a14 += tf_shared[s20];
                    tf_shared[s18] = (double)a14;
                }
                __syncthreads();
            }
            if (slice11 == 0 && o12 < 128) {
                const double v21 = (double)a14, v22 = v21 * scale0;
                tf_store(p4 + o13, v22);
            }
            __syncthreads();
        }
    }
}

__global__ void __launch_bounds__(256) train_moments_tail_3(const double* p0, const float* p1, STORED* p2, float* p3, const double* p4, const float* p5, float* p6, int count_2, int n18, int count_6, int count8, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count_6; block0 += gridDim.x) {
        if (block0 < 1) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 128) {
                const double v3 = tf_load<double>(p0 + t2);
                const float v4 = tf_load<float>(p1 + t2);
                const double v5 = v3 + (double)v4;
                tf_store(p2 + t2, v5);
            }
        } else if (block0 < 2) {
            const int block6 = block0 - 1;
            const tf_index t7 = (tf_index)block6 * 256 + threadIdx.x;
            if (t7 < 128) {
                const double v8 = tf_load<double>(p0 + t7), v9 = -v8;
                tf_store(p3 + t7, v9);
            }
        } else {
            const int block10 = block0 - 2, lane11 = threadIdx.x % 8, slice12 = threadIdx.x / 8;
            const tf_index o13 = (tf_index)block10 * 8 + lane11, o14 = min(o13, (tf_index)(count8 - 1)), i15 = o14 / 128;
            const tf_index i16 = (o14 - (i15 * 128));
            double a17 = 0.0;
            #pragma unroll 4
            for (tf_index t18 = slice12; t18 < 64; t18 += 32) {
                double a19 = 0.0;
                for (tf_index r20 = 0; r20 < count_2; ++r20) {
                    const double v21 = (double)p4[(((i15 * 64) + t18) + (r20 * n18))];
                    a19 += v21;
                }
                const double v22 = (double)(a19);
                const float v23 = tf_load<float>(p5 + ((t18 * 128) + i16));
                a17 += ((double)v22 * (double)v23);
            }
            const int s24 = slice12 * 8 + lane11;
            tf_shared[s24] = (double)a17;
            __syncthreads();
            for (int half25 = 16; half25 > 0; half25 /= 2) {
                if (slice12 < half25) {
                    const int s26 = s24 + half25 * 8;
                    a17 += tf_shared[s26];
                    tf_shared[s24] = (double)a17;
                }
                __syncthreads();
            }
            if (slice12 == 0 && o13 < count8) {
                const double v27 = (double)a17, v28 = v27 * scale0, v29 = tf_load<double>(p0 + i16), v30 = v28 - v29;
                tf_store(p6 + ((i15 * 128) + i16), v30);
            }
            __syncthreads();
        }
    }
}
"""

TRAIN_PACK_2 = r"""
__global__ void __launch_bounds__(256) train_pack(const float* __restrict__ w, unsigned char* __restrict__ packed, WeightStrides ws) {
    const int at = blockIdx.x * 256 + threadIdx.x;          // one 16-byte vector: a row's channels of one K half
    if (at >= 256000) return;
    constexpr int TILES = 250, KSTEPS = 8, LANES = 4, CIN = 64, COUT = 128;
    constexpr int SEGMENT = 64, SEGMENTS = 1, MGROUPS = 1, PAIRS = 0;
    const int row = at % 64, half = at / 64 % 2, tile = at / 128 % TILES, step = at / (128 * TILES) % KSTEPS, part = at / (128 * TILES * KSTEPS);
    const int segment = row / SEGMENT, within = row % SEGMENT;
    const int tap = tap_of[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * 2 + block_of[tile]) * 64 + within;
    const int first = PAIRS ? 0 : step * 2 * LANES + half * LANES;
    const float* from = w + part / MGROUPS * ws.g + co * ws.o + tap / 25 * ws.d + tap / 5 % 5 * ws.h + tap % 5 * ws.w;
    float v[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) v[j] = tap >= 0 && co < COUT && first + j < CIN ? tf_load<float>(from + (first + j) * ws.i) : 0;
    const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));
    *(uint4*)(packed + (long long)(at / 128) * 4096 + (half * 64 + row) * 16) = high;
    *(uint4*)(packed + (long long)(at / 128) * 4096 + (half * 64 + row) * 16 + 2048) = make_uint4(round_tf32(v[0] - __uint_as_float(high.x)), round_tf32(v[1] - __uint_as_float(high.y)), round_tf32(v[2] - __uint_as_float(high.z)), round_tf32(v[3] - __uint_as_float(high.w)));
}
"""

CONSTANTS_10 = r"""
// Dense tiles: run 1x1x3x20 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 2x4 slabs 2x10 chunks 2x64 stores 0 registers 88/0/208 skips
//   axis d: period 1 advance 1 taps 5
//   axis h: period 1 advance 1 taps 5
//   axis w: period 1 advance 1 taps 5
constexpr int STORE_GROUPS = 0;
constexpr int TILE_H = 3, RUN_H = 3, EXTENT_H = 7, TILE_W = 20, RUN_W = 20, EXTENT_W = 24, FIRST_W = -4, PIXELS = 840, PLANE = 840;
constexpr int RUN_PIXELS = 72, LANES = 4, TERMS = 2, STAGE_CHANNELS = 8, KSTAGES = 8, KSTEPS = 8, PIECES = 2, SLABS = 2, SLAB_BYTES = 40960;
constexpr int TILE_BYTES = 4096, CHUNKS = 2, ROW_LENGTH = 72, ACCUMULATORS = 36, STAGE_BYTES = 53760, RAW_BYTES = 16384, STAGES_AT = 81920;
constexpr int RAW_AT = 189440, CHUNKS_AT = 222208, TABLES_AT = 222208, PLACES_AT = 223232, HELD_VALUES = 32;
"""

PRODUCT_2 = r"""
static __device__ __forceinline__ void product(float (&d)[36], unsigned long long a, unsigned long long b, int accumulate) {
#ifdef __CUDACC__
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %38, 0;\nwgmma.mma_async.sync.aligned.m64n72k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35}, %36, %37, p, 1, 1;\n}"
        : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]) : "l"(a), "l"(b), "r"(accumulate));
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
__constant__ int windows[] = {0, 1, 2, 3, 4, 24, 25, 26, 27, 28, 48, 49, 50, 51, 52, 72, 73, 74, 75, 76, 96, 97, 98, 99, 100, 168, 169, 170, 171, 172, 192, 193, 194, 195, 196, 216, 217, 218, 219, 220, 240, 241, 242, 243, 244, 264, 265, 266, 267, 268, 336, 337, 338, 339, 340, 360, 361, 362, 363, 364, 384, 385, 386, 387, 388, 408, 409, 410, 411, 412, 432, 433, 434, 435, 436, 504, 505, 506, 507, 508, 528, 529, 530, 531, 532, 552, 553, 554, 555, 556, 576, 577, 578, 579, 580, 600, 601, 602, 603, 604, 672, 673, 674, 675, 676, 696, 697, 698, 699, 700, 720, 721, 722, 723, 724, 744, 745, 746, 747, 748, 768, 769, 770, 771, 772};   // first pixel of each tap's window

template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, const Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {
    unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;
    (void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;
    bool met = false;
    for (int part = 0; part < 25; part++) {
        if (!slab_meets(part, at, s)) continue;
        met = true;
        held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
        tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
        tiles += WG * (TILE_BYTES / 16);
        const int* window = windows + part * 5;
        products_begin();
        product(acc[0], tiles + 128ll, pixels + window[0] + 0ll, 0);
        product(acc[0], tiles + 0ll, pixels + window[0] + 1680ll, 1);
        product(acc[0], tiles + 640ll, pixels + window[1] + 0ll, 1);
        product(acc[0], tiles + 512ll, pixels + window[1] + 1680ll, 1);
        product(acc[0], tiles + 1152ll, pixels + window[2] + 0ll, 1);
        product(acc[0], tiles + 1024ll, pixels + window[2] + 1680ll, 1);
        product(acc[0], tiles + 1664ll, pixels + window[3] + 0ll, 1);
        product(acc[0], tiles + 1536ll, pixels + window[3] + 1680ll, 1);
        product(acc[0], tiles + 2176ll, pixels + window[4] + 0ll, 1);
        product(acc[0], tiles + 2048ll, pixels + window[4] + 1680ll, 1);
        product(acc[0], tiles + 0ll, pixels + window[0] + 0ll, 1);
        product(acc[0], tiles + 512ll, pixels + window[1] + 0ll, 1);
        product(acc[0], tiles + 1024ll, pixels + window[2] + 0ll, 1);
        product(acc[0], tiles + 1536ll, pixels + window[3] + 0ll, 1);
        product(acc[0], tiles + 2048ll, pixels + window[4] + 0ll, 1);
        products_commit();
        products_wait<0>();
        promote(acc[0], total[0]);
        held.slab = slab;
        held.release(b);
        if (++slab == SLABS) { slab = 0; slab_turn++; }
    }
    if (!met) held.release(b);
    held.stage = slot;
    held.release(b);
}
constexpr int RESULTS = 18;
__constant__ short result_pixels[] = {0, 1, 8, 9, 16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57, 64, 65};   // each result's first pixel, but for the lane's own
typedef unsigned Mask;
"""

CONSTANTS_11 = r"""
extern "C" long long train(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], depth = size[1], height = size[2], width = size[3];
    if (arch == 90 && width % 16 == 0 && aligned(leaf, 5)) {
        const long long mid_depth = depth + 4;
        const long long mid_height = height + 4;
        const long long mid_width = width + 4;
        const long long count_1 = (batch + 3) / 2;
        const long long count_2 = ceil_div(depth * height * width, 8192);
        const long long count_3 = ceil_div(width, 20);
        const long long count_4 = (height + 6) / 3;
        const long long count_5 = ceil_div(depth * height * width, 1024);
        const long long count_6 = 16 * batch + 2;
        const long long at_1 = 4096000;
        const long long at_2 = at_1 + 32768;
        const long long at_3 = at_2 + 512;
        const long long at_4 = at_3 + 512;
        const long long at_5 = at_4 + 512 * batch;
        const long long at_6 = at_5 + 512 * batch * count_2;
        const long long at_7 = at_6 + 512;
        const long long at_8 = at_7 + 1024;
        const long long at_9 = at_8 + 8192000;
        const long long at_10 = at_9 + 135168;
        const long long at_11 = at_10 + 1024;
        if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
        if (!workspace) return at_11 + 1024;
        launch(train_moments, 64 * batch * count_2, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_5), count_2, batch, count_5, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(count_2), divisor(batch));
        launch(train_prepare, 4033, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[1], (float*)workspace, (float*)(workspace + at_1), (const STORED*)leaf[2], (float*)(workspace + at_2));
        launch(train_moments_tail, arch >= 90 ? 8 : 1, 256, 0, arch >= 90 ? 8 : 1, arch >= 90, stream, (const double*)(workspace + at_5), (double*)(workspace + at_6), (const double*)(workspace + at_6), (const float*)(workspace + at_1), (double*)(workspace + at_7), batch, count_2, 64 * batch, 1.0 / (mid_depth * mid_height * mid_width));
        launch(train_moments_tail_3, count_6, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_7), (const float*)(workspace + at_2), (STORED*)out[1], (float*)(workspace + at_3), (const double*)(workspace + at_5), (const float*)(workspace + at_1), (float*)(workspace + at_4), count_2, 64 * batch, count_6, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
        launch(train_pack, 1000, 256, 0, 1, false, stream, (const float*)workspace, (unsigned char*)(workspace + at_8), WeightStrides{1024000, 16000, 125, 25, 5, 1});
        launch(train_dense, 132, 384, 224256, 1, false, stream, (const float*)leaf[0], (const unsigned char*)(workspace + at_8), Sizes{{(int)(batch), (int)(depth), (int)(height), (int)(width)}, {(int)(batch), (int)(mid_depth), (int)(mid_height), (int)(mid_width)}, {(int)(batch), (int)(mid_depth), (int)(count_4), (int)(count_3)}, (int)(batch * mid_depth * count_3 * count_4)}, Strides{64 * depth * height * width, depth * height * width, height * width, width, 1}, (const float*)(workspace + at_3), Strides{0, 1, 0, 0, 0}, (float*)(workspace + at_9));
        launch(train_combine, 8, 1024, 0, 1, arch >= 90, stream, (const float*)(workspace + at_9), (double*)(workspace + at_10), Kept{1, 1, 128, 0, 0, 1}, Reduced{132, 1, 1, 128, 16896, 0}, 1.0 / (batch * mid_depth * mid_height * mid_width));
        launch(train_dense_tail, count_1, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_10), (const double*)(workspace + at_11), (STORED*)out[2], (const float*)(workspace + at_4), (const STORED*)leaf[3], (const STORED*)leaf[4], (STORED*)out[0], count_1, 128 * batch, 1.0 + 1.0 / (batch * mid_depth * mid_height * mid_width - 1));
        return (long long)cudaGetLastError();
    }
    const long long mid_depth = depth + 4;
    const long long mid_height = height + 4;
    const long long mid_width = width + 4;
    const long long count_1 = (batch + 3) / 2;
    const long long count_2 = ceil_div(depth * height * width, 256);
    const long long count_3 = 16 * batch + 2;
    const long long count_4 = ceil_div(batch * mid_depth * mid_height * mid_width, 2);
    const long long at_1 = 4096000;
    const long long at_2 = at_1 + 32768;
    const long long at_3 = at_2 + 512;
    const long long at_4 = at_3 + 512;
    const long long at_5 = at_4 + 512 * batch;
    const long long at_6 = at_5 + 512 * batch;
    const long long at_7 = at_6 + 512;
    const long long at_8 = at_7 + 1024;
    const long long at_9 = at_8 + 512 * batch * mid_depth * mid_height * mid_width;
    const long long at_10 = at_9 + 9216;
    if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
    if (!workspace) return at_10 + 9216;
    launch(train_general_moments, 64 * batch, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_5), batch, count_2, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(batch));
    launch(train_prepare, 4033, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[1], (float*)workspace, (float*)(workspace + at_1), (const STORED*)leaf[2], (float*)(workspace + at_2));
    launch(train_general_moments_tail, arch >= 90 ? 8 : 1, 256, 0, arch >= 90 ? 8 : 1, arch >= 90, stream, (const double*)(workspace + at_5), (double*)(workspace + at_6), (const double*)(workspace + at_6), (const float*)(workspace + at_1), (double*)(workspace + at_7), (const double*)(workspace + at_7), (const float*)(workspace + at_2), (STORED*)out[1], (float*)(workspace + at_3), (float*)(workspace + at_4), batch, 64 * batch, count_3, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
    launch(train_general_dense, count_4, 256, 0, 1, false, stream, (const STORED*)leaf[0], (const float*)workspace, (const float*)(workspace + at_3), (float*)(workspace + at_8), mid_width, mid_height, mid_depth, depth, height, width, 64 * depth * height * width, depth * height * width, height * width, 128 * mid_depth * mid_height * mid_width, mid_depth * mid_height * mid_width, mid_height * mid_width, count_4, 128 * batch * mid_depth * mid_height * mid_width, divisor(mid_width), divisor(mid_height), divisor(mid_depth));
    launch(train_general_dense_4, 2304, 256, 0, 1, arch >= 90, stream, (const float*)(workspace + at_8), (double*)(workspace + at_9), (double*)(workspace + at_10), batch * mid_depth * mid_height * mid_width, 256 * ceil_div(batch * mid_depth * mid_height * mid_width, 2304), mid_width, mid_height, mid_depth, 128 * mid_depth * mid_height * mid_width, mid_depth * mid_height * mid_width, mid_height * mid_width, divisor(mid_width), divisor(mid_height), divisor(mid_depth));
    launch(train_general_dense_5, count_1, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_9), (const double*)(workspace + at_10), (STORED*)out[2], (const float*)(workspace + at_4), (const STORED*)leaf[3], (const STORED*)leaf[4], (STORED*)out[0], batch * mid_depth * mid_height * mid_width, count_1, 128 * batch, 1.0 + 1.0 / (batch * mid_depth * mid_height * mid_width - 1));
    return (long long)cudaGetLastError();
}
"""

TRAIN_MOMENTS_TAIL = r"""
__global__ void __launch_bounds__(256) train_moments(const STORED* __restrict__ p0, double* p1, int count_4, int batch, int count_5, int n9, int depth_x_height_x_width, int n30, tf_divisor per_count_4, tf_divisor per_batch) {
    __shared__ double tf_warps[8], tf_sums[1];
    TF_SEQUENCE();
    const int q0 = tf_quotient_of((int)blockIdx.x, per_count_4), chunk1 = ((int)blockIdx.x - (q0 * count_4)), q2 = q0 / 1;
    const int columns3 = q0 - q2, q4 = q2 / 64, outer5 = (q2 - (q4 * 64)), q6 = tf_quotient_of(q4, per_batch);
    const int outer7 = (q4 - (q6 * batch)), line8 = 0, place9 = (int)threadIdx.x, column10 = (((columns3 * 256) + place9)) * 8;
    const bool inside11 = line8 < 1;
    const int begin12 = chunk1 * 4, end13 = min((begin12 + 4), count_5);
    const STORED* __restrict__ from14 = p0 + (((long long)outer7 * n9) + ((long long)outer5 * depth_x_height_x_width));
    for (int cell15 = 0; cell15 < 1; ++cell15) {
        const int rows16 = end13 - begin12, count17 = rows16;
        double sum18 = 0.0;
        if (inside11 && count17 > 0) {
            for (int t19 = line8; t19 < count17; t19 += 8) {
                const int at20 = ((begin12 + t19)) * 2048 + column10;
                const bool fits21 = at20 < depth_x_height_x_width;
                const int at22 = min(at20, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack23 = *(const tf_vector<STORED, 8>*)(from14 + at22);
                const int row24 = t19 + 1, row25 = min(row24, count17 - 1), at26 = ((begin12 + row25)) * 2048 + column10;
                const bool fits27 = row24 < count17 && at26 < depth_x_height_x_width;
                const int at28 = min(at26, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack29 = *(const tf_vector<STORED, 8>*)(from14 + at28);
                const int row30 = t19 + 2, row31 = min(row30, count17 - 1), at32 = ((begin12 + row31)) * 2048 + column10;
                const bool fits33 = row30 < count17 && at32 < depth_x_height_x_width;
                const int at34 = min(at32, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack35 = *(const tf_vector<STORED, 8>*)(from14 + at34);
                const int row36 = t19 + 3, row37 = min(row36, count17 - 1), at38 = ((begin12 + row37)) * 2048 + column10;
                const bool fits39 = row36 < count17 && at38 < depth_x_height_x_width;
                const int at40 = min(at38, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack41 = *(const tf_vector<STORED, 8>*)(from14 + at40);
                const int row42 = t19 + 4, row43 = min(row42, count17 - 1), at44 = ((begin12 + row43)) * 2048 + column10;
                const bool fits45 = row42 < count17 && at44 < depth_x_height_x_width;
                const int at46 = min(at44, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack47 = *(const tf_vector<STORED, 8>*)(from14 + at46);
                const int row48 = t19 + 5, row49 = min(row48, count17 - 1), at50 = ((begin12 + row49)) * 2048 + column10;
                const bool fits51 = row48 < count17 && at50 < depth_x_height_x_width;
                const int at52 = min(at50, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack53 = *(const tf_vector<STORED, 8>*)(from14 + at52);
                const int row54 = t19 + 6, row55 = min(row54, count17 - 1), at56 = ((begin12 + row55)) * 2048 + column10;
                const bool fits57 = row54 < count17 && at56 < depth_x_height_x_width;
                const int at58 = min(at56, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack59 = *(const tf_vector<STORED, 8>*)(from14 + at58);
                const int row60 = t19 + 7, row61 = min(row60, count17 - 1), at62 = ((begin12 + row61)) * 2048 + column10;
                const bool fits63 = row60 < count17 && at62 < depth_x_height_x_width;
                const int at64 = min(at62, depth_x_height_x_width - 8);
                const tf_vector<STORED, 8> pack65 = *(const tf_vector<STORED, 8>*)(from14 + at64);
                sum18 += (double)(((((((fits21 ? (float)tf_to<float>(pack23.lane[0]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[0]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[0]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[0]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[0]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[0]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[0]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[0]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[1]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[1]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[1]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[1]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[1]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[1]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[1]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[1]) : 0.0f))))) + (((((fits21 ? (float)tf_to<float>(pack23.lane[2]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[2]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[2]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[2]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[2]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[2]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[2]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[2]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[3]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[3]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[3]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[3]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[3]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[3]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[3]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[3]) : 0.0f)))))) + ((((((fits21 ? (float)tf_to<float>(pack23.lane[4]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[4]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[4]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[4]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[4]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[4]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[4]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[4]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[5]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[5]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[5]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[5]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[5]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[5]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[5]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[5]) : 0.0f))))) + (((((fits21 ? (float)tf_to<float>(pack23.lane[6]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[6]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[6]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[6]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[6]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[6]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[6]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[6]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[7]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[7]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[7]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[7]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[7]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[7]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[7]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[7]) : 0.0f)))))));
            }
        }
        const double total66 = count17 > 0 ? tf_warp_sum(inside11 ? sum18 : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 1 + cell15] = total66;
        __syncthreads();
        for (int i67 = threadIdx.x; i67 < 1; i67 += 256) {
            double total68 = 0.0;
            for (int warp69 = 0; warp69 < 8; ++warp69) total68 += tf_warps[warp69 * 1 + i67];
            tf_sums[(cell15 + i67)] = total68;
        }
        __syncthreads();
    }
    __syncthreads();
    const long long to70 = ((((long long)outer7 * 64) + ((long long)outer5 * 1)) + ((long long)(chunk1 + columns3) * n30));
    for (int box71 = threadIdx.x; box71 < 1; box71 += 256) {
        double sum72 = 0.0;
        static const unsigned char tf_intervals[] = {0};
        const unsigned char* of73 = tf_intervals + box71;
        sum72 += tf_sums[0 + of73[0]];
        tf_store(p1 + ((to70 + box71)), sum72);
    }
}

__global__ void __launch_bounds__(256) train_prepare(const STORED* __restrict__ p0, STORED* p1, const STORED* __restrict__ p2, float* p3, const STORED* __restrict__ p4, float* p5, float* p6, const STORED* __restrict__ p7, float* p8) {
    TF_BESIDE();
    for (int block0 = blockIdx.x; block0 < 4035; block0 += gridDim.x) {
        if (block0 < 4000) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 1024000) {
                const tf_index i3 = t2 / 5, i4 = (t2 - (i3 * 5)), i5 = i3 / 5, i6 = (i3 - (i5 * 5)), i7 = i5 / 5;
                const tf_index i8 = (i5 - (i7 * 5)), i9 = i7 / 128, i10 = (i7 - (i9 * 128));
                const float v11 = tf_load<float>(p0 + (((((i9 * 16000) + (i10 * 125)) + (i8 * 25)) + (i6 * 5)) + i4));
                const float v12 = v11 * 2.0f;
                tf_store(p1 + (((((i9 * 16000) + (i10 * 125)) + (i8 * 25)) + (i6 * 5)) + i4), v12);
            }
        } else if (block0 < 4001) {
            const int block13 = block0 - 4000;
            const tf_index t14 = (tf_index)block13 * 256 + threadIdx.x;
            if (t14 < 128) {
                const float v15 = tf_load<float>(p2 + t14), v16 = (float)(v15);
                tf_store(p3 + t14, v16);
            }
        } else if (block0 < 4002) {
            const int block17 = block0 - 4001;
            const tf_index t18 = (tf_index)block17 * 256 + threadIdx.x;
            if (t18 < 128) {
                const float v19 = tf_load<float>(p4 + t18), v20 = (float)(v19);
                tf_store(p5 + t18, v20);
            }
        } else if (block0 < 4034) {
            const int block21 = block0 - 4002;
            const tf_index t22 = (tf_index)block21 * 256 + threadIdx.x;
            if (t22 < 8192) {
                const tf_index i23 = t22 / 128, i24 = (t22 - (i23 * 128));
                const float v25 = tf_load<float>(p0 + ((i23 * 16000) + (i24 * 125))), v26 = v25 * 2.0f, v27 = (float)(v26);
                const float v28 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 25)), v29 = v28 * 2.0f;
                const float v30 = (float)(v29), v31 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 50));
                const float v32 = v31 * 2.0f, v33 = (float)(v32);
                const float v34 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 75)), v35 = v34 * 2.0f;
                const float v36 = (float)(v35), v37 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 100));
                const float v38 = v37 * 2.0f, v39 = (float)(v38);
                const double v40 = (double)v27 * 1.0 + (double)v30 * 1.0 + (double)v33 * 1.0 + (double)v36 * 1.0 + (double)v39 * 1.0;
                const float v41 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 5)), v42 = v41 * 2.0f;
                const float v43 = (float)(v42), v44 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 5));
                const float v45 = v44 * 2.0f, v46 = (float)(v45);
                const float v47 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 5)), v48 = v47 * 2.0f;
                const float v49 = (float)(v48), v50 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 5));
                const float v51 = v50 * 2.0f, v52 = (float)(v51);
                const float v53 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 5)), v54 = v53 * 2.0f;
                const float v55 = (float)(v54);
                const double v56 = (double)v43 * 1.0 + (double)v46 * 1.0 + (double)v49 * 1.0 + (double)v52 * 1.0 + (double)v55 * 1.0;
                const float v57 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 10)), v58 = v57 * 2.0f;
                const float v59 = (float)(v58), v60 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 10));
                const float v61 = v60 * 2.0f, v62 = (float)(v61);
                const float v63 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 10)), v64 = v63 * 2.0f;
                const float v65 = (float)(v64), v66 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 10));
                const float v67 = v66 * 2.0f, v68 = (float)(v67);
                const float v69 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 10)), v70 = v69 * 2.0f;
                const float v71 = (float)(v70);
                const double v72 = (double)v59 * 1.0 + (double)v62 * 1.0 + (double)v65 * 1.0 + (double)v68 * 1.0 + (double)v71 * 1.0;
                const float v73 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 15)), v74 = v73 * 2.0f;
                const float v75 = (float)(v74), v76 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 15));
                const float v77 = v76 * 2.0f, v78 = (float)(v77);
                const float v79 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 15)), v80 = v79 * 2.0f;
                const float v81 = (float)(v80), v82 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 15));
                const float v83 = v82 * 2.0f, v84 = (float)(v83);
                const float v85 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 15)), v86 = v85 * 2.0f;
                const float v87 = (float)(v86);
                const double v88 = (double)v75 * 1.0 + (double)v78 * 1.0 + (double)v81 * 1.0 + (double)v84 * 1.0 + (double)v87 * 1.0;
                const float v89 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 20)), v90 = v89 * 2.0f;
                const float v91 = (float)(v90), v92 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 20));
                const float v93 = v92 * 2.0f, v94 = (float)(v93);
                const float v95 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 20)), v96 = v95 * 2.0f;
                const float v97 = (float)(v96), v98 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 20));
                const float v99 = v98 * 2.0f, v100 = (float)(v99);
                const float v101 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 20)), v102 = v101 * 2.0f;
                const float v103 = (float)(v102);
                const double v104 = (double)v91 * 1.0 + (double)v94 * 1.0 + (double)v97 * 1.0 + (double)v100 * 1.0 + (double)v103 * 1.0;
                const double v105 = (double)v40 * 1.0 + (double)v56 * 1.0 + (double)v72 * 1.0 + (double)v88 * 1.0 + (double)v104 * 1.0;
                const float v106 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 1)), v107 = v106 * 2.0f;
                const float v108 = (float)(v107), v109 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 1));
                const float v110 = v109 * 2.0f, v111 = (float)(v110);
                const float v112 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 1)), v113 = v112 * 2.0f;
                const float v114 = (float)(v113), v115 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 1));
                const float v116 = v115 * 2.0f, v117 = (float)(v116);
                const float v118 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 1)), v119 = v118 * 2.0f;
                const float v120 = (float)(v119);
                const double v121 = (double)v108 * 1.0 + (double)v111 * 1.0 + (double)v114 * 1.0 + (double)v117 * 1.0 + (double)v120 * 1.0;
                const float v122 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 5) + 1)), v123 = v122 * 2.0f;
                const float v124 = (float)(v123), v125 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 5) + 1));
                const float v126 = v125 * 2.0f, v127 = (float)(v126);
                const float v128 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 5) + 1)), v129 = v128 * 2.0f;
                const float v130 = (float)(v129), v131 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 5) + 1));
                const float v132 = v131 * 2.0f, v133 = (float)(v132);
                const float v134 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 5) + 1)), v135 = v134 * 2.0f;
                const float v136 = (float)(v135);
                const double v137 = (double)v124 * 1.0 + (double)v127 * 1.0 + (double)v130 * 1.0 + (double)v133 * 1.0 + (double)v136 * 1.0;
                const float v138 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 10) + 1)), v139 = v138 * 2.0f;
                const float v140 = (float)(v139);
                const float v141 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 10) + 1)), v142 = v141 * 2.0f;
                const float v143 = (float)(v142);
                const float v144 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 10) + 1)), v145 = v144 * 2.0f;
                const float v146 = (float)(v145);
                const float v147 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 10) + 1)), v148 = v147 * 2.0f;
                const float v149 = (float)(v148);
                const float v150 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 10) + 1)), v151 = v150 * 2.0f;
                const float v152 = (float)(v151);
                const double v153 = (double)v140 * 1.0 + (double)v143 * 1.0 + (double)v146 * 1.0 + (double)v149 * 1.0 + (double)v152 * 1.0;
                const float v154 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 15) + 1)), v155 = v154 * 2.0f;
                const float v156 = (float)(v155);
                const float v157 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 15) + 1)), v158 = v157 * 2.0f;
                const float v159 = (float)(v158);
                const float v160 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 15) + 1)), v161 = v160 * 2.0f;
                const float v162 = (float)(v161);
                const float v163 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 15) + 1)), v164 = v163 * 2.0f;
                const float v165 = (float)(v164);
                const float v166 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 15) + 1)), v167 = v166 * 2.0f;
                const float v168 = (float)(v167);
                const double v169 = (double)v156 * 1.0 + (double)v159 * 1.0 + (double)v162 * 1.0 + (double)v165 * 1.0 + (double)v168 * 1.0;
                const float v170 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 20) + 1)), v171 = v170 * 2.0f;
                const float v172 = (float)(v171);
                const float v173 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 20) + 1)), v174 = v173 * 2.0f;
                const float v175 = (float)(v174);
                const float v176 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 20) + 1)), v177 = v176 * 2.0f;
                const float v178 = (float)(v177);
                const float v179 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 20) + 1)), v180 = v179 * 2.0f;
                const float v181 = (float)(v180);
                const float v182 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 20) + 1)), v183 = v182 * 2.0f;
                const float v184 = (float)(v183);
                const double v185 = (double)v172 * 1.0 + (double)v175 * 1.0 + (double)v178 * 1.0 + (double)v181 * 1.0 + (double)v184 * 1.0;
                const double v186 = (double)v121 * 1.0 + (double)v137 * 1.0 + (double)v153 * 1.0 + (double)v169 * 1.0 + (double)v185 * 1.0;
                const float v187 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 2)), v188 = v187 * 2.0f;
                const float v189 = (float)(v188), v190 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 2));
                const float v191 = v190 * 2.0f, v192 = (float)(v191);
                const float v193 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 2)), v194 = v193 * 2.0f;
                const float v195 = (float)(v194), v196 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 2));
                const float v197 = v196 * 2.0f, v198 = (float)(v197);
                const float v199 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 2)), v200 = v199 * 2.0f;
                const float v201 = (float)(v200);
                const double v202 = (double)v189 * 1.0 + (double)v192 * 1.0 + (double)v195 * 1.0 + (double)v198 * 1.0 + (double)v201 * 1.0;
                const float v203 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 5) + 2)), v204 = v203 * 2.0f;
                const float v205 = (float)(v204), v206 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 5) + 2));
                const float v207 = v206 * 2.0f, v208 = (float)(v207);
                const float v209 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 5) + 2)), v210 = v209 * 2.0f;
                const float v211 = (float)(v210), v212 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 5) + 2));
                const float v213 = v212 * 2.0f, v214 = (float)(v213);
                const float v215 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 5) + 2)), v216 = v215 * 2.0f;
                const float v217 = (float)(v216);
                const double v218 = (double)v205 * 1.0 + (double)v208 * 1.0 + (double)v211 * 1.0 + (double)v214 * 1.0 + (double)v217 * 1.0;
                const float v219 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 10) + 2)), v220 = v219 * 2.0f;
                const float v221 = (float)(v220);
                const float v222 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 10) + 2)), v223 = v222 * 2.0f;
                const float v224 = (float)(v223);
                const float v225 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 10) + 2)), v226 = v225 * 2.0f;
                const float v227 = (float)(v226);
                const float v228 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 10) + 2)), v229 = v228 * 2.0f;
                const float v230 = (float)(v229);
                const float v231 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 10) + 2)), v232 = v231 * 2.0f;
                const float v233 = (float)(v232);
                const double v234 = (double)v221 * 1.0 + (double)v224 * 1.0 + (double)v227 * 1.0 + (double)v230 * 1.0 + (double)v233 * 1.0;
                const float v235 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 15) + 2)), v236 = v235 * 2.0f;
                const float v237 = (float)(v236);
                const float v238 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 15) + 2)), v239 = v238 * 2.0f;
                const float v240 = (float)(v239);
                const float v241 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 15) + 2)), v242 = v241 * 2.0f;
                const float v243 = (float)(v242);
                const float v244 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 15) + 2)), v245 = v244 * 2.0f;
                const float v246 = (float)(v245);
                const float v247 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 15) + 2)), v248 = v247 * 2.0f;
                const float v249 = (float)(v248);
                const double v250 = (double)v237 * 1.0 + (double)v240 * 1.0 + (double)v243 * 1.0 + (double)v246 * 1.0 + (double)v249 * 1.0;
                const float v251 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 20) + 2)), v252 = v251 * 2.0f;
                const float v253 = (float)(v252);
                const float v254 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 20) + 2)), v255 = v254 * 2.0f;
                const float v256 = (float)(v255);
                const float v257 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 20) + 2)), v258 = v257 * 2.0f;
                const float v259 = (float)(v258);
                const float v260 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 20) + 2)), v261 = v260 * 2.0f;
                const float v262 = (float)(v261);
                const float v263 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 20) + 2)), v264 = v263 * 2.0f;
                const float v265 = (float)(v264);
                const double v266 = (double)v253 * 1.0 + (double)v256 * 1.0 + (double)v259 * 1.0 + (double)v262 * 1.0 + (double)v265 * 1.0;
                const double v267 = (double)v202 * 1.0 + (double)v218 * 1.0 + (double)v234 * 1.0 + (double)v250 * 1.0 + (double)v266 * 1.0;
                const float v268 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 3)), v269 = v268 * 2.0f;
                const float v270 = (float)(v269), v271 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 3));
                const float v272 = v271 * 2.0f, v273 = (float)(v272);
                const float v274 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 3)), v275 = v274 * 2.0f;
                const float v276 = (float)(v275), v277 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 3));
                const float v278 = v277 * 2.0f, v279 = (float)(v278);
                const float v280 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 3)), v281 = v280 * 2.0f;
                const float v282 = (float)(v281);
                const double v283 = (double)v270 * 1.0 + (double)v273 * 1.0 + (double)v276 * 1.0 + (double)v279 * 1.0 + (double)v282 * 1.0;
                const float v284 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 5) + 3)), v285 = v284 * 2.0f;
                const float v286 = (float)(v285), v287 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 5) + 3));
                const float v288 = v287 * 2.0f, v289 = (float)(v288);
                const float v290 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 5) + 3)), v291 = v290 * 2.0f;
                const float v292 = (float)(v291), v293 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 5) + 3));
                const float v294 = v293 * 2.0f, v295 = (float)(v294);
                const float v296 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 5) + 3)), v297 = v296 * 2.0f;
                const float v298 = (float)(v297);
                const double v299 = (double)v286 * 1.0 + (double)v289 * 1.0 + (double)v292 * 1.0 + (double)v295 * 1.0 + (double)v298 * 1.0;
                const float v300 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 10) + 3)), v301 = v300 * 2.0f;
                const float v302 = (float)(v301);
                const float v303 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 10) + 3)), v304 = v303 * 2.0f;
                const float v305 = (float)(v304);
                const float v306 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 10) + 3)), v307 = v306 * 2.0f;
                const float v308 = (float)(v307);
                const float v309 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 10) + 3)), v310 = v309 * 2.0f;
                const float v311 = (float)(v310);
                const float v312 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 10) + 3)), v313 = v312 * 2.0f;
                const float v314 = (float)(v313);
                const double v315 = (double)v302 * 1.0 + (double)v305 * 1.0 + (double)v308 * 1.0 + (double)v311 * 1.0 + (double)v314 * 1.0;
                const float v316 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 15) + 3)), v317 = v316 * 2.0f;
                const float v318 = (float)(v317);
                const float v319 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 15) + 3)), v320 = v319 * 2.0f;
                const float v321 = (float)(v320);
                const float v322 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 15) + 3)), v323 = v322 * 2.0f;
                const float v324 = (float)(v323);
                const float v325 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 15) + 3)), v326 = v325 * 2.0f;
                const float v327 = (float)(v326);
                const float v328 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 15) + 3)), v329 = v328 * 2.0f;
                const float v330 = (float)(v329);
                const double v331 = (double)v318 * 1.0 + (double)v321 * 1.0 + (double)v324 * 1.0 + (double)v327 * 1.0 + (double)v330 * 1.0;
                const float v332 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 20) + 3)), v333 = v332 * 2.0f;
                const float v334 = (float)(v333);
                const float v335 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 20) + 3)), v336 = v335 * 2.0f;
                const float v337 = (float)(v336);
                const float v338 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 20) + 3)), v339 = v338 * 2.0f;
                const float v340 = (float)(v339);
                const float v341 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 20) + 3)), v342 = v341 * 2.0f;
                const float v343 = (float)(v342);
                const float v344 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 20) + 3)), v345 = v344 * 2.0f;
                const float v346 = (float)(v345);
                const double v347 = (double)v334 * 1.0 + (double)v337 * 1.0 + (double)v340 * 1.0 + (double)v343 * 1.0 + (double)v346 * 1.0;
                const double v348 = (double)v283 * 1.0 + (double)v299 * 1.0 + (double)v315 * 1.0 + (double)v331 * 1.0 + (double)v347 * 1.0;
                const float v349 = tf_load<float>(p0 + (((i23 * 16000) + (i24 * 125)) + 4)), v350 = v349 * 2.0f;
                const float v351 = (float)(v350), v352 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 25) + 4));
                const float v353 = v352 * 2.0f, v354 = (float)(v353);
                const float v355 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 50) + 4)), v356 = v355 * 2.0f;
                const float v357 = (float)(v356), v358 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 75) + 4));
                const float v359 = v358 * 2.0f, v360 = (float)(v359);
                const float v361 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 100) + 4)), v362 = v361 * 2.0f;
                const float v363 = (float)(v362);
                const double v364 = (double)v351 * 1.0 + (double)v354 * 1.0 + (double)v357 * 1.0 + (double)v360 * 1.0 + (double)v363 * 1.0;
                const float v365 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 5) + 4)), v366 = v365 * 2.0f;
                const float v367 = (float)(v366), v368 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 5) + 4));
                const float v369 = v368 * 2.0f, v370 = (float)(v369);
                const float v371 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 5) + 4)), v372 = v371 * 2.0f;
                const float v373 = (float)(v372), v374 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 5) + 4));
                const float v375 = v374 * 2.0f, v376 = (float)(v375);
                const float v377 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 5) + 4)), v378 = v377 * 2.0f;
                const float v379 = (float)(v378);
                const double v380 = (double)v367 * 1.0 + (double)v370 * 1.0 + (double)v373 * 1.0 + (double)v376 * 1.0 + (double)v379 * 1.0;
                const float v381 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 10) + 4)), v382 = v381 * 2.0f;
                const float v383 = (float)(v382);
                const float v384 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 10) + 4)), v385 = v384 * 2.0f;
                const float v386 = (float)(v385);
                const float v387 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 10) + 4)), v388 = v387 * 2.0f;
                const float v389 = (float)(v388);
                const float v390 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 10) + 4)), v391 = v390 * 2.0f;
                const float v392 = (float)(v391);
                const float v393 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 10) + 4)), v394 = v393 * 2.0f;
                const float v395 = (float)(v394);
                const double v396 = (double)v383 * 1.0 + (double)v386 * 1.0 + (double)v389 * 1.0 + (double)v392 * 1.0 + (double)v395 * 1.0;
                const float v397 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 15) + 4)), v398 = v397 * 2.0f;
                const float v399 = (float)(v398);
                const float v400 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 15) + 4)), v401 = v400 * 2.0f;
                const float v402 = (float)(v401);
                const float v403 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 15) + 4)), v404 = v403 * 2.0f;
                const float v405 = (float)(v404);
                const float v406 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 15) + 4)), v407 = v406 * 2.0f;
                const float v408 = (float)(v407);
                const float v409 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 15) + 4)), v410 = v409 * 2.0f;
                const float v411 = (float)(v410);
                const double v412 = (double)v399 * 1.0 + (double)v402 * 1.0 + (double)v405 * 1.0 + (double)v408 * 1.0 + (double)v411 * 1.0;
                const float v413 = tf_load<float>(p0 + ((((i23 * 16000) + (i24 * 125)) + 20) + 4)), v414 = v413 * 2.0f;
                const float v415 = (float)(v414);
                const float v416 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 25) + 20) + 4)), v417 = v416 * 2.0f;
                const float v418 = (float)(v417);
                const float v419 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 50) + 20) + 4)), v420 = v419 * 2.0f;
                const float v421 = (float)(v420);
                const float v422 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 75) + 20) + 4)), v423 = v422 * 2.0f;
                const float v424 = (float)(v423);
                const float v425 = tf_load<float>(p0 + (((((i23 * 16000) + (i24 * 125)) + 100) + 20) + 4)), v426 = v425 * 2.0f;
                const float v427 = (float)(v426);
                const double v428 = (double)v415 * 1.0 + (double)v418 * 1.0 + (double)v421 * 1.0 + (double)v424 * 1.0 + (double)v427 * 1.0;
                const double v429 = (double)v364 * 1.0 + (double)v380 * 1.0 + (double)v396 * 1.0 + (double)v412 * 1.0 + (double)v428 * 1.0;
                const double v430 = (double)v105 * 1.0 + (double)v186 * 1.0 + (double)v267 * 1.0 + (double)v348 * 1.0 + (double)v429 * 1.0;
                tf_store(p6 + ((i23 * 128) + i24), v430);
            }
        } else {
            const int block431 = block0 - 4034;
            const tf_index t432 = (tf_index)block431 * 256 + threadIdx.x;
            if (t432 < 128) {
                const float v433 = tf_load<float>(p7 + t432), v434 = v433 * 2.0f, v435 = (float)(v434);
                tf_store(p8 + t432, v435);
            }
        }
    }
    TF_AFTER();
}

__global__ void __launch_bounds__(256) train_moments_tail(const double* p0, const float* p1, double* p2, const double* p3, float* p4, const float* p5, STORED* p6, float* p7, int count_4, int n6, int batch, int count0, int count1, int count_2, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count0; block0 += gridDim.x) {
        {
            const int lane1 = threadIdx.x % 8, slice2 = threadIdx.x / 8;
            const tf_index o3 = (tf_index)block0 * 8 + lane1, o4 = min(o3, (tf_index)(count1 - 1)), i5 = o4 / 128;
            const tf_index i6 = (o4 - (i5 * 128));
            double a7 = 0.0;
            #pragma unroll 4
            for (tf_index t8 = slice2; t8 < 64; t8 += 32) {
                double a9 = 0.0;
                for (tf_index r10 = 0; r10 < count_4; ++r10) {
                    const double v11 = (double)p0[(((i5 * 64) + t8) + (r10 * n6))];
                    a9 += v11;
                }
                const double v12 = (double)(a9);
                const float v13 = tf_load<float>(p1 + ((t8 * 128) + i6));
                a7 += ((double)v12 * (double)v13);
            }
            const int s14 = slice2 * 8 + lane1;
            tf_shared[s14] = (double)a7;
            __syncthreads();
            for (int half15 = 16; half15 > 0; half15 /= 2) {
                if (slice2 < half15) {
                    const int s16 = s14 + half15 * 8;
                    a7 += tf_shared[s16];
                    tf_shared[s14] = (double)a7;
                }
                __syncthreads();
            }
            if (slice2 == 0 && o3 < count1) {
                const double v17 = (double)a7;
                tf_store(p2 + ((i5 * 128) + i6), v17);
            }
            __syncthreads();
        }
    }
    TF_CLUSTER_BARRIER();
    for (int block18 = blockIdx.x; block18 < count_2; block18 += gridDim.x) {
        if (block18 < 1) {
            const int block19 = block18;
            const tf_index t20 = (tf_index)block19 * 256 + threadIdx.x;
            if (t20 < 128) {
                double a21 = 0.0;
                for (tf_index r22 = 0; r22 < batch; ++r22) {
                    const double v23 = tf_load<double>(p3 + ((r22 * 128) + t20));
                    a21 += v23;
                }
                const double v24 = (double)(a21 / (double)batch), v25 = v24 * scale0, v26 = -v25;
                tf_store(p4 + t20, v26);
            }
        } else if (block18 < 2) {
            const int block27 = block18 - 1;
            const tf_index t28 = (tf_index)block27 * 256 + threadIdx.x;
            if (t28 < 128) {
                double a29 = 0.0;
                for (tf_index r30 = 0; r30 < batch; ++r30) {
                    const double v31 = tf_load<double>(p3 + ((r30 * 128) + t28));
                    a29 += v31;
                }
                const double v32 = (double)(a29 / (double)batch), v33 = v32 * scale0;
                const float v34 = tf_load<float>(p5 + t28);
                const double v35 = v33 + (double)v34, v36 = tf_round<STORED>(v35);
                tf_store(p6 + t28, v36);
            }
        } else {
            const int block37 = block18 - 2;
            const tf_index t38 = (tf_index)block37 * 256 + threadIdx.x;
            if (t38 < count1) {
                const tf_index i39 = t38 / 128, i40 = (t38 - (i39 * 128));
                const double v41 = tf_load<double>(p3 + ((i39 * 128) + i40)), v42 = v41 * scale0;
                double a43 = 0.0;
                for (tf_index r44 = 0; r44 < batch; ++r44) {
                    const double v45 = tf_load<double>(p3 + ((r44 * 128) + i40));
                    a43 += v45;
                }
                const double v46 = (double)(a43 / (double)batch), v47 = v46 * scale0, v48 = v42 - v47;
                tf_store(p7 + ((i39 * 128) + i40), v48);
            }
        }
    }
}
"""

TRAIN_PACK_3 = r"""
// Packs canonical weights [G, Cin, Cout, K...] as operand tiles: [part][K step][tile][K half][8 rows of 8][8 channels].
__constant__ short tap_of[] = {124, 124, 124, 124, 123, 123, 123, 123, 122, 122, 122, 122, 121, 121, 121, 121, 120, 120, 120, 120, 119, 119, 119, 119, 118, 118, 118, 118, 117, 117, 117, 117, 116, 116, 116, 116, 115, 115, 115, 115, 114, 114, 114, 114, 113, 113, 113, 113, 112, 112, 112, 112, 111, 111, 111, 111, 110, 110, 110, 110, 109, 109, 109, 109, 108, 108, 108, 108, 107, 107, 107, 107, 106, 106, 106, 106, 105, 105, 105, 105, 104, 104, 104, 104, 103, 103, 103, 103, 102, 102, 102, 102, 101, 101, 101, 101, 100, 100, 100, 100, 99, 99, 99, 99, 98, 98, 98, 98, 97, 97, 97, 97, 96, 96, 96, 96, 95, 95, 95, 95, 94, 94, 94, 94, 93, 93, 93, 93, 92, 92, 92, 92, 91, 91, 91, 91, 90, 90, 90, 90, 89, 89, 89, 89, 88, 88, 88, 88, 87, 87, 87, 87, 86, 86, 86, 86, 85, 85, 85, 85, 84, 84, 84, 84, 83, 83, 83, 83, 82, 82, 82, 82, 81, 81, 81, 81, 80, 80, 80, 80, 79, 79, 79, 79, 78, 78, 78, 78, 77, 77, 77, 77, 76, 76, 76, 76, 75, 75, 75, 75, 74, 74, 74, 74, 73, 73, 73, 73, 72, 72, 72, 72, 71, 71, 71, 71, 70, 70, 70, 70, 69, 69, 69, 69, 68, 68, 68, 68, 67, 67, 67, 67, 66, 66, 66, 66, 65, 65, 65, 65, 64, 64, 64, 64, 63, 63, 63, 63, 62, 62, 62, 62, 61, 61, 61, 61, 60, 60, 60, 60, 59, 59, 59, 59, 58, 58, 58, 58, 57, 57, 57, 57, 56, 56, 56, 56, 55, 55, 55, 55, 54, 54, 54, 54, 53, 53, 53, 53, 52, 52, 52, 52, 51, 51, 51, 51, 50, 50, 50, 50, 49, 49, 49, 49, 48, 48, 48, 48, 47, 47, 47, 47, 46, 46, 46, 46, 45, 45, 45, 45, 44, 44, 44, 44, 43, 43, 43, 43, 42, 42, 42, 42, 41, 41, 41, 41, 40, 40, 40, 40, 39, 39, 39, 39, 38, 38, 38, 38, 37, 37, 37, 37, 36, 36, 36, 36, 35, 35, 35, 35, 34, 34, 34, 34, 33, 33, 33, 33, 32, 32, 32, 32, 31, 31, 31, 31, 30, 30, 30, 30, 29, 29, 29, 29, 28, 28, 28, 28, 27, 27, 27, 27, 26, 26, 26, 26, 25, 25, 25, 25, 24, 24, 24, 24, 23, 23, 23, 23, 22, 22, 22, 22, 21, 21, 21, 21, 20, 20, 20, 20, 19, 19, 19, 19, 18, 18, 18, 18, 17, 17, 17, 17, 16, 16, 16, 16, 15, 15, 15, 15, 14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0};

__global__ void __launch_bounds__(256) train_pack(const STORED* __restrict__ w, unsigned char* __restrict__ packed, WeightStrides ws) {
    const int at = blockIdx.x * 256 + threadIdx.x;          // one 16-byte vector: a row's channels of one K half
    if (at >= 128000) return;
    constexpr int TILES = 250, KSTEPS = 4, LANES = 8, CIN = 64, COUT = 128;
    constexpr int SEGMENT = 64, SEGMENTS = 1, MGROUPS = 1, PAIRS = 0;
    const int row = at % 64, half = at / 64 % 2, tile = at / 128 % TILES, step = at / (128 * TILES) % KSTEPS, part = at / (128 * TILES * KSTEPS);
    const int segment = row / SEGMENT, within = row % SEGMENT;
    const int tap = tap_of[(tile * SEGMENTS + segment) * 2 + half], co = (part % MGROUPS * 2 + block_of[tile]) * 64 + within;
    const int first = PAIRS ? 0 : step * 2 * LANES + half * LANES;
    const STORED* from = w + part / MGROUPS * ws.g + co * ws.o + tap / 25 * ws.d + tap / 5 % 5 * ws.h + tap % 5 * ws.w;
    float v[LANES];
#pragma unroll
    for (int j = 0; j < LANES; j++) v[j] = tap >= 0 && co < COUT && first + j < CIN ? tf_load<float>(from + (first + j) * ws.i) : 0;
    tf_vector<STORED, LANES> whole;
#pragma unroll
    for (int j = 0; j < LANES; j++) tf_from(whole.lane[j], v[j]);
    *(tf_vector<STORED, LANES>*)(packed + (long long)(at / 128) * 2048 + (half * 64 + row) * 16) = whole;
}
"""

CONSTANTS_12 = r"""
// Dense tiles: run 1x1x3x40 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 2x4 slabs 3x8 chunks 2x64 stores 0 registers 88/0/208 skips
//   axis d: period 1 advance 1 taps 5
//   axis h: period 1 advance 1 taps 5
//   axis w: period 1 advance 1 taps 5
constexpr int STORE_GROUPS = 0;
constexpr int TILE_H = 3, RUN_H = 3, EXTENT_H = 7, TILE_W = 40, RUN_W = 40, EXTENT_W = 48, FIRST_W = -8, PIXELS = 1680, PLANE = 1680;
constexpr int RUN_PIXELS = 136, LANES = 8, TERMS = 1, STAGE_CHANNELS = 16, KSTAGES = 4, KSTEPS = 4, PIECES = 2, SLABS = 3, SLAB_BYTES = 16384;
constexpr int TILE_BYTES = 2048, CHUNKS = 3, ROW_LENGTH = 136, ACCUMULATORS = 68, STAGE_BYTES = 53760, RAW_BYTES = 32768, STAGES_AT = 49152;
constexpr int RAW_AT = 156672, CHUNKS_AT = 222208, TABLES_AT = 222208, PLACES_AT = 223232, HELD_VALUES = 16;
typedef STORED ELEMENT;
"""

SLAB_COUNT_2 = r"""
static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * 8, 250); }
static __device__ __forceinline__ int slab_count(int) { return 32; }
__constant__ int slab_reaches[] = {-4, -4, -4, -4, -4, -4, -4, -3, -4, -4, -3, -2, -4, -4, -2, -1, -4, -4, -1, -1, -4, -4, 0, 0, -4, -3, -4, 0, -3, -3, -4, -3, -3, -3, -3, -2, -3, -3, -2, -2, -3, -3, -1, -1, -3, -3, -1, 0, -3, -2, -4, 0, -2, -2, -4, -3, -2, -2, -3, -3, -2, -2, -2, -2, -2, -2, -2, -1, -2, -2, -1, 0, -2, -1, -4, 0, -1, -1, -4, -4, -1, -1, -3, -3, -1, -1, -3, -2, -1, -1, -2, -1, -1, -1, -1, 0, -1, -1, 0, 0, 0, 0, -4, -4, 0, 0, -4, -3, 0, 0, -3, -2, 0, 0, -2, -1, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};   // first and last shift along d, along h
"""

PRODUCT_3 = r"""
static __device__ __forceinline__ void product(float (&d)[68], unsigned long long a, unsigned long long b, int accumulate) {
#ifdef __CUDACC__
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %70, 0;\nwgmma.mma_async.sync.aligned.m64n136k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67}, %68, %69, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]),"+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67]) : "l"(a), "l"(b), "r"(accumulate));
#else
    multiply_group<ELEMENT>(d, a, b, accumulate, [](ELEMENT e) { return tf_to<float>(e); });
#endif
}
"""

MULTIPLY_3 = r"""
__constant__ int windows[] = {4, 5, 6, 7, 8, 52, 53, 54, 55, 56, 100, 101, 102, 103, 104, 148, 149, 150, 151, 152, 196, 197, 198, 199, 200, 340, 341, 342, 343, 344, 388, 389, 390, 391, 392, 436, 437, 438, 439, 440, 484, 485, 486, 487, 488, 532, 533, 534, 535, 536, 676, 677, 678, 679, 680, 724, 725, 726, 727, 728, 772, 773, 774, 775, 776, 820, 821, 822, 823, 824, 868, 869, 870, 871, 872, 1012, 1013, 1014, 1015, 1016, 1060, 1061, 1062, 1063, 1064, 1108, 1109, 1110, 1111, 1112, 1156, 1157, 1158, 1159, 1160, 1204, 1205, 1206, 1207, 1208, 1348, 1349, 1350, 1351, 1352, 1396, 1397, 1398, 1399, 1400, 1444, 1445, 1446, 1447, 1448, 1492, 1493, 1494, 1495, 1496, 1540, 1541, 1542, 1543, 1544};   // first pixel of each tap's window

template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, const Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {
    unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;
    (void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;
    bool met = false;
    for (int part = 0; part < 32; part++) {
        if (!slab_meets(part, at, s)) continue;
        met = true;
        held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
        tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
        tiles += WG * (TILE_BYTES / 16);
        const int* window = windows + part * 4;
        products_begin();
       {
            product(acc[0], tiles + 0ll, pixels + (window[0] + 0), 1);
        }
        if (part < 31)
       {
            product(acc[0], tiles + 256ll, pixels + (window[1] + 0), 1);
        }
        if (part < 31)
       {
            product(acc[0], tiles + 512ll, pixels + (window[2] + 0), 1);
        }
        if (part < 31)
       {
            product(acc[0], tiles + 768ll, pixels + (window[3] + 0), 1);
        }
        products_commit();
        products_wait<1>();
        held.release(b);
        held.slab = slab;
        if (++slab == SLABS) { slab = 0; slab_turn++; }
    }
    if (!met) held.release(b);
    held.stage = slot;
}
constexpr int RESULTS = 34;
__constant__ short result_pixels[] = {0, 1, 8, 9, 16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57, 64, 65, 72, 73, 80, 81, 88, 89, 96, 97, 104, 105, 112, 113, 120, 121, 128, 129};   // each result's first pixel, but for the lane's own
"""

CONSTANTS_13 = r"""
// The tile program on accumulators. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the columns 8j + 2(lane % 4) + {0, 1}.
template <int WG> struct Fragments {
    const REAL* table;
    const Sizes& s;
    const Operands& operands;
    int column, channel, segment;     // of the lane: first column; first row's channel and segment
    bool counts;                      // false: another lane has the same results
    struct Inside { unsigned ends, other_ends; Mask mask, other; };   // of this tile and of the last one with other ends
    Inside inside[MASKS][MASK_ROWS];  // bit k: result k lies in the output
    REAL sums[RESULT_ROWS][STATS];
    template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {
#pragma unroll
        for (int i = 0; i < N; i++) r[i] = from[SEGMENTS > 1 ? 0 : i * 8];
    }
    __device__ __forceinline__ void clear(REAL (&to)[RESULT_ROWS][STATS]) {
#pragma unroll
        for (int i = 0; i < RESULT_ROWS; i++) {
            to[i][0] = 0.f;
            to[i][1] = 0.f;
        }
    }
    __device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes& sizes, const Operands& given, int t) : table((const REAL*)(shared + TABLES_AT)), s(sizes), operands(given) {
        const int lane = t % 32, row = lane / 4, warp = t / 32;
        column = lane % 4 * 2;
        channel = (SPLIT_CHANNELS ? WG * 64 : 0) + (SEGMENTS > 1 ? warp * (16 / SEGMENTS) + row % (16 / SEGMENTS) : warp * 16 + row);
        segment = SEGMENTS >= 4 ? row / 4 * 2 + (SEGMENTS == 8 ? row / 2 % 2 * 4 : 0) : 0;   // the second row: one more
        counts = true;
        clear(sums);
#pragma unroll
        for (int i = 0; i < MASKS * MASK_ROWS; i++) inside[i / MASK_ROWS][i % MASK_ROWS] = Inside{0, 0, 0, 0};
    }
    __device__ __forceinline__ Mask find_inside(Inside& known, const Place& at, int code) {
        const unsigned end_N = max(0, min(RUN_N, (s.out[0] - 0 + PERIOD_N - 1) / PERIOD_N - at.u[0] - WG * SECOND_N));
        const unsigned end_D = max(0, min(RUN_D, (s.out[1] - (code >> 16) + PERIOD_D - 1) / PERIOD_D - at.u[1] - WG * SECOND_D));
        const unsigned end_H = max(0, min(RUN_H, (s.out[2] - (code >> 8 & 255) + PERIOD_H - 1) / PERIOD_H - at.u[2] - WG * SECOND_H));
        const unsigned end_W = max(0, min(RUN_W, (s.out[3] - (code & 255) + PERIOD_W - 1) / PERIOD_W - at.u[3] - WG * SECOND_W));
        const unsigned now = code < 0 || !counts ? 0 : end_N << 24 | end_D << 16 | end_H << 8 | end_W;
        if (now == known.ends) return known.mask;
        const bool back = now == known.other_ends;
        Mask mask = back ? known.other : 0;
        known.other = known.mask;
        known.other_ends = known.ends;
        if (!back)
#pragma unroll 1
        for (int k = 0; k < RESULTS; k++) {
            const unsigned p = result_pixels[k] + column, r = p / EXTENT_W;
            if (p % EXTENT_W < end_W && r % EXTENT_H < end_H && r / EXTENT_H % EXTENT_D < end_D && r / (EXTENT_H * EXTENT_D) < end_N) mask |= (Mask)1 << k;
        }
        known.ends = now;
        return known.mask = mask;
    }
    __device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int tile) {
        const int group = at.fixed / MGROUPS, first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + channel, image = at.u[0];
        (void)group, (void)first_channel, (void)image;
#define CHANNEL(i) (first_channel + (SEGMENTS > 1 ? 0 : (i) * 8))
#define CHANNEL_OK(i) (CHANNEL(i) < COUT)
        REAL parts[RESULT_ROWS][STATS];
        clear(parts);
        constexpr int BATCH = 2, VECTOR = RESULTS;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            Mask mask[MASK_ROWS];
#pragma unroll
            for (int i = 0; i < MASK_ROWS; i++) mask[i] = find_inside(inside[b][i], at, segment_phases[((at.variant * 2 + WG) * BLOCKS + b) * SEGMENTS + segment + i]);
            REAL v28[BATCH][VECTOR];
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++) v28[i][e] = acc[b][e / 2 * 4 + i * 2 + e % 2];
            REAL r27[BATCH];
            load_rows(r27, table + 0 + group * COUT + CHANNEL(0));
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
            v28[i][e] += r27[i];
            REAL v29[BATCH][VECTOR];
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
            v29[i][e] = (float)(v28[i][e]);
            REAL v30[BATCH][VECTOR];
#pragma unroll
            for (int i = 0; i < BATCH; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
            v30[i][e] = v29[i][e] * v29[i][e];
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
#pragma unroll
            for (int i = 0; i < BATCH; i++)
            if (mask[SEGMENTS > 1 ? i : 0] >> e & 1) {
                parts[SEGMENTS > 1 ? 0 : i][0] = parts[SEGMENTS > 1 ? 0 : i][0] + v30[i][e];
                parts[SEGMENTS > 1 ? 0 : i][1] = parts[SEGMENTS > 1 ? 0 : i][1] + v29[i][e];
            }
        }
#pragma unroll
        for (int i = 0; i < RESULT_ROWS; i++) {
            sums[i][0] = sums[i][0] + parts[i][0];
            sums[i][1] = sums[i][1] + parts[i][1];
        }
#undef CHANNEL
#undef CHANNEL_OK
    }
    __device__ __forceinline__ void write(REAL (&parts)[RESULT_ROWS][STATS], int channel_at, int channel_in_group, long long rows, long long row) {
#pragma unroll
        for (int i = 0; i < RESULT_ROWS; i++) {
            parts[i][0] = (parts[i][0] + __shfl_xor_sync(~0u, parts[i][0], 1));
            parts[i][1] = (parts[i][1] + __shfl_xor_sync(~0u, parts[i][1], 1));
            parts[i][0] = (parts[i][0] + __shfl_xor_sync(~0u, parts[i][0], 2));
            parts[i][1] = (parts[i][1] + __shfl_xor_sync(~0u, parts[i][1], 2));
            if (column == 0 && segment == 0 && channel_in_group + i * 8 < COUT) {
#pragma unroll
                for (int k = 0; k < STATS; k++) operands.partial[(k * rows + row) * 128 + channel_at + i * 8] = parts[i][k];
            }
        }
    }
    __device__ __forceinline__ void finish() {
        write(sums, channel, channel, gridDim.x * WRITERS, blockIdx.x * WRITERS + (WRITERS > 1 ? WG : 0));
    }
};
"""

TRAIN_DENSE_TAIL_2 = r"""
__global__ void __launch_bounds__(256) train_dense_tail(const double* p0, const double* p1, STORED* p2, const float* p3, const float* p4, const float* p5, STORED* p6, int count_1, int count5, double scale0) {
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count_1; block0 += gridDim.x) {
        if (block0 < 1) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 128) {
                const double v3 = tf_load<double>(p0 + t2), v4 = tf_load<double>(p1 + t2), v5 = v4 * v4, v6 = v3 - v5;
                const double v7 = v6 * scale0, v8 = tf_round<STORED>(v7);
                tf_store(p2 + t2, v8);
            }
        } else {
            const int block9 = block0 - 1;
            const tf_index t10 = (tf_index)block9 * 256 + threadIdx.x;
            if (t10 < count5) {
                const tf_index i11 = t10 / 128, i12 = (t10 - (i11 * 128));
                const float v13 = tf_load<float>(p3 + ((i11 * 128) + i12));
                const double v14 = tf_load<double>(p0 + i12), v15 = tf_load<double>(p1 + i12), v16 = v15 * v15;
                const double v17 = v14 - v16, v18 = v17 + 1.0000000000000001e-05, v19 = tf_rsqrt(v18);
                const float v20 = tf_load<float>(p4 + i12);
                const double v21 = v19 * (double)v20, v22 = (double)v13 * v21;
                const float v23 = tf_load<float>(p5 + i12);
                const double v24 = v22 + (double)v23, v25 = tf_round<STORED>(v24);
                tf_store(p6 + ((i11 * 128) + i12), v25);
            }
        }
    }
}
"""

TRAIN_GENERAL_PREPARE = r"""
__global__ void __launch_bounds__(256) train_general_prepare(const STORED* __restrict__ p0, float* p1, float* p2, const STORED* __restrict__ p3, float* p4) {
    TF_BESIDE();
    for (int block0 = blockIdx.x; block0 < 4033; block0 += gridDim.x) {
        if (block0 < 4000) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 1024000) {
                const tf_index i3 = t2 / 5, i4 = (t2 - (i3 * 5)), i5 = i3 / 5, i6 = (i3 - (i5 * 5)), i7 = i5 / 5;
                const tf_index i8 = (i5 - (i7 * 5)), i9 = i7 / 128, i10 = (i7 - (i9 * 128));
                const float v11 = tf_load<float>(p0 + (((((i9 * 16000) + (i10 * 125)) + (i8 * 25)) + (i6 * 5)) + i4));
                const float v12 = v11 * 2.0f;
                tf_store(p1 + (((((i9 * 16000) + (i10 * 125)) + (i8 * 25)) + (i6 * 5)) + i4), v12);
            }
        } else if (block0 < 4032) {
            const int block13 = block0 - 4000;
            const tf_index t14 = (tf_index)block13 * 256 + threadIdx.x;
            if (t14 < 8192) {
                const tf_index i15 = t14 / 128, i16 = (t14 - (i15 * 128));
                const float v17 = tf_load<float>(p0 + ((i15 * 16000) + (i16 * 125))), v18 = v17 * 2.0f;
                const float v19 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 25)), v20 = v19 * 2.0f;
                const float v21 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 50)), v22 = v21 * 2.0f;
                const float v23 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 75)), v24 = v23 * 2.0f;
                const float v25 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 100)), v26 = v25 * 2.0f;
                const double v27 = (double)v18 * 1.0 + (double)v20 * 1.0 + (double)v22 * 1.0 + (double)v24 * 1.0 + (double)v26 * 1.0;
                const float v28 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 5)), v29 = v28 * 2.0f;
                const float v30 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 5)), v31 = v30 * 2.0f;
                const float v32 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 5)), v33 = v32 * 2.0f;
                const float v34 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 5)), v35 = v34 * 2.0f;
                const float v36 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 5)), v37 = v36 * 2.0f;
                const double v38 = (double)v29 * 1.0 + (double)v31 * 1.0 + (double)v33 * 1.0 + (double)v35 * 1.0 + (double)v37 * 1.0;
                const float v39 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 10)), v40 = v39 * 2.0f;
                const float v41 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 10)), v42 = v41 * 2.0f;
                const float v43 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 10)), v44 = v43 * 2.0f;
                const float v45 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 10)), v46 = v45 * 2.0f;
                const float v47 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 10)), v48 = v47 * 2.0f;
                const double v49 = (double)v40 * 1.0 + (double)v42 * 1.0 + (double)v44 * 1.0 + (double)v46 * 1.0 + (double)v48 * 1.0;
                const float v50 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 15)), v51 = v50 * 2.0f;
                const float v52 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 15)), v53 = v52 * 2.0f;
                const float v54 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 15)), v55 = v54 * 2.0f;
                const float v56 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 15)), v57 = v56 * 2.0f;
                const float v58 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 15)), v59 = v58 * 2.0f;
                const double v60 = (double)v51 * 1.0 + (double)v53 * 1.0 + (double)v55 * 1.0 + (double)v57 * 1.0 + (double)v59 * 1.0;
                const float v61 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 20)), v62 = v61 * 2.0f;
                const float v63 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 20)), v64 = v63 * 2.0f;
                const float v65 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 20)), v66 = v65 * 2.0f;
                const float v67 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 20)), v68 = v67 * 2.0f;
                const float v69 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 20)), v70 = v69 * 2.0f;
                const double v71 = (double)v62 * 1.0 + (double)v64 * 1.0 + (double)v66 * 1.0 + (double)v68 * 1.0 + (double)v70 * 1.0;
                const double v72 = (double)v27 * 1.0 + (double)v38 * 1.0 + (double)v49 * 1.0 + (double)v60 * 1.0 + (double)v71 * 1.0;
                const float v73 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 1)), v74 = v73 * 2.0f;
                const float v75 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 1)), v76 = v75 * 2.0f;
                const float v77 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 1)), v78 = v77 * 2.0f;
                const float v79 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 1)), v80 = v79 * 2.0f;
                const float v81 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 1)), v82 = v81 * 2.0f;
                const double v83 = (double)v74 * 1.0 + (double)v76 * 1.0 + (double)v78 * 1.0 + (double)v80 * 1.0 + (double)v82 * 1.0;
                const float v84 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 1)), v85 = v84 * 2.0f;
                const float v86 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 1)), v87 = v86 * 2.0f;
                const float v88 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 1)), v89 = v88 * 2.0f;
                const float v90 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 1)), v91 = v90 * 2.0f;
                const float v92 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 1)), v93 = v92 * 2.0f;
                const double v94 = (double)v85 * 1.0 + (double)v87 * 1.0 + (double)v89 * 1.0 + (double)v91 * 1.0 + (double)v93 * 1.0;
                const float v95 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 1)), v96 = v95 * 2.0f;
                const float v97 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 1)), v98 = v97 * 2.0f;
                const float v99 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 1)), v100 = v99 * 2.0f;
                const float v101 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 1)), v102 = v101 * 2.0f;
                const float v103 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 1)), v104 = v103 * 2.0f;
                const double v105 = (double)v96 * 1.0 + (double)v98 * 1.0 + (double)v100 * 1.0 + (double)v102 * 1.0 + (double)v104 * 1.0;
                const float v106 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 1)), v107 = v106 * 2.0f;
                const float v108 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 1)), v109 = v108 * 2.0f;
                const float v110 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 1)), v111 = v110 * 2.0f;
                const float v112 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 1)), v113 = v112 * 2.0f;
                const float v114 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 1)), v115 = v114 * 2.0f;
                const double v116 = (double)v107 * 1.0 + (double)v109 * 1.0 + (double)v111 * 1.0 + (double)v113 * 1.0 + (double)v115 * 1.0;
                const float v117 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 1)), v118 = v117 * 2.0f;
                const float v119 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 1)), v120 = v119 * 2.0f;
                const float v121 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 1)), v122 = v121 * 2.0f;
                const float v123 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 1)), v124 = v123 * 2.0f;
                const float v125 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 1)), v126 = v125 * 2.0f;
                const double v127 = (double)v118 * 1.0 + (double)v120 * 1.0 + (double)v122 * 1.0 + (double)v124 * 1.0 + (double)v126 * 1.0;
                const double v128 = (double)v83 * 1.0 + (double)v94 * 1.0 + (double)v105 * 1.0 + (double)v116 * 1.0 + (double)v127 * 1.0;
                const float v129 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 2)), v130 = v129 * 2.0f;
                const float v131 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 2)), v132 = v131 * 2.0f;
                const float v133 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 2)), v134 = v133 * 2.0f;
                const float v135 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 2)), v136 = v135 * 2.0f;
                const float v137 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 2)), v138 = v137 * 2.0f;
                const double v139 = (double)v130 * 1.0 + (double)v132 * 1.0 + (double)v134 * 1.0 + (double)v136 * 1.0 + (double)v138 * 1.0;
                const float v140 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 2)), v141 = v140 * 2.0f;
                const float v142 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 2)), v143 = v142 * 2.0f;
                const float v144 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 2)), v145 = v144 * 2.0f;
                const float v146 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 2)), v147 = v146 * 2.0f;
                const float v148 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 2)), v149 = v148 * 2.0f;
                const double v150 = (double)v141 * 1.0 + (double)v143 * 1.0 + (double)v145 * 1.0 + (double)v147 * 1.0 + (double)v149 * 1.0;
                const float v151 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 2)), v152 = v151 * 2.0f;
                const float v153 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 2)), v154 = v153 * 2.0f;
                const float v155 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 2)), v156 = v155 * 2.0f;
                const float v157 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 2)), v158 = v157 * 2.0f;
                const float v159 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 2)), v160 = v159 * 2.0f;
                const double v161 = (double)v152 * 1.0 + (double)v154 * 1.0 + (double)v156 * 1.0 + (double)v158 * 1.0 + (double)v160 * 1.0;
                const float v162 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 2)), v163 = v162 * 2.0f;
                const float v164 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 2)), v165 = v164 * 2.0f;
                const float v166 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 2)), v167 = v166 * 2.0f;
                const float v168 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 2)), v169 = v168 * 2.0f;
                const float v170 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 2)), v171 = v170 * 2.0f;
                const double v172 = (double)v163 * 1.0 + (double)v165 * 1.0 + (double)v167 * 1.0 + (double)v169 * 1.0 + (double)v171 * 1.0;
                const float v173 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 2)), v174 = v173 * 2.0f;
                const float v175 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 2)), v176 = v175 * 2.0f;
                const float v177 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 2)), v178 = v177 * 2.0f;
                const float v179 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 2)), v180 = v179 * 2.0f;
                const float v181 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 2)), v182 = v181 * 2.0f;
                const double v183 = (double)v174 * 1.0 + (double)v176 * 1.0 + (double)v178 * 1.0 + (double)v180 * 1.0 + (double)v182 * 1.0;
                const double v184 = (double)v139 * 1.0 + (double)v150 * 1.0 + (double)v161 * 1.0 + (double)v172 * 1.0 + (double)v183 * 1.0;
                const float v185 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 3)), v186 = v185 * 2.0f;
                const float v187 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 3)), v188 = v187 * 2.0f;
                const float v189 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 3)), v190 = v189 * 2.0f;
                const float v191 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 3)), v192 = v191 * 2.0f;
                const float v193 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 3)), v194 = v193 * 2.0f;
                const double v195 = (double)v186 * 1.0 + (double)v188 * 1.0 + (double)v190 * 1.0 + (double)v192 * 1.0 + (double)v194 * 1.0;
                const float v196 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 3)), v197 = v196 * 2.0f;
                const float v198 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 3)), v199 = v198 * 2.0f;
                const float v200 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 3)), v201 = v200 * 2.0f;
                const float v202 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 3)), v203 = v202 * 2.0f;
                const float v204 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 3)), v205 = v204 * 2.0f;
                const double v206 = (double)v197 * 1.0 + (double)v199 * 1.0 + (double)v201 * 1.0 + (double)v203 * 1.0 + (double)v205 * 1.0;
                const float v207 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 3)), v208 = v207 * 2.0f;
                const float v209 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 3)), v210 = v209 * 2.0f;
                const float v211 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 3)), v212 = v211 * 2.0f;
                const float v213 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 3)), v214 = v213 * 2.0f;
                const float v215 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 3)), v216 = v215 * 2.0f;
                const double v217 = (double)v208 * 1.0 + (double)v210 * 1.0 + (double)v212 * 1.0 + (double)v214 * 1.0 + (double)v216 * 1.0;
                const float v218 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 3)), v219 = v218 * 2.0f;
                const float v220 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 3)), v221 = v220 * 2.0f;
                const float v222 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 3)), v223 = v222 * 2.0f;
                const float v224 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 3)), v225 = v224 * 2.0f;
                const float v226 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 3)), v227 = v226 * 2.0f;
                const double v228 = (double)v219 * 1.0 + (double)v221 * 1.0 + (double)v223 * 1.0 + (double)v225 * 1.0 + (double)v227 * 1.0;
                const float v229 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 3)), v230 = v229 * 2.0f;
                const float v231 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 3)), v232 = v231 * 2.0f;
                const float v233 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 3)), v234 = v233 * 2.0f;
                const float v235 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 3)), v236 = v235 * 2.0f;
                const float v237 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 3)), v238 = v237 * 2.0f;
                const double v239 = (double)v230 * 1.0 + (double)v232 * 1.0 + (double)v234 * 1.0 + (double)v236 * 1.0 + (double)v238 * 1.0;
                const double v240 = (double)v195 * 1.0 + (double)v206 * 1.0 + (double)v217 * 1.0 + (double)v228 * 1.0 + (double)v239 * 1.0;
                const float v241 = tf_load<float>(p0 + (((i15 * 16000) + (i16 * 125)) + 4)), v242 = v241 * 2.0f;
                const float v243 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 25) + 4)), v244 = v243 * 2.0f;
                const float v245 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 50) + 4)), v246 = v245 * 2.0f;
                const float v247 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 75) + 4)), v248 = v247 * 2.0f;
                const float v249 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 100) + 4)), v250 = v249 * 2.0f;
                const double v251 = (double)v242 * 1.0 + (double)v244 * 1.0 + (double)v246 * 1.0 + (double)v248 * 1.0 + (double)v250 * 1.0;
                const float v252 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 5) + 4)), v253 = v252 * 2.0f;
                const float v254 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 5) + 4)), v255 = v254 * 2.0f;
                const float v256 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 5) + 4)), v257 = v256 * 2.0f;
                const float v258 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 5) + 4)), v259 = v258 * 2.0f;
                const float v260 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 5) + 4)), v261 = v260 * 2.0f;
                const double v262 = (double)v253 * 1.0 + (double)v255 * 1.0 + (double)v257 * 1.0 + (double)v259 * 1.0 + (double)v261 * 1.0;
                const float v263 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 10) + 4)), v264 = v263 * 2.0f;
                const float v265 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 10) + 4)), v266 = v265 * 2.0f;
                const float v267 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 10) + 4)), v268 = v267 * 2.0f;
                const float v269 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 10) + 4)), v270 = v269 * 2.0f;
                const float v271 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 10) + 4)), v272 = v271 * 2.0f;
                const double v273 = (double)v264 * 1.0 + (double)v266 * 1.0 + (double)v268 * 1.0 + (double)v270 * 1.0 + (double)v272 * 1.0;
                const float v274 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 15) + 4)), v275 = v274 * 2.0f;
                const float v276 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 15) + 4)), v277 = v276 * 2.0f;
                const float v278 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 15) + 4)), v279 = v278 * 2.0f;
                const float v280 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 15) + 4)), v281 = v280 * 2.0f;
                const float v282 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 15) + 4)), v283 = v282 * 2.0f;
                const double v284 = (double)v275 * 1.0 + (double)v277 * 1.0 + (double)v279 * 1.0 + (double)v281 * 1.0 + (double)v283 * 1.0;
                const float v285 = tf_load<float>(p0 + ((((i15 * 16000) + (i16 * 125)) + 20) + 4)), v286 = v285 * 2.0f;
                const float v287 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 25) + 20) + 4)), v288 = v287 * 2.0f;
                const float v289 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 50) + 20) + 4)), v290 = v289 * 2.0f;
                const float v291 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 75) + 20) + 4)), v292 = v291 * 2.0f;
                const float v293 = tf_load<float>(p0 + (((((i15 * 16000) + (i16 * 125)) + 100) + 20) + 4)), v294 = v293 * 2.0f;
                const double v295 = (double)v286 * 1.0 + (double)v288 * 1.0 + (double)v290 * 1.0 + (double)v292 * 1.0 + (double)v294 * 1.0;
                const double v296 = (double)v251 * 1.0 + (double)v262 * 1.0 + (double)v273 * 1.0 + (double)v284 * 1.0 + (double)v295 * 1.0;
                const double v297 = (double)v72 * 1.0 + (double)v128 * 1.0 + (double)v184 * 1.0 + (double)v240 * 1.0 + (double)v296 * 1.0;
                tf_store(p2 + ((i15 * 128) + i16), v297);
            }
        } else {
            const int block298 = block0 - 4032;
            const tf_index t299 = (tf_index)block298 * 256 + threadIdx.x;
            if (t299 < 128) {
                const float v300 = tf_load<float>(p3 + t299), v301 = v300 * 2.0f;
                tf_store(p4 + t299, v301);
            }
        }
    }
    TF_AFTER();
}
"""

EVAL_MOMENTS = r"""
__global__ void __launch_bounds__(256) eval_moments(const STORED* __restrict__ p0, double* p1, int count_1, int batch, int count_2, int n9, int depth_x_height_x_width, int n30, tf_divisor per_count_1, tf_divisor per_batch) {
    __shared__ double tf_warps[8], tf_sums[1];
    TF_SEQUENCE();
    const int q0 = tf_quotient_of((int)blockIdx.x, per_count_1), chunk1 = ((int)blockIdx.x - (q0 * count_1)), q2 = q0 / 1;
    const int columns3 = q0 - q2, q4 = q2 / 64, outer5 = (q2 - (q4 * 64)), q6 = tf_quotient_of(q4, per_batch);
    const int outer7 = (q4 - (q6 * batch)), line8 = 0, place9 = (int)threadIdx.x, column10 = (((columns3 * 256) + place9)) * 4;
    const bool inside11 = line8 < 1;
    const int begin12 = chunk1 * 8, end13 = min((begin12 + 8), count_2);
    const STORED* __restrict__ from14 = p0 + (((long long)outer7 * n9) + ((long long)outer5 * depth_x_height_x_width));
    for (int cell15 = 0; cell15 < 1; ++cell15) {
        const int rows16 = end13 - begin12, count17 = rows16;
        double sum18 = 0.0;
        if (inside11 && count17 > 0) {
            for (int t19 = line8; t19 < count17; t19 += 8) {
                const int at20 = ((begin12 + t19)) * 1024 + column10;
                const bool fits21 = at20 < depth_x_height_x_width;
                const int at22 = min(at20, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack23 = *(const tf_vector<STORED, 4>*)(from14 + at22);
                const int row24 = t19 + 1, row25 = min(row24, count17 - 1), at26 = ((begin12 + row25)) * 1024 + column10;
                const bool fits27 = row24 < count17 && at26 < depth_x_height_x_width;
                const int at28 = min(at26, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack29 = *(const tf_vector<STORED, 4>*)(from14 + at28);
                const int row30 = t19 + 2, row31 = min(row30, count17 - 1), at32 = ((begin12 + row31)) * 1024 + column10;
                const bool fits33 = row30 < count17 && at32 < depth_x_height_x_width;
                const int at34 = min(at32, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack35 = *(const tf_vector<STORED, 4>*)(from14 + at34);
                const int row36 = t19 + 3, row37 = min(row36, count17 - 1), at38 = ((begin12 + row37)) * 1024 + column10;
                const bool fits39 = row36 < count17 && at38 < depth_x_height_x_width;
                const int at40 = min(at38, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack41 = *(const tf_vector<STORED, 4>*)(from14 + at40);
                const int row42 = t19 + 4, row43 = min(row42, count17 - 1), at44 = ((begin12 + row43)) * 1024 + column10;
                const bool fits45 = row42 < count17 && at44 < depth_x_height_x_width;
                const int at46 = min(at44, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack47 = *(const tf_vector<STORED, 4>*)(from14 + at46);
                const int row48 = t19 + 5, row49 = min(row48, count17 - 1), at50 = ((begin12 + row49)) * 1024 + column10;
                const bool fits51 = row48 < count17 && at50 < depth_x_height_x_width;
                const int at52 = min(at50, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack53 = *(const tf_vector<STORED, 4>*)(from14 + at52);
                const int row54 = t19 + 6, row55 = min(row54, count17 - 1), at56 = ((begin12 + row55)) * 1024 + column10;
                const bool fits57 = row54 < count17 && at56 < depth_x_height_x_width;
                const int at58 = min(at56, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack59 = *(const tf_vector<STORED, 4>*)(from14 + at58);
                const int row60 = t19 + 7, row61 = min(row60, count17 - 1), at62 = ((begin12 + row61)) * 1024 + column10;
                const bool fits63 = row60 < count17 && at62 < depth_x_height_x_width;
                const int at64 = min(at62, depth_x_height_x_width - 4);
                const tf_vector<STORED, 4> pack65 = *(const tf_vector<STORED, 4>*)(from14 + at64);
                sum18 += (double)((((((fits21 ? (float)tf_to<float>(pack23.lane[0]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[0]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[0]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[0]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[0]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[0]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[0]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[0]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[1]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[1]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[1]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[1]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[1]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[1]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[1]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[1]) : 0.0f))))) + (((((fits21 ? (float)tf_to<float>(pack23.lane[2]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[2]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[2]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[2]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[2]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[2]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[2]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[2]) : 0.0f)))) + ((((fits21 ? (float)tf_to<float>(pack23.lane[3]) : 0.0f) + (fits27 ? (float)tf_to<float>(pack29.lane[3]) : 0.0f)) + ((fits33 ? (float)tf_to<float>(pack35.lane[3]) : 0.0f) + (fits39 ? (float)tf_to<float>(pack41.lane[3]) : 0.0f))) + (((fits45 ? (float)tf_to<float>(pack47.lane[3]) : 0.0f) + (fits51 ? (float)tf_to<float>(pack53.lane[3]) : 0.0f)) + ((fits57 ? (float)tf_to<float>(pack59.lane[3]) : 0.0f) + (fits63 ? (float)tf_to<float>(pack65.lane[3]) : 0.0f))))));
            }
        }
        const double total66 = count17 > 0 ? tf_warp_sum(inside11 ? sum18 : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 1 + cell15] = total66;
        __syncthreads();
        for (int i67 = threadIdx.x; i67 < 1; i67 += 256) {
            double total68 = 0.0;
            for (int warp69 = 0; warp69 < 8; ++warp69) total68 += tf_warps[warp69 * 1 + i67];
            tf_sums[(cell15 + i67)] = total68;
        }
        __syncthreads();
    }
    __syncthreads();
    const long long to70 = ((((long long)outer7 * 64) + ((long long)outer5 * 1)) + ((long long)(chunk1 + columns3) * n30));
    for (int box71 = threadIdx.x; box71 < 1; box71 += 256) {
        double sum72 = 0.0;
        static const unsigned char tf_intervals[] = {0};
        const unsigned char* of73 = tf_intervals + box71;
        sum72 += tf_sums[0 + of73[0]];
        tf_store(p1 + ((to70 + box71)), sum72);
    }
}
"""

CONSTANTS_14 = r"""
extern "C" long long train(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], depth = size[1], height = size[2], width = size[3];
    if (arch == 90 && width % 16 == 0 && aligned(leaf, 5)) {
        const long long mid_depth = depth + 4;
        const long long mid_height = height + 4;
        const long long mid_width = width + 4;
        const long long count_1 = (batch + 3) / 2;
        const long long count_2 = (batch + 5) / 2;
        const long long count_3 = ceil_div(width, 40);
        const long long count_4 = ceil_div(depth * height * width, 8192);
        const long long count_5 = ceil_div(depth * height * width, 2048);
        const long long count_6 = (height + 6) / 3;
        const long long at_1 = 2048000;
        const long long at_2 = at_1 + 512;
        const long long at_3 = at_2 + 512;
        const long long at_4 = at_3 + 32768;
        const long long at_5 = at_4 + 512;
        const long long at_6 = at_5 + 512;
        const long long at_7 = at_6 + 512 * batch;
        const long long at_8 = at_7 + 512 * batch * count_4;
        const long long at_9 = at_8 + 1024 * batch;
        const long long at_10 = at_9 + 2048000;
        const long long at_11 = at_10 + 135168;
        const long long at_12 = at_11 + 1024;
        if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
        if (!workspace) return at_12 + 1024;
        launch(train_moments, 64 * batch * count_4, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_7), count_4, batch, count_5, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(count_4), divisor(batch));
        launch(train_prepare, 4035, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[1], (STORED*)workspace, (const STORED*)leaf[3], (float*)(workspace + at_1), (const STORED*)leaf[4], (float*)(workspace + at_2), (float*)(workspace + at_3), (const STORED*)leaf[2], (float*)(workspace + at_4));
        launch(train_moments_tail, arch >= 90 ? 8 : 1, 256, 0, arch >= 90 ? 8 : 1, arch >= 90, stream, (const double*)(workspace + at_7), (const float*)(workspace + at_3), (double*)(workspace + at_8), (const double*)(workspace + at_8), (float*)(workspace + at_5), (const float*)(workspace + at_4), (STORED*)out[1], (float*)(workspace + at_6), count_4, 64 * batch, batch, 16 * batch, 128 * batch, count_2, 1.0 / (mid_depth * mid_height * mid_width));
        launch(train_pack, 500, 256, 0, 1, false, stream, (const STORED*)workspace, (unsigned char*)(workspace + at_9), WeightStrides{1024000, 16000, 125, 25, 5, 1});
        launch(train_dense, 132, 384, 224256, 1, false, stream, (const STORED*)leaf[0], (const unsigned char*)(workspace + at_9), Sizes{{(int)(batch), (int)(depth), (int)(height), (int)(width)}, {(int)(batch), (int)(mid_depth), (int)(mid_height), (int)(mid_width)}, {(int)(batch), (int)(mid_depth), (int)(count_6), (int)(count_3)}, (int)(batch * mid_depth * count_3 * count_6)}, Strides{64 * depth * height * width, depth * height * width, height * width, width, 1}, (const float*)(workspace + at_5), Strides{0, 1, 0, 0, 0}, (float*)(workspace + at_10));
        launch(train_combine, 8, 1024, 0, 1, arch >= 90, stream, (const float*)(workspace + at_10), (double*)(workspace + at_11), Kept{1, 1, 128, 0, 0, 1}, Reduced{132, 1, 1, 128, 16896, 0}, 1.0 / (batch * mid_depth * mid_height * mid_width));
        launch(train_dense_tail, count_1, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_11), (const double*)(workspace + at_12), (STORED*)out[2], (const float*)(workspace + at_6), (const float*)(workspace + at_1), (const float*)(workspace + at_2), (STORED*)out[0], count_1, 128 * batch, 1.0 + 1.0 / (batch * mid_depth * mid_height * mid_width - 1));
        return (long long)cudaGetLastError();
    }
    const long long mid_depth = depth + 4;
    const long long mid_height = height + 4;
    const long long mid_width = width + 4;
    const long long count_1 = (batch + 3) / 2;
    const long long count_2 = ceil_div(depth * height * width, 256);
    const long long count_3 = 16 * batch + 2;
    const long long count_4 = ceil_div(batch * mid_depth * mid_height * mid_width, 2);
    const long long at_1 = 4096000;
    const long long at_2 = at_1 + 32768;
    const long long at_3 = at_2 + 512;
    const long long at_4 = at_3 + 512;
    const long long at_5 = at_4 + 512 * batch;
    const long long at_6 = at_5 + 512 * batch;
    const long long at_7 = at_6 + 512;
    const long long at_8 = at_7 + 1024;
    const long long at_9 = at_8 + 512 * batch * mid_depth * mid_height * mid_width;
    const long long at_10 = at_9 + 9216;
    if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
    if (!workspace) return at_10 + 9216;
    launch(train_general_moments, 64 * batch, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_5), batch, count_2, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(batch));
    launch(train_general_prepare, 4033, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[1], (float*)workspace, (float*)(workspace + at_1), (const STORED*)leaf[2], (float*)(workspace + at_2));
    launch(train_general_moments_tail, arch >= 90 ? 8 : 1, 256, 0, arch >= 90 ? 8 : 1, arch >= 90, stream, (const double*)(workspace + at_5), (double*)(workspace + at_6), (const double*)(workspace + at_6), (const float*)(workspace + at_1), (double*)(workspace + at_7), (const double*)(workspace + at_7), (const float*)(workspace + at_2), (STORED*)out[1], (float*)(workspace + at_3), (float*)(workspace + at_4), batch, 64 * batch, count_3, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
    launch(train_general_dense, count_4, 256, 0, 1, false, stream, (const STORED*)leaf[0], (const float*)workspace, (const float*)(workspace + at_3), (float*)(workspace + at_8), mid_width, mid_height, mid_depth, depth, height, width, 64 * depth * height * width, depth * height * width, height * width, 128 * mid_depth * mid_height * mid_width, mid_depth * mid_height * mid_width, mid_height * mid_width, count_4, 128 * batch * mid_depth * mid_height * mid_width, divisor(mid_width), divisor(mid_height), divisor(mid_depth));
    launch(train_general_dense_4, 2304, 256, 0, 1, arch >= 90, stream, (const float*)(workspace + at_8), (double*)(workspace + at_9), (double*)(workspace + at_10), batch * mid_depth * mid_height * mid_width, 256 * ceil_div(batch * mid_depth * mid_height * mid_width, 2304), mid_width, mid_height, mid_depth, 128 * mid_depth * mid_height * mid_width, mid_depth * mid_height * mid_width, mid_height * mid_width, divisor(mid_width), divisor(mid_height), divisor(mid_depth));
    launch(train_general_dense_5, count_1, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_9), (const double*)(workspace + at_10), (STORED*)out[2], (const float*)(workspace + at_4), (const STORED*)leaf[3], (const STORED*)leaf[4], (STORED*)out[0], batch * mid_depth * mid_height * mid_width, count_1, 128 * batch, 1.0 + 1.0 / (batch * mid_depth * mid_height * mid_width - 1));
    return (long long)cudaGetLastError();
}

extern "C" long long eval(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], depth = size[1], height = size[2], width = size[3];
    if (width % 16 == 0 && aligned(leaf, 7)) {
        const long long mid_depth = depth + 4;
        const long long mid_height = height + 4;
        const long long mid_width = width + 4;
        const long long count_1 = ceil_div(depth * height * width, 8192);
        const long long count_2 = ceil_div(depth * height * width, 1024);
        const long long at_1 = 512;
        const long long at_2 = at_1 + 512;
        const long long at_3 = at_2 + 32768;
        const long long at_4 = at_3 + 512;
        if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
        if (!workspace) return at_4 + 512 * batch * count_1;
        launch(eval_moments, 64 * batch * count_1, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_4), count_1, batch, count_2, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(count_1), divisor(batch));
        launch(eval_prepare, 35, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[4], (const STORED*)leaf[5], (float*)workspace, (const STORED*)leaf[6], (const STORED*)leaf[3], (float*)(workspace + at_1), (const STORED*)leaf[1], (float*)(workspace + at_2), (const STORED*)leaf[2], (float*)(workspace + at_3));
        launch(eval_moments_tail, 16 * batch, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_4), (const float*)(workspace + at_2), (const float*)(workspace + at_3), (const float*)workspace, (const float*)(workspace + at_1), (STORED*)out[0], count_1, 64 * batch, 16 * batch, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
        return (long long)cudaGetLastError();
    }
    const long long mid_depth = depth + 4;
    const long long mid_height = height + 4;
    const long long mid_width = width + 4;
    const long long count_1 = ceil_div(depth * height * width, 256);
    const long long at_1 = 512;
    const long long at_2 = at_1 + 512;
    const long long at_3 = at_2 + 32768;
    const long long at_4 = at_3 + 512;
    if (128 * batch * mid_depth * mid_height * mid_width >= 1ll << 31) return -1;
    if (!workspace) return at_4 + 512 * batch;
    launch(train_general_moments, 64 * batch, 256, 0, 1, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_4), batch, count_1, 64 * depth * height * width, depth * height * width, 64 * batch, divisor(batch));
    launch(eval_prepare, 35, 256, 0, 1, arch >= 90, stream, (const STORED*)leaf[4], (const STORED*)leaf[5], (float*)workspace, (const STORED*)leaf[6], (const STORED*)leaf[3], (float*)(workspace + at_1), (const STORED*)leaf[1], (float*)(workspace + at_2), (const STORED*)leaf[2], (float*)(workspace + at_3));
    launch(eval_general_moments_tail, 16 * batch, 256, 0, 1, arch >= 90, stream, (const double*)(workspace + at_4), (const float*)(workspace + at_2), (const float*)(workspace + at_3), (const float*)workspace, (const float*)(workspace + at_1), (STORED*)out[0], 64 * batch, 16 * batch, 128 * batch, 1.0 / (mid_depth * mid_height * mid_width));
    return (long long)cudaGetLastError();
}
"""

# What is compiled for which arithmetic: fp32 as PyTorch's TF32 switch allows, strict fp32, 16 bits.
SOURCES = {
    "fp32": ARITHMETIC + TRAIN_MOMENTS + TRAIN_PREPARE + TRAIN_MOMENTS_TAIL_3 + OPENING + CONSTANTS + TRAIN_PACK + CONSTANTS_2 + CONSTANTS_3 + CONSTANTS_4 + CONSTANTS_5 + SLAB_COUNT + SLAB_REACH + PRODUCT + PUT_BLOCK + MULTIPLY + CONSTANTS_6 + CONSTANTS_7 + TRAIN_DENSE + CONSTANTS_5 + TRAIN_COMBINE + TRAIN_DENSE_TAIL + TRAIN_GENERAL_MOMENTS + TRAIN_GENERAL_DENSE_5 + EVAL_GENERAL_MOMENTS_TAIL + CONSTANTS_8 + CONSTANTS_9,
    "strict": ARITHMETIC + TRAIN_MOMENTS_2 + TRAIN_PREPARE + TRAIN_MOMENTS_TAIL_3_2 + OPENING + CONSTANTS + TRAIN_PACK_2 + CONSTANTS_2 + CONSTANTS_10 + CONSTANTS_4 + CONSTANTS_5 + SLAB_COUNT + SLAB_REACH + PRODUCT_2 + PUT_BLOCK + MULTIPLY_2 + CONSTANTS_7 + TRAIN_DENSE + CONSTANTS_5 + TRAIN_COMBINE + TRAIN_DENSE_TAIL + TRAIN_GENERAL_MOMENTS + TRAIN_GENERAL_DENSE_5 + EVAL_GENERAL_MOMENTS_TAIL + CONSTANTS_11 + CONSTANTS_9,
    "half": ARITHMETIC + TRAIN_MOMENTS_TAIL + OPENING + TRAIN_PACK_3 + CONSTANTS_2 + CONSTANTS_12 + CONSTANTS_5 + SLAB_COUNT_2 + SLAB_REACH + PRODUCT_3 + PUT_BLOCK + MULTIPLY_3 + CONSTANTS_6 + CONSTANTS_13 + TRAIN_DENSE + CONSTANTS_5 + TRAIN_COMBINE + TRAIN_DENSE_TAIL_2 + TRAIN_GENERAL_MOMENTS + TRAIN_GENERAL_PREPARE + TRAIN_GENERAL_DENSE_5 + EVAL_MOMENTS + EVAL_GENERAL_MOMENTS_TAIL + CONSTANTS_14,
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
            name=f"transfuse_d4739fbcf0f6_{arithmetic}_sm{major}{minor}",
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

def train_as_written(x, conv_transpose_weight, conv_transpose_bias, batch_norm_weight, batch_norm_bias):
    """In PyTorch's operators: what the backward of this file differentiates."""
    conv_transpose3d = torch.ops.aten.conv_transpose3d.input(x, conv_transpose_weight, conv_transpose_bias)
    mul = torch.ops.aten.mul.Tensor(conv_transpose3d, 2.0)
    batch_norm_statistics = torch.ops.aten.native_batch_norm(mul, batch_norm_weight, batch_norm_bias, None, None, True, 0.0, 1e-05)
    adaptive_avg_pool3d = torch.ops.aten.adaptive_avg_pool3d(batch_norm_statistics[0], [1, 1, 1])
    return [adaptive_avg_pool3d]


class Train(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        ctx.save_for_backward(*leaves)
        out = run(
            "train", leaves,
            [("x", ("batch", 64, "depth", "height", "width")), ("conv_transpose_weight", (64, 128, 5, 5, 5)), ("conv_transpose_bias", (128,)), ("batch_norm_weight", (128,)), ("batch_norm_bias", (128,))],
            [(0, 0), (0, 2), (0, 3), (0, 4)],
            lambda batch, depth, height, width: [(batch, 128, 1, 1, 1), (128,), (128,)],
        )  # fmt: skip
        ctx.mark_non_differentiable(*out[1:])
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            leaves = ctx.saved_tensors if again else [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
            pairs = [(y, g) for y, g in zip(train_as_written(*leaves), gradients) if g is not None]
            wanted = [t for t in leaves if t.requires_grad]
            found = iter(torch.autograd.grad([y for y, _ in pairs], wanted, [g for _, g in pairs], create_graph=again, allow_unused=True))
        return tuple(next(found) if t.requires_grad else None for t in leaves)

def eval_as_written(x, conv_transpose_weight, conv_transpose_bias, batch_norm_running_mean, batch_norm_running_var, batch_norm_weight, batch_norm_bias):
    """In PyTorch's operators: what the backward of this file differentiates."""
    conv_transpose3d = torch.ops.aten.conv_transpose3d.input(x, conv_transpose_weight, conv_transpose_bias)
    mul = torch.ops.aten.mul.Tensor(conv_transpose3d, 2.0)
    batch_norm = torch.ops.aten.batch_norm(mul, batch_norm_weight, batch_norm_bias, batch_norm_running_mean, batch_norm_running_var, False, 0.1, 1e-05, False)
    adaptive_avg_pool3d = torch.ops.aten.adaptive_avg_pool3d(batch_norm, [1, 1, 1])
    return [adaptive_avg_pool3d]


class Eval(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        ctx.save_for_backward(*leaves)
        out = run(
            "eval", leaves,
            [("x", ("batch", 64, "depth", "height", "width")), ("conv_transpose_weight", (64, 128, 5, 5, 5)), ("conv_transpose_bias", (128,)), ("batch_norm_running_mean", (128,)), ("batch_norm_running_var", (128,)), ("batch_norm_weight", (128,)), ("batch_norm_bias", (128,))],
            [(0, 0), (0, 2), (0, 3), (0, 4)],
            lambda batch, depth, height, width: [(batch, 128, 1, 1, 1)],
        )  # fmt: skip
        ctx.mark_non_differentiable(*out[1:])
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            leaves = ctx.saved_tensors if again else [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
            pairs = [(y, g) for y, g in zip(eval_as_written(*leaves), gradients) if g is not None]
            wanted = [t for t in leaves if t.requires_grad]
            found = iter(torch.autograd.grad([y for y, _ in pairs], wanted, [g for _, g in pairs], create_graph=again, allow_unused=True))
        return tuple(next(found) if t.requires_grad else None for t in leaves)

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, scale_factor):
        if (in_channels, out_channels, kernel_size, scale_factor) != (64, 128, 5, 2.0):
            expected = "(in_channels, out_channels, kernel_size, scale_factor) = 64, 128, 5, 2.0"
            raise ValueError(f"the kernels of this file were written for {expected}, got {(in_channels, out_channels, kernel_size, scale_factor)}")
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size)
        self.scale_factor = scale_factor
        self.batch_norm = nn.BatchNorm3d(out_channels)
        self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))

    def forward(self, x):
        if self.training:
            y = Train.apply(x, self.conv_transpose.weight, self.conv_transpose.bias, self.batch_norm.weight, self.batch_norm.bias)
            self.batch_norm.running_mean.mul_(0.9).add_(y[1], alpha=0.1)
            self.batch_norm.running_var.mul_(0.9).add_(y[2], alpha=0.1)
            self.batch_norm.num_batches_tracked.add_(1)
            return y[0]
        y = Eval.apply(x, self.conv_transpose.weight, self.conv_transpose.bias, self.batch_norm.running_mean, self.batch_norm.running_var, self.batch_norm.weight, self.batch_norm.bias)[0]
        return y
