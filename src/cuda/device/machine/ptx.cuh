R"cuda(
// PTX in one-line functions: instructions are spelled here, in hopper.cuh and in portable.cuh, and nowhere else. Here: what
// every architecture since sm_80 has. (Without a CUDA compiler the tests' host machine has functions of the same names.)
#define TF_PTX static __device__ __forceinline__
#ifdef __CUDACC__
TF_PTX unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
TF_PTX void shared_put(unsigned to, unsigned word) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory"); }

// mbarriers: a phase completes when all expected arrivals (and bytes) are in; waiting names the phase's parity.
TF_PTX void barrier_init(unsigned b, int arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(arrivals)); }
TF_PTX bool barrier_done(unsigned b, int parity) {
    int done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}" : "=r"(done) : "r"(b), "r"(parity) : "memory");
    return done;
}
TF_PTX void barrier_arrive(unsigned b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(b) : "memory"); }
TF_PTX void barrier_named(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// cp.async of 4, 8 or 16 bytes that writes zeros where `inside` is false; copy_arrive: when the thread's copies have landed.
TF_PTX void copy_4(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4 : 0) : "memory"); }
TF_PTX void copy_8(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(inside ? 8 : 0) : "memory"); }
TF_PTX void copy_16(unsigned to, const void* from, bool inside) { asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory"); }
TF_PTX void copy_arrive(unsigned b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(b) : "memory"); }
TF_PTX void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> TF_PTX void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

TF_PTX unsigned round_tf32(float v) { unsigned r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v)); return r; }
#endif

// An operand in shared memory: start address, distance of the two K halves, distance of 8-row blocks; no swizzle.
TF_PTX unsigned long long descriptor(unsigned start, unsigned halves, unsigned blocks) {
    return (unsigned long long)((start & 0x3ffff) >> 4) | ((unsigned long long)(halves >> 4) << 16) | ((unsigned long long)(blocks >> 4) << 32);
}
)cuda"
