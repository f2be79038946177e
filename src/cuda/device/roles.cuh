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

// Where a tile lies: output o = PERIOD·u + residue with u from `u` on; `fixed` = which group and block of output channels,
// `variant` = which phases.
struct Place { int fixed, variant, u[4]; };
static __device__ __forceinline__ Place place_of(int tile, const Sizes& s) {
    Place at;
    int part = tile % PARTS, rest = tile / PARTS;
    at.fixed = part % FIXED;
    at.variant = 0;
    if (VARIANTS > 1) {                                       // a CTA meets every variant in turn: they differ in work
        int turn = gridDim.x % PARTS == 0 ? tile / (int)gridDim.x : 0;
        at.variant = (part / FIXED + turn) % VARIANTS;
    }
    constexpr int TILE[4] = {TILE_N, TILE_D, TILE_H, TILE_W};
#pragma unroll
    for (int a = 3; a >= 0; a--) at.u[a] = (a > 0 ? rest % s.tiles[a] : rest) * TILE[a], rest /= s.tiles[a];
    return at;
}

// The CTA's next tile. Each round begins elsewhere, so that a CTA meets every place of the image: tiles at a border have less to do.
static __device__ __forceinline__ int next_tile(int tile) {
    const unsigned round = tile / gridDim.x + 1;
    return (int)(round * gridDim.x + (blockIdx.x + PARTS * (round * (round + 1) / 2) % gridDim.x) % gridDim.x);
}

// Whether any window of a slab of weights meets the image, for this tile; else slab and products are left out.
static __device__ __forceinline__ bool slab_meets(int slab, const Place& at, const Sizes& s) {
    if (!SKIPS) return true;
    const int* reach = slab_reach(at.variant, slab);             // first and last shift along d, along h
    return ADVANCE_D * (at.u[1] + reach[0]) < s.in[1] && at.u[1] + TILE_D - 1 + reach[1] >= 0 &&
           ADVANCE_H * (at.u[2] + reach[2]) < s.in[2] && at.u[2] + TILE_H - 1 + reach[3] >= 0;
}

// Pixel p of the patch as a place in the input. Input i = ADVANCE·(u + FIRST + position) + residue; each residue has a
// sub-patch of its own, so that every tap is a window of unit stride.
struct Pixel { int at[4]; bool inside; };
static __device__ __forceinline__ Pixel pixel(int p, const Place& at, const Sizes& s) {
    Pixel x;
    int w = p % EXTENT_W, r = p / EXTENT_W, h = r % EXTENT_H; r /= EXTENT_H;
    int d = r % EXTENT_D; r /= EXTENT_D;
    int n = r % EXTENT_N, sub = r / EXTENT_N;
    int sw = sub % ADVANCE_W, sh = sub / ADVANCE_W % ADVANCE_H, sd = sub / (ADVANCE_W * ADVANCE_H);
    x.at[0] = at.u[0] + n;
    x.at[1] = ADVANCE_D * (at.u[1] + FIRST_D + d) + sd;
    x.at[2] = ADVANCE_H * (at.u[2] + FIRST_H + h) + sh;
    x.at[3] = ADVANCE_W * (at.u[3] + FIRST_W + w) + sw;
    x.inside = p < PIXELS && (TILE_N == 1 || x.at[0] < s.in[0]) && (unsigned)x.at[1] < (unsigned)s.in[1] &&
               (unsigned)x.at[2] < (unsigned)s.in[2] && (unsigned)x.at[3] < (unsigned)s.in[3];
    return x;
}
static __device__ __forceinline__ OFFSET pixel_offset(const Pixel& p, const Strides& s) {
    return (OFFSET)p.at[0] * (OFFSET)s.n + (OFFSET)p.at[1] * (OFFSET)s.d + (OFFSET)p.at[2] * (OFFSET)s.h + (OFFSET)p.at[3] * (OFFSET)s.w;
}

