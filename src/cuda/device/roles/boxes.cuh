R"cuda(
// The load role where memory is met in boxes: a warp asks for them, the copy engine brings them, zeros outside the image, and
// the other warps transpose them.
constexpr int TRANSPOSERS = LOADERS - 32;

// Words of a raw box: one pixel or two.
constexpr int WORD = /*{word*/sizeof(ELEMENT) == 2 ? 2 : 1/*}*/, WORDS = RAW_PIXELS / WORD;
constexpr int WORD_TURNS = (WORDS + TRANSPOSERS - 1) / TRANSPOSERS;
constexpr int ADVANCE = ADVANCE_D * ADVANCE_H * ADVANCE_W;
// Where a pixel of a raw box goes in the patch. Rows that lie one after another in memory come as one (FLAT): the columns between
// them in the patch are zeros that nobody writes.
static __device__ __forceinline__ int in_patch(int raw) {
    if (ADVANCE == 1) return FLAT ? raw / IN_W * EXTENT_W + raw % IN_W - FIRST_W : raw;
    // Neighbours in memory go to the sub-patches of their residues.
    const int w = raw % (EXTENT_W * ADVANCE_W), r = raw / (EXTENT_W * ADVANCE_W), h = r % (EXTENT_H * ADVANCE_H), q = r / (EXTENT_H * ADVANCE_H);
    const int d = q % (EXTENT_D * ADVANCE_D), n = q / (EXTENT_D * ADVANCE_D);
    const int sub = (d % ADVANCE_D * ADVANCE_H + h % ADVANCE_H) * ADVANCE_W + w % ADVANCE_W;
    return (((sub * EXTENT_N + n) * EXTENT_D + d / ADVANCE_D) * EXTENT_H + h / ADVANCE_H) * EXTENT_W + w / ADVANCE_W;
}

// Which of a thread's words lie inside the image; boxes begin on 16 bytes, so the two pixels of a word lie on the same side.
static __device__ __forceinline__ unsigned words_inside(const Place& at, const Sizes& s, int t) {
    unsigned inside = 0;
#pragma unroll
    for (int turn = 0; turn < WORD_TURNS && turn < 32; turn++) {
        const int p = turn * TRANSPOSERS + t;
        inside |= (p < WORDS && pixel(in_patch(WORD * p), at, s).inside ? 1u : 0u) << turn;
    }
    return inside;
}

// Channels are those of the tile's group: which it has, and where they begin.
static __device__ __forceinline__ bool group_has(int channel) { return CIN % STAGE_CHANNELS == 0 || channel < CIN; }
static __device__ __forceinline__ int first_of_group(const Place& at) { return at.fixed / MGROUPS * CIN; }

