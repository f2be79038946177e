#include "cuda/dense/exits/handover.h"

#include "cuda/dense/exits/accumulators/direct_stores.h"
#include "cuda/dense/exits/accumulators/fold.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/dense/exits/accumulators/reductions.h"
#include "cuda/dense/exits/accumulators/tma_stores.h"
#include "cuda/dense/exits/swap_ab/swap_ab_stores.h"
#include "cuda/kernel/lines.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view handed_over =
#include "cuda/device/exits/handed_over.cuh"
    ;

std::string chunks_program(const Epilogue& epilogue) {
    Lines t;
    const bool biased = epilogue.leaving().biased;
    int64_t table = 0;
    for (size_t k = 0; k < epilogue.reads().size() && biased; ++k)
        if (epilogue.reads()[k].value == epilogue.program().bias) table = epilogue.table_of(k);
    t.line("constexpr bool BIASED = " + std::string(biased ? "true;" : "false;"));
    t.constants({{"BIAS_AT", table * epilogue.channels()}});
    return t.str() + std::string(handed_over);
}

}  // namespace

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
            return chunks_program(epilogue);
    }
    fail("dense kernel: no such exit");
}

}  // namespace transfuse::cuda
