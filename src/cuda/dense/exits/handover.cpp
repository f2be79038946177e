#include "cuda/dense/exits/handover.h"

#include "cuda/dense/exits/accumulators/direct_stores.h"
#include "cuda/dense/exits/accumulators/fold.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/dense/exits/accumulators/reductions.h"
#include "cuda/dense/exits/accumulators/tma_stores.h"
#include "cuda/dense/exits/swap_ab/swap_ab_stores.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

// The bias of a lane's two rows.
static std::string bias_program(const Epilogue& epilogue) {
    Lines t;
    std::string at;
    for (size_t k = 0; k < epilogue.reads().size(); ++k)
        if (epilogue.reads()[k].value == epilogue.program().bias) at = num(epilogue.table_of(k) * epilogue.channels());
    t.line("constexpr bool FRAGMENTS = false, FOLDED = false, BIASED = true;");
    t.line("// Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the rows r and r + 8.");
    t.line("template <int WG> struct Fragments {");
    t.line("const REAL* bias;");
    t.line("REAL of_rows[2];");
    t.line(
        "__device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes&, const Operands&, int "
        "warpgroup, int t) : bias((const REAL*)(shared + TABLES_AT) + " +
        at + " + (SPLIT_CHANNELS ? warpgroup * 64 : 0) + t / 32 * 16 + t % 32 / 4) {}");
    t.line("__device__ __forceinline__ void rows(const Place& at) {");
    t.line("const REAL* from = bias + at.fixed / MGROUPS * COUT + at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64);");
    t.line("of_rows[0] = from[0], of_rows[1] = from[8];");
    t.line("}");
    t.line(
        "__device__ __forceinline__ void add(REAL* block) const { block[0] += of_rows[0], block[1] += of_rows[0], "
        "block[2] += of_rows[1], block[3] += of_rows[1]; }");
    t.line("};");
    return t.str();
}

std::string fragment_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    switch (config.exit) {
        case Exit::swap_ab:
            return swap_ab_program(epilogue, config, schedule);
        case Exit::direct:
            return direct_program(epilogue, schedule);
        case Exit::tma:
            return tma_program(epilogue, schedule, config);
        case Exit::statistics:
            return statistics_program(epilogue, schedule, config);
        case Exit::reduced:
            return reduction_program(epilogue);
        case Exit::fold:
            return fold_program(epilogue);
        case Exit::store:
            break;
    }
    if (epilogue.leaving().biased) return bias_program(epilogue);
    return "constexpr bool FRAGMENTS = false, FOLDED = false, BIASED = false;   // the store role runs the tile "
           "program\n"
           "template <int WG> struct Fragments {\n"
           "    __device__ __forceinline__ Fragments(const unsigned char*, const Sizes&, const Operands&, int, int) "
           "{}\n"
           "};\n";
}

}  // namespace transfuse::cuda
