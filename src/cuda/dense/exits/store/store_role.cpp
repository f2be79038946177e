#include "cuda/dense/exits/store/store_role.h"

#include "cuda/dense/exits/store/store_ahead.h"
#include "cuda/dense/exits/store/store_along.h"
#include "cuda/dense/exits/store/store_values.h"
#include "cuda/dense/exits/store/store_walks.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

void row_of(StoreText& role) {
    role.t.line("// The first row of a phase in the chunk, −1 where it has no taps.");
    role.t.line("static __device__ __forceinline__ constexpr int row_of(int outer, int w) {");
    bool affine = true;
    const int step = role.s.phases_w > 1 ? role.s.row_of(0, 1) - role.s.row_of(0, 0) : 0,
              jump = role.s.real_outer > 1 ? role.s.row_of(1, 0) - role.s.row_of(0, 0) : 0;
    for (int q = 0; q < role.s.real_outer; ++q)
        for (int w = 0; w < role.s.phases_w; ++w)
            affine = affine && role.s.row_of(q, w) >= 0 && role.s.row_of(q, w) == q * jump + w * step;
    if (affine) {
        role.t.line("return outer < " + num(role.s.real_outer) + " ? outer * " + num(jump) + " + w * " + num(step) +
                    " : -1;");
    } else {
        for (int q = 0; q < role.s.real_outer; ++q)
            for (int w = 0; w < role.s.phases_w; ++w)
                if (role.s.row_of(q, w) >= 0)
                    role.t.line("if (outer == " + num(q) + " && w == " + num(w) + ") return " +
                                num(role.s.row_of(q, w)) + ";");
        role.t.line("return -1;");
    }
    role.t.line("}");
}

void constants(StoreText& role) {
    const StoreMap& m = role.m;
    role.t.constants({{"VECTOR", m.vector}, {"VECTOR_PIXELS", m.pixels}, {"LANES_W", m.lanes}, {"ROWS", m.rows}});
    role.t.constants({{"TURNS", m.turns}, {"PHASE_CHANNELS", m.channels}, {"ITEMS", m.items}, {"BATCH", m.batch}});
    role.t.constants({{"BATCHES", (m.items + m.batch - 1) / m.batch}});
    // Channels from one of a thread's rows to the next.
    role.t.constants({{"ROW_STEP", m.neighbours ? 1 : m.rows}});
    role.t.constants(
        {{"WRITERS", role.s.joint ? 1 : 2}, {"CHUNK_OUTER", role.s.chunk_outer}, {"PHASES_W", role.s.phases_w}});
    std::vector<int> codes;
    for (const auto& sets : role.s.phase_table)
        for (const auto& list : sets)
            for (const ChunkPhase& phase : list) codes.push_back(phase.code());
    role.t.line("__constant__ int phase_codes[" +
                num(static_cast<int64_t>(role.s.phase_table.size()) * role.s.sets * role.s.chunk_outer) + "] = {" +
                listed(codes) + "};   // residues: along d * 65536 + h * 256 + the first along w");
    row_of(role);
    store_helpers(role);
    int64_t together = 4;  // channels of a table read at once
    while (!role.m.neighbours || role.epilogue.channels() % together || role.epilogue.problem().cout % together ||
           role.m.items % together || role.m.batch % together)
        if ((together /= 2) == 1) break;
    role.t.line("// A table's entries for the thread's rows.");
    role.t.line("static __device__ __forceinline__ void load_rows(REAL (&r)[BATCH], const REAL* from) {");
    if (together > 1)
        role.t.unrolled("for (int i = 0; i < BATCH; i += " + num(together) + ") *(tf_vector<REAL, " + num(together) +
                        ">*)(r + i) = *(const tf_vector<REAL, " + num(together) + ">*)(from + i);");
    else
        role.t.unrolled("for (int i = 0; i < BATCH; i++) r[i] = from[i * ROW_STEP];");
    role.t.line("}");
    role.t.blank();
}

