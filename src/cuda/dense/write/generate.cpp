#include "cuda/dense/write/generate.h"

#include <string_view>

#include "cuda/dense/exits/accumulators/added_tensors.h"
#include "cuda/dense/exits/handover.h"
#include "cuda/dense/exits/store/store_map.h"
#include "cuda/dense/exits/store/store_role.h"
#include "cuda/dense/exits/swap_ab/swap_ab_stores.h"
#include "cuda/dense/schedule/serpentine.h"
#include "cuda/dense/write/constants.h"
#include "cuda/dense/write/multiply.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"
#include "cuda/kernel/lines.h"
#include "cuda/kernel/numbered.h"
#include "cuda/kernel/warpgroup_code.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view portable =
#include "cuda/device/machine/portable.cuh"
    ;
constexpr std::string_view sizes =
#include "cuda/device/roles/sizes.cuh"
    ;
constexpr std::string_view places =
#include "cuda/device/roles/places.cuh"
    ;
constexpr std::string_view patches =
#include "cuda/device/roles/patches.cuh"
    ;
constexpr std::string_view load_role =
#include "cuda/device/roles/load_role.cuh"
    ;
constexpr std::string_view boxes =
#include "cuda/device/roles/boxes.cuh"
    ;
constexpr std::string_view unaligned_rows =
#include "cuda/device/roles/unaligned_rows.cuh"
    ;
constexpr std::string_view vector_boxes =
#include "cuda/device/roles/vector_boxes.cuh"
    ;
constexpr std::string_view transposers =
#include "cuda/device/roles/transposers.cuh"
    ;
constexpr std::string_view products =
#include "cuda/device/roles/products.cuh"
    ;
constexpr std::string_view folds =
#include "cuda/device/exits/folds.cuh"
    ;
constexpr std::string_view product_role =
#include "cuda/device/roles/product_role.cuh"
    ;

// What the roles ask of the machine: barriers, copies of weights, one product of 64 rows.
std::string machine(const Problem& problem, const Schedule& s) {
    const Arithmetic a = problem.arithmetic;
    if (problem.family == Family::wgmma)
        return warpgroup_code(a == Arithmetic::f16    ? "f16"
                              : a == Arithmetic::bf16 ? "bf16"
                                                      : "tf32",
                              s.accumulators, LeftFactor::shared);
    static const char* instructions[] = {"mma_tf32", "mma_tf32", "mma_f16", "mma_bf16", "mma_f64"};
    return "#define MMA " + std::string(instructions[static_cast<int>(a)]) + "\n" + std::string(portable);
}

// What every kernel of the pass may call, and a note of what this one is. Behind a reduction over channels (shares of a
// softmax) the products' rounding has become small, and an instruction's error would stand out.
std::string head(const Problem& problem, const Config& config, const Schedule& s, const TileProgram& program) {
    Lines t;
    t.line("// Dense tiles: " + to_string(config));
    static const char* axis[4] = {"n", "d", "h", "w"};
    for (size_t a = 1; a < 4; ++a)
        t.line("//   axis " + std::string(axis[a]) + ": period " + num(s.period[a]) + " advance " + num(s.advance[a]) +
               " taps " + num(problem.axes[a].taps));
    const bool rounded = problem.arithmetic != Arithmetic::strict && problem.arithmetic != Arithmetic::f64;
    const bool instruction = rounded && problem.family == Family::wgmma && !program.channel_reductions;
    return std::string("#define TF_AFTER_PRODUCT\n") + (rounded ? "#define TF_ROUNDED_PRODUCT\n" : "") +
           (instruction ? "#ifdef __CUDACC_RTC__\n#define TF_TANH_INSTRUCTION\n#endif\n" : "") +
           std::string(device_math()).append(sequence_code()).append(ptx_code()) + t.str();
}

// Where a tile lies, as the configuration cuts the work.
std::string tile_places(const Problem& problem, const Config& config, const Schedule& s) {
    Hooks hooks;
    if (config.exit == Exit::swap_ab) place_windows(hooks, s);
    if (serpentine(problem, config, s)) serpentine_places(hooks);
    return hooked(places, hooks);
}

