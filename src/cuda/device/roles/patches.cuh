R"cuda(
// A position in the sequence tile -> stage of channels -> piece of the patch.
struct Cursor {
    int tile, stage, piece, slot;
    Place at;
    OFFSET offset[COPY_TURNS];
    bool inside[COPY_TURNS];
    OFFSET* places;                                           // of the thread: [piece][turn], LOADERS apart; −1 outside; null: not needed
    __device__ __forceinline__ void settle(const Sizes& s, const Strides& xs, int t) {
        if (tile >= s.total) return;
        at = place_of(tile, s);
        if (TABLED && places)
            for (int i = 0; i < PIECES * COPY_TURNS; i++) {
                const int copy = i % COPY_TURNS * LOADERS + (COPIES < LOADERS ? t % COPIES : t);
                const Pixel p = pixel((i / COPY_TURNS * COPIES + copy) * WIDE, at, s);
                places[i * LOADERS] = p.inside ? pixel_offset(p, xs) : (OFFSET)-1;
            }
        if (SETTLED)
#pragma unroll
            for (int i = 0; i < COPY_TURNS; i++) {
                const Pixel p = pixel((i * LOADERS + (COPIES < LOADERS ? t % COPIES : t)) * WIDE, at, s);
                inside[i] = p.inside;
                offset[i] = p.inside ? pixel_offset(p, xs) : 0;
            }
    }
    __device__ __forceinline__ Cursor(const Sizes& s, const Strides& xs, int t, OFFSET* table) : tile(blockIdx.x), stage(0), piece(0), slot(0), places(table) { settle(s, xs, t); }
    __device__ __forceinline__ void next(const Sizes& s, const Strides& xs, int t) {
        if (++slot == RAW) slot = 0;
        if (PIECES > 1 && ++piece < PIECES) return;
        piece = 0;
        if (++stage < KSTAGES) return;
        stage = 0;
        tile = next_tile(tile);
        settle(s, xs, t);
    }
    __device__ __forceinline__ int channel() const { return at.fixed / MGROUPS * CIN + stage * STAGE_CHANNELS; }
};
static __device__ __forceinline__ bool channel_inside(const Cursor& c, int j) { return CIN % STAGE_CHANNELS == 0 || c.stage * STAGE_CHANNELS + j < CIN; }

static __device__ __forceinline__ void copy_element(unsigned to, const ELEMENT* from, bool inside) {
    if (sizeof(ELEMENT) == 8) copy_8(to, from, inside);
    else copy_4(to, from, inside);
}

