#include "cuda/dense/exits/store/store_role.h"

#include "cuda/dense/exits/store/store_ahead.h"
#include "cuda/dense/exits/store/store_along.h"
#include "cuda/dense/exits/store/store_values.h"
#include "cuda/dense/exits/store/store_walks.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view store_role_text =
#include "cuda/device/exits/store_role.cuh"
    ;

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
    const int64_t real_bytes = role.epilogue.real_bytes();
    role.t.constants({{"STORE_SLOTS_AT", role.epilogue.slots_at()}, {"GROUP_BYTES", role.epilogue.group_bytes()}});
    role.t.constants({{"STORE_IMAGES_AT", role.epilogue.images_at() / real_bytes}});
    role.t.constants({{"STORE_EXCHANGE_AT", role.epilogue.exchange_at() / real_bytes}});
    role.t.constants({{"WARPS_ALONG_W", m.warps_along_w}, {"NEIGHBOURS", m.neighbours}});
    role.t.line("constexpr bool RELEASES_EARLY = " + std::string(releases_early(role) ? "true;" : "false;"));
    role.t.constants({{"REAL_OUTER", role.s.real_outer}});
    role.t.line("constexpr int PITCH_W = " + std::string(role.s.run_pitch_name()) + ";");
    row_of(role);
    role.t.add(std::string(vectors_stored()));
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

// Whether whole vectors of what a tensor has along a row, or of a pixel's channels, may be read or stored.
std::string begins_on_vectors(const StoreText& role, const std::string& pointer, const std::string& strides,
                              int64_t element) {
    const bool pixel_major = role.program.pixel_major;
    // A group's channels may begin between two vectors.
    const bool between =
        pixel_major && role.epilogue.problem().groups > 1 && role.epilogue.problem().cout % role.m.vector != 0;
    const std::string size = num(element * role.m.vector), along = pixel_major ? ".c" : ".w",
                      other = pixel_major ? ".w" : ".c";
    return std::string(between ? "false && " : "") + strides + along + " == 1 && (((unsigned long long)" + pointer +
           " | " + num(element) + "ull * (" + strides + ".n | " + strides + other + " | " + strides + ".d | " +
           strides + ".h)) % " + size + ") == 0 && " + size + " <= 16";
}

std::string vectors(const StoreText& role) {
    Lines t;
    for (size_t k = 0; k < role.epilogue.stores().size(); ++k) {
        const Operand& o = role.epilogue.stores()[k];
        if (stores_whole(role, o) || role.m.along) continue;
        const std::string id = num(static_cast<int64_t>(k));
        t.line("const bool wide" + id + " = VECTOR > 1 && " +
               begins_on_vectors(role, "operands.y" + id, "operands.ys" + id, bytes(o.dtype)) + ";");
    }
    for (size_t k = 0; k < role.epilogue.reads().size(); ++k) {  // as ChunkChain::load_elements asks
        const Operand& o = role.epilogue.reads()[k];
        if (role.m.vector == 1 || role.m.along || role.epilogue.table_of(k) >= 0 ||
            role.epilogue.image_table_of(k) >= 0 || !o.depends[role.program.pixel_major ? 1 : 4])
            continue;
        const std::string id = num(static_cast<int64_t>(k));
        t.line("const bool wide_r" + id + " = " +
               begins_on_vectors(role, "operands.r" + id, "operands.rs" + id, bytes(o.dtype)) + ";");
    }
    return t.str();
}

std::string walk(StoreText& role) {
    if (role.program.pixel_major) return pixels(role);
    return role.program.pool ? windows(role) : columns(role);
}

// In which order a tile's chunks come, as the products hand them over.
std::string chunks_in_turn(const StoreText& role) {
    const std::string writers = "for (int wg = 0; wg < WRITERS; wg++)",
                      sets =
                          "for (int chunk_index = 0; chunk_index < CHUNKS; chunk_index++) for (int set = 0; set < "
                          "SETS; set++)";
    return (role.c.alternates ? sets + " " + writers : writers + " " + sets) + " {";
}

}  // namespace

std::string store_role(const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    StoreText role(epilogue, schedule, config);
    const bool ahead = reads_ahead(role), per_tile = epilogue.per_tile();
    const auto written = [&](const auto& write) { return role.written(write); };
    const std::string functions = written([&] { constants(role), macros(role); });
    Hooks hooks{{"vectors", vectors(role)},
                {"statistics", written([&] { role.statistics.begin(); })},
                {"ask ahead", written([&] {
                     if (ahead) ask_ahead(role);
                 })},
                {"images", written([&] {
                     if (epilogue.image_tables()) load_image_tables(role);
                 })},
                {"chunks", chunks_in_turn(role)},
                {"turn ahead", written([&] {
                     if (ahead) turn_ahead(role);
                 })},
                {"walk", walk(role)}};
    hooks["flush tile"] = written([&] {
        if (per_tile) role.statistics.flush("tile");
    });
    hooks["flush"] = written([&] {
        if (!per_tile) role.statistics.flush("blockIdx.x");
    });
    return functions + hooked(store_role_text, hooks);
}

}  // namespace transfuse::cuda
