R"cuda(
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
)cuda"