// Brings one piece of the raw patch, [channel][pixel], into shared memory: 4 bytes a copy into the thread's own slots for
// any alignment, or 16 bytes of a row at once (LOAD_ROWS: rows, first column and row length are multiples of 16 bytes, so
// that a copy lies inside the image or outside), which other threads will read.
static __device__ __forceinline__ void fetch(Cursor& c, unsigned raw, const ELEMENT* __restrict__ x, const Sizes& s, const Strides& xs, int t) {
    if (c.tile < s.total) {
        const ELEMENT* from = x + (long long)c.channel() * xs.c;
        const unsigned to = raw + c.slot * RAW_BYTES;
        if (LOAD == LOAD_ROWS) {
            const int first = COPIES < LOADERS ? t / COPIES : 0;
#pragma unroll
            for (int i = 0; i < COPY_TURNS; i++) {
                const int copy = i * LOADERS + (COPIES < LOADERS ? t % COPIES : t);
                if ((COPIES % LOADERS != 0 && LOADERS % COPIES != 0) && (copy >= COPIES || first >= TOGETHER)) continue;
                bool inside;
                OFFSET offset;
                if (SETTLED) {
                    inside = c.inside[i];
                    offset = c.offset[i];
                } else {
                    offset = c.places[(c.piece * COPY_TURNS + i) * LOADERS];
                    inside = offset >= 0;
                    if (!inside) offset = 0;
                }
                const ELEMENT* q = from + offset + first * xs.c;
                const unsigned d = to + (first * COPIES + copy) * 16;
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j += TOGETHER, q += TOGETHER * xs.c)
                    if (STAGE_CHANNELS % TOGETHER == 0 || j + first < STAGE_CHANNELS)
                        copy_16(d + j * COPIES * 16, channel_inside(c, j + first) ? q : x, inside && channel_inside(c, j + first));
            }
        } else
#pragma unroll (LOAD == LOAD_SINGLES ? 4 : PIECE)   // singles pass through registers: more of them would spill
        for (int i = 0; i < PIECE; i++) {
            const int p = (c.piece * PIECE + i) * LOADERS + t;
            if (LOAD == LOAD_PLANAR) {
                Pixel at = pixel(p, c.at, s);
                const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j++, q += xs.c)
                    copy_element(to + ((j * PIECE + i) * LOADERS + t) * (int)sizeof(ELEMENT), channel_inside(c, j) ? q : x, at.inside && channel_inside(c, j));
            } else if (LOAD == LOAD_VECTORS) {
                Pixel at = pixel(p, c.at, s);
                const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
#pragma unroll
                for (int v = 0; v < VECTORS; v++)
                    copy_16(to + ((i * VECTORS + v) * LOADERS + t) * 16, channel_inside(c, v * LANES) ? q + v * LANES : x, at.inside && channel_inside(c, v * LANES));
            } else {                                          // 16 bits: two pixels a word
                Pixel at = pixel(2 * p, c.at, s);
                if (LOAD == LOAD_PAIRS) {                     // rows are even and so is the first column: both inside or both outside
                    const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++, q += xs.c)
                        copy_4(to + ((j * PIECE + i) * LOADERS + t) * 4, channel_inside(c, j) ? q : x, at.inside && channel_inside(c, j));
                } else {
                    Pixel right = pixel(2 * p + 1, c.at, s);
                    const ELEMENT* q0 = from + (at.inside ? pixel_offset(at, xs) : 0);
                    const ELEMENT* q1 = from + (right.inside ? pixel_offset(right, xs) : 0);
                    unsigned word[STAGE_CHANNELS];
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++, q0 += xs.c, q1 += xs.c) {
                        word[j] = at.inside && channel_inside(c, j) ? (unsigned)*(const unsigned short*)q0 : 0u;
                        word[j] |= right.inside && channel_inside(c, j) ? (unsigned)*(const unsigned short*)q1 << 16 : 0u;
                    }
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++)
                        shared_put(to + ((j * PIECE + i) * LOADERS + t) * 4, word[j]);
                }
            }
        }
        c.next(s, xs, t);
    }
    copy_commit();
}

// Rounds a pixel's channels and writes them as the operand's vectors: [vector][pixel][16 bytes].
template <int CHANNELS> static __device__ __forceinline__ void put(unsigned char* stage, int p, const REAL (&v)[CHANNELS]) {
#pragma unroll
    for (int k = 0; k < CHANNELS / LANES; k++) {
        if (sizeof(REAL) == 8) {
            *(double2*)(stage + (k * PLANE + p) * 16) = make_double2(v[k * 2], v[k * 2 + 1]);
            continue;
        }
        if (TERMS > 1) {
            unsigned high[4], low[4];                         // low: what rounding leaves, v = high + low to 21 bits and more
#pragma unroll
            for (int j = 0; j < 4; j++) high[j] = round_tf32(v[k * 4 + j]), low[j] = round_tf32(v[k * 4 + j] - __uint_as_float(high[j]));
            *(uint4*)(stage + (k * PLANE + p) * 16) = make_uint4(high[0], high[1], high[2], high[3]);
            *(uint4*)(stage + ((VECTORS + k) * PLANE + p) * 16) = make_uint4(low[0], low[1], low[2], low[3]);
        } else {
            const uint4 high = make_uint4(round_tf32(v[k * 4]), round_tf32(v[k * 4 + 1]), round_tf32(v[k * 4 + 2]), round_tf32(v[k * 4 + 3]));
            *(uint4*)(stage + (k * PLANE + p) * 16) = high;
        }
    }
}

