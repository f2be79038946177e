R"cuda(
// Clusters of two CTAs on neighbouring multiprocessors, which stream the same weights: each brings half of a slab, to both.
#ifdef __CUDACC__
TF_PTX unsigned cluster_rank() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
TF_PTX void cluster_meet() { asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory"); }
TF_PTX void neighbour_arrive(unsigned b) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(b), "r"(cluster_rank() ^ 1) : "memory");
}
TF_PTX bool neighbour_done(unsigned b, int parity) {
    int done;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(b), "r"(parity) : "memory");
    return done;
}
TF_PTX void copy_bulk_to_both(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "h"((unsigned short)3) : "memory");
}
#else
TF_PTX unsigned cluster_rank() { return 0; }
TF_PTX void cluster_meet() { __syncthreads(); }
TF_PTX void neighbour_arrive(unsigned) {}
TF_PTX bool neighbour_done(unsigned, int) { return true; }
TF_PTX void copy_bulk_to_both(unsigned to, const void* from, int bytes, unsigned) { copy_bytes(to, from, true, 2 * bytes); }   // CTAs run one by one: each brings all
#endif

struct Neighbour {
    bool told = false;                                        // the neighbour knows that the slab's place is empty here
    // Asks for half of a slab whose place is empty here, once it is empty there as well; false: not yet.
    __device__ __forceinline__ bool fetch(unsigned to, const unsigned char* from, int bytes, unsigned full, unsigned free, int turn) {
        if (turn > 0) {
            if (!told) neighbour_arrive(free);
            told = true;
            if (!neighbour_done(free, (turn - 1) & 1)) return false;
            told = false;
        }
        const int half = bytes / 2, at = (int)cluster_rank() * half;
        barrier_expect(full, bytes);
        if (bytes) copy_bulk_to_both(to + at, from + at, half, full);
        return true;
    }
};

)cuda"
