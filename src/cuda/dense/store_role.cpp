#include "cuda/dense/store_role.h"

#include <algorithm>
#include <array>

#include "cuda/dense/chunk_chain.h"
#include "cuda/dense/statistics.h"
#include "cuda/dense/store_map.h"
#include "cuda/expression.h"

namespace transfuse::cuda {

namespace {

class StoreRole {
public:
    StoreRole(const Epilogue& epilogue, const Schedule& s, const Config& c)
        : epilogue_(epilogue), program_(epilogue.program()), s_(s), c_(c), m_(store_map(epilogue, s, c)), chain_(epilogue, t, m_), statistics_(epilogue, m_, chain_, t), value_("v" + num(program_.around->pass.anchor)) {}

    std::string text() {
        constants();
        macros();
        begin();
        if (program_.pixel_major) pixels();
        else if (program_.pool) windows();
        else columns();
        end();
        return t.str();
    }

private:
    void constants() {
        auto constant = [&](const std::string& name, int64_t v) { t.line("constexpr int " + name + " = " + num(v) + ";"); };
        constant("VECTOR", m_.vector), constant("VECTOR_PIXELS", m_.pixels), constant("LANES_W", m_.lanes), constant("ROWS", m_.rows);
        constant("TURNS", m_.turns), constant("PHASE_CHANNELS", m_.channels), constant("ITEMS", m_.items), constant("BATCH", m_.batch);
        constant("BATCHES", (m_.items + m_.batch - 1) / m_.batch);
        constant("ROW_STEP", m_.neighbours ? 1 : m_.rows);   // channels from one of a thread's rows to the next
        constant("WRITERS", s_.joint ? 1 : 2), constant("CHUNK_OUTER", s_.chunk_outer), constant("PHASES_W", s_.phases_w);
        std::string codes;
        for (const auto& sets : s_.phase_table)
            for (const auto& list : sets)
                for (const ChunkPhase& p : list) codes += (codes.empty() ? "" : ", ") + num(p.d < 0 ? -1 : p.d * 65536 + p.h * 256 + p.w);
        t.line("__constant__ int phase_codes[" + num(static_cast<int64_t>(s_.phase_table.size()) * s_.sets * s_.chunk_outer) + "] = {" + codes + "};   // residues: along d * 65536 + h * 256 + the first along w");
        row_of();
        t.line("template <int N, class S> static __device__ __forceinline__ void store_vector(S* to, const REAL (&v)[N]) {");
        t.line("tf_vector<S, N> whole;");
        t.line("#pragma unroll");
        t.line("for (int e = 0; e < N; e++) tf_from(whole.lane[e], v[e]);");
        t.line("if constexpr (sizeof(whole) == 16) __stcs((float4*)to, *(float4*)&whole);");
        t.line("else if constexpr (sizeof(whole) == 8) __stcs((float2*)to, *(float2*)&whole);");
        t.line("else *(tf_vector<S, N>*)to = whole;");
        t.line("}");
        if (std::any_of(epilogue_.stores().begin(), epilogue_.stores().end(), [&](const Operand& o) { return is_apart(o); })) store_where();
        int64_t together = 4;   // channels of a table read at once
        while (!m_.neighbours || epilogue_.channels() % together || epilogue_.problem().cout % together || m_.items % together || m_.batch % together)
            if ((together /= 2) == 1) break;
        t.line("// A table's entries for the thread's rows.");
        t.line("static __device__ __forceinline__ void load_rows(REAL (&r)[BATCH], const REAL* from) {");
        t.line("#pragma unroll");
        if (together > 1) t.line("for (int i = 0; i < BATCH; i += " + num(together) + ") *(tf_vector<REAL, " + num(together) + ">*)(r + i) = *(const tf_vector<REAL, " + num(together) + ">*)(from + i);");
        else t.line("for (int i = 0; i < BATCH; i++) r[i] = from[i * ROW_STEP];");
        t.line("}");
        statistics_.helpers();
        t.blank();
    }

    // Stores that need not wait for a branch after values that take long.
    bool is_apart(const Operand& o) const { return !program_.pixel_major && program_.channel_reductions && m_.vector > 1 && (bytes(o.dtype) * m_.vector == 8 || bytes(o.dtype) * m_.vector == 16); }

