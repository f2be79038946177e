R"cuda(// A raw box, PIECE vectors of channels as they lie in memory, [vector][pixel]: each begins on 128 bytes.
constexpr int RAW_PLANE = RAW_BYTES / (PIECE * 16);
static __device__ __forceinline__ void bring_vectors(unsigned to, const TensorMap* boxes, int w, int h, int d, int n, int channel, unsigned bar) {
    for (int v = 0; v < PIECE; v++) copy_box(to + v * RAW_PLANE * 16, boxes, channel + v * LANES, w, h, d, n, bar);
}

// It becomes operand vectors of the same channels, by way of the prologue.
static __device__ __forceinline__ void transpose(const unsigned char* raw, unsigned char* stage, int channels, int piece, const Place& at, const unsigned char* shared, const Sizes& s, const Operands& operands, unsigned words, int t) {
    typedef tf_vector<ELEMENT, LANES> Vector;
    constexpr int TURNS = WORD_TURNS, AT_ONCE = (PROLOGUE ? HELD_VALUES / 2 : HELD_VALUES) / LANES;
    const Vector* in = (const Vector*)raw;
    stage += piece * PIECE * PLANE * 16;
#pragma unroll 1
    for (int first = channels + piece * PIECE * LANES; first < channels + (piece + 1) * PIECE * LANES; first += LANES, in += RAW_PLANE, stage += PLANE * 16) {
        const bool has = group_has(first);                    // a vector's channels are of one group
        const int channel = first_of_group(at) + (has ? first : channels);
        OfChannel of[PROLOGUE ? LANES : 1];
        if (PROLOGUE)
#pragma unroll
            for (int j = 0; j < LANES; j++) of[j] = of_channel(channel + j, at.u[0], shared, operands);
#pragma unroll
        for (int turn = 0; turn < TURNS; turn += AT_ONCE) {
            Vector vector[AT_ONCE];                           // all reads of a batch before its writes: one latency, not one a pixel
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) vector[f] = in[min((turn + f) * TRANSPOSERS + t, WORDS - 1)];
#pragma unroll
            for (int f = 0; f < AT_ONCE && turn + f < TURNS; f++) {
                const int p = (turn + f) * TRANSPOSERS + t, to = in_patch(p);
                Pixel pixel_of = {};
                if (PROLOGUE_PLACED || (PROLOGUE && TURNS > 32)) pixel_of = pixel(to, at, s);
                else pixel_of.inside = !PROLOGUE || (words >> (turn + f) & 1);
                REAL v[LANES];
#pragma unroll
                for (int j = 0; j < LANES; j++) {
                    v[j] = tf_load<REAL>(vector[f].lane + j);
                    if (PROLOGUE && pixel_of.inside) v[j] = prologue(v[j], of[j], channel + j, pixel_of, shared, operands);
                    if (!has || !pixel_of.inside) v[j] = 0;
                }
                if (p >= WORDS) continue;
                if constexpr (sizeof(ELEMENT) == 2) {
                    Vector made;
#pragma unroll
                    for (int j = 0; j < LANES; j++) tf_store(made.lane + j, v[j]);
                    *(Vector*)(stage + to * 16) = made;
                } else {
                    put(stage, to, v);
                }
            }
        }
    }
}
)cuda"
