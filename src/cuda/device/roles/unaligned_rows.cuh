R"cuda(
// The load role where rows begin anywhere. Boxes begin on 16 bytes, so a row of the patch comes with what lies before it, up to
// LANES - 1 elements, and behind it. Rows of every LANES-th channel lie a multiple of 16 bytes apart, however long they are: those of
// a piece's vectors are one box, [vector][LINE], and a raw piece is [lane][row][vector][LINE]. What lies outside the image
// is somebody else's there; the warps that transpose take it for zero.
constexpr int TRANSPOSERS = LOADERS - 32;
constexpr int ROW_PIXELS = EXTENT_W * ADVANCE_W, ROWS_H = EXTENT_H * ADVANCE_H, ROWS_D = EXTENT_D * ADVANCE_D, PATCH_ROWS = RAW_PIXELS / ROW_PIXELS;
constexpr int LINE = (ROW_PIXELS + 2 * LANES - 2) / LANES * LANES, LINE_BYTES = (PIECE * LINE * (int)sizeof(ELEMENT) + 127) / 128 * 128;
constexpr int LINE_TURNS = (RAW_PIXELS + TRANSPOSERS - 1) / TRANSPOSERS;
static_assert(LINE_TURNS <= 16, "bits of a turn");
constexpr int LINE_ELEMENTS = LINE_BYTES / (int)sizeof(ELEMENT);

static __device__ __forceinline__ bool group_has(int channel) { return CIN % STAGE_CHANNELS == 0 || channel < CIN; }
static __device__ __forceinline__ int first_of_group(const Place& at) { return at.fixed / MGROUPS * CIN; }

// Neighbours in memory go to the sub-patches of their residues.
static __device__ __forceinline__ int in_patch(int raw) {
    if (ADVANCE_D * ADVANCE_H * ADVANCE_W == 1) return raw;
    const int w = raw % ROW_PIXELS, r = raw / ROW_PIXELS, h = r % ROWS_H, q = r / ROWS_H, d = q % ROWS_D, n = q / ROWS_D;
    const int sub = (d % ADVANCE_D * ADVANCE_H + h % ADVANCE_H) * ADVANCE_W + w % ADVANCE_W;
    return (((sub * EXTENT_N + n) * EXTENT_D + d / ADVANCE_D) * EXTENT_H + h / ADVANCE_H) * EXTENT_W + w / ADVANCE_W;
}

// Where the first row of the patch begins, in elements from its image's first of the vector's first channel.
static __device__ __forceinline__ int patch_begin(const Place& at, const Strides& xs) {
    return ADVANCE_D * (at.u[1] + FIRST_D) * (int)xs.d + ADVANCE_H * (at.u[2] + FIRST_H) * (int)xs.h + ADVANCE_W * (at.u[3] + FIRST_W);
}

// Of a thread's pixels, turn by turn: which lie inside the image, and how far from 16 bytes their rows begin.
struct Turns {
    unsigned inside = 0, begins = 0, later = 0;               // begins of eight turns, four bits each, and of the others
    __device__ __forceinline__ Turns(const Place& at, const Sizes& s, const Strides& xs, int t) {
        const int begin = patch_begin(at, xs);
#pragma unroll 1
        for (int turn = 0; turn < LINE_TURNS; turn++) {
            const int own = turn * TRANSPOSERS + t, p = min(own, RAW_PIXELS - 1), r = p / ROW_PIXELS;
            inside |= (own < RAW_PIXELS && pixel(in_patch(p), at, s).inside ? 1u : 0u) << turn;  // a prologue reads where this is set
            (turn < 8 ? begins : later) |= ((unsigned)(begin + r / ROWS_H % ROWS_D * (int)xs.d + r % ROWS_H * (int)xs.h) % LANES) << turn % 8 * 4;
        }
    }
};

// A pixel's channels as the operand's vectors: words are rounded, 16 bits as they are.
template <int CHANNELS> static __device__ __forceinline__ void put_pixel(unsigned char* stage, int p, const float (&v)[CHANNELS]) { put(stage, p, v); }
template <class S, int CHANNELS> static __device__ __forceinline__ void put_pixel(unsigned char* stage, int p, const S (&v)[CHANNELS]) {
#pragma unroll
    for (int k = 0; k < CHANNELS / 8; k++) {
        tf_vector<S, 8> vector;
#pragma unroll
        for (int l = 0; l < 8; l++) vector.lane[l] = v[k * 8 + l];
        *(tf_vector<S, 8>*)(stage + (k * PLANE + p) * 16) = vector;
    }
}