// Rows that begin anywhere: a thread asks their strides where they do.
Hooks hooks_of_unaligned_rows() {
    return {{"load",
             "load_unaligned_rows(unsigned char* shared, Barriers& b, const unsigned char* __restrict__ packed, const "
             "Sizes& s, "
             "const Strides& xs, const TensorMap* boxes"},
            {"strides", "xs, "},
            {"of_tile", "const Turns turns(at, s, xs, t);"},
            {"known", "turns, (int)xs.c"}};
}

std::string boxed_loads(const Problem& problem, const Config& config, const Schedule& s) {
    if (!problem.boxed()) return "";
    const bool unaligned = problem.load == LoadMode::unaligned_rows;
    const std::string text = "\n" + std::string(unaligned ? unaligned_rows : boxes) + std::string(transposers);
    if (unaligned) return hooked(text, hooks_of_unaligned_rows());
    if (problem.load == LoadMode::vector_boxes)
        return hooked(text, {{"word", "1"}, {"transpose", std::string(vector_boxes)}, {"bring", "bring_vectors"}});
    return hooked(text, serpentine(problem, config, s) ? serpentine_loads(s) : Hooks());
}

// Columns of a chunk change places by the residue of the fragment's row, as Schedule::residue_of.
std::string products_to_chunks(const Config& config, const Schedule& s, const Epilogue& epilogue) {
    const int skew = chunk_skew(epilogue, s, config);
    if (!epilogue.leaving().added.empty()) return hooked(product_role, asked_while_multiplying());
    if (skew == 0) return hooked(product_role);
    const std::string row = "(to + m * 16)", segment = row + " % " + num(s.block_rows) + " / " + num(s.segment);
    const std::string residue = s.phases_w <= s.segments
                                    ? segment + " % " + num(s.phases_w)
                                    : row + " / " + num(s.block_rows * s.rows_per_plane) + " % " +
                                          num(s.planes_per_bundle) + " * " + num(s.segments) + " + " + segment;
    return hooked(product_role, {{"skew", " ^ (" + residue + ") * " + num(skew)}});
}

// The kernel itself: it prepares shared memory, and its warps take their roles.
class EntryWriter {
public:
    EntryWriter(const Problem& problem, const Config& config, const Schedule& s, const Epilogue& epilogue)
        : problem_(problem), config_(config), s_(s), epilogue_(epilogue) {}

    std::string text(const std::string& entry) {
        t.line("extern \"C\" __global__ void __launch_bounds__(THREADS, 1) " + entry +
               "(const ELEMENT* __restrict__ x, const unsigned char* __restrict__ packed, Sizes s, Strides xs" +
               epilogue_.parameters() + (problem_.boxed() ? ", const __grid_constant__ TensorMap boxes" : "") + ") {");
        t.line("extern __shared__ __align__(1024) unsigned char shared[];");
        t.line("__shared__ Barriers b;");
        t.line("const int t = threadIdx.x;");
        t.line(epilogue_.operands_made());
        barriers();
        zeros();
        // What lies before this touches no memory of others: it runs while the kernel before ends.
        t.line("TF_SEQUENCE();");
        t.add(epilogue_.tables());
        t.line("__syncthreads();");
        roles();
        t.line("}");
        return t.str();
    }

private:
    void barriers() {
        t.line("if (t == 0) {");
        t.line("for (int i = 0; i < STAGES; i++) { barrier_init(shared_address(&b.full[i]), " +
               std::string(problem_.load == LoadMode::operand ? "1"
                           : problem_.boxed()                 ? "TRANSPOSERS"
                                                              : "LOADERS") +
               "); barrier_init(shared_address(&b.empty[i]), 256); }");
        t.line(
            "for (int i = 0; i < SLABS; i++) { barrier_init(shared_address(&b.weights_full[i]), FETCHERS); "
            "barrier_init(shared_address(&b.weights_empty[i]), 256); }");
        t.line(
            "for (int i = 0; i < BUFFERS; i++) { barrier_init(shared_address(&b.chunk_full[i]), JOINT ? 256 : 128); "
            "barrier_init(shared_address(&b.chunk_empty[i]), 128); }");
        if (problem_.transposed())
            t.line("for (int i = 0; i < RAW; i++) { barrier_init(shared_address(&b.raw_full[i]), " +
                   std::string(problem_.load == LoadMode::unaligned_rows ? "LANES" : "1") +
                   "); barrier_init(shared_address(&b.raw_empty[i]), TRANSPOSERS); }");
        t.line("barrier_fence();");
        t.line("}");
    }

