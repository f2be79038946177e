R"cuda(
// PTX in one-line functions: the only place where instructions are spelled.
#define TF_PTX static __device__ __forceinline__

TF_PTX unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// mbarriers: a phase completes when all expected arrivals (and bytes) are in; waiting names the phase's parity.
TF_PTX void barrier_init(unsigned b, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(arrivals)); }
TF_PTX void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TF_PTX void barrier_wait(unsigned b, int parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(b), "r"(parity) : "memory");
}
TF_PTX bool barrier_done(unsigned b, int parity) {
    int done;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(b), "r"(parity) : "memory");
    return done;
}
TF_PTX void barrier_arrive(unsigned b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
TF_PTX void barrier_expect(unsigned b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
TF_PTX void barrier_named(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Copies: bulk (completes on an mbarrier), and cp.async of 4 or 16 bytes that writes zeros where `inside` is false.
TF_PTX void copy_bulk(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
TF_PTX void copy_4(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4 : 0) : "memory"); }
TF_PTX void copy_16(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory"); }
TF_PTX void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> TF_PTX void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
TF_PTX void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// wgmma. An operand's descriptor: start address, distance of the two K halves, distance of 8-row blocks; no swizzle.
TF_PTX unsigned long long descriptor(unsigned start, unsigned halves, unsigned blocks) {
    return (unsigned long long)((start & 0x3ffff) >> 4) | ((unsigned long long)(halves >> 4) << 16) | ((unsigned long long)(blocks >> 4) << 32);
}
TF_PTX void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TF_PTX void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> TF_PTX void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }
template <int COUNT> TF_PTX void registers_give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> TF_PTX void registers_take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

TF_PTX unsigned round_tf32(float v) { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v)); return r; }
)cuda"