// The same for words of two 16-bit pixels, p and q of the patch.
template <int CHANNELS> static __device__ __forceinline__ void put_pairs(unsigned char* stage, int p, int q, const unsigned (&word)[CHANNELS]) {
#pragma unroll
    for (int k = 0; k < CHANNELS / 8; k++) {
        const unsigned* w = word + k * 8;
        uint4 left, right;
#pragma unroll
        for (int i = 0; i < 4; i++) (&left.x)[i] = __byte_perm(w[2 * i], w[2 * i + 1], 0x5410), (&right.x)[i] = __byte_perm(w[2 * i], w[2 * i + 1], 0x7632);
        *(uint4*)(stage + (k * PLANE + p) * 16) = left;
        *(uint4*)(stage + (k * PLANE + q) * 16) = right;
    }
}
// A number the compiler must take as new each time: addresses of a prologue's operands, two for each of a stage's channels, would
// otherwise be computed once, kept over all pixels, and push everything else out of the load role's registers.
static __device__ __forceinline__ int unhoisted(int number) {
    asm volatile("" : "+r"(number));
    return number;
}
static __device__ __forceinline__ unsigned prologue_pair(unsigned word, const OfChannel& of, int channel, const Pixel& left, const Pixel& right, bool inside, const unsigned char* shared, const Operands& operands) {
    unsigned a = word & 0xffff, b = word >> 16;
    const float fa = left.inside && inside ? prologue(tf_load<float>((const ELEMENT*)&a), of, channel, left, shared, operands) : 0.f;
    const float fb = right.inside && inside ? prologue(tf_load<float>((const ELEMENT*)&b), of, channel, right, shared, operands) : 0.f;
    tf_store((ELEMENT*)&a, fa);
    tf_store((ELEMENT*)&b, fb);
    return (a & 0xffff) | b << 16;
}

// Turns the thread's raw piece into operand vectors.
static __device__ __forceinline__ void transform(const Cursor& c, const unsigned char* shared, unsigned char* stage, const Sizes& s, const Operands& operands, int t) {
    const unsigned char* in = shared + RAW_AT + c.slot * RAW_BYTES;
    // All reads of a batch before its writes: one latency, not one a pixel.
    constexpr int HELD = STAGE_CHANNELS >= HELD_VALUES ? 1 : HELD_VALUES / STAGE_CHANNELS < PIECE ? HELD_VALUES / STAGE_CHANNELS : PIECE;
    REAL held[HELD][STAGE_CHANNELS];
#pragma unroll
    for (int i = 0; i < PIECE; i++) {
        const int p = (c.piece * PIECE + i) * LOADERS + t;
        if (sizeof(ELEMENT) >= 4) {
            if (i % HELD == 0) {
#pragma unroll
                for (int f = 0; f < HELD && i + f < PIECE; f++) {
                    if (LOAD != LOAD_VECTORS) {
#pragma unroll
                        for (int j = 0; j < STAGE_CHANNELS; j++) held[f][j] = ((const REAL*)in)[(j * PIECE + i + f) * LOADERS + t];
                    } else {
#pragma unroll
                        for (int k = 0; k < VECTORS; k++) {
                            const tf_vector<ELEMENT, LANES> vector = ((const tf_vector<ELEMENT, LANES>*)in)[((i + f) * VECTORS + k) * LOADERS + t];
#pragma unroll
                            for (int l = 0; l < LANES; l++) held[f][LANES * k + l] = tf_load<REAL>(vector.lane + l);
                        }
                    }
                }
            }
            REAL (&v)[STAGE_CHANNELS] = held[i % HELD];
            if (PROLOGUE) {
                Pixel at = pixel(p, c.at, s);
                const int first = unhoisted(c.channel());
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j++) v[j] = at.inside && channel_inside(c, j) ? prologue(v[j], of_channel(first + j, c.at.u[0], shared, operands), first + j, at, shared, operands) : 0.f;
            }
            if (p < PIXELS) put(stage, p, v);
        } else {
            if (i % HELD == 0) {
#pragma unroll
                for (int f = 0; f < HELD && i + f < PIECE; f++)
#pragma unroll
                    for (int j = 0; j < STAGE_CHANNELS; j++) held[f][j] = ((const float*)in)[(j * PIECE + i + f) * LOADERS + t];
            }
            unsigned word[STAGE_CHANNELS];
#pragma unroll
            for (int j = 0; j < STAGE_CHANNELS; j++) word[j] = __float_as_uint(held[i % HELD][j]);
            if (PROLOGUE) {
                Pixel left = pixel(2 * p, c.at, s), right = pixel(2 * p + 1, c.at, s);
                const int first = unhoisted(c.channel());
#pragma unroll
                for (int j = 0; j < STAGE_CHANNELS; j++) word[j] = prologue_pair(word[j], of_channel(channel_inside(c, j) ? first + j : first, c.at.u[0], shared, operands), first + j, left, right, channel_inside(c, j), shared, operands);
            }
            if (2 * p < PIXELS) put_pairs(stage, 2 * p, 2 * p + 1, word);
        }
    }
}
)cuda"
