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
SOURCE = r"""
#if defined(STRICT)
#define PICK(tf32, strict, half) strict
#elif defined(HALF)
#define PICK(tf32, strict, half) half
#else
#define PICK(tf32, strict, half) tf32
#endif
#define UNROLL _Pragma("unroll")
struct Half {
    unsigned short bits;
    Half() = default;
    __device__ Half(float f) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f)); }
    __device__ operator float() const { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f; }
};
struct Bfloat {
    unsigned short bits;
    Bfloat() = default;
    __device__ Bfloat(float f) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f)); }
    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};

// N consecutive elements moved at once; N·sizeof(S) is a power of two up to 16 and the address a multiple of it.
template <class S, int N> struct alignas(sizeof(S) * N) tf_vector { S lane[N]; };

#if __CUDA_ARCH__ >= 900
#define TF_SEQUENCE() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#else
#define TF_SEQUENCE()
#endif
#define TF_PTX static __device__ __forceinline__
TF_PTX unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// mbarriers: a phase completes when all expected arrivals (and bytes) are in; waiting names the phase's parity.
TF_PTX void barrier_init(unsigned b, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(arrivals)); }

TF_PTX bool barrier_done(unsigned b, int parity) {
    int done;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(b), "r"(parity) : "memory");
    return done;
}
TF_PTX void barrier_arrive(unsigned b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
TF_PTX unsigned round_tf32(float v) { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v)); return r; }

// An operand in shared memory: start address, distance of the two K halves, distance of 8-row blocks; no swizzle.
TF_PTX unsigned long long descriptor(unsigned start, unsigned halves, unsigned blocks) {
    return (unsigned long long)((start & 0x3ffff) >> 4) | ((unsigned long long)(halves >> 4) << 16) | ((unsigned long long)(blocks >> 4) << 32);
}

#if defined(STRICT)
// Dense tiles: run 1x1x1x132 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 3x2 slabs 3x8 chunks 2x64 stores 1 registers 64/96/176
#else
// Dense tiles: run 1x1x2x88 runs 1x1x1x1 split channels bundles 1 k_steps 1 stages 2 raw 2x2 slabs 3x15 chunks 4x64 stores 1 registers 64/96/176
#endif
constexpr int STORE_GROUPS = 1, THREADS = 512, LOADERS = 128, CIN = 64, COUT = 128, RUN_N = 1, TILE_H = PICK(2, 1, 2);
constexpr int RUN_H = PICK(2, 1, 2), EXTENT_H = PICK(4, 3, 4), FIRST_H = -2, TILE_W = PICK(88, 132, 88), RUN_W = PICK(88, 132, 88);
constexpr int EXTENT_W = PICK(92, 136, 96), FIRST_W = -PICK(4, 4, 8), PIXELS = PICK(368, 408, 384), PLANE = PICK(368, 408, 384);
constexpr int RUN_PIXELS = PICK(184, 136, 184), LANES = PICK(4, 4, 8), VECTORS = 2, TERMS = PICK(1, 2, 1), STAGE_CHANNELS = PICK(8, 8, 16);
constexpr int KSTAGES = PICK(8, 8, 4), KSTEPS = PICK(8, 8, 4), STAGES = 2, RAW = PICK(2, 3, 2), PIECE = 2, PIECES = 1, SLABS = 3;
constexpr int SLAB_BYTES = 32768, TILE_BYTES = PICK(2048, 4096, 2048), OPERAND_TILES = 30, BUFFERS = PICK(4, 2, 4), CHUNKS = 3;
constexpr int CHUNK_WIDTH = 64, ROW_LENGTH = PICK(184, 136, 184), PITCH = 72, BLOCKS = 1, ACCUMULATORS = PICK(92, 68, 92);
constexpr int STAGE_BYTES = PICK(11776, 26112, 12288), RAW_BYTES = PICK(11776, 13056, 12288), CHUNK_BYTES = 18432, STAGES_AT = 98304;
constexpr int RAW_AT = PICK(121856, 150528, 122880), CHUNKS_AT = PICK(145408, 189696, 147456), HELD_VALUES = PICK(32, 32, 16);
typedef STORED ELEMENT;
typedef float REAL;
typedef int OFFSET;
static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * PICK(16, 8, 16), 30); }
static __device__ __forceinline__ int slab_count(int) { return PICK(2, 4, 2); }
TF_PTX void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TF_PTX void barrier_wait(unsigned b, int parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(b), "r"(parity) : "memory");
}
TF_PTX void barrier_expect(unsigned b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
TF_PTX void copy_bulk(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// A box of a tensor by its map, which the host made; zeros where it reaches beyond the tensor. Begins on 16 bytes of the first axis.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

TF_PTX void copy_box(unsigned to, const TensorMap* map, int c0, int c1, int c2, int c3, int c4, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(barrier)
        : "memory");
}
TF_PTX void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Weights are fetched by one load thread.
constexpr int FETCHERS = 1;

TF_PTX void copy_weights(unsigned to, const unsigned char* from, int bytes, unsigned barrier, int) {
    barrier_expect(barrier, bytes);
    if (bytes) copy_bulk(to, from, bytes, barrier);
}

// True in every thread of a warpgroup where it is in all of them.
TF_PTX bool group_agrees(int barrier, bool mine) {
    unsigned all;
    asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 q, %1, 0;\nbar.red.and.pred p, %2, 128, q;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(all) : "r"((unsigned)mine), "r"(barrier) : "memory");
    return __shfl_sync(~0u, all, 0);
}
TF_PTX void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TF_PTX void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> TF_PTX void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }
TF_PTX void landed(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }  // nothing that reads it moves before the wait
#if defined(STRICT)
TF_PTX void add_landed(float& total, float sum) { asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(total) : "f"(sum) : "memory"); }  // nor after the next product
#endif
template <int COUNT> TF_PTX void registers_give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> TF_PTX void registers_take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
static __device__ __forceinline__ void product(float (&d)[PICK(92, 68, 92)], unsigned long long a, unsigned long long b, int accumulate) {
#if defined(HALF)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %94, 0;\nwgmma.mma_async.sync.aligned.m64n184k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91}, %92, %93, p, 1, 1, 0, 0;\n}" : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]),"+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67]),"+f"(d[68]),"+f"(d[69]),"+f"(d[70]),"+f"(d[71]),"+f"(d[72]),"+f"(d[73]),"+f"(d[74]),"+f"(d[75]),"+f"(d[76]),"+f"(d[77]),"+f"(d[78]),"+f"(d[79]),"+f"(d[80]),"+f"(d[81]),"+f"(d[82]),"+f"(d[83]),"+f"(d[84]),"+f"(d[85]),"+f"(d[86]),"+f"(d[87]),"+f"(d[88]),"+f"(d[89]),"+f"(d[90]),"+f"(d[91]) : "l"(a), "l"(b), "r"(accumulate));
#elif defined(STRICT)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %70, 0;\nwgmma.mma_async.sync.aligned.m64n136k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67}, %68, %69, p, 1, 1;\n}" : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]),"+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67]) : "l"(a), "l"(b), "r"(accumulate));
#else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %94, 0;\nwgmma.mma_async.sync.aligned.m64n184k8.f32.tf32.tf32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91}, %92, %93, p, 1, 1;\n}" : "+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]),"+f"(d[16]),"+f"(d[17]),"+f"(d[18]),"+f"(d[19]),"+f"(d[20]),"+f"(d[21]),"+f"(d[22]),"+f"(d[23]),"+f"(d[24]),"+f"(d[25]),"+f"(d[26]),"+f"(d[27]),"+f"(d[28]),"+f"(d[29]),"+f"(d[30]),"+f"(d[31]),"+f"(d[32]),"+f"(d[33]),"+f"(d[34]),"+f"(d[35]),"+f"(d[36]),"+f"(d[37]),"+f"(d[38]),"+f"(d[39]),"+f"(d[40]),"+f"(d[41]),"+f"(d[42]),"+f"(d[43]),"+f"(d[44]),"+f"(d[45]),"+f"(d[46]),"+f"(d[47]),"+f"(d[48]),"+f"(d[49]),"+f"(d[50]),"+f"(d[51]),"+f"(d[52]),"+f"(d[53]),"+f"(d[54]),"+f"(d[55]),"+f"(d[56]),"+f"(d[57]),"+f"(d[58]),"+f"(d[59]),"+f"(d[60]),"+f"(d[61]),"+f"(d[62]),"+f"(d[63]),"+f"(d[64]),"+f"(d[65]),"+f"(d[66]),"+f"(d[67]),"+f"(d[68]),"+f"(d[69]),"+f"(d[70]),"+f"(d[71]),"+f"(d[72]),"+f"(d[73]),"+f"(d[74]),"+f"(d[75]),"+f"(d[76]),"+f"(d[77]),"+f"(d[78]),"+f"(d[79]),"+f"(d[80]),"+f"(d[81]),"+f"(d[82]),"+f"(d[83]),"+f"(d[84]),"+f"(d[85]),"+f"(d[86]),"+f"(d[87]),"+f"(d[88]),"+f"(d[89]),"+f"(d[90]),"+f"(d[91]) : "l"(a), "l"(b), "r"(accumulate));
#endif
}
struct Sizes { int in[4], out[4], tiles[4], total; };  // axes n, d, h, w; total = tiles of all parts
struct Strides { long long n, c, d, h, w; };  // elements

struct Barriers {
    unsigned long long full[STAGES], empty[STAGES];  // patches: load -> product
    unsigned long long raw_full[RAW], raw_empty[RAW];  // boxes of the raw patch: memory -> load
    unsigned long long weights_full[SLABS], weights_empty[SLABS];
    unsigned long long chunk_full[BUFFERS], chunk_empty[BUFFERS];  // accumulators: product -> store
};
constexpr int BUFFERS_0 = (BUFFERS + 1) / 2;  // of the first warpgroup
struct Operands {
    STORED* y0; Strides ys0;
};

// Where a tile lies: output o = PERIOD·u + residue with u from `u` on; `fixed` = which group and block of output channels,
// `variant` = which phases.
struct Place { int fixed, variant, u[4]; };

static __device__ __forceinline__ Place place_of(int tile, const Sizes& s) {
    Place at;
    int rest = tile;
    at.fixed = 0;
    at.variant = 0;
    at.u[3] = rest % s.tiles[3] * TILE_W; rest /= s.tiles[3];
    at.u[2] = rest % s.tiles[2] * TILE_H; rest /= s.tiles[2];
    at.u[1] = rest % s.tiles[1]; rest /= s.tiles[1];
    at.u[0] = rest;
    return at;
}

// The CTA's next tile. Each round begins elsewhere, so that a CTA meets every place of the image, also where a row's tiles divide
// the grid: tiles at a border have less to do. Its part of the channels stays where the parts divide the grid.
static __device__ __forceinline__ int next_tile(int tile) {
    const unsigned round = tile / gridDim.x + 1;
    return (int)(round * gridDim.x + (blockIdx.x + (round * (round + 1) / 2) % gridDim.x) % gridDim.x);
}

// A position in the sequence tile -> stage of channels -> piece of the patch.
struct Cursor {
    int tile, stage, piece, slot;
    Place at;
    __device__ __forceinline__ void settle(const Sizes& s, const Strides& xs, int t) {
        if (tile >= s.total) return;
        at = place_of(tile, s);
    }
    __device__ __forceinline__ Cursor(const Sizes& s, const Strides& xs, int t, OFFSET* table) : tile(blockIdx.x), stage(0), piece(0),
        slot(0) {
        settle(s, xs, t);
    }
    __device__ __forceinline__ void next(const Sizes& s, const Strides& xs, int t) {
        if (++slot == RAW) slot = 0;
        piece = 0;
        if (++stage < KSTAGES) return;
        stage = 0;
        tile = next_tile(tile);
        settle(s, xs, t);
    }
    __device__ __forceinline__ int channel() const { return at.fixed * CIN + stage * STAGE_CHANNELS; }
};

// Rounds a pixel's channels and writes them as the operand's vectors: [vector][pixel][16 bytes].
template <int CHANNELS> static __device__ __forceinline__ void put(unsigned char* stage, int p, const REAL (&v)[CHANNELS]) {
    UNROLL for (int k = 0; k < CHANNELS / LANES; k++) {
        uint4 high = make_uint4(round_tf32(v[k * 4]), round_tf32(v[k * 4 + 1]), round_tf32(v[k * 4 + 2]), round_tf32(v[k * 4 + 3]));
        *(uint4*)(stage + (k * PLANE + p) * 16) = high;
        if (TERMS > 1) {
            // what rounding left: v = high + low to 21 bits and more
            uint4 low = make_uint4(round_tf32(v[k * 4] - __uint_as_float(high.x)), round_tf32(v[k * 4 + 1] - __uint_as_float(high.y)),
                round_tf32(v[k * 4 + 2] - __uint_as_float(high.z)), round_tf32(v[k * 4 + 3] - __uint_as_float(high.w)));
            *(uint4*)(stage + ((VECTORS + k) * PLANE + p) * 16) = low;
        }
    }
}

// The same for words of two 16-bit pixels.
template <int CHANNELS> static __device__ __forceinline__ void put_pairs(unsigned char* stage, int pair, const unsigned (&word)[CHANNELS]) {
    UNROLL for (int k = 0; k < CHANNELS / 8; k++) {
        const unsigned* w = word + k * 8;
        const uint4 left = make_uint4(__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410), __byte_perm(w[4], w[5], 0x5410),
            __byte_perm(w[6], w[7], 0x5410));
        const uint4 right = make_uint4(__byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632), __byte_perm(w[4], w[5], 0x7632),
            __byte_perm(w[6], w[7], 0x7632));
        *(uint4*)(stage + (k * PLANE + 2 * pair) * 16) = left;
        *(uint4*)(stage + (k * PLANE + 2 * pair + 1) * 16) = right;
    }
}

// Streamed weights: slab after slab of packed operand tiles, as far ahead as the ring has room. The FETCHERS among the load
// threads call this whenever they would wait. (Asked for by a product warp, each slab cost 700 cycles of its warpgroup; a warp of its own would
// cost every other warp of its quarter of the multiprocessor registers.)
struct Pump {
    const unsigned char* from;
    int tile, step, slab, slot, turn;
    Place at;
    int t;  // which of the FETCHERS
    __device__ __forceinline__ void seek(const unsigned char* packed, const Sizes& s) {
        at = place_of(tile, s);
        from = packed + (long long)at.fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES);
        step = slab = 0;
    }
    __device__ __forceinline__ Pump(const unsigned char* packed, const Sizes& s, int thread) : tile(blockIdx.x), slot(0), turn(0),
        t(thread) {
        seek(packed, s);
    }
    __device__ __forceinline__ void ahead(Barriers& b, unsigned char* shared, const unsigned char* packed, const Sizes& s) {
        while (tile < s.total) {
            if (turn > 0 && !barrier_done(shared_address(&b.weights_empty[slot]), (turn - 1) & 1)) return;
            const int first = slab_first(at.variant, slab), bytes = (slab_first(at.variant, slab + 1) - first) * TILE_BYTES;
            copy_weights(shared_address(shared + slot * SLAB_BYTES), from + first * TILE_BYTES, bytes,
                shared_address(&b.weights_full[slot]), t);
            if (++slot == SLABS) { slot = 0; turn++; }
            if (++slab == slab_count(at.variant)) {
                slab = 0;
                from += OPERAND_TILES * TILE_BYTES;
                if (++step == KSTEPS) { tile = next_tile(tile); seek(packed, s); }
            }
        }
    }
};

// The load role where memory is met in boxes: a warp asks for them, the copy engine brings them, zeros outside the image, and
// the other warps transpose them.
constexpr int TRANSPOSERS = LOADERS - 32;
constexpr int TURNS = 1;

// A raw box, [channel][pixel] of PIECE vectors, becomes operand vectors.
static __device__ __forceinline__ void transpose(const Cursor& c, const unsigned char* raw, unsigned char* stage, const Sizes& s,
    const Operands& operands, int t) {
    constexpr int CHANNELS = PIECE * LANES, WORD = sizeof(ELEMENT) == 2 ? 2 : 1, WORDS = PIXELS / WORD;  // a word: one pixel or two
    constexpr int TURNS = (WORDS + TRANSPOSERS - 1) / TRANSPOSERS, AT_ONCE = CHANNELS >= HELD_VALUES ? 1 : HELD_VALUES / CHANNELS;
    const unsigned* in = (const unsigned*)(raw + c.slot * RAW_BYTES);
    stage += c.piece * PIECE * PLANE * 16;
    UNROLL for (int turn = 0; turn < TURNS; turn += AT_ONCE) {
        unsigned word[AT_ONCE][CHANNELS];  // all reads of a batch before its writes: one latency, not one a pixel
        UNROLL for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) {
            const int p = min((turn + f) * TRANSPOSERS + t, WORDS - 1);
            UNROLL for (int j = 0; j < CHANNELS; j++) word[f][j] = in[j * WORDS + p];
        }
        UNROLL for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) {
            const int p = (turn + f) * TRANSPOSERS + t;
            if (p >= WORDS) continue;
            if constexpr (WORD == 2) put_pairs(stage, p, word[f]);
            else {
                float v[CHANNELS];
                UNROLL for (int j = 0; j < CHANNELS; j++) v[j] = __uint_as_float(word[f][j]);
                put(stage, p, v);
            }
        }
    }
}

// Asks for boxes and weights as far ahead as there is room: one thread, which does nothing else.
static __device__ __forceinline__ void ask(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const Sizes& s,
    const Strides& xs, const TensorMap* boxes) {
    constexpr int RING = RAW;
    Pump pump(packed, s, 0);
    Cursor next(s, xs, 0, nullptr);
    for (int slot = 0, turn = 0; next.tile < s.total || (pump.tile < s.total);) {
        pump.ahead(b, shared, packed, s);
        if (next.tile >= s.total) continue;
        if (turn > 0 && !barrier_done(shared_address(&b.raw_empty[slot]), (turn - 1) & 1)) continue;
        const unsigned bar = shared_address(&b.raw_full[slot]);
        const int w = next.at.u[3] + FIRST_W, h = next.at.u[2] + FIRST_H, d = next.at.u[1], n = next.at.u[0];
        barrier_expect(bar, PIECE * LANES * PIXELS * (int)sizeof(ELEMENT));
        copy_box(shared_address(shared + RAW_AT + slot * RAW_BYTES), boxes, w, h, d, n, next.channel() + next.piece * (PIECE * LANES), bar);
        if (++slot == RING) { slot = 0; turn++; }
        next.next(s, xs, 0);
    }
}

static __device__ void load_boxes(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const Sizes& s,
    const Strides& xs, const TensorMap* boxes, const Operands& operands, int t) {
    if (t >= TRANSPOSERS) {
        if (t == TRANSPOSERS) ask(shared, b, packed, s, xs, boxes);
        return;
    }
    int stage = 0, turn = 0, taken = 0;  // taken: rounds of the ring of raw boxes
    for (Cursor now(s, xs, t, nullptr); now.tile < s.total; now.next(s, xs, t)) {
        if (now.piece == 0 && turn > 0) barrier_wait(shared_address(&b.empty[stage]), (turn - 1) & 1);
        barrier_wait(shared_address(&b.raw_full[now.slot]), taken & 1);
        transpose(now, shared + RAW_AT, shared + STAGES_AT + stage * STAGE_BYTES, s, operands, t);
        barrier_arrive(shared_address(&b.raw_empty[now.slot]));
        if (now.piece == PIECES - 1) {
            fence_proxy();
            barrier_arrive(shared_address(&b.full[stage]));
            if (++stage == STAGES) { stage = 0; turn++; }
        }
        if (now.slot == RAW - 1) taken++;
    }
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
    UNROLL for (int i = 0; i < ACCUMULATORS; i++) landed(acc[i / ACCUMULATORS][i % ACCUMULATORS]);
}
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&acc)[BLOCKS][ACCUMULATORS],
    REAL (&)[1][1]))[BLOCKS][ACCUMULATORS] { return acc; }
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&)[BLOCKS][ACCUMULATORS],
    REAL (&total)[BLOCKS][ACCUMULATORS]))[BLOCKS][ACCUMULATORS] { return total; }

// A fragment: rows `row` and row + 8, pixels `px` and px + 1.
static __device__ __forceinline__ void put_block(REAL* chunk, int row, int px, const REAL* v) {
    *(tf_vector<REAL, 2>*)(chunk + row * PITCH + px) = {{v[0], v[1]}};
    *(tf_vector<REAL, 2>*)(chunk + (row + 8) * PITCH + px) = {{v[2], v[3]}};
}

// Strict: the sums of a tile beside the accumulators, and what adds a finished chain of products to them.
typedef REAL Totals[TERMS > 1 ? BLOCKS : 1][TERMS > 1 ? ACCUMULATORS : 1];
#if defined(STRICT)
static __device__ __forceinline__ void promote(REAL (&acc)[ACCUMULATORS], REAL (&total)[ACCUMULATORS]) {
    UNROLL for (int i = 0; i < ACCUMULATORS; i++) add_landed(total[i], acc[i]);
}
#endif

template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& total, unsigned patch,
    unsigned weights, Barriers& b, int stage, int slot, const Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {
    unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;
#if defined(HALF)
    static constexpr int begin[] = {0, 8, 15}, pixel[] = {4, 5, 6, 7, 8, 100, 101, 102, 103, 104, 196, 197, 198, 199, 200};
#elif defined(STRICT)
    static constexpr int begin[] = {0, 12, 24, 36, 45},
        tile[] = {128, 0, 640, 512, 1152, 1024, 1664, 1536, 0, 512, 1024, 1536, 128, 0, 640, 512, 1152, 1024, 1664, 1536, 0, 512, 1024,
        1536, 128, 0, 640, 512, 1152, 1024, 1664, 1536, 0, 512, 1024, 1536, 128, 0, 640, 512, 1152, 1024, 0, 512, 1024},
        pixel[] = {0, 816, 1, 817, 2, 818, 3, 819, 0, 1, 2, 3, 4, 820, 136, 952, 137, 953, 138, 954, 4, 136, 137, 138, 139, 955, 140, 956,
        272, 1088, 273, 1089, 139, 140, 272, 273, 274, 1090, 275, 1091, 276, 1092, 274, 275, 276},
        again[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1,
        1, 1, 1, 1, 1};
#else
    static constexpr int begin[] = {0, 8, 15}, pixel[] = {0, 1, 2, 3, 4, 92, 93, 94, 95, 96, 184, 185, 186, 187, 188};
#endif
    UNROLL for (int part = 0; part < PICK(2, 4, 2); part++) {
        held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);
        tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);
        tiles += WG * (TILE_BYTES / 16);
        products_begin();
        UNROLL for (int j = 0; j < PICK(8, 12, 8); j++)
            if (j < begin[part + 1] - begin[part])
#if defined(STRICT)
                product(acc[0], tiles + tile[begin[part] + j], pixels + pixel[begin[part] + j], again[begin[part] + j]);
#else
                product(acc[0], tiles + 256 * j, pixels + pixel[begin[part] + j], part + j > 0 || stage > 0);
#endif
        products_commit();
        products_wait<PICK(1, 0, 1)>();
#if defined(STRICT)
        promote(acc[0], total[0]);
        held.slab = slab;
        if (part == 3) held.stage = slot;
#endif
        held.release(b);
#if !defined(STRICT)
        if (part == 1) held.stage = slot;
        held.slab = slab;
#endif
        if (++slab == SLABS) { slab = 0; slab_turn++; }
    }
}

// Product role: the taps of a tile, K step by K step, then the accumulators to shared memory in chunks of pixels.
template <int WG> static __device__ void product_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int t) {
    int stage = 0, turn = 0, slab = 0, slab_turn = 0;
    Held held;
    held.group = WG;
    // The store role takes all chunks of the first warpgroup, then all of the second, which still multiplies while the first hands
    // over and is behind from then on: so the tensor cores never stand still. Each warpgroup has buffers of its own.
    constexpr int FIRST_SLOT = WG * BUFFERS_0, SLOTS = WG == 0 ? BUFFERS_0 : BUFFERS - BUFFERS_0;
    int slot = FIRST_SLOT, chunk_turn = 0;
    const int row = (t >> 5 & 3) * 16 + (t & 31) / 4, column = (t & 3) * 2;
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        const Place at = place_of(tile, s);
        REAL acc[BLOCKS][ACCUMULATORS];
        Totals total;
        if (TERMS > 1)
            UNROLL for (int i = 0; i < ACCUMULATORS; i++) total[i / ACCUMULATORS][i % ACCUMULATORS] = 0.f;
        for (int k = 0; k < KSTAGES; k++) {
            held.wait(shared_address(&b.full[stage]), turn & 1, b);
            multiply<WG>(acc, total, shared_address(shared + STAGES_AT + stage * STAGE_BYTES), shared_address(shared), b, k, stage, at, s,
                slab, slab_turn, held);
            if (++stage == STAGES) { stage = 0; turn++; }
        }
        products_wait<0>();
        settled(acc);
        held.release(b);
        UNROLL for (int c = 0; c < CHUNKS; c++) {
            if (chunk_turn > 0) barrier_wait(shared_address(&b.chunk_empty[slot]), (chunk_turn - 1) & 1);
            REAL* chunk = (REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
            REAL (&a)[ACCUMULATORS] = results<TERMS>(acc, total)[0];
            const int to = row;
            UNROLL for (int i = 0; i < CHUNK_WIDTH / 8; i++) {
                const int j = c * (CHUNK_WIDTH / 8) + i;
                if (j < RUN_PIXELS / 8 && c * CHUNK_WIDTH + i * 8 < ROW_LENGTH) {
                    const int px = i * 8 + column;
                    put_block(chunk, to, px, a + j * 4);
                }
            }
            barrier_arrive(shared_address(&b.chunk_full[slot]));
            if (++slot == FIRST_SLOT + SLOTS) { slot = FIRST_SLOT; chunk_turn++; }
        }
    }
}
constexpr int VECTOR = 4, VECTOR_PIXELS = 4, LANES_W = 16, BATCH = 8, ROW_STEP = 8, WRITERS = 2;
__constant__ int phase_codes[2] = {0, 0};  // residues: along d * 65536 + h * 256 + the first along w

template <int N, class S> static __device__ __forceinline__ void store_vector(S* to, const REAL (&v)[N]) {
    tf_vector<S, N> whole;
    UNROLL for (int e = 0; e < N; e++) whole.lane[e] = v[e];
    if constexpr (sizeof(whole) == 16) __stcs((float4*)to, *(float4*)&whole);
    else if constexpr (sizeof(whole) == 8) __stcs((float2*)to, *(float2*)&whole);
    else *(tf_vector<S, N>*)to = whole;
}

// Store role: takes chunks of accumulators, runs the tile program, writes, while the next tile's products run.
static __device__ void store_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int store_group, int t) {
    const int lane_column = t % LANES_W, lane_row = t / LANES_W;
    const bool wide0 = operands.ys0.w == 1
        && (((unsigned long long)operands.y0 | PICK(4ull, 4ull, 2ull) * (operands.ys0.n | operands.ys0.c | operands.ys0.d | operands.ys0.h)) % PICK(16, 16, 8)) == 0;
    int next[2] = {0, BUFFERS_0}, turns[2] = {0, 0}, taken = 0;  // each warpgroup's buffers
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        const Place at = place_of(tile, s);
        const int group = at.fixed;
        for (int wg = 0; wg < WRITERS; wg++)
            for (int chunk_index = 0; chunk_index < CHUNKS; chunk_index++) {
                const int slot = wg ? next[1] : next[0], turn = wg ? turns[1] : turns[0];
                if (wg) {
                    if (++next[1] == BUFFERS) { next[1] = BUFFERS_0; turns[1]++; }
                } else if (++next[0] == BUFFERS_0) { next[0] = 0; turns[0]++; }
                barrier_wait(shared_address(&b.chunk_full[slot]), turn & 1);
                const REAL* chunk = (const REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
                const int* codes = phase_codes + (at.variant * 2 + wg);
                const int first_channel = wg * 64;  // within the group
                const int first_n = at.u[0], first_d = at.u[1], first_h = at.u[2], first_w = at.u[3], column = lane_column;
                const int px = column * VECTOR_PIXELS, r = chunk_index * CHUNK_WIDTH + px;
                const int w = r % EXTENT_W, h = r / EXTENT_W % EXTENT_H, d = 0, n = r / (EXTENT_W * EXTENT_H);
                const bool in_run = r < RUN_PIXELS && w < RUN_W && h < RUN_H && n < RUN_N;
                const int code = codes[0];
                if (code >= 0) {
                    const int pn = first_n + n, pd = first_d + (code >> 16), ph = first_h + h + (code >> 8 & 255), pw = first_w + w
                        + (code & 255);
                    const int count = in_run && pn < s.out[0] && pd < s.out[1] && ph < s.out[2] ? min(VECTOR, s.out[3] - pw) : 0;
                    if (count > 0) {
                        REAL v3[BATCH][VECTOR];
                        UNROLL for (int i = 0; i < BATCH; i++) {
                            const tf_vector<REAL, VECTOR_PIXELS> in = *(const tf_vector<REAL, VECTOR_PIXELS>*)(chunk
                                + (lane_row + i * ROW_STEP) * PITCH + px);
                            UNROLL for (int p = 0; p < VECTOR_PIXELS; p++) v3[i][p] = in.lane[p];
                        }
                        if (count > 0) {
                            const long long step = ROW_STEP * operands.ys0.c;
#if defined(HALF)
                            STORED* to = operands.y0
                                + ((long long)pn * operands.ys0.n + (long long)pd * operands.ys0.d + (long long)ph * operands.ys0.h
                                + ((long long)(pw)) * operands.ys0.w
#else
                            float* to = operands.y0 + ((long long)pn * operands.ys0.n + (long long)pd * operands.ys0.d
                                + (long long)ph * operands.ys0.h + ((long long)(pw)) * operands.ys0.w
#endif
                                + (long long)(group * COUT + (first_channel + lane_row)) * operands.ys0.c);
                            if (wide0 && count == VECTOR) {
                                UNROLL for (int i = 0; i < BATCH; i++, to += step) {
                                    REAL whole[VECTOR];
                                    UNROLL for (int e = 0; e < VECTOR; e++) whole[e] = v3[i][e];
                                    store_vector<VECTOR>(to, whole);
                                }
                            } else {
                                UNROLL for (int i = 0; i < BATCH; i++, to += step) {
                                    UNROLL for (int e = 0; e < VECTOR; e++)
                                        if (e == 0 || (e < count)) to[e * operands.ys0.w] = v3[i][e];
                                }
                            }
                        }
                    }
                }
                barrier_arrive(shared_address(&b.chunk_empty[slot]));
            }
    }
}
static __device__ __forceinline__ int tf_table_1(int i) { return 14 - i / 4; }
static __device__ __forceinline__ int tf_table_2(int i) { return i % 2; }

__global__ void __launch_bounds__(256) forward_prepare(unsigned char* p0, const STORED* __restrict__ p1) {
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < PICK(120, 120, 60); block0 += gridDim.x) {
        // Operand tiles: [part][K step][tile][K half][8 rows of 8][4 channels].
        constexpr int TILES = 30, KSTEPS = PICK(8, 8, 4), LANES = PICK(4, 4, 8), CIN = 64, COUT = 128;
        const int at = block0 * 256 + threadIdx.x;
        const int row = at % 64, half = at / 64 % 2, tile = at / 128 % TILES, step = at / (128 * TILES) % KSTEPS;
        const int segment = row / 64, within = row % 64;
        if (at < PICK(30720, 30720, 15360)) {
            const int tap = tf_table_1((tile + segment) * 2 + half), co = tf_table_2(tile) * 64 + within;
            const int first = step * 2 * LANES + half * LANES;
            float v[LANES];
            UNROLL for (int j = 0; j < LANES; j++) {
                v[j] = 0;
                if (tap >= 0 && co < COUT && first + j < CIN) {
                    const float v3 = p1[((first + j) * 1920 + co * 15 + (tap / 5 % 3) * 5 + tap % 5)];
                    v[j] = (float)v3;
                }
            }
#if defined(HALF)
            tf_vector<STORED, LANES> whole;
            UNROLL for (int j = 0; j < LANES; j++) whole.lane[j] = v[j];
            *(tf_vector<STORED, LANES>*)(p0 + (long long)(at / 128) * 2048 + (half * 64 + row) * 16) = whole;
#elif defined(STRICT)
            const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));
            *(uint4*)(p0 + (long long)(at / 128) * 4096 + (half * 64 + row) * 16) = high;
            const float rest[4] = {v[0] - __uint_as_float(high.x), v[1] - __uint_as_float(high.y), v[2] - __uint_as_float(high.z),
                v[3] - __uint_as_float(high.w)};
            *(uint4*)(p0 + (long long)(at / 128) * 4096 + (half * 64 + row) * 16
                + 2048) = make_uint4(round_tf32(rest[0] == 0 ? 0 : rest[0] + v[0] * 7.89000012e-08f),
                round_tf32(rest[1] == 0 ? 0 : rest[1] + v[1] * 7.89000012e-08f),
                round_tf32(rest[2] == 0 ? 0 : rest[2] + v[2] * 7.89000012e-08f),
                round_tf32(rest[3] == 0 ? 0 : rest[3] + v[3] * 7.89000012e-08f));
#else
            const uint4 high = make_uint4(round_tf32(v[0]), round_tf32(v[1]), round_tf32(v[2]), round_tf32(v[3]));
            *(uint4*)(p0 + (long long)(at / 128) * 2048 + (half * 64 + row) * 16) = high;
#endif
        }
    }
}

__global__ void __launch_bounds__(THREADS, 1) forward_dense(const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed,
    Sizes s, Strides xs, STORED* y0, Strides ys0, const __grid_constant__ TensorMap boxes) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ Barriers b;
    const int t = threadIdx.x;
    const Operands operands{y0, ys0};
    if (t == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&b.full[i]), TRANSPOSERS); barrier_init(shared_address(&b.empty[i]), 256);
        }
        for (int i = 0; i < SLABS; i++) {
            barrier_init(shared_address(&b.weights_full[i]), FETCHERS); barrier_init(shared_address(&b.weights_empty[i]), 256);
        }
        for (int i = 0; i < BUFFERS; i++) {
            barrier_init(shared_address(&b.chunk_full[i]), 128); barrier_init(shared_address(&b.chunk_empty[i]), 128);
        }
        for (int i = 0; i < RAW; i++) {
            barrier_init(shared_address(&b.raw_full[i]), 1); barrier_init(shared_address(&b.raw_empty[i]), TRANSPOSERS);
        }
        barrier_fence();
    }
    TF_SEQUENCE();
    __syncthreads();
    const int role = __shfl_sync(~0u, t / 128, 0);
    if (role == 0) { registers_give<64>(); load_boxes(shared, b, packed, s, xs, &boxes, operands, t); }
    else if (role <= STORE_GROUPS) { registers_give<96>(); store_role(shared, b, s, operands, role - 1, t % 128); }
    else if (role == STORE_GROUPS + 1) { registers_take<176>(); product_role<0>(shared, b, s, operands, t % 128); }
    else if (role == STORE_GROUPS + 2) { registers_take<176>(); product_role<1>(shared, b, s, operands, t % 128); }
#endif
}

// The portable path, for any GPU and any size: a thread computes eight output channels at one place. Along each axis output o,
// input i and tap k belong together where down * o + offset = up * i + step * k.
struct Geometry { int in[3], out[3], taps[3], up[3], down[3], step[3], offset[3], batch, cin, cout, groups, of_group, of_cin, of_cout; };
__global__ void __launch_bounds__(256) direct(const STORED* x, const STORED* w, const STORED* bias, STORED* y, Geometry g) {
    long long rest = blockIdx.x * 256ll + threadIdx.x;
    int o[3], blocks = (g.cout + 7) / 8;
    for (int a = 2; a >= 0; a--) { o[a] = rest % g.out[a]; rest /= g.out[a]; }
    const int first = rest % blocks * 8, group = rest / blocks % g.groups;
    const long long n = rest / blocks / g.groups, image = 1ll * g.in[0] * g.in[1] * g.in[2];
    if (n >= g.batch) return;
    double sum[8] = {};
    for (int k = 0; k < g.taps[0] * g.taps[1] * g.taps[2]; k++) {
        const int tap[3] = {k / (g.taps[1] * g.taps[2]), k / g.taps[2] % g.taps[1], k % g.taps[2]};
        long long pixel = 0;
        bool inside = true;
        for (int a = 0; a < 3; a++) {
            const int i = g.down[a] * o[a] + g.offset[a] - g.step[a] * tap[a];
            inside = inside && i >= 0 && i % g.up[a] == 0 && i / g.up[a] < g.in[a];
            pixel = pixel * g.in[a] + i / g.up[a];
        }
        float part[8] = {};
        for (int c = 0; c < g.cin && inside; c++) {
            const float v = x[((n * g.groups + group) * g.cin + c) * image + pixel];
            const STORED* from = w + group * g.of_group + c * g.of_cin + first * g.of_cout + k;
            for (int j = 0; j < 8 && first + j < g.cout; j++) part[j] += v * (float)from[j * g.of_cout];
        }
        for (int j = 0; j < 8; j++) sum[j] += part[j];
    }
    for (int j = 0; j < 8 && first + j < g.cout; j++) {
        const long long co = (n * g.groups + group) * g.cout + first + j;
        const double shift = bias ? (float)bias[co % (g.groups * g.cout)] : 0.f;
        y[((co * g.out[0] + o[0]) * g.out[1] + o[1]) * g.out[2] + o[2]] = (float)(sum[j] + shift);
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

// A tensor as the copy engine is told of it: five axes, fastest first; it reads boxes of it, zeros outside.
template <class S>
static TensorMap boxes_of(const S* tensor, std::array<uint64_t, 5> extent, std::array<uint64_t, 4> stride, std::array<unsigned, 5> box) {
    typedef int Encode(void*, int, unsigned, const void*, uint64_t*, uint64_t*, unsigned*, unsigned*, int, int, int, int);
    static Encode* const encode = (Encode*)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled");
    unsigned ones[5] = {1, 1, 1, 1, 1};
    TensorMap map;
    encode(&map, sizeof(S) == 4 ? 7 : std::is_same<S, Half>::value ? 6 : 9, 5, tensor, extent.data(), stride.data(), box.data(), ones, 0, 0, 3, 0);
    return map;
}

extern "C" long long forward(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], height = size[1], width = size[2];
    if (arch == 90 && width % 16 == 0 && aligned(leaf, 2)) {
        const long long out_height = height + 2;
        const long long out_width = width + 4;
#if defined(STRICT)
        const long long count_1 = ceil_div(width, 130);
#else
        const long long count_1 = ceil_div(out_width, 88);
        const long long count_2 = (height + 3) / 2;
#endif
        if (128 * batch * out_height * out_width >= 1ll << 31) return -1;
#if !defined(HALF) && !defined(STRICT)
        if (245760 * batch * out_height * out_width < 1600000000) return -3;
#endif
        if (!workspace) return PICK(491520, 983040, 245760);
        launch(forward_prepare, PICK(120, 120, 60), 256, 0, false, stream, (unsigned char*)workspace, (const STORED*)leaf[1]);
#if defined(HALF)
        launch(forward_dense, std::min<long long>(132, batch * count_1 * count_2), 512, 225792, arch >= 90, stream, (const STORED*)leaf[0],
            (const unsigned char*)workspace,
#elif defined(STRICT)
        launch(forward_dense, 132, 512, 231168, arch >= 90, stream, (const float*)leaf[0], (const unsigned char*)workspace,
#else
        launch(forward_dense, std::min<long long>(132, batch * count_1 * count_2), 512, 223744, arch >= 90, stream, (const float*)leaf[0],
            (const unsigned char*)workspace,
#endif
            Sizes{{(int)(batch), 1, (int)(height), (int)(width)}, {(int)(batch), 1, (int)(out_height), (int)(out_width)},
#if defined(STRICT)
            {(int)(batch), 1, (int)(out_height), (int)(count_1)}, (int)(batch * out_height * count_1)},
#else
            {(int)(batch), 1, (int)(count_2), (int)(count_1)}, (int)(batch * count_1 * count_2)},
#endif
            Strides{64 * height * width, height * width, 0, width, 1}, (STORED*)out[0],
            Strides{128 * out_height * out_width, out_height * out_width, 0, out_width, 1},
            boxes_of((const STORED*)leaf[0], {(uint64_t)(width), (uint64_t)(height), 1, (uint64_t)(batch), 64},
            {(uint64_t)(PICK(4, 4, 2) * width), 16, (uint64_t)(PICK(256, 256, 128) * height * width), (uint64_t)(PICK(4, 4, 2) * height * width)}, {PICK(92, 136, 96), PICK(4, 3, 4), 1, 1, PICK(8, 8, 16)}));
        return (long long)cudaGetLastError();
    }
    return -2;
}
extern "C" long long convolve(void* const* leaf, void* const* out, const long long* size, char*, cudaStream_t stream, int) {
    Geometry g;
    for (int i = 0; i < (int)(sizeof(g) / sizeof(int)); i++) ((int*)&g)[i] = (int)size[i];
    const long long threads = g.batch * g.groups * ((g.cout + 7ll) / 8) * g.out[0] * g.out[1] * g.out[2];
    direct<<<(unsigned)((threads + 255) / 256), 256, 0, stream>>>((STORED*)leaf[0], (STORED*)leaf[1], (STORED*)leaf[2], (STORED*)out[0], g);
    return (long long)cudaGetLastError();
}
"""

