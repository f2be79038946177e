// Which tile programs run on accumulators, and who writes their results.
#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/exits/accumulators/fragments.h"

namespace transfuse::cuda {

// The chain is written out for every accumulator, of every phase.
static bool fits_accumulators(const Epilogue& epilogue) {
    return epilogue.problem().family == Family::wgmma &&  // others' warps hold other pixels
           epilogue.program().chain_instructions <= 60 && epilogue.problem().every_phase_has_taps();
}

const Operand* stored_by_product_warps(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (problem.groups > 1 || program.pool || !program.around->aligned) return nullptr;
    if (epilogue.stores().size() != 1 || !epilogue.partials().empty() || !fits_accumulators(epilogue)) return nullptr;
    const Operand& store = epilogue.stores()[0];
    for (size_t a = 0; a < 4; ++a)
        if (problem.axes[a].out > 1 && store.strides[a == 0 ? 0 : a + 1] <= 0) return nullptr;
    return store.root < 0 ? nullptr : &store;
}

bool runs_in_fragments(const Epilogue& epilogue) {
    const TileProgram& program = epilogue.program();
    const Problem& problem = epilogue.problem();
    if (program.channel_reductions || !epilogue.stores().empty() || epilogue.partials().empty()) return false;
    if (!fits_accumulators(epilogue)) return false;
    for (const Partial& p : epilogue.partials()) {
        const Op op = p.reduction.op;
        if (!p.reduction.whole || (op == Op::logsumexp && program.chain_instructions > 30))
            return false;  // its values are looked at twice
        if (epilogue.graph()[p.reduction.of].type.shape[1] != epilogue.channels()) return false;
    }
    for (ValueId v : program.steps)
        if (!fragment_operands(epilogue, v)) return false;
    if (!program.pool) return true;
    const Needs needs = program.needs(static_cast<int>(problem.axes[3].period()));
    int64_t phases = 1;
    for (size_t a = 1; a < 4; ++a) {
        const int64_t period = problem.axes[a].period();
        phases *= period;
        if (needs.pool[a] % period != 0) return false;  // some phases apart, others together
    }
    const int64_t reach = needs.pool[3] / problem.axes[3].period();
    const int64_t side = problem.cout <= 8    ? 8
                         : problem.cout <= 16 ? 4
                         : problem.cout <= 32 ? 2
                                              : 1;  // phases in the rows of an accumulator
    if (reach != 1 && reach != 2 && reach != 4 && reach != 8) return false;
    // Every row of an accumulator has a phase.
    const int64_t along_w = problem.axes[3].period(), outer = phases / along_w;
    return side % along_w == 0 ? outer % (side / along_w) == 0 : along_w % side == 0;
}

int fragment_writers(const Config& config) { return config.split == Split::channels ? 1 : 2; }

// With several blocks of channels a thread's rows change from tile to tile.
bool fragment_rows_per_tile(const Epilogue& epilogue, const Schedule& schedule) {
    return epilogue.per_tile() || schedule.fixed > 1;
}

}  // namespace transfuse::cuda
