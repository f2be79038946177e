R"cuda(
// Pixels of a chunk, all channels of each side by side. They are walked along, not divided out, where rows of threads hold whole
// pixels: a thread's next pixel lies ROWS / PHASES_W further in the run, now and then on the next line.
constexpr bool WALKS = ROWS % PHASES_W == 0;
constexpr int STEP = ROWS / PHASES_W;
/*{unroll*/#pragma unroll/*}*/
for (int q = 0; q < CHUNK_OUTER; q++) {
    if constexpr (RELEASES_EARLY) {
        if (q == REAL_OUTER) barrier_arrive(shared_address(&b.chunk_empty[slot]));  // what follows reads nothing of it
    }
    const int code = codes[q];
    if (code < 0) continue;
    int line = -1, on = 0, od = 0, oh = 0;
/*{lines*//*}*/
    bool inside = false;
    auto enter = [&](int at_line) {
        line = at_line;
        const int h = line % EXTENT_H, d = line / EXTENT_H % EXTENT_D, n = line / (EXTENT_H * EXTENT_D);
        on = first_n + n; od = PERIOD_D * (first_d + d) + (code >> 16); oh = PERIOD_H * (first_h + h) + (code >> 8 & 255);
        inside = h < RUN_H && d < RUN_D && n < RUN_N && on < s.out[0] && od < s.out[1] && oh < s.out[2];
/*{enter*//*}*/
    };
    int w_phase = lane_row % PHASES_W, px = lane_row / PHASES_W, w = (chunk_index * CHUNK_WIDTH + px) % PITCH_W;
    if constexpr (WALKS) { enter((chunk_index * CHUNK_WIDTH + px) / PITCH_W); }
    for (int hb = 0; hb < BATCHES; hb++) {
        int pn[BATCH], pd[BATCH], ph[BATCH], pw[BATCH];
/*{places*//*}*/
        bool ok[BATCH];
        REAL /*{value*/v/*}*/[BATCH][VECTOR];
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if constexpr (!WALKS) {
                const int column = lane_row + (hb * BATCH + i) * ROWS;
                px = column / PHASES_W, w_phase = column % PHASES_W;
                w = (chunk_index * CHUNK_WIDTH + px) % PITCH_W;
                enter((chunk_index * CHUNK_WIDTH + px) / PITCH_W);
            }
            pn[i] = on; pd[i] = od; ph[i] = oh; pw[i] = PERIOD_W * (first_w + w) + (code & 255) + w_phase;
            ok[i] = inside && px < CHUNK_WIDTH && w < RUN_W && pw[i] < s.out[3];
/*{place*//*}*/
            const int row = row_of(q, w_phase);
            constexpr int READ = 16 / (int)sizeof(REAL) < VECTOR ? 16 / (int)sizeof(REAL) : VECTOR;  // channels at once
#pragma unroll
            for (int e = 0; e < VECTOR; e += READ) {
                tf_vector<REAL, READ> in = {};
                if (row >= 0 && px < CHUNK_WIDTH) in = *(const tf_vector<REAL, READ>*)(chunk + px * PITCH + row + lane_column * VECTOR + e);
#pragma unroll
                for (int f = 0; f < READ; f++) /*{value*/v/*}*/[i][e + f] = in.lane[f];
            }
            if constexpr (WALKS) {
                px += STEP; w += STEP;
                if (w >= PITCH_W) {
                    enter(line + w / PITCH_W);
                    w %= PITCH_W;
                }
            }
        }
/*{chain*//*}*/
/*{sinks*//*}*/
    }
}
)cuda"