    void store_where() {
        t.line("// One instruction, taken or not: what follows in the text need not wait for a branch.");
        t.line("template <int N, class S> static __device__ __forceinline__ void store_vector_where(bool taken, S* to, const REAL (&v)[N]) {");
        t.line("tf_vector<S, N> whole;");
        t.line("#pragma unroll");
        t.line("for (int e = 0; e < N; e++) tf_from(whole.lane[e], v[e]);");
        t.line("#ifdef __CUDACC__");
        t.line("const unsigned* w = (const unsigned*)&whole;");
        t.line("if constexpr (sizeof(whole) == 16) asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.u32 p, %0, 0;\\n@p st.global.cs.v4.u32 [%1], {%2, %3, %4, %5};\\n}\" ::\"r\"((unsigned)taken), \"l\"(to), \"r\"(w[0]), \"r\"(w[1]), \"r\"(w[2]), \"r\"(w[3]) : \"memory\");");
        t.line("else asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.u32 p, %0, 0;\\n@p st.global.cs.v2.u32 [%1], {%2, %3};\\n}\" ::\"r\"((unsigned)taken), \"l\"(to), \"r\"(w[0]), \"r\"(w[1]) : \"memory\");");
        t.line("#else");
        t.line("if (taken) *(tf_vector<S, N>*)to = whole;");
        t.line("#endif");
        t.line("}");
    }

    void row_of() {
        t.line("// The first row of a phase in the chunk, −1 where it has no taps.");
        t.line("static __device__ __forceinline__ constexpr int row_of(int outer, int w) {");
        bool affine = true;
        const int step = s_.phases_w > 1 ? s_.row_of(0, 1) - s_.row_of(0, 0) : 0, jump = s_.real_outer > 1 ? s_.row_of(1, 0) - s_.row_of(0, 0) : 0;
        for (int q = 0; q < s_.real_outer; ++q)
            for (int w = 0; w < s_.phases_w; ++w) affine = affine && s_.row_of(q, w) >= 0 && s_.row_of(q, w) == q * jump + w * step;
        if (affine) {
            t.line("return outer < " + num(s_.real_outer) + " ? outer * " + num(jump) + " + w * " + num(step) + " : -1;");
        } else {
            for (int q = 0; q < s_.real_outer; ++q)
                for (int w = 0; w < s_.phases_w; ++w)
                    if (s_.row_of(q, w) >= 0) t.line("if (outer == " + num(q) + " && w == " + num(w) + ") return " + num(s_.row_of(q, w)) + ";");
            t.line("return -1;");
        }
        t.line("}");
    }

    // From the role's beginning into the loop over chunks.
    void begin() {
        const bool pm = program_.pixel_major;
        t.line("// Store role: takes chunks of accumulators, runs the tile program, writes, while the next tile's products run.");
        t.line("static __device__ void store_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& operands, int store_group, int t) {");
        t.line("const REAL* table = (const REAL*)(shared + TABLES_AT);");
        t.line("REAL* slots = (REAL*)(shared + TABLES_AT + " + num(epilogue_.slots_at()) + " + store_group * " + num(epilogue_.group_bytes()) + ");");
        t.line("REAL* image_table = slots + " + num(epilogue_.images_at() / epilogue_.real_bytes()) + ";");
        t.line("REAL* exchange = slots + " + num(epilogue_.exchange_at() / epilogue_.real_bytes()) + ";");
        t.line("int exchange_turn = 0;");
        if (m_.warps_along_w) t.line("const int lane_column = t / 32 * LANES_W + t % LANES_W, lane_row = t % 32 / LANES_W;");
        else t.line("const int lane_column = t % LANES_W, lane_row = t / LANES_W" + std::string(m_.neighbours ? " * ITEMS;" : ";"));
        t.line(std::string("constexpr int COLUMNS_AT_ONCE = ") + (m_.warps_along_w ? "4 * " : "") + "LANES_W;");
        t.line("(void)table, (void)slots, (void)image_table, (void)exchange, (void)exchange_turn;");
        // A group's channels may begin between two vectors.
        const std::string begins = pm && epilogue_.problem().groups > 1 && epilogue_.problem().cout % m_.vector ? "false && " : "";
        for (size_t k = 0; k < epilogue_.stores().size(); ++k) {
            const Operand& o = epilogue_.stores()[k];
            const std::string id = num(static_cast<int64_t>(k)), size = num(bytes(o.dtype) * m_.vector), ys = "operands.ys" + id;
            t.line("const bool wide" + id + " = " + begins + "VECTOR > 1 && " + (pm ? ys + ".c == 1 && " : ys + ".w == 1 && ") + "(((unsigned long long)operands.y" + id + " | " + num(bytes(o.dtype)) + "ull * (" + ys + ".n | " +
                   (pm ? ys + ".w" : ys + ".c") + " | " + ys + ".d | " + ys + ".h)) % " + size + ") == 0 && " + size + " <= 16;");
        }
        for (size_t k = 0; k < epilogue_.reads().size(); ++k) {   // as ChunkChain::load_elements asks
            const Operand& o = epilogue_.reads()[k];
            if (m_.vector == 1 || epilogue_.table_of(k) >= 0 || epilogue_.image_table_of(k) >= 0 || !(pm ? o.depends[1] : o.depends[4])) continue;
            const std::string id = num(static_cast<int64_t>(k)), size = num(bytes(o.dtype) * m_.vector), rs = "operands.rs" + id;
            t.line("const bool wide_r" + id + " = " + begins + rs + (pm ? ".c" : ".w") + " == 1 && (((unsigned long long)operands.r" + id + " | " + num(bytes(o.dtype)) + "ull * (" + rs + ".n | " + rs + (pm ? ".w" : ".c") + " | " + rs +
                   ".d | " + rs + ".h)) % " + size + ") == 0 && " + size + " <= 16;");
        }
        statistics_.begin();
        if (reads_ahead()) ask_ahead();
        t.line("int next[2] = {0, BUFFERS_0}, turns[2] = {0, 0}, taken = 0;   // each warpgroup's buffers");
        if (epilogue_.image_tables()) t.line("int image = -1;");
        t.line("for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {");
        tile_place();
        if (epilogue_.image_tables()) load_image_tables();
        const std::string writers = "for (int wg = 0; wg < WRITERS; wg++)";
        if (!c_.alternates) t.line(writers);
        t.line("for (int chunk_index = 0; chunk_index < CHUNKS; chunk_index++)");
        t.line(std::string("for (int set = 0; set < SETS; set++)") + (c_.alternates ? "" : " {"));
        if (c_.alternates) t.line(writers + " {");
        t.line("const int slot = wg ? next[1] : next[0], turn = wg ? turns[1] : turns[0];");
        t.line("if (wg) { if (++next[1] == BUFFERS) { next[1] = BUFFERS_0; turns[1]++; } }");
        t.line("else if (++next[0] == BUFFERS_0) { next[0] = 0; turns[0]++; }");
        t.line("if (STORE_GROUPS > 1 && taken++ % STORE_GROUPS != store_group) continue;");
        if (reads_ahead()) turn_ahead();
        t.line("barrier_wait(shared_address(&b.chunk_full[slot]), turn & 1);");
        t.line("const REAL* chunk = (const REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);");
        chunk_place();
    }

