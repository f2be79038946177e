R"cuda(
// What comes in boxes is read as results are laid down (hopper.cuh): a word; four matrices, transposed.
#ifdef __CUDACC__
TF_PTX unsigned shared_word(unsigned from) { unsigned word; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from)); return word; }
TF_PTX void load_transposed(unsigned (&m)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(from));
}
#endif
)cuda"
