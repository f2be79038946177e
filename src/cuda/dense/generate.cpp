#include "cuda/dense/generate.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cuda/dense/handover.h"
#include "cuda/dense/lines.h"
#include "cuda/dense/multiply.h"
#include "cuda/dense/store_map.h"
#include "cuda/dense/store_role.h"
#include "cuda/dense/to_and_fro.h"
#include "cuda/dense/turned_stores.h"
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
constexpr std::string_view lines =
#include "cuda/device/lines.cuh"
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
    const int columns = 2 * n;
    const bool tf = problem.lanes() == 4;
    const std::string type = tf ? "tf32" : problem.arithmetic == Arithmetic::f16 ? "f16" : "bf16";
    return "static __device__ __forceinline__ void product(float (&d)[" + num(n) +
           "], unsigned long long a, unsigned long long b, int accumulate) {\n#ifdef __CUDACC__\n"
           "    asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %" +
           num(n + 2) + ", 0;\\nwgmma.mma_async.sync.aligned.m64n" + num(columns) + (tf ? "k8" : "k16") + ".f32." +
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
        "enum { LOAD_PLANAR, LOAD_VECTORS, LOAD_DIRECT, LOAD_PAIRS, LOAD_SINGLES, LOAD_ROWS, LOAD_BOXES, LOAD_OPERAND" +
        std::string(problem.load == LoadMode::lines ? ", LOAD_LINES" : "") + " };");
    static const char* modes[] = {"LOAD_PLANAR", "LOAD_VECTORS", "LOAD_DIRECT",  "LOAD_PAIRS", "LOAD_SINGLES",
                                  "LOAD_ROWS",   "LOAD_BOXES",   "LOAD_OPERAND", "LOAD_LINES"};
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
    if (config.turned) place_windows(body, s);
    if (to_and_fro(problem, config, s)) go_to_and_fro(body);
    insert_before("// A position in the sequence", epilogue.prologue(s.tile[0] == 1) + "\n");
    std::string loads(problem.load == LoadMode::lines ? lines : boxes);
    if (to_and_fro(problem, config, s)) load_to_and_fro(loads);
    if (problem.boxed()) insert_before("// What the products now under way", loads);
    if (const int skew =
            chunk_skew(epilogue, s, config)) {  // by the residue of the fragment's row, as Schedule::residue_of
        const std::string row = "(to + m * 16)", segment = row + " % " + num(s.block_rows) + " / " + num(s.segment);
        const std::string residue = s.phases_w <= s.segments
                                        ? segment + " % " + num(s.phases_w)
                                        : row + " / " + num(s.block_rows * s.rows_per_plane) + " % " +
                                              num(s.planes_per_bundle) + " * " + num(s.segments) + " + " + segment;
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
    if (problem.transposed())
        m.line("for (int i = 0; i < RAW; i++) { barrier_init(shared_address(&b.raw_full[i]), " +
               std::string(problem.load == LoadMode::lines ? "LANES" : "1") +
               "); barrier_init(shared_address(&b.raw_empty[i]), TRANSPOSERS); }");
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
           (problem.load == LoadMode::lines ? "load_lines(shared, b, packed, s, xs, &boxes, operands, t);"
            : problem.boxed()               ? "load_boxes(shared, b, packed, s, &boxes, operands, t);"
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