// How the load threads copy rows: WIDE pixels a copy, COPIES of them a channel and piece, TOGETHER channels side by side.
constexpr int WIDE = 16 / (int)sizeof(ELEMENT), COPIES = PIECE * LOADERS * (sizeof(ELEMENT) == 2 ? 2 : 1) / WIDE;
constexpr int TOGETHER = COPIES < LOADERS ? LOADERS / COPIES : 1, COPY_TURNS = (COPIES + LOADERS - 1) / LOADERS;
constexpr bool SETTLED = LOAD == LOAD_ROWS && PIECES == 1;    // a thread's place in the patch is the same at every stage
constexpr bool TABLED = LOAD == LOAD_ROWS && PIECES > 1;      // its places, one for each piece, are kept in shared memory

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
        const uint4 left = make_uint4(__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410), __byte_perm(w[4], w[5], 0x5410), __byte_perm(w[6], w[7], 0x5410));
        const uint4 right = make_uint4(__byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632), __byte_perm(w[4], w[5], 0x7632), __byte_perm(w[6], w[7], 0x7632));
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

// Streamed weights: slab after slab of packed operand tiles, as far ahead as the ring has room. The FETCHERS among the load
// threads call this whenever they would wait. (Asked for by a product warp, each slab cost 700 cycles of its warpgroup; a warp of its own would
// cost every other warp of its quarter of the multiprocessor registers.)
struct Pump {
    const unsigned char* from;
    int tile, step, slab, slot, turn;
    Place at;
    int t;                                                    // which of the FETCHERS
    __device__ __forceinline__ void seek(const unsigned char* packed, const Sizes& s) {
        at = place_of(tile, s);
        from = packed + (long long)at.fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES);
        step = slab = 0;
    }
    __device__ __forceinline__ Pump(const unsigned char* packed, const Sizes& s, int thread) : tile(blockIdx.x), slot(0), turn(0), t(thread) { seek(packed, s); }
    __device__ __forceinline__ void ahead(Barriers& b, unsigned char* shared, const unsigned char* packed, const Sizes& s) {
        while (tile < s.total) {
            if (slab_meets(slab, at, s)) {
                if (turn > 0 && !barrier_done(shared_address(&b.weights_empty[slot]), (turn - 1) & 1)) return;
                const int first = slab_first(at.variant, slab), bytes = (slab_first(at.variant, slab + 1) - first) * TILE_BYTES;
                copy_weights(shared_address(shared + WEIGHTS_AT + slot * SLAB_BYTES), from + first * TILE_BYTES, bytes, shared_address(&b.weights_full[slot]), t);
                if (++slot == SLABS) { slot = 0; turn++; }
            }
            if (++slab == slab_count(at.variant)) {
                slab = 0;
                from += OPERAND_TILES * TILE_BYTES;
                if (++step == KSTEPS) { tile = next_tile(tile); seek(packed, s); }
            }
        }
    }
};

