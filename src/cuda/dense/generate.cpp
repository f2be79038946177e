#include "cuda/dense/generate.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cuda/dense/alike.h"
#include "cuda/dense/handover.h"
#include "cuda/dense/lines.h"
#include "cuda/dense/store_map.h"
#include "cuda/dense/store_role.h"
#include "cuda/dense/strict.h"
#include "cuda/expression.h"
#include "cuda/pull.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view ptx =
#include "cuda/device/ptx.cuh"
    ;
constexpr std::string_view hopper =
#include "cuda/device/hopper.cuh"
    ;
constexpr std::string_view portable =
#include "cuda/device/portable.cuh"
    ;
constexpr std::string_view boxes =
#include "cuda/device/boxes.cuh"
    ;
constexpr std::string_view roles =
#include "cuda/device/roles.cuh"
    ;

// One wgmma: m64nNk8 (tf32) or m64nNk16, both operands from shared memory, accumulators in registers.
std::string product_function(const Problem& problem, const Schedule& s) {
    const int n = s.accumulators;
    std::string registers, outputs;
    for (int i = 0; i < n; ++i) {
        registers += (i ? "," : "") + std::string("%") + num(i);
        outputs += (i ? "," : "") + std::string("\"+f\"(d[") + num(i) + "])";
    }
    const bool tf = problem.lanes() == 4;
    const std::string type = tf ? "tf32" : problem.arithmetic == Arithmetic::f16 ? "f16" : "bf16";
    return "static __device__ __forceinline__ void product(float (&d)[" + num(n) +
           "], unsigned long long a, unsigned long long b, int accumulate) {\n#ifdef __CUDACC__\n"
           "    asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %" +
           num(n + 2) + ", 0;\\nwgmma.mma_async.sync.aligned.m64n" + num(s.run_pixels) + (tf ? "k8" : "k16") + ".f32." +
           type + "." + type + " {" + registers + "}, %" + num(n) + ", %" + num(n + 1) + ", p, 1, 1" +
           (tf ? "" : ", 0, 0") + ";\\n}\"\n        : " + outputs +
           " : \"l\"(a), \"l\"(b), \"r\"(accumulate));\n#else\n    multiply_group<ELEMENT>(d, a, b, accumulate, "
           "[](ELEMENT e) { return tf_to<float>(e); });\n#endif\n}\n";
}

// What the roles ask of the machine: barriers, copies of weights, one product of 64 rows.
std::string machine(const Problem& problem, const Schedule& s) {
    if (problem.family == Family::wgmma) return std::string(hopper) + product_function(problem, s);
    static const char* instructions[] = {"mma_tf32", "mma_tf32", "mma_f16", "mma_bf16", "mma_f64"};
    return "#define MMA " + std::string(instructions[static_cast<int>(problem.arithmetic)]) + "\n" +
           std::string(portable);
}

// So many slabs of one accumulator's windows that the tap loop is better a loop.
bool loops(const Config& config, const Schedule& s, int variant) {
    return !config.resident && s.blocks == 1 && s.variants == 1 && !s.pairs && config.split != Split::phases &&
           s.slabs[static_cast<size_t>(variant)].size() > 7;
}

