R"cuda(
// The load role where memory is met in boxes: a warp asks for them, the copy engine brings them, zeros outside the image, and
// the other warps transpose them.
constexpr int TRANSPOSERS = LOADERS - 32;

// Pixels of a raw box and where they go in the patch. Rows that lie one after another in memory come as one (FLAT): the columns
// between them in the patch are zeros that nobody writes.
constexpr int WORD = sizeof(ELEMENT) == 2 ? 2 : 1, WORDS = RAW_PIXELS / WORD;   // a word: one pixel or two
constexpr int WORD_TURNS = (WORDS + TRANSPOSERS - 1) / TRANSPOSERS;
constexpr int ADVANCE = ADVANCE_D * ADVANCE_H * ADVANCE_W;
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

// A raw box, [channel][pixel] of PIECE vectors, becomes operand vectors: all channels of a pixel together, or, where a prologue
// reads something for every channel, one vector after another, so that it is read once for all pixels.
static __device__ __forceinline__ void transpose(const Cursor& c, const unsigned char* shared, unsigned char* stage, const Sizes& s, const Operands& operands, unsigned words, int t) {
    constexpr int CHANNELS = PROLOGUE ? LANES : PIECE * LANES, TURNS = WORD_TURNS;
    constexpr int AT_ONCE = CHANNELS >= HELD_VALUES ? 1 : (PROLOGUE ? HELD_VALUES / 2 : HELD_VALUES) / CHANNELS;
    const unsigned* in = (const unsigned*)(shared + RAW_AT + c.slot * RAW_BYTES);
    stage += c.piece * PIECE * PLANE * 16;
#pragma unroll 1
    for (int first = c.piece * PIECE * LANES; first < (c.piece + 1) * PIECE * LANES; first += CHANNELS, in += CHANNELS * WORDS, stage += CHANNELS / LANES * PLANE * 16) {
        OfChannel of[PROLOGUE ? CHANNELS : 1];
        if (PROLOGUE)
#pragma unroll
            for (int j = 0; j < CHANNELS; j++) of[j] = of_channel(channel_inside(c, first + j) ? c.channel() + first + j : c.channel(), c.at.u[0], shared, operands);
#pragma unroll
        for (int turn = 0; turn < TURNS; turn += AT_ONCE) {
            unsigned word[AT_ONCE][CHANNELS];                 // all reads of a batch before its writes: one latency, not one a pixel
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) {
                const int p = min((turn + f) * TRANSPOSERS + t, WORDS - 1);
#pragma unroll
                for (int j = 0; j < CHANNELS; j++) word[f][j] = channel_inside(c, first + j) ? in[j * WORDS + p] : 0u;
            }
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) {
                const int p = (turn + f) * TRANSPOSERS + t, to = in_patch(WORD * p), beside = in_patch(WORD * p + WORD - 1);
                if (PROLOGUE) {
                    Pixel left = {}, right = {};
                    if (PROLOGUE_PLACED || TURNS > 32) left = pixel(to, c.at, s), right = pixel(beside, c.at, s);
                    else left.inside = right.inside = words >> (turn + f) & 1;
#pragma unroll
                    for (int j = 0; j < CHANNELS; j++) {
                        const bool inside = channel_inside(c, first + j);
                        const int channel = c.channel() + first + j;
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

// Asks for boxes and weights as far ahead as there is room: one thread, which does nothing else.
static __device__ __forceinline__ void ask(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const Sizes& s, const Strides& xs, const TensorMap* boxes) {
    constexpr bool OPERAND = LOAD == LOAD_OPERAND;            // vectors of channels in memory are the operand's: boxes go straight there
    constexpr int RING = OPERAND ? STAGES : RAW;
    Pump pump(packed, s, 0);
    if (RESIDENT && (int)blockIdx.x < s.total)                // all weights of this CTA's channels, once
        copy_weights(shared_address(shared + WEIGHTS_AT), packed + (long long)place_of(blockIdx.x, s).fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES), KSTEPS * OPERAND_TILES * TILE_BYTES, shared_address(&b.weights_full[0]), 0);
    Cursor next(s, xs, 0, nullptr);
    for (int slot = 0, turn = 0; next.tile < s.total || (!RESIDENT && pump.tile < s.total);) {
        if (!RESIDENT) pump.ahead(b, shared, packed, s);
        if (next.tile >= s.total) continue;
        if (turn > 0 && !barrier_done(shared_address(OPERAND ? &b.empty[slot] : &b.raw_empty[slot]), (turn - 1) & 1)) continue;
        const unsigned bar = shared_address(OPERAND ? &b.full[slot] : &b.raw_full[slot]);
        const int w = ADVANCE_W * (next.at.u[3] + FIRST_W), h = ADVANCE_H * (next.at.u[2] + FIRST_H), d = ADVANCE_D * (next.at.u[1] + FIRST_D), n = next.at.u[0];
        if (OPERAND) {
            const unsigned to = shared_address(shared + STAGES_AT + slot * STAGE_BYTES);
            barrier_expect(bar, VECTORS * PIXELS * 16);
            for (int v = 0; v < VECTORS; v++)                 // beyond the group's channels: beyond the tensor, where zeros are
                copy_box(to + v * PLANE * 16, boxes, channel_inside(next, v * LANES) ? next.channel() + v * LANES : GROUPS * CIN, w, h, d, n, bar);
            next.piece = PIECES - 1;
        } else {
            barrier_expect(bar, PIECE * LANES * RAW_PIXELS * (int)sizeof(ELEMENT));
            copy_box(shared_address(shared + RAW_AT + slot * RAW_BYTES), boxes, FLAT ? h * IN_W : w, FLAT ? 0 : h, d, n, next.channel() + next.piece * (PIECE * LANES), bar);
        }
        if (++slot == RING) { slot = 0; turn++; }
        next.next(s, xs, 0);
    }
}

static __device__ void load_boxes(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const Sizes& s, const Strides& xs, const TensorMap* boxes, const Operands& operands, int t) {
    if (t >= TRANSPOSERS) {
        if (t == TRANSPOSERS) ask(shared, b, packed, s, xs, boxes);
        return;
    }
    if (LOAD == LOAD_OPERAND) return;
    int stage = 0, turn = 0, taken = 0;                       // taken: rounds of the ring of raw boxes
    unsigned words = 0;
    for (Cursor now(s, xs, t, nullptr); now.tile < s.total; now.next(s, xs, t)) {
        if (PROLOGUE && now.stage == 0 && now.piece == 0) words = words_inside(now.at, s, t);
        if (now.piece == 0 && turn > 0) barrier_wait(shared_address(&b.empty[stage]), (turn - 1) & 1);
        barrier_wait(shared_address(&b.raw_full[now.slot]), taken & 1);
        transpose(now, shared, shared + STAGES_AT + stage * STAGE_BYTES, s, operands, words, t);
        barrier_arrive(shared_address(&b.raw_empty[now.slot]));
        if (now.piece == PIECES - 1) {
            fence_proxy();
            barrier_arrive(shared_address(&b.full[stage]));
            if (++stage == STAGES) { stage = 0; turn++; }
        }
        if (now.slot == RAW - 1) taken++;
    }
}

)cuda"
