R"cuda(
// Planes on their way to shared memory. TF_FLOATS: what a block has there.
#ifdef __CUDACC_RTC__
extern __shared__ __align__(16) float tf_tiles[];
TF_FUNCTION void tf_copy(float* to, const float* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
TF_FUNCTION void tf_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> TF_FUNCTION void tf_copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
#else
TF_FUNCTION void tf_copy(float* to, const float* from) { *to = *from; }
TF_FUNCTION void tf_copy_commit() {}
template <int PENDING> TF_FUNCTION void tf_copy_wait() {}
alignas(16) static float tf_tiles[TF_FLOATS];
#endif
)cuda"