    void tile_place() {
        t.line("const Place at = place_of(tile, s);");
        t.line("const int group = at.fixed / MGROUPS, block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);");
    }
    void chunk_place() {
        t.line("const int* codes = phase_codes + ((at.variant * 2 + wg) * SETS + set) * CHUNK_OUTER;");
        t.line("const int first_channel = block + (SPLIT_CHANNELS && !JOINT ? wg * 64 : 0);   // within the group");
        t.line("const int first_n = at.u[0] + wg * SECOND_N, first_d = at.u[1] + wg * SECOND_D, first_h = at.u[2] + wg * SECOND_H, first_w = at.u[3] + wg * SECOND_W;");
    }

    bool reads_ahead() const { return std::any_of(m_.ahead.begin(), m_.ahead.end(), [](int at) { return at >= 0; }); }

    // Tensors come a chunk ahead, each thread's part into places of its own: loads that the chain waits for would each cost a
    // memory's latency, with little under way.
    void ask_ahead() {
        t.line("auto ask = [&](int tile, int wg, int chunk_index, int set, unsigned char* ahead) {");
        tile_place();
        chunk_place();
        columns_begin();
        t.line("if (count <= 0) continue;");
        t.line("for (int hb = 0; hb < BATCHES; hb++) {");
        for (size_t k = 0; k < m_.ahead.size(); ++k) {
            if (m_.ahead[k] < 0) continue;
            const Operand& o = epilogue_.reads()[k];
            const std::string id = num(static_cast<int64_t>(k)), rs = "operands.rs" + id, type(storage_name(o.dtype)), size = num(bytes(o.dtype)), whole = num(bytes(o.dtype) * m_.vector);
            t.line("{");
            t.line("const " + type + "* from = operands.r" + id + " + (PN(0) * " + rs + ".n + PD(0) * " + rs + ".d + PH(0) * " + rs + ".h + PW(0) * " + rs + ".w + (long long)(group * COUT + CHANNEL(0)) * " + rs + ".c);");
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < BATCH; i++, from += ROW_STEP * " + rs + ".c) {");
            t.line("if (!CHANNEL_OK(i)) continue;");
            t.line("unsigned char* to = ahead + " + num(m_.ahead[k]) + " + AHEAD(k, q, i) * " + whole + ";");
            const bool wide = m_.vector > 1 && o.depends[4] && bytes(o.dtype) * m_.vector >= 4;
            if (wide) t.line("if (wide_r" + id + " && count == VECTOR) copy_" + whole + "(shared_address(to), from, true);"), t.line("else");
            t.line("for (int e = 0; e < VECTOR; e++) if (VALID(e)) " + (bytes(o.dtype) >= 4 ? "copy_" + size + "(shared_address(to + e * " + size + "), from + e * " + rs + ".w, true);" : "((" + type + "*)to)[e] = from[e * " + rs + ".w];"));
            t.line("}");
            t.line("}");
        }
        t.line("}");
        t.line("}");
        t.line("}");
        t.line("};");
        t.line("unsigned char *ahead = shared + AHEAD_AT, *next_ahead = ahead + AHEAD_BYTES;");
        t.line("if (blockIdx.x < s.total) ask(blockIdx.x, 0, 0, 0, next_ahead);");
        t.line("copy_commit();");
    }

