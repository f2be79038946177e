R"cuda(
// Two neighbouring CTAs, a cluster, share streamed weights: each fetches half of a slab, for both. A slab is empty when the product
// warps of both have let it go, and is there when both halves are.
#ifdef __CUDACC__
TF_PTX void pair_sync() { asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
TF_PTX void barrier_arrive_at(unsigned b, int rank) {       // a scope that names the cluster would wait for all stores of the thread; slabs are read by products alone
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(b), "r"(rank) : "memory");
}
TF_PTX void expect_from_pair(unsigned b, int bytes) { barrier_expect(b, bytes); }
TF_PTX void copy_to_pair(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "h"((unsigned short)3) : "memory");
}
#endif
constexpr int FETCHERS = 1;
TF_PTX int rank_in_pair() { return (int)blockIdx.x % 2; }
TF_PTX void copy_weights(unsigned to, const unsigned char* from, int bytes, unsigned barrier, int) {
    const int half = bytes / 2, begin = rank_in_pair() * half;
    expect_from_pair(barrier, bytes);
    if (bytes) copy_to_pair(to + begin, from + begin, half, barrier);
}
constexpr int RELEASES = 2 * 8;                               // of a slab: by every product warp of both
TF_PTX void release_weights(unsigned empty) {
    if (threadIdx.x % 32 < 2) barrier_arrive_at(empty, (int)threadIdx.x % 2);
}
)cuda"
