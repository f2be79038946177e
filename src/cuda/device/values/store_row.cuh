R"cuda(
// Neighbours, 16 bytes at once.
template <class S, int N> TF_FUNCTION void tf_store_row(S* to, const double (&v)[N]) {
    constexpr int W = 16 / sizeof(S) < N ? 16 / sizeof(S) : N;
#pragma unroll
    for (int i = 0; i < N; i += W) {
        tf_vector<S, W> whole;
#pragma unroll
        for (int l = 0; l < W; ++l) tf_from(whole.lane[l], v[i + l]);
        *(tf_vector<S, W>*)(to + i) = whole;
    }
}
)cuda"