void macros(StoreText& role) {
    if (!role.program.pixel_major) {
        const bool exact = role.epilogue.problem().cout % 64 == 0 &&
                           role.s.channel_blocks % role.s.blocks_per_tile == 0 &&
                           role.m.items * role.m.rows == role.m.channels;
        role.t.line("#define ROW(i) (lane_row + (hb * BATCH + (i)) * ROW_STEP)");
        // Threads beyond the last channel read what others read.
        role.t.line(role.m.items * role.m.rows == role.m.channels
                        ? "#define CHUNK_ROW(i) ROW(i)"
                        : "#define CHUNK_ROW(i) min(ROW(i), PHASE_CHANNELS - 1)");
        role.t.line("#define CHANNEL(i) (first_channel + ROW(i))");
        role.t.line("#define AHEAD(k, q, i) ((((k * CHUNK_OUTER + q) * BATCHES + hb) * BATCH + (i)) * 128 + t)");
        role.t.line(
            exact ? "#define CHANNEL_OK(i) (ITEMS % BATCH == 0 || hb * BATCH + (i) < ITEMS)"
                  : "#define CHANNEL_OK(i) (hb * BATCH + (i) < ITEMS && ROW(i) < PHASE_CHANNELS && CHANNEL(i) < COUT)");
        if (role.m.along) return along_macros(role);
        role.t.line("#define PN(e) ((long long)pn)");
        role.t.line("#define PD(e) ((long long)pd)");
        role.t.line("#define PH(e) ((long long)ph)");
        role.t.line("#define PW(e) ((long long)(pw + (e)))");
        role.t.line("#define VALID(e) ((e) < count)");
    } else {
        role.t.line("#define CHANNEL(e) (first_channel + lane_column * VECTOR + (e))");
        role.t.line("#define CHANNEL_OK(e) (lane_column * VECTOR + (e) < PHASE_CHANNELS && CHANNEL(e) < COUT)");
        role.t.line("#define PN(i) ((long long)pn[i])");
        role.t.line("#define PD(i) ((long long)pd[i])");
        role.t.line("#define PH(i) ((long long)ph[i])");
        role.t.line("#define PW(i) ((long long)pw[i])");
        role.t.line("#define VALID(i) ok[i]");
    }
}

void load_image_tables(StoreText& role) {
    const std::string channels = num(role.epilogue.channels());
    role.t.line("if (at.u[0] != image) {");
    role.t.line("image = at.u[0];");
    role.t.line("barrier_named(2 + store_group, 128);");
    role.t.line("for (int c = t; c < " + channels + "; c += 128) {");
    for (size_t k = 0; k < role.epilogue.reads().size(); ++k) {
        if (role.epilogue.image_table_of(k) < 0) continue;
        const std::string id = num(static_cast<int64_t>(k));
        role.t.line("image_table[" + num(role.epilogue.image_table_of(k) * role.epilogue.channels()) +
                    " + c] = tf_load<REAL>(operands.r" + id + " + (image * operands.rs" + id + ".n + c * operands.rs" +
                    id + ".c));");
    }
    role.t.line("}");
    role.t.line("barrier_named(2 + store_group, 128);");
    role.t.line("}");
}

