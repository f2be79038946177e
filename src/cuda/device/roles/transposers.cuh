R"cuda(
static __device__ void /*{load*/load_boxes(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const Sizes& s, const TensorMap* boxes/*}*/, const Operands& operands, int t) {
    if (t >= TRANSPOSERS) {
        if (t == TRANSPOSERS) ask(shared, b, packed, s, /*{strides*//*}*/boxes);
        return;
    }
    if (LOAD == LOAD_OPERAND) return;
    int stage = 0, turn = 0, slot = 0, taken = 0;             // of the ring of patches and of that of raw boxes
    for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {
        const Place at = place_of(tile, s);
        /*{of_tile*/const unsigned words = PROLOGUE ? words_inside(at, s, t) : 0u;/*}*/
#pragma unroll 1
        for (int box = 0; box < KSTAGES * PIECES; box++) {
            const int piece = box % PIECES;
            if (piece == 0 && turn > 0) barrier_wait(shared_address(&b.empty[stage]), (turn - 1) & 1);
            barrier_wait(shared_address(&b.raw_full[slot]), taken & 1);
            transpose(shared + RAW_AT + slot * RAW_BYTES, shared + STAGES_AT + stage * STAGE_BYTES, /*{box*/box/*}*/ / PIECES * STAGE_CHANNELS, piece, at, shared, s, operands, /*{known*/words/*}*/, t);
            barrier_arrive(shared_address(&b.raw_empty[slot]));
            if (piece == PIECES - 1) {
                fence_proxy();
                barrier_arrive(shared_address(&b.full[stage]));
                if (++stage == STAGES) { stage = 0; turn++; }
            }
            if (++slot == RAW) { slot = 0; taken++; }
        }
    }
}
)cuda"
