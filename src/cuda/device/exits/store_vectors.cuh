R"cuda(
// Neighbours along a row, or channels of a pixel, stored as one vector of up to 16 bytes; nobody reads them soon.
template <int N, class S> static __device__ __forceinline__ void store_vector(S* to, const REAL (&v)[N]) {
    tf_vector<S, N> whole;
#pragma unroll
    for (int e = 0; e < N; e++) tf_from(whole.lane[e], v[e]);
    if constexpr (sizeof(whole) == 16) __stcs((float4*)to, *(float4*)&whole);
    else if constexpr (sizeof(whole) == 8) __stcs((float2*)to, *(float2*)&whole);
    else *(tf_vector<S, N>*)to = whole;
}

// One instruction, taken or not: what follows in the text need not wait for a branch. Of 8 or 16 bytes.
template <int N, class S> static __device__ __forceinline__ void store_vector_where(bool taken, S* to, const REAL (&v)[N]) {
    tf_vector<S, N> whole;
#pragma unroll
    for (int e = 0; e < N; e++) tf_from(whole.lane[e], v[e]);
#ifdef __CUDACC__
    const unsigned* w = (const unsigned*)&whole;
    if constexpr (sizeof(whole) == 16)
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p st.global.cs.v4.u32 [%1], {%2, %3, %4, %5};\n}" ::"r"((unsigned)taken), "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    else
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p st.global.cs.v2.u32 [%1], {%2, %3};\n}" ::"r"((unsigned)taken), "l"(to), "r"(w[0]), "r"(w[1]) : "memory");
#else
    if (taken) *(tf_vector<S, N>*)to = whole;
#endif
}
)cuda"