// The tap loop of every variant and warpgroup, written out: each line one window of the patch times one tile of
// weights.
std::string multiply_function(const Problem& problem, const Config& config, const Schedule& s) {
    Lines t;
    const bool shared_text = !loops(config, s, 0) && shares_text(config, s, problem.terms());
    const std::vector<int> alike_as = alike_variants(config, s, problem.terms());
    std::vector<int> begins;  // of a variant's windows in the table
    if (loops(config, s, 0) || shared_text) {
        std::string places;
        int listed = 0;
        for (const auto& lists : s.steps) {
            begins.push_back(listed);
            for (int g = 0; g < (config.split == Split::phases ? 2 : 1); ++g)
                for (const WindowStep& step : lists[static_cast<size_t>(g)])
                    places += (listed++ ? ", " : "") + num(step.pixel);
        }
        t.line("__constant__ int windows[] = {" + places + "};   // first pixel of each tap's window");
    }
    if (!are_unlike(alike_as)) {
        const auto list_of = [](const std::vector<int>& numbers) {
            std::string text;
            for (int n : numbers) text += (text.empty() ? "" : ", ") + num(n);
            return text;
        };
        t.line("__constant__ int alike_as[] = {" + list_of(alike_as) +
               "};   // the variant whose text has the same products");
        t.line("__constant__ int window_begins[] = {" + list_of(begins) + "};");
    }
    t.line(
        "template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], Totals& "
        "total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, int warpgroup, const Place& at, "
        "const Sizes& s, int& slab, int& slab_turn, Held& held) {");
    t.line("unsigned long long pixels = descriptor(patch, PLANE * 16, 128), tiles;");
    if (config.split == Split::pixels && s.run_offset) t.line("pixels += warpgroup * " + num(s.run_offset) + ";");
    t.line("(void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;");
    if (config.skips) t.line("bool met = false;");
    const bool strict = problem.terms() == 2;
    const int bodies = config.split == Split::phases ? 2 : 1;
    const bool at_once = problem.family == Family::mma;  // products are done when their instruction is: nothing is held
    StrictProducts strict_products(t, strict ? strict_terms(config, s) : 1, problem.family == Family::wgmma,
                                   static_cast<int64_t>(s.vectors) * s.plane);
    for (int v = 0; v < s.variants; ++v) {
        if (alike_as[static_cast<size_t>(v)] != v) continue;
        const bool several = std::count(alike_as.begin(), alike_as.end(), v) > 1;
        if (s.variants > 1)
            t.line((v ? "else if (" : "if (") + std::string(several ? "alike_as[at.variant]" : "at.variant") +
                   " == " + num(v) + ") {");
        for (int g = 0; g < bodies; ++g) {
            if (bodies == 2) t.line("if constexpr (WG == " + num(g) + ") {");
            if (strict && config.resident) {
                t.line("tiles = descriptor(weights + stage * (K_STEPS * OPERAND_TILES * TILE_BYTES), 1024, 128);");
                if (config.split == Split::channels) t.line("tiles += warpgroup * (TILE_BYTES / 16);");
                std::vector<StrictStep> steps;
                for (int kk = 0; kk < config.k_steps; ++kk)
                    for (const WindowStep& step : s.steps[v][static_cast<size_t>(g)])
                        steps.push_back({step.block,
                                         (static_cast<int64_t>(kk) * static_cast<int64_t>(s.tiles.size()) + step.tile) *
                                             s.tile_bytes / 16,
                                         step.pixel + 2 * kk * s.plane +
                                             (s.pairs ? (static_cast<int64_t>(step.halves) - s.plane) * (1 << 16) : 0),
                                         ""});
                t.line("products_begin();");
                strict_products(steps);
                t.line("held.stage = slot;");
                t.line("held.release(b);");
                if (bodies == 2) t.line("}");
                continue;
            }
            for (int kk = 0; kk < config.k_steps; ++kk) {
                const size_t slabs = config.resident ? 1 : s.slabs[v].size() - 1;
                if (config.resident) {
                    t.line("tiles = descriptor(weights + (stage * K_STEPS + " + num(kk) +
                           ") * (OPERAND_TILES * TILE_BYTES), 1024, 128);");
                    if (config.split == Split::channels) t.line("tiles += warpgroup * (TILE_BYTES / 16);");
                    if (kk == 0) t.line("products_begin();");
                }
                if (loops(config, s, v)) {
                    // Many taps: a loop over slabs, the windows' places in a table.
                    const int per = (s.slabs[v][1] - s.slabs[v][0]) / s.blocks_per_tile,
                              total = static_cast<int>(s.steps[v][static_cast<size_t>(g)].size());
                    t.line("for (int part = 0; part < " + num(static_cast<int64_t>(slabs)) + "; part++) {");
                    if (config.skips) t.line("if (!slab_meets(part, at, s)) continue;");
                    if (config.skips) t.line("met = true;");
                    t.line("held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);");
                    t.line("tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);");
                    if (config.split == Split::channels) t.line("tiles += warpgroup * (TILE_BYTES / 16);");
                    t.line("const int* window = windows + part * " + num(per) + ";");
                    t.line("products_begin();");
                    if (strict) {
                        auto part = [&](int count) {
                            std::vector<StrictStep> steps;
                            for (int i = 0; i < count; ++i)
                                steps.push_back({0, static_cast<int64_t>(i) * s.blocks_per_tile * s.tile_bytes / 16,
                                                 2 * kk * s.plane, "window[" + num(i) + "] + "});
                            strict_products(steps);
                        };
                        const std::string last = num(static_cast<int64_t>(slabs) - 1);
                        if (total % per != 0) t.line("if (part < " + last + ") {");
                        part(per);
                        if (total % per != 0) {
                            t.line("} else {");
                            part(total % per);
                            t.line("}");
                        }
                        t.line("held.slab = slab;");
                        if (kk == config.k_steps - 1 && !config.skips)
                            t.line("if (part == " + last + ") held.stage = slot;");
                        t.line("held.release(b);");
                        t.line("if (++slab == SLABS) { slab = 0; slab_turn++; }");
                        t.line("}");
                        continue;
                    }
                    for (int i = 0; i < per; ++i) {
                        if (total % per != 0 && i >= total % per)
                            t.line("if (part < " + num(static_cast<int64_t>(slabs) - 1) + ")");
                        t.line("{");
                        const int64_t a = static_cast<int64_t>(i) * s.blocks_per_tile * s.tile_bytes / 16;
                        const std::string at = "pixels + (window[" + num(i) + "] + " + num(2 * kk * s.plane);
                        t.line("product(acc[0], tiles + " + num(a) + "ll, " + at + "), " +
                               (i > 0 || kk > 0 || config.skips ? "1" : "stage + part > 0") + ");");
                        t.line("}");
                    }
                    t.line("products_commit();");
                    t.line("products_wait<1>();");
                    t.line("held.release(b);");
                    t.line("held.slab = slab;");
                    if (kk == config.k_steps - 1 && !config.skips)
                        t.line("if (part == " + num(static_cast<int64_t>(slabs) - 1) + ") held.stage = slot;");
                    if (at_once) t.line("held.release(b);");
                    t.line("if (++slab == SLABS) { slab = 0; slab_turn++; }");
                    t.line("}");
                    continue;
                }
                const auto& all_steps = s.steps[v][static_cast<size_t>(g)];
                for (size_t slab = 0, alike = 1; slab < slabs; slab += alike) {
                    const int begin = config.resident ? 0 : s.slabs[v][slab],
                              end = config.resident ? 1 << 30 : s.slabs[v][slab + 1];
                    const auto shape = shape_of(all_steps, begin, end);
                    alike = 1;
                    while (shared_text && slab + alike + 1 < slabs &&
                           shape_of(all_steps, s.slabs[v][slab + alike], s.slabs[v][slab + alike + 1]) == shape)
                        ++alike;  // the last is apart: it ends the stage
                    const bool tabled = alike > 1 || several;
                    if (tabled) {
                        const auto before = std::find_if(all_steps.begin(), all_steps.end(),
                                                         [&](const WindowStep& step) { return step.tile >= begin; }) -
                                            all_steps.begin() + (g ? s.steps[v][0].size() : 0);
                        const std::string from = several ? "window_begins[at.variant] + " + num(before)
                                                         : num(begins[static_cast<size_t>(v)] + before);
                        t.line(alike > 1
                                   ? "for (int part = 0; part < " + num(static_cast<int64_t>(alike)) + "; part++) {"
                                   : "{");
                        t.line("const int* window = windows + " + from +
                               (alike > 1 ? " + part * " + num(static_cast<int64_t>(shape.size())) : "") + ";");
                    }
                    if (config.skips)
                        t.line("if (slab_meets(" + num(static_cast<int64_t>(slab)) + (alike > 1 ? " + part" : "") +
                               ", at, s)) {"),
                            t.line("met = true;");
                    if (!config.resident) {
                        t.line("held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);");
                        t.line("tiles = descriptor(weights + slab * SLAB_BYTES, 1024, 128);");
                        if (config.split == Split::channels) t.line("tiles += warpgroup * (TILE_BYTES / 16);");
                        t.line("products_begin();");
                    }
                    const bool last = kk == config.k_steps - 1 && slab + 1 == slabs && !config.skips;
                    std::vector<StrictStep> steps;
                    int nth = 0;
                    for (const WindowStep& step : all_steps) {
                        if (step.tile < begin || step.tile >= end) continue;
                        const std::string place = tabled ? "window[" + num(nth++) + "] + " : "";
                        const int64_t a = static_cast<int64_t>(step.tile - begin) * s.tile_bytes / 16;
                        // Two taps in the K halves: the second window lies `halves` pixels after the first.
                        const int64_t high = s.pairs ? (static_cast<int64_t>(step.halves) - s.plane) * (1 << 16) : 0;
                        const int64_t p = (tabled ? 0 : step.pixel) + 2 * kk * s.plane + high;
                        if (strict)
                            steps.push_back({step.block, a, p, place});
                        else
                            t.line("product(acc[" + num(step.block) + "], tiles + " + num(a) + "ll, pixels + " + place +
                                   num(p) + "ll, " + (!step.first || kk > 0 || config.skips ? "1" : "stage > 0") +
                                   ");");
                    }
                    if (strict) {
                        strict_products(steps);
                        t.line("held.slab = slab;");
                        if (last) t.line("held.stage = slot;");
                        t.line("held.release(b);");
                        t.line("if (++slab == SLABS) { slab = 0; slab_turn++; }");
                        if (config.skips) t.line("}");
                        if (tabled) t.line("}");
                        continue;
                    }
                    if (!config.resident || last) {
                        t.line("products_commit();");
                        t.line("products_wait<1>();");
                        t.line("held.release(b);");
                    }
                    if (last) t.line("held.stage = slot;");
                    if (!config.resident) {
                        t.line("held.slab = slab;");
                        if (at_once) t.line("held.release(b);");
                        t.line("if (++slab == SLABS) { slab = 0; slab_turn++; }");
                    } else if (last && at_once) {
                        t.line("held.release(b);");
                    }
                    if (config.skips) t.line("}");
                    if (tabled) t.line("}");
                }
            }
            if (bodies == 2) t.line("}");
        }
        if (s.variants > 1) t.line("}");
    }
    if (config.skips) {
        // The stage goes with the last products, whichever they were; without any it goes at once.
        t.line("if (!met) held.release(b);");
        t.line("held.stage = slot;");
        if (strict || at_once) t.line("held.release(b);");
    }
    t.line("}");
    return t.str();
}

}  // namespace