    // The next chunk's tensors are asked for, this one's are there.
    void turn_ahead() {
        t.line("unsigned char* const now_ahead = next_ahead;");
        t.line("next_ahead = ahead;");
        t.line("ahead = now_ahead;");
        t.line("{");
        if (c_.alternates) {
            t.line("int tile_next = tile, wg_next = wg + 1, chunk_next = chunk_index, set_next = set;");
            t.line("if (wg_next == WRITERS) { wg_next = 0; set_next++; }");
            t.line("if (set_next == SETS) { set_next = 0; chunk_next++; }");
            t.line("if (chunk_next == CHUNKS) { chunk_next = 0; tile_next = next_tile(tile); }");
        } else {
            t.line("int tile_next = tile, wg_next = wg, chunk_next = chunk_index, set_next = set + 1;");
            t.line("if (set_next == SETS) { set_next = 0; chunk_next++; }");
            t.line("if (chunk_next == CHUNKS) { chunk_next = 0; wg_next++; }");
            t.line("if (wg_next == WRITERS) { wg_next = 0; tile_next = next_tile(tile); }");
        }
        t.line("if (tile_next < s.total) ask(tile_next, wg_next, chunk_next, set_next, next_ahead);");
        t.line("copy_commit();");
        t.line("copy_wait<1>();");
        t.line("}");
    }

    void load_image_tables() {
        const std::string channels = num(epilogue_.channels());
        t.line("if (at.u[0] != image) {");
        t.line("image = at.u[0];");
        t.line("barrier_named(2 + store_group, 128);");
        t.line("for (int c = t; c < " + channels + "; c += 128) {");
        for (size_t k = 0; k < epilogue_.reads().size(); ++k) {
            if (epilogue_.image_table_of(k) < 0) continue;
            const std::string id = num(static_cast<int64_t>(k));
            t.line("image_table[" + num(epilogue_.image_table_of(k) * epilogue_.channels()) + " + c] = tf_load<REAL>(operands.r" + id + " + (image * operands.rs" + id + ".n + c * operands.rs" + id + ".c));");
        }
        t.line("}");
        t.line("barrier_named(2 + store_group, 128);");
        t.line("}");
    }

    void macros() {
        if (!program_.pixel_major) {
            const bool exact = epilogue_.problem().cout % 64 == 0 && s_.channel_blocks % s_.blocks_per_tile == 0 && m_.items * m_.rows == m_.channels;
            t.line("#define ROW(i) (lane_row + (hb * BATCH + (i)) * ROW_STEP)");
            // Threads beyond the last channel read what others read.
            t.line(m_.items * m_.rows == m_.channels ? "#define CHUNK_ROW(i) ROW(i)" : "#define CHUNK_ROW(i) min(ROW(i), PHASE_CHANNELS - 1)");
            t.line("#define CHANNEL(i) (first_channel + ROW(i))");
            t.line("#define AHEAD(k, q, i) ((((k * CHUNK_OUTER + q) * BATCHES + hb) * BATCH + (i)) * 128 + t)");
            t.line(exact ? "#define CHANNEL_OK(i) (ITEMS % BATCH == 0 || hb * BATCH + (i) < ITEMS)" : "#define CHANNEL_OK(i) (hb * BATCH + (i) < ITEMS && ROW(i) < PHASE_CHANNELS && CHANNEL(i) < COUT)");
            t.line("#define PN(e) ((long long)pn)");
            t.line("#define PD(e) ((long long)pd)");
            t.line("#define PH(e) ((long long)ph)");
            t.line("#define PW(e) ((long long)(pw + (e)))");
            t.line("#define VALID(e) ((e) < count)");
        } else {
            t.line("#define CHANNEL(e) (first_channel + lane_column * VECTOR + (e))");
            t.line("#define CHANNEL_OK(e) (lane_column * VECTOR + (e) < PHASE_CHANNELS && CHANNEL(e) < COUT)");
            t.line("#define PN(i) ((long long)pn[i])");
            t.line("#define PD(i) ((long long)pd[i])");
            t.line("#define PH(i) ((long long)ph[i])");
            t.line("#define PW(i) ((long long)pw[i])");
            t.line("#define VALID(i) ok[i]");
        }
    }