ELEMENTS = {torch.float32: "float", torch.float16: "Half", torch.bfloat16: "Bfloat"}
OTHERWISE = {-3: "STRICT"}
_built, _calls = {}, {}


def compiled(dtype, device, told):
    """The kernels for a dtype and the GPU at hand: built on first use, later found in torch's extension cache."""
    major, minor = torch.cuda.get_device_capability(device)
    arch = f"sm_{major}{minor}a" if major == 9 else f"sm_{major}{minor}"
    flags = [f"-DSTORED={ELEMENTS[dtype]}", f"-D{told}"]
    key = *flags, arch
    if key not in _built:
        path = load_inline(
            name="_".join(["transfuse_c345132ba1d7", *key]).replace("-D", "").replace("=", "_"),
            cpp_sources="",
            cuda_sources="#include <algorithm>\n#include <array>\n#include <cstdint>\n#include <dlfcn.h>\n#include <cuda_runtime.h>\n" + SOURCE.replace(".f16.f16", ".bf16.bf16" if dtype == torch.bfloat16 else ".f16.f16"),
            extra_cuda_cflags=[*flags, f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}",
                    "-diag-suppress=177,550"],
            is_python_module=False,
            no_implicit_headers=True,
        )
        _built[key] = ctypes.CDLL(path), 10 * major + minor
    return _built[key]


