#include "cuda/dense/choose/request.h"

#include <algorithm>

#include "cuda/dense/exits/accumulators/added_tensors.h"
#include "cuda/dense/exits/accumulators/direct_stores.h"
#include "cuda/dense/exits/accumulators/fold.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/dense/exits/accumulators/reductions.h"
#include "cuda/dense/exits/accumulators/tma_stores.h"
#include "cuda/dense/exits/handover.h"
#include "cuda/dense/exits/store/store_map.h"
#include "cuda/dense/exits/swap_ab/swap_ab_stores.h"
#include "cuda/dense/read/col2im.h"
#include "cuda/dense/schedule/specialization.h"

namespace transfuse::cuda {

Request::Request(TileProgram tile_program, const Problem& p)
    : program(std::move(tile_program)),
      problem(p),
      epilogue(program, problem),
      needs(program.needs(static_cast<int>(p.axes[3].period()))) {
    needs.table_bytes = epilogue.table_bytes(), needs.group_bytes = epilogue.group_bytes();
    needs.one_image = epilogue.one_image();
    needs.fragments = runs_in_fragments(epilogue);
    needs.folded = find_fold(program, epilogue);
    if (!on_accumulators()) leave_by_tma(tma_element(epilogue));
    program.handed_biased = !on_accumulators() && hands_over_biased(epilogue);
    needs.ahead = on_accumulators() || needs.whole_rows ? 0 : ahead_bytes(epilogue);
    direct = direct_element(epilogue);
    swap_ab = swap_ab_element(epilogue);
}

void Request::leave_by_tma(int element) {
    Few<size_t, 4> added = element > 0 ? added_tensors(epilogue) : Few<size_t, 4>();
    needs.tma = element, needs.added = static_cast<int>(added.size());
    if (element > 0) needs.fragments = true;
    epilogue.leave_by_tma(element > 0 ? box_maps(problem) : 0, std::move(added));
}

std::optional<Needs> Request::direct_needs() const {
    if (direct == 0) return std::nullopt;
    Needs other = needs;
    other.direct = direct, other.fragments = true, other.tma = other.added = 0, other.folded = 0, other.ahead = 0;
    return other;
}

void Request::store_directly() {
    needs = *direct_needs();
    epilogue.leave_by_tma(0);
}

std::optional<Needs> Request::swap_ab_needs() const {
    if (swap_ab == 0) return std::nullopt;
    Needs other = needs;
    other.swap_ab = swap_ab, other.fragments = true, other.tma = other.added = 0, other.folded = 0, other.ahead = 0,
    other.reduced = false;
    return other;
}

void Request::turn() {
    needs = *swap_ab_needs();
    epilogue.leave_by_tma(0);
    program.fold = program.handed = -1, program.handed_biased = false;
    program.before_fold.clear(), program.before_handed.clear();
}

void Request::through_chunks() {
    leave_by_tma(0);
    needs.fragments = false, needs.direct = 0, needs.folded = 0;
    needs.ahead = needs.whole_rows ? 0 : ahead_bytes(epilogue);
    program.fold = -1, program.before_fold.clear();
}

bool Request::relax() {
    if (needs.ahead > 0)
        needs.ahead = 0;
    else if (on_accumulators())
        through_chunks();
    else
        return false;
    return true;
}

// Neighbouring outputs along w that one store thread takes: as wide as rows and element allow, in whole pixels.
static int store_vector(const TileProgram& program, const Problem& problem) {
    if (program.stores.empty() || program.pool) return 1;
    const Operand& main = program.stores[0];
    const int64_t period = problem.axes[3].period(),
                  row = main.strides[4] == 1 ? main.strides[3] ? main.strides[3] : problem.axes[3].out : 1;
    const int widest = std::min(program.reduces_in_chunks() ? 2 : 4, 16 / problem.real_bytes());
    for (int v = widest; v > 1; v /= 2)
        if (v % period == 0 && row % v == 0 && main.strides[4] == 1) return v;
    return 1;
}

std::optional<ReadPass> read_pass(const Surroundings& around, Family family, std::string* why_not, Col2imAxes col2im) {
    auto program = read_tile_program(around, why_not);
    if (!program) return std::nullopt;
    auto problem = read_problem(around, *program, family, why_not);
    if (!problem) return std::nullopt;
    if (col2im) to_col2im(*program, *problem, col2im);
    find_handed(*program, *problem);
    program->vector = store_vector(*program, *problem);
    return ReadPass{std::move(*program), *problem};
}

std::unique_ptr<Request> request_of(ReadPass read, const Surroundings& around, const TextOptions& options) {
    auto& [program, problem] = read;
    if (options.larger && tf32_pays(around, problem, true)) problem.arithmetic = Arithmetic::tf32;
    if (options.loose || options.spec) {
        const Specialization own{problem.load, program.vector, problem.arithmetic, problem.any_size};
        const Specialization specialization =
            options.spec ? options.spec->specialization : loosest(own, problem.axes[3]);
        if (!serves(specialization, own, problem.axes[3], around.precision)) return nullptr;
        problem.load = specialization.load, problem.arithmetic = specialization.arithmetic,
        problem.any_size = specialization.any_size;
        program.vector = specialization.vector;
    }
    return std::make_unique<Request>(std::move(program), problem);
}

std::unique_ptr<Request> read_request(const Surroundings& around, Family family, std::string* why_not,
                                      const TextOptions& options) {
    auto read = read_pass(around, family, why_not, options.col2im);
    return read ? request_of(std::move(*read), around, options) : nullptr;
}

}  // namespace transfuse::cuda