/*{transpose*/// A raw box, [channel][pixel] of PIECE vectors, becomes operand vectors: all channels of a pixel together, or, where a prologue
// reads something for every channel, one vector after another, so that it is read once for all pixels.
static __device__ __forceinline__ void transpose(const unsigned char* raw, unsigned char* stage, int channels, int piece, const Place& at, const unsigned char* shared, const Sizes& s, const Operands& operands, unsigned words, int t) {
    constexpr int CHANNELS = PROLOGUE ? LANES : PIECE * LANES, TURNS = WORD_TURNS;
    constexpr int AT_ONCE = CHANNELS >= HELD_VALUES ? 1 : (PROLOGUE ? HELD_VALUES / 2 : HELD_VALUES) / CHANNELS;
    const unsigned* in = (const unsigned*)raw;
    stage += piece * PIECE * PLANE * 16;
#pragma unroll 1
    for (int first = piece * PIECE * LANES; first < (piece + 1) * PIECE * LANES; first += CHANNELS, in += CHANNELS * WORDS, stage += CHANNELS / LANES * PLANE * 16) {
        OfChannel of[PROLOGUE ? CHANNELS : 1];
        if (PROLOGUE)
#pragma unroll
            for (int j = 0; j < CHANNELS; j++) of[j] = of_channel(group_has(channels + first + j) ? first_of_group(at) + channels + first + j : first_of_group(at) + channels, at.u[0], shared, operands);
#pragma unroll
        for (int turn = 0; turn < TURNS; turn += AT_ONCE) {
            unsigned word[AT_ONCE][CHANNELS];                 // all reads of a batch before its writes: one latency, not one a pixel
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) {
                const int p = min((turn + f) * TRANSPOSERS + t, WORDS - 1);
#pragma unroll
                for (int j = 0; j < CHANNELS; j++) word[f][j] = group_has(channels + first + j) ? in[j * WORDS + p] : 0u;
            }
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) {
                const int p = (turn + f) * TRANSPOSERS + t, to = in_patch(WORD * p), beside = in_patch(WORD * p + WORD - 1);
                if (PROLOGUE) {
                    Pixel left = {}, right = {};
                    if (PROLOGUE_PLACED || TURNS > 32) left = pixel(to, at, s), right = pixel(beside, at, s);
                    else left.inside = right.inside = words >> (turn + f) & 1;
#pragma unroll
                    for (int j = 0; j < CHANNELS; j++) {
                        const bool inside = group_has(channels + first + j);
                        const int channel = first_of_group(at) + channels + first + j;
                        if (WORD == 2) word[f][j] = prologue_pair(word[f][j], of[j], channel, left, right, inside, shared, operands);
                        else word[f][j] = left.inside && inside ? __float_as_uint(prologue(__uint_as_float(word[f][j]), of[j], channel, left, shared, operands)) : 0u;
                    }
                }
                if (p >= WORDS) continue;
                if constexpr (WORD == 2) {
                    put_pairs(stage, to, beside, word[f]);
                } else {
                    float v[CHANNELS];
#pragma unroll
                    for (int j = 0; j < CHANNELS; j++) v[j] = __uint_as_float(word[f][j]);
                    put(stage, to, v);
                }
            }
        }
    }
}
/*}*/
// Asks for boxes and weights as far ahead as there is room: one thread, which does nothing else.
static __device__ __forceinline__ void ask(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const Sizes& s, const TensorMap* boxes) {
    constexpr bool OPERAND = LOAD == LOAD_OPERAND;            // vectors of channels in memory are the operand's: boxes go straight there
    constexpr int RING = OPERAND ? STAGES : RAW, BOXES = OPERAND ? KSTAGES : KSTAGES * PIECES;
    if (RESIDENT && (int)blockIdx.x < s.total) {              // weights that stay: all of this CTA's channels, once
        barrier_expect(shared_address(&b.weights_full[0]), KSTEPS * OPERAND_TILES * TILE_BYTES);
        copy_bulk(shared_address(shared + WEIGHTS_AT), packed + (long long)place_of(blockIdx.x, s).fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES), KSTEPS * OPERAND_TILES * TILE_BYTES, shared_address(&b.weights_full[0]));
    }
    // Boxes in their order: tile, stage of channels, piece of it. Streamed weights in theirs: tile, K step, slab of operand tiles.
    Place at = place_of(blockIdx.x, s), w_at = at;
    int w_tile = blockIdx.x, step = 0/*{slabs*/, slab = 0, w_slot = 0, w_turn = 0/*}*/;
    for (int tile = blockIdx.x, box = 0, slot = 0, turn = 0; tile < s.total || (!RESIDENT && w_tile < s.total);) {
        if (!RESIDENT) while (w_tile < s.total) {
            /*{slab*/if (slab_meets(slab, w_at, s)) {
                if (w_turn > 0 && !barrier_done(shared_address(&b.weights_empty[w_slot]), (w_turn - 1) & 1)) break;
                const int first = slab_first(w_at.variant, slab), bytes = (slab_first(w_at.variant, slab + 1) - first) * TILE_BYTES;
                copy_weights(shared_address(shared + WEIGHTS_AT + w_slot * SLAB_BYTES), packed + (((long long)w_at.fixed * KSTEPS + step) * OPERAND_TILES + first) * TILE_BYTES, bytes, shared_address(&b.weights_full[w_slot]), 0);
                if (++w_slot == SLABS) { w_slot = 0; w_turn++; }
            }
            if (++slab == slab_count(w_at.variant)) { slab = 0; step++; }/*}*/
            if (/*{step*/step/*}*/ == KSTEPS) { step = 0; w_tile = next_tile(w_tile); w_at = place_of(w_tile, s); }
        }
        if ((!RESIDENT && tile >= s.total) || (turn > 0 && !barrier_done(shared_address(OPERAND ? &b.empty[slot] : &b.raw_empty[slot]), (turn - 1) & 1))) continue;
        const unsigned bar = shared_address(OPERAND ? &b.full[slot] : &b.raw_full[slot]);
        const int w = ADVANCE_W * (at.u[3] + FIRST_W), h = ADVANCE_H * (at.u[2] + FIRST_H), d = ADVANCE_D * (at.u[1] + FIRST_D), n = at.u[0];
        if (OPERAND) {
            const unsigned to = shared_address(shared + STAGES_AT + slot * STAGE_BYTES);
            barrier_expect(bar, VECTORS * PIXELS * 16);
            for (int v = 0; v < VECTORS; v++)                 // beyond the group's channels: beyond the tensor, where zeros are
                copy_box(to + v * PLANE * 16, boxes, group_has(/*{box*/box/*}*/ * STAGE_CHANNELS + v * LANES) ? first_of_group(at) + /*{box*/box/*}*/ * STAGE_CHANNELS + v * LANES : GROUPS * CIN, w, h, d, n, bar);
        } else {
            barrier_expect(bar, PIECE * LANES * RAW_PIXELS * (int)sizeof(ELEMENT));
            /*{bring*/copy_box/*}*/(shared_address(shared + RAW_AT + slot * RAW_BYTES), boxes, FLAT ? h * IN_W : w, FLAT ? 0 : h, d, n, first_of_group(at) + /*{box*/box/*}*/ * (PIECE * LANES), bar);
        }
        if (++slot == RING) { slot = 0; turn++; }
        if (++box == BOXES) { box = 0; tile = next_tile(tile); at = place_of(tile, s); }
    }
}
)cuda"