def call(function, leaves, out, sizes, workspace, arch):
    addresses = lambda tensors: (ctypes.c_void_p * len(tensors))(*[0 if t is None else t.data_ptr() for t in tensors])
    where, device = 0 if workspace is None else workspace.data_ptr(), leaves[0].device
    with torch.cuda.device(device):
        stream = torch._C._cuda_getCurrentRawStream(device.index)
        found = function(addresses(leaves), addresses(out), sizes, where, stream, arch)
    if workspace is not None and found:
        raise RuntimeError(f"CUDA error {found}")
    return found


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
        if leaf.dim() != len(shape) or any(isinstance(n, int) and n != m for n, m in zip(shape, leaf.shape)):
            raise ValueError(f"{label} must have shape {shape}, got {tuple(leaf.shape)}")
    sizes = [leaves[leaf].shape[axis] for leaf, axis in sizes_at]
    counts = (ctypes.c_longlong * len(sizes))(*sizes)
    exact = first.dtype == torch.float32 and not torch.backends.cudnn.allow_tf32
    need, told = None, "HALF" if first.dtype != torch.float32 else "STRICT" if exact else "TF32"
    while need is None or need in OTHERWISE:  # small: fp32 though TF32 is allowed, as PyTorch does
        told = OTHERWISE.get(need, told)
        library, arch = compiled(first.dtype, first.device, told)
        function = library[name]
        function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_void_p] * 5 + [ctypes.c_int]
        need = call(function, leaves, [], counts, None, arch)
    if need == -1:
        raise ValueError(f"{name}: at sizes {sizes} a tensor would have 2^31 elements or more, which these kernels cannot address")
    return function, counts, arch, need, outputs(*sizes)