    void run(bool after_pool) {
        if (!after_pool) chain_.anchor();
        chain_.steps(after_pool);
    }

    void sinks() {
        for (size_t k = 0; k < epilogue_.stores().size(); ++k) program_.pixel_major ? store_pixels(k) : store_rows(k);
        statistics_.accumulate();
    }

    // Pixels are walked along, not divided out: a thread's next pixel lies ROWS / PHASES_W further in the run, now and then on the
    // next line.
    void pixels() {
        const bool walks = m_.rows % s_.phases_w == 0;
        const auto& stores = epilogue_.stores();
        t.line(m_.unrolled ? "#pragma unroll" : "#pragma unroll 1");
        t.line("for (int q = 0; q < CHUNK_OUTER; q++) {");
        t.line("const int code = codes[q];");
        t.line("if (code < 0) continue;");
        t.line("int line = -1, on = 0, od = 0, oh = 0;");
        for (size_t k = 0; k < stores.size(); ++k) t.line("long long line_at" + num(static_cast<int64_t>(k)) + " = 0;");
        t.line("bool inside = false;");
        t.line("auto enter = [&](int at_line) {");
        t.line("line = at_line;");
        t.line("const int h = line % EXTENT_H, d = line / EXTENT_H % EXTENT_D, n = line / (EXTENT_H * EXTENT_D);");
        t.line("on = first_n + n; od = PERIOD_D * (first_d + d) + (code >> 16); oh = PERIOD_H * (first_h + h) + (code >> 8 & 255);");
        t.line("inside = h < RUN_H && d < RUN_D && n < RUN_N && on < s.out[0] && od < s.out[1] && oh < s.out[2];");
        for (size_t k = 0; k < stores.size(); ++k) {
            const std::string id = num(static_cast<int64_t>(k)), ys = "operands.ys" + id;
            t.line("line_at" + id + " = on * " + ys + ".n + od * " + ys + ".d + oh * " + ys + ".h" + (stores[k].depends[1] ? " + (long long)(group * COUT + CHANNEL(0)) * " + ys + ".c" : "") + ";");
        }
        t.line("};");
        if (walks) {
            t.line("constexpr int STEP = ROWS / PHASES_W;");
            t.line("const int w_phase = lane_row % PHASES_W;");
            t.line("int px = lane_row / PHASES_W, w = (chunk_index * CHUNK_WIDTH + px) % EXTENT_W;");
            t.line("enter((chunk_index * CHUNK_WIDTH + px) / EXTENT_W);");
        }
        t.line("for (int hb = 0; hb < BATCHES; hb++) {");
        t.line("int pn[BATCH], pd[BATCH], ph[BATCH], pw[BATCH];");
        for (size_t k = 0; k < stores.size(); ++k) t.line("long long at" + num(static_cast<int64_t>(k)) + "[BATCH];");
        t.line("bool ok[BATCH];");
        t.line("REAL " + value_ + "[BATCH][VECTOR];");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < BATCH; i++) {");
        if (!walks) {
            t.line("const int column = lane_row + (hb * BATCH + i) * ROWS, px = column / PHASES_W, w_phase = column % PHASES_W;");
            t.line("const int w = (chunk_index * CHUNK_WIDTH + px) % EXTENT_W;");
            t.line("enter((chunk_index * CHUNK_WIDTH + px) / EXTENT_W);");
        }
        t.line("pn[i] = on; pd[i] = od; ph[i] = oh; pw[i] = PERIOD_W * (first_w + w) + (code & 255) + w_phase;");
        t.line("ok[i] = inside && px < CHUNK_WIDTH && w < RUN_W && pw[i] < s.out[3];");
        for (size_t k = 0; k < stores.size(); ++k) t.line("at" + num(static_cast<int64_t>(k)) + "[i] = line_at" + num(static_cast<int64_t>(k)) + " + pw[i] * operands.ys" + num(static_cast<int64_t>(k)) + ".w;");
        t.line("const int row = row_of(q, w_phase);");
        t.line("constexpr int READ = 16 / (int)sizeof(REAL) < VECTOR ? 16 / (int)sizeof(REAL) : VECTOR;   // channels at once");
        t.line("#pragma unroll");
        t.line("for (int e = 0; e < VECTOR; e += READ) {");
        t.line("tf_vector<REAL, READ> in = {};");
        t.line("if (row >= 0 && px < CHUNK_WIDTH) in = *(const tf_vector<REAL, READ>*)(chunk + px * PITCH + row + lane_column * VECTOR + e);");
        t.line("#pragma unroll");
        t.line("for (int f = 0; f < READ; f++) " + value_ + "[i][e + f] = in.lane[f];");
        t.line("}");
        if (walks) {
            t.line("px += STEP; w += STEP;");
            t.line("if (w >= EXTENT_W) {");
            t.line("enter(line + w / EXTENT_W);");
            t.line("w %= EXTENT_W;");
            t.line("}");
        }
        t.line("}");
        run(false);
        sinks();
        t.line("}");
        t.line("}");
    }

