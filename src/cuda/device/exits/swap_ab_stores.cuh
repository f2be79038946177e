R"cuda(
// The chain on accumulators whose rows are pixels, and its results to memory. A lane has pixels lane / 4 + {0, 8} of its warp's 16 and
// channels 2(lane % 4) + {0, 1} + 8j. CHANNELS_LAST: lanes store what they have. Else channels are laid down as rows of outputs, some
// channels at a time, and stored row by row; IN_PIECES: a row is a piece of one row of the image or of two, which begin anywhere.
constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;
// Over a pixel's channels, N of a lane and those of three others: four sums side by side, so that none waits for itself.
template <int N, class Term, class Both> static __device__ __forceinline__ REAL over_channels(Term term, Both both) {
    constexpr int SUMS = N < 4 ? N : 4;
    REAL sum[SUMS];
#pragma unroll
    for (int e = 0; e < N; e++) sum[e % SUMS] = e < SUMS ? term(e) : both(sum[e % SUMS], term(e));
#pragma unroll
    for (int k = 1; k < SUMS; k++) sum[0] = both(sum[0], sum[k]);
#pragma unroll
    for (int d = 1; d < 4; d *= 2) sum[0] = both(sum[0], __shfl_xor_sync(~0u, sum[0], d));
    return sum[0];
}
// A table's entries for a lane's channels, of which there is an even number.
template <int N> static __device__ __forceinline__ void load_channels(REAL (&r)[N], const REAL* from, int first, int last) {
#pragma unroll
    for (int e = first; e < last; e += 2) *(tf_vector<REAL, 2>*)(r + e) = *(const tf_vector<REAL, 2>*)(from + e / 2 * 8);
}
template <int WG> struct Fragments {
    const REAL* table;
    const Operands& operands;
    const Sizes& s;
    OUT* laid;  // rows of outputs, a channel each
    int warpgroup, lane, warp;
    __device__ __forceinline__ Fragments(unsigned char* shared, const Sizes& sizes, const Operands& given, int warpgroup, int t)
        : table((const REAL*)(shared + TABLES_AT)), operands(given), s(sizes), laid((OUT*)(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES)),
          warpgroup(warpgroup), lane(t % 32), warp(t / 32) {}

#ifdef CHANNELS_LAST
    // Of as many blocks of eight channels as a vector has pairs, a lane gets its part of one: where it begins.
    template <class S, int N> static __device__ __forceinline__ int quad_vector(tf_vector<S, N>& all, const REAL* v, int lane) {
        if constexpr (N == 4) {
            const bool odd = lane & 1;
#pragma unroll
            for (int f = 0; f < 2; f++) {
                const REAL mine = odd ? v[4 + f] : v[f], other = __shfl_xor_sync(~0u, odd ? v[f] : v[4 + f], 1);
                tf_from(all.lane[f], odd ? other : mine), tf_from(all.lane[2 + f], odd ? mine : other);
            }
            return odd * 8 + (lane & 2) * 2;
        } else {
            unsigned word[4];
#pragma unroll
            for (int j = 0; j < 4; j++) word[j] = pack_pair<S>(v[j * 4], v[j * 4 + 1]);
#pragma unroll
            for (int k = 1; k < 4; k *= 2) {
                const bool up = lane & k;
#pragma unroll
                for (int f = 0; f < 2; f++) {
                    const int low = k == 1 ? 2 * f : f, high = low + k;
                    const unsigned other = __shfl_xor_sync(~0u, up ? word[low] : word[high], k);
                    word[low] = up ? other : word[low], word[high] = up ? word[high] : other;
                }
            }
            *(uint4*)&all = make_uint4(word[0], word[1], word[2], word[3]);
            return lane % 4 * 8;
        }
    }
#else
    // Stores in one instruction, taken or not: what follows in the text need not wait for a branch. The pointer goes on within the
    // instruction's text: it would be found anew from counts of channels otherwise.
#ifdef __CUDACC__
    static __device__ __forceinline__ void store_where(bool taken, char*& to, long long further, uint4 v) {
        asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; @p st.global.v4.u32 [%0], {%3, %4, %5, %6}; add.s64 %0, %0, %2;}" : "+l"(to) : "r"((unsigned)taken), "l"(further), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
    }
    static __device__ __forceinline__ void store_where(bool taken, char*& to, long long further, unsigned v) {
        asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; @p st.global.u32 [%0], %3; add.s64 %0, %0, %2;}" : "+l"(to) : "r"((unsigned)taken), "l"(further), "r"(v) : "memory");
    }
    static __device__ __forceinline__ void store_where(bool taken, char*& to, long long further, unsigned short v) {
        asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; @p st.global.u16 [%0], %3; add.s64 %0, %0, %2;}" : "+l"(to) : "r"((unsigned)taken), "l"(further), "h"(v) : "memory");
    }
