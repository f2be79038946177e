/* The C face: what other languages need to define programs and to read what the compiler thinks of them.
 *
 * Strings that are returned belong to the caller (transfuse_free). On failure a function returns NULL or a negative number
 * and, where `error` is not NULL, sets *error to a sentence that is also the caller's. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The handle (>= 0) of the program with this text; see program.h. Who holds it releases it as often. */
int64_t transfuse_define(const char* text, char** error);
int64_t transfuse_hold(const char* text, uint64_t salt, char** error);
void transfuse_release(int64_t handle);
/* What was prepared of frozen parameters is prepared anew: they have changed. */
void transfuse_forget_frozen(int64_t handle, char** error);
// Program::products(), whose number the operators' mode then has: numbers in words, one for each leaf.
int64_t transfuse_products(int64_t handle, const char* of_leaves, char** error);
/* The derivation and the plan, readable. machine: "cpu" or "cuda". */
char* transfuse_explain(const char* text, const char* machine, char** error);
/* The same as JSON: steps, graphs, passes, flops and bytes. */
char* transfuse_summary(const char* text, const char* machine, char** error);
/* "f32[2,3]\n…": the types of the outputs. */
char* transfuse_infer(const char* text, char** error);
/* "last\ncontiguous\n…": how a program lays its outputs out. leaves: of each its type, rank, extents and strides ("f32 2 4 3 3 1"),
 * one a line; sizes: those that the call tells, in order. */
char* transfuse_layouts(int64_t handle, const char* leaves, const char* sizes, char** error);
/* "f32[2,3] [3,1]\n…": types and strides of what a training call on such a machine gives behind its outputs; keep: numbers, as
 * read_keep (program.h) takes them. */
char* transfuse_kept(int64_t handle, const char* leaves, const char* sizes, const char* machine, const char* keep, char** error);
/* Statistics of a program, its largest workspace and, for each signature it met, what its executable says of itself; JSON. */
char* transfuse_describe(int64_t handle, char** error);
/* For `emit`, JSON: the kernels that `optimize` takes for leaves and sizes like these (as for transfuse_layouts), with every
 * argument of their launches. options: words from tf32, products=1 (transfuse_products), inference, arch=80, keep=1,0,1,2 (numbers, as
 * read_keep takes them), gradient=0,1:0,2 (outputs : leaves). Needs no GPU. */
char* transfuse_stated(int64_t handle, const char* leaves, const char* sizes, const char* options, char** error);
/* The PTX that the run-time compiler makes of device code; options as it takes them, one a line. *error: what it says
 * against the text. */
char* transfuse_ptx(const char* text, const char* options, char** error);
/* NULL if CUDA can be used, else why not; the same for the run-time compiler, which needs no GPU. */
char* transfuse_cuda_unavailable(void);
char* transfuse_nvrtc_unavailable(void);
void transfuse_free(char* text);

#ifdef __cplusplus
}
#endif