    // Opens the loops over a chunk's columns and outer phases, and says where each lies.
    void columns_begin() {
        t.line("for (int k = 0; k < TURNS; k++) {");
        t.line("const int column = k * COLUMNS_AT_ONCE + lane_column;");
        t.line(m_.vectors ? "const int px = column * VECTOR_PIXELS, w_phase = 0;" : "const int px = column / PHASES_W, w_phase = column % PHASES_W;");
        t.line("const int r = chunk_index * CHUNK_WIDTH + px;");
        t.line("const int w = r % EXTENT_W, h = r / EXTENT_W % EXTENT_H, d = r / (EXTENT_W * EXTENT_H) % EXTENT_D, n = r / (EXTENT_W * EXTENT_H * EXTENT_D);");
        t.line("const bool in_run = r < RUN_PIXELS && w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N;");
        t.line(m_.unrolled ? "#pragma unroll" : "#pragma unroll 1");
        t.line("for (int q = 0; q < CHUNK_OUTER; q++) {");
        t.line("const int code = codes[q];");
        t.line("if (code < 0) continue;");
        t.line("const int pn = first_n + n, pd = PERIOD_D * (first_d + d) + (code >> 16), ph = PERIOD_H * (first_h + h) + (code >> 8 & 255), pw = PERIOD_W * (first_w + w) + (code & 255) + w_phase;");
        t.line("const int count = in_run && pn < s.out[0] && pd < s.out[1] && ph < s.out[2] ? min(VECTOR, s.out[3] - pw) : 0;");
    }

    void columns() {
        columns_begin();
        // Threads that meet over channels or columns leave together.
        if (epilogue_.stats() == 0) t.line(program_.channel_reductions ? "if (!__any_sync(~0u, count > 0)) continue;" : "if (count <= 0) continue;");
        t.line("for (int hb = 0; hb < BATCHES; hb++) {");
        t.line("REAL " + value_ + "[BATCH][VECTOR];");
        if (m_.vectors) {
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < BATCH; i++)");
            t.line("#pragma unroll");
            t.line("for (int f = 0; f < PHASES_W; f++) {");
            t.line("if (row_of(q, f) < 0) {");
            t.line("#pragma unroll");
            t.line("for (int p = 0; p < VECTOR_PIXELS; p++) " + value_ + "[i][p * PHASES_W + f] = 0.f;");
            t.line("} else {");
            t.line("const tf_vector<REAL, VECTOR_PIXELS> in = *(const tf_vector<REAL, VECTOR_PIXELS>*)(chunk + (row_of(q, f) + CHUNK_ROW(i)) * PITCH + px);");
            t.line("#pragma unroll");
            t.line("for (int p = 0; p < VECTOR_PIXELS; p++) " + value_ + "[i][p * PHASES_W + f] = in.lane[p];");
            t.line("}");
            t.line("}");
        } else {
            t.line("const int row = row_of(q, w_phase);");
            t.line("const REAL* from = chunk + row * PITCH + px;");
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < BATCH; i++) " + value_ + "[i][0] = " + (s_.lacks_rows() ? "row < 0 ? 0.f : " : "") + "from[CHUNK_ROW(i) * PITCH];");
            if (program_.fold >= 0 && epilogue_.graph()[program_.fold].op == Op::logsumexp) {
                t.line("REAL masses[BATCH][VECTOR];");
                t.line("#pragma unroll");
                t.line("for (int i = 0; i < BATCH; i++) masses[i][0] = from[(PHASE_CHANNELS + CHUNK_ROW(i)) * PITCH];");
            }
        }
        if (program_.fold >= 0) chain_.unfold(value_, "masses"), chain_.steps(true);
        else run(false);
        sinks();
        t.line("}");
        t.line("}");
        t.line("}");
    }