#else
    template <class Word> static __device__ __forceinline__ void store_where(bool taken, char*& to, long long further, Word v) {
        if (taken) *(Word*)to = v;
        to += further;
    }
#endif
#endif

    __device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int) {
        constexpr int BATCH = 2, VECTOR = ACCUMULATORS / 2;
        constexpr int group = 0;
        const int first_channel = lane % 4 * 2;
#define CHANNEL(e) (first_channel + (e) / 2 * 8 + (e) % 2)
#define CHANNEL_OK(e) (COUT % 8 == 0 || CHANNEL(e) < COUT)
/*{declare*//*}*/
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
/*{before*//*}*/
        }
#pragma unroll
        for (int set = 0; set < SETS; set++) {
            const int code = swap_ab_code(at.variant * SETS + set);
            if (SOME_LACK_PHASES && code < 0) continue;
#ifdef CHANNELS_LAST
/*{ahead*//*}*/
#ifdef LOADS_AHEAD
            const int FIRST_E = 0, LAST_E = VECTOR;
/*{load*//*}*/
#endif
#pragma unroll
            for (int b = set * PHASES_W; b < (set + 1) * PHASES_W; b++) {
                const int FIRST_E = 0, LAST_E = VECTOR;
/*{after*//*}*/
            }
            // Channels lie side by side in memory: four lanes have eight of them. A lane stores PAIRS of them; where they can, lanes give
            // one another what makes vectors of 16 bytes.
            const Strides& ys = operands.ys0;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int pixel = warpgroup * RUN_PIXELS + warp * 16 + i * 8 + lane / 4 + (UNBROKEN ? at.start : at.u[3]);
                const int row = UNBROKEN ? pixel / EXTENT_W : 0, column = UNBROKEN ? pixel % EXTENT_W : pixel;
                const int n = at.u[0], d = PERIOD_D * at.u[1] + (code >> 16), h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), w0 = PERIOD_W * column + (code & 255);
                const bool inside = n < s.out[0] && d < s.out[1] && h < s.out[2];
                OUT* const to = operands.y0 + (n * ys.n + d * ys.d + h * ys.h + w0 * ys.w);
#pragma unroll
                for (int w = 0; w < PHASES_W; w++) {
                    const bool there = inside && w0 + w < s.out[3];
                    const REAL* const v = acc[set * PHASES_W + w] + i * 2;
#pragma unroll
                    for (int j = 0; j < ACCUMULATORS / 4; j += PAIRS) {
                        if constexpr (PAIRS > 1) {
                            tf_vector<OUT, 2 * PAIRS> all;
                            const int first = quad_vector(all, v + j * 4, lane);  // after 8j
                            if (there && (COUT % (8 * PAIRS) == 0 || j * 8 + first < COUT)) *(tf_vector<OUT, 2 * PAIRS>*)(to + w * ys.w + j * 8 + first) = all;
                        } else {
#pragma unroll
                            for (int f = 0; f < 2; f += AT_ONCE) {
                                const int channel = j * 8 + lane % 4 * 2 + f;
                                tf_vector<OUT, AT_ONCE> some;
#pragma unroll
                                for (int g = 0; g < AT_ONCE; g++) tf_from(some.lane[g], v[j * 4 + f + g]);
                                if (there && (COUT % 8 == 0 || channel < COUT)) *(tf_vector<OUT, AT_ONCE>*)(to + w * ys.w + channel) = some;
                            }
                        }
                    }
                }
            }
#else
            // Where the outputs of the window lie in memory.
            OUT* const image = operands.y0 + at.u[0] * operands.ys0.n;
            const int first = (UNBROKEN ? at.start : at.u[3]) + warpgroup * RUN_PIXELS, d = PERIOD_D * at.u[1] + (code >> 16);
            const int channel_step = (int)operands.ys0.c, row_step = (int)operands.ys0.h;  // elements
            const bool inside = at.u[0] < s.out[0] && d < s.out[1];