def run(name, leaves, expected, sizes_at, outputs):
    """Launches a program; None where the portable path must be taken.
    `expected`: of each leaf a name and its shape; sizes that may vary are words in it."""
    leaves = [leaf.contiguous() for leaf in leaves]
    key = name, torch.backends.cudnn.allow_tf32, *[(t.shape, t.dtype, t.device, t.data_ptr() % 16) for t in leaves]
    if key not in _calls:
        _calls[key] = prepared(name, leaves, expected, sizes_at, outputs)
    function, counts, arch, need, shapes = _calls[key]
    if need == -2:
        return None
    out = [leaves[0].new_empty(shape) for shape in shapes]
    workspace = torch.empty(max(need, 1), dtype=torch.uint8, device=leaves[0].device)
    call(function, leaves, out, counts, workspace, arch)
    return out


def differentiated(written, leaves, gradients):
    """Gradients of a model in PyTorch's operators, by their own backward."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = leaves if again else [t.detach().requires_grad_(t.requires_grad) for t in leaves]
        pairs = [(y, g) for y, g in zip(written(torch.ops.aten.convolution, *leaves), gradients) if g is not None]
        wanted = [t for t in leaves if t.requires_grad]
        given = [y for y, _ in pairs], wanted, [g for _, g in pairs]
        found = iter(torch.autograd.grad(*given, create_graph=again, allow_unused=True))
    return tuple(next(found) if t.requires_grad else None for t in leaves)


def convolve(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """What torch.ops.aten.convolution computes, by the portable kernel."""
    x, weight = x.contiguous(), weight.contiguous()
    like = [None if t is None else t.to("meta") for t in (x, weight, bias)]
    y = x.new_empty(torch.ops.aten.convolution(*like, stride, padding, dilation, transposed, output_padding,
            groups).shape)
    kernel, taps = weight.shape[2:], weight[0, 0].numel()
    ones, turned = [1] * len(kernel), lambda values: [-v for v in values]
    lattice = (stride, ones, dilation, padding) if transposed else (ones, stride, turned(dilation), turned(padding))
    three = lambda values, fill=1: [fill] * (3 - len(kernel)) + list(values)
    numbers = [n for values in (x.shape[2:], y.shape[2:], kernel,
            *lattice[:3]) for n in three(values)] + three(lattice[3], 0)
    steps = (weight.shape[1] * taps, taps) if transposed else (taps, weight.shape[1] * taps)
    numbers += [x.shape[0], x.shape[1] // groups, y.shape[1] // groups, groups, weight.numel() // groups, *steps]
    library, arch = compiled(x.dtype, x.device, "HALF" if x.dtype != torch.float32 else "TF32")
    library.convolve.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int]
    call(library.convolve, [x, weight, bias], [y], (ctypes.c_longlong * len(numbers))(*numbers), None, arch)
    return y


def forward_as_written(convolve, x, conv_transpose_weight):
    """In PyTorch's operators, convolutions apart: what backward differentiates and the portable path computes."""
    conv_transpose2d = convolve(x, conv_transpose_weight, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1)
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
        ) or forward_as_written(convolve, *leaves)
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        return differentiated(forward_as_written, ctx.saved_tensors, gradients[:1])


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
