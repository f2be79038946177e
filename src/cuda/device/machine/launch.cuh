R"cuda(
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TF_SEQUENCE() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#define TF_BESIDE() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define TF_AFTER() asm volatile("griddepcontrol.wait;" ::: "memory")
#define TF_CLUSTER_BARRIER() asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory")
#elif defined(__CUDACC_RTC__)
#define TF_SEQUENCE()
#define TF_BESIDE()
#define TF_AFTER()
#define TF_CLUSTER_BARRIER() __syncthreads()
#else
#define TF_SEQUENCE()
#define TF_BESIDE()
#define TF_AFTER()
#define TF_CLUSTER_BARRIER() tf_host_grid_barrier()
#endif
)cuda"
