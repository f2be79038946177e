R"cuda(
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
)cuda"