// A raw piece becomes operand vectors: all channels of a pixel together, or, where a prologue reads something for every channel, one
// vector after another. `apart`: how far from 16 bytes a channel begins behind the one before it.
static __device__ __forceinline__ void transpose(const unsigned char* raw, unsigned char* stage, int channels, int piece, const Place& at, const unsigned char* shared, const Sizes& s, const Operands& operands, const Turns& turns, int apart, int t) {
    constexpr int CHANNELS = PROLOGUE ? LANES : PIECE * LANES;
    constexpr int AT_ONCE = CHANNELS >= HELD_VALUES ? 1 : (PROLOGUE ? HELD_VALUES / 2 : HELD_VALUES) / CHANNELS;
    const ELEMENT* in = (const ELEMENT*)raw;
    // Else every turn's places would be kept from piece to piece, in registers that are not there.
    const unsigned begins = unhoisted(turns.begins), later = unhoisted(turns.later), within = unhoisted(turns.inside);
    t = unhoisted(t);
    stage += piece * PIECE * PLANE * 16;
#pragma unroll 1
    for (int first = piece * PIECE * LANES; first < (piece + 1) * PIECE * LANES; first += CHANNELS, in += CHANNELS / LANES * LINE, stage += CHANNELS / LANES * PLANE * 16) {
        OfChannel of[PROLOGUE ? CHANNELS : 1];
        if (PROLOGUE) {
#pragma unroll
            for (int j = 0; j < CHANNELS; j++) of[j] = of_channel(group_has(channels + first + j) ? first_of_group(at) + channels + first + j : first_of_group(at) + channels, at.u[0], shared, operands);
        }
#pragma unroll
        for (int turn = 0; turn < LINE_TURNS; turn += AT_ONCE) {
            ELEMENT v[AT_ONCE][CHANNELS];                     // all reads of a batch before its writes: one latency, not one a pixel
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < LINE_TURNS; f++) {
                const int p = min((turn + f) * TRANSPOSERS + t, RAW_PIXELS - 1);
                const ELEMENT* line = in + p / ROW_PIXELS * LINE_ELEMENTS + p % ROW_PIXELS;
                const unsigned begin = (turn + f < 8 ? begins : later) >> (turn + f) % 8 * 4;
#pragma unroll
                for (int j = 0; j < CHANNELS; j++)
                    v[f][j] = line[j % LANES * (PATCH_ROWS * LINE_ELEMENTS) + j / LANES * LINE + (begin + j % LANES * apart) % LANES];
            }
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < LINE_TURNS; f++) {
                const int p = (turn + f) * TRANSPOSERS + t, to = in_patch(p);
                const bool inside = within >> (turn + f) & 1;
                Pixel here = {};
                if (PROLOGUE_PLACED) here = pixel(to, at, s);
#pragma unroll
                for (int j = 0; j < CHANNELS; j++) {
                    const bool there = inside && group_has(channels + first + j);
                    if (PROLOGUE) tf_store(&v[f][j], there ? prologue(tf_load<float>(&v[f][j]), of[j], first_of_group(at) + channels + first + j, here, shared, operands) : 0.f);
                    else v[f][j] = there ? v[f][j] : ELEMENT();
                }
                if (p < RAW_PIXELS) put_pixel(stage, to, v[f]);
            }
        }
    }
}

// Asks for lines and weights as far ahead as there is room: one thread, which does nothing else.
static __device__ __forceinline__ void ask(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const Sizes& s, const Strides& xs, const TensorMap* lines) {
    Pump pump(packed, s, 0);
    // Weights that stay: all of this CTA's channels, once.
    if (RESIDENT && (int)blockIdx.x < s.total) {
        barrier_expect(shared_address(&b.weights_full[0]), KSTEPS * OPERAND_TILES * TILE_BYTES);
        copy_bulk(shared_address(shared + WEIGHTS_AT), packed + (long long)place_of(blockIdx.x, s).fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES), KSTEPS * OPERAND_TILES * TILE_BYTES, shared_address(&b.weights_full[0]));
    }
    // Pieces in their order: tile, stage of channels, piece of it.
    Place at = place_of(blockIdx.x, s);
    for (int tile = blockIdx.x, piece = 0, slot = 0, turn = 0; tile < s.total || (!RESIDENT && pump.tile < s.total);) {
        if (!RESIDENT) pump.ahead(b, shared, packed, s);
        if ((!RESIDENT && tile >= s.total) || (turn > 0 && !barrier_done(shared_address(&b.raw_empty[slot]), (turn - 1) & 1))) continue;
        const unsigned bar = shared_address(&b.raw_full[slot]);
        unsigned to = shared_address(shared + RAW_AT + slot * RAW_BYTES);
        int begin = patch_begin(at, xs);
#pragma unroll 1
        for (int lane = 0; lane < LANES; lane++, begin += (int)xs.c) {
            if (!RESIDENT && lane) pump.ahead(b, shared, packed, s);
            barrier_expect(bar, PATCH_ROWS * PIECE * LINE * (int)sizeof(ELEMENT));
#pragma unroll 1
            for (int plane = 0; plane < EXTENT_N * ROWS_D; plane++) {
                int row = begin + plane % ROWS_D * (int)xs.d;
#pragma unroll 1
                for (int h = 0; h < ROWS_H; h++, row += (int)xs.h, to += LINE_BYTES)
                    copy_box(to, lines, row & -LANES, first_of_group(at) / LANES + piece * PIECE, at.u[0] + plane / ROWS_D, 0, 0, bar);
            }
        }
        if (++slot == RAW) { slot = 0; turn++; }
        if (++piece == KSTAGES * PIECES) { piece = 0; tile = next_tile(tile); at = place_of(tile, s); }
    }
}
)cuda"