std::string_view element_name(Arithmetic a) {
    return a == Arithmetic::f16    ? "tf_half"
           : a == Arithmetic::bf16 ? "tf_bfloat"
           : a == Arithmetic::f64  ? "double"
                                   : "float";
}

std::string dense_source(const std::string& entry, const Problem& problem, const Config& config, const Schedule& s,
                         const Epilogue& epilogue) {
    Lines t;
    t.line("// Dense tiles: " + to_string(config));
    for (int a = 1; a < 4; ++a)
        t.line("//   axis " +
               std::string(a == 1   ? "d"
                           : a == 2 ? "h"
                                    : "w") +
               ": period " + num(s.period[a]) + " advance " + num(s.advance[a]) + " taps " + num(problem.axes[a].taps));
    const bool rounded = problem.arithmetic != Arithmetic::strict && problem.arithmetic != Arithmetic::f64;
    std::string head =
        std::string("#define TF_AFTER_PRODUCT\n") + (rounded ? "#define TF_ROUNDED_PRODUCT\n" : "") +
        (rounded && problem.family == Family::wgmma ? "#ifdef __CUDACC_RTC__\n#define TF_TANH_INSTRUCTION\n#endif\n"
                                                    : "") +
        std::string(device_math()) + sequence_code() + std::string(ptx) + t.str();
    Lines k;
    auto constant = [&](const std::string& name, int64_t v) { k.line("constexpr int " + name + " = " + num(v) + ";"); };
    constant("STORE_GROUPS", config.store_groups), constant("THREADS", config.threads()), constant("LOADERS", 128);
    constant("CIN", problem.cin), constant("COUT", problem.cout), constant("GROUPS", problem.groups);
    constant("MGROUPS", s.m_groups), constant("BLOCKS_PER_TILE", s.blocks_per_tile);
    constant("FIXED", s.fixed), constant("VARIANTS", s.variants), constant("PARTS", s.fixed * s.variants);
    static const char* axis[4] = {"N", "D", "H", "W"};
    for (size_t a = 0; a < 4; ++a) {
        const std::string x = axis[a];
        constant("TILE_" + x, s.tile[a]), constant("RUN_" + x, config.run[a]), constant("EXTENT_" + x, s.extent[a]);
        constant("FIRST_" + x, s.first[a]), constant("ADVANCE_" + x, s.advance[a]),
            constant("PERIOD_" + x, s.period[a]);
        constant("SECOND_" + x, config.runs[a] > 1 ? config.run[a] : 0);
    }
    constant("PIXELS", s.pixels), constant("RAW_PIXELS", s.raw_pixels),
        constant("IN_W", config.flat ? problem.axes[3].in : 1), constant("PLANE", s.plane),
        constant("RUN_PIXELS", s.run_pixels);
    constant("LANES", problem.lanes()), constant("VECTORS", s.vectors), constant("TERMS", problem.terms());
    constant("STAGE_CHANNELS", s.vectors * problem.lanes()), constant("KSTAGES", s.k_stages),
        constant("K_STEPS", config.k_steps), constant("KSTEPS", s.k_steps(config));
    constant("STAGES", config.stages), constant("RAW", config.raw), constant("PIECE", config.piece),
        constant("PIECES", s.pieces);
    constant("SLABS", config.resident ? 1 : config.slabs), constant("SLAB_BYTES", s.slab_bytes),
        constant("TILE_BYTES", s.tile_bytes), constant("OPERAND_TILES", static_cast<int64_t>(s.tiles.size()));
    constant("BUFFERS", config.buffers), constant("CHUNKS", s.chunk_count), constant("CHUNK_WIDTH", config.chunk_width),
        constant("CHUNK_ROWS", s.chunk_rows), constant("ROW_LENGTH", s.row_length);
    constant("SETS", s.sets), constant("PLANES", s.planes), constant("ROWS_PER_PLANE", s.rows_per_plane),
        constant("ROWS_PER_GROUP", s.rows_per_group), constant("BLOCK_ROWS", s.block_rows);
    constant("PITCH", s.pitch), constant("BLOCKS", s.blocks), constant("ACCUMULATORS", s.accumulators);
    constant("STAGE_BYTES", s.stage_bytes), constant("RAW_BYTES", s.raw_bytes), constant("CHUNK_BYTES", s.chunk_bytes);
    constant("WEIGHTS_AT", s.weights_at), constant("STAGES_AT", s.stages_at), constant("RAW_AT", s.raw_at),
        constant("CHUNKS_AT", s.chunks_at), constant("AHEAD_AT", s.ahead_at), constant("AHEAD_BYTES", s.ahead_bytes),
        constant("TABLES_AT", s.tables_at), constant("PLACES_AT", s.places_at);
    constant("HELD_VALUES",
             config.store_groups > 1 || problem.lanes() == 8 ? 16 : 32);  // raw values a load thread holds
    auto flag = [&](const std::string& name, bool v) {
        k.line("constexpr bool " + name + (v ? " = true;" : " = false;"));
    };
    flag("RESIDENT", config.resident), flag("JOINT", s.joint), flag("SPLIT_CHANNELS", config.split == Split::channels);
    flag("PIXEL_MAJOR", s.pixel_major), flag("FLAT", config.flat);
    flag("REDUCED", epilogue.program().handed >= 0);
    k.line(
        "enum { LOAD_PLANAR, LOAD_VECTORS, LOAD_DIRECT, LOAD_PAIRS, LOAD_SINGLES, LOAD_ROWS, LOAD_BOXES, LOAD_OPERAND "
        "};");
    static const char* modes[] = {"LOAD_PLANAR",  "LOAD_VECTORS", "LOAD_DIRECT", "LOAD_PAIRS",
                                  "LOAD_SINGLES", "LOAD_ROWS",    "LOAD_BOXES",  "LOAD_OPERAND"};
    k.line("constexpr int LOAD = " + std::string(modes[static_cast<int>(problem.load)]) + ";");
    k.line("typedef " + std::string(element_name(problem.arithmetic)) + " ELEMENT;");
    k.line(std::string("typedef ") + (problem.real_bytes() == 8 ? "double" : "float") + " REAL;");
    k.line(std::string("typedef ") + (problem.wide_offsets ? "long long" : "int") + " OFFSET;");
    std::string list;
    for (int start : s.chunk_row_start) list += (list.empty() ? "" : ", ") + num(start);
    k.line("static __device__ __forceinline__ constexpr int chunk_row_start(int r) { constexpr int start[] = {" + list +
           "}; return start[r]; }");
    std::string firsts, counts, begins;
    int at = 0;
    for (const auto& slabs : s.slabs) {
        begins += (begins.empty() ? "" : ", ") + num(at),
            counts += (counts.empty() ? "" : ", ") + num(static_cast<int64_t>(slabs.size()) - 1);
        for (int first : slabs) firsts += (firsts.empty() ? "" : ", ") + num(first), ++at;
    }
    if (s.variants == 1) {
        const auto& one = s.slabs[0];
        k.line("static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * " +
               num(one.size() > 2 ? one[1] - one[0] : one.back() - one[0]) + ", " + num(one.back()) + "); }");
        k.line("static __device__ __forceinline__ int slab_count(int) { return " +
               num(static_cast<int64_t>(one.size()) - 1) + "; }");
    } else {
        k.line("__constant__ int slab_firsts[] = {" + firsts + "}, slab_begins[] = {" + begins +
               "}, slab_counts[] = {" + counts + "};");
        k.line(
            "static __device__ __forceinline__ int slab_first(int variant, int slab) { return "
            "slab_firsts[slab_begins[variant] + slab]; }");
        k.line("static __device__ __forceinline__ int slab_count(int variant) { return slab_counts[variant]; }");
    }

    flag("SKIPS", config.skips);
    if (config.skips) {
        std::string reaches;
        for (const auto& slabs : s.slabs)
            for (size_t i = 0; i < slabs.size(); ++i) {
                const auto reach = s.reach_of(slabs[i], i + 1 < slabs.size() ? slabs[i + 1] : slabs[i]);
                reaches += (reaches.empty() ? "" : ", ") + num(reach[0].first) + ", " + num(reach[0].last) + ", " +
                           num(reach[1].first) + ", " + num(reach[1].last);
            }
        k.line("__constant__ int slab_reaches[] = {" + reaches + "};   // first and last shift along d, along h");
        k.line(
            "static __device__ __forceinline__ const int* slab_reach(int variant, int slab) { return slab_reaches + 4 "
            "* (" +
            std::string(s.variants > 1 ? "slab_begins[variant] + " : "") + "slab); }");
    } else {
        k.line("static __device__ __forceinline__ const int* slab_reach(int, int) { return nullptr; }");
    }

    // The roles' text names Operands, prologue and multiply before they can be written: place them where their types
    // exist.
    std::string body(roles);
    auto insert_before = [&](std::string_view mark, const std::string& text) { body.insert(body.find(mark), text); };
    insert_before("// Where a tile lies", epilogue.operands() + "\n");
    insert_before("// A position in the sequence", epilogue.prologue(s.tile[0] == 1) + "\n");
    if (problem.boxed()) insert_before("// What the products now under way", std::string(boxes));
    if (const int skew =
            chunk_skew(epilogue, s, config)) {  // by the residue of the fragment's row, as Schedule::residue_of
        const std::string row = "(to + m * 16)", segment = row + " % " + num(s.block_rows) + " / " + num(s.segment);
        const std::string residue = s.phases_w <= s.segments
                                        ? segment + " % " + num(s.phases_w)
                                        : row + " / " + num(s.block_rows) + " % " + num(s.planes_per_bundle) + " * " +
                                              num(s.segments) + " + " + segment;
        insert_before(", a + (m * (ACCUMULATORS", " ^ (" + residue + ") * " + num(skew));
    }
    insert_before("// Product role:",
                  multiply_function(problem, config, s) + fragment_program(epilogue, s, config) + "\n");

    Lines m;
    m.line("extern \"C\" __global__ void __launch_bounds__(THREADS, 1) " + entry +
           "(const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed, Sizes s, Strides xs" +
           epilogue.parameters() + (problem.boxed() ? ", const __grid_constant__ TensorMap boxes" : "") + ") {");
    m.line("extern __shared__ __align__(1024) unsigned char shared[];");
    m.line("__shared__ Barriers b;");
    m.line("const int t = threadIdx.x;");
    m.line(epilogue.operands_made());
    m.line("if (t == 0) {");
    m.line("for (int i = 0; i < STAGES; i++) { barrier_init(shared_address(&b.full[i]), " +
           std::string(problem.load == LoadMode::operand ? "1"
                       : problem.boxed()                 ? "TRANSPOSERS"
                                                         : "LOADERS") +
           "); barrier_init(shared_address(&b.empty[i]), 256); }");
    m.line(
        "for (int i = 0; i < SLABS; i++) { barrier_init(shared_address(&b.weights_full[i]), FETCHERS); "
        "barrier_init(shared_address(&b.weights_empty[i]), 256); }");
    m.line(
        "for (int i = 0; i < BUFFERS; i++) { barrier_init(shared_address(&b.chunk_full[i]), JOINT ? 256 : 128); "
        "barrier_init(shared_address(&b.chunk_empty[i]), 128); }");
    if (problem.load == LoadMode::boxes)
        m.line(
            "for (int i = 0; i < RAW; i++) { barrier_init(shared_address(&b.raw_full[i]), 1); "
            "barrier_init(shared_address(&b.raw_empty[i]), TRANSPOSERS); }");
    m.line("barrier_fence();");
    m.line("}");
    if (config.flat) {
        m.line(
            "for (int i = t; i < STAGES * STAGE_BYTES / 16; i += THREADS) *(uint4*)(shared + STAGES_AT + i * 16) = "
            "make_uint4(0, 0, 0, 0);   // beside and between the rows zeros stay");
        m.line("fence_proxy();");
    } else if (s.tail > 0) {
        m.line(
            "for (int i = t; i < STAGES * VECTORS * TERMS * (PLANE - PIXELS); i += THREADS)   // zeros after the last "
            "row; nobody writes there again");
        const bool apart = s.stage_bytes != s.vectors * problem.terms() * s.plane * 16;
        m.line(
            std::string(
                "*(uint4*)(shared + STAGES_AT + (i / (PLANE - PIXELS) * PLANE + PIXELS + i % (PLANE - PIXELS)) * 16") +
            (apart ? " + i / ((PLANE - PIXELS) * VECTORS * TERMS) * (STAGE_BYTES - VECTORS * TERMS * PLANE * 16)"
                   : "") +
            ") = make_uint4(0, 0, 0, 0);");
        m.line("fence_proxy();");
    }
    // What lies before this touches no memory of others: it runs while the kernel before ends.
    m.line("TF_SEQUENCE();");
    std::string tables = epilogue.tables();
    m.line("%TABLES%");
    m.line("__syncthreads();");
    m.line("const int role = __shfl_sync(~0u, t / 128, 0);");
    m.line("if (role == 0) { registers_give<" + num(config.load_registers) + ">(); " +
           (problem.boxed() ? "load_boxes(shared, b, packed, s, xs, &boxes, operands, t);"
                            : "load_role(shared, b, x, packed, s, xs, operands, t);") +
           " }");
    if (config.store_groups > 0)
        m.line("else if (role <= STORE_GROUPS) { registers_give<" + num(config.store_registers) +
               ">(); store_role(shared, b, s, operands, role - 1, t % 128); }");
    const std::string products = "{ registers_take<" + num(config.product_registers) + ">(); product_role<",
                      given = ">(shared, b, s, operands, ";
    if (config.split == Split::phases) {  // each warpgroup has products of its own
        m.line("else if (role == STORE_GROUPS + 1) " + products + "0" + given + "0, t % 128); }");
        m.line("else if (role == STORE_GROUPS + 2) " + products + "1" + given + "1, t % 128); }");
    } else {  // one text for both: half to compile, half to fetch
        m.line("else " + products + "0" + given + "role - STORE_GROUPS - 1, t % 128); }");
    }
    m.line("}");
    std::string main = m.str();
    main.replace(main.find("    %TABLES%\n"), 13, tables);
    return head + k.str() + machine(problem, s) + body +
           (config.store_groups > 0 ? store_role(epilogue, s, config) + "\n" : "") + main;
}

}  // namespace transfuse::cuda