// From the role's beginning into the loop over chunks.
void begin(StoreText& role) {
    const bool pm = role.program.pixel_major;
    role.t.line(
        "// Store role: takes chunks of accumulators, runs the tile program, writes, while the next tile's products "
        "run.");
    role.t.line(
        "static __device__ void store_role(unsigned char* shared, Barriers& b, const Sizes& s, const Operands& "
        "operands, int store_group, int t) {");
    role.t.line("const REAL* table = (const REAL*)(shared + TABLES_AT);");
    role.t.line("REAL* slots = (REAL*)(shared + TABLES_AT + " + num(role.epilogue.slots_at()) + " + store_group * " +
                num(role.epilogue.group_bytes()) + ");");
    role.t.line("REAL* image_table = slots + " + num(role.epilogue.images_at() / role.epilogue.real_bytes()) + ";");
    role.t.line("REAL* exchange = slots + " + num(role.epilogue.exchange_at() / role.epilogue.real_bytes()) + ";");
    role.t.line("int exchange_turn = 0;");
    if (role.m.warps_along_w)
        role.t.line("const int lane_column = t / 32 * LANES_W + t % LANES_W, lane_row = t % 32 / LANES_W;");
    else
        role.t.line("const int lane_column = t % LANES_W, lane_row = t / LANES_W" +
                    std::string(role.m.neighbours ? " * ITEMS;" : ";"));
    role.t.line(std::string("constexpr int COLUMNS_AT_ONCE = ") + (role.m.warps_along_w ? "4 * " : "") + "LANES_W;");
    role.t.line("(void)table, (void)slots, (void)image_table, (void)exchange, (void)exchange_turn;");
    // A group's channels may begin between two vectors.
    const std::string begins =
        pm && role.epilogue.problem().groups > 1 && role.epilogue.problem().cout % role.m.vector ? "false && " : "";
    for (size_t k = 0; k < role.epilogue.stores().size(); ++k) {
        const Operand& o = role.epilogue.stores()[k];
        if (stores_whole(role, o) || role.m.along) continue;
        const std::string id = num(static_cast<int64_t>(k)), size = num(bytes(o.dtype) * role.m.vector),
                          ys = "operands.ys" + id;
        role.t.line("const bool wide" + id + " = " + begins + "VECTOR > 1 && " +
                    (pm ? ys + ".c == 1 && " : ys + ".w == 1 && ") + "(((unsigned long long)operands.y" + id + " | " +
                    num(bytes(o.dtype)) + "ull * (" + ys + ".n | " + (pm ? ys + ".w" : ys + ".c") + " | " + ys +
                    ".d | " + ys + ".h)) % " + size + ") == 0 && " + size + " <= 16;");
    }
    for (size_t k = 0; k < role.epilogue.reads().size(); ++k) {  // as ChunkChain::load_elements asks
        const Operand& o = role.epilogue.reads()[k];
        if (role.m.vector == 1 || role.m.along || role.epilogue.table_of(k) >= 0 ||
            role.epilogue.image_table_of(k) >= 0 || !(pm ? o.depends[1] : o.depends[4]))
            continue;
        const std::string id = num(static_cast<int64_t>(k)), size = num(bytes(o.dtype) * role.m.vector),
                          rs = "operands.rs" + id;
        role.t.line("const bool wide_r" + id + " = " + begins + rs + (pm ? ".c" : ".w") +
                    " == 1 && (((unsigned long long)operands.r" + id + " | " + num(bytes(o.dtype)) + "ull * (" + rs +
                    ".n | " + rs + (pm ? ".w" : ".c") + " | " + rs + ".d | " + rs + ".h)) % " + size + ") == 0 && " +
                    size + " <= 16;");
    }
    role.statistics.begin();
    if (reads_ahead(role)) ask_ahead(role);
    role.t.line("int next[2] = {0, BUFFERS_0}, turns[2] = {0, 0}, taken = 0;   // each warpgroup's buffers");
    if (role.epilogue.image_tables()) role.t.line("int image = -1;");
    role.t.line("for (int tile = blockIdx.x; tile < s.total; tile = next_tile(tile)) {");
    tile_place(role);
    if (role.epilogue.image_tables()) load_image_tables(role);
    const std::string writers = "for (int wg = 0; wg < WRITERS; wg++)";
    if (!role.c.alternates) role.t.line(writers);
    role.t.line("for (int chunk_index = 0; chunk_index < CHUNKS; chunk_index++)");
    role.t.line(std::string("for (int set = 0; set < SETS; set++)") + (role.c.alternates ? "" : " {"));
    if (role.c.alternates) role.t.line(writers + " {");
    role.t.line("const int slot = wg ? next[1] : next[0], turn = wg ? turns[1] : turns[0];");
    role.t.line("if (wg) { if (++next[1] == BUFFERS) { next[1] = BUFFERS_0; turns[1]++; } }");
    role.t.line("else if (++next[0] == BUFFERS_0) { next[0] = 0; turns[0]++; }");
    role.t.line("if (STORE_GROUPS > 1 && taken++ % STORE_GROUPS != store_group) continue;");
    if (reads_ahead(role)) turn_ahead(role);
    role.t.line("barrier_wait(shared_address(&b.chunk_full[slot]), turn & 1);");
    role.t.line("const REAL* chunk = (const REAL*)(shared + CHUNKS_AT + slot * CHUNK_BYTES);");
    chunk_place(role);
}

void end(StoreText& role) {
    for (const char* macro : {"ROW", "CHUNK_ROW", "AHEAD", "CHANNEL", "CHANNEL_OK", "PN", "PD", "PH", "PW", "VALID"})
        role.t.line(std::string("#undef ") + macro);
    if (!releases_early(role)) role.t.line("barrier_arrive(shared_address(&b.chunk_empty[slot]));");
    role.t.line("}");
    if (role.epilogue.per_tile()) role.statistics.flush("tile");
    role.t.line("}");
    if (!role.epilogue.per_tile()) role.statistics.flush("blockIdx.x");
    role.t.line("}");
}

}  // namespace

std::string store_role(const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    StoreText role(epilogue, schedule, config);
    constants(role);
    macros(role);
    begin(role);
    if (role.program.pixel_major)
        pixels(role);
    else if (role.program.pool)
        windows(role);
    else
        columns(role);
    end(role);
    return role.t.str();
}

}  // namespace transfuse::cuda