static __device__ void load_role(unsigned char* shared, Barriers& b, const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed, const Sizes& s, const Strides& xs, const Operands& operands, int t) {
    Pump pump(packed, s, t);
    const bool fetches = t < FETCHERS;
    auto refill = [&] { if (!RESIDENT && fetches) pump.ahead(b, shared, packed, s); };
    auto wait_empty = [&](unsigned bar, int parity) {
        if (!RESIDENT && fetches) while (!barrier_done(bar, parity)) refill(), rest();
        barrier_wait(bar, parity);
    };
    refill();
    if (RESIDENT && fetches && (int)blockIdx.x < s.total)     // all weights of this CTA's channels, once
        copy_weights(shared_address(shared + WEIGHTS_AT), packed + (long long)place_of(blockIdx.x, s).fixed * (KSTEPS * OPERAND_TILES * TILE_BYTES), KSTEPS * OPERAND_TILES * TILE_BYTES, shared_address(&b.weights_full[0]), t);
    int stage = 0, turn = 0;
    if (LOAD == LOAD_DIRECT) {                                // 16-bit channel vectors need no change: straight into the operand
        Cursor ahead(s, xs, t, nullptr), done(s, xs, t, nullptr);
        int late_stage = 0;
        for (int k = 0; ahead.tile < s.total || done.tile < s.total; k++) {
            refill();
            if (ahead.tile < s.total) {
                const unsigned bar = shared_address(&b.empty[stage]);
                if (turn > 0) wait_empty(bar, (turn - 1) & 1);
                const unsigned to = shared_address(shared + STAGES_AT + stage * STAGE_BYTES);
                const ELEMENT* from = x + (long long)ahead.channel() * xs.c;
                for (int i = 0; i < PIECE * PIECES; i++) {
                    const int p = i * LOADERS + t;
                    Pixel at = pixel(p, ahead.at, s);
                    const ELEMENT* q = from + (at.inside ? pixel_offset(at, xs) : 0);
                    if (p < PIXELS) {
#pragma unroll
                        for (int v = 0; v < VECTORS; v++)
                            copy_16(to + (v * PLANE + p) * 16, channel_inside(ahead, v * LANES) ? q + v * LANES : x, at.inside && channel_inside(ahead, v * LANES));
                    }
                }
                ahead.piece = PIECES - 1;
                ahead.next(s, xs, t);
                if (++stage == STAGES) { stage = 0; turn++; }
            }
            copy_commit();
            if (k >= STAGES - 2 && done.tile < s.total) {
                copy_wait<STAGES - 2>();
                fence_proxy();
                barrier_arrive(shared_address(&b.full[late_stage]));
                if (++late_stage == STAGES) late_stage = 0;
                done.piece = PIECES - 1;
                done.next(s, xs, t);
            }
        }
    } else {
        Cursor ahead(s, xs, t, (OFFSET*)(shared + PLACES_AT) + t), now(s, xs, t, nullptr);
        const unsigned raw = shared_address(shared + RAW_AT);
        for (int i = 0; i < RAW - 1; i++) fetch(ahead, raw, x, s, xs, t);
        while (now.tile < s.total) {
            refill();
            if (LOAD == LOAD_ROWS) {                          // what others copied is there, and all are done with the slot to refill
                copy_wait<RAW - 2>();
                barrier_named(1, LOADERS);
                fetch(ahead, raw, x, s, xs, t);
            } else {
                fetch(ahead, raw, x, s, xs, t);
                copy_wait<RAW - 1>();
            }
            if (now.piece == 0) {
                const unsigned bar = shared_address(&b.empty[stage]);
                if (turn > 0) wait_empty(bar, (turn - 1) & 1);
            }
            transform(now, shared, shared + STAGES_AT + stage * STAGE_BYTES, s, operands, t);
            if (now.piece == PIECES - 1) {
                fence_proxy();
                barrier_arrive(shared_address(&b.full[stage]));
                if (++stage == STAGES) { stage = 0; turn++; }
            }
            now.next(s, xs, t);
        }
    }
    copy_wait<0>();
    if (!RESIDENT && fetches)
        while (pump.tile < s.total) refill();
}

// What the products now under way still read: released one group of products later, so that the tensor cores never drain.
struct Held {
    int slab = -1, stage = -1, group = 0;
    __device__ __forceinline__ void release(Barriers& b) {
        if (slab >= 0) barrier_arrive(shared_address(&b.weights_empty[slab]));
        if (stage >= 0) barrier_arrive(shared_address(&b.empty[stage]));
        slab = stage = -1;
    }
    // Waits for what the next products read. They are instructions of a whole warpgroup: its warps must take the same way.
    __device__ __forceinline__ void wait(unsigned barrier, int parity, Barriers& b) {
        if (slab >= 0 || stage >= 0) {
            if (group_agrees(4 + group, barrier_done(barrier, parity))) return;
            products_wait<0>();
            release(b);
        }
        barrier_wait(barrier, parity);
    }
};

// Nothing that reads the accumulators may be moved before the wait for the products.
static __device__ __forceinline__ void settled(REAL (&acc)[BLOCKS][ACCUMULATORS]) {
#pragma unroll
    for (int i = 0; i < BLOCKS * ACCUMULATORS; i++) landed(acc[i / ACCUMULATORS][i % ACCUMULATORS]);
}
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&acc)[BLOCKS][ACCUMULATORS], REAL (&)[1][1]))[BLOCKS][ACCUMULATORS] { return acc; }
template <int T> static __device__ __forceinline__ REAL (&results(REAL (&)[BLOCKS][ACCUMULATORS], REAL (&total)[BLOCKS][ACCUMULATORS]))[BLOCKS][ACCUMULATORS] { return total; }

