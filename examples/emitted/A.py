# A.py with its kernels: ModelNew computes what Model does. The model as written:
#
#     class Model(nn.Module):
#         def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, multiplier):
#             super().__init__()
#             self.conv_transpose = nn.ConvTranspose2d(
#                 in_channels, out_channels, kernel_size, stride=stride, padding=padding, output_padding=output_padding
#             )
#             self.multiplier = multiplier
#
#         def forward(self, x):
#             x = self.conv_transpose(x)
#             x = x * self.multiplier
#             x = torch.mean(x, dim=[2, 3], keepdim=True)
#             x = torch.mean(x, dim=[2, 3], keepdim=True)
#             return x
#
# Derivation, each rule exact:
#   expand_conv: conv_transpose f32[16,128,256,256] is a lattice convolution
#   fold_scale: a scalar scale of f32[16,128,256,256] folds into the weights
#   collapse: reducing [2,3] of f32[16,128,256,256] before the convolution: 4 boxes
#   size_one_axes: mean over axes of extent 1 is the value itself
#   in all 38.9 Gflop and 2.21 GB became 18.2 Mflop and 68.7 MB.
# Plan:
#   prepare: 320 kflop, 427 kB
#   moments: 17.8 Mflop, 67.2 MB
# Why it may be this fast: on an H200 (400 TFLOP/s TF32, 4.0 TB/s measured) the plan cannot take less than 0.0169 ms at
# the sizes of get_inputs(); the operators one by one, as written, not less than 0.554 ms.

