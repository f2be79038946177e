R"cuda(
// The machine of sm_90a: wgmma, bulk copies, registers handed from role to role. (Without a CUDA compiler the tests' host
// machine has functions of the same names.)
constexpr int WARPS_N = 1;                                    // a warpgroup's warps lie along M: 16 rows each, all pixels
#ifdef __CUDACC__
TF_PTX void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TF_PTX void barrier_wait(unsigned b, int parity) {
    asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN;}" ::"r"(b), "r"(parity) : "memory");
}
TF_PTX void barrier_expect(unsigned b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
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
// Boxes the other way: what lies outside the tensor is left out. A thread waits for those it asked for: until all but PENDING groups
// are read, and until all are stored.
TF_PTX void store_box(const TensorMap* map, unsigned from, int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(from) : "memory");
}
TF_PTX void boxes_sent() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int PENDING> TF_PTX void boxes_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory"); }
TF_PTX void boxes_stored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Four matrices of 8x8 16-bit values, transposed: lane 8k + c gives the place of column c of matrix k, and has of each the values of
// row lane / 4, columns 2(lane % 4) and one more.
TF_PTX void store_matrices(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
#else
TF_PTX void barrier_fence() {}
TF_PTX void barrier_expect(unsigned b, int) { barrier_arrive(b); }   // its copies follow before anybody else runs
TF_PTX void copy_bulk(unsigned to, const void* from, int bytes, unsigned) { copy_bytes(to, from, true, bytes); }
struct alignas(64) TensorMap { HostBoxes boxes; };
TF_PTX void copy_box(unsigned to, const TensorMap* map, int c0, int c1, int c2, int c3, int c4, unsigned) { copy_host_box(to, map->boxes, {c0, c1, c2, c3, c4}); }
TF_PTX void fence_proxy() {}
TF_PTX void store_box(const TensorMap* map, unsigned from, int c0, int c1, int c2, int c3, int c4) { store_host_box(map->boxes, from, {c0, c1, c2, c3, c4}); }
TF_PTX void boxes_sent() {}
template <int PENDING> TF_PTX void boxes_read() {}
TF_PTX void boxes_stored() {}
#endif
// Two neighbours in 16 bits each.
template <class S> TF_PTX unsigned pack_pair(float low, float high) {
    tf_vector<S, 2> both;
    tf_from(both.lane[0], low), tf_from(both.lane[1], high);
    return *(const unsigned*)&both;
}

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
    asm volatile("{.reg .pred p, q; setp.ne.u32 q, %1, 0; bar.red.and.pred p, %2, 128, q; selp.u32 %0, 1, 0, p;}" : "=r"(all) : "r"((unsigned)mine), "r"(barrier) : "memory");
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
)cuda"