// A fragment: rows `row` and row + 8, pixels `px` and px + 1.
static __device__ __forceinline__ void put_block(REAL* chunk, int row, int px, const REAL* v) {
    if (PIXEL_MAJOR) {
        chunk[px * PITCH + row] = v[0]; chunk[(px + 1) * PITCH + row] = v[1];
        chunk[px * PITCH + row + 8] = v[2]; chunk[(px + 1) * PITCH + row + 8] = v[3];
    } else {
        *(tf_vector<REAL, 2>*)(chunk + row * PITCH + px) = {{v[0], v[1]}};
        *(tf_vector<REAL, 2>*)(chunk + (row + 8) * PITCH + px) = {{v[2], v[3]}};
    }
}

// Strict: the sums of a tile beside the accumulators, and what adds a finished chain of products to them.
typedef REAL Totals[TERMS > 1 ? BLOCKS : 1][TERMS > 1 ? ACCUMULATORS : 1];
static __device__ __forceinline__ void promote(REAL (&acc)[ACCUMULATORS], REAL (&total)[ACCUMULATORS]) {
#pragma unroll
    for (int i = 0; i < ACCUMULATORS; i++) add_landed(total[i], acc[i]);
}

// Where product warps reduce over channels: a chunk's blocks of eight columns by four, row by row.
constexpr int QUADS_A_ROW = (CHUNK_WIDTH + 31) / 32, REDUCED_QUADS = CHUNK_ROWS * QUADS_A_ROW;
static __device__ __forceinline__ constexpr int quad_first(int quad, int c) { return chunk_row_start(quad / QUADS_A_ROW) / 8 + c * (CHUNK_WIDTH / 8) + quad % QUADS_A_ROW * 4; }
static __device__ __forceinline__ int quad_blocks(int quad, int c) {
    return max(0, min(min(4, RUN_PIXELS / 8 - quad_first(quad, c)), min(CHUNK_WIDTH / 8, (ROW_LENGTH - c * CHUNK_WIDTH + 7) / 8) - quad % QUADS_A_ROW * 4));
}