import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# Kernels and the host code that launches them; sizes are run-time values. No torch headers: it compiles in seconds.
FORWARD_GENERAL_MOMENTS = r"""
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

// N consecutive elements moved at once; N·sizeof(S) is a power of two up to 16 and the address a multiple of it.
template <class S, int N> struct alignas(sizeof(S) * N) tf_vector { S lane[N]; };
typedef int tf_index;
struct alignas(8) tf_divisor { unsigned magic, shift; };  // 0 <= n < 2^31

TF_FUNCTION tf_index tf_quotient_of(tf_index n, tf_divisor d) {
    return (tf_index)((__umulhi((unsigned)n, d.magic) + (unsigned)n) >> d.shift);
}

#if __CUDA_ARCH__ >= 900
#define TF_SEQUENCE() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#define TF_BESIDE() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define TF_AFTER() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define TF_SEQUENCE()
#define TF_BESIDE()
#define TF_AFTER()
#endif

// The sum over a warp in a fixed order: lane 0 has it.
TF_FUNCTION double tf_warp_sum(double v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

__global__ void __launch_bounds__(256) forward_moments(const STORED* __restrict__ p0, double* p1, int n5, int count_2, int count_1, int batch, int count_3, int count_4, int width, int height, int n18, int height_x_width, int n37, int n55, tf_divisor per_count_2, tf_divisor per_count_1, tf_divisor per_batch, tf_divisor per_count_3) {
    __shared__ double tf_warps[32], tf_sums[4];
    __shared__ int tf_cells[8];
    if (threadIdx.x == 0) {
        tf_cells[0] = 0;
        tf_cells[1] = 0;
        tf_cells[2] = 1;
        tf_cells[3] = 2;
        tf_cells[4] = 1;
        tf_cells[5] = n5;
        tf_cells[6] = 1;
        tf_cells[7] = 3;
    }
    __syncthreads();
    TF_SEQUENCE();
    const int q0 = tf_quotient_of((int)blockIdx.x, per_count_2), chunk1 = ((int)blockIdx.x - (q0 * count_2));
    const int q2 = tf_quotient_of(q0, per_count_1), columns3 = (q0 - (q2 * count_1)), q4 = q2 / 64, outer5 = (q2 - (q4 * 64));
    const int q6 = tf_quotient_of(q4, per_batch), outer7 = (q4 - (q6 * batch));
    const int line8 = tf_quotient_of((int)threadIdx.x, per_count_3), place9 = ((int)threadIdx.x - (line8 * count_3));
    const int column10 = (((columns3 * count_3) + place9)) * 4;
    const bool inside11 = line8 < count_4 && column10 < width;
    const int begin12 = chunk1 * 64, end13 = min((begin12 + 64), height);
    const STORED* __restrict__ from14 = p0 + (((long long)outer7 * n18) + ((long long)outer5 * height_x_width));
    for (int cell15 = 0; cell15 < 2; ++cell15) {
        const int which16 = (cell15 - ((cell15 / 2) * 2)), at17 = which16 * 4, lo18 = tf_cells[at17];
        const int hi19 = tf_cells[at17 + 1], step20 = tf_cells[at17 + 2];
        const int first21 = begin12 <= lo18 ? lo18 : lo18 + (begin12 - lo18 + step20 - 1) / step20 * step20;
        const int last22 = min(hi19, end13 - 1), rows23 = last22 < first21 ? 0 : (last22 - first21) / step20 + 1;
        const int count24 = rows23;
        double sum25 = 0.0;
        double sum26 = 0.0;
        double sum27 = 0.0;
        double sum28 = 0.0;
        if (inside11 && count24 > 0) {
            for (int t29 = line8; t29 < count24; t29 += (8 * count_4)) {
                const int i30 = (first21 + (t29 * step20)), at31 = ((i30 * width) + column10);
                const tf_vector<STORED, 4> pack32 = *(const tf_vector<STORED, 4>*)(from14 + at31);
                const int row33 = t29 + count_4, row34 = min(row33, count24 - 1), i35 = (first21 + (row34 * step20));
                const int at36 = ((i35 * width) + column10);
                const tf_vector<STORED, 4> pack37 = *(const tf_vector<STORED, 4>*)(from14 + at36);
                const int row38 = t29 + (2 * count_4), row39 = min(row38, count24 - 1), i40 = (first21 + (row39 * step20));
                const int at41 = ((i40 * width) + column10);
                const tf_vector<STORED, 4> pack42 = *(const tf_vector<STORED, 4>*)(from14 + at41);
                const int row43 = t29 + (3 * count_4), row44 = min(row43, count24 - 1), i45 = (first21 + (row44 * step20));
                const int at46 = ((i45 * width) + column10);
                const tf_vector<STORED, 4> pack47 = *(const tf_vector<STORED, 4>*)(from14 + at46);
                const int row48 = t29 + (4 * count_4), row49 = min(row48, count24 - 1), i50 = (first21 + (row49 * step20));
                const int at51 = ((i50 * width) + column10);
                const tf_vector<STORED, 4> pack52 = *(const tf_vector<STORED, 4>*)(from14 + at51);
                const int row53 = t29 + (5 * count_4), row54 = min(row53, count24 - 1), i55 = (first21 + (row54 * step20));
                const int at56 = ((i55 * width) + column10);
                const tf_vector<STORED, 4> pack57 = *(const tf_vector<STORED, 4>*)(from14 + at56);
                const int row58 = t29 + (6 * count_4), row59 = min(row58, count24 - 1), i60 = (first21 + (row59 * step20));
                const int at61 = ((i60 * width) + column10);
                const tf_vector<STORED, 4> pack62 = *(const tf_vector<STORED, 4>*)(from14 + at61);
                const int row63 = t29 + (7 * count_4), row64 = min(row63, count24 - 1), i65 = (first21 + (row64 * step20));
                const int at66 = ((i65 * width) + column10);
                const tf_vector<STORED, 4> pack67 = *(const tf_vector<STORED, 4>*)(from14 + at66);
                sum25 += (double)((((float)tf_to<float>(pack32.lane[0]) + (row33 < count24 ? (float)tf_to<float>(pack37.lane[0]) : 0.0f)) + ((row38 < count24 ? (float)tf_to<float>(pack42.lane[0]) : 0.0f) + (row43 < count24 ? (float)tf_to<float>(pack47.lane[0]) : 0.0f))) + (((row48 < count24 ? (float)tf_to<float>(pack52.lane[0]) : 0.0f) + (row53 < count24 ? (float)tf_to<float>(pack57.lane[0]) : 0.0f)) + ((row58 < count24 ? (float)tf_to<float>(pack62.lane[0]) : 0.0f) + (row63 < count24 ? (float)tf_to<float>(pack67.lane[0]) : 0.0f))));
                sum26 += (double)((((float)tf_to<float>(pack32.lane[1]) + (row33 < count24 ? (float)tf_to<float>(pack37.lane[1]) : 0.0f)) + ((row38 < count24 ? (float)tf_to<float>(pack42.lane[1]) : 0.0f) + (row43 < count24 ? (float)tf_to<float>(pack47.lane[1]) : 0.0f))) + (((row48 < count24 ? (float)tf_to<float>(pack52.lane[1]) : 0.0f) + (row53 < count24 ? (float)tf_to<float>(pack57.lane[1]) : 0.0f)) + ((row58 < count24 ? (float)tf_to<float>(pack62.lane[1]) : 0.0f) + (row63 < count24 ? (float)tf_to<float>(pack67.lane[1]) : 0.0f))));
                sum27 += (double)((((float)tf_to<float>(pack32.lane[2]) + (row33 < count24 ? (float)tf_to<float>(pack37.lane[2]) : 0.0f)) + ((row38 < count24 ? (float)tf_to<float>(pack42.lane[2]) : 0.0f) + (row43 < count24 ? (float)tf_to<float>(pack47.lane[2]) : 0.0f))) + (((row48 < count24 ? (float)tf_to<float>(pack52.lane[2]) : 0.0f) + (row53 < count24 ? (float)tf_to<float>(pack57.lane[2]) : 0.0f)) + ((row58 < count24 ? (float)tf_to<float>(pack62.lane[2]) : 0.0f) + (row63 < count24 ? (float)tf_to<float>(pack67.lane[2]) : 0.0f))));
                sum28 += (double)((((float)tf_to<float>(pack32.lane[3]) + (row33 < count24 ? (float)tf_to<float>(pack37.lane[3]) : 0.0f)) + ((row38 < count24 ? (float)tf_to<float>(pack42.lane[3]) : 0.0f) + (row43 < count24 ? (float)tf_to<float>(pack47.lane[3]) : 0.0f))) + (((row48 < count24 ? (float)tf_to<float>(pack52.lane[3]) : 0.0f) + (row53 < count24 ? (float)tf_to<float>(pack57.lane[3]) : 0.0f)) + ((row58 < count24 ? (float)tf_to<float>(pack62.lane[3]) : 0.0f) + (row63 < count24 ? (float)tf_to<float>(pack67.lane[3]) : 0.0f))));
            }
        }
        const double total68 = count24 > 0 ? tf_warp_sum(inside11 ? 0.0 + (column10 >= 1 && column10 <= n37 ? sum25 : 0.0) + ((column10 + 1) >= 1 && (column10 + 1) <= n37 ? sum26 : 0.0) + ((column10 + 2) >= 1 && (column10 + 2) <= n37 ? sum27 : 0.0) + ((column10 + 3) >= 1 && (column10 + 3) <= n37 ? sum28 : 0.0) : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 4 + (cell15 * 2)] = total68;
        const double total69 = count24 > 0 ? tf_warp_sum(inside11 ? 0.0 + (column10 >= 0 && column10 <= n37 ? sum25 : 0.0) + ((column10 + 1) >= 0 && (column10 + 1) <= n37 ? sum26 : 0.0) + ((column10 + 2) >= 0 && (column10 + 2) <= n37 ? sum27 : 0.0) + ((column10 + 3) >= 0 && (column10 + 3) <= n37 ? sum28 : 0.0) : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 4 + ((cell15 * 2) + 1)] = total69;
    }
    __syncthreads();
    for (int i70 = threadIdx.x; i70 < 4; i70 += 256) {
        double total71 = 0.0;
        for (int warp72 = 0; warp72 < 8; ++warp72) total71 += tf_warps[warp72 * 4 + i70];
        tf_sums[i70] = total71;
    }
    __syncthreads();
    const long long to73 = ((((long long)outer7 * 256) + ((long long)outer5 * 4)) + ((long long)((chunk1 * count_1) + columns3) * n55));
    for (int box74 = threadIdx.x; box74 < 4; box74 += 256) {
        double sum75 = 0.0;
        static const unsigned char tf_intervals[] = {0, 0, 0, 1, 1, 0, 1, 1};
        const unsigned char* of76 = tf_intervals + (box74 * 2);
        if (2ll >> of76[0] & 1) sum75 += tf_sums[0 + of76[1]];
        sum75 += tf_sums[2 + of76[1]];
        tf_store(p1 + ((to73 + box74)), sum75);
    }
}

__global__ void __launch_bounds__(256) forward_prepare(const STORED* __restrict__ p0, float* p1, const STORED* __restrict__ p2, float* p3) {
    TF_BESIDE();
    for (int block0 = blockIdx.x; block0 < 129; block0 += gridDim.x) {
        if (block0 < 128) {
            const int block1 = block0;
            const tf_index t2 = (tf_index)block1 * 256 + threadIdx.x;
            if (t2 < 32768) {
                const tf_index i3 = t2 / 128, i4 = (t2 - (i3 * 128)), i5 = i3 / 2, i6 = (i3 - (i5 * 2)), i7 = i5 / 2;
                const tf_index i8 = (i5 - (i7 * 2));
                const float v9 = tf_load<float>(p0 + ((i7 * 1152) + (i4 * 9))), v10 = v9 * 0.5f;
                const double m11 = i8 == 1 ? 0.0 : 1.0;
                const float v12 = tf_load<float>(p0 + (((i7 * 1152) + (i4 * 9)) + 3)), v13 = v12 * 0.5f;
                const double m14 = i8 == 1 ? 1.0 : 0.0;
                const float v15 = tf_load<float>(p0 + (((i7 * 1152) + (i4 * 9)) + 6)), v16 = v15 * 0.5f;
                const double m17 = i8 == 1 ? 1.0 : 0.0;
                const double v18 = (m11 != 0.0 ? (double)v10 * m11 : 0.0) + (m14 != 0.0 ? (double)v13 * m14 : 0.0) + (m17 != 0.0 ? (double)v16 * m17 : 0.0);
                const double m19 = i6 == 1 ? 0.0 : 1.0;
                const float v20 = tf_load<float>(p0 + (((i7 * 1152) + (i4 * 9)) + 1)), v21 = v20 * 0.5f;
                const double m22 = i8 == 1 ? 0.0 : 1.0;
                const float v23 = tf_load<float>(p0 + ((((i7 * 1152) + (i4 * 9)) + 3) + 1)), v24 = v23 * 0.5f;
                const double m25 = i8 == 1 ? 1.0 : 0.0;
                const float v26 = tf_load<float>(p0 + ((((i7 * 1152) + (i4 * 9)) + 6) + 1)), v27 = v26 * 0.5f;
                const double m28 = i8 == 1 ? 1.0 : 0.0;
                const double v29 = (m22 != 0.0 ? (double)v21 * m22 : 0.0) + (m25 != 0.0 ? (double)v24 * m25 : 0.0) + (m28 != 0.0 ? (double)v27 * m28 : 0.0);
                const double m30 = i6 == 1 ? 1.0 : 0.0;
                const float v31 = tf_load<float>(p0 + (((i7 * 1152) + (i4 * 9)) + 2)), v32 = v31 * 0.5f;
                const double m33 = i8 == 1 ? 0.0 : 1.0;
                const float v34 = tf_load<float>(p0 + ((((i7 * 1152) + (i4 * 9)) + 3) + 2)), v35 = v34 * 0.5f;
                const double m36 = i8 == 1 ? 1.0 : 0.0;
                const float v37 = tf_load<float>(p0 + ((((i7 * 1152) + (i4 * 9)) + 6) + 2)), v38 = v37 * 0.5f;
                const double m39 = i8 == 1 ? 1.0 : 0.0;
                const double v40 = (m33 != 0.0 ? (double)v32 * m33 : 0.0) + (m36 != 0.0 ? (double)v35 * m36 : 0.0) + (m39 != 0.0 ? (double)v38 * m39 : 0.0);
                const double m41 = i6 == 1 ? 1.0 : 0.0;
                const double v42 = (m19 != 0.0 ? (double)v18 * m19 : 0.0) + (m30 != 0.0 ? (double)v29 * m30 : 0.0) + (m41 != 0.0 ? (double)v40 * m41 : 0.0);
                tf_store(p1 + ((i3 * 128) + i4), v42);
            }
        } else {
            const int block43 = block0 - 128;
            const tf_index t44 = (tf_index)block43 * 256 + threadIdx.x;
            if (t44 < 128) {
                const float v45 = tf_load<float>(p2 + t44), v46 = v45 * 0.5f;
                tf_store(p3 + t44, v46);
            }
        }
    }
    TF_AFTER();
}

__global__ void __launch_bounds__(256) forward_moments_tail(const double* p0, const float* p1, const float* p2, STORED* p3, int count_1_x_count_2, int n5, int count0, int count1, double scale0) {
    __shared__ double tf_shared[256];
    TF_SEQUENCE();
    for (int block0 = blockIdx.x; block0 < count0; block0 += gridDim.x) {
        {
            const int lane1 = threadIdx.x % 8, slice2 = threadIdx.x / 8;
            const tf_index o3 = (tf_index)block0 * 8 + lane1, o4 = min(o3, (tf_index)(count1 - 1)), i5 = o4 / 128;
            const tf_index i6 = (o4 - (i5 * 128));
            double a7 = 0.0;
            #pragma unroll 4
            for (tf_index t8 = slice2; t8 < 256; t8 += 32) {
                double a9 = 0.0;
                for (tf_index r10 = 0; r10 < count_1_x_count_2; ++r10) {
                    const double v11 = (double)p0[(((i5 * 256) + t8) + (r10 * n5))];
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
                tf_store(p3 + ((i5 * 128) + i6), v20);
            }
            __syncthreads();
        }
    }
}

__global__ void __launch_bounds__(256) forward_general_moments(const STORED* __restrict__ p0, double* p1, int n5, int count_1, int batch, int count_2, int count_3, int width, int height, int n18, int height_x_width, int n37, int n43, tf_divisor per_count_1, tf_divisor per_batch, tf_divisor per_count_2) {
    __shared__ double tf_warps[32], tf_sums[4];
    __shared__ int tf_cells[8];
    if (threadIdx.x == 0) {
        tf_cells[0] = 0;
        tf_cells[1] = 0;
        tf_cells[2] = 1;
        tf_cells[3] = 2;
        tf_cells[4] = 1;
        tf_cells[5] = n5;
        tf_cells[6] = 1;
        tf_cells[7] = 3;
    }
    __syncthreads();
    TF_SEQUENCE();
    const int q0 = ((int)blockIdx.x / 1), chunk1 = ((int)blockIdx.x - q0), q2 = tf_quotient_of(q0, per_count_1);
    const int columns3 = (q0 - (q2 * count_1)), q4 = q2 / 64, outer5 = (q2 - (q4 * 64)), q6 = tf_quotient_of(q4, per_batch);
    const int outer7 = (q4 - (q6 * batch)), line8 = tf_quotient_of((int)threadIdx.x, per_count_2);
    const int place9 = ((int)threadIdx.x - (line8 * count_2)), column10 = (((columns3 * count_2) + place9)) * 1;
    const bool inside11 = line8 < count_3 && column10 < width;
    const int begin12 = chunk1 * height, end13 = min((begin12 + height), height);
    const STORED* __restrict__ from14 = p0 + (((long long)outer7 * n18) + ((long long)outer5 * height_x_width));
    for (int cell15 = 0; cell15 < 2; ++cell15) {
        const int which16 = (cell15 - ((cell15 / 2) * 2)), at17 = which16 * 4, lo18 = tf_cells[at17];
        const int hi19 = tf_cells[at17 + 1], step20 = tf_cells[at17 + 2];
        const int first21 = begin12 <= lo18 ? lo18 : lo18 + (begin12 - lo18 + step20 - 1) / step20 * step20;
        const int last22 = min(hi19, end13 - 1), rows23 = last22 < first21 ? 0 : (last22 - first21) / step20 + 1;
        const int count24 = rows23;
        double sum25 = 0.0;
        if (inside11 && count24 > 0) {
            for (int t26 = line8; t26 < count24; t26 += (8 * count_3)) {
                const int i27 = (first21 + (t26 * step20)), at28 = ((i27 * width) + column10);
                const float v29 = tf_load<float>(from14 + at28);
                const int row30 = t26 + count_3, row31 = min(row30, count24 - 1), i32 = (first21 + (row31 * step20));
                const int at33 = ((i32 * width) + column10);
                const float v34 = tf_load<float>(from14 + at33);
                const int row35 = t26 + (2 * count_3), row36 = min(row35, count24 - 1), i37 = (first21 + (row36 * step20));
                const int at38 = ((i37 * width) + column10);
                const float v39 = tf_load<float>(from14 + at38);
                const int row40 = t26 + (3 * count_3), row41 = min(row40, count24 - 1), i42 = (first21 + (row41 * step20));
                const int at43 = ((i42 * width) + column10);
                const float v44 = tf_load<float>(from14 + at43);
                const int row45 = t26 + (4 * count_3), row46 = min(row45, count24 - 1), i47 = (first21 + (row46 * step20));
                const int at48 = ((i47 * width) + column10);
                const float v49 = tf_load<float>(from14 + at48);
                const int row50 = t26 + (5 * count_3), row51 = min(row50, count24 - 1), i52 = (first21 + (row51 * step20));
                const int at53 = ((i52 * width) + column10);
                const float v54 = tf_load<float>(from14 + at53);
                const int row55 = t26 + (6 * count_3), row56 = min(row55, count24 - 1), i57 = (first21 + (row56 * step20));
                const int at58 = ((i57 * width) + column10);
                const float v59 = tf_load<float>(from14 + at58);
                const int row60 = t26 + (7 * count_3), row61 = min(row60, count24 - 1), i62 = (first21 + (row61 * step20));
                const int at63 = ((i62 * width) + column10);
                const float v64 = tf_load<float>(from14 + at63);
                sum25 += (double)((((float)v29 + (row30 < count24 ? (float)v34 : 0.0f)) + ((row35 < count24 ? (float)v39 : 0.0f) + (row40 < count24 ? (float)v44 : 0.0f))) + (((row45 < count24 ? (float)v49 : 0.0f) + (row50 < count24 ? (float)v54 : 0.0f)) + ((row55 < count24 ? (float)v59 : 0.0f) + (row60 < count24 ? (float)v64 : 0.0f))));
            }
        }
        const double total65 = count24 > 0 ? tf_warp_sum(inside11 ? 0.0 + (column10 >= 1 && column10 <= n37 ? sum25 : 0.0) : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 4 + (cell15 * 2)] = total65;
        const double total66 = count24 > 0 ? tf_warp_sum(inside11 ? 0.0 + (column10 >= 0 && column10 <= n37 ? sum25 : 0.0) : 0.0) : 0.0;
        if (threadIdx.x % 32 == 0) tf_warps[threadIdx.x / 32 * 4 + ((cell15 * 2) + 1)] = total66;
    }
    __syncthreads();
    for (int i67 = threadIdx.x; i67 < 4; i67 += 256) {
        double total68 = 0.0;
        for (int warp69 = 0; warp69 < 8; ++warp69) total68 += tf_warps[warp69 * 4 + i67];
        tf_sums[i67] = total68;
    }
    __syncthreads();
    const long long to70 = ((((long long)outer7 * 256) + ((long long)outer5 * 4)) + ((long long)((chunk1 * count_1) + columns3) * n43));
    for (int box71 = threadIdx.x; box71 < 4; box71 += 256) {
        double sum72 = 0.0;
        static const unsigned char tf_intervals[] = {0, 0, 0, 1, 1, 0, 1, 1};
        const unsigned char* of73 = tf_intervals + (box71 * 2);
        if (2ll >> of73[0] & 1) sum72 += tf_sums[0 + of73[1]];
        sum72 += tf_sums[2 + of73[1]];
        tf_store(p1 + ((to70 + box71)), sum72);
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

extern "C" long long forward(void* const* leaf, void* const* out, const long long* size, char* workspace, cudaStream_t stream, int arch) {
    const long long batch = size[0], height = size[1], width = size[2];
    if (width % 16 == 0 && aligned(leaf, 3)) {
        const long long count_1 = ceil_div(width, 1024);
        const long long count_2 = ceil_div(height, 64);
        const long long count_3 = ceil_div(width, 4 * count_1);
        const long long count_4 = 256 / count_3;
        const long long at_1 = 131072;
        const long long at_2 = at_1 + 512;
        if (512 * batch * height * width >= 1ll << 31) return -1;
        if (!workspace) return at_2 + 2048 * batch * count_1 * count_2;
        launch(forward_moments, 64 * batch * count_1 * count_2, 256, 0, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_2), height - 1, count_2, count_1, batch, count_3, count_4, width, height, 64 * height * width, height * width, width - 1, 256 * batch, divisor(count_2), divisor(count_1), divisor(batch), divisor(count_3));
        launch(forward_prepare, 129, 256, 0, arch >= 90, stream, (const STORED*)leaf[1], (float*)workspace, (const STORED*)leaf[2], (float*)(workspace + at_1));
        launch(forward_moments_tail, 16 * batch, 256, 0, arch >= 90, stream, (const double*)(workspace + at_2), (const float*)workspace, (const float*)(workspace + at_1), (STORED*)out[0], count_1 * count_2, 256 * batch, 16 * batch, 128 * batch, 0.25 / (height * width));
        return (long long)cudaGetLastError();
    }
    const long long count_1 = ceil_div(width, 256);
    const long long count_2 = ceil_div(width, count_1);
    const long long count_3 = 256 / count_2;
    const long long at_1 = 131072;
    const long long at_2 = at_1 + 512;
    if (512 * batch * height * width >= 1ll << 31) return -1;
    if (!workspace) return at_2 + 2048 * batch * count_1;
    launch(forward_general_moments, 64 * batch * count_1, 256, 0, false, stream, (const STORED*)leaf[0], (double*)(workspace + at_2), height - 1, count_1, batch, count_2, count_3, width, height, 64 * height * width, height * width, width - 1, 256 * batch, divisor(count_1), divisor(batch), divisor(count_2));
    launch(forward_prepare, 129, 256, 0, arch >= 90, stream, (const STORED*)leaf[1], (float*)workspace, (const STORED*)leaf[2], (float*)(workspace + at_1));
    launch(forward_moments_tail, 16 * batch, 256, 0, arch >= 90, stream, (const double*)(workspace + at_2), (const float*)workspace, (const float*)(workspace + at_1), (STORED*)out[0], count_1, 256 * batch, 16 * batch, 128 * batch, 0.25 / (height * width));
    return (long long)cudaGetLastError();
}
"""