#ifdef IN_PIECES
            // The window's outputs are pieces of one row or of two, which begin in its columns `start`; its column q lies at `from` + q.
            const int row = UNBROKEN ? first / EXTENT_W : 0, w = UNBROKEN ? first % EXTENT_W : first;
            const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), second = UNBROKEN ? EXTENT_W - w : RUN_PIXELS;  // the first pixel of the second piece
            const int start[2] = {-PERIOD_W * w, PERIOD_W * second}, plane = (int)operands.ys0.d * d + row_step * h;
            const int from[2] = {plane - start[0], plane + PERIOD_H * row_step - start[1]};
            // In shared memory as far as from a multiple of 16 bytes as in memory, the second piece after the first.
            auto shift_of = [&](int piece, int c) {
                return piece * WIDE_OUT + (int)((unsigned)((unsigned long long)image / sizeof(*image) + from[piece] + c * channel_step) % WIDE_OUT);
            };
            // A lane's vectors and its single element: in memory, in the first channel that is not stored. Vectors wherever a row begins;
            // what is left at the ends of a piece singly. (Vectors only where they fill sectors of 32 bytes were slower: f11 0.956 ms
            // instead of 0.908, fp16 0.937 instead of 0.841.)
            char *wide_to[KINDS][WIDE_TURNS], *end_to[KINDS];
            int end_column[KINDS];
            bool wide_there[KINDS][WIDE_TURNS], end_there[KINDS];
            const long long further = WIDE_OUT * operands.ys0.c * (long long)sizeof(*image);  // bytes to the next channel whose shifts are the same
#pragma unroll
            for (int kind = 0; kind < KINDS; kind++) {
                const int c0 = warp + kind * 4;  // and every WIDE_OUT-th channel from it on, whose shifts are its own
                OUT* const plane_0 = image + c0 * channel_step;
                // In columns of shared memory: where column 0 lies in memory, what there is, and what of it comes in whole vectors.
                struct Piece { int at, first, last, wide, narrow; };
                Piece piece[2];
#pragma unroll
                for (int p = 0; p < 2; p++) {
                    const int end = inside && h + p * PERIOD_H < s.out[2] ? min(PERIOD_W * RUN_PIXELS, start[p] + s.out[3]) : 0;
                    const int shift = shift_of(p, c0), begin = max(start[p], 0) + shift, last = max(begin, end + shift);
                    const int wide = min(last, (begin + WIDE_OUT - 1) / WIDE_OUT * WIDE_OUT);
                    piece[p] = {from[p] - shift, begin, last, wide, max(wide, min(last, WIDE_TURNS * 32 * WIDE_OUT) / WIDE_OUT * WIDE_OUT)};
                }
#pragma unroll
                for (int turn = 0; turn < WIDE_TURNS; turn++) {
                    const int column = (turn * 32 + lane) * WIDE_OUT;
                    const bool later = column >= piece[1].wide && column < piece[1].narrow;
                    wide_there[kind][turn] = later || (column >= piece[0].wide && column < piece[0].narrow);
                    wide_to[kind][turn] = (char*)(plane_0 + ((later ? piece[1].at : piece[0].at) + column));
                }
                // What is left: the ends of both pieces, one after another, fewer than there are lanes.
                const int before = piece[0].wide - piece[0].first + piece[0].last - piece[0].narrow;
                const Piece own = lane < before ? piece[0] : piece[1];
                const int e = lane < before ? lane : lane - before, head = own.wide - own.first;
                end_there[kind] = e < head + own.last - own.narrow;
                end_column[kind] = end_there[kind] ? (e < head ? own.first : own.narrow - head) + e : 0;
                end_to[kind] = (char*)(plane_0 + (own.at + end_column[kind]));
            }
#else
            // Where a lane's columns lie, each with the same of every channel; `to` in the first of its channels that are not stored.
            const int first_channel_of_lane = warp * (32 / ROW_SLOTS) + lane / ROW_SLOTS;  // of a part
            char* to[ROW_TURNS];
            bool there[ROW_TURNS];
#pragma unroll
            for (int turn = 0; turn < ROW_TURNS; turn++) {
                const int q = (turn * ROW_SLOTS + lane % ROW_SLOTS) * ROW_VECTOR, pixel = first + q / PHASES_W;
                const int row = UNBROKEN ? pixel / EXTENT_W : 0, column = UNBROKEN ? pixel % EXTENT_W : pixel;
                const int h = PERIOD_H * (at.u[2] + row) + (code >> 8 & 255), w = PERIOD_W * column + (code & 255) + q % PHASES_W;
                there[turn] = inside && h < s.out[2] && w < s.out[3];
                to[turn] = (char*)(image + (first_channel_of_lane * channel_step + (int)operands.ys0.d * d + row_step * h + w));
            }
#endif
/*{ahead*//*}*/
#ifdef LOADS_AHEAD
            auto load_ahead = [&](int part) {  // no barrier comes between it and what needs it
                const int FIRST_E = part * (LAID / 4), LAST_E = VECTOR % (LAID / 4) ? min((part + 1) * (LAID / 4), VECTOR) : (part + 1) * (LAID / 4);
/*{load*//*}*/
            };
            load_ahead(0);
