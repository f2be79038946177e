R"cuda(
// Tiles of CTAs that share weights. Both go through the same channels and phases in the same order, one in the first half of all
// places, the other in the second; where places are odd, the second takes the weights of one more and makes nothing of them.
static __device__ __forceinline__ int all_places(const Sizes& s) { return s.tiles[0] * s.tiles[1] * s.tiles[2] * s.tiles[3]; }
static __device__ __forceinline__ int first_half(const Sizes& s) { return (all_places(s) + 1) / 2; }
static __device__ __forceinline__ int all_tiles(const Sizes& s) { return PARTS * all_places(s); }
static __device__ __forceinline__ int streamed_tiles(const Sizes& s) { return PARTS * first_half(s); }
static __device__ __forceinline__ int own_tiles(const Sizes& s) { return rank_in_pair() ? all_tiles(s) - streamed_tiles(s) : streamed_tiles(s); }
static __device__ __forceinline__ int tile_number(int tile, const Sizes& s) { return tile + rank_in_pair() * streamed_tiles(s); }   // among all
)cuda"