// Product role: the taps of a tile, K step by K step, then the accumulators to shared memory in chunks of pixels.
// WG: which of the texts; `warpgroup`: which of the two that take the role.
template <int WG> static __device__ void product_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int warpgroup, int t) {
    int stage = 0, turn = 0, slab = 0, slab_turn = 0;
    Held held;
    held.group = warpgroup;
    Fragments<WG> fragments(shared, s, operands, warpgroup, t);
    // Each warpgroup has buffers of its own. The second is behind the first: one multiplies while the other hands over.
    const int first_slot = JOINT ? 0 : warpgroup * BUFFERS_0, end_slot = JOINT || warpgroup ? BUFFERS : BUFFERS_0;
    int slot = first_slot, chunk_turn = 0;
    const int warp_n = (t >> 5) % WARPS_N, row = (t >> 5 & 3) / WARPS_N * (16 * WARPS_N) + (t & 31) / 4, column = (t & 3) * 2;
    if (RESIDENT && (int)blockIdx.x < s.total) barrier_wait(shared_address(&b.weights_full[0]), 0);
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        const Place at = place_of(tile, s);
        REAL acc[BLOCKS][ACCUMULATORS];
        Totals total;
        if (TERMS > 1)
#pragma unroll
            for (int i = 0; i < BLOCKS * ACCUMULATORS; i++) total[i / ACCUMULATORS][i % ACCUMULATORS] = 0.f;
        if (SKIPS)                                            // any slab may be the first
#pragma unroll
            for (int i = 0; i < BLOCKS * ACCUMULATORS; i++) acc[i / ACCUMULATORS][i % ACCUMULATORS] = 0.f;
        for (int k = 0; k < KSTAGES; k++) {
            held.wait(shared_address(&b.full[stage]), turn & 1, b);
            multiply<WG>(acc, total, shared_address(shared + STAGES_AT + stage * STAGE_BYTES), shared_address(shared + WEIGHTS_AT), b, k, stage, warpgroup, at, s, slab, slab_turn, held);
            if (++stage == STAGES) { stage = 0; turn++; }
        }
        products_wait<0>();
        settled(acc);
        held.release(b);
        if constexpr (BIASED) fragments.rows(at);
        if constexpr (FRAGMENTS) fragments.tile(results<TERMS>(acc, total), at, tile);
        else if constexpr (FOLDED) {                                  // a value a warp and pixel instead of its rows
#pragma unroll
            for (int set = 0; set < SETS; set++) {
                if (chunk_turn > 0) barrier_wait(shared_address(&b.chunk_empty[slot]), (chunk_turn - 1) & 1);
                fragments.fold(results<TERMS>(acc, total), at, set, (REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES));
                barrier_arrive(shared_address(&b.chunk_full[slot]));
                if (++slot == end_slot) { slot = first_slot; chunk_turn++; }
            }
        } else
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
#pragma unroll
            for (int set = 0; set < SETS; set++) {
                if constexpr (BIASED)                         // while the store role takes the chunk before
#pragma unroll
                    for (int p = 0; p < PLANES; p++)
#pragma unroll
                        for (int r = 0; r < CHUNK_ROWS; r++)
#pragma unroll
                            for (int i = 0; i < CHUNK_WIDTH / 8; i++) {
                                const int j = chunk_row_start(r) / 8 + c * (CHUNK_WIDTH / 8) + i;
                                if (j < RUN_PIXELS / 8 && c * CHUNK_WIDTH + i * 8 < ROW_LENGTH) fragments.add(results<TERMS>(acc, total)[set * PLANES + p] + (chunk_row_start(r) / 8 + c * (CHUNK_WIDTH / 8) + i) * 4);
                            }
                if constexpr (REDUCED)                        // while the store role takes the chunk before
#pragma unroll
                    for (int p = 0; p < PLANES; p += 2)
#pragma unroll
                        for (int q = 0; q < REDUCED_QUADS; q += PLANES == 1 ? 2 : 1) {
                            const int p2 = PLANES == 1 ? 0 : p + 1, q2 = PLANES == 1 ? q + 1 : q;
                            const int many = quad_blocks(q, c), many2 = p2 < PLANES && q2 < REDUCED_QUADS ? quad_blocks(q2, c) : 0;
                            if (many > 0) fragments.reduce(results<TERMS>(acc, total), set * PLANES + p, quad_first(q, c), many, set * PLANES + (many2 > 0 ? p2 : p), many2 > 0 ? quad_first(q2, c) : 0, many2, at);
                        }
                if (chunk_turn > 0) barrier_wait(shared_address(&b.chunk_empty[slot]), (chunk_turn - 1) & 1);
                REAL* chunk = (REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);
#pragma unroll
                for (int p = 0; p < PLANES; p++) {
                    REAL (&a)[ACCUMULATORS] = results<TERMS>(acc, total)[set * PLANES + p];
                    const int to = row + (p * ROWS_PER_PLANE + (JOINT ? warpgroup * ROWS_PER_GROUP : 0)) * 64;
#pragma unroll
                    for (int r = 0; r < CHUNK_ROWS; r++)
#pragma unroll
                        for (int i = 0; i < CHUNK_WIDTH / 8; i++) {
                            const int j = chunk_row_start(r) / 8 + c * (CHUNK_WIDTH / 8) + i;
                            if (j < RUN_PIXELS / 8 && c * CHUNK_WIDTH + i * 8 < ROW_LENGTH && (WARPS_N == 1 || j % WARPS_N == warp_n)) {
                                const int px = r * CHUNK_WIDTH + i * 8 + column;
#pragma unroll
                                for (int m = 0; m < WARPS_N; m++)
                                    put_block(chunk, to + m * 16, px, a + (m * (ACCUMULATORS / (4 * WARPS_N)) + j / WARPS_N) * 4);
                            }
                        }
                }
                barrier_arrive(shared_address(&b.chunk_full[slot]));
                if (++slot == end_slot) { slot = first_slot; chunk_turn++; }
            }
    }
    if constexpr (FRAGMENTS) fragments.finish();
}
)cuda"
