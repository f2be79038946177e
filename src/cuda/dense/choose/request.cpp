#include "cuda/dense/choose/request.h"

#include <algorithm>

#include "cuda/dense/exits/accumulators/added_tensors.h"
#include "cuda/dense/exits/store/store_map.h"
#include "cuda/dense/schedule/specialization.h"

namespace transfuse::cuda {

Request::Request(TileProgram tile_program, const Problem& p, std::optional<Handed> handed)
    : program(std::move(tile_program)),
      problem(p),
      epilogue(program, problem),
      needs(program.needs(static_cast<int>(p.axes[3].period()))),
      exits(exits_of(epilogue, std::move(handed))) {
    needs.table_bytes = epilogue.table_bytes(), needs.group_bytes = epilogue.group_bytes();
    needs.one_image = epilogue.one_image();
    leave_by(exits.first);
}

Needs Request::needs_by(Exit exit) const {
    Needs other = needs;
    other.exit = exit;
    other.added = exit == Exit::tma ? static_cast<int>(added_tensors(epilogue).size()) : 0;
    other.folded = exit == Exit::fold ? exits.fold->handed : 0;
    other.ahead = exit == exits.behind() && !needs.whole_rows ? ahead_bytes(epilogue) : 0;
    return other;
}

void Request::leave_by(Exit exit) {
    needs = needs_by(exit);
    epilogue.leave(exits.by(exit, epilogue));
}

bool Request::relax() {
    if (needs.ahead > 0)
        needs.ahead = 0;
    else if (needs.exit != exits.behind())
        leave_by(exits.behind());
    else
        return false;
    return true;
}

// Neighbouring outputs along w that one store thread takes: as wide as rows and element allow, in whole pixels.
static int store_vector(const TileProgram& program, const Problem& problem, bool reduces_in_chunks) {
    if (program.stores.empty() || program.pool) return 1;
    const Operand& main = program.stores[0];
    const int64_t period = problem.axes[3].period(),
                  row = main.strides[4] == 1 ? main.strides[3] ? main.strides[3] : problem.axes[3].out : 1;
    const int widest = std::min(reduces_in_chunks ? 2 : 4, 16 / problem.real_bytes());
    for (int v = widest; v > 1; v /= 2)
        if (v % period == 0 && row % v == 0 && main.strides[4] == 1) return v;
    return 1;
}

std::optional<ReadPass> read_pass(const Surroundings& around, Family family, std::string* why_not,
                                  const SumParts& parts) {
    auto program = read_tile_program(around, why_not);
    if (!program) return std::nullopt;
    auto problem = read_problem(around, *program, family, why_not);
    if (!problem) return std::nullopt;
    if (parts) make_in_parts(*program, *problem, parts);
    auto handed = handed_of(*program, *problem);
    program->vector = store_vector(*program, *problem, program->channel_reductions && !handed);
    return ReadPass{std::move(*program), *problem, std::move(handed)};
}

std::unique_ptr<Request> request_of(ReadPass read, const Surroundings& around, const TextOptions& options) {
    auto& [program, problem, handed] = read;
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
    return std::make_unique<Request>(std::move(program), problem, std::move(handed));
}

std::unique_ptr<Request> read_request(const Surroundings& around, Family family, std::string* why_not,
                                      const TextOptions& options) {
    auto read = read_pass(around, family, why_not, options.parts);
    return read ? request_of(std::move(*read), around, options) : nullptr;
}

}  // namespace transfuse::cuda