    // Windows side by side: each thread gathers whole windows, element by element.
    void windows() {
        const Needs needs = program_.needs(s_.phases_w);
        std::array<int, 4> reach;
        for (int a = 0; a < 4; ++a) reach[a] = static_cast<int>(std::max<int64_t>(1, needs.pool[a] / s_.period[a]));
        std::string px, rows, ds, hs, ws;
        int count = 0;
        const auto& list = s_.phase_table[0][0];
        for (int jd = 0; jd < reach[1]; ++jd)
            for (int rd = 0; rd < s_.period[1]; ++rd)
                for (int jh = 0; jh < reach[2]; ++jh)
                    for (int rh = 0; rh < s_.period[2]; ++rh)
                        for (int jw = 0; jw < reach[3]; ++jw)
                            for (int rw = 0; rw < s_.phases_w; ++rw, ++count) {
                                int row = -1;
                                for (int q = 0; q < s_.real_outer; ++q)
                                    if (list[q].d == rd && list[q].h == rh) row = s_.row_of(q, rw);
                                const std::string comma = count ? ", " : "";
                                px += comma + num((jd * c_.run[2] + jh) * c_.chunk_width + jw);
                                rows += comma + num(row);
                                ds += comma + num(jd * s_.period[1] + rd), hs += comma + num(jh * s_.period[2] + rh), ws += comma + num(jw * s_.period[3] + rw);
                            }
        const std::string kd = num(reach[1]), kh = num(reach[2]), kw = num(reach[3]);
        t.line("constexpr int WINDOW = " + num(count) + ", POOLED_W = CHUNK_WIDTH / " + kw + ", POOLED_H = RUN_H / " + kh + ", POOLED_D = RUN_D / " + kd + ";");
        t.line("constexpr int window_px[] = {" + px + "}, window_row[] = {" + rows + "};");
        t.line("constexpr int window_d[] = {" + ds + "}, window_h[] = {" + hs + "}, window_w[] = {" + ws + "};");
        t.line("for (int k = 0; k < TURNS; k++) {");
        t.line("const int column = k * COLUMNS_AT_ONCE + lane_column;");
        t.line("const int cw = column % POOLED_W, ch = column / POOLED_W % POOLED_H, cd = column / (POOLED_W * POOLED_H) % POOLED_D, n = column / (POOLED_W * POOLED_H * POOLED_D);");
        t.line("const int h = ch * " + kh + ", d = cd * " + kd + ", w = chunk_index * CHUNK_WIDTH + cw * " + kw + ";");
        t.line("const int px = ((n * RUN_D + d) * RUN_H + h) * CHUNK_WIDTH + cw * " + kw + ";");
        t.line("const int pooled_n = first_n + n, pooled_d = (first_d + d) / " + kd + ", pooled_h = (first_h + h) / " + kh + ", pooled_w = (first_w + w) / " + kw + ";");
        t.line("const int inside = n < RUN_N && w < RUN_W && pooled_n < s.out[0] && pooled_d < s.out[1] / " + num(needs.pool[1]) + " && pooled_h < s.out[2] / " + num(needs.pool[2]) + " && pooled_w < s.out[3] / " + num(needs.pool[3]) + ";");
        t.line("for (int hb = 0; hb < BATCHES; hb++) {");
        const std::string pooled = "v" + num(program_.pool_value);
        const bool sums = program_.pool->kind == TilePool::Kind::sum;
        const Op op = program_.pool->kind == TilePool::Kind::max ? Op::amax : sums ? Op::sum : Op::amin;
        t.line("REAL " + pooled + "[BATCH][VECTOR];");
        chain_.loops({true, true});
        t.line(pooled + "[i][e] = " + identity(op) + ";");
        t.line("#pragma unroll");
        t.line("for (int j = 0; j < WINDOW; j++) {");
        t.line("const int count = inside;");
        t.line("const int pn = pooled_n, pd = pooled_d * " + num(needs.pool[1]) + " + window_d[j], ph = pooled_h * " + num(needs.pool[2]) + " + window_h[j], pw = pooled_w * " + num(needs.pool[3]) + " + window_w[j];");
        t.line("(void)count; (void)pn; (void)pd; (void)ph; (void)pw;");
        t.line("REAL " + value_ + "[BATCH][VECTOR];");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < BATCH; i++) " + value_ + "[i][0] = window_row[j] < 0 ? 0.f : chunk[(window_row[j] + CHUNK_ROW(i)) * PITCH + px + window_px[j]];");
        run(false);
        const std::string element = chain_.operand(epilogue_.graph()[program_.pool_value].args[0]);
        chain_.loops({true, true});
        t.line(pooled + "[i][e] = " + combined(op, pooled + "[i][e]", element) + ";");
        t.line("}");
        if (sums && program_.pool->scale != 1) {
            chain_.loops({true, true});
            t.line(pooled + "[i][e] *= " + literal(program_.pool->scale, epilogue_.real()) + ";");
        }
        chain_.begin_after_pool(pooled);
        t.line("const int count = inside, pn = pooled_n, pd = pooled_d, ph = pooled_h, pw = pooled_w;");
        t.line("(void)count; (void)pn; (void)pd; (void)ph; (void)pw;");
        run(true);
        sinks();
        t.line("}");
        t.line("}");
    }

    void store_pixels(size_t k) {
        const Operand& o = epilogue_.stores()[k];
        const std::string id = num(static_cast<int64_t>(k)), value = chain_.operand(o.value), type(storage_name(o.dtype));
        const Chain::Kind kind = chain_.kind(o.value);
        t.line("{");
        if (!kind.c) t.line("if (lane_column == 0) {");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < BATCH; i++) {");
        t.line("if (!VALID(i)) continue;");
        t.line(type + "* to = operands.y" + id + " + at" + id + "[i];");
        if (kind.c) {
            t.line("if (wide" + id + " && CHANNEL_OK(VECTOR - 1)) store_vector<VECTOR>(to, " + chain_.name(o.value) + (kind.x ? "[i]" : "") + ");");
            t.line("else {");
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) if (CHANNEL_OK(e)) tf_store(to + e * operands.ys" + id + ".c, " + value + ");");
            t.line("}");
        } else {
            t.line("tf_store(to, " + value + ");");
        }
        t.line("}");
        if (!kind.c) t.line("}");
        t.line("}");
    }

    void store_rows(size_t k) {
        const Operand& o = epilogue_.stores()[k];
        const std::string id = num(static_cast<int64_t>(k)), value = chain_.operand(o.value), type(storage_name(o.dtype)), ys = "operands.ys" + id;
        const Chain::Kind kind = chain_.kind(o.value);
        const std::string rows = kind.c ? "BATCH" : "1";
        t.line(kind.c ? "if (count > 0) {" : m_.neighbours ? "if (count > 0 && t < LANES_W && hb == 0) {" : "if (count > 0 && lane_row == 0 && hb == 0) {");
        t.line("const long long step = ROW_STEP * " + ys + ".c;");
        t.line(type + "* to = operands.y" + id + " + offset_of(" + ys + ", pn, " + (o.depends[1] || kind.c ? "group * COUT + CHANNEL(0)" : "0") + ", pd, ph, pw);");
        const bool apart = is_apart(o);
        if (m_.vector > 1) {
            t.line((apart ? "const bool all = wide" : "if (wide") + id + " && count == VECTOR" + (apart ? ";" : ") {"));
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < " + rows + "; i++, to += step) {");
            if (kind.c) t.line("if (!CHANNEL_OK(i)) continue;");
            std::string whole = chain_.name(o.value) + "[i]";
            if (!kind.c || !kind.x) {
                whole = "whole";
                t.line("REAL whole[VECTOR];");
                t.line("#pragma unroll");
                t.line("for (int e = 0; e < VECTOR; e++) whole[e] = " + value + ";");
            }
            t.line(apart ? "store_vector_where<VECTOR>(all, to, " + whole + ");" : "store_vector<VECTOR>(to, " + whole + ");");
            t.line("}");
            if (apart) t.line("to -= " + rows + " * step;");
            t.line(apart ? "if (!all) {" : "} else {");
        }
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < " + rows + "; i++, to += step) {");
        if (kind.c) t.line("if (!CHANNEL_OK(i)) continue;");
        t.line("#pragma unroll");
        t.line("for (int e = 0; e < VECTOR; e++) if (e == 0 || VALID(e)) tf_store(to + e * " + ys + ".w, " + value + ");");
        t.line("}");
        if (m_.vector > 1) t.line("}");
        t.line("}");
    }

    void end() {
        for (const char* macro : {"ROW", "CHUNK_ROW", "AHEAD", "CHANNEL", "CHANNEL_OK", "PN", "PD", "PH", "PW", "VALID"}) t.line(std::string("#undef ") + macro);
        t.line("barrier_arrive(shared_address(&b.chunk_empty[slot]));");
        t.line("}");
        if (epilogue_.per_tile()) statistics_.flush("tile");
        t.line("}");
        if (!epilogue_.per_tile()) statistics_.flush("blockIdx.x");
        t.line("}");
    }

    const Epilogue& epilogue_;
    const TileProgram& program_;
    const Schedule& s_;
    const Config& c_;
    const StoreMap m_;
    Lines t;
    ChunkChain chain_;
    Statistics statistics_;
    const std::string value_;   // the accumulators' name
};

}  // namespace

std::string store_role(const Epilogue& epilogue, const Schedule& schedule, const Config& config) { return StoreRole(epilogue, schedule, config).text(); }

}  // namespace transfuse::cuda