# What is compiled for which arithmetic: fp32 as PyTorch's TF32 switch allows, strict fp32, 16 bits.
SOURCES = {
    "fp32": FORWARD_GENERAL_MOMENTS,
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
            name=f"transfuse_6474e14616a7_{arithmetic}_sm{major}{minor}",
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

def forward_as_written(x, conv_transpose_weight, conv_transpose_bias):
    """In PyTorch's operators: what the backward of this file differentiates."""
    conv_transpose2d = torch.ops.aten.conv_transpose2d.input(x, conv_transpose_weight, conv_transpose_bias, [2, 2], [1, 1], [1, 1])
    mul = torch.ops.aten.mul.Tensor(conv_transpose2d, 0.5)
    mean = torch.ops.aten.mean.dim(mul, [2, 3], True)
    mean_1 = torch.ops.aten.mean.dim(mean, [2, 3], True)
    return [mean_1]


class Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *leaves):
        ctx.save_for_backward(*leaves)
        out = run(
            "forward", leaves,
            [("x", ("batch", 64, "height", "width")), ("conv_transpose_weight", (64, 128, 3, 3)), ("conv_transpose_bias", (128,))],
            [(0, 0), (0, 2), (0, 3)],
            lambda batch, height, width: [(batch, 128, 1, 1)],
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
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, multiplier):
        if (in_channels, out_channels, kernel_size, stride, padding, output_padding, multiplier) != (64, 128, 3, 2, 1, 1, 0.5):
            expected = "(in_channels, out_channels, kernel_size, stride, padding, output_padding, multiplier) = 64, 128, 3, 2, 1, 1, 0.5"
            raise ValueError(f"the kernels of this file were written for {expected}, got {(in_channels, out_channels, kernel_size, stride, padding, output_padding, multiplier)}")
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, output_padding=output_padding
        )
        self.multiplier = multiplier

    def forward(self, x):
        y = Forward.apply(x, self.conv_transpose.weight, self.conv_transpose.bias)[0]
        return y
