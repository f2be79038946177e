#include "cuda/kernel/product_code.h"

namespace transfuse::cuda {

std::string product_code(bool strict) {
    return std::string(R"cuda(
#ifdef __CUDACC_RTC__
TF_FUNCTION unsigned tf_tf32(float x) { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
TF_FUNCTION void tf_mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
TF_FUNCTION unsigned tf_tf32(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return (u + 0x1000u) & 0xffffe000u; }
TF_FUNCTION void tf_mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { tf_host_mma(c, a, b); }
#endif
)cuda") + (strict ? R"cuda(
// Each factor as the sum of two TF32 numbers: 22 bits, as exact as fp32 products need.
TF_FUNCTION void tf_product(float (&c)[4], const float (&x)[4], const float (&y)[2]) {
    unsigned a[4], al[4], b[2], bl[2];
    for (int i = 0; i < 4; ++i) a[i] = tf_tf32(x[i]), al[i] = tf_tf32(x[i] - __uint_as_float(a[i]));
    for (int i = 0; i < 2; ++i) b[i] = tf_tf32(y[i]), bl[i] = tf_tf32(y[i] - __uint_as_float(b[i]));
    tf_mma(c, al, b);
    tf_mma(c, a, bl);
    tf_mma(c, a, b);
}
)cuda"
                  : R"cuda(
// Factors were rounded when they were staged.
TF_FUNCTION void tf_product(float (&c)[4], const float (&x)[4], const float (&y)[2]) {
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = __float_as_uint(x[i]);
    for (int i = 0; i < 2; ++i) b[i] = __float_as_uint(y[i]);
    tf_mma(c, a, b);
}
)cuda");
}

}  // namespace transfuse::cuda
