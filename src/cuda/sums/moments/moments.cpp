#include "cuda/sums/moments/moments.h"

#include "cuda/sums/moments/moments_rows.h"
#include "cuda/sums/moments/moments_writer.h"

namespace transfuse::cuda {

std::optional<GridProgram> generate_moments(const Surroundings& surroundings, const Places& places,
                                            const std::vector<std::pair<ValueId, Place>>& stores,
                                            std::string* why_not) {
    GridProgram result;
    int64_t scratch = 0;
    for (const TileStep& step : surroundings.pass.steps) {
        if (surroundings.plan.graph[step.value].op != Op::box_sums || step.scope == Scope::tail) continue;
        const std::string entry = "tf_moments" + std::to_string(result.program.launches.size());
        auto take = [&](auto& writer) {
            for (const auto& [value, place] : stores)
                if (value == step.value) writer.store_to(place);
            if (writer.stores()) result.stored.push_back(step.value);
            result.program.launches.push_back(writer.write());
            result.grid.emplace(step.value, writer.place());
            scratch = (scratch + writer.scratch_bytes() + 255) / 256 * 256;
        };
        RowSumsWriter rows(surroundings, places, step.value, scratch, entry);
        if (rows.arrange()) {
            take(rows);
            continue;
        }
        MomentsWriter writer(surroundings, places, step.value, scratch, entry);
        if (!writer.arrange(why_not)) return std::nullopt;
        take(writer);
    }
    result.program.scratch_bytes = static_cast<size_t>(scratch);
    for (Launch& launch : result.program.launches)
        result.program.note = result.program.note.str() + (result.program.note.empty() ? "" : "; ") + launch.note.str();
    return result;
}

}  // namespace transfuse::cuda