#endif
            // Some channels at a time: while they are stored, the chain goes on with the next.
#pragma unroll
            for (int part = 0; part < LAID_PARTS; part++) {
                OUT* const half = laid + part % 2 * (LAID * LAID_PITCH);
#pragma unroll
                for (int b = set * PHASES_W; b < (set + 1) * PHASES_W; b++) {
                    const int FIRST_E = part * (LAID / 4), LAST_E = VECTOR % (LAID / 4) ? min((part + 1) * (LAID / 4), VECTOR) : (part + 1) * (LAID / 4);
/*{after*//*}*/
                }
#ifdef LOADS_AHEAD
                if (part + 1 < LAID_PARTS) load_ahead(part + 1);
#endif
                // The part's results into rows.
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int pixel = warp * 16 + i * 8 + lane / 4;
#pragma unroll
                    for (int f = 0; f < 2; f++) {
                        const int channel = lane % 4 * 2 + f;
#ifdef IN_PIECES
                        OUT* const to = half + channel * LAID_PITCH + pixel * PHASES_W + (pixel >= second ? shift_of(1, channel) : shift_of(0, channel));  // of every eighth channel alike
#else
                        OUT* const to = half + channel * LAID_PITCH + pixel * PHASES_W;
#endif
#pragma unroll
                        for (int j = 0; j < LAID / 8; j++) {
                            const int k = (part * (LAID / 8) + j) * 4 + i * 2 + f;
                            if (ACCUMULATORS % (LAID / 2) != 0 && k >= ACCUMULATORS) continue;
                            // Words: lanes of odd channels pairs take the other residue first, so that all banks are met.
                            if constexpr (PHASES_W == 2 && sizeof(OUT) == 4) {
                                const REAL a = acc[set * 2][k], b = acc[set * 2 + 1][k];
                                tf_store(to + j * 8 * LAID_PITCH + (lane & 1), lane & 1 ? b : a);
                                tf_store(to + j * 8 * LAID_PITCH + (~lane & 1), lane & 1 ? a : b);
                            } else {
#pragma unroll
                                for (int r = 0; r < PHASES_W; r++) tf_store(to + j * 8 * LAID_PITCH + r, acc[set * PHASES_W + r][k]);
                            }
                        }
                    }
                }
                barrier_named(8 + warpgroup, 128);
#ifdef IN_PIECES
#pragma unroll
                for (int kind = 0; kind < KINDS; kind++)
#pragma unroll
                    for (int c = kind * 4; c < LAID; c += WIDE_OUT) {
                        if (COUT % LAID != 0 && part * LAID + c + warp >= COUT) continue;
                        const OUT* const own = half + (c + warp) * LAID_PITCH;
#pragma unroll
                        for (int turn = 0; turn < WIDE_TURNS; turn++) {
                            const int column = (turn * 32 + lane) * WIDE_OUT;
                            store_where(wide_there[kind][turn], wide_to[kind][turn], further, *(const uint4*)(own + (WIDE_TURNS * 32 * WIDE_OUT <= LAID_PITCH ? column : min(column, LAID_PITCH - WIDE_OUT))));
                        }
                        store_where(end_there[kind], end_to[kind], further, *(const ONE*)(own + end_column[kind]));
                    }
#else
                constexpr int ROWS = 4 * (32 / ROW_SLOTS);  // that the warps store at once
#pragma unroll
                for (int first = 0; first < LAID; first += ROWS) {
                    const int c = first + first_channel_of_lane;
                    const bool ok = (LAID % ROWS == 0 || c < LAID) && (COUT % LAID == 0 || part * LAID + c < COUT);
                    const long long further = (LAID % ROWS == 0 || first + ROWS < LAID ? ROWS : LAID % ROWS) * (long long)channel_step * sizeof(*image);
#pragma unroll
                    for (int turn = 0; turn < ROW_TURNS; turn++)
                        store_where(ok && there[turn], to[turn], further, *(const ROW_PIECE*)(half + min(c, LAID - 1) * LAID_PITCH + (turn * ROW_SLOTS + lane % ROW_SLOTS) * ROW_VECTOR));
                }
#endif
            }
            barrier_named(8 + warpgroup, 128);
#endif
        }
#undef CHANNEL
#undef CHANNEL_OK
    }
    __device__ __forceinline__ void finish() {}
};
#undef CHANNELS_LAST
#undef LOADS_AHEAD
#undef IN_PIECES
)cuda"