    // Zeros that nobody writes again: beside and between the rows, or after the last. Where pixels are the rows of a
    // product, what lies behind the last makes no result but its own, which nobody stores.
    void zeros() {
        if (config_.flat) {
            t.line(
                "for (int i = t; i < STAGES * STAGE_BYTES / 16; i += THREADS) *(uint4*)(shared + STAGES_AT + i * 16) = "
                "make_uint4(0, 0, 0, 0);   // beside and between the rows zeros stay");
            t.line("fence_proxy();");
        } else if (s_.tail > 0 && config_.exit != Exit::swap_ab) {
            t.line(
                "for (int i = t; i < STAGES * VECTORS * TERMS * (PLANE - PIXELS); i += THREADS)   // zeros after the "
                "last row; nobody writes there again");
            const bool apart = s_.stage_bytes != s_.vectors * problem_.terms() * s_.plane * 16;
            t.line(std::string("*(uint4*)(shared + STAGES_AT + (i / (PLANE - PIXELS) * PLANE + PIXELS + i % (PLANE - "
                               "PIXELS)) * 16") +
                   (apart ? " + i / ((PLANE - PIXELS) * VECTORS * TERMS) * (STAGE_BYTES - VECTORS * TERMS * PLANE * 16)"
                          : "") +
                   ") = make_uint4(0, 0, 0, 0);");
            t.line("fence_proxy();");
        }
    }

    void roles() {
        t.line("const int role = __shfl_sync(~0u, t / 128, 0);");
        t.line("if (role == 0) { registers_give<" + num(config_.load_registers) + ">(); " +
               (problem_.load == LoadMode::unaligned_rows
                    ? "load_unaligned_rows(shared, b, packed, s, xs, &boxes, operands, t);"
                : problem_.boxed() ? "load_boxes(shared, b, packed, s, &boxes, operands, t);"
                                   : "load_role(shared, b, x, packed, s, xs, operands, t);") +
               " }");
        if (config_.store_groups > 0)
            t.line("else if (role <= STORE_GROUPS) { registers_give<" + num(config_.store_registers) +
                   ">(); store_role(shared, b, s, operands, role - 1, t % 128); }");
        const std::string products = "{ registers_take<" + num(config_.product_registers) + ">(); product_role<",
                          given = ">(shared, b, s, operands, ";
        if (config_.split == Split::phases) {  // each warpgroup has products of its own
            t.line("else if (role == STORE_GROUPS + 1) " + products + "0" + given + "0, t % 128); }");
            t.line("else if (role == STORE_GROUPS + 2) " + products + "1" + given + "1, t % 128); }");
        } else {  // one text for both: half to compile, half to fetch
            t.line("else " + products + "0" + given + "role - STORE_GROUPS - 1, t % 128); }");
        }
    }

    const Problem& problem_;
    const Config& config_;
    const Schedule& s_;
    const Epilogue& epilogue_;
    Lines t;
};

}  // namespace

std::string dense_source(const std::string& entry, const Problem& problem, const Config& config, const Schedule& s,
                         const Epilogue& epilogue) {
    std::string text = head(problem, config, s, epilogue.program()) + dense_constants(problem, config, s, epilogue) +
                       machine(problem, s);
    text.append(sizes).append(epilogue.operands());
    text.append(tile_places(problem, config, s)).append(epilogue.prologue(s.tile[0] == 1));
    text.append(patches).append(load_role).append(boxed_loads(problem, config, s));
    if (epilogue.stats() > 0) text.append(folds);
    text.append(products).append(multiply_function(problem, config, s)).append(fragment_program(epilogue, s, config));
    text.append(products_to_chunks(config, s, epilogue));
    if (config.store_groups > 0) text += store_role(epilogue, s, config) + "\n";
    return numbered_in_order(text + EntryWriter(problem, config, s, epilogue).text(entry));
}

}  // namespace transfuse::cuda
