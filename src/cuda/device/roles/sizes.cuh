R"cuda(
// The load and product roles of a dense kernel. The constants (all capitals) are generated before this text.

struct Sizes { int in[4], out[4], tiles[4], total; };        // axes n, d, h, w; total = tiles of all parts
struct Strides { long long n, c, d, h, w; };                  // elements
static __device__ __forceinline__ long long offset_of(const Strides& s, int n, int c, int d, int h, int w) { return n * s.n + c * s.c + d * s.d + h * s.h + w * s.w; }
struct Barriers {
    unsigned long long full[STAGES], empty[STAGES];           // patches: load -> product
    unsigned long long raw_full[RAW], raw_empty[RAW];         // boxes of the raw patch: memory -> load
    unsigned long long weights_full[SLABS], weights_empty[SLABS];
    unsigned long long chunk_full[BUFFERS], chunk_empty[BUFFERS];  // accumulators: product -> store
};
constexpr int BUFFERS_0 = JOINT ? BUFFERS : (BUFFERS + 1) / 2;     // of the first warpgroup

)cuda"
